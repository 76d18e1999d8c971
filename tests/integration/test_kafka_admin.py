"""
A real broker, administered by real clients of Kafka: topics, settings, offsets, and what there is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewPartitions as AioPartitions
from aiokafka.admin import NewTopic as AioTopic
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioType
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from kafka import KafkaAdminClient, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType as PythonType
from kafka.admin import OffsetSpec as PythonSpec
from kafka.errors import InvalidPartitionsError, InvalidReplicationFactorError, TopicAlreadyExistsError

from tests.integration.daemon import PATIENCE_SECONDS, Daemon

LISTEN = "kafka=tcp:0:interface=127.0.0.1"
_numbers = count()


@pytest.fixture(scope="module", params=["memory", "segments"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a broker listens that all tests of this module share, one for each store."""
    directory = tmp_path_factory.mktemp(request.param)
    with Daemon(directory, f"--storage={request.param}", listen=LISTEN) as daemon:
        yield f"127.0.0.1:{daemon.port}"


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"topic.{next(_numbers)}"


def only(futures: dict[Any, Any]) -> Any:
    """The one result of a confluent-kafka request."""
    (future,) = futures.values()
    return future.result(PATIENCE_SECONDS)


def refusal(futures: dict[Any, Any]) -> KafkaError:
    """Why the one thing that was asked for was refused."""
    with pytest.raises(KafkaException) as caught:
        only(futures)
    error: KafkaError = caught.value.args[0]
    return error


# -- confluent-kafka, which is librdkafka ------------------------------------------------


@pytest.fixture
def admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address})


def described(admin: AdminClient, topic: str) -> dict[str, str]:
    """The settings of a topic."""
    entries = only(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))
    return {name: entry.value for name, entry in entries.items()}


def produce(address: str, topic: str, *timestamps: int) -> None:
    """Send a record for each timestamp, idempotently, to partition 0."""
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for each in timestamps:
        producer.produce(topic, b"value", partition=0, timestamp=each)
    assert producer.flush(PATIENCE_SECONDS) == 0


def test_confluent_topics(admin: AdminClient, topic: str) -> None:
    """A topic is made, looked at, made larger, and deleted."""
    assert only(admin.create_topics([NewTopic(topic, 2, 1)])) is None
    assert len(only(admin.describe_topics(TopicCollection([topic]))).partitions) == 2
    assert only(admin.create_partitions([NewPartitions(topic, 5)])) is None
    metadata = admin.list_topics(timeout=PATIENCE_SECONDS).topics[topic]
    assert {each.leader for each in metadata.partitions.values()} == {0}
    assert len(metadata.partitions) == 5
    assert only(admin.delete_topics([topic])) is None
    assert topic not in admin.list_topics(timeout=PATIENCE_SECONDS).topics


def test_confluent_bad_topics(admin: AdminClient, topic: str) -> None:
    """What can not be made is refused with Kafka's code and a sentence; asking alone makes nothing."""
    for wanted, code, words in (
        (NewTopic(topic, 1, 3), KafkaError.INVALID_REPLICATION_FACTOR, "there is 1 broker"),
        (NewTopic("a/b", 1), KafkaError.TOPIC_EXCEPTION, "only ASCII letters"),
        (NewTopic(topic, 1, config={"colour": "red"}), KafkaError.INVALID_CONFIG, "there are: cleanup"),
        (NewTopic(topic, 1, config={"retention.ms": "x"}), KafkaError.INVALID_CONFIG, "whole number"),
    ):
        error = refusal(admin.create_topics([wanted]))
        assert error.code() == code
        assert words in error.str()
    assert only(admin.create_topics([NewTopic(topic, 1)], validate_only=True)) is None
    assert refusal(admin.delete_topics([topic])).code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert only(admin.create_topics([NewTopic(topic, 1)])) is None
    assert refusal(admin.create_topics([NewTopic(topic, 1)])).code() == KafkaError.TOPIC_ALREADY_EXISTS
    assert refusal(admin.create_partitions([NewPartitions(topic, 1)])).code() == KafkaError.INVALID_PARTITIONS


