"""Tests for L{rustlog.wire.kafka.handlers.fetching}."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.batch import split_batches
from rustlog.log.records import decode
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.fetch import FetchRequest, PartitionRecords, PartitionWant, TopicWant
from rustlog.wire.kafka.settings import KafkaSettings
from tests.unit.wire.kafka.client import KafkaWorld, batch_of, fetch_request


def values(found: PartitionRecords) -> list[bytes | None]:
    """What was found, record by record."""
    content = b"".join(map(bytes, found.records or ()))  # type: ignore[arg-type]
    return [record.value for batch in split_batches(content) for record in decode(batch)]


class FetchCase(SynchronousTestCase):
    settings = KafkaSettings()

    def setUp(self) -> None:
        self.world = KafkaWorld(settings=self.settings)
        self.world.create("orders", 2)
        self.client = self.world.kafka_client()

    def append(self, *batches: bytes, topic: str = "orders", partition: int = 0) -> None:
        for each in batches:
            response = self.client.produce(each, topic=topic, partition=partition)
            self.assertEqual(response.topics[0].partitions[0].error_code, 0)

    def fetch(self, offset: int = 0, version: int = 12, **more: Any) -> PartitionRecords:
        response = self.client.fetch(offset, version, **more)
        self.assertEqual((response.error_code, response.session_id), (0, 0))
        ((found,),) = [topic.partitions for topic in response.topics]
        return found


class ReadTests(FetchCase):
    def test_every_version(self) -> None:
        """In every version, what was written is read."""
        self.append(batch_of(b"a", b"b"))
        topic_id = self.world.store.catalog.get("orders").id
        for version in range(4, 19):
            request = fetch_request()
            if version >= 13:
                request.topics[0].topic_id = topic_id
            self.client.send_fetch(request, version)
            (topic,) = self.client.one().topics
            (found,) = topic.partitions
            self.assertEqual(topic.topic_id, topic_id if version >= 13 else None)
            self.assertEqual(values(found), [b"a", b"b"])
            bounds = (found.high_watermark, found.last_stable_offset, found.log_start_offset)
            self.assertEqual(bounds, (2, 2, 0 if version >= 5 else -1))

    def test_whole_batches(self) -> None:
        """Who asks for an offset within a batch gets all of the batch."""
        self.append(batch_of(b"a", b"b", b"c"), batch_of(b"d"))
        self.assertEqual(values(self.fetch(1)), [b"a", b"b", b"c", b"d"])
        self.assertEqual(values(self.fetch(3)), [b"d"])

    def test_end_of_the_log(self) -> None:
        """At the end there is nothing, and no error."""
        self.append(batch_of(b"a"))
        found = self.fetch(1)
        self.assertEqual((found.error_code, found.size, found.high_watermark), (0, 0, 1))
        self.assertIsNotNone(found.records)

    def test_isolation(self) -> None:
        """Aborted transactions, of which there are none, are told to those who want to know."""
        self.append(batch_of(b"a"))
        self.assertIsNone(self.fetch(isolation_level=0).aborted)
        self.assertEqual(self.fetch(isolation_level=1).aborted, [])
        response = self.client.fetch(isolation_level=7)
        self.assertEqual(response.error_code, ErrorCode.invalid_request)

    def test_limits(self) -> None:
        """The first batch is given even if it is too large; nothing beyond the limit is."""
        self.append(batch_of(b"a" * 1000), batch_of(b"b" * 1000))
        self.assertEqual(len(values(self.fetch(max_bytes=10))), 1)
        self.assertEqual(len(values(self.fetch(max_bytes=2**20))), 2)
        self.assertEqual(len(values(self.fetch(max_bytes=-1))), 1)

    def test_nothing(self) -> None:
        """A request for no topic is answered with none."""
        self.client.send_fetch(FetchRequest(100, 1, 2**20, 0, []))
        self.assertEqual(self.client.one().topics, [])

    def test_fairness(self) -> None:
        """When not all fits, each partition has its turn to be first."""
        for partition in (0, 1):
            self.append(batch_of(b"x" * 1000), partition=partition)
        request = fetch_request(max_bytes=1000)
        request.topics[0].partitions = [PartitionWant(0, 0, 1000), PartitionWant(1, 0, 1000)]
        full = []
        for _ in range(4):
            self.client.send_fetch(request)
            partitions = self.client.one().topics[0].partitions
            self.assertEqual([each.index for each in partitions], [0, 1])
            full.append([each.index for each in partitions if each.size])
        self.assertEqual(sorted(map(tuple, full)), [(0,), (0,), (1,), (1,)])


class WaitTests(FetchCase):
    def test_waits_for_data(self) -> None:
        """A fetch at the end is answered when something comes."""
        self.client.send_fetch(fetch_request(max_wait_ms=5000))
        self.assertEqual(self.client.received(), [])
        self.world.kafka_client().produce(batch_of(b"a"))
        self.world.clock.advance(0)
        self.assertEqual(values(self.client.one().topics[0].partitions[0]), [b"a"])

    def test_time_is_over(self) -> None:
        """Or when the time is over, with nothing."""
        self.client.send_fetch(fetch_request(max_wait_ms=500))
        self.world.clock.advance(0.4)
        self.assertEqual(self.client.received(), [])
        self.world.clock.advance(0.2)
        self.assertEqual(self.client.one().topics[0].partitions[0].size, 0)

    def test_errors_are_told_at_once(self) -> None:
        """Who asks for something wrong does not wait."""
        for request in (fetch_request(topic="nowhere"), fetch_request(5), fetch_request(partition=9)):
            request.max_wait_ms = 5000
            request.topics.append(TopicWant("orders", None, [PartitionWant(0, 0, 100)]))
            self.client.send_fetch(request)
            self.assertEqual(len(self.client.received()), 1)


class RefusalTests(FetchCase):
    def test_out_of_range(self) -> None:
        """The bounds of the log are told."""
        self.append(batch_of(b"a"), batch_of(b"b"))
        self.successResultOf(self.world.store.delete_records(self.world.store.partition("orders", 0), 1))
        for offset in (0, 3, -1):
            found = self.fetch(offset)
            self.assertEqual(found.error_code, ErrorCode.offset_out_of_range)
            self.assertEqual((found.log_start_offset, found.high_watermark, found.size), (1, 2, 0))

    def test_unknown(self) -> None:
        """Topics and partitions that are not there are told to be unknown, and are not created."""
        for where in ({"topic": "nowhere"}, {"partition": 9}, {"partition": -1}):
            self.assertEqual(self.fetch(**where).error_code, ErrorCode.unknown_topic_or_partition)
        self.assertIsNone(self.world.store.catalog.get("nowhere"))

    def test_unknown_id(self) -> None:
        """So are ids."""
        request = fetch_request()
        request.topics[0].topic_id = UUID(int=7)
        self.client.send_fetch(request, 13)
        (topic,) = self.client.one().topics
        self.assertEqual(topic.topic_id, UUID(int=7))
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.unknown_topic_id)

    def test_leader_epochs(self) -> None:
        """Who knows an older leader, or a newer one, is told so."""
        partition = self.world.store.partition("orders", 0)
        self.patch(partition, "leader_epoch", 3)
        expected = {
            -1: ErrorCode.none,
            2: ErrorCode.fenced_leader_epoch,
            3: ErrorCode.none,
            4: ErrorCode.unknown_leader_epoch,
        }
        for epoch, code in expected.items():
            request = fetch_request()
            request.topics[0].partitions[0].leader_epoch = epoch
            self.client.send_fetch(request)
            self.assertEqual(self.client.one().topics[0].partitions[0].error_code, code)
        request.topics[0].partitions[0].index = 9
        self.client.send_fetch(request)
        self.assertEqual(
            self.client.one().topics[0].partitions[0].error_code, ErrorCode.unknown_topic_or_partition
        )

    def test_sessions(self) -> None:
        """Who begins a session is answered without one; who goes on with one is told that there is none."""
        self.append(batch_of(b"a"))
        self.assertEqual(values(self.fetch(session_id=0, session_epoch=0)), [b"a"])
        self.assertEqual(values(self.fetch(session_id=77, session_epoch=-1)), [b"a"])
        response = self.client.fetch(session_id=77, session_epoch=1)
        self.assertEqual(response.error_code, ErrorCode.fetch_session_id_not_found)
        self.assertEqual(response.topics, [])


class RecordLimitTests(FetchCase):
    settings = KafkaSettings(fetch_max_records=3)

    def test_no_more_than_that(self) -> None:
        """With C{kafka.fetch.max.records}, an answer ends before the batch that would exceed it."""
        self.append(batch_of(b"a", b"b"), batch_of(b"c"), batch_of(b"d"))
        self.assertEqual(values(self.fetch()), [b"a", b"b", b"c"])
        self.assertEqual(values(self.fetch(2)), [b"c", b"d"])

    def test_at_least_one_batch(self) -> None:
        """But there is always one."""
        self.append(batch_of(b"a", b"b", b"c", b"d"), batch_of(b"e"))
        self.assertEqual(values(self.fetch()), [b"a", b"b", b"c", b"d"])

    def test_over_all_partitions(self) -> None:
        """It is for the whole answer."""
        for partition in (0, 1):
            self.append(batch_of(b"a", b"b"), partition=partition)
        request = fetch_request()
        request.topics[0].partitions.append(PartitionWant(1, 0, 1000))
        self.client.send_fetch(request)
        found = [len(values(each)) for each in self.client.one().topics[0].partitions]
        self.assertEqual(sorted(found), [0, 2])
