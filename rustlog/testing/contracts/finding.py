"""Finding: offsets by time, ends of epochs, sizes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from rustlog.model import FoundOffset, OffsetSpec, PartitionDescription, Record, StorageDescription
from rustlog.testing.contracts.harness import LogStoreHarness, in_every_course
from rustlog.testing.environment import START_OF_TIME_MS

NOT_FOUND = -1


@in_every_course
class FindContract(LogStoreHarness):
    """What C{offset_for}, C{epoch_end} and the descriptions of a log store promise."""

    def find(self, partition: Any, spec: OffsetSpec | int) -> FoundOffset:
        """What is found for a question."""
        found = self.finish(self.store.offset_for(partition, spec))
        self.assertIsInstance(found, FoundOffset)
        answer: FoundOffset = found
        return answer

    def timed(self, *timestamps: int, config: dict[str, str] | None = None) -> Any:
        """A partition in which each record has one of these timestamps, one record to a batch."""
        partition = self.create(config=config)
        for timestamp in timestamps:
            self.send(partition, b"v", at=timestamp)
        return partition

    # -- the ends --

    def test_ends_of_an_empty_log(self) -> None:
        """An empty log begins and ends at 0."""
        partition = self.create()
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
            self.assertEqual(self.find(partition, spec), FoundOffset(0, -1, partition.leader_epoch))

    def test_ends(self) -> None:
        """The earliest offset is the first that can be read, the latest the next to be written."""
        partition = self.timed(5, 6, 7)
        self.finish(self.store.delete_records(partition, 1))
        epoch = partition.leader_epoch
        self.assertEqual(self.find(partition, OffsetSpec.EARLIEST), FoundOffset(1, -1, epoch))
        self.assertEqual(self.find(partition, OffsetSpec.LATEST), FoundOffset(3, -1, epoch))

    # -- by time --

    def test_timestamp(self) -> None:
        """The first record that is not older is found, with its own timestamp."""
        partition = self.timed(100, 200, 200, 300)
        expected = {0: (0, 100), 100: (0, 100), 101: (1, 200), 200: (1, 200), 201: (3, 300), 300: (3, 300)}
        for timestamp, (offset, found) in expected.items():
            answer = FoundOffset(offset, found, partition.leader_epoch)
            self.assertEqual(self.find(partition, timestamp), answer)

    def test_timestamp_in_the_future(self) -> None:
        """When all records are older, none is found."""
        partition = self.timed(100, 200)
        self.assertEqual(self.find(partition, 201).offset, NOT_FOUND)
        self.assertEqual(self.find(partition, 2**62).offset, NOT_FOUND)

    def test_timestamp_in_an_empty_log(self) -> None:
        """In an empty log no record is found, whatever the time."""
        partition = self.create()
        for spec in (0, 100, OffsetSpec.MAX_TIMESTAMP):
            self.assertEqual(self.find(partition, spec).offset, NOT_FOUND)

    def test_timestamp_within_a_batch(self) -> None:
        """The record itself is found, not the batch that contains it."""
        partition = self.create()
        stamps = (100, 300, 200, 400)
        self.send_batch(partition, self.batch_of(*(Record(b"v", b"k", timestamp=each) for each in stamps)))
        for timestamp, offset in ((50, 0), (150, 1), (250, 1), (350, 3), (450, NOT_FOUND)):
            self.assertEqual(self.find(partition, timestamp).offset, offset)

    def test_timestamps_out_of_order(self) -> None:
        """Producers' clocks differ: the first record by offset counts, not the one nearest in time."""
        partition = self.timed(300, 100, 200, 400, 50)
        for timestamp, offset in ((0, 0), (150, 0), (300, 0), (301, 3), (401, NOT_FOUND)):
            self.assertEqual(self.find(partition, timestamp).offset, offset)

    def test_timestamp_of_deleted_records(self) -> None:
        """What has been deleted is not found, not even within the first batch that is left."""
        partition = self.create()
        stamps = (100, 500, 200, 300)
        self.send_batch(partition, self.batch_of(*(Record(b"v", b"k", timestamp=each) for each in stamps)))
        self.send(partition, b"v", at=250)
        self.finish(self.store.delete_records(partition, 2))
        for timestamp, offset in ((50, 2), (200, 2), (201, 3), (250, 3), (301, NOT_FOUND)):
            self.assertEqual(self.find(partition, timestamp).offset, offset)

    def test_max_timestamp(self) -> None:
        """The record with the largest timestamp is found; the first of them, if there are several."""
        partition = self.timed(300, 100, 400, 200, 400)
        answer = FoundOffset(2, 400, partition.leader_epoch)
        self.assertEqual(self.find(partition, OffsetSpec.MAX_TIMESTAMP), answer)
        self.send(partition, b"v", at=401)
        self.assertEqual(self.find(partition, OffsetSpec.MAX_TIMESTAMP).offset, 5)

    def test_max_timestamp_of_deleted_records(self) -> None:
        """A deleted record does not have the largest timestamp any more."""
        partition = self.create()
        stamps = (100, 900, 200)
        self.send_batch(partition, self.batch_of(*(Record(b"v", b"k", timestamp=each) for each in stamps)))
        self.send(partition, b"v", at=150)
        self.finish(self.store.delete_records(partition, 2))
        found = self.find(partition, OffsetSpec.MAX_TIMESTAMP)
        self.assertEqual((found.offset, found.timestamp), (2, 200))
        self.finish(self.store.delete_records(partition, 4))
        self.assertEqual(self.find(partition, OffsetSpec.MAX_TIMESTAMP).offset, NOT_FOUND)

    def test_any_timestamps(self) -> None:
        """Whatever the timestamps, and however the log is cut into pieces, the right record is found."""
        stamps = [START_OF_TIME_MS + self.pick(100) for _ in range(40)]
        partition = self.timed(*stamps, config={"segment.bytes": "600", "index.interval.bytes": "150"})
        for start in (0, 13, 29):
            self.finish(self.store.delete_records(partition, start))
            for timestamp in range(START_OF_TIME_MS - 1, START_OF_TIME_MS + 101, 4):
                self.assertEqual(self.find(partition, timestamp).offset, _first(stamps, start, timestamp))
            expected = _first(stamps, start, max(stamps[start:]))
            self.assertEqual(self.find(partition, OffsetSpec.MAX_TIMESTAMP).offset, expected)

    # -- epochs --

    def test_end_of_the_current_epoch(self) -> None:
        """The current epoch ends where the log does."""
        partition = self.create()
        epoch = partition.leader_epoch
        self.assertEqual(self.finish(self.store.epoch_end(partition, epoch)), (epoch, 0))
        self.send(partition, b"a", b"b")
        self.assertEqual(self.finish(self.store.epoch_end(partition, epoch)), (epoch, 2))

    def test_no_such_epoch(self) -> None:
        """Of an epoch that can not be, or has not been reached, nothing is known."""
        partition = self.timed(1, 2)
        for epoch in (-1, partition.leader_epoch + 1):
            self.assertEqual(self.finish(self.store.epoch_end(partition, epoch)), (-1, -1))

    # -- sizes --

    def describe(self, partition: Any) -> PartitionDescription:
        """The description, which must be consistent."""
        found = self.finish(self.store.describe(partition))
        self.assertIsInstance(found, PartitionDescription)
        description: PartitionDescription = found
        self.assertEqual(description.size, sum(each.size for each in description.segments))
        bases = [each.base_offset for each in description.segments]
        self.assertEqual(bases, sorted(set(bases)))
        return description

    def test_describe(self) -> None:
        """The size of a partition is that of its segments, and grows with what is appended."""
        partition = self.create(config={"segment.bytes": "600"})
        sizes = [self.describe(partition).size]
        for _ in range(10):
            self.send(partition, b"x" * 100)
            sizes.append(self.describe(partition).size)
        self.assertEqual(sizes[0], 0)
        for before, after in pairwise(sizes):
            self.assertGreaterEqual(after - before, 100)
        self.assertEqual(self.describe(partition).segments[0].base_offset, 0)

    def test_describe_storage(self) -> None:
        """A store says where it keeps the log, and how much room there is if it knows that."""
        description = self.finish(self.store.describe_storage())
        self.assertIsInstance(description, StorageDescription)
        self.assertTrue(description.place)
        self.assertGreaterEqual(description.free_bytes, -1)


def _first(stamps: list[int], start: int, timestamp: int) -> int:
    """The first offset, from C{start} on, whose timestamp is not older."""
    return next((each for each in range(start, len(stamps)) if stamps[each] >= timestamp), NOT_FOUND)
