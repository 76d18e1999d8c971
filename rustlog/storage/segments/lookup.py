"""
The read side of a partition: which bytes answer a read, which offset a question.

Every function here runs on the reactor thread and raises L{Cold
<rustlog.storage.segments.reading.Cold>} where the disk would have to be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twisted.logger import Logger
from zope.interface import implementer

from rustlog.errors import DamagedLog, OffsetOutOfRange, TopicNotFound
from rustlog.interfaces import ISlice
from rustlog.model import Fetched, FoundOffset, OffsetSpec
from rustlog.storage.handles import Handle
from rustlog.storage.segments.layout import EntryHeader
from rustlog.storage.segments.partition import SegmentedPartition
from rustlog.storage.segments.reading import Damage
from rustlog.storage.segments.segment import Segment

_log = Logger()


@implementer(ISlice)
class FileSlice:
    """A region of a segment; the file stays open until it is released."""

    __slots__ = ("_handle", "_position", "size")

    def __init__(self, handle: Handle, position: int, size: int) -> None:
        handle.lease()
        self._handle = handle
        self._position = position
        self.size = size

    def region(self) -> tuple[int, int] | None:
        descriptor = self._handle.file.fileno()
        return None if descriptor is None else (descriptor, self._position)

    def buffer(self) -> bytes:
        content: bytes = self._handle.file.read(self._position, self.size)
        return content

    def release(self) -> None:
        self._handle.release()


Find = Callable[[SegmentedPartition, int, int, bool], tuple[ISlice, ...]]
"""Finds whole batches from the one that contains an offset on."""


def read(
    partition: SegmentedPartition, offset: int, max_bytes: int, at_least_one: bool, find: Find
) -> Fetched:
    """
    Whole batches from the one that contains C{offset} on.

    @param at_least_one: give the first batch even if it is larger than C{max_bytes}.
    """
    if partition.is_deleted:
        raise TopicNotFound(partition.topic.name)
    if not partition.log_start_offset <= offset <= partition.high_watermark:
        raise OffsetOutOfRange(offset, partition.log_start_offset, partition.high_watermark)
    try:
        slices = find(partition, offset, max_bytes, at_least_one)
    except Damage as damage:
        raise _damaged(partition, offset, damage) from None
    size = sum(each.size for each in slices)
    end = partition.high_watermark
    return Fetched(slices, size, end, end, partition.log_start_offset)


def find_in_files(
    partition: SegmentedPartition, offset: int, max_bytes: int, at_least_one: bool
) -> tuple[FileSlice, ...]:
    """For logs whose entries are batches: they are served from where they lie."""
    regions: list[tuple[Handle, int, int]] = []
    left = max_bytes
    for segment, limit in visible_segments(partition, offset):
        try:
            start = segment.locate(offset, limit)
            if start is None:
                continue
            end, following = segment.end_of_read(start, start + left, limit)
            if end - start > left and (regions or not at_least_one):
                break
            verified = segment.ensure_verified(start, end)
        except Damage:
            if regions:
                break  # Who goes on reading will hear of it.
            raise
        regions.append((segment.log, start, verified - start))
        if verified == end:
            if end == limit and segment is partition.visible.segment:
                following = partition.visible.offset
            if following is not None:
                segment.remember(following, end)
        if verified < limit:
            break
        left -= verified - start
    # Leased at the very end: where something is cold, all of this is begun anew.
    return tuple(FileSlice(*region) for region in regions)


def visible_segments(partition: SegmentedPartition, offset: int) -> Iterator[tuple[Segment, int]]:
    """The segments from the one that holds C{offset} on, and how far each may be read."""
    visible = partition.visible
    if offset >= visible.offset or visible.segment is None:
        return
    for segment in partition.segments[max(0, partition.segment_number(offset)) :]:
        if segment is visible.segment:
            yield segment, visible.position
            return
        yield segment, segment.size


def find_offset(partition: SegmentedPartition, spec: OffsetSpec | int) -> FoundOffset:
    """Answer L{rustlog.interfaces.ILogStore.offset_for}."""
    if partition.is_deleted:
        raise TopicNotFound(partition.topic.name)
    if spec is OffsetSpec.EARLIEST:
        start = partition.log_start_offset
        return FoundOffset(start, -1, partition.epochs.at(start))
    if spec is OffsetSpec.LATEST:
        return FoundOffset(partition.high_watermark, -1, partition.leader_epoch)
    try:
        if spec is OffsetSpec.MAX_TIMESTAMP:
            return _with_highest_timestamp(partition)
        return _not_older_than(partition, int(spec))
    except Damage as damage:
        raise _damaged(partition, partition.log_start_offset, damage) from None


def _not_older_than(partition: SegmentedPartition, timestamp: int) -> FoundOffset:
    for segment, limit in visible_segments(partition, partition.log_start_offset):
        highest = segment.highest_timestamp()
        if highest is None or highest[0] < timestamp:
            continue
        for header in segment.headers_since(timestamp, limit):
            if header.max_timestamp >= timestamp:
                found = _first_record(partition, segment, header, timestamp)
                if found is not None:
                    return found
    return FoundOffset(-1)


def _with_highest_timestamp(partition: SegmentedPartition) -> FoundOffset:
    best: tuple[Segment, EntryHeader] | None = None
    best_timestamp = -1
    for segment, limit in visible_segments(partition, partition.log_start_offset):
        highest = segment.highest_timestamp()
        if highest is None or highest[0] <= best_timestamp:
            continue
        timestamp, base_offset = highest
        if partition.log_start_offset <= base_offset < partition.high_watermark:
            headers = segment.headers_since(timestamp, limit)
        else:
            # The batch that has it is deleted, or not visible yet: some other has the highest.
            headers = segment.headers(0, limit)
        for header in headers:
            timestamp = _highest_left(partition, segment, header)
            if timestamp > best_timestamp:
                best, best_timestamp = (segment, header), timestamp
    if best is None:
        return FoundOffset(-1)
    return _first_record(partition, *best, best_timestamp) or FoundOffset(-1)


def _highest_left(partition: SegmentedPartition, segment: Segment, header: EntryHeader) -> int:
    """The highest timestamp among those records of a batch that are not deleted."""
    start = partition.log_start_offset
    if header.base_offset >= start:
        return header.max_timestamp
    if header.last_offset < start:
        return -1
    left = segment.records_of(header, from_offset=start)
    return max((record.timestamp for record in left), default=-1)


def _first_record(
    partition: SegmentedPartition, segment: Segment, header: EntryHeader, timestamp: int
) -> FoundOffset | None:
    """The first record of a batch that is not older, if it has one that is still there."""
    for record in segment.records_of(header, from_offset=partition.log_start_offset):
        if record.timestamp >= timestamp:
            assert record.offset is not None
            return FoundOffset(record.offset, record.timestamp, partition.epochs.at(record.offset))
    return None


def _damaged(partition: SegmentedPartition, offset: int, damage: Damage) -> DamagedLog:
    _log.error(
        "{partition} is damaged near offset {offset}, position {position}: {reason}",
        partition=str(partition.name), offset=offset, position=damage.position, reason=damage.reason,
    )  # fmt: skip
    return DamagedLog(partition.name, offset, damage.reason)
