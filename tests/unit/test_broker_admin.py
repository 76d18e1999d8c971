"""Tests for L{rustlog.broker}: what operators and their tools ask for."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import fail

from rustlog.errors import (
    Closed,
    GroupNotFound,
    InvalidGroup,
    InvalidPartitionCount,
    InvalidSetting,
    PartitionNotFound,
    TopicNotFound,
)
from rustlog.judging import GROUP_BYTES_MAX, PARTITIONS_MAX
from rustlog.model import Committed, GroupDescription, GroupProgress, TopicPartition
from tests.unit.test_broker import CONTEXT, ORDERS_0, ORDERS_1, BrokerTestCase

NOWHERE = TopicPartition("orders", 9)


class AlterTopicTests(BrokerTestCase):
    """Partitions and settings, changed together."""

    def setUp(self) -> None:
        super().setUp()
        self.create(retention_ms=5)

    def alter(self, name: str = "orders", partitions: int | None = None, **changes: object) -> Any:
        """Change a topic."""
        named = {key.replace("_", "."): value for key, value in changes.items()}
        return self.broker.alter_topic(CONTEXT, name, partitions, named)

    def test_both(self) -> None:
        """Partitions are added and settings changed; None removes what was set."""
        altered = self.finish(self.alter(partitions=4, retention_ms=None, segment_bytes=1000))
        self.assertEqual((altered.partitions, altered.config), (4, {"segment.bytes": "1000"}))
        self.assertIs(self.broker.topic(CONTEXT, "orders"), altered)

    def test_one_of_them(self) -> None:
        """Each can be changed without the other, and nothing is an acceptable change."""
        self.assertEqual(self.finish(self.alter(partitions=3)).config, {"retention.ms": "5"})
        self.assertEqual(self.finish(self.alter(retention_ms=6)).partitions, 3)
        self.assertIs(self.finish(self.alter()), self.broker.topic(CONTEXT, "orders"))

    def test_judged_before_anything_is_changed(self) -> None:
        """When one half can not be done, the other is not done either."""
        before = self.broker.topic(CONTEXT, "orders")
        for count in (0, 1, before.partitions, PARTITIONS_MAX + 1):
            self.assert_fails(InvalidPartitionCount, self.alter(partitions=count, retention_ms=7))
        self.assert_fails(InvalidSetting, self.alter(partitions=4, retention_ms="soon"))
        self.assert_fails(InvalidSetting, self.alter(partitions=4, colour=None))
        self.assertIs(self.broker.topic(CONTEXT, "orders"), before)

    def test_unknown_topic(self) -> None:
        """There must be something to change."""
        self.assert_fails(TopicNotFound, self.alter("nothing", partitions=4))


class PartitionTests(BrokerTestCase):
    """One partition, for tools."""

    def setUp(self) -> None:
        super().setUp()
        self.create()
        for value in (b"a", b"b", b"c"):
            self.send(value)

    def test_leader_epoch(self) -> None:
        """It is known at once, of partitions that exist."""
        self.assertEqual(self.broker.leader_epoch(CONTEXT, ORDERS_0), 0)
        self.assertRaises(PartitionNotFound, self.broker.leader_epoch, CONTEXT, NOWHERE)


class GroupsTests(BrokerTestCase):
    """Groups as a whole."""

    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.send(b"a", b"b", b"c")
        self.finish(self.broker.administration.delete_records(CONTEXT, ORDERS_0, 1))
        self.commit("billing", {ORDERS_1: Committed(7, 0, "later", 8), ORDERS_0: Committed(2, -1, "", 9)})
        self.commit("audit", {ORDERS_0: Committed(0, -1, "", 9)})

    def commit(self, group: str, offsets: dict[TopicPartition, Committed]) -> None:
        """Commit."""
        self.finish(self.broker.commit_offsets(CONTEXT, group, offsets))

    def describe(self, group: str) -> Any:
        """How far a group has come."""
        return self.finish(self.broker.describe_group(CONTEXT, group))

    def groups(self) -> Any:
        """All of them."""
        return self.finish(self.broker.groups(CONTEXT))

    def test_groups(self) -> None:
        """All groups that have committed are there, in order."""
        self.assertEqual(self.groups(), ("audit", "billing"))

    def test_describe(self) -> None:
        """A group's progress, partition by partition, and what it has to go; never less than nothing."""
        described = self.describe("billing")
        self.assertEqual(
            described,
            GroupDescription(
                "billing",
                (
                    GroupProgress(ORDERS_0, Committed(2, -1, "", 9), 1, 3),
                    GroupProgress(ORDERS_1, Committed(7, 0, "later", 8), 0, 0),
                ),
            ),
        )
        self.assertEqual([each.lag for each in described.offsets], [1, 0])
        self.assertEqual([each.lag for each in self.describe("audit").offsets], [3])

    def test_describe_without_the_partition(self) -> None:
        """Where the partition is gone, what was committed is shown, and no lag."""
        self.finish(self.store.catalog.delete("orders"))
        (gone,) = self.describe("audit").offsets
        self.assertEqual((gone.committed.offset, gone.log_start_offset, gone.high_watermark), (0, None, None))
        self.assertIsNone(gone.lag)

    def test_delete(self) -> None:
        """A group that is deleted is forgotten, and others are not."""
        self.finish(self.broker.delete_group(CONTEXT, "billing"))
        self.assertEqual(self.groups(), ("audit",))
        self.assertEqual(self.finish(self.broker.fetch_offsets(CONTEXT, "billing")), {})

    def test_delete_offsets(self) -> None:
        """A group may be forgotten in some partitions only; they need not exist."""
        self.finish(self.broker.delete_offsets(CONTEXT, "billing", iter([ORDERS_0, NOWHERE])))
        self.assertEqual([each.partition for each in self.describe("billing").offsets], [ORDERS_1])
        self.assertEqual(len(self.describe("audit").offsets), 1)

    def test_unknown_group(self) -> None:
        """Who names a group that does not exist is told so."""
        for result in (
            self.broker.describe_group(CONTEXT, "nobody"),
            self.broker.delete_group(CONTEXT, "nobody"),
            self.broker.delete_offsets(CONTEXT, "nobody", [ORDERS_0]),
        ):
            self.assertEqual(self.assert_fails(GroupNotFound, result).group, "nobody")

    def test_impossible_group(self) -> None:
        """So is who names one that can not exist."""
        name = "x" * (GROUP_BYTES_MAX + 1)
        for result in (
            self.broker.describe_group(CONTEXT, name),
            self.broker.delete_group(CONTEXT, name),
            self.broker.delete_offsets(CONTEXT, name, []),
        ):
            self.assert_fails(InvalidGroup, result)

    def test_store_fails(self) -> None:
        """When the offset store can not do it, whoever asked hears of it."""
        self.patch(self.offsets, "delete", lambda group, partitions=None: fail(Closed()))
        self.assert_fails(Closed, self.broker.delete_group(CONTEXT, "billing"))
        self.assert_fails(Closed, self.broker.delete_offsets(CONTEXT, "billing", [ORDERS_0]))


class LateAlterTopicTests(AlterTopicTests):
    """The same with stores that answer late."""

    late_answers = True


class LatePartitionTests(PartitionTests):
    """The same with stores that answer late."""

    late_answers = True


class LateGroupsTests(GroupsTests):
    """The same with stores that answer late."""

    late_answers = True
