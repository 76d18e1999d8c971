"""Tests for L{rustlog.wire.rustlog.administration}."""

from __future__ import annotations

from twisted.internet.defer import fail

import rustlog
from rustlog.errors import (
    GroupNotEmpty,
    GroupNotFound,
    GroupReadsTopic,
    InvalidPartitionCount,
    InvalidSetting,
    OffsetOutOfRange,
    PartitionNotFound,
    TopicNotFound,
)
from rustlog.model import Committed, TopicPartition
from rustlog.settings import TopicConfig, vocabulary
from rustlog.wire.rustlog.handlers import Handlers
from rustlog.wire.rustlog.messages import (
    REQUESTS,
    AlterTopicRequest,
    AlterTopicResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicRequest,
    DeleteGroupRequest,
    DeleteGroupResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    DescribedOffset,
    DescribedPartition,
    DescribeGroupRequest,
    DescribeGroupResponse,
    DescribePartitionRequest,
    DescribePartitionResponse,
    DescribeTopicRequest,
    ListedGroup,
    ListedTopic,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTopicsRequest,
    ListTopicsResponse,
    MetricsFetchRequest,
    MetricsFetchResponse,
    PingRequest,
    PingResponse,
    ProduceRequest,
)
from tests.unit.groups.driver import a_join
from tests.unit.wire.harness import CONTEXT
from tests.unit.wire.rustlog.test_handlers import HandlersCase


class TopicTests(HandlersCase):
    def test_list(self) -> None:
        """All topics, sorted, with their partitions; internal ones are marked."""
        self.world.memory.catalog.create("__hidden", 1, {}, True)
        self.assertEqual(
            self.ask(ListTopicsRequest()),
            ListTopicsResponse([ListedTopic("__hidden", 1, True), ListedTopic("orders", 2, False)]),
        )

    def test_describe(self) -> None:
        """Everything about a topic: its partitions, what was set for it, and what holds for it."""
        self.ask(CreateTopicRequest("audit", 2, {"retention.ms": 5}))
        self.ask(ProduceRequest("audit", 1, [b"a", b"b"]))
        self.ask(ProduceRequest("audit", 1, [b"c"]))
        self.ask(DeleteRecordsRequest("audit", 1, 2))
        found = self.ask(DescribeTopicRequest("audit"))
        info = self.world.broker.topic(CONTEXT, "audit")
        self.assertEqual((found.topic, found.id, found.internal), ("audit", str(info.id), False))
        empty, full = found.partitions
        self.assertEqual(empty, DescribedPartition(0, 0, 0, 0, 0, empty.segments))
        self.assertEqual(
            (full.partition, full.log_start_offset, full.high_watermark, full.leader_epoch), (1, 2, 3, 0)
        )
        self.assertGreater(full.size, 0)
        self.assertGreaterEqual(full.segments, 1)
        self.assertEqual(found.config, {"retention.ms": "5"})
        expected = {each.name: each.text(each.default) for each in vocabulary(TopicConfig)}
        self.assertEqual(found.settings, {**expected, "retention.ms": "5"})

    def test_describe_unknown(self) -> None:
        """A topic that is not there, or was deleted meanwhile, is not found."""
        self.refused(DescribeTopicRequest("nothing"), TopicNotFound)
        self.patch(
            self.world.memory,
            "describe",
            lambda partition: self.world.memory.catalog.delete("orders").addCallback(lambda _: None),
        )
        self.refused(DescribeTopicRequest("orders"), TopicNotFound)

    def test_alter(self) -> None:
        """Partitions are added, settings changed and removed."""
        altered = self.ask(AlterTopicRequest("orders", 5, {"retention.ms": 7}))
        self.assertEqual(altered, AlterTopicResponse("orders", 5, {"retention.ms": "7"}))
        altered = self.ask(AlterTopicRequest("orders", config={"retention.ms": None}))
        self.assertEqual(altered, AlterTopicResponse("orders", 5, {}))
        self.assertEqual(self.ask(AlterTopicRequest("orders")), altered)

    def test_alter_what_can_not_be(self) -> None:
        """What can not be done is refused whole."""
        self.refused(AlterTopicRequest("orders", 1, {"retention.ms": 7}), InvalidPartitionCount)
        self.refused(AlterTopicRequest("orders", 5, {"colour": "red"}), InvalidSetting)
        self.refused(AlterTopicRequest("nothing", 5), TopicNotFound)
        self.assertEqual(self.ask(AlterTopicRequest("orders")), AlterTopicResponse("orders", 2, {}))

    def test_delete(self) -> None:
        """A topic that was deleted is gone, with what groups had committed in it."""
        offsets = {TopicPartition("orders", 0): Committed(1)}
        self.successResultOf(self.world.broker.commit_offsets(CONTEXT, "kitchen", offsets))
        self.assertEqual(self.ask(DeleteTopicRequest("orders")), DeleteTopicResponse("orders"))
        self.assertEqual(self.ask(ListTopicsRequest()), ListTopicsResponse([]))
        self.assertEqual(self.ask(ListGroupsRequest()), ListGroupsResponse([]))
        self.refused(DeleteTopicRequest("orders"), TopicNotFound)