def test_confluent_settings(admin: AdminClient, topic: str) -> None:
    """Settings are given at creation, looked at, changed one by one, and replaced as a whole."""
    only(admin.create_topics([NewTopic(topic, 1, config={"retention.ms": "5000", "preallocate": "false"})]))
    assert described(admin, topic)["retention.ms"] == "5000"
    changes = [
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("segment.ms", "7000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.APPEND),
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
    assert only(admin.incremental_alter_configs([resource])) is None
    settings = described(admin, topic)
    assert (settings["retention.ms"], settings["segment.ms"]) == ("604800000", "7000")
    replacement = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config={"segment.bytes": "2000"})
    with pytest.deprecated_call():
        assert only(admin.alter_configs([replacement])) is None
    settings = described(admin, topic)
    assert (settings["segment.ms"], settings["segment.bytes"]) == ("604800000", "2000")


def test_confluent_broker_settings(admin: AdminClient) -> None:
    """Those of the broker can be seen, and are not changed."""
    entries = only(admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "0")]))
    assert entries["max.connections"].is_read_only
    assert entries["num.partitions"].value == "1"
    change = ConfigEntry("max.connections", "5", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "0", incremental_configs=[change])
    error = refusal(admin.incremental_alter_configs([resource]))
    assert error.code() == KafkaError.INVALID_REQUEST
    assert "fixed while it runs" in error.str()


def test_confluent_offsets(admin: AdminClient, address: str, topic: str) -> None:
    """Offsets are found by position and by time; the beginning of the log is deleted."""
    only(admin.create_topics([NewTopic(topic, 1)]))
    produce(address, topic, 1000, 3000, 2000)
    partition = TopicPartition(topic, 0)

    def find(spec: OffsetSpec) -> tuple[int, int]:
        found = only(admin.list_offsets({partition: spec}))
        return found.offset, found.timestamp

    assert find(OffsetSpec.earliest()) == (0, -1)
    assert find(OffsetSpec.latest()) == (3, -1)
    assert find(OffsetSpec.max_timestamp()) == (1, 3000)
    assert find(OffsetSpec.for_timestamp(1500)) == (1, 3000)
    assert find(OffsetSpec.for_timestamp(3001)) == (-1, -1)
    assert only(admin.delete_records([TopicPartition(topic, 0, 2)])).low_watermark == 2
    assert find(OffsetSpec.earliest()) == (2, -1)
    assert only(admin.delete_records([TopicPartition(topic, 0, OFFSET_END)])).low_watermark == 3
    error = refusal(admin.delete_records([TopicPartition(topic, 0, 9)]))
    assert error.code() == KafkaError.OFFSET_OUT_OF_RANGE


def test_confluent_consumer_asks(admin: AdminClient, address: str, topic: str) -> None:
    """A consumer asks for the bounds of a partition, and for offsets by time."""
    only(admin.create_topics([NewTopic(topic, 1)]))
    produce(address, topic, 1000, 2000)
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_SECONDS) == (0, 2)
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, 1500)], PATIENCE_SECONDS)
    assert found.offset == 1
    consumer.close()


def test_confluent_cluster(admin: AdminClient, address: str) -> None:
    """The cluster is one broker, at the address that was asked."""
    cluster = admin.describe_cluster(include_authorized_operations=True).result(PATIENCE_SECONDS)
    assert [f"{each.host}:{each.port}" for each in cluster.nodes] == [address]
    assert (cluster.controller.id, bool(cluster.cluster_id)) == (0, True)
    assert {each.name for each in cluster.authorized_operations} >= {"CREATE", "ALTER", "IDEMPOTENT_WRITE"}


