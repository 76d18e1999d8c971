"""Tests for L{rustlog.wire.kafka.handlers.cluster}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import fail

from rustlog.errors import Closed
from rustlog.log import records
from rustlog.model import Record, TopicPartition
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.handlers.cluster import CONTROLLERS, DESCRIBE_CLUSTER, DESCRIBE_LOG_DIRS
from rustlog.wire.kafka.operations import UNSAID_OPERATIONS
from tests.unit.wire.kafka.harness import CONTEXT, HandlerCase


class DescribeClusterTests(HandlerCase):
    def test_every_version(self) -> None:
        """The cluster is one broker, where the client finds it."""
        for version in self.versions(DESCRIBE_CLUSTER):
            response = self.ask(DESCRIBE_CLUSTER, version)
            self.assertEqual((response.error_code, response.error_message), (ErrorCode.none, None))
            self.assertEqual((response.cluster_id, response.controller_id), ("cluster", 0))
            (broker,) = response.brokers
            self.assertEqual((broker.broker_id, broker.host, broker.port), (0, "broker.example", 9092))
            self.assertEqual(response.cluster_authorized_operations, UNSAID_OPERATIONS)

    def test_operations(self) -> None:
        """Whoever asks may do everything, and is told so: create (5), alter (7), describe (8) and 9 to 12."""
        response = self.ask(DESCRIBE_CLUSTER, include_cluster_authorized_operations=True)
        bits = {each for each in range(31) if response.cluster_authorized_operations >> each & 1}
        self.assertEqual(bits, {5, 7, 8, 9, 10, 11, 12})

    def test_controllers(self) -> None:
        """There are no controllers to talk to here, nor anything else."""
        for kind, code in (
            (CONTROLLERS, ErrorCode.mismatched_endpoint_type),
            (7, ErrorCode.unsupported_endpoint_type),
        ):
            response = self.ask(DESCRIBE_CLUSTER, endpoint_type=kind)
            self.assertEqual((response.error_code, response.brokers), (code, ()))
            self.assertTrue(response.error_message)


class DescribeLogDirsTests(HandlerCase):
    def setUp(self) -> None:
        super().setUp()
        self.world.create("other")
        batch = records.build([Record(b"x" * 100, timestamp=1)], now_ms=0)
        self.size = batch.size
        self.world.broker.produce(CONTEXT, [(TopicPartition("orders", 1), batch)])

    def sizes(self, version: int | None = None, **fields: Any) -> dict[tuple[str, int], int]:
        """Of partitions."""
        (result,) = self.ask(DESCRIBE_LOG_DIRS, version, **fields).results
        self.assertEqual((result.error_code, result.log_dir), (ErrorCode.none, "memory"))
        return {
            (topic.name, each.partition_index): each.partition_size
            for topic in result.topics
            for each in topic.partitions
        }

    def test_every_version(self) -> None:
        """Everything that there is takes the room that it takes."""
        expected = {("orders", 0): 0, ("orders", 1): self.size, ("other", 0): 0}
        for version in self.versions(DESCRIBE_LOG_DIRS):
            self.assertEqual(self.sizes(version, topics=None), expected)

    def test_some(self) -> None:
        """Partitions may be chosen; what does not exist takes no room, and nothing is told twice."""
        wanted = [
            {"topic": "orders", "partitions": [1, 1, 7]},
            {"topic": "no", "partitions": [0]},
            {"topic": "orders", "partitions": [1]},
        ]
        self.assertEqual(self.sizes(topics=wanted), {("orders", 1): self.size})
        self.assertEqual(self.sizes(topics=[]), {})

    def test_failure(self) -> None:
        """When the store can not be asked, neither can we answer."""
        self.patch(self.world.memory, "describe_storage", lambda: fail(Closed()))
        self.failureResultOf(self.begin(DESCRIBE_LOG_DIRS, topics=None), Closed)
