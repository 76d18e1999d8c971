"""Tests for L{rustlog.log.topics}."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import InvalidPartitionCount, TopicExists
from rustlog.log.topics import NO_ID, configure, grow, plan
from rustlog.model import TopicInfo

TOPIC = TopicInfo(UUID(int=1), "orders", 2, {"retention.ms": "1"})


class ChangeTests(SynchronousTestCase):
    def test_plan(self) -> None:
        """A topic that does not exist has everything but an id; one that does can not be made again."""
        self.assertEqual(plan(None, "new", 3, {"a": "b"}), TopicInfo(NO_ID, "new", 3, {"a": "b"}))
        self.assertRaises(TopicExists, plan, TOPIC, "orders", 2, {})

    def test_grow(self) -> None:
        """A topic gets more partitions, and nothing else changes."""
        self.assertEqual(grow(TOPIC, 3), TopicInfo(TOPIC.id, "orders", 3, {"retention.ms": "1"}))

    def test_grow_not(self) -> None:
        """It never shrinks, and to stay as it is is no growth."""
        for count in (2, 1):
            error = self.assertRaises(InvalidPartitionCount, grow, TOPIC, count)
            self.assertIn(f"orders has 2 already, {count} asked for", str(error))

    def test_configure(self) -> None:
        """Settings are added, replaced and removed."""
        changed = configure(TOPIC, {"segment.ms": "5", "retention.ms": None, "retention.bytes": None})
        self.assertEqual(dict(changed.config), {"segment.ms": "5"})
        self.assertEqual(dict(TOPIC.config), {"retention.ms": "1"})
