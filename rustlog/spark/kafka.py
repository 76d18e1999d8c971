"""
L{KafkaClient}: a small blocking client of any Kafka broker.

    with KafkaClient(ClientSettings(bootstrap=(("127.0.0.1", 9092),))) as client:
        ends = client.list_offsets({TopicPartition("orders", 0): LATEST})

Whatever may be tried again is tried again, until the deadline: leaders move, brokers restart.  A client
belongs to one thread at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from kio.schema.errors import ErrorCode

from rustlog.log.batch import NO_PRODUCER_ID, Buffer, RecordBatch
from rustlog.model import TopicPartition
from rustlog.spark.calling import answers, by_topic
from rustlog.spark.cluster import refuse, refuse_partition
from rustlog.spark.connection import (
    CREATE_TOPICS,
    DELETE_RECORDS,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
)
from rustlog.spark.encoding import ProducerState
from rustlog.spark.errors import CorruptLog, DataLost
from rustlog.spark.groups import GroupCalls
from rustlog.wire.kafka.schema import Entity

EARLIEST = -2
LATEST = -1

FETCH_BYTES = 16 * 1024 * 1024
REPLICATION_DEFAULT = -1

_ALREADY_THERE = (ErrorCode.duplicate_sequence_number,)
_CREATE_DEFAULT_FROM = 4
"""From this version of CreateTopics on, -1 is the broker's default."""


@frozen
class TopicMetadata:
    """A topic as the brokers know it."""

    name: str
    partitions: int
    internal: bool = False


@frozen
class FoundOffset:
    """An answer to L{KafkaClient.list_offsets}; C{offset} is -1 when no record is that young."""

    offset: int
    timestamp: int = -1


@frozen
class Fetched:
    """
    What a fetch brought: batches back to back, the last of which may be cut off.

    @ivar aborted: (producer id, first offset) of transactions that C{read_committed} is not to see.
    """

    data: Buffer
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] = ()


