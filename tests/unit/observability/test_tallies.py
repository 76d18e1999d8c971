"""Tests for L{rustlog.observability.tallies}."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import StorageFull
from rustlog.log.records import build
from rustlog.model import Appended, Fetched, Record
from rustlog.observability.tallies import LATENCY_SECONDS, OTHER, TALLIES_MAX, ListenerMeter, Traffic


class ListenerMeterTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.meter = ListenerMeter("rustlog", "lan")

    def test_requests(self) -> None:
        """Requests are counted by name and outcome, with their bytes and the time that they took."""
        self.meter.answered("Produce", "ok", 100, 20, 0.25)
        self.meter.answered("Produce", "ok", 50, 20, 0.5)
        self.meter.answered("Produce", "TopicNotFound", 1, 2, 0.125)
        tally = self.meter.tallies["Produce", "ok"]
        self.assertEqual((tally.count, tally.request_bytes, tally.response_bytes), (2, 150, 40))
        self.assertEqual(tally.seconds, 0.75)
        self.assertEqual(self.meter.tallies["Produce", "TopicNotFound"].count, 1)

    def test_buckets(self) -> None:
        """A latency falls into the bucket whose upper bound it does not exceed, or beyond the last."""
        for seconds in (0.0, LATENCY_SECONDS[0], LATENCY_SECONDS[0] * 1.01, LATENCY_SECONDS[-1], 3600.0):
            self.meter.answered("Produce", "ok", 0, 0, seconds)
        latencies = self.meter.tallies["Produce", "ok"].latencies
        self.assertEqual((latencies[0], latencies[1], latencies[-2], latencies[-1]), (2, 1, 1, 1))

    def test_bounded(self) -> None:
        """A protocol that makes up names for ever does not take memory for ever."""
        for number in range(TALLIES_MAX + 50):
            self.meter.answered(f"made up {number}", "ok", 1, 1, 0.1)
        self.assertEqual(len(self.meter.tallies), TALLIES_MAX + 1)
        self.assertEqual(self.meter.tallies[OTHER, OTHER].count, 50)

    def test_connections(self) -> None:
        """Connections are counted: those that are open, and those that ever were or were refused."""
        self.meter.entered(is_welcome=True)
        self.meter.entered(is_welcome=False)
        self.meter.left()
        self.assertEqual((self.meter.open, self.meter.opened, self.meter.refused), (1, 2, 1))


class TrafficTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.traffic = Traffic()
        self.flow = self.traffic["rustlog"]

    def test_by_protocol(self) -> None:
        """Each protocol has its own flow."""
        self.assertIs(self.traffic["rustlog"], self.flow)
        self.assertIsNot(self.traffic["kafka"], self.flow)

    def test_appended(self) -> None:
        """What was appended counts; what was refused, or had been there before, does not."""
        batch = build([Record(b"a"), Record(b"b")], now_ms=0)
        answers: list[Any] = [Appended(0, 0), StorageFull(), Appended(0, 0, duplicate=True)]
        self.assertIs(self.flow.appended(answers, [(None, batch)] * 3), answers)
        self.assertEqual((self.flow.appended_batches, self.flow.appended_records), (1, 2))
        self.assertEqual(self.flow.appended_bytes, batch.size)

    def test_read(self) -> None:
        """What was read counts; errors do not."""
        answers: list[Any] = [Fetched((), 70, 0, 0, 0), StorageFull(), Fetched((), 7, 0, 0, 0)]
        self.assertIs(self.flow.read(answers), answers)
        self.assertEqual(self.flow.read_bytes, 77)
