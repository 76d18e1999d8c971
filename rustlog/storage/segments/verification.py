"""
Whether a data directory is as it was written: every checksum, every offset, every index entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from struct import Struct

from attrs import define, field

from rustlog.interfaces import IFiles
from rustlog.model import TopicInfo, TopicPartition
from rustlog.storage.segments.files import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from rustlog.storage.segments.index import OFFSET_ENTRY, TIME_ENTRY, Entry
from rustlog.storage.segments.inspection import (
    Problem,
    StoredBatch,
    StoredPartition,
    check_format,
    find_partitions,
    find_strangers,
    find_topics,
    misplaced,
    missing_tail,
    segments_of,
    walk_segment,
)


@define
class SegmentReport:
    """
    What one segment has, as far as it is right.

    @ivar next_offset: where it ends; C{None} if that can not be known.
    @ivar last_offset: of the last record that was found.
    """

    base_offset: int
    next_offset: int | None = None
    last_offset: int = -1
    batches: int = 0
    records: int = 0
    size: int = 0
    max_timestamp: int = -1
    problems: list[Problem] = field(factory=list)

    def count(self, found: StoredBatch) -> None:
        self.batches += 1
        self.records += found.batch.record_count
        self.size += found.size
        self.max_timestamp = max(self.max_timestamp, found.batch.max_timestamp)
        self.last_offset = found.batch.last_offset


@define
class PartitionReport:
    """What one partition has, as far as it is right."""

    name: TopicPartition
    log_start_offset: int
    next_offset: int
    segments: int
    batches: int = 0
    records: int = 0
    size: int = 0
    max_timestamp: int = -1
    problems: list[Problem] = field(factory=list)

    def add(self, segment: SegmentReport) -> None:
        self.batches += segment.batches
        self.records += segment.records
        self.size += segment.size
        self.max_timestamp = max(self.max_timestamp, segment.max_timestamp)
        self.problems += segment.problems
        if segment.batches:
            self.next_offset = segment.last_offset + 1


Advance = Callable[[int], object]
"""Hears of so many further bytes that have been read."""


def verify(
    files: IFiles, root: PurePath, advance: Advance = lambda size: None
) -> Iterator[PartitionReport | Problem]:
    """Reports on all partitions, and problems that belong to none.  Blocks, for as long as reading takes."""
    format_name, topics = check_format(files, root), []
    for topic in find_topics(files, root, format_name):
        if isinstance(topic, TopicInfo):
            topics.append(topic)
        else:
            yield topic
    yield from find_strangers(files, root, {topic.name for topic in topics})
    for topic in topics:
        for partition in find_partitions(files, root, topic, format_name):
            if isinstance(partition, Problem):
                yield partition
            else:
                yield verify_partition(files, partition, advance)


def total_size(files: IFiles, root: PurePath) -> int:
    """How many bytes L{verify} is going to read, about."""
    size, format_name = 0, check_format(files, root)
    for topic in find_topics(files, root, format_name):
        if isinstance(topic, TopicInfo):
            for partition in find_partitions(files, root, topic, format_name):
                if isinstance(partition, StoredPartition):
                    size += _size(files, partition)
    return size


def _size(files: IFiles, partition: StoredPartition) -> int:
    paths = [segment_path(partition.directory, base, LOG_SUFFIX) for base in segments_of(files, partition)]
    return sum(files.size(path) for path in paths if files.exists(path))


def verify_partition(files: IFiles, partition: StoredPartition, advance: Advance) -> PartitionReport:
    """Read all of one partition.  Blocks."""
    bases = segments_of(files, partition)
    return join(
        partition,
        [verify_segment(files, partition, base, base == bases[-1], advance) for base in bases],
    )


def join(partition: StoredPartition, segments: Sequence[SegmentReport]) -> PartitionReport:
    """A partition from its segments, whoever has read them: each must follow the one before."""
    start = max(partition.log_start_offset, segments[0].base_offset if segments else 0)
    report = PartitionReport(partition.name, start, start, len(segments))
    end: int | None = None
    for segment in segments:
        report.problems += misplaced(partition, segment.base_offset, end)
        report.add(segment)
        end = segment.next_offset
    if end is not None or not segments:
        report.problems += missing_tail(partition, end)
    return report


def verify_segment(
    files: IFiles, partition: StoredPartition, base: int, is_last: bool, advance: Advance
) -> SegmentReport:
    """Read all of one segment, and compare its indexes.  Blocks."""
    report = SegmentReport(base)
    indexes: list[_IndexCheck] = []
    walking = walk_segment(files, partition, base, is_last)
    while True:
        try:
            found = next(walking)
        except StopIteration as end:
            report.next_offset = end.value
            break
        if isinstance(found, Problem):
            report.problems.append(found)
            indexes = []  # What they point to can not be reached.
            continue
        if not report.batches:
            indexes = list(_index_checks(files, partition, base))
        for index in indexes:
            index.see(found)
        report.count(found)
        advance(found.size)
    _finish(indexes, report)
    return report


def _finish(indexes: list[_IndexCheck], report: SegmentReport) -> None:
    for index in indexes:
        index.end()
        report.problems += index.problems


# -- indexes -----------------------------------------------------------------------


def _index_checks(files: IFiles, partition: StoredPartition, base: int) -> Iterator[_IndexCheck]:
    """
    Those indexes of a segment that are used as they are; behind a checkpoint, recovery makes them anew.
    """
    checkpoint = partition.checkpoint
    if checkpoint is None or base > checkpoint.segment:
        return
    is_active = base == checkpoint.segment
    yield OffsetIndexCheck(files, partition, base, checkpoint.index_entries if is_active else None)
    yield TimeIndexCheck(files, partition, base, checkpoint.time_entries if is_active else None)


class _IndexCheck:
    """
    Compares the entries of an index with the batches of its segment, as they come by.

    @param count: so many entries count; C{None}: all.
    """

    suffix: str
    entry: Struct

    def __init__(self, files: IFiles, partition: StoredPartition, base: int, count: int | None) -> None:
        self._path = partition.layout.path(partition.directory, base, self.suffix)
        self._base = base
        self._number = 0
        self.problems: list[Problem] = []
        self._entries = self._read(files, count)

    def _read(self, files: IFiles, count: int | None) -> list[Entry]:
        if count == 0:
            return []
        try:
            file = files.open(self._path)
        except FileNotFoundError:
            self._complain("it is missing; the broker makes it anew", None, is_damage=False)
            return []
        try:
            size = file.size // self.entry.size if count is None else count
            content = file.read(0, size * self.entry.size)
        finally:
            file.close()
        if len(content) < size * self.entry.size:
            self._complain(f"it has less than {size} entries", len(content))
            content = content[: len(content) // self.entry.size * self.entry.size]
        return list(self.entry.iter_unpack(content))

    def see(self, found: StoredBatch) -> None:
        """Take notice of the next batch."""
        while self._number < len(self._entries):
            entry = self._entries[self._number]
            if self._lies_behind(entry, found):
                return
            if not self._fits(entry, found):
                self._give_up()
                return
            self._number += 1

    def end(self) -> None:
        """There are no more batches."""
        if self._number < len(self._entries):
            self._give_up()

    def _give_up(self) -> None:
        """One wrong entry is enough: the broker makes all of it anew."""
        self._complain("an entry points to the wrong place", self._number * self.entry.size)
        self._entries = []

    def _complain(self, message: str, position: int | None, is_damage: bool = True) -> None:
        self.problems.append(Problem(self._path, message, position, is_damage))

    def _lies_behind(self, entry: Entry, found: StoredBatch) -> bool:
        raise NotImplementedError

    def _fits(self, entry: Entry, found: StoredBatch) -> bool:
        raise NotImplementedError


class OffsetIndexCheck(_IndexCheck):
    """Entries have the offset and the position of a batch."""

    suffix = INDEX_SUFFIX
    entry = OFFSET_ENTRY

    def _lies_behind(self, entry: Entry, found: StoredBatch) -> bool:
        return entry[1] > found.position

    def _fits(self, entry: Entry, found: StoredBatch) -> bool:
        return entry == (found.batch.base_offset - self._base, found.position)


class TimeIndexCheck(_IndexCheck):
    """Entries have the highest timestamp so far, and the offset of the batch that has it."""

    suffix = TIME_INDEX_SUFFIX
    entry = TIME_ENTRY

    def _lies_behind(self, entry: Entry, found: StoredBatch) -> bool:
        return entry[1] > found.batch.base_offset - self._base

    def _fits(self, entry: Entry, found: StoredBatch) -> bool:
        return entry == (found.batch.max_timestamp, found.batch.base_offset - self._base)
