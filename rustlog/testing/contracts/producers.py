"""Idempotent producers: retries that do no harm."""

from __future__ import annotations

from typing import Any

from rustlog.errors import OutOfOrderSequence, StaleProducerEpoch
from rustlog.log.batch import RecordBatch
from rustlog.model import Appended
from rustlog.results import deferred
from rustlog.testing.contracts.harness import LogStoreHarness, in_every_course

PRODUCER_ID = 4711


@in_every_course
class ProducerContract(LogStoreHarness):
    """What L{ILogStore.append <rustlog.interfaces.ILogStore.append>} promises to those who count."""

    def numbered(self, sequence: int, count: int = 1, *, epoch: int = 0) -> RecordBatch:
        """A batch of the producer that these tests are about."""
        self.need("producer_state", "what idempotent producers have sent")
        values = [b"%d.%d" % (epoch, sequence + number) for number in range(count)]
        return self.batch(*values, producer=(PRODUCER_ID, epoch, sequence))

    def test_in_sequence(self) -> None:
        """Batches that follow each other are accepted."""
        partition = self.create()
        for sequence, count in ((0, 1), (1, 3), (4, 2)):
            self.send_batch(partition, self.numbered(sequence, count))
        self.assertEqual(self.values(partition), [b"0.%d" % number for number in range(6)])

    def test_duplicate(self) -> None:
        """A batch that is sent again is not appended again: the answer is that of the original."""
        partition = self.create()
        self.send(partition, b"from someone else")
        batch = self.numbered(0, 2)
        original = self.send_batch(partition, batch)
        again = self.send_batch(partition, batch)
        self.assertEqual((original.base_offset, original.duplicate), (1, False))
        self.assertEqual((again.base_offset, again.duplicate), (1, True))
        self.assertEqual(self.values(partition), [b"from someone else", b"0.0", b"0.1"])

    def test_duplicates_of_the_last_five(self) -> None:
        """A producer may have five batches on the way, and lose the answers to all of them."""
        partition = self.create()
        batches = [self.numbered(sequence) for sequence in range(5)]
        for batch in batches:
            self.send_batch(partition, batch)
        for offset, batch in enumerate(batches):
            again = self.send_batch(partition, batch)
            self.assertEqual((again.base_offset, again.duplicate), (offset, True))
        self.assertEqual(self.send_batch(partition, self.numbered(5)).base_offset, 5)

    def test_duplicate_in_the_same_call(self) -> None:
        """The original and its duplicate may even arrive together."""
        partition = self.create()
        batch = self.numbered(0)
        first, second = self.append((partition, batch), (partition, batch))
        self.assertEqual((self.accepted(first).duplicate, self.accepted(second).duplicate), (False, True))
        self.assertEqual(self.values(partition), [b"0.0"])

    def test_duplicate_waits_for_its_original(self) -> None:
        """The answer to a duplicate says "appended", so it does not come before that is true."""
        partition = self.create()
        batch = self.numbered(0)
        visible: list[int] = []

        def look(answers: list[Any]) -> list[Any]:
            visible.append(partition.high_watermark)
            return answers

        pending = [deferred(self.store.append([(partition, batch)])).addCallback(look) for _ in range(3)]
        answers = [self.accepted(answer) for (answer,) in self.finish_all(pending)]
        self.assertEqual([each.base_offset for each in answers], [0, 0, 0])
        self.assertEqual([each.duplicate for each in answers], [False, True, True])
        self.assertEqual(visible, [1, 1, 1])

    def test_overlapping_sequences(self) -> None:
        """Batches on the way at the same time are judged in the order of the calls."""
        partition = self.create()
        pending = [self.store.append([(partition, self.numbered(sequence))]) for sequence in (0, 1, 3, 2, 3)]
        answers = [answer for (answer,) in self.finish_all(pending)]
        kinds = [Appended, Appended, OutOfOrderSequence, Appended, Appended]
        self.assertEqual([type(each) for each in answers], kinds)
        self.assertEqual(self.values(partition), [b"0.0", b"0.1", b"0.2", b"0.3"])

    def test_gap(self) -> None:
        """A batch that does not follow is refused and leaves no trace; the right one is still welcome."""
        partition = self.create()
        self.send_batch(partition, self.numbered(0, 2))
        (refused,) = self.append((partition, self.numbered(3)))
        self.assertIsInstance(refused, OutOfOrderSequence)
        self.assertEqual((refused.producer_id, refused.expected, refused.received), (PRODUCER_ID, 2, 3))
        self.assertEqual(self.bounds(partition), (0, 2))
        self.assertEqual(self.send_batch(partition, self.numbered(2)).base_offset, 2)
        self.assertEqual(self.values(partition), [b"0.0", b"0.1", b"0.2"])

    def test_overlap_is_no_duplicate(self) -> None:
        """A batch that repeats only a part of an earlier one is refused."""
        partition = self.create()
        self.send_batch(partition, self.numbered(0, 4))
        for batch in (self.numbered(0, 2), self.numbered(2, 2), self.numbered(3, 5)):
            (refused,) = self.append((partition, batch))
            self.assertIsInstance(refused, OutOfOrderSequence)
        self.assertEqual(self.bounds(partition), (0, 4))

    def test_stale_epoch(self) -> None:
        """Once a new incarnation has written, the old one is shut out."""
        partition = self.create()
        self.send_batch(partition, self.numbered(0, epoch=3))
        self.send_batch(partition, self.numbered(0, epoch=4))
        (refused,) = self.append((partition, self.numbered(1, epoch=3)))
        self.assertIsInstance(refused, StaleProducerEpoch)
        self.assertEqual((refused.producer_id, refused.epoch, refused.current_epoch), (PRODUCER_ID, 3, 4))
        self.assertEqual(self.values(partition), [b"3.0", b"4.0"])

    def test_new_epoch_begins_at_zero(self) -> None:
        """A new incarnation counts from the beginning."""
        partition = self.create()
        self.send_batch(partition, self.numbered(0, 5, epoch=0))
        (refused,) = self.append((partition, self.numbered(5, epoch=1)))
        self.assertIsInstance(refused, OutOfOrderSequence)
        self.send_batch(partition, self.numbered(0, epoch=1))
        self.assertEqual(self.bounds(partition), (0, 6))

    def test_partitions_count_sequences_for_themselves(self) -> None:
        """The same numbers in another partition are no duplicates."""
        partitions = self.create_many(2)
        batch = self.numbered(0)
        answers = self.append(*[(each, batch) for each in partitions])
        self.assertEqual([self.accepted(each).duplicate for each in answers], [False, False])
        self.assertEqual([self.values(each) for each in partitions], [[b"0.0"], [b"0.0"]])

    def test_producers_count_for_themselves(self) -> None:
        """What one producer sends says nothing about another, nor about those who do not count."""
        partition = self.create()
        self.send_batch(partition, self.numbered(0))
        self.send_batch(partition, self.batch(b"x", producer=(PRODUCER_ID + 1, 0, 0)))
        self.send(partition, b"y")
        self.send(partition, b"y")
        self.send_batch(partition, self.numbered(1))
        self.assertEqual(self.values(partition), [b"0.0", b"x", b"y", b"y", b"0.1"])

    def test_refusals_in_their_place(self) -> None:
        """A refused batch stands between accepted ones, and does not count for those behind it."""
        partition = self.create()
        batches = [self.numbered(0), self.numbered(7), self.numbered(1), self.numbered(0), self.batch(b"x")]
        answers = self.append(*[(partition, batch) for batch in batches])
        kinds = [Appended, OutOfOrderSequence, Appended, Appended, Appended]
        self.assertEqual([type(each) for each in answers], kinds)
        self.assertEqual(answers[3].duplicate, True)
        self.assertEqual(self.values(partition), [b"0.0", b"0.1", b"x"])

    def test_duplicate_of_deleted_records(self) -> None:
        """A retry is harmless even if what it repeats has been deleted meanwhile."""
        partition = self.create()
        batch = self.numbered(0, 2)
        self.send_batch(partition, batch)
        self.finish(self.store.delete_records(partition, 2))
        again = self.send_batch(partition, batch)
        self.assertEqual((again.base_offset, again.duplicate, again.log_start_offset), (0, True, 2))
        self.assertEqual(self.bounds(partition), (2, 2))

    # -- for tools --

    def test_description(self) -> None:
        """Each producer is known by its last batch, in the order in which they were last heard of."""
        partition = self.create()
        self.send_batch(partition, self.numbered(0, 3))
        self.send_batch(partition, self.batch(b"x", producer=(PRODUCER_ID + 1, 5, 0)))
        self.pass_time(10)
        before_ms = self.environment.wall.now_ms()
        self.send(partition, b"from someone who does not count")
        self.send_batch(partition, self.numbered(0, 2, epoch=1))
        other, latest = self.finish(self.store.producers(partition))
        self.assertEqual((other.producer_id, other.epoch, other.last_sequence), (PRODUCER_ID + 1, 5, 0))
        self.assertEqual((latest.producer_id, latest.epoch, latest.last_sequence), (PRODUCER_ID, 1, 1))
        self.assertLess(other.last_append_ms, before_ms)
        self.assertGreaterEqual(latest.last_append_ms, before_ms)

    def test_description_of_nobody(self) -> None:
        """A partition without idempotent producers knows none, nor does it know those of its neighbour."""
        mine, other = self.create_many(2)
        self.send_batch(mine, self.numbered(0))
        self.send(other, b"a")
        self.assertEqual(self.finish(self.store.producers(other)), ())

    # -- ids --

    def test_producer_ids(self) -> None:
        """Ids are handed out in ranges, and none of them twice, however the calls overlap."""
        counts = (1, 5, 1, 1000, 3)
        firsts = self.finish_all(self.store.allocate_producer_ids(count) for count in counts)
        ids = [first + number for first, count in zip(firsts, counts, strict=True) for number in range(count)]
        self.assertEqual(len(set(ids)), sum(counts))
        self.assertGreaterEqual(min(ids), 0)
