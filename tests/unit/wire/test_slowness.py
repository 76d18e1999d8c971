"""Tests for L{rustlog.wire.slowness}."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.slowness import SlowClients


class Holder:
    """A client that does nothing unless told."""

    def __init__(self, clients: SlowClients) -> None:
        self.clients = clients
        self.last_progress = 0.0
        self.reasons: list[str] = []

    def cut_off(self, reason: str) -> None:
        self.reasons.append(reason)
        self.clients.unwatch(self)


class SlowClientsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.contended = False
        self.clients = SlowClients(self.clock, 30_000, lambda: self.contended)
        self.holder = Holder(self.clients)

    def test_cut_off_after_the_timeout(self) -> None:
        """Who holds memory and does nothing for the whole time is cut off."""
        self.clients.watch(self.holder)
        self.clock.pump([3] * 9)
        self.assertEqual(self.holder.reasons, [])
        self.clock.advance(3)
        self.assertEqual(self.holder.reasons, ["it neither sent nor read anything for 30.0 s"])

    def test_progress_counts(self) -> None:
        """Who does something now and then stays."""
        self.clients.watch(self.holder)
        for _ in range(30):
            self.clock.advance(3)
            self.holder.last_progress = self.clock.seconds()
        self.assertEqual(self.holder.reasons, [])

    def test_sooner_when_others_wait(self) -> None:
        """When others wait for memory, a tenth of the time is enough."""
        self.contended = True
        self.clients.watch(self.holder)
        self.clock.pump([1] * 2)
        self.assertEqual(self.holder.reasons, [])
        self.clock.advance(1)
        self.assertEqual(len(self.holder.reasons), 1)

    def test_many_at_once(self) -> None:
        """All who are slow are cut off, and nobody else."""
        slow = [Holder(self.clients) for _ in range(5)]
        for each in [*slow, self.holder]:
            self.clients.watch(each)
        self.holder.last_progress = 20.0
        self.clock.pump([3] * 10)
        self.assertEqual([len(each.reasons) for each in slow], [1] * 5)
        self.assertEqual(self.holder.reasons, [])

    def test_nothing_ticks_without_holders(self) -> None:
        """A broker whose clients are quick has no timer running."""
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.clients.watch(self.holder)
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.clients.unwatch(self.holder)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.clients.unwatch(self.holder)
        self.clients.watch(self.holder)
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
