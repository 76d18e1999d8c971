"""Tests for L{rustlog.storage.watchers}."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rustlog.model import TopicPartition
from rustlog.storage.watchers import Watchers


class Partition:
    """As much of a partition as is needed here."""

    def __init__(self, name: str) -> None:
        self.name = TopicPartition(name, 0)


class WatchersTests(SynchronousTestCase):
    """Telling those who wait."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.watchers = Watchers(self.clock)
        self.a: Any = Partition("a")
        self.b: Any = Partition("b")
        self.heard: list[tuple[str, Any]] = []

    def watch(self, partition: Any, who: str) -> Any:
        return self.watchers.watch(partition, lambda moved: self.heard.append((who, moved)))

    def test_told_later(self) -> None:
        """A listener is told from the reactor, never from within the announcement."""
        self.watch(self.a, "x")
        self.watchers.announce(self.a)
        self.assertEqual(self.heard, [])
        self.clock.advance(0)
        self.assertEqual(self.heard, [("x", self.a)])

    def test_told_once(self) -> None:
        """Any number of announcements in one turn is told once, and the next one again."""
        self.watch(self.a, "x")
        for _ in range(5):
            self.watchers.announce(self.a)
        self.clock.advance(0)
        self.clock.advance(1)
        self.assertEqual(len(self.heard), 1)
        self.watchers.announce(self.a)
        self.clock.advance(0)
        self.assertEqual(len(self.heard), 2)

    def test_who_is_told(self) -> None:
        """All who watch the partition are told, in order, and no one else."""
        for partition, who in ((self.a, "x"), (self.b, "y"), (self.a, "z"), (self.a, "x")):
            self.watch(partition, who)
        self.watchers.announce(self.a)
        self.clock.advance(0)
        self.assertEqual(self.heard, [("x", self.a), ("z", self.a), ("x", self.a)])

    def test_unwatched(self) -> None:
        """A partition that nobody watches causes no work."""
        self.watchers.announce(self.a)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_cancel(self) -> None:
        """Who cancels is not told any more, also of what was announced already; twice is harmless."""
        cancel_x = self.watch(self.a, "x")
        cancel_y = self.watch(self.a, "y")
        self.watchers.announce(self.a)
        cancel_x()
        cancel_x()
        self.clock.advance(0)
        self.assertEqual(self.heard, [("y", self.a)])
        cancel_y()
        self.watchers.announce(self.a)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_cancel_by_another_listener(self) -> None:
        """A listener may cancel one that would be told after it."""
        cancels: list[Any] = []
        self.watchers.watch(self.a, lambda _: [cancel() for cancel in cancels])
        cancels.append(self.watch(self.a, "x"))
        self.watchers.announce(self.a)
        self.clock.advance(0)
        self.assertEqual(self.heard, [])

    def test_watch_within_a_listener(self) -> None:
        """Who begins to watch while others are told is told of the next announcement."""
        cancel = self.watchers.watch(self.a, lambda _: (cancel(), self.watch(self.a, "late")))
        self.watchers.announce(self.a)
        self.clock.advance(0)
        self.assertEqual(self.heard, [])
        self.watchers.announce(self.a)
        self.clock.advance(0)
        self.assertEqual(self.heard, [("late", self.a)])

    def test_announce_within_a_listener(self) -> None:
        """An announcement by a listener is told later, not from within that listener."""
        self.watch(self.b, "y")

        def listener(moved: Any) -> None:
            self.watchers.announce(self.b)
            self.heard.append(("x", moved))

        self.watchers.watch(self.a, listener)
        self.watchers.announce(self.a)
        self.clock.advance(0)
        self.assertEqual(self.heard, [("x", self.a), ("y", self.b)])

    def test_announce_all(self) -> None:
        """When the store is closed, everyone is told."""
        self.watch(self.a, "x")
        self.watch(self.b, "y")
        self.watchers.announce_all()
        self.clock.advance(0)
        self.assertEqual(self.heard, [("x", self.a), ("y", self.b)])

    def test_failing_listener(self) -> None:
        """A listener that fails is written about in the log; the others are told all the same."""
        self.watchers.watch(self.a, lambda _: 1 // 0)
        self.watch(self.a, "x")
        self.watchers.announce(self.a)
        self.clock.advance(0)
        self.assertEqual(self.heard, [("x", self.a)])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
