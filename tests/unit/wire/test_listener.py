"""Tests for L{rustlog.wire.listener}."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rustlog.settings import BrokerConfig
from rustlog.wire.listener import REFUSALS_MAX, Capacity


class CapacityTests(SynchronousTestCase):
    def test_connections(self) -> None:
        """So many may stay; somewhat more are told that they may not."""
        capacity = Capacity(BrokerConfig(max_connections=3), Clock())
        self.assertEqual([capacity.enter() for _ in range(5)], [True] * 3 + [False] * 2)
        self.assertFalse(capacity.is_flooded)
        for _ in range(REFUSALS_MAX - 1):
            capacity.enter()
        self.assertTrue(capacity.is_flooded)
        for _ in range(REFUSALS_MAX + 4):
            capacity.leave()
        self.assertEqual(capacity.connections, 0)
        self.assertTrue(capacity.enter())

    def test_memory(self) -> None:
        """The budget is what was configured, and who waits for it hurries those who hold it."""
        clock = Clock()
        capacity = Capacity(BrokerConfig(queued_max_request_bytes=2**25), clock)
        self.assertIsNone(capacity.budget.requests.reserve(2**24))
        self.assertIsNone(capacity.budget.answers.reserve(2**24))

        class Holder:
            last_progress = 0.0
            is_cut_off = False

            def cut_off(self, reason: str) -> None:
                self.is_cut_off = True

        holder = Holder()
        capacity.slow_clients.watch(holder)
        clock.advance(3)
        self.assertFalse(holder.is_cut_off)
        capacity.budget.answers.reserve(1)
        clock.advance(3)
        self.assertTrue(holder.is_cut_off)
