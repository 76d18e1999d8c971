"""
Which segments a partition no longer has to keep.
"""

from __future__ import annotations

from rustlog.settings import UNLIMITED
from rustlog.storage.segments.partition import SegmentedPartition
from rustlog.storage.segments.segment import Segment


def new_start(partition: SegmentedPartition, now_ms: int) -> int:
    """
    Where the log may begin by C{retention.ms} and C{retention.bytes}, and by the number of segments.

    Segments are given up as a whole, oldest first, and only if all of it is visible.  One whose
    records bear no timestamps never grows old.

    @raise Cold: an index is not in memory.
    """
    start = partition.log_start_offset
    size = sum(segment.size for segment in partition.segments)
    ends = [segment.base_offset for segment in partition.segments[1:]] + [partition.log_end_offset]
    for left, segment, end in zip(range(len(ends), 0, -1), partition.segments, ends, strict=True):
        size -= segment.size
        if segment.size == 0 or end > partition.high_watermark:
            break
        if not (
            is_one_too_many(partition, left)
            or _is_surplus(partition, size)
            or _is_old(partition, segment, now_ms)
        ):
            break
        start = end
    return max(start, partition.log_start_offset)


def active_is_dead(partition: SegmentedPartition) -> bool:
    """Whether the segment that is being written has nothing to keep; it can be removed once rolled."""
    return bool(
        partition.segments
        and partition.segments[-1].size
        and partition.log_start_offset == partition.log_end_offset
    )


def is_one_too_many(partition: SegmentedPartition, segments: int) -> bool:
    """Whether a partition with so many segments has more than it may keep."""
    return partition.segments_max != UNLIMITED and segments > partition.segments_max


def _is_surplus(partition: SegmentedPartition, size_without: int) -> bool:
    limit = partition.config.retention_bytes
    return limit != UNLIMITED and size_without >= limit


def _is_old(partition: SegmentedPartition, segment: Segment, now_ms: int) -> bool:
    limit = partition.config.retention_ms
    if limit == UNLIMITED:
        return False
    highest = segment.highest_timestamp()
    return highest is not None and 0 <= highest[0] < now_ms - limit
