"""Tests for L{rustlog.wire.budget}."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.budget import Budget, Pool


class PoolTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.pool = Pool(self.clock, 100)

    def test_room_is_given_at_once(self) -> None:
        """Who asks while there is room gets it without waiting."""
        self.assertIsNone(self.pool.reserve(60))
        self.assertIsNone(self.pool.reserve(40))
        self.assertEqual(self.pool.used, 100)

    def test_waits_for_room(self) -> None:
        """Who asks for more than is left waits until somebody gives back."""
        self.pool.reserve(60)
        waiter = self.pool.reserve(41)
        self.assertNoResult(waiter)
        self.assertTrue(self.pool.is_contended)
        self.pool.give_back(60)
        self.assertNoResult(waiter)  # not from within the call of somebody else
        self.clock.advance(0)
        self.successResultOf(waiter)
        self.assertFalse(self.pool.is_contended)
        self.assertEqual(self.pool.used, 41)

    def test_first_come_first_served(self) -> None:
        """A small wish does not overtake a large one that came before it."""
        self.pool.reserve(90)
        large, small = self.pool.reserve(50), self.pool.reserve(5)
        self.clock.advance(0)
        self.assertNoResult(small)
        self.pool.give_back(90)
        self.clock.advance(0)
        self.successResultOf(large)
        self.successResultOf(small)

    def test_only_as_many_as_there_is_room_for(self) -> None:
        """What is given back is shared by those in front of the queue."""
        self.pool.reserve(100)
        waiters = [self.pool.reserve(40) for _ in range(3)]
        self.pool.give_back(100)
        self.clock.advance(0)
        self.successResultOf(waiters[0])
        self.successResultOf(waiters[1])
        self.assertNoResult(waiters[2])

    def test_larger_than_the_limit(self) -> None:
        """A wish that can never fit is granted when nothing else is in use."""
        self.pool.reserve(1)
        waiter = self.pool.reserve(500)
        self.pool.give_back(1)
        self.clock.advance(0)
        self.successResultOf(waiter)
        self.assertEqual(self.pool.used, 500)

    def test_take_goes_beyond_the_limit(self) -> None:
        """What is used in any case is counted, and makes others wait."""
        self.pool.take(150)
        waiter = self.pool.reserve(1)
        self.pool.give_back(50)
        self.clock.advance(0)
        self.assertNoResult(waiter)
        self.pool.give_back(1)
        self.clock.advance(0)
        self.successResultOf(waiter)

    def test_cancelled_waiter_lets_the_next_one_go(self) -> None:
        """Who gives up waiting does not hold up those behind."""
        self.pool.reserve(90)
        large, small = self.pool.reserve(50), self.pool.reserve(5)
        large.cancel()
        self.failureResultOf(large, CancelledError)
        self.clock.advance(0)
        self.successResultOf(small)
        self.assertEqual(self.pool.used, 95)

    def test_no_timer_is_left(self) -> None:
        """While nobody waits, giving back costs no call of the reactor."""
        self.pool.reserve(50)
        self.pool.give_back(50)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_giving_back_too_much_is_noticed(self) -> None:
        """A mistake in counting does not go unseen."""
        self.assertRaises(AssertionError, self.pool.give_back, 1)

    def test_never_beyond_the_limit(self) -> None:
        """Whatever is asked for and given back in whatever order, the limit holds and everybody is served."""

        @settings(deadline=None, max_examples=60)
        @given(st.lists(st.tuples(st.integers(1, 100), st.booleans(), st.booleans()), max_size=40))
        def check(steps: list[tuple[int, bool, bool]]) -> None:
            clock = Clock()
            pool = Pool(clock, 100)
            order: list[int] = []
            held: list[int] = []

            def granted(_: object, index: int, size: int) -> None:
                order.append(index)
                held.append(size)

            for index, (size, gives_back, turns) in enumerate(steps):
                waiter = pool.reserve(size)
                if waiter is None:
                    granted(None, index, size)
                else:
                    waiter.addCallback(granted, index, size)
                if gives_back and held:
                    pool.give_back(held.pop(0))
                if turns:
                    clock.advance(0)
                self.assertEqual(pool.used, sum(held))
                self.assertLessEqual(pool.used, 100)
            clock.advance(0)
            while held:
                pool.give_back(held.pop(0))
                clock.advance(0)
            self.assertEqual(order, list(range(len(steps))))

        check()


class BudgetTests(SynchronousTestCase):
    def test_halves(self) -> None:
        """Requests can not use up the memory of the answers for which they wait."""
        budget = Budget(Clock(), 200)
        budget.requests.reserve(100)
        self.assertFalse(budget.is_contended)
        self.assertIsNotNone(budget.requests.reserve(1))
        self.assertTrue(budget.is_contended)
        self.assertIsNone(budget.answers.reserve(100))

    def test_contended_by_answers(self) -> None:
        """Who waits for memory for an answer counts as waiting."""
        budget = Budget(Clock(), 200)
        budget.answers.reserve(100)
        budget.answers.reserve(1)
        self.assertTrue(budget.is_contended)
