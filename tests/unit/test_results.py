"""Tests for L{rustlog.results}."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from rustlog.results import deferred, shielded, then


class ThenTests(SynchronousTestCase):
    """Going on with a value or a Deferred."""

    def test_value(self) -> None:
        """With a value one goes on at once, without a Deferred."""
        self.assertEqual(then(5, lambda value: value + 1), 6)

    def test_deferred(self) -> None:
        """With a Deferred one goes on when the value is there."""
        waiting: Deferred[int] = Deferred()
        result = then(waiting, lambda value: value + 1)
        assert isinstance(result, Deferred)
        self.assertNoResult(result)
        waiting.callback(5)
        self.assertEqual(self.successResultOf(result), 6)

    def test_failure(self) -> None:
        """A Deferred that fails does so past the function."""
        result = then(fail(ValueError("no")), self.fail)
        self.failureResultOf(result, ValueError)

    def test_function_fails(self) -> None:
        """What the function raises is raised at once, or fails the Deferred."""
        self.assertRaises(ZeroDivisionError, then, 0, lambda value: 1 // value)
        self.failureResultOf(then(succeed(0), lambda value: 1 // value), ZeroDivisionError)

    def test_function_waits(self) -> None:
        """The function may itself give a Deferred."""
        self.assertEqual(self.successResultOf(then(5, succeed)), 5)
        self.assertEqual(self.successResultOf(then(succeed(5), succeed)), 5)


class DeferredTests(SynchronousTestCase):
    """Making a Deferred of both."""

    def test_value(self) -> None:
        """A value becomes a Deferred that has fired."""
        self.assertEqual(self.successResultOf(deferred(5)), 5)
        self.assertIsNone(self.successResultOf(deferred(None)))

    def test_deferred(self) -> None:
        """A Deferred stays the one that it is."""
        waiting: Deferred[int] = Deferred()
        self.assertIs(deferred(waiting), waiting)


class ShieldedTests(SynchronousTestCase):
    """Waiting for what must not be cancelled."""

    def test_results(self) -> None:
        """Who waits to the end gets the result, or the failure."""
        self.assertEqual(self.successResultOf(shielded(succeed(5))), 5)
        self.failureResultOf(shielded(fail(ValueError())), ValueError)

    def test_cancel(self) -> None:
        """Who cancels waits no longer; the work is not cancelled, and may end as it likes."""
        for end in (lambda work: work.callback(5), lambda work: work.errback(ValueError())):
            cancelled: list[object] = []
            work: Deferred[int] = Deferred(cancelled.append)
            waiting = shielded(work)
            waiting.cancel()
            self.failureResultOf(waiting, CancelledError)
            self.assertEqual(cancelled, [])
            end(work)
            self.assertIsNone(self.successResultOf(work))