class PartitionTests(HandlersCase):
    def setUp(self) -> None:
        super().setUp()
        for value, time in ((b"a", 10), (b"b", 30), (b"c", 20)):
            self.ask(ProduceRequest("orders", 0, [value], timestamps=[time]))

    def test_list_offsets(self) -> None:
        """The ends of the log, the youngest record, and the first that is not older than a time."""
        for at, offset, timestamp in (
            ("earliest", 0, None),
            ("latest", 3, None),
            ("max_timestamp", 1, 30),
            (0, 0, 10),
            (11, 1, 30),
            (31, None, None),
            (2**63 - 1, None, None),
        ):
            found = self.ask(ListOffsetsRequest("orders", 0, at))
            self.assertEqual(found, ListOffsetsResponse(offset, timestamp), at)

    def test_list_offsets_of_an_empty_log(self) -> None:
        """Where there are no records there is no youngest one."""
        self.assertEqual(self.ask(ListOffsetsRequest("orders", 1, "latest")), ListOffsetsResponse(0, None))
        found = self.ask(ListOffsetsRequest("orders", 1, "max_timestamp"))
        self.assertEqual(found, ListOffsetsResponse(None, None))

    def test_delete_records(self) -> None:
        """A log begins where it is told to, and never earlier than it did."""
        self.assertEqual(self.ask(DeleteRecordsRequest("orders", 0, 2)), DeleteRecordsResponse(2))
        self.assertEqual(self.ask(DeleteRecordsRequest("orders", 0, 1)), DeleteRecordsResponse(2))
        self.refused(DeleteRecordsRequest("orders", 0, 4), OffsetOutOfRange)
        self.refused(DeleteRecordsRequest("orders", 0, 2**64 - 1), OffsetOutOfRange)

    def test_describe(self) -> None:
        """Where a partition ends."""
        found = self.ask(DescribePartitionRequest("orders", 0))
        self.assertEqual(found, DescribePartitionResponse("orders", 0, 3))

    def test_unknown(self) -> None:
        """A partition must exist."""
        for request in (
            ListOffsetsRequest("orders", 9, "latest"),
            DeleteRecordsRequest("nothing", 0, 0),
            DescribePartitionRequest("orders", 9),
        ):
            self.refused(request, PartitionNotFound)

    def test_topic_deleted_meanwhile(self) -> None:
        """A topic that was deleted while the request was under way is not found either."""
        for method in ("offset_for", "delete_records"):
            self.patch(self.world.memory, method, lambda *_: fail(TopicNotFound("orders")))
        self.refused(ListOffsetsRequest("orders", 0, "latest"), PartitionNotFound)
        self.refused(DeleteRecordsRequest("orders", 0, 1), PartitionNotFound)


