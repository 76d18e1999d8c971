"""What lies below Spark, against real brokers: the client, and the reader of data directories."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from attrs import evolve
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from rustlog.log.batch import RecordBatch
from rustlog.log.codecs import Codec
from rustlog.model import Committed, TopicPartition
from rustlog.spark.columns import COLUMNS, SCHEMA
from rustlog.spark.encoding import encode
from rustlog.spark.errors import (
    BrokerError,
    DataLost,
    GaveUp,
    LogFileGone,
    NoDataDirectory,
    RequestRefused,
    TopicNotFound,
)
from rustlog.spark.files import DataDirectory
from rustlog.spark.kafka import EARLIEST, LATEST, KafkaClient
from rustlog.spark.ranges import raw_batches, read_range
from rustlog.spark.reading import read_offsets
from rustlog.spark.settings import ClientSettings, parse_bootstrap
from tests.integration.daemon import Daemon, free_port
from tests.integration.kafka_clients import Confluent, Message

KAFKA = "kafka=tcp:0:interface=127.0.0.1"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for all tests here that only talk to it, with topics of their own."""
    with Daemon(tmp_path_factory.mktemp("broker"), "--sync=never", listen=KAFKA) as daemon:
        yield daemon


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test."""
    return "".join(each if each.isalnum() else "-" for each in request.node.name)


@pytest.fixture
def client(broker: Daemon) -> Iterator[KafkaClient]:
    with connect(f"127.0.0.1:{broker.port}") as client:
        yield client


def connect(address: str, **more: Any) -> KafkaClient:
    return KafkaClient(ClientSettings(bootstrap=parse_bootstrap(address), **more))


def messages(count: int) -> list[Message]:
    """Records of all kinds."""
    return [
        Message(
            None if number % 7 == 3 else b"value %d" % number * (number % 5),
            None if number % 3 == 0 else b"key %d" % number,
            (("trace", b"%d" % number), ("none", None)) if number % 4 == 1 else (),
        )
        for number in range(count)
    ]


def plain_messages(count: int) -> list[Message]:
    """Records that every format holds."""
    return [Message(b"value %d" % number * 20, b"key %d" % number) for number in range(count)]


def as_messages(batches: Iterable[pa.RecordBatch]) -> list[Message]:
    """Rows with all columns, in the terms of the other clients."""
    return [
        Message(
            row["value"],
            row["key"],
            tuple((each["key"], each["value"]) for each in row["headers"] or ()),
            row["offset"],
        )
        for batch in batches
        for row in batch.to_pylist()
    ]


def as_rows(sent: list[Message]) -> pa.RecordBatch:
    """The reverse."""
    headers = [[{"key": key, "value": value} for key, value in each.headers] or None for each in sent]
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([each.key for each in sent], pa.binary()),
            "value": pa.array([each.value for each in sent], pa.binary()),
            "headers": pa.array(headers, SCHEMA.field("headers").type),
        }
    )


def write(client: KafkaClient, partition: TopicPartition, sent: list[Message], **more: Any) -> list[int]:
    """Produce as an idempotent producer; the offsets of the batches."""
    encoded = encode(as_rows(sent), now_ms=1_700_000_000_000, producer=client.init_producer(), **more)
    return [client.produce(partition, each.data) for each in encoded]


# -- reading and writing ------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_reads_what_others_wrote(broker: Daemon, client: KafkaClient, topic: str, codec: str) -> None:
    """What librdkafka has produced, with any codec, comes as rows with the same content."""
    user = Confluent(f"127.0.0.1:{broker.port}")
    assert user.produce(topic, messages(100), compression=codec) == list(range(100))
    partition = TopicPartition(topic, 0)
    found = as_messages(read_offsets(client, partition, 0, 100, columns=COLUMNS, rows_max=33))
    assert found == user.consume(topic, 100)
    assert as_messages(read_offsets(client, partition, 42, 45, columns=COLUMNS)) == found[42:45]


@pytest.mark.parametrize("codec", CODECS)
def test_others_read_what_was_written(broker: Daemon, client: KafkaClient, topic: str, codec: str) -> None:
    """What was encoded from columns, with any codec, is read by librdkafka."""
    client.create_topic(topic, 1)
    sent = messages(100)
    codec_number = Codec[codec.upper()]
    assert write(client, TopicPartition(topic, 0), sent, codec=codec_number, batch_records=40) == [0, 40, 80]
    found = Confluent(f"127.0.0.1:{broker.port}").consume(topic, 100)
    assert [evolve(each, offset=-1) for each in found] == sent


def test_times(broker: Daemon, client: KafkaClient, topic: str) -> None:
    """Times go through as they are, and offsets are found by them as librdkafka finds them."""
    client.create_topic(topic, 1)
    partition = TopicPartition(topic, 0)
    times = [1_700_000_000_000 + 1000 * number for number in range(10)]
    rows = pa.RecordBatch.from_pydict({"value": [b""] * 10, "timestamp": pa.array(times, pa.timestamp("ms"))})
    for each in encode(rows, now_ms=0):
        client.produce(partition, each.data)
    (found,) = read_offsets(client, partition, 0, 10, columns=("timestamp", "timestampType"))
    assert [round(each.timestamp() * 1000) for each in found["timestamp"].to_pylist()] == times
    assert found["timestampType"].to_pylist() == [0] * 10
    user = Confluent(f"127.0.0.1:{broker.port}")
    for time_ms in (0, times[0], times[4], times[4] + 1, times[-1] + 1):
        mine = client.list_offsets({partition: time_ms})[partition].offset
        assert mine == user.offset_for_time(topic, time_ms)


def test_append_times(broker: Daemon, client: KafkaClient, topic: str) -> None:
    """Where the broker gives the time, every record has that of its batch."""
    client.create_topic(topic, 1, config={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    write(client, TopicPartition(topic, 0), messages(3))
    columns = ("timestamp", "timestampType")
    (found,) = read_offsets(client, TopicPartition(topic, 0), 0, 3, columns=columns)
    assert found["timestampType"].to_pylist() == [1] * 3
    (given,) = {round(each.timestamp() * 1000) for each in found["timestamp"].to_pylist()}
    assert before <= given <= time.time() * 1000


def test_sent_twice(client: KafkaClient, topic: str) -> None:
    """A batch of an idempotent producer that is sent twice is there once."""
    client.create_topic(topic, 1)
    partition = TopicPartition(topic, 0)
    (batch,) = encode(as_rows(messages(3)), now_ms=0, producer=client.init_producer())
    assert [client.produce(partition, batch.data) for _ in range(3)] == [0, 0, 0]
    assert client.list_offsets({partition: LATEST})[partition].offset == 3


# -- topics, offsets, groups --------------------------------------------------------------


def test_topics(client: KafkaClient, topic: str) -> None:
    """A topic is made once, and known then; one that is asked for is not made by that."""
    with pytest.raises(TopicNotFound, match=f"no topic {topic}"):
        client.topic(topic)
    client.create_topic(topic, 3, config={"retention.ms": "5000"})
    assert client.topic(topic).partitions == 3
    assert client.topics()[topic] == client.topic(topic)
    with pytest.raises(RequestRefused, match="TOPIC_ALREADY_EXISTS"):
        client.create_topic(topic, 3)
    client.create_topic(topic, 3, exists_ok=True)
    with pytest.raises(RequestRefused, match="INVALID_CONFIG"):
        client.create_topic(f"{topic}-2", 1, config={"no.such": "1"})


def test_ends_of_a_log(client: KafkaClient, topic: str) -> None:
    """The ends of a log are told; what is outside is refused with both of them."""
    client.create_topic(topic, 2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    write(client, first, messages(10))
    assert client.delete_records({first: 4}) == {first: 4}
    starts = client.list_offsets({first: EARLIEST, second: EARLIEST})
    ends = client.list_offsets({first: LATEST, second: LATEST})
    assert [starts[each].offset for each in (first, second)] == [4, 0]
    assert [ends[each].offset for each in (first, second)] == [10, 0]
    for asked in (3, 11):
        with pytest.raises(DataLost, match=f"offset {asked} of {topic}-0 .* from 4 to 10"):
            client.fetch(first, asked)
    with pytest.raises(DataLost, match=f"offset 10 of {topic}-0 .* from 4 to 10"):
        list(read_offsets(client, first, 4, 11))
    fetched = client.fetch(first, 10, wait_ms=10)
    assert (len(fetched.data), fetched.high_watermark, fetched.log_start_offset) == (0, 10, 4)


def test_groups(broker: Daemon, client: KafkaClient, topic: str) -> None:
    """What is committed for a group is what librdkafka finds, and the reverse."""
    client.create_topic(topic, 3)
    places = [TopicPartition(topic, number) for number in range(3)]
    assert client.committed_offsets(topic) == {}
    client.commit_offsets(topic, {places[0]: 5, places[1]: Committed(7, metadata="run 1")})
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{broker.port}", "group.id": topic})
    theirs = consumer.committed([ConfluentPartition(topic, number) for number in range(3)], 30)
    assert [each.offset for each in theirs][:2] == [5, 7]
    consumer.commit(offsets=[ConfluentPartition(topic, 2, 9)], asynchronous=False)
    consumer.close()
    found = client.committed_offsets(topic)
    assert {key: value.offset for key, value in found.items()} == dict(zip(places, (5, 7, 9), strict=True))
    assert found[places[1]].metadata == "run 1"
    assert client.committed_offsets(topic, [places[1]]).keys() == {places[1]}


# -- other brokers, and none --------------------------------------------------------------


def test_several_brokers(topic: str) -> None:
    """With librdkafka's own mock brokers: each partition is led by another one, and all are found."""
    theirs = Producer({"bootstrap.servers": "nowhere", "test.mock.num.brokers": 3})
    brokers = [f"{each.host}:{each.port}" for each in theirs.list_topics(timeout=30).brokers.values()]
    with connect(brokers[0]) as client:
        client.create_topic(topic, 6)
        places = [TopicPartition(topic, number) for number in range(6)]
        for place in places:
            assert write(client, place, plain_messages(place.partition + 1)) == [0]
        assert len({client.cluster.leader(place) for place in places}) == 3
        ends = client.list_offsets(dict.fromkeys(places, LATEST))
        assert [ends[place].offset for place in places] == [1, 2, 3, 4, 5, 6]
        for place in places:
            found = as_messages(read_offsets(client, place, 0, place.partition + 1, columns=COLUMNS))
            assert [evolve(each, offset=-1) for each in found] == plain_messages(place.partition + 1)


