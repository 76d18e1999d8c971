"""
Opening a partition after whatever happened: what is there, and where to go on.

Everything before the checkpoint was synced and is trusted; it is verified when it
is first read.  Everything behind it is checked now, batch by batch.  The log ends before the first
batch that is not right: a torn one is what a crash leaves and is cut off.  If more than
that has to go, it was damage; then the bytes are put aside, for people to look at.
"""

from __future__ import annotations

from functools import partial
from pathlib import PurePath
from typing import Any

from attrs import frozen
from twisted.logger import Logger

from rustlog.interfaces import IFile, IFiles
from rustlog.log.batch import RecordBatch
from rustlog.log.epochs import LeaderEpochs
from rustlog.log.producers import ProducerTable
from rustlog.model import TopicPartition
from rustlog.storage.handles import Handles
from rustlog.storage.segments.checkpoint import Checkpoint
from rustlog.storage.segments.files import LOG_SUFFIX, base_offsets, is_segment_file, segment_path
from rustlog.storage.segments.layout import BATCHES, Layout
from rustlog.storage.segments.partition import Recovered
from rustlog.storage.segments.reading import Damage, read_waiting
from rustlog.storage.segments.segment import Segment
from rustlog.storage.segments.walking import CHUNK_BYTES, EXAMINED_BYTES_MAX

_log = Logger()


@frozen
class Surroundings:
    """What recovery needs beside the partition itself; C{damaged} is where cut off bytes go."""

    files: IFiles
    handles: Handles
    damaged: PurePath
    now_ms: int
    leader_epoch: int
    index_interval: int


def recover(
    around: Surroundings, name: TopicPartition, directory: PurePath, checkpoint: Checkpoint | None
) -> Recovered:
    """Find the state of a partition; what was cut off is not synced yet.  Blocks."""
    names = around.files.names(directory)
    bases = living_segments(names, checkpoint)
    remove_leftovers(around.files, directory, names, bases)
    return Recovery(around, name, directory, checkpoint).run(bases)


def living_segments(names: list[str], checkpoint: Checkpoint | None) -> list[int]:
    """The base offsets of the segments that are not wholly before the start of the log."""
    start = checkpoint.log_start_offset if checkpoint is not None else 0
    bases = base_offsets(names)
    while len(bases) > 1 and bases[1] <= start:
        del bases[0]
    return bases


def remove_leftovers(files: IFiles, directory: PurePath, names: list[str], bases: list[int]) -> None:
    """Finish what a retention has begun: a crash may leave any of its files."""
    kept = {str(base) for base in bases}
    for name in names:
        if is_segment_file(name) and name.partition(".")[0] not in kept:
            files.unlink(directory / name)


