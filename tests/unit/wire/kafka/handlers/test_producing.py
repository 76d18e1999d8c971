"""Tests for L{rustlog.wire.kafka.handlers.producing}."""

from __future__ import annotations

from struct import pack_into
from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, build_batch
from rustlog.log.codecs import Codec
from rustlog.settings import BrokerConfig
from rustlog.testing.delayed import DelayedLogStore
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.produce import PartitionResult, ProduceRequest, TopicRecords
from tests.unit.wire.harness import World
from tests.unit.wire.kafka.client import KafkaWorld, batch_of, produce_request


class ProduceCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.make()

    def make(self, config: BrokerConfig | None = None) -> None:
        self.world = KafkaWorld(config)
        self.world.create("orders", 2)
        self.client = self.world.kafka_client()

    def produce(self, records: bytes | None, version: int = 9, **more: Any) -> PartitionResult:
        response = self.client.produce(records, version, **more)
        ((result,),) = [topic.partitions for topic in response.topics]
        return result

    def refused(
        self, code: ErrorCode, records: bytes | None, version: int = 9, **more: Any
    ) -> PartitionResult:
        result = self.produce(records, version, **more)
        self.assertEqual(result.error_code, code)
        self.assertEqual(
            (result.base_offset, result.log_append_time_ms, result.log_start_offset), (-1, -1, -1)
        )
        return result

    def end(self, topic: str = "orders", partition: int = 0) -> int:
        found: int = self.world.store.partition(topic, partition).high_watermark
        return found


class AppendTests(ProduceCase):
    def test_every_version(self) -> None:
        """In every version, a batch is appended and its first offset told."""
        topic_id = self.world.store.catalog.get("orders").id
        for count, version in enumerate(range(3, 14)):
            request = produce_request(batch_of(b"a", b"b"))
            if version >= 13:
                request.topics[0].topic_id = topic_id
            self.client.send_produce(request, version)
            (topic,) = self.client.one().topics
            self.assertEqual(
                (topic.name, topic.topic_id), ("", topic_id) if version >= 13 else ("orders", None)
            )
            start = 0 if version >= 5 else -1
            self.assertEqual(topic.partitions, [PartitionResult(0, 0, 2 * count, -1, start)])

    def test_acknowledgements(self) -> None:
        """All that clients ask for mean the same; those that mean nothing are refused."""
        for acks in (1, -1):
            self.assertEqual(self.produce(batch_of(b"a"), acks=acks).error_code, 0)
        for acks in (2, -2, 1000):
            self.refused(ErrorCode.invalid_required_acks, batch_of(b"a"), acks=acks)
        self.assertEqual(self.end(), 2)

    def test_several_partitions(self) -> None:
        """What is wrong with one partition does not concern the others."""
        request = ProduceRequest(
            None,
            -1,
            1000,
            [
                TopicRecords("orders", None, [(1, batch_of(b"a")), (7, batch_of(b"b")), (0, b"")]),
                TopicRecords("!", None, [(0, batch_of(b"c"))]),
                TopicRecords("orders", None, [(1, batch_of(b"d"))]),
            ],
        )
        self.client.send_produce(request)
        response = self.client.one()
        told = [
            (topic.name, each.index, each.error_code, each.base_offset)
            for topic in response.topics
            for each in topic.partitions
        ]
        self.assertEqual(
            told,
            [
                ("orders", 1, 0, 0),
                ("orders", 7, ErrorCode.unknown_topic_or_partition, -1),
                ("orders", 0, ErrorCode.invalid_record, -1),
                ("!", 0, ErrorCode.invalid_topic_exception, -1),
                ("orders", 1, 0, 1),
            ],
        )

    def test_nothing(self) -> None:
        """A request for no topic is answered with none."""
        self.client.send_produce(ProduceRequest(None, -1, 1000, []))
        self.assertEqual(self.client.one().topics, [])

    def test_compressions(self) -> None:
        """Batches are stored as they came, whatever their compression."""
        for codec in Codec:
            self.assertEqual(self.produce(batch_of(b"a" * 100, codec=codec)).error_code, 0)

    def test_log_append_time(self) -> None:
        """Where the topic says so, the time of arrival is told."""
        self.world.create("stamped", 1, **{"message.timestamp.type": "LogAppendTime"})
        now = self.world.environment.wall.now_ms()
        self.assertEqual(self.produce(batch_of(b"a"), topic="stamped").log_append_time_ms, now)

    def test_idempotence(self) -> None:
        """A batch that was sent twice is stored once, and told the same offset twice."""
        first = batch_of(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        self.assertEqual([self.produce(first).base_offset for _ in range(2)], [0, 0])
        late = batch_of(b"a", producer_id=7, producer_epoch=0, base_sequence=5)
        self.refused(ErrorCode.out_of_order_sequence_number, late)
        self.assertEqual(self.end(), 1)


class SilenceTests(ProduceCase):
    def test_no_answer(self) -> None:
        """With acks=0 nothing is said, though all is done."""
        self.client.send_produce(produce_request(batch_of(b"a"), acks=0))
        self.assertEqual(self.client.received(), [])
        self.assertEqual(self.end(), 1)

    def test_errors(self) -> None:
        """When it can not be done, the connection ends, so that the client looks around anew."""
        self.client.send_produce(produce_request(batch_of(b"a"), partition=9, acks=0))
        self.assertEqual(self.client.received(), [])
        self.assertTrue(self.client.transport.is_write_closed)


class RefusalTests(ProduceCase):
    def test_corrupt(self) -> None:
        """What is not what it claims to be is refused, for the client to send it again."""
        whole = batch_of(b"a")
        flipped = bytearray(whole)
        flipped[-1] ^= 1
        for records in (bytes(flipped), whole[:-1], whole[:40]):
            self.refused(ErrorCode.corrupt_message, records)

    def test_not_one_batch(self) -> None:
        """There must be exactly one."""
        for records in (None, b"", batch_of(b"a") + batch_of(b"b")):
            result = self.refused(ErrorCode.invalid_record, records)
            self.assertIn("batch", result.error_message or "")

    def test_old_formats(self) -> None:
        """Messages of the formats before the current one are refused as Kafka does."""
        for magic in (0, 1):
            old = bytearray(batch_of(b"a"))
            old[16] = magic
            self.refused(ErrorCode.invalid_record, bytes(old))

    def test_counts(self) -> None:
        """Offsets must be dense, and there must be a record."""
        for count in (0, -1, 2):
            batch = bytearray(build_batch(b"", record_count=1, base_timestamp=0, max_timestamp=0).buffer)
            pack_into(">i", batch, 57, count)
            self.refused(ErrorCode.corrupt_message, bytes(batch))  # The checksum covers it.
            built = build_batch(b"", record_count=count, base_timestamp=0, max_timestamp=0)
            code = ErrorCode.none if count == 2 else ErrorCode.invalid_record
            self.assertEqual(self.produce(bytes(built.buffer)).error_code, code)

    def test_transactions(self) -> None:
        """They are refused in a way that clients do not try again after."""
        for bits in (TRANSACTIONAL_BIT, CONTROL_BIT):
            batch = build_batch(b"", record_count=1, base_timestamp=0, max_timestamp=0, attributes=bits)
            self.refused(ErrorCode.invalid_record, bytes(batch.buffer))
        request = produce_request(batch_of(b"a"))
        request.transactional_id = "me"
        self.client.send_produce(request)
        code = self.client.one().topics[0].partitions[0].error_code
        self.assertEqual(code, ErrorCode.transactional_id_authorization_failed)
        self.assertFalse(ErrorCode(code).retriable)

    def test_unknown_compressions(self) -> None:
        """zstd came with version 7; nobody knows 5."""
        self.refused(ErrorCode.unsupported_compression_type, batch_of(b"a", codec=Codec.ZSTD), version=6)
        self.assertEqual(self.produce(batch_of(b"a", codec=Codec.ZSTD), version=7).error_code, 0)
        unknown = build_batch(b"", record_count=1, base_timestamp=0, max_timestamp=0, attributes=5)
        self.refused(ErrorCode.unsupported_compression_type, bytes(unknown.buffer))

    def test_too_large(self) -> None:
        """A batch beyond C{max.message.bytes} is refused."""
        self.world.create("small", 1, **{"max.message.bytes": "100"})
        self.refused(ErrorCode.message_too_large, batch_of(b"a" * 100), topic="small")

    def test_internal_topics(self) -> None:
        """They are not for clients to write to."""
        self.world.memory.catalog.create("__consumer_offsets", 1, {}, internal=True)
        self.refused(ErrorCode.invalid_topic_exception, batch_of(b"a"), topic="__consumer_offsets")

    def test_unknown_id(self) -> None:
        """A topic that has been deleted has an id that nobody knows any more."""
        request = produce_request(batch_of(b"a"))
        request.topics[0].topic_id = UUID(int=7)
        self.client.send_produce(request, 13)
        (topic,) = self.client.one().topics
        self.assertEqual(topic.topic_id, UUID(int=7))
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.unknown_topic_id)


