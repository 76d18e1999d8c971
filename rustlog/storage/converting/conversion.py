"""
L{convert}: the whole of a conversion.

The target says that it is unfinished until everything in it has been read again and found to be the same as
in the source.  Whenever a conversion is interrupted, calling it again goes on with the last record that is
whole.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import attrs
from attrs import define, field, frozen

from rustlog.errors import StartupError
from rustlog.interfaces import IFiles, IRandomSource
from rustlog.model import CONSUMER_OFFSETS, Record, TopicInfo
from rustlog.storage.converting.reading import Source, Tally, check_source, read_runs
from rustlog.storage.converting.writing import CONVERSION, PartitionWriter, claim, format_of
from rustlog.storage.datadir import CONVERTIBLE, FORMAT, LOCK, LOGS, MINIKAFKA, SEGMENTS, STATE
from rustlog.storage.documents import DamagedDocument, read_document, write_documents
from rustlog.storage.minikafka import opening as minikafka
from rustlog.storage.segments import opening as segments
from rustlog.storage.segments.checkpoint import Checkpoint
from rustlog.storage.segments.files import base_offsets
from rustlog.storage.segments.inspection import StoredPartition
from rustlog.storage.topicdocuments import (
    CHECKPOINTS,
    SUFFIX,
    TOPICS,
    TRASH,
    topic_from_members,
    topic_to_members,
)

OFFSETS = "offsets"
"""Where C{--offsets=file} keeps what groups have committed."""

_VERSIONS = {SEGMENTS: segments.FORMAT_VERSION, MINIKAFKA: minikafka.FORMAT_VERSION}
_COPY_BYTES = 1024 * 1024

Advance = Callable[[int], object]
"""Hears of so many further bytes of the source."""


@frozen
class Options:
    """
    What is to be converted.

    @ivar lossy: whether headers may be dropped, and null values become empty, where the target can not hold
        them.
    """

    source: PurePath
    target: PurePath
    old: str
    new: str
    lossy: bool = False

    def facts(self) -> dict[str, Any]:
        return {"source": str(self.source), "from": self.old, "to": self.new}


@define
class Report:
    """
    What a conversion has done.

    @ivar was_finished: whether there was nothing left to do.
    @ivar changed: how many records lost headers, or had a null value.
    @ivar segments_max: how many segments the partition with most of them has.
    """

    topics: int = 0
    partitions: int = 0
    records: int = 0
    changed: int = 0
    segments_max: int = 0
    was_finished: bool = False
    was_continued: bool = False
    tallies: dict[str, dict[str, Any]] = field(factory=dict)


def convert(
    files: IFiles,
    random: IRandomSource,
    options: Options,
    copied: Advance = lambda size: None,
    verified: Advance = lambda size: None,
) -> Report:
    """
    Do it, or go on with it.  Blocks.

    @raise StartupError: with the one line that says why not.
    """
    try:
        return _convert(files, random, options, copied, verified)
    except OSError as error:
        raise StartupError(f"cannot convert {options.source}: {error}") from error


def _convert(
    files: IFiles, random: IRandomSource, options: Options, copied: Advance, verified: Advance
) -> Report:
    _judge(options)
    check_source(files, options.source, options.old)
    source_lock = _lock(files, options.source)
    try:
        source = Source(files, options.source, options.old)
        files.make_directory(options.target)
        files.sync_directory(options.target.parent)
        target_lock = _lock(files, options.target)
        try:
            finished = claim(files, options.target, options.facts())
            if finished is not None:
                return Report(**finished["report"], was_finished=True)
            return _Conversion(files, random, options, source, copied, verified).run()
        finally:
            target_lock.close()
    finally:
        source_lock.close()


def _judge(options: Options) -> None:
    for name in (options.old, options.new):
        if name not in CONVERTIBLE:
            raise StartupError(f"there is no format {name!r}; there are: {', '.join(CONVERTIBLE)}")
    if options.old == options.new:
        raise StartupError(f"{options.source} is to become what it is: {options.old}")
    if options.source == options.target or options.source in options.target.parents:
        raise StartupError(f"{options.target} lies within {options.source}; choose another directory")


def _lock(files: IFiles, root: PurePath) -> Any:
    try:
        return files.lock(root / LOCK)
    except BlockingIOError:
        raise StartupError(f"{root} is in use by another process; stop it first") from None


class _Conversion:
    """One attempt."""

    def __init__(
        self,
        files: IFiles,
        random: IRandomSource,
        options: Options,
        source: Source,
        copied: Advance,
        verified: Advance,
    ) -> None:
        self._files = files
        self._random = random
        self._options = options
        self._source = source
        self._copied = copied
        self._verified = verified
        self._report = Report()

    def run(self) -> Report:
        tallies: list[tuple[StoredPartition, Tally]] = []
        for topic in self._source.topics():
            new = self._target_topic(topic)
            self._report.topics += 1
            for partition in self._source.partitions(topic):
                self._report.partitions += 1
                tallies.append((partition, self._copy(new, partition)))
        self._copy_offsets()
        self._write_state()
        for partition, expected in tallies:
            self._verify(partition, expected)
        self._finish()
        return self._report

    # -- topics --

    def _target_topic(self, topic: TopicInfo) -> TopicInfo:
        """The topic as it is over there; its id stays the same in every attempt."""
        path = self._options.target / TOPICS / f"{topic.name}{SUFFIX}"
        try:
            members = read_document(self._files, path)
        except DamagedDocument as damage:
            raise StartupError(str(damage)) from None
        if members is not None:
            return topic_from_members(members, path)
        if not topic.id.int:
            # It comes from MiniKafka itself, which has no ids, and keeps records however old they are.
            topic = attrs.evolve(topic, id=self._random.uuid(), config=dict(minikafka.ADOPTED_CONFIG))
        write_documents(self._files, {path: topic_to_members(topic)})
        return topic

    # -- copying --

    def _copy(self, topic: TopicInfo, partition: StoredPartition) -> Tally:
        """What the source has of a partition, once the target has it, too."""
        start = self._source.start_of(partition)
        writer = self._writer(topic, partition, start)
        self._report.was_continued |= writer.next_offset > start
        tally = Tally(start)
        try:
            for run, size in self._source.runs(partition, start):
                kept = self._held(topic, partition, run)
                tally.add(kept)
                new = [each for each in kept if each.offset is None or each.offset >= writer.next_offset]
                if new:
                    writer.write(new)
                self._copied(size)
        finally:
            writer.close()
        self._report.records += tally.records
        self._report.tallies[str(partition.name)] = tally.document()
        if tally.records == 0 and start:
            self._remember_start(topic, partition, start)
        return tally

    def _writer(self, topic: TopicInfo, partition: StoredPartition, start: int) -> PartitionWriter:
        size = topic.config.get("segment.bytes")
        form = format_of(self._options.new, None if size is None else int(size))
        return PartitionWriter(self._files, self._directory(partition), form, start)

    def _directory(self, partition: StoredPartition) -> PurePath:
        return self._options.target / LOGS / partition.name.topic / str(partition.name.partition)

    def _held(self, topic: TopicInfo, partition: StoredPartition, run: list[Record]) -> list[Record]:
        """The records as the target can hold them."""
        if self._options.new != MINIKAFKA or not any(each.headers or each.value is None for each in run):
            return run
        is_offsets = topic.name == CONSUMER_OFFSETS
        if not is_offsets and not self._options.lossy:
            first = next(each for each in run if each.headers or each.value is None)
            what = "headers" if first.headers else "a null value"
            raise StartupError(
                f"{partition.name} has a record with {what} at offset {first.offset}, which MiniKafka's "
                f"format can not hold; --lossy drops headers and makes null values empty"
            )
        if not is_offsets:
            self._report.changed += sum(1 for each in run if each.headers or each.value is None)
        return [Record(each.value or b"", each.key, (), each.timestamp, each.offset) for each in run]

    def _remember_start(self, topic: TopicInfo, partition: StoredPartition, start: int) -> None:
        """A log that was emptied goes on with the offset that it had come to."""
        checkpoint = Checkpoint(segment=start, position=0, next_offset=start, log_start_offset=start)
        path = self._options.target / CHECKPOINTS / str(topic.id) / f"{partition.name.partition}{SUFFIX}"
        write_documents(self._files, {path: checkpoint.to_document()})

    def _copy_offsets(self) -> None:
        """What C{--offsets=file} has written is the same beside every store."""
        source, target = self._options.source / OFFSETS, self._options.target / OFFSETS
        for name in self._files.names(source):
            if name.endswith(".log"):
                self._files.make_directory(target)
                self._copy_file(source / name, target / name)
                self._files.sync_directory(target)

    def _copy_file(self, source: PurePath, target: PurePath) -> None:
        old, new = self._files.open(source), self._files.open(target, create=True)
        try:
            new.truncate(0)
            for position in range(0, old.size, _COPY_BYTES):
                new.append([old.read(position, _COPY_BYTES)])
            new.sync()
        finally:
            old.close()
            new.close()

    # -- the end --

    def _write_state(self) -> None:
        root = self._options.target
        for name in (LOGS, TOPICS, CHECKPOINTS, TRASH):
            self._files.make_directory(root / name)
        state = attrs.evolve(self._source.state, clean=True)
        write_documents(self._files, {root / STATE: attrs.asdict(state)})
        for name in self._files.names(root / LOGS):
            self._files.sync_directory(root / LOGS / name)
        self._files.sync_directory(root / LOGS)

    def _verify(self, partition: StoredPartition, expected: Tally) -> None:
        """Read again what was written."""
        directory = self._directory(partition)
        bases = base_offsets(self._files.names(directory))
        self._report.segments_max = max(self._report.segments_max, len(bases))
        written = attrs.evolve(
            partition, directory=directory, checkpoint=None, layout=format_of(self._options.new, None).layout
        )
        found = Tally(bases[0] if bases else expected.next_offset)
        for run, size in read_runs(self._files, self._options.new, written, 0):
            found.add(run)
            self._verified(size)
        if found != expected:
            raise StartupError(
                f"{partition.name} is not the same in {self._options.target}: {found.records} records up to "
                f"offset {found.next_offset} (checksum {found.checksum:08x}), not {expected.records} up to "
                f"{expected.next_offset} ({expected.checksum:08x}); remove {directory} and convert again"
            )

    def _finish(self) -> None:
        root, options = self._options.target, self._options
        report = attrs.asdict(self._report)
        for name in ("was_finished", "was_continued"):
            del report[name]
        write_documents(self._files, {root / CONVERSION: {**options.facts(), "report": report}})
        marker = {"format": options.new, "version": _VERSIONS[options.new]}
        write_documents(self._files, {root / FORMAT: marker})
