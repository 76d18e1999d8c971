"""Tests for L{rustlog.observability.lateness}."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rustlog.observability.lateness import INTERVAL_SECONDS, Lateness


class LatenessTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.observed: list[float] = []
        self.lateness = Lateness(self.clock, self.observed.append)

    def test_in_time(self) -> None:
        """As long as timers are in time, nothing is late."""
        self.lateness.start()
        self.clock.pump([INTERVAL_SECONDS] * 3)
        self.assertEqual(self.observed, [0.0] * 3)

    def test_late(self) -> None:
        """A reactor that is busy for a long time is late by that, however many intervals it is."""
        self.lateness.start()
        self.clock.advance(INTERVAL_SECONDS + 2.5)
        self.clock.advance(INTERVAL_SECONDS)
        self.assertEqual(self.observed, [2.5, 0.0])

    def test_stop(self) -> None:
        """Once stopped, no timer is left; stopping what never started is nothing."""
        self.lateness.stop()
        self.lateness.start()
        self.lateness.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