class CreationTests(ProduceCase):
    def test_topics_are_created(self) -> None:
        """A topic that is written to comes into being, with as many partitions as usual."""
        self.assertEqual(self.produce(batch_of(b"a"), topic="new").base_offset, 0)
        self.assertEqual(self.world.store.catalog.get("new").partitions, 1)
        self.refused(ErrorCode.unknown_topic_or_partition, batch_of(b"a"), topic="newer", partition=1)

    def test_not_allowed(self) -> None:
        """Unless the operator does not want that."""
        self.make(BrokerConfig(auto_create_topics_enable=False))
        self.refused(ErrorCode.unknown_topic_or_partition, batch_of(b"a"), topic="new")
        self.assertIsNone(self.world.store.catalog.get("new"))

    def test_invalid_names(self) -> None:
        """A name that no topic can have is told to be that."""
        for name in ("", ".", "a b", "x" * 250):
            self.refused(ErrorCode.invalid_topic_exception, batch_of(b"a"), topic=name)

    def test_internal_names(self) -> None:
        """The broker's own topics are not made by clients."""
        self.refused(ErrorCode.unknown_topic_or_partition, batch_of(b"a"), topic="__consumer_offsets")

    def test_at_the_same_time(self) -> None:
        """Two who are first at the same time both succeed."""
        self.world = KafkaWorld(
            wrap=lambda store, environment: DelayedLogStore(store, environment.clock, environment.random)
        )
        clients = [self.world.kafka_client() for _ in range(3)]
        for client in clients:
            client.send_produce(produce_request(batch_of(b"a"), topic="new"))
        for _ in range(300):
            self.world.clock.advance(0.01)
        offsets = sorted(client.one().topics[0].partitions[0].base_offset for client in clients)
        self.assertEqual(offsets, [0, 1, 2])


class OtherProtocolsTests(ProduceCase):
    def test_read_over_rustlog(self) -> None:
        """What is written over Kafka is read over RustLog, at the same offsets."""
        self.produce(batch_of(b"a", b"b", codec=Codec.ZSTD))
        answer = World.client(self.world).ask(
            {"Fetch": {"topic": "orders", "partition": 0, "offset": 0, "max_bytes": 1000}}
        )
        read = [(each["offset"], bytes(each["payload"])) for each in answer["Fetch"]["records"]]
        self.assertEqual(read, [(0, b"a"), (1, b"b")])