class KafkaClient(GroupCalls):
    """
    See the module.  Every method raises L{BrokerError <rustlog.spark.errors.BrokerError>}:
    C{RequestRefused} when a broker says no for good, C{TopicNotFound}, C{GaveUp} when the deadline has
    passed.
    """

    # -- topics --

    def topics(self) -> dict[str, TopicMetadata]:
        """All topics, by name."""
        found = self.retry(METADATA.name, lambda: self.cluster.metadata(None))
        return {name: _topic(each) for name, each in sorted(found.items())}

    def topic(self, name: str, *, creates: bool = False) -> TopicMetadata:
        """
        One topic.

        @param creates: whether it may be created by asking, as producers do; the brokers decide, and they may
            take their time.
        @raise TopicNotFound: there is none.
        """

        def attempt() -> TopicMetadata:
            found = self.cluster.metadata([name], creates=creates)
            if name not in found:
                refuse(METADATA.name, ErrorCode.leader_not_available, name)
            return _topic(found[name])

        return self.retry(METADATA.name, attempt, waits_for_topics=creates)

    def create_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication_factor: int = REPLICATION_DEFAULT,
        config: Mapping[str, str] | None = None,
        exists_ok: bool = False,
    ) -> None:
        """Create a topic; C{replication_factor=-1} is the broker's default."""
        accepted = [ErrorCode.none] + [ErrorCode.topic_already_exists] * exists_ok
        settings = [{"name": key, "value": value} for key, value in (config or {}).items()]

        def attempt() -> None:
            broker = self.cluster.controller()
            has_default = broker.version_of(CREATE_TOPICS) >= _CREATE_DEFAULT_FROM
            replicas = 1 if replication_factor < 0 and not has_default else replication_factor
            topic = {
                "name": name, "num_partitions": partitions, "replication_factor": replicas,
                "assignments": (), "configs": settings,
            }  # fmt: skip
            answer = broker.ask(CREATE_TOPICS, topics=[topic], timeout=self.timeout_ms, validate_only=False)
            for each in answer.topics:
                if each.error_code not in accepted:
                    refuse(CREATE_TOPICS.name, each.error_code, f"topic {name}", each.error_message)

        self.retry(CREATE_TOPICS.name, attempt)

    # -- reading --

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = True
    ) -> dict[TopicPartition, FoundOffset]:
        """
        Find offsets: L{EARLIEST}, L{LATEST}, or the first record at or after a time in milliseconds.

        @param read_committed: the end of the log is before the first transaction that is still open.
        """
        found: dict[TopicPartition, FoundOffset] = {}

        def attempt() -> None:
            missing = sorted(wanted.keys() - found.keys())
            for broker, partitions in self.cluster.by_leader(missing):
                topics = by_topic(partitions, lambda each: {"timestamp": wanted[each]})
                answer = broker.ask(
                    LIST_OFFSETS, replica_id=-1, isolation_level=int(read_committed), topics=topics
                )
                for partition, each in answers(answer.topics):
                    if each.error_code:
                        refuse_partition(LIST_OFFSETS.name, each.error_code, partition)
                    found[partition] = FoundOffset(each.offset, each.timestamp)

        self.retry(LIST_OFFSETS.name, attempt)
        return found

    def fetch(
        self,
        partition: TopicPartition,
        offset: int,
        *,
        max_bytes: int = FETCH_BYTES,
        wait_ms: int = 500,
        min_bytes: int = 1,
        read_committed: bool = True,
    ) -> Fetched:
        """
        Batches from the one that has C{offset} on; nothing, after C{wait_ms}, if there is nothing.

        @raise DataLost: the offset is outside of the log.
        @raise CorruptLog: the broker says that its log is damaged there.
        """
        wanted = {
            "partition": partition.partition, "fetch_offset": offset, "log_start_offset": -1,
            "partition_max_bytes": max_bytes,
        }  # fmt: skip
        topics = [{"topic": partition.topic, "partitions": [wanted]}]

        def attempt() -> Fetched:
            answer = self.cluster.leader(partition).ask(
                FETCH, replica_id=-1, max_wait=wait_ms, min_bytes=min_bytes, max_bytes=max_bytes,
                isolation_level=int(read_committed), topics=topics, forgotten_topics_data=(),
                waits_ms=wait_ms,
            )  # fmt: skip
            code = getattr(answer, "error_code", ErrorCode.none)
            if code:
                refuse_partition(FETCH.name, code, partition)
            return self._fetched(answer.responses[0].partitions[0], partition, offset)

        return self.retry(FETCH.name, attempt)

    def _fetched(self, answer: Entity, partition: TopicPartition, offset: int) -> Fetched:
        code = answer.error_code
        if code == ErrorCode.offset_out_of_range:
            bounds = [self.list_offsets({partition: each})[partition].offset for each in (EARLIEST, LATEST)]
            raise DataLost(partition.topic, partition.partition, offset, *bounds)
        if code == ErrorCode.corrupt_message:
            raise CorruptLog(partition.topic, partition.partition, offset, "the broker says so; see its log")
        if code:
            refuse_partition(FETCH.name, code, partition)
        aborted = tuple((each.producer_id, each.first_offset) for each in answer.aborted_transactions or ())
        start = getattr(answer, "log_start_offset", -1)
        return Fetched(
            answer.records or b"", answer.high_watermark, answer.last_stable_offset, start, aborted
        )

    # -- writing --

    def init_producer(self) -> ProducerState:
        """A new identity for an idempotent producer; its sequence is 0."""

        def attempt() -> ProducerState:
            answer = self.cluster.any().ask(
                INIT_PRODUCER_ID, transactional_id=None, transaction_timeout=self.timeout_ms,
                producer_id=-1, producer_epoch=-1,
            )  # fmt: skip
            if answer.error_code:
                refuse(INIT_PRODUCER_ID.name, answer.error_code, "a producer")
            return ProducerState(answer.producer_id, answer.producer_epoch, 0)

        return self.retry(INIT_PRODUCER_ID.name, attempt)

    def produce(self, partition: TopicPartition, data: Buffer, *, acks: int = -1) -> int:
        """
        Append one batch; its base offset, or -1 if the brokers do not tell (it was there already, long ago).

        An idempotent batch (see L{init_producer}) is there exactly once, however often it had to be sent.
        Another one is only sent again when it certainly did not arrive.

        @param acks: -1: all replicas have it; 1: the leader has it.
        """
        content = {"index": partition.partition, "records": bytes(data)}
        topics = [{"name": partition.topic, "partition_data": [content]}]

        def attempt() -> int:
            answer = self.cluster.leader(partition).ask(
                PRODUCE, transactional_id=None, acks=acks, timeout=self.timeout_ms, topic_data=topics
            )
            each = answer.responses[0].partition_responses[0]
            if each.error_code in _ALREADY_THERE:
                return -1
            if each.error_code:
                if each.error_code == ErrorCode.unknown_topic_or_partition:
                    refuse_partition(PRODUCE.name, each.error_code, partition)
                refuse(PRODUCE.name, each.error_code, partition, getattr(each, "error_message", None))
            return int(each.base_offset)

        is_idempotent = RecordBatch(data).producer_id != NO_PRODUCER_ID
        return self.retry(PRODUCE.name, attempt, may_repeat=is_idempotent)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what is before some offsets; where the logs begin now."""
        done: dict[TopicPartition, int] = {}

        def attempt() -> None:
            for broker, partitions in self.cluster.by_leader(sorted(before.keys() - done.keys())):
                topics = by_topic(partitions, lambda each: {"offset": before[each]})
                answer = broker.ask(DELETE_RECORDS, topics=topics, timeout=self.timeout_ms)
                for partition, each in answers(answer.topics):
                    if each.error_code:
                        refuse_partition(DELETE_RECORDS.name, each.error_code, partition)
                    done[partition] = each.low_watermark

        self.retry(DELETE_RECORDS.name, attempt)
        return done


def _topic(entity: Entity) -> TopicMetadata:
    return TopicMetadata(entity.name, len(entity.partitions), entity.is_internal)
