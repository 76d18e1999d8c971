"""Tests for L{rustlog.storage.memorylog}."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog.errors import CorruptBatch, OffsetOutOfRange
from rustlog.interfaces import IPartition, ISlice
from rustlog.log import records
from rustlog.log.batch import RecordBatch, build_batch, split_batches
from rustlog.model import OffsetSpec, Record, TopicInfo, TopicPartition
from rustlog.settings import TopicConfig
from rustlog.storage.memorylog import MemoryPartition, Segment
from rustlog.storage.slices import MemorySlice

TOPIC = TopicInfo(UUID(int=1), "orders", 1)


def partition(**config: Any) -> MemoryPartition:
    """An empty partition of a topic with some settings."""
    return MemoryPartition(TOPIC, 0, TopicConfig(**config))


def batch(*timestamps: int) -> RecordBatch:
    """A batch with one record for each timestamp."""
    return records.build([Record(b"value", timestamp=each) for each in timestamps], now_ms=0)


def unreadable(timestamp: int, count: int = 2) -> RecordBatch:
    """A batch whose checksum is right, but whose records are none."""
    return build_batch(
        b"no records", record_count=count, base_timestamp=timestamp, max_timestamp=timestamp
    )


SIZE = batch(0).size


class MemorySliceTests(SynchronousTestCase):
    """Slices of what is in memory anyway."""

    def test_slice(self) -> None:
        """It has bytes but no file, and nothing to give back."""
        content = MemorySlice(b"content")
        verifyObject(ISlice, content)
        content.release()
        self.assertEqual((content.size, content.buffer(), content.region()), (7, b"content", None))


class SegmentTests(SynchronousTestCase):
    """A few lists in parallel."""

    def setUp(self) -> None:
        self.segment = Segment(now_ms=500)
        for number, timestamp in enumerate((10, 30, 20, 40)):
            self.segment.append(10 + 2 * number, bytes([number]) * 10, timestamp, 500 + number)

    def test_facts(self) -> None:
        """It knows where it begins, how large it is, and how old."""
        segment = self.segment
        facts = (segment.base_offset, segment.size, segment.largest_timestamp, segment.begun_ms)
        self.assertEqual(facts, (10, 40, 40, 500))

    def test_index_of(self) -> None:
        """Every offset is in the batch that begins at it or before it."""
        found = [self.segment.index_of(offset) for offset in range(10, 18)]
        self.assertEqual(found, [0, 0, 1, 1, 2, 2, 3, 3])

    def test_end_of_run(self) -> None:
        """A run has as many whole batches as fit."""
        cases = {(0, 0): 0, (0, 9): 0, (0, 10): 1, (0, 39): 3, (0, 99): 4, (2, 9): 2, (2, 10): 3, (3, -5): 3}
        for (first, size), end in cases.items():
            self.assertEqual(self.segment.end_of_run(first, size), end, (first, size))

    def test_without_timestamps(self) -> None:
        """When the records bear no time, that of the last write counts."""
        segment = Segment(now_ms=500)
        segment.append(0, b"x", -1, 700)
        self.assertEqual(segment.largest_timestamp, 700)


class MemoryPartitionTests(SynchronousTestCase):
    """The log of one partition."""

    def test_new_partition(self) -> None:
        """It is an empty log with a name."""
        new = partition()
        verifyObject(IPartition, new)
        self.assertEqual(new.name, TopicPartition("orders", 0))
        self.assertEqual((new.log_start_offset, new.high_watermark, new.leader_epoch), (0, 0, 0))
        self.assertEqual(new.describe().segments, ())

    def bases(self, log: MemoryPartition) -> list[int]:
        """Where the segments begin."""
        return [each.base_offset for each in log.describe().segments]

    # -- segments --

    def test_rolls_by_size(self) -> None:
        """A batch that would make the segment too large begins a new one."""
        log = partition(segment_bytes=2 * SIZE)
        for _ in range(5):
            log.append(batch(1), 0)
        self.assertEqual(self.bases(log), [0, 2, 4])
        self.assertEqual(log.describe().size, 5 * SIZE)

    def test_large_batch_has_its_own_segment(self) -> None:
        """A batch that is larger than a segment is taken all the same."""
        log = partition(segment_bytes=SIZE + 1)
        log.append(batch(1), 0)
        log.append(batch(*range(50)), 0)
        log.append(batch(1), 0)
        self.assertEqual(self.bases(log), [0, 1, 51])

    def test_rolls_by_age(self) -> None:
        """A segment that is old enough gets no more batches."""
        log = partition(segment_ms=100)
        for now_ms in (0, 99, 100, 150, 200):
            log.append(batch(1), now_ms)
        self.assertEqual(self.bases(log), [0, 2, 4])

    # -- reading --

    def test_single_batch_is_not_copied(self) -> None:
        """Reading one batch hands out the bytes that are stored."""
        log = partition()
        log.append(batch(1), 0)
        first = log.read(0, 0, True).slices[0].buffer()
        self.assertIs(log.read(0, 0, True).slices[0].buffer(), first)

    def test_reads_across_segments(self) -> None:
        """A read goes on into the following segments as far as its size allows."""
        log = partition(segment_bytes=2 * SIZE)
        for _ in range(6):
            log.append(batch(1), 0)
        for size, count in ((SIZE, 1), (3 * SIZE, 3), (5 * SIZE + 1, 5), (100 * SIZE, 5)):
            (found,) = log.read(1, size, False).slices
            offsets = [each.base_offset for each in split_batches(found.buffer())]
            self.assertEqual(offsets, list(range(1, 1 + count)))

    def test_reads_after_deletion(self) -> None:
        """Sizes are still right when the beginning of a segment has been deleted."""
        log = partition()
        for _ in range(6):
            log.append(batch(1, 1), 0)
        log.delete_records(5)
        size = batch(1, 1).size
        self.assertEqual(log.read(5, 2 * size, False).size, 2 * size)
        self.assertEqual(log.read(5, 2 * size - 1, False).size, size)
        self.assertEqual(log.describe().size, 4 * size)
        log.append(batch(1, 1), 0)
        self.assertEqual(log.read(5, 100 * size, False).size, 5 * size)

    def test_any_read(self) -> None:
        """Whatever the batches, segments, offset and size: the run is the longest that is allowed."""

        @settings(deadline=None, max_examples=60)
        @given(
            counts=st.lists(st.integers(1, 4), min_size=1, max_size=12),
            segment_bytes=st.integers(14, 6 * SIZE),
            start=st.integers(0, 48),
            offset=st.integers(0, 48),
            size=st.integers(0, 10 * SIZE),
            at_least_one=st.booleans(),
        )
        def check(
            counts: list[int], segment_bytes: int, start: int, offset: int, size: int, at_least_one: bool
        ) -> None:
            log = partition(segment_bytes=segment_bytes)
            for count in counts:
                log.append(batch(*range(count)), 0)
            start = log.delete_records(min(start, sum(counts)))
            if not start <= offset <= sum(counts):
                self.assertRaises(OffsetOutOfRange, log.read, offset, size, at_least_one)
                return
            content = b"".join(each.buffer() for each in log.read(offset, size, at_least_one).slices)
            found = [each.record_count for each in split_batches(content)]
            self.assertEqual(found, _expected(counts, offset, size, at_least_one))

        check()

    # -- times --

    def test_unreadable_records(self) -> None:
        """
        A producer who sends something that is no records harms those who ask for that time, and nobody else.
        """
        log = partition()
        log.append(unreadable(timestamp=50), 0)
        log.append(batch(70), 0)
        self.assertRaises(CorruptBatch, log.offset_for, 40)
        self.assertEqual(log.offset_for(60).offset, 2)
        self.assertEqual(log.offset_for(OffsetSpec.MAX_TIMESTAMP).offset, 2)
        self.assertEqual(log.delete_records(1), 1)
        self.assertEqual(log.offset_for(60).offset, 2)

    def test_times_within_the_first_batch(self) -> None:
        """Of a batch that is deleted in part, only the rest has a time."""
        log = partition()
        log.append(batch(90, 10, 20), 0)
        log.append(batch(15), 0)
        log.delete_records(1)
        found = [log.offset_for(spec).offset for spec in (5, 12, 20, 21, OffsetSpec.MAX_TIMESTAMP)]
        self.assertEqual(found, [1, 2, 2, -1, 2])

    # -- retention --

    def test_retires_by_age(self) -> None:
        """Segments go from the beginning on, up to the first that is young enough."""
        log = partition(segment_bytes=SIZE, retention_ms=100)
        for timestamp in (10, 20, 90, 30, 95):
            log.append(batch(timestamp), timestamp)
        for now_ms, start in ((110, 0), (111, 1), (121, 2), (190, 2), (191, 4), (195, 4), (196, 5)):
            log.retire(now_ms)
            self.assertEqual(log.log_start_offset, start, now_ms)
        self.assertEqual(self.bases(log), [])

    def test_retires_by_size(self) -> None:
        """So many segments go that what is left is still as large as it may be."""
        log = partition(segment_bytes=2 * SIZE, retention_bytes=3 * SIZE, retention_ms=-1)
        for count, start in ((4, 0), (1, 2), (1, 2), (1, 4), (10, 14)):
            for _ in range(count):
                log.append(batch(1), 0)
            log.retire(0)
            self.assertEqual(log.log_start_offset, start)

    def test_keeps_nothing(self) -> None:
        """A limit of no bytes empties the partition; the offsets go on."""
        log = partition(retention_bytes=0)
        log.append(batch(1, 2), 0)
        log.retire(0)
        self.assertEqual((log.log_start_offset, log.high_watermark), (2, 2))
        self.assertEqual(log.append(batch(1), 0).base_offset, 2)

    def test_retires_after_deletion(self) -> None:
        """Retention never moves the start of the log back."""
        log = partition(segment_bytes=2 * SIZE, retention_ms=100)
        for timestamp in (1, 2, 300, 300):
            log.append(batch(timestamp), 0)
        log.delete_records(3)
        log.retire(200)
        self.assertEqual(log.log_start_offset, 3)


def _expected(counts: list[int], offset: int, size: int, at_least_one: bool) -> list[int]:
    """The record counts of the batches that a read must find."""
    found: list[int] = []
    end = 0
    for count in counts:
        end += count
        if end <= offset:
            continue
        size -= batch(*range(count)).size
        if size < 0 and not (at_least_one and not found):
            break
        found.append(count)
    return found