def test_broker_comes_back(make_daemon: Callable[..., Daemon]) -> None:
    """A client goes on after the broker was killed and started again, without losing or repeating anything."""
    port = free_port()
    daemon = make_daemon(listen=f"kafka=tcp:{port}:interface=127.0.0.1").start()
    partition = TopicPartition("orders", 0)
    with connect(f"127.0.0.1:{port}") as client:
        client.create_topic("orders", 1)
        batches = encode(as_rows(plain_messages(9)), now_ms=0, batch_records=3, producer=client.init_producer())
        for number, each in enumerate(batches):
            assert client.produce(partition, each.data) == 3 * number
            daemon.kill()
            daemon.launch()
        found = as_messages(read_offsets(client, partition, 0, 9, columns=COLUMNS))
    assert [evolve(each, offset=-1) for each in found] == plain_messages(9)


def test_nobody_there() -> None:
    """Nobody answers: one sentence says so, after the deadline."""
    with connect(f"127.0.0.1:{free_port()}", deadline_seconds=0.3) as client, pytest.raises(GaveUp) as caught:
        client.topics()
    assert "Metadata did not succeed within 0.3 seconds" in str(caught.value)
    assert "Connection refused" in str(caught.value)


def test_not_kafka(make_daemon: Callable[..., Daemon]) -> None:
    """Somebody else answers: that is told at once."""
    daemon = make_daemon("--listen=http=tcp:0:interface=127.0.0.1").start()
    for port in daemon.ports:
        with connect(f"127.0.0.1:{port}", deadline_seconds=2.0, request_seconds=1.0) as client:
            with pytest.raises(BrokerError, match=f"127.0.0.1:{port}"):
                client.topics()
