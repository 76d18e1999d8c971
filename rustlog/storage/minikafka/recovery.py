"""
Opening a partition of MiniKafka's, after whatever happened.

There are two cases.

- B{The log is what it is}: it comes from MiniKafka, or was closed in good order and MiniKafka may have
  written to it since.  Then everything that is there belongs to it.  Only what is torn at its very end is cut
  off; damaged records stay where they are, are reported, and never served.
- B{This store was not closed.}  Then the log ends with the last batch that the log and the
  L{journal <rustlog.storage.minikafka.journal>} have in full.  Nobody was told of anything behind it.
"""

from __future__ import annotations

from functools import partial
from pathlib import PurePath
from zlib import crc32

from attrs import define
from twisted.logger import Logger

from rustlog.model import TopicPartition
from rustlog.storage.minikafka.format import walk
from rustlog.storage.minikafka.journal import Entry, journals, read_entries
from rustlog.storage.minikafka.layout import RecordLayout
from rustlog.storage.segments.checkpoint import Checkpoint
from rustlog.storage.segments.partition import Recovered
from rustlog.storage.segments.reading import Damage, read_waiting
from rustlog.storage.segments.recovery import Recovery, Surroundings, living_segments, remove_leftovers
from rustlog.storage.segments.segment import Segment

_log = Logger()


def recover(
    around: Surroundings,
    name: TopicPartition,
    directory: PurePath,
    checkpoint: Checkpoint | None,
    aside: PurePath,
    belongs: bool,
) -> Recovered:
    """
    Find the state of a partition; what was cut off is not synced yet.  Blocks.

    @param aside: where its indexes and journals are.
    @param belongs: whether everything that is in the log belongs to it.
    """
    names = around.files.names(directory)
    bases = living_segments(names, checkpoint)
    remove_leftovers(around.files, directory, names, bases)
    first = checkpoint.next_offset if checkpoint is not None else 0
    entries = list(read_entries(around.files, journals(around.files, aside, name.partition), first))
    layout = RecordLayout(aside, name.partition)
    recovery = MiniKafkaRecovery(around, name, directory, checkpoint, layout)
    recovery.entries, recovery.belongs = entries, belongs
    return recovery.run(bases)


@define
class _Pending:
    """Entries of the log that count as soon as the last one of their batch is there."""

    position: int
    entries: list[tuple[int, int, int]]


class MiniKafkaRecovery(Recovery):
    """The recovery of one partition."""

    entries: list[Entry]
    belongs: bool

    # -- what is not in the log --

    def _forget_from(self, first: int) -> None:
        """The log does not tell it again."""

    def _replay(self, end: int) -> None:
        for entry in self.entries:
            batch = entry.batch
            if batch.next_offset <= end:
                self._producers.record(batch, batch.base_offset, entry.arrived_ms)
                self._epochs.begin(batch.leader_epoch, batch.base_offset)
        self._producers.truncate_from(end)
        self._epochs.truncate_from(end)
        if not self._epochs.snapshot():
            self._epochs.begin(0, 0)

    # -- everything belongs to the log --

    def _check_all(self, segments: list[Segment], bases: list[int], trusted: Checkpoint | None) -> int:
        if not self.belongs:
            return super()._check_all(segments, bases, trusted)
        end = trusted.next_offset if trusted is not None else self._first_to_check(bases)
        for number, base in enumerate(bases):
            if number:
                segments[-1].seal()
                end = base
            segments.append(self._begin(base, None if number else trusted))
            end = self._take_in(segments[-1], self._size(base), end, is_last=base == bases[-1])
        return end

    def _take_in(self, segment: Segment, size: int, expected: int, is_last: bool) -> int:
        """Make the indexes of a segment, damaged or not; the offset that follows its last record."""
        interval, wrong = self._around.index_interval, 0
        bad_tail: tuple[int, int, int] | None = None
        start = segment.size
        try:
            for _, record_size, record, is_right in walk(
                partial(read_waiting, segment.log), start, size, expected
            ):
                if bad_tail is not None:
                    segment.note(*bad_tail, interval)
                    wrong += 1
                    bad_tail = None
                expected += 1
                found = (expected - 1, record_size, record.timestamp)
                if is_right:
                    segment.note(*found, interval)
                else:
                    bad_tail = found
        except Damage as damage:
            if not is_last:
                self._report("{path} is damaged: {reason}", path=str(segment.log.path), reason=damage.reason)
        if wrong:
            self._report(
                "{count} payloads in {path} are damaged; they are not served",
                count=wrong, path=str(segment.log.path),
            )  # fmt: skip
        self._checked_bytes += segment.size - start
        if segment.size < size and is_last:
            expected -= bad_tail is not None
            self._cut_tail(segment, size, expected)
        segment.size = segment.size if is_last else size
        return expected

    def _cut_tail(self, segment: Segment, size: int, end: int) -> None:
        """Whose bytes these are is not certain: unless they are the beginning of a record, keep a copy."""
        header = read_waiting(segment.log, segment.size, self._layout.header_bytes)
        is_whole = len(header) == self._layout.header_bytes
        if is_whole and self._layout.header(header, 0, segment.size) is None:
            self._put_aside(segment.log.file, segment.base_offset, segment.size, size)
            segment.log.file.truncate(segment.size)
            self._checked_bytes += size - segment.size
        else:
            self._cut(segment, size, end)

    # -- only what the journal has belongs to it --

    def _check(self, segment: Segment, size: int, expected: int) -> int:
        synced = self._checkpoint.next_offset if self._checkpoint is not None else 0
        ends = {entry.batch.next_offset: entry for entry in self.entries}
        pending = _Pending(segment.size, [])
        try:
            for position, record_size, record, is_right in walk(
                partial(read_waiting, segment.log), segment.size, size, expected
            ):
                if not is_right:
                    break
                offset = expected + len(pending.entries)
                pending.entries.append((offset, record_size, record.timestamp))
                end = position + record_size
                if offset < synced or self._is_complete(segment, pending, end, ends.get(offset + 1)):
                    expected = offset + 1
                    self._take_pending(segment, pending, end)
                    pending = _Pending(end, [])
        except Damage:
            pass  # Whatever it is, the log ends before it.
        if segment.size < size:
            self._cut_unknown(segment, size, expected, pending)
        return expected

    def _is_complete(self, segment: Segment, pending: _Pending, end: int, entry: Entry | None) -> bool:
        """Whether the records that have been found are the batch that the journal says."""
        if entry is None or entry.batch.base_offset != pending.entries[0][0]:
            return False
        content = read_waiting(segment.log, pending.position, end - pending.position)
        return crc32(content) == entry.checksum

    def _take_pending(self, segment: Segment, pending: _Pending, end: int) -> None:
        segment.verified.add(pending.position, end)
        for entry in pending.entries:
            segment.note(*entry, self._around.index_interval)
        self._checked_bytes += end - pending.position

    def _cut_unknown(self, segment: Segment, size: int, end: int, pending: _Pending) -> None:
        """Remove what stands behind the last batch; keep a copy of whole records that no journal knows."""
        known = max((entry.batch.next_offset for entry in self.entries), default=end)
        if not pending.entries or known > end:
            self._cut(segment, size, end)
            return
        _log.warn(
            "{partition}: {count} records from offset {offset} on were never acknowledged, and are cut off",
            partition=str(self._name), count=len(pending.entries), offset=end,
        )  # fmt: skip
        self._put_aside(segment.log.file, segment.base_offset, segment.size, size)
        segment.log.file.truncate(segment.size)
        self._checked_bytes += size - segment.size
