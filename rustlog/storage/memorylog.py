"""
The log of one partition in memory.

A partition is a list of segments; a segment is a few parallel lists with one entry for
each batch, so that every search is a bisection.  Retention removes whole segments, as on
a disk.  Everything here happens at once and belongs to one thread.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, islice
from operator import attrgetter

from zope.interface import implementer

from rustlog.errors import OffsetOutOfRange
from rustlog.interfaces import IPartition
from rustlog.log import records
from rustlog.log.batch import RecordBatch
from rustlog.log.epochs import LeaderEpochs
from rustlog.log.producers import EXPIRED_AT_ONCE_MAX, ProducerTable
from rustlog.model import (
    Appended,
    Fetched,
    FoundOffset,
    OffsetSpec,
    PartitionDescription,
    ProducerDescription,
    Record,
    SegmentDescription,
    TopicInfo,
    TopicPartition,
)
from rustlog.settings import UNLIMITED, TopicConfig
from rustlog.storage.slices import MemorySlice

LEADER_EPOCH = 0
"""Nothing is ever lost while the process lives, so the epoch is never raised."""


class Segment:
    """
    Batches in a row, at least one.

    @ivar ends: the position behind each batch.
    @ivar max_timestamps: the largest timestamp in each batch.
    @ivar newest: the largest timestamp up to and including each batch.
    """

    __slots__ = (
        "base_offsets",
        "batches",
        "begun_ms",
        "ends",
        "max_timestamps",
        "newest",
        "start",
        "written_ms",
    )

    def __init__(self, now_ms: int) -> None:
        self.begun_ms = self.written_ms = now_ms
        self.start = 0
        self.base_offsets: list[int] = []
        self.ends: list[int] = []
        self.batches: list[bytes] = []
        self.max_timestamps: list[int] = []
        self.newest: list[int] = []

    @property
    def base_offset(self) -> int:
        return self.base_offsets[0]

    @property
    def size(self) -> int:
        return self.ends[-1] - self.start

    @property
    def largest_timestamp(self) -> int:
        """Of its records; the time of the last write, when they bear none."""
        return self.newest[-1] if self.newest[-1] >= 0 else self.written_ms

    def append(self, base_offset: int, content: bytes, max_timestamp: int, now_ms: int) -> None:
        if self.base_offsets:
            self.ends.append(self.ends[-1] + len(content))
            self.newest.append(max(self.newest[-1], max_timestamp))
        else:
            self.ends.append(len(content))
            self.newest.append(max_timestamp)
        self.base_offsets.append(base_offset)
        self.batches.append(content)
        self.max_timestamps.append(max_timestamp)
        self.written_ms = now_ms

    def index_of(self, offset: int) -> int:
        """Which batch contains the offset."""
        return bisect_right(self.base_offsets, offset) - 1

    def end_of_run(self, first: int, size: int) -> int:
        """One past the last batch, from C{first} on, that still fits into C{size} bytes."""
        position = self.ends[first - 1] if first else self.start
        return max(first, bisect_right(self.ends, position + size))

    def forget_before(self, offset: int) -> None:
        """
        Drop the batches that end before the offset.  Of the one that contains it, only
        the rest counts from now on when it is asked for times.
        """
        gone = self.index_of(offset)
        if gone > 0:
            self.start = self.ends[gone - 1]
            del self.base_offsets[:gone], self.ends[:gone], self.batches[:gone], self.max_timestamps[:gone]
        if self.base_offset < offset:
            self.max_timestamps[0] = records.max_timestamp_from(RecordBatch(self.batches[0]), offset)
        self.newest = list(accumulate(self.max_timestamps, max))

    def first_at_or_after(self, ms: int, from_offset: int) -> Record | None:
        """The first record, at C{from_offset} or behind it, that is not older."""
        for index in range(bisect_left(self.newest, ms), len(self.batches)):
            if self.max_timestamps[index] >= ms:
                for record in records.decode(RecordBatch(self.batches[index]), from_offset=from_offset):
                    if record.timestamp >= ms:
                        return record
        return None


@implementer(IPartition)
class MemoryPartition:
    """One partition: the handle that others see, and the log itself."""

    leader_epoch = LEADER_EPOCH

    def __init__(self, topic: TopicInfo, index: int, config: TopicConfig) -> None:
        self.topic = topic
        self.index = index
        self.name = TopicPartition(topic.name, index)
        self.config = config
        self.deleted = False
        self.log_start_offset = 0
        self.high_watermark = 0
        self._segments: list[Segment] = []
        self._producers = ProducerTable()
        self._epochs = LeaderEpochs()
        self._epochs.begin(LEADER_EPOCH, 0)

    def reconfigure(self, topic: TopicInfo, config: TopicConfig) -> None:
        """The topic has grown or got other settings."""
        self.topic = topic
        self.config = config

    def die(self) -> None:
        """The topic has been deleted: give the memory back, though handles may live on."""
        self.deleted = True
        self._segments.clear()
        self._producers = ProducerTable()

    # -- writing --

    def append(self, batch: RecordBatch, now_ms: int) -> Appended:
        """
        Take a batch.

        @raise RustlogError: the producer's epoch or sequence is not acceptable.
        """
        original = self._producers.check(batch)
        if original is not None:
            return Appended(original, self.log_start_offset, duplicate=True)
        base_offset = self.high_watermark
        segment = self._segment_for(batch.size, now_ms)
        segment.append(base_offset, self._placed(batch), batch.max_timestamp, now_ms)
        self._producers.record(batch, base_offset, now_ms)
        self.high_watermark = base_offset + batch.last_offset_delta + 1
        return Appended(base_offset, self.log_start_offset)

    def _placed(self, batch: RecordBatch) -> bytes:
        return b"".join(batch.placed(self.high_watermark, LEADER_EPOCH))

    def _segment_for(self, size: int, now_ms: int) -> Segment:
        if self._segments:
            active = self._segments[-1]
            young = now_ms - active.begun_ms < self.config.segment_ms
            if young and active.size + size <= self.config.segment_bytes:
                return active
        self._segments.append(Segment(now_ms))
        return self._segments[-1]

    # -- reading --

    def read(self, offset: int, size_max: int, at_least_one: bool) -> Fetched:
        """
        Whole batches from the one that contains the offset on.

        @param at_least_one: give the first batch even when it is larger.
        """
        if not self.log_start_offset <= offset <= self.high_watermark:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.high_watermark)
        batches = self._run(offset, size_max, at_least_one) if offset < self.high_watermark else []
        slices: tuple[MemorySlice, ...] = ()
        if batches:
            slices = (MemorySlice(batches[0] if len(batches) == 1 else b"".join(batches)),)
        return Fetched(
            slices,
            slices[0].size if slices else 0,
            self.high_watermark,
            self.high_watermark,
            self.log_start_offset,
        )

    def _run(self, offset: int, size_max: int, at_least_one: bool) -> list[bytes]:
        at = self._segment_index_of(offset)
        first = self._segments[at].index_of(offset)
        found: list[bytes] = []
        for segment in islice(self._segments, at, None):
            end = segment.end_of_run(first, size_max)
            if end == first and at_least_one and not found:
                end += 1
            run = segment.batches[first:end]
            found += run
            if end < len(segment.batches):
                break
            size_max -= sum(map(len, run))
            first = 0
        return found

    def _segment_index_of(self, offset: int) -> int:
        return bisect_right(self._segments, offset, key=attrgetter("base_offset")) - 1

    # -- finding --

    def offset_for(self, spec: OffsetSpec | int) -> FoundOffset:
        if spec is OffsetSpec.EARLIEST:
            return FoundOffset(self.log_start_offset, leader_epoch=LEADER_EPOCH)
        if spec is OffsetSpec.LATEST:
            return FoundOffset(self.high_watermark, leader_epoch=LEADER_EPOCH)
        if spec is OffsetSpec.MAX_TIMESTAMP:
            newest = max((segment.newest[-1] for segment in self._segments), default=-1)
            return self._first_at_or_after(newest) if newest >= 0 else FoundOffset(-1)
        assert isinstance(spec, int)
        return self._first_at_or_after(spec)

    def _first_at_or_after(self, ms: int) -> FoundOffset:
        for segment in self._segments:
            record = segment.first_at_or_after(ms, self.log_start_offset)
            if record is not None and record.offset is not None:
                return FoundOffset(record.offset, record.timestamp, LEADER_EPOCH)
        return FoundOffset(-1)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        return self._epochs.end_of(epoch, self.high_watermark)

    def describe(self) -> PartitionDescription:
        segments = tuple(SegmentDescription(each.base_offset, each.size) for each in self._segments)
        return PartitionDescription(sum(each.size for each in segments), segments)

    def describe_producers(self) -> tuple[ProducerDescription, ...]:
        return self._producers.describe()

    # -- forgetting --

    def delete_records(self, before: int) -> int:
        """Raise the log start offset, if it is below; the new one."""
        if before > self.high_watermark:
            raise OffsetOutOfRange(before, self.log_start_offset, self.high_watermark)
        if before > self.log_start_offset:
            self.log_start_offset = before
            if before == self.high_watermark:
                self._segments.clear()
            else:
                del self._segments[: self._segment_index_of(before)]
                self._segments[0].forget_before(before)
        return self.log_start_offset

    def retire(self, now_ms: int) -> None:
        """Remove the segments that retention no longer keeps, the active one included."""
        size = sum(segment.size for segment in self._segments)
        gone = 0
        for segment in self._segments:
            size -= segment.size
            if not (self._is_surplus(size) or self._is_old(segment, now_ms)):
                break
            gone += 1
        if gone:
            del self._segments[:gone]
            self.log_start_offset = self._segments[0].base_offset if self._segments else self.high_watermark

    def _is_surplus(self, size_without: int) -> bool:
        limit = self.config.retention_bytes
        return limit != UNLIMITED and size_without >= limit

    def _is_old(self, segment: Segment, now_ms: int) -> bool:
        limit = self.config.retention_ms
        return limit != UNLIMITED and now_ms - segment.largest_timestamp > limit

    def expire_producers(self, now_ms: int, expiration_ms: int) -> bool:
        """Forget some of the producers that have long been silent; whether there may be more."""
        return self._producers.expire(now_ms, expiration_ms) == EXPIRED_AT_ONCE_MAX
