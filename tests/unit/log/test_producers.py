"""Tests for L{rustlog.log.producers}."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import InvalidRecord, OutOfOrderSequence, StaleProducerEpoch
from rustlog.log.batch import RecordBatch, build_batch
from rustlog.log.producers import BATCHES_REMEMBERED, ProducerTable

LAST_SEQUENCE = 2**31 - 1
DAY_MS = 24 * 3600 * 1000


def batch(base_sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> RecordBatch:
    """A batch of an idempotent producer; what is in it does not matter here."""
    return build_batch(
        b"",
        record_count=count,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=base_sequence,
    )


class ProducerCase(SynchronousTestCase):
    """Has a log in which producers write."""

    def setUp(self) -> None:
        self.table = ProducerTable()
        self.end = 0

    def append(self, batch: RecordBatch, now_ms: int = 0) -> int:
        """Do as a store does; the offset that the producer is told."""
        original = self.table.check(batch)
        if original is not None:
            return original
        base_offset = self.end
        self.table.record(batch, base_offset, now_ms)
        self.end += batch.record_count
        return base_offset

    def assert_out_of_order(self, batch: RecordBatch, expected: int) -> None:
        error = self.assertRaises(OutOfOrderSequence, self.table.check, batch)
        facts = (error.producer_id, error.expected, error.received)
        self.assertEqual(facts, (batch.producer_id, expected, batch.base_sequence))


class SequenceTests(ProducerCase):
    """Which batches are next, which were there before, which are wrong."""

    def test_not_idempotent(self) -> None:
        """A producer without an id may send what it likes, and is not remembered."""
        for _ in range(3):
            self.assertIsNone(self.table.check(batch(-1, epoch=-1, producer_id=-1)))
            self.append(batch(-1, epoch=-1, producer_id=-1))
        self.assertEqual(len(self.table), 0)

    def test_in_order(self) -> None:
        """Batches that follow each other are accepted."""
        offsets = [self.append(batch(sequence, 10)) for sequence in (0, 10, 20)]
        self.assertEqual(offsets, [0, 10, 20])

    def test_duplicates(self) -> None:
        """A batch that comes again is told the offset that it got the first time."""
        self.append(batch(0, 10))
        self.append(batch(10, 5))
        self.assertEqual([self.append(batch(10, 5)), self.append(batch(0, 10))], [10, 0])
        self.assertEqual(self.end, 15)

    def test_five_are_remembered(self) -> None:
        """The last five batches are known as duplicates, not the one before them."""
        self.assertEqual(BATCHES_REMEMBERED, 5)
        for sequence in range(6):
            self.append(batch(sequence))
        self.assertEqual([self.append(batch(sequence)) for sequence in range(1, 6)], [1, 2, 3, 4, 5])
        self.assert_out_of_order(batch(0), 6)

    def test_gap(self) -> None:
        """A batch that skips sequence numbers has lost something on the way."""
        self.append(batch(0, 10))
        self.assert_out_of_order(batch(11), 10)
        self.append(batch(10))

    def test_overlap(self) -> None:
        """A batch that repeats only a part of another, or more than it, is no duplicate."""
        self.append(batch(0, 10))
        for wrong in (batch(0, 9), batch(0, 11), batch(1, 9), batch(5, 10)):
            self.assert_out_of_order(wrong, 10)

    def test_first_sequence(self) -> None:
        """Of a producer that is not known any sequence is welcome: it may have been forgotten."""
        self.append(batch(1000))
        self.assert_out_of_order(batch(0), 1001)

    def test_producers_are_independent(self) -> None:
        """Each producer has numbers of its own."""
        self.append(batch(0, 10, producer_id=1))
        self.append(batch(0, 3, producer_id=2))
        self.assert_out_of_order(batch(3, producer_id=1), 10)
        self.assert_out_of_order(batch(10, producer_id=2), 3)

    def test_wraparound(self) -> None:
        """After 2,147,483,647 comes 0, between batches and within one."""
        self.append(batch(LAST_SEQUENCE - 1, 2))
        self.append(batch(0, 5))
        self.assertEqual(self.append(batch(LAST_SEQUENCE - 1, 2)), 0)
        self.append(batch(LAST_SEQUENCE - 1, 5, producer_id=8))
        self.assert_out_of_order(batch(2, producer_id=8), 3)
        self.append(batch(3, producer_id=8))
        self.assertEqual(self.append(batch(LAST_SEQUENCE - 1, 5, producer_id=8)), 7)

    def test_incomplete(self) -> None:
        """A batch that names a producer but no epoch or sequence is refused."""
        for wrong in (batch(-1), batch(0, epoch=-1)):
            self.assertRaises(InvalidRecord, self.table.check, wrong)

    def test_refusal_changes_nothing(self) -> None:
        """What was refused leaves no trace."""
        self.append(batch(0))
        before = self.table.snapshot()
        for wrong in (batch(5), batch(0, 2), batch(-1), batch(1, epoch=1)):
            self.assertRaises((OutOfOrderSequence, InvalidRecord), self.table.check, wrong)
        self.assertEqual(self.table.snapshot(), before)


class EpochTests(ProducerCase):
    """Incarnations of a producer."""

    def test_new_epoch_begins_at_zero(self) -> None:
        """A new incarnation begins its numbers anew."""
        self.append(batch(0, 10))
        self.assert_out_of_order(batch(10, epoch=1), 0)
        self.assertEqual(self.append(batch(0, epoch=1)), 10)
        self.assertEqual(self.append(batch(1, epoch=1)), 11)

    def test_old_epoch_is_fenced(self) -> None:
        """An earlier incarnation may not write any more, not even what it has written already."""
        self.append(batch(0))
        self.append(batch(0, epoch=2))
        for late in (batch(1), batch(0), batch(0, epoch=1)):
            error = self.assertRaises(StaleProducerEpoch, self.table.check, late)
            facts = (error.producer_id, error.epoch, error.current_epoch)
            self.assertEqual(facts, (7, late.producer_epoch, 2))

    def test_same_numbers_in_another_epoch(self) -> None:
        """The first batch of a new incarnation is no duplicate of the first one of the old."""
        self.append(batch(0, 5))
        self.assertEqual(self.append(batch(0, 5, epoch=1)), 5)
        self.assertEqual(self.append(batch(0, 5, epoch=1)), 5)


class ForgettingTests(ProducerCase):
    """Producers that are gone."""

    def test_expire(self) -> None:
        """Who was silent for long enough is forgotten, and no one else."""
        for producer_id in range(4):
            self.append(batch(0, producer_id=producer_id), now_ms=producer_id * 1000)
        self.append(batch(1, producer_id=0), now_ms=5000)
        self.assertEqual(self.table.expire(DAY_MS + 2000, DAY_MS), 2)
        self.assertEqual([row[0] for row in self.table.snapshot()], [3, 0])
        self.assertIsNone(self.table.check(batch(99, producer_id=1)))
        self.assertEqual(self.table.expire(DAY_MS + 2000, DAY_MS), 0)

    def test_expire_a_few_at_a_time(self) -> None:
        """Very many are forgotten in several steps."""
        for producer_id in range(10):
            self.append(batch(0, producer_id=producer_id))
        counts = [self.table.expire(DAY_MS, DAY_MS, limit=4) for _ in range(4)]
        self.assertEqual(counts, [4, 4, 2, 0])

    def test_number_is_limited(self) -> None:
        """Invented producer ids do not fill the memory: the longest silent one is forgotten."""
        self.table = ProducerTable(producers_max=3)
        for producer_id in range(3):
            self.append(batch(0, producer_id=producer_id))
        self.append(batch(1, producer_id=0))
        self.append(batch(0, producer_id=3))
        self.assertEqual([row[0] for row in self.table.snapshot()], [2, 0, 3])

    def test_truncate(self) -> None:
        """Batches that are gone from the log are next again, not duplicates."""
        for sequence in range(4):
            self.append(batch(sequence))
        self.table.truncate_from(2)
        self.assertEqual(self.table.check(batch(1)), 1)
        self.assert_out_of_order(batch(3), 2)
        self.assertIsNone(self.table.check(batch(2)))

    def test_truncate_forgets(self) -> None:
        """A producer of whom nothing is left in the log is forgotten."""
        self.append(batch(0, producer_id=1))
        self.append(batch(0, producer_id=2))
        self.table.truncate_from(1)
        self.assertEqual([row[0] for row in self.table.snapshot()], [1])
        self.table.truncate_from(0)
        self.assertEqual(len(self.table), 0)

    def test_truncate_takes_an_epoch_back(self) -> None:
        """When the first batch of a new incarnation is taken back, the old one may go on."""
        self.append(batch(0))
        self.append(batch(0, epoch=1))
        self.table.truncate_from(1)
        self.assertIsNone(self.table.check(batch(1)))


class SnapshotTests(ProducerCase):
    """Surviving a restart."""

    def test_round_trip(self) -> None:
        """A table that was written down as JSON goes on as if nothing had happened."""
        for sequence in range(7):
            self.append(batch(sequence, producer_id=1), now_ms=10)
        self.append(batch(LAST_SEQUENCE, 3, epoch=4, producer_id=2**62), now_ms=20)
        snapshot = self.table.snapshot()
        self.table = ProducerTable.restore(json.loads(json.dumps(snapshot)))
        self.assertEqual(self.table.snapshot(), snapshot)
        self.assertEqual(self.append(batch(2, producer_id=1)), 2)
        self.assert_out_of_order(batch(1, producer_id=1), 7)
        self.append(batch(2, epoch=4, producer_id=2**62), now_ms=20)
        self.assertEqual(self.table.expire(15, 5), 1)

    def test_empty(self) -> None:
        """A table without producers is written down as nothing."""
        self.assertEqual(self.table.snapshot(), [])
        self.assertEqual(len(ProducerTable.restore([])), 0)

    def test_a_snapshot_does_not_change(self) -> None:
        """What was written down is not changed by what happens later."""
        self.append(batch(0))
        snapshot = self.table.snapshot()
        self.append(batch(1))
        self.assertEqual(len(snapshot[0][2]), 1)

    def test_damaged(self) -> None:
        """What is no table is refused as such."""
        for rows in (
            None,
            5,
            "abc",
            [None],
            [[1]],
            [[1, 2, 3]],
            [[1, 2, [[0, 0, 0]]]],
            [[1, 2, [[0, 0, 0, "x"]]]],
            [[None, 2, [[0, 0, 0, 0]]]],
        ):
            self.assertRaises(ValueError, ProducerTable.restore, rows)


class RetryTests(ProducerCase):
    """The promise as a whole."""

    def test_any_retries(self) -> None:
        """Whatever is lost and sent again, each batch is in the log once and in order."""

        @settings(deadline=None, max_examples=100)
        @given(
            st.lists(st.integers(1, 4), min_size=1, max_size=30),
            st.lists(st.integers(0, 4), max_size=60),
            st.integers(LAST_SEQUENCE - 20, LAST_SEQUENCE),
        )
        def once_and_in_order(sizes: list[int], steps_back: list[int], first: int) -> None:
            self.setUp()
            batches, sequence = [], first
            for size in sizes:
                batches.append(batch(sequence, size))
                sequence = (sequence + size) & LAST_SEQUENCE
            told: dict[int, int] = {}
            position = 0
            for back in [*steps_back, *[0] * len(batches)]:
                # A retry goes back, but no further than what may be in flight, then on in order.
                position = max(0, len(told) - BATCHES_REMEMBERED, position - back)
                if position < len(batches):
                    offset = self.append(batches[position])
                    self.assertEqual(told.setdefault(position, offset), offset)
                    position += 1
            expected = {number: sum(sizes[:number]) for number in range(len(sizes))}
            self.assertEqual(told, {number: expected[number] for number in told})
            self.assertEqual(self.end, sum(sizes[number] for number in told))

        once_and_in_order()