class Recovery:
    """The recovery of one partition; those of other formats differ in what they check and replay."""

    def __init__(
        self,
        around: Surroundings,
        name: TopicPartition,
        directory: PurePath,
        checkpoint: Checkpoint | None,
        layout: Layout = BATCHES,
    ) -> None:
        self._layout = layout
        self._around = around
        self._name = name
        self._directory = directory
        self._checkpoint = checkpoint
        self._producers = ProducerTable.restore(checkpoint.producers if checkpoint is not None else ())
        self._epochs = LeaderEpochs.restore(checkpoint.epochs if checkpoint is not None else ())
        self._checked_bytes = 0
        self._lost = False

    def run(self, bases: list[int]) -> Recovered:
        trusted = self._trusted_checkpoint(bases)
        first = self._first_to_check(bases)
        if trusted is None:
            self._forget_from(first)
        segments = [self._sealed(base) for base in bases if base < first]
        end = self._check_all(segments, [base for base in bases if base >= first], trusted)
        self._replay(end)
        checkpoint = self._checkpoint
        if checkpoint is not None and end < checkpoint.next_offset:
            self._lost = True
            self._report("offsets {end} to {last} are lost", end=end, last=checkpoint.next_offset - 1)
        start = max(
            segments[0].base_offset if segments else end,
            checkpoint.log_start_offset if checkpoint is not None else 0,
        )
        return Recovered(
            segments,
            self._producers,
            self._epochs,
            log_start_offset=start,
            log_end_offset=max(start, end),
            checkpoint=None if self._lost else checkpoint,
            lost=self._lost,
            checked=[each for each in segments if each.base_offset >= first],
            checked_bytes=self._checked_bytes,
        )

    def _forget_from(self, first: int) -> None:
        """What is checked from here on tells the same again, as far as it is still there."""
        self._producers.truncate_from(first)
        self._epochs.truncate_from(first)

    def _replay(self, end: int) -> None:
        """All that there is has been checked: take in what is not in the log itself."""

    # -- where to begin --

    def _trusted_checkpoint(self, bases: list[int]) -> Checkpoint | None:
        """The checkpoint, if its position is still there to go on from."""
        checkpoint = self._checkpoint
        if checkpoint is None:
            return None
        if checkpoint.segment in bases and self._size(checkpoint.segment) >= checkpoint.position:
            return checkpoint
        if checkpoint.position and not (bases and bases[0] > checkpoint.segment):
            # Neither was it empty, nor has retention removed it since.
            self._lost = True
            self._report("segment {segment} is not what it was", segment=checkpoint.segment)
        return None

    def _first_to_check(self, bases: list[int]) -> int:
        """The segment in which checking begins; where there is none, the offset to begin with."""
        if self._checkpoint is None:
            return bases[0] if bases else 0
        if not bases:
            # Offsets that were given once are not given again.
            return self._checkpoint.next_offset
        before = [base for base in bases if base <= self._checkpoint.segment]
        return before[-1] if before else bases[0]

    # -- checking --

    def _check_all(self, segments: list[Segment], bases: list[int], trusted: Checkpoint | None) -> int:
        """Check segments and add them to the trusted ones; the offset at which the log ends."""
        end = trusted.next_offset if trusted is not None else self._first_to_check(bases)
        for number, base in enumerate(bases):
            if number and base != end:
                self._put_aside_segments(bases[number:])
                break
            if number:
                segments[-1].seal()
            segments.append(self._begin(base, None if number else trusted))
            end = self._check(segments[-1], self._size(base), end)
        return end

    def _begin(self, base: int, trusted: Checkpoint | None) -> Segment:
        """A segment as it was at the checkpoint, or with nothing in it yet."""
        if trusted is None:
            return self._segment(base, created_ms=self._around.now_ms, index_entries=0, time_entries=0)
        segment = self._segment(
            base,
            size=trusted.position, created_ms=trusted.created_ms,
            index_entries=trusted.index_entries, time_entries=trusted.time_entries,
        )  # fmt: skip
        if trusted.max_timestamp is not None:
            segment.max_timestamp_entry = (trusted.max_timestamp, trusted.max_timestamp_offset)
        for index in (segment.offsets, segment.times):
            if self._size_of(index.handle.path) < index.flushed_bytes:
                segment.rebuild_indexes(f"{index.handle.path.name} is shorter than it was")
                break
        return segment

    def _check(self, segment: Segment, size: int, expected: int) -> int:
        """Take in the right batches behind what C{segment} has; the offset that follows them."""
        read = partial(read_waiting, segment.log)
        try:
            for _, _, batch in self._layout.checked(read, segment.size, size, expected):
                if not self._is_plausible(batch.leader_epoch):
                    break
                self._take(segment, batch)
                expected = batch.next_offset
        except Damage:
            pass  # Whatever it is, the log ends before it.
        if segment.size < size:
            self._cut(segment, size, expected)
        return expected

    def _take(self, segment: Segment, batch: RecordBatch) -> None:
        around, offset = self._around, batch.base_offset
        segment.verified.add(segment.size, segment.size + batch.size)
        segment.note(offset, batch.size, batch.max_timestamp, around.index_interval)
        self._producers.record(batch, offset, around.now_ms)
        self._epochs.begin(batch.leader_epoch, offset)
        self._checked_bytes += batch.size

    def _is_plausible(self, leader_epoch: int) -> bool:
        """Epochs lie outside the checksum: that they only grow is what guards them."""
        return max(0, self._epochs.current) <= leader_epoch <= self._around.leader_epoch

    # -- cutting --

    def _cut(self, segment: Segment, size: int, end: int) -> None:
        """Remove what stands behind the last right batch."""
        examined = min(size - segment.size, EXAMINED_BYTES_MAX)
        rest = segment.log.file.read(segment.size, examined)
        if self._layout.another_follows(rest, end):
            self._lost = True
            self._report("the log is damaged at offset {offset}, and ends there now", offset=end)
            self._put_aside(segment.log.file, segment.base_offset, segment.size, size)
        else:
            _log.info(
                "{partition}: cut off {size} bytes of a batch that was never completed, at offset {offset}",
                partition=str(self._name), size=size - segment.size, offset=end,
            )  # fmt: skip
        segment.log.file.truncate(segment.size)
        self._checked_bytes += size - segment.size

    def _put_aside(self, file: IFile, base: int, start: int, end: int) -> None:
        """Copy a part of a segment to the place for damaged bytes."""
        files, target = self._around.files, self._aside(base, start)
        files.make_directory(target.parent)
        copy = files.open(target, create=True)
        try:
            copy.truncate(0)
            while start < end:
                piece = file.read(start, min(CHUNK_BYTES, end - start))
                copy.append([piece])
                start += len(piece)
            copy.sync()
        finally:
            copy.close()
        files.sync_directory(target.parent)
        files.sync_directory(target.parent.parent)
        self._report("what was cut off is in {path}", path=str(target))

    def _put_aside_segments(self, bases: list[int]) -> None:
        """Remove segments that do not continue the log; a crash leaves empty ones."""
        files = self._around.files
        for base in bases:
            path = segment_path(self._directory, base, LOG_SUFFIX)
            if self._size(base):
                self._lost = True
                self._report("segment {segment} does not continue the log", segment=base)
                target = self._aside(base, 0)
                files.make_directory(target.parent)
                files.rename(path, target)
                files.sync_directory(target.parent)
                self._report("the segment is in {path} now", path=str(target))
            else:
                files.unlink(path)

    def _aside(self, base: int, position: int) -> PurePath:
        return self._around.damaged / f"{self._name}-{base}-at-{position}-{self._around.now_ms}{LOG_SUFFIX}"

    # -- helpers --

    def _sealed(self, base: int) -> Segment:
        return self._segment(base, size=self._size(base))

    def _segment(self, base: int, **facts: Any) -> Segment:
        return Segment(self._around.handles, self._directory, base, layout=self._layout, **facts)

    def _size(self, base: int) -> int:
        return self._size_of(segment_path(self._directory, base, LOG_SUFFIX))

    def _size_of(self, path: PurePath) -> int:
        files = self._around.files
        return files.size(path) if files.exists(path) else 0

    def _report(self, message: str, **facts: object) -> None:
        _log.error("{partition}: " + message, partition=str(self._name), **facts)
