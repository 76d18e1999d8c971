"""Tests for L{rustlog.wire.kafka.handlers.producers}."""

from __future__ import annotations

from rustlog.log import records
from rustlog.model import Record, TopicPartition
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.handlers.producers import DESCRIBE_PRODUCERS, INIT_PRODUCER_ID
from tests.unit.wire.kafka.harness import CONTEXT, HandlerCase


class InitProducerIdTests(HandlerCase):
    def test_every_version(self) -> None:
        """Each producer gets an id that no other has, and epoch 0."""
        ids = []
        for version in self.versions(INIT_PRODUCER_ID):
            response = self.ask(INIT_PRODUCER_ID, version, transaction_timeout=60_000)
            self.assertEqual((response.error_code, response.producer_epoch), (ErrorCode.none, 0))
            ids.append(response.producer_id)
        self.assertEqual(len(set(ids)), len(self.versions(INIT_PRODUCER_ID)))
        self.assertGreaterEqual(min(ids), 0)

    def test_new_epoch(self) -> None:
        """A producer that wants to start over gets a new id, as from Kafka."""
        first = self.ask(INIT_PRODUCER_ID, transaction_timeout=0)
        again = self.ask(
            INIT_PRODUCER_ID, transaction_timeout=0, producer_id=first.producer_id, producer_epoch=0
        )
        self.assertEqual((again.error_code, again.producer_epoch), (ErrorCode.none, 0))
        self.assertNotEqual(again.producer_id, first.producer_id)

    def test_transactions(self) -> None:
        """There are none, and clients are told so in a way that ends their attempts."""
        for version in self.versions(INIT_PRODUCER_ID):
            response = self.ask(
                INIT_PRODUCER_ID, version, transactional_id="payments", transaction_timeout=60_000
            )
            self.assertIs(response.error_code, ErrorCode.transactional_id_authorization_failed)
            self.assertFalse(response.error_code.retriable)
            self.assertEqual((response.producer_id, response.producer_epoch), (-1, -1))


class DescribeProducersTests(HandlerCase):
    def test_producers(self) -> None:
        """Idempotent producers are known where they have written; what does not exist is told apart."""
        content = [Record(b"x", timestamp=1)] * 3
        batch = records.build(content, now_ms=0, producer_id=7, producer_epoch=2, base_sequence=0)
        self.world.broker.produce(CONTEXT, [(TopicPartition("orders", 1), batch)])
        topics = [{"name": "orders", "partition_indexes": [0, 1, 2]}]
        response = self.ask(DESCRIBE_PRODUCERS, topics=topics)
        ((topic),) = response.topics
        empty, full, missing = topic.partitions
        self.assertEqual((empty.error_code, empty.active_producers), (ErrorCode.none, ()))
        (producer,) = full.active_producers
        self.assertEqual((producer.producer_id, producer.producer_epoch, producer.last_sequence), (7, 2, 2))
        self.assertEqual(producer.last_timestamp, self.world.environment.wall.now_ms())
        self.assertEqual(producer.current_txn_start_offset, -1)
        self.assertIs(missing.error_code, ErrorCode.unknown_topic_or_partition)
        self.assertIn("partition=2", missing.error_message)
