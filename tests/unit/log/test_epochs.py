"""Tests for L{rustlog.log.epochs}."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.epochs import NO_EPOCH, LeaderEpochs

UNKNOWN = (NO_EPOCH, NO_EPOCH)


class LeaderEpochsTests(SynchronousTestCase):
    """The history of one partition."""

    def setUp(self) -> None:
        self.epochs = LeaderEpochs([(1, 0), (2, 10), (5, 20)])

    def assert_history(self, *entries: list[int]) -> None:
        self.assertEqual(self.epochs.snapshot(), list(entries))

    def test_empty(self) -> None:
        """Before anything was written, nothing is known."""
        epochs = LeaderEpochs()
        self.assertEqual((epochs.current, epochs.at(0)), (NO_EPOCH, NO_EPOCH))
        self.assertEqual(epochs.end_of(0, 0), UNKNOWN)
        self.assertEqual(epochs.snapshot(), [])
        epochs.truncate_from(0)
        epochs.drop_before(5)
        self.assertEqual(epochs.snapshot(), [])

    def test_current(self) -> None:
        """The latest epoch is the current one."""
        self.assertEqual(self.epochs.current, 5)

    def test_at(self) -> None:
        """Every offset was written under some epoch, the next one will be under the latest."""
        found = [self.epochs.at(offset) for offset in (0, 9, 10, 19, 20, 1000)]
        self.assertEqual(found, [1, 1, 2, 2, 5, 5])
        self.assertEqual(LeaderEpochs([(3, 7)]).at(6), NO_EPOCH)

    def test_end_of(self) -> None:
        """An epoch ends where the next one begins; the latest ends with the log."""
        self.assertEqual(self.epochs.end_of(1, 25), (1, 10))
        self.assertEqual(self.epochs.end_of(2, 25), (2, 20))
        self.assertEqual(self.epochs.end_of(5, 25), (5, 25))

    def test_end_of_epoch_without_records(self) -> None:
        """Of an epoch under which nothing was written here, the one before it is told."""
        self.assertEqual(self.epochs.end_of(3, 25), (2, 20))
        self.assertEqual(self.epochs.end_of(4, 25), (2, 20))

    def test_end_of_unknown(self) -> None:
        """An epoch that was never reached, or is none, has no end."""
        self.assertEqual(self.epochs.end_of(6, 25), UNKNOWN)
        self.assertEqual(self.epochs.end_of(-1, 25), UNKNOWN)

    def test_end_of_removed(self) -> None:
        """A consumer of an epoch that retention has removed goes on where the first known one begins."""
        epochs = LeaderEpochs([(3, 100), (4, 200)])
        self.assertEqual(epochs.end_of(1, 300), (1, 100))

    def test_begin(self) -> None:
        """A new epoch is added once; to begin it again changes nothing."""
        self.assertTrue(self.epochs.begin(6, 30))
        self.assertFalse(self.epochs.begin(6, 30))
        self.assertFalse(self.epochs.begin(6, 35))
        self.assert_history([1, 0], [2, 10], [5, 20], [6, 30])

    def test_begin_where_another_began(self) -> None:
        """An epoch under which nothing was written gives way to the next."""
        self.assertTrue(self.epochs.begin(6, 20))
        self.assert_history([1, 0], [2, 10], [6, 20])

    def test_begin_earlier(self) -> None:
        """What the history said of later offsets, or of later epochs, gives way."""
        self.assertTrue(self.epochs.begin(6, 5))
        self.assert_history([1, 0], [6, 5])
        self.assertTrue(self.epochs.begin(3, 50))
        self.assert_history([1, 0], [3, 50])
        self.assertTrue(self.epochs.begin(3, 40))
        self.assert_history([1, 0], [3, 40])

    def test_begin_nonsense(self) -> None:
        """Negative epochs and offsets are a mistake of the caller."""
        self.assertRaises(ValueError, self.epochs.begin, -1, 30)
        self.assertRaises(ValueError, self.epochs.begin, 7, -1)
        self.assertEqual(self.epochs.current, 5)

    def test_truncate(self) -> None:
        """Epochs whose records are all gone are forgotten."""
        self.epochs.truncate_from(20)
        self.assert_history([1, 0], [2, 10])
        self.epochs.truncate_from(11)
        self.assert_history([1, 0], [2, 10])
        self.epochs.truncate_from(0)
        self.assert_history()

    def test_drop_before(self) -> None:
        """What lies before the start of the log is forgotten; the epoch in force there begins there."""
        self.epochs.drop_before(0)
        self.assert_history([1, 0], [2, 10], [5, 20])
        self.epochs.drop_before(15)
        self.assert_history([2, 15], [5, 20])
        self.epochs.drop_before(20)
        self.assert_history([5, 20])
        self.epochs.drop_before(99)
        self.assert_history([5, 99])

    def test_round_trip(self) -> None:
        """A history that was written down as JSON is the same afterwards."""
        rows = json.loads(json.dumps(self.epochs.snapshot()))
        self.assertEqual(LeaderEpochs.restore(rows).snapshot(), self.epochs.snapshot())
        self.assertEqual(LeaderEpochs.restore([]).current, NO_EPOCH)

    def test_damaged(self) -> None:
        """What is no history is refused as such."""
        for rows in (None, 7, [1], [[1]], [[1, 2, 3]], [["a", 1]], [[None, 1]], [[-1, 0]], ["a"]):
            self.assertRaises(ValueError, LeaderEpochs.restore, rows)

    def test_any_history(self) -> None:
        """Whatever happens, epochs and offsets ascend, and each offset lies before its epoch's end."""
        what = st.sampled_from(["begin", "truncate", "drop"])
        step = st.tuples(what, st.integers(0, 9), st.integers(0, 50))

        @settings(deadline=None, max_examples=100)
        @given(st.lists(step, max_size=12))
        def is_sound(steps: list[tuple[str, int, int]]) -> None:
            epochs = LeaderEpochs()
            for what, epoch, offset in steps:
                if what == "begin":
                    epochs.begin(epoch, offset)
                    self.assertEqual((epochs.current, epochs.at(offset)), (epoch, epoch))
                elif what == "truncate":
                    epochs.truncate_from(offset)
                else:
                    epochs.drop_before(offset)
                entries = epochs.snapshot()
                for before, after in pairwise(entries):
                    self.assertTrue(before[0] < after[0] and before[1] < after[1])
            for offset in range(51):
                epoch = epochs.at(offset)
                if epoch != NO_EPOCH:
                    known, end = epochs.end_of(epoch, 51)
                    self.assertEqual(known, epoch)
                    self.assertLess(offset, end)

        is_sound()
