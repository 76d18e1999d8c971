"""Tests for L{rustlog.wire.kafka.handlers.positions}."""

from __future__ import annotations

from typing import Any

from rustlog.log import records
from rustlog.model import Record, TopicPartition
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.handlers.positions import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    LIST_OFFSETS,
    MAX_TIMESTAMP,
    OFFSET_FOR_LEADER_EPOCH,
)
from tests.unit.wire.kafka.harness import CONTEXT, HandlerCase

EPOCHS_SINCE = 4
"""The version in which ListOffsets learned of leader epochs."""


class PositionCase(HandlerCase):
    """Partition 0 of C{orders} has four records, the first of which is deleted."""

    def setUp(self) -> None:
        super().setUp()
        content = [Record(b"x", timestamp=each) for each in (100, 200, 400, 300)]
        batch = records.build(content, now_ms=0)
        name = TopicPartition("orders", 0)
        self.world.broker.produce(CONTEXT, [(name, batch)])
        self.successResultOf(self.world.broker.administration.delete_records(CONTEXT, name, 1))


class ListOffsetsTests(PositionCase):
    def find(self, version: int | None, timestamp: int, partition: int = 0, **more: Any) -> Any:
        """What is said of one partition."""
        asked = {"partition_index": partition, "timestamp": timestamp, **more}
        topics = [{"name": "orders", "partitions": [asked]}]
        how = {"replica_id": -1, "isolation_level": 0, "timeout": 1000}
        response = self.ask(LIST_OFFSETS, version, topics=topics, **how)
        ((found,),) = [topic.partitions for topic in response.topics]
        self.assertEqual(found.partition_index, partition)
        return found

    def check(self, version: int, timestamp: int, offset: int, found_timestamp: int) -> None:
        found = self.find(version, timestamp)
        self.assertIs(found.error_code, ErrorCode.none)
        self.assertEqual((found.offset, found.timestamp), (offset, found_timestamp))
        if version >= EPOCHS_SINCE:
            self.assertEqual(found.leader_epoch, 0 if offset >= 0 else -1)

    def test_every_version(self) -> None:
        """The ends of the log, and the first record that is not older than a time."""
        for version in self.versions(LIST_OFFSETS):
            self.check(version, LATEST, 4, -1)
            self.check(version, EARLIEST, 1, -1)
            self.check(version, 0, 1, 200)
            self.check(version, 201, 2, 400)
            self.check(version, 400, 2, 400)
            self.check(version, 401, -1, -1)

    def test_special_positions(self) -> None:
        """Each version knows more of them; what a version does not know is not guessed."""
        special = {
            MAX_TIMESTAMP: (7, 2, 400),
            EARLIEST_LOCAL: (8, 1, -1),
            LATEST_TIERED: (9, -1, -1),
            EARLIEST_PENDING_UPLOAD: (11, -1, -1),
        }
        for version in self.versions(LIST_OFFSETS):
            for timestamp, (since, offset, found_timestamp) in special.items():
                if version >= since:
                    self.check(version, timestamp, offset, found_timestamp)
                else:
                    self.assertIs(self.find(version, timestamp).error_code, ErrorCode.unsupported_version)

    def test_no_such_position(self) -> None:
        """Kafka may learn of more; we do not pretend."""
        self.assertIs(self.find(None, -7).error_code, ErrorCode.unsupported_version)

    def test_newest_of_nothing(self) -> None:
        """An empty partition has no newest record."""
        found = self.find(None, MAX_TIMESTAMP, partition=1)
        self.assertEqual((found.error_code, found.offset, found.timestamp), (ErrorCode.none, -1, -1))

    def test_unknown_partitions(self) -> None:
        """What does not exist has no offsets; the others are told theirs."""
        partitions = [{"partition_index": each, "timestamp": LATEST} for each in (0, 9, -1)]
        topics = [{"name": "orders", "partitions": partitions}, {"name": "no", "partitions": partitions[:1]}]
        response = self.ask(LIST_OFFSETS, replica_id=-1, isolation_level=1, topics=topics, timeout=0)
        codes = [[each.error_code for each in topic.partitions] for topic in response.topics]
        unknown = ErrorCode.unknown_topic_or_partition
        self.assertEqual(codes, [[ErrorCode.none, unknown, unknown], [unknown]])

    def test_leader_epochs(self) -> None:
        """Who has seen another leader epoch shall look again."""
        codes = {
            epoch: self.find(None, LATEST, current_leader_epoch=epoch).error_code for epoch in (-1, 0, 1)
        }
        expected = {-1: ErrorCode.none, 0: ErrorCode.none, 1: ErrorCode.unknown_leader_epoch}
        self.assertEqual(codes, expected)
        self.world.memory.partition("orders", 0).leader_epoch = 2
        for epoch, code in ((1, ErrorCode.fenced_leader_epoch), (2, ErrorCode.none)):
            self.assertIs(self.find(None, LATEST, current_leader_epoch=epoch).error_code, code)

    def test_twice(self) -> None:
        """A partition can be asked for once."""
        asked = {"partition_index": 0, "timestamp": LATEST}
        topics = [{"name": "orders", "partitions": [asked, asked, {**asked, "partition_index": 1}]}]
        response = self.ask(LIST_OFFSETS, replica_id=-1, isolation_level=0, topics=topics, timeout=0)
        codes = [each.error_code for each in response.topics[0].partitions]
        self.assertEqual(codes, [ErrorCode.invalid_request, ErrorCode.invalid_request, ErrorCode.none])


class LeaderEpochTests(PositionCase):
    def test_every_version(self) -> None:
        """The end of an epoch is told; of one that was never reached, nothing is known."""
        for version in self.versions(OFFSET_FOR_LEADER_EPOCH):
            partitions = [
                {"partition": 0, "leader_epoch": 0},
                {"partition": 0, "leader_epoch": 5},
                {"partition": 0, "current_leader_epoch": 3, "leader_epoch": 0},
                {"partition": 7, "leader_epoch": 0},
            ]
            topics = [{"topic": "orders", "partitions": partitions}]
            response = self.ask(OFFSET_FOR_LEADER_EPOCH, version, topics=topics)
            ((topic),) = response.topics
            self.assertEqual(topic.topic, "orders")
            found = [(each.error_code, each.leader_epoch, each.end_offset) for each in topic.partitions]
            self.assertEqual(
                found,
                [
                    (ErrorCode.none, 0, 4),
                    (ErrorCode.none, -1, -1),
                    (ErrorCode.unknown_leader_epoch, -1, -1),
                    (ErrorCode.unknown_topic_or_partition, -1, -1),
                ],
            )
            self.assertEqual([each.partition for each in topic.partitions], [0, 0, 0, 7])