class GroupTests(HandlersCase):
    def setUp(self) -> None:
        super().setUp()
        self.produce(b"a", b"b", b"c")
        self.world.create("audit")
        partitions = [TopicPartition("orders", 1), TopicPartition("orders", 0), TopicPartition("audit", 0)]
        offsets = {each: Committed(1, -1, "note", 5) for each in partitions}
        self.successResultOf(self.world.broker.commit_offsets(CONTEXT, "kitchen", offsets))

    def partitions(self) -> list[tuple[str, int]]:
        found = self.ask(DescribeGroupRequest("kitchen"))
        return [(each.topic, each.partition) for each in found.offsets]

    def test_list(self) -> None:
        """All groups that have committed something."""
        self.assertEqual(self.ask(ListGroupsRequest()), ListGroupsResponse([ListedGroup("kitchen")]))

    def test_describe(self) -> None:
        """How far a group has come, and how far it has to go."""
        self.world.memory.catalog.delete("audit")
        self.assertEqual(
            self.ask(DescribeGroupRequest("kitchen")),
            DescribeGroupResponse(
                "kitchen",
                [
                    DescribedOffset("audit", 0, 1, None, None, None, "note", 5),
                    DescribedOffset("orders", 0, 1, 0, 3, 2, "note", 5),
                    DescribedOffset("orders", 1, 1, 0, 0, 0, "note", 5),
                ],
            ),
        )

    def test_delete(self) -> None:
        """All of a group, what it has in a topic, or in a partition."""
        done = DeleteGroupResponse("kitchen")
        self.assertEqual(self.ask(DeleteGroupRequest("kitchen", "orders", 1)), done)
        self.assertEqual(self.partitions(), [("audit", 0), ("orders", 0)])
        self.assertEqual(self.ask(DeleteGroupRequest("kitchen", "orders")), done)
        self.assertEqual(self.partitions(), [("audit", 0)])
        self.assertEqual(self.ask(DeleteGroupRequest("kitchen", "orders")), done)
        self.assertEqual(self.ask(DeleteGroupRequest("kitchen")), done)
        self.assertEqual(self.ask(ListGroupsRequest()), ListGroupsResponse([]))

    def test_members(self) -> None:
        """While a group has members, which come over another protocol, what they need is not deleted."""
        subscription = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x00"
        self.world.coordinator.join("kitchen", a_join(protocols=(("range", subscription),)))
        self.world.clock.advance(3)
        before = self.partitions()
        self.refused(DeleteGroupRequest("kitchen"), GroupNotEmpty)
        self.refused(DeleteGroupRequest("kitchen", "orders"), GroupReadsTopic)
        self.refused(DeleteGroupRequest("kitchen", "orders", 1), GroupReadsTopic)
        self.assertEqual(self.partitions(), before)
        self.ask(DeleteGroupRequest("kitchen", "audit"))
        self.assertEqual(self.partitions(), [each for each in before if each[0] == "orders"])

    def test_unknown(self) -> None:
        """A group that does not exist is not found."""
        for request in (
            DescribeGroupRequest("nobody"),
            DeleteGroupRequest("nobody"),
            DeleteGroupRequest("nobody", "orders"),
            DeleteGroupRequest("nobody", "orders", 0),
        ):
            self.refused(request, GroupNotFound)


class BrokerTests(HandlersCase):
    def test_ping(self) -> None:
        """Somebody is there."""
        self.assertEqual(self.ask(PingRequest()), PingResponse())

    def test_api_versions(self) -> None:
        """What the broker is, and all that it understands."""
        self.assertEqual(
            self.ask(ApiVersionsRequest()),
            ApiVersionsResponse(
                rustlog.__version__, list(REQUESTS), ["json", "base64", "binary"], 10_485_760
            ),
        )

    def test_metrics(self) -> None:
        """What is measured is told; nothing, when nobody measures."""
        self.assertEqual(self.ask(MetricsFetchRequest()), MetricsFetchResponse(b""))
        self.handlers = Handlers(self.world.broker, self.world.environment.wall, lambda: b"up 1\n")
        self.assertEqual(self.ask(MetricsFetchRequest()), MetricsFetchResponse(b"up 1\n"))
