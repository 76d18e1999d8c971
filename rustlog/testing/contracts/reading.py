"""Reading: which batches, how much, and for how long they stay valid."""

from __future__ import annotations

from typing import Any

from rustlog.errors import OffsetOutOfRange, TopicNotFound
from rustlog.log import records
from rustlog.model import MAX_OFFSET, Fetched, Isolation
from rustlog.testing.contracts.harness import PLENTY, LogStoreHarness, in_every_course


@in_every_course
class ReadContract(LogStoreHarness):
    """What L{ILogStore.read <rustlog.interfaces.ILogStore.read>} and L{ISlice} promise."""

    def filled(self, count: int = 5, config: dict[str, str] | None = None) -> Any:
        """A partition with so many batches of two records, about 100 bytes each."""
        partition = self.create(config=config)
        for number in range(count):
            self.send(partition, b"%05d" % (2 * number), b"%05d" % (2 * number + 1))
        return partition

    def first_size(self, partition: Any, offset: int) -> int:
        """The size of the batch that contains an offset."""
        batches = self.read_one(partition, offset, 1)
        self.assertTrue(batches, "the first batch is given even if it is larger")
        return batches[0].size

    # -- where a read begins and ends --

    def test_empty_log(self) -> None:
        """In an empty log there is nothing, and nobody waits for it."""
        partition = self.create()
        (answer,) = self.read((partition, 0, PLENTY))
        self.assertEqual(answer, Fetched((), 0, high_watermark=0, last_stable_offset=0, log_start_offset=0))

    def test_end_of_log(self) -> None:
        """At the end of the log there is nothing, and nobody waits for it."""
        partition = self.filled(2)
        (answer,) = self.read((partition, 4, PLENTY))
        self.assertEqual(answer, Fetched((), 0, high_watermark=4, last_stable_offset=4, log_start_offset=0))

    def test_bounds(self) -> None:
        """What is found comes with the bounds of the partition."""
        partition = self.filled(3)
        self.finish(self.store.delete_records(partition, 3))
        (answer,) = self.read((partition, 4, PLENTY))
        self.take(partition, answer)
        bounds = (answer.log_start_offset, answer.high_watermark, answer.last_stable_offset, answer.aborted)
        self.assertEqual(bounds, (3, 6, 6, ()))

    def test_read_committed(self) -> None:
        """Without transactions, everything is committed."""
        partition = self.filled(3)
        (answer,) = self.read((partition, 0, PLENTY), isolation=Isolation.READ_COMMITTED)
        self.assertEqual(self.take(partition, answer), self.read_one(partition, 0))

    def test_begins_with_the_batch_that_contains_the_offset(self) -> None:
        """Whole batches are given: the first may begin before the offset, but never ends before it."""
        partition = self.filled(10)
        for offset in range(20):
            first = self.read_one(partition, offset)[0]
            self.assertLessEqual(first.base_offset, offset)
            self.assertLessEqual(offset, first.last_offset)
            (value, *_) = [each.value for each in records.decode(first, from_offset=offset)]
            self.assertEqual(value, b"%05d" % offset)

    def test_small_segments(self) -> None:
        """However the log is cut into pieces, every offset is found."""
        partition = self.filled(20, config={"segment.bytes": "250"})
        for offset in range(40):
            first = self.read_one(partition, offset)[0]
            self.assertTrue(first.base_offset <= offset <= first.last_offset)

    def test_reads_the_same_for_ever(self) -> None:
        """What was read once reads the same again, and after more has been appended."""
        partition = self.filled(3)
        before = [self.read_one(partition, offset, 1) for offset in range(6)]
        self.send(partition, b"more")
        self.assertEqual([self.read_one(partition, offset, 1) for offset in range(6)], before)

    # -- how much --

    def test_max_bytes(self) -> None:
        """A read gives no more than it was asked for, in whole batches."""
        partition = self.filled(10)
        size = self.first_size(partition, 0)
        for limit in (size, size + 1, 2 * size - 1, 2 * size, 5 * size + 3):
            found = self.read_one(partition, 0, limit)
            self.assertGreaterEqual(len(found), 1)
            self.assertLessEqual(sum(each.size for each in found), limit)

    def test_max_bytes_of_the_answer(self) -> None:
        """The limit of the whole answer holds as well, whatever each partition would be allowed."""
        partition = self.filled(10)
        size = self.first_size(partition, 0)
        (answer,) = self.read((partition, 0, PLENTY), max_bytes=3 * size)
        self.assertLessEqual(answer.size, 3 * size)
        self.assertTrue(self.take(partition, answer))

    def test_first_batch_even_if_larger(self) -> None:
        """So that nobody gets stuck, the first batch is given even if it is larger than both limits."""
        partition = self.filled(3)
        size = self.first_size(partition, 2)
        for limit, total in ((size - 1, PLENTY), (PLENTY, size - 1), (1, 1), (0, 0)):
            (answer,) = self.read((partition, 2, limit), max_bytes=total)
            (found,) = self.take(partition, answer)
            self.assertEqual((found.size, found.base_offset <= 2 <= found.last_offset), (size, True))

    def test_only_the_first_batch_may_be_larger(self) -> None:
        """What the first partition took is not there for the others."""
        partitions = self.create_many(3)
        for partition in partitions:
            self.send(partition, b"x" * 1000)
        answers = self.read(*[(each, 0, PLENTY) for each in partitions], max_bytes=500)
        self.assertEqual([answer.size > 0 for answer in answers], [True, False, False])
        for partition, answer in zip(partitions, answers, strict=True):
            self.take(partition, answer)
            self.assertEqual((answer.log_start_offset, answer.high_watermark), (0, 1))

    def test_limit_of_each_partition(self) -> None:
        """A later partition with a limit smaller than its batch gets nothing, and the next one its share."""
        first, second, third = self.create_many(3)
        for partition in (first, second, third):
            self.send(partition, b"x" * 1000)
        answers = self.read((first, 0, 1), (second, 0, 500), (third, 0, 5000), max_bytes=5000)
        self.assertEqual([answer.size > 0 for answer in answers], [True, False, True])
        self.give_back(answers)

    def test_first_batch_is_the_first_that_there_is(self) -> None:
        """Partitions that are empty or in error do not use up the right to one batch."""
        empty, full, other = self.create_many(3)
        for partition in (full, other):
            self.send(partition, b"x" * 1000)
        wants = ((empty, 0, PLENTY), (empty, 9, PLENTY), (full, 0, 1), (other, 0, PLENTY))
        answers = self.read(*wants, max_bytes=1)
        self.assertEqual([self.size_of(answer) for answer in (answers[0], answers[3])], [0, 0])
        self.assertIsInstance(answers[1], OffsetOutOfRange)
        self.assertEqual(len(self.take(full, answers[2])), 1)
        self.give_back([answers[0], answers[3]])

    def size_of(self, answer: Any) -> int:
        """How many bytes were found."""
        self.assertIsInstance(answer, Fetched)
        size: int = answer.size
        return size

    def give_back(self, answers: list[Any]) -> None:
        """Release everything."""
        for answer in answers:
            if isinstance(answer, Fetched):
                answer.release()

    def test_huge_limits(self) -> None:
        """Limits may be as large as a protocol can express."""
        partition = self.filled(3)
        (answer,) = self.read((partition, 0, 2**63 - 1), max_bytes=2**63 - 1)
        self.assertTrue(self.take(partition, answer))

    # -- out of range --

    def test_beyond_the_end(self) -> None:
        """An offset behind the end is an error that tells the bounds."""
        partition = self.filled(2)
        for offset in (5, 1000, MAX_OFFSET):
            (error,) = self.read((partition, offset, PLENTY))
            self.assertIsInstance(error, OffsetOutOfRange)
            told = (error.requested, error.log_start_offset, error.high_watermark)
            self.assertEqual(told, (offset, 0, 4))

    def test_before_the_start(self) -> None:
        """An offset before the start is an error that tells the bounds."""
        partition = self.filled(3)
        self.finish(self.store.delete_records(partition, 3))
        for offset in (-1, 0, 2):
            (error,) = self.read((partition, offset, PLENTY))
            self.assertIsInstance(error, OffsetOutOfRange)
            told = (error.requested, error.log_start_offset, error.high_watermark)
            self.assertEqual(told, (offset, 3, 6))

    def test_before_an_empty_log(self) -> None:
        """Below 0 there is nothing, and above it nothing yet."""
        partition = self.create()
        answers = self.read((partition, -1, PLENTY), (partition, 1, PLENTY))
        for answer in answers:
            self.assertIsInstance(answer, OffsetOutOfRange)

    # -- several partitions --

    def test_several_partitions(self) -> None:
        """Answers come in the order of the wants, with errors in their places."""
        gone = self.create("gone")
        self.finish(self.store.catalog.delete("gone"))
        first, second = self.create_many(2)
        self.send(first, b"a")
        self.send(second, b"b")
        self.send(second, b"c")
        wants = ((second, 1), (gone, 0), (first, 0), (first, 7), (first, 1))
        answers = self.read(*[(partition, offset, PLENTY) for partition, offset in wants])
        kinds = [Fetched, TopicNotFound, Fetched, OffsetOutOfRange, Fetched]
        self.assertEqual([type(each) for each in answers], kinds)
        self.assertEqual([each.base_offset for each in self.take(second, answers[0])], [1])
        self.assertEqual([each.base_offset for each in self.take(first, answers[2])], [0])
        self.assertEqual(self.take(first, answers[4]), [])

    def test_one_partition_twice(self) -> None:
        """One partition may be wanted twice in one read."""
        partition = self.filled(4)
        first, second = self.read((partition, 6, PLENTY), (partition, 0, PLENTY))
        self.assertEqual(self.take(partition, first)[0].last_offset, 7)
        self.assertEqual(self.take(partition, second)[0].base_offset, 0)

    def test_nothing_wanted(self) -> None:
        """No wants, no answers."""
        self.assertEqual(self.read(), [])

    def test_reads_overlap(self) -> None:
        """Many reads at once each get what they asked for."""
        partition = self.filled(20, config={"segment.bytes": "600"})
        wants = [(partition, offset, 1) for offset in range(40)]
        pending = [self.store.read([want], 1, Isolation.READ_UNCOMMITTED) for want in wants]
        for offset, (answer,) in enumerate(self.finish_all(pending)):
            (found,) = self.take(partition, answer)
            self.assertTrue(found.base_offset <= offset <= found.last_offset)

    # -- slices --

    def test_slice(self) -> None:
        """A slice knows its size; if there is a file under it, it says where."""
        partition = self.filled(3)
        (answer,) = self.read((partition, 0, PLENTY))
        for each in answer.slices:
            region = each.region()
            if region is not None:
                descriptor, position = region
                self.assertGreaterEqual(min(descriptor, position), 0)
            self.assertEqual(bytes(each.buffer()), bytes(each.buffer()))
        self.take(partition, answer)

    def held(self, partition: Any, offset: int) -> tuple[Fetched, bytes]:
        """Something that was read and is not released yet, and what it holds."""
        (answer,) = self.read((partition, offset, PLENTY))
        self.assertTrue(answer.slices)
        return answer, self.content(answer)

    def content(self, fetched: Fetched) -> bytes:
        """The bytes of all slices."""
        return b"".join(bytes(each.buffer()) for each in fetched.slices)

    def test_slice_survives_appends(self) -> None:
        """What was read does not change while more is appended."""
        partition = self.filled(3, config={"segment.bytes": "250"})
        fetched, content = self.held(partition, 0)
        for _ in range(20):
            self.send(partition, b"more")
        self.assertEqual(self.content(fetched), content)
        fetched.release()

    def test_slice_survives_deleted_records(self) -> None:
        """What was read stays valid until it is released, even if the records are deleted meanwhile."""
        partition = self.filled(20, config={"segment.bytes": "250"})
        fetched, content = self.held(partition, 0)
        self.finish(self.store.delete_records(partition, 40))
        self.maintain()
        self.settle()
        self.assertEqual(self.content(fetched), content)
        fetched.release()
        self.send(partition, b"more")
        self.assertEqual(self.values(partition), [b"more"])

    def test_slice_survives_retention(self) -> None:
        """The same when they are too old."""
        partition = self.filled(20, config={"segment.bytes": "250", "retention.ms": "1000"})
        fetched, content = self.held(partition, 0)
        self.pass_time(3600)
        self.maintain()
        self.settle()
        self.assertEqual(self.bounds(partition), (40, 40))
        self.assertEqual(self.content(fetched), content)
        fetched.release()

    def test_slice_survives_deleted_topic(self) -> None:
        """The same when the whole topic is deleted, and another one of that name made."""
        partition = self.filled(20, config={"segment.bytes": "250"})
        fetched, content = self.held(partition, 0)
        self.finish(self.store.catalog.delete("orders"))
        new = self.create()
        self.send(new, b"new")
        self.maintain()
        self.settle()
        self.assertEqual(self.content(fetched), content)
        fetched.release()
        self.assertEqual(self.values(new), [b"new"])

    def test_slices_are_independent(self) -> None:
        """Releasing one slice leaves another one on the same records as it is."""
        partition = self.filled(3)
        first, content = self.held(partition, 0)
        second, _ = self.held(partition, 0)
        self.finish(self.store.delete_records(partition, 6))
        first.release()
        self.settle()
        self.assertEqual(self.content(second), content)
        second.release()