def test_confluent_transactions(address: str) -> None:
    """A transactional producer is refused for good, at once."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": "payments"})
    begun = time.monotonic()
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(PATIENCE_SECONDS)
    error = caught.value.args[0]
    assert (error.fatal(), error.retriable()) == (True, False)
    assert time.monotonic() - begun < PATIENCE_SECONDS / 2


# -- kafka-python ------------------------------------------------------------------------


@pytest.fixture
def python_admin(address: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=address)
    yield client
    client.close()


def test_python_topics(python_admin: KafkaAdminClient, topic: str) -> None:
    """Topics are made with partitions or with assignments, grow, are paged through, and are deleted by id."""
    created = python_admin.create_topics({topic: {"num_partitions": 2, "configs": {"retention.ms": "5"}}})
    (answer,) = created["topics"]
    assert (answer["num_partitions"], answer["replication_factor"]) == (2, 1)
    assert answer["configs"]["retention.ms"]["value"] == "5"
    with pytest.raises(TopicAlreadyExistsError):
        python_admin.create_topics([topic])
    with pytest.raises(InvalidReplicationFactorError):
        python_admin.create_topics({f"{topic}.x": {"replication_factor": 2}})
    assigned = {"num_partitions": -1, "replication_factor": -1, "assignments": {0: [0], 1: [0], 2: [0]}}
    (answer,) = python_admin.create_topics({f"{topic}.assigned": assigned})["topics"]
    assert answer["num_partitions"] == 3
    python_admin.create_partitions({topic: 4})
    with pytest.raises(InvalidPartitionsError):
        python_admin.create_partitions({topic: 4})
    (shown,) = python_admin.describe_topics([topic])
    assert len(shown["partitions"]) == 4
    page = python_admin.describe_topic_partitions([topic], response_partition_limit=3)
    assert [each["partition_index"] for each in page["topics"][0]["partitions"]] == [0, 1, 2]
    assert page["next_cursor"]["partition_index"] == 3
    python_admin.delete_topics([topic, f"{topic}.assigned"])
    assert topic not in python_admin.list_topics()


def test_python_settings(python_admin: KafkaAdminClient, topic: str) -> None:
    """Settings are changed, and shown with their source and documentation."""
    python_admin.create_topics([topic])
    python_admin.alter_configs([PythonResource(PythonType.TOPIC, topic, configs={"retention.ms": "12"})])
    resource = PythonResource(PythonType.TOPIC, topic)
    shown = python_admin.describe_configs([resource], include_synonyms=True, config_filter="all")
    retention = shown["topic"][topic]["retention.ms"]
    assert (retention["value"], retention["config_source"]) == ("12", "DYNAMIC_TOPIC_CONFIG")
    assert [each["value"] for each in retention["synonyms"]] == ["12", "604800000"]
    assert topic in python_admin.list_config_resources(["TOPIC"])["topic"]


def test_python_records(python_admin: KafkaAdminClient, address: str, topic: str) -> None:
    """Offsets, log directories and producers of a partition that was written to."""
    python_admin.create_topics([topic])
    producer = KafkaProducer(bootstrap_servers=address, enable_idempotence=True)
    for each in (1000, 2000, 3000):
        producer.send(topic, b"value", partition=0, timestamp_ms=each).get(PATIENCE_SECONDS)
    producer.close()
    partition = PythonPartition(topic, 0)
    for spec, offset in ((PythonSpec.EARLIEST, 0), (PythonSpec.LATEST, 3), (1500, 1)):
        assert python_admin.list_partition_offsets({partition: spec})[partition].offset == offset
    (state,) = python_admin.describe_producers([partition])[partition].active_producers
    assert (state.producer_epoch, state.last_sequence) == (0, 2)
    (broker,) = python_admin.describe_log_dirs({topic: [0]})
    ((shown,),) = [each["topics"][0]["partitions"] for each in broker["log_dirs"]]
    assert shown["partition_size"] > 3 * 61
    assert python_admin.delete_records({partition: 2})[partition]["low_watermark"] == 2


def test_python_cluster(python_admin: KafkaAdminClient, address: str) -> None:
    """The cluster is one broker."""
    (broker,) = python_admin.describe_cluster()["brokers"]
    assert (broker["broker_id"], f"{broker['host']}:{broker['port']}") == (0, address)


# -- aiokafka ----------------------------------------------------------------------------


def run(address: str, steps: Callable[[AIOKafkaAdminClient], Awaitable[None]]) -> None:
    """Have C{steps} done with a client that is started before and closed afterwards."""

    async def whole() -> None:
        client = AIOKafkaAdminClient(bootstrap_servers=address)
        await client.start()
        try:
            await steps(client)
        finally:
            await client.close()

    asyncio.run(whole())


def test_aiokafka_round_trip(address: str, topic: str) -> None:
    """Topics, settings and offsets, in the older versions that aiokafka speaks."""

    async def steps(client: AIOKafkaAdminClient) -> None:
        wanted = AioTopic(topic, 2, 1, topic_configs={"retention.ms": "5000"})
        created = await client.create_topics([wanted])
        assert created.topic_errors[0][1] == 0
        grown = await client.create_partitions({topic: AioPartitions(3)})
        assert grown.topic_errors[0][1] == 0
        await produce_with_aiokafka(address, topic, 1000, 2000, 3000)
        (altered,) = await client.alter_configs(
            [AioResource(AioType.TOPIC, topic, configs={"segment.ms": "12"})]
        )
        assert altered.resources[0][0] == 0
        (shown,) = await client.describe_configs([AioResource(AioType.TOPIC, topic)])
        values = {entry[0]: entry[1] for entry in shown.resources[0][4]}
        assert (values["segment.ms"], values["retention.ms"]) == ("12", "604800000")
        partition = AioPartition(topic, 0)
        deleted = await client.delete_records({partition: RecordsToDelete(before_offset=1)})
        assert deleted == {partition: 1}
        assert await positions_with_aiokafka(address, partition, 1500) == (1, 3, 1)
        (metadata,) = await client.describe_topics([topic])
        assert len(metadata["partitions"]) == 3
        assert (await client.describe_cluster())["controller_id"] == 0
        gone = await client.delete_topics([topic])
        assert gone.topic_error_codes[0][1] == 0

    run(address, steps)


async def produce_with_aiokafka(address: str, topic: str, *timestamps: int) -> None:
    """Send a record for each timestamp, idempotently, to partition 0."""
    async with AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True) as producer:
        for each in timestamps:
            await producer.send_and_wait(topic, b"value", partition=0, timestamp_ms=each)


async def positions_with_aiokafka(address: str, partition: AioPartition, ms: int) -> tuple[int, int, int]:
    """Begin and end of a partition, and where a time is in it."""
    async with AIOKafkaConsumer(bootstrap_servers=address) as consumer:
        begin = await consumer.beginning_offsets([partition])
        end = await consumer.end_offsets([partition])
        found = await consumer.offsets_for_times({partition: ms})
    return begin[partition], end[partition], found[partition].offset


# -- what lasts --------------------------------------------------------------------------


def test_changes_survive_a_crash(make_daemon: Callable[..., Daemon], topic: str) -> None:
    """What was confirmed to an administrator is still there after the broker died."""
    daemon = make_daemon(listen=LISTEN).start()
    address = f"127.0.0.1:{daemon.port}"
    admin = AdminClient({"bootstrap.servers": address})
    only(admin.create_topics([NewTopic(topic, 1, config={"retention.ms": "-1"})]))
    produce(address, topic, 1000, 2000, 3000)
    only(admin.create_partitions([NewPartitions(topic, 3)]))
    only(admin.delete_records([TopicPartition(topic, 0, 2)]))
    identity = only(admin.describe_topics(TopicCollection([topic]))).topic_id
    daemon.kill()
    daemon.start()
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{daemon.port}"})
    after = only(admin.describe_topics(TopicCollection([topic])))
    assert (str(after.topic_id), len(after.partitions)) == (str(identity), 3)
    assert described(admin, topic)["retention.ms"] == "-1"
    assert only(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})).offset == 2
