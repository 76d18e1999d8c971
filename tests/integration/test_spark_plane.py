"""What lies below Spark, against real brokers: the client, and the reader of data directories."""

from __future__ import annotations

import pickle
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from attrs import evolve
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from rustlog.log.codecs import Codec
from rustlog.model import Committed, TopicPartition
from rustlog.spark.columns import COLUMNS, SCHEMA
from rustlog.spark.decoding import decode
from rustlog.spark.encoding import encode
from rustlog.spark.errors import (
    BadOption,
    BrokerError,
    CorruptLog,
    DataLost,
    GaveUp,
    LogFileGone,
    NoDataDirectory,
    RequestRefused,
    TopicNotFound,
)
from rustlog.spark.files import DataDirectory
from rustlog.spark.kafka import EARLIEST, LATEST, KafkaClient
from rustlog.spark.ranges import Range, raw_batches, read_range
from rustlog.spark.reading import read_offsets
from rustlog.spark.settings import ClientSettings, parse_bootstrap
from tests.integration.daemon import Daemon, free_port
from tests.integration.kafka_clients import Confluent, Message
from tests.integration.test_minikafka_storage import ORDERS, write_directory

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
    theirs.produce(topic, b"made by this", partition=0)
    assert theirs.flush(30) == 0
    known = theirs.list_topics(timeout=30)
    brokers = {number: f"{each.host}:{each.port}" for number, each in known.brokers.items()}
    leaders = [brokers[each.leader] for _, each in sorted(known.topics[topic].partitions.items())]
    with connect(next(iter(brokers.values()))) as client:
        places = [TopicPartition(topic, number) for number in range(client.topic(topic).partitions)]
        for place in places[1:]:
            assert write(client, place, plain_messages(place.partition + 1)) == [0]
        assert [client.cluster.leader(place).address for place in places] == leaders
        ends = client.list_offsets(dict.fromkeys(places, LATEST), read_committed=False)
        assert [ends[place].offset for place in places] == [1, 2, 3, 4]
        for place in places[1:]:
            rows = read_offsets(client, place, 0, place.partition + 1, columns=COLUMNS, read_committed=False)
            found = [evolve(each, offset=-1) for each in as_messages(rows)]
            assert found == plain_messages(place.partition + 1)


def test_broker_comes_back(make_daemon: Callable[..., Daemon]) -> None:
    """A client goes on after the broker was killed and started again; nothing is lost, nothing is twice."""
    port = free_port()
    daemon = make_daemon(listen=f"kafka=tcp:{port}:interface=127.0.0.1").start()
    partition = TopicPartition("orders", 0)
    with connect(f"127.0.0.1:{port}") as client:
        client.create_topic("orders", 1)
        rows, producer = as_rows(plain_messages(9)), client.init_producer()
        for number, each in enumerate(encode(rows, now_ms=0, batch_records=3, producer=producer)):
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
        client = connect(f"127.0.0.1:{port}", deadline_seconds=2.0, request_seconds=1.0)
        with client, pytest.raises(BrokerError, match=f"127.0.0.1:{port}"):
            client.topics()


# -- data directories ---------------------------------------------------------------------

FORMATS = {
    "segments": ("--storage=segments", "--set=segment.bytes=20000", "--set=index.interval.bytes=1000"),
    "minikafka": (
        "--storage=minikafka", "--set=minikafka.segment.bytes=20000", "--set=index.interval.bytes=1000",
        "--set=minikafka.segments.kept=1000",
    ),
}  # fmt: skip


@pytest.fixture(params=FORMATS)
def filled(request: pytest.FixtureRequest, make_daemon: Callable[..., Daemon]) -> Daemon:
    """A broker of either format, with 2000 records in several files."""
    daemon = make_daemon(*FORMATS[request.param], listen=KAFKA).start()
    user = Confluent(f"127.0.0.1:{daemon.port}")
    for begin in range(0, 2000, 100):
        sent = plain_messages(2000)[begin : begin + 100]
        compression = "lz4" if begin % 200 else "none"
        assert user.produce("orders", sent, compression=compression) == list(range(begin, begin + 100))
    return daemon


def directory_of(daemon: Daemon) -> DataDirectory:
    return DataDirectory(str(daemon.directory / "data"))


def rows_of(ranges: Iterable[Range], columns: tuple[str, ...] = COLUMNS) -> Iterator[pa.RecordBatch]:
    """All of them, as if they had travelled to a worker."""
    for each in ranges:
        yield from read_range(pickle.loads(pickle.dumps(each)), columns)


def test_whole_directory(filled: Daemon) -> None:
    """While the broker runs, and after it has stopped, all records are there, once, in order."""
    directory = directory_of(filled)
    for stop in (filled.stop, lambda: None):
        topic = directory.topic("orders")
        ranges = directory.ranges(topic, 0, range_bytes=3000)
        assert len(ranges) > 10
        assert [each.base_offset for each in ranges[1:]] == [each.next_offset for each in ranges[:-1]]
        assert (ranges[0].base_offset, ranges[-1].next_offset) == (0, 2000)
        found = [evolve(each, offset=-1) for each in as_messages(rows_of(ranges))]
        assert found == plain_messages(2000)
        stop()


def test_same_rows_as_by_the_broker(filled: Daemon) -> None:
    """Files and broker tell the same, down to the microsecond."""
    directory = directory_of(filled)
    ranges = directory.ranges(directory.topic("orders"), 0)
    with connect(f"127.0.0.1:{filled.port}") as client:
        by_broker = pa.Table.from_batches(
            read_offsets(client, TopicPartition("orders", 0), 0, 2000, columns=COLUMNS)
        )
    assert pa.Table.from_batches(rows_of(ranges)).combine_chunks() == by_broker.combine_chunks()


def test_parts_of_a_directory(filled: Daemon) -> None:
    """Between any offsets exactly these are read; sealed files can be had without the one that grows."""
    directory = directory_of(filled)
    topic = directory.topic("orders")
    for begin, end in ((0, 1), (777, 1203), (1999, 2000), (1999, 5000), (2000, 3000), (5, 5)):
        ranges = directory.ranges(topic, 0, from_offset=begin, to_offset=end, range_bytes=3000)
        found = [each for rows in rows_of(ranges, ("offset",)) for each in rows["offset"].to_pylist()]
        assert found == list(range(begin, min(end, 2000)))
    sealed = directory.ranges(topic, 0, sealed_only=True)
    assert sealed and all(each.is_sealed for each in sealed)
    active = directory.partition(topic, 0).segments[-1]
    assert sealed[-1].next_offset == active.base_offset
    assert not active.is_sealed


def test_raw_batches(filled: Daemon) -> None:
    """Batches come as they are, and together are the files."""
    directory = directory_of(filled)
    topic = directory.topic("orders")
    batches = [each for one in directory.ranges(topic, 0, range_bytes=3000) for each in raw_batches(one)]
    assert [each.base_offset for each in batches[1:]] == [each.next_offset for each in batches[:-1]]
    assert all(each.has_valid_crc() for each in batches)
    if directory.format == "segments":
        files = [Path(each.path).read_bytes() for each in directory.partition(topic, 0).segments]
        assert b"".join(bytes(each.buffer) for each in batches) == b"".join(files)
    together = b"".join(each.buffer for each in batches)
    found = as_messages(decode(together, topic="orders", partition=0, columns=COLUMNS))
    assert [evolve(each, offset=-1) for each in found] == plain_messages(2000)


def test_deleted_records(filled: Daemon) -> None:
    """What was deleted is not in the ranges, though it is still in a file."""
    partition = TopicPartition("orders", 0)
    with connect(f"127.0.0.1:{filled.port}") as client:
        client.delete_records({partition: 1234})
    directory = directory_of(filled)
    topic = directory.topic("orders")
    assert directory.partition(topic, 0).log_start_offset == 1234
    for columns in (("offset",), COLUMNS):
        ranges = directory.ranges(topic, 0, range_bytes=3000)
        found = [each for rows in rows_of(ranges, columns) for each in rows["offset"].to_pylist()]
        assert found == list(range(1234, 2000))


def test_torn_tail(filled: Daemon) -> None:
    """What a crash has left half written at the end is not read."""
    filled.kill()
    directory = directory_of(filled)
    topic = directory.topic("orders")
    last = Path(directory.partition(topic, 0).segments[-1].path)
    content = last.read_bytes()
    before = directory.ranges(topic, 0)
    for missing in (1, 30, 70):
        last.write_bytes(content[:-missing])
        ranges = directory.ranges(topic, 0)
        assert ranges[-1].next_offset < 2000 == before[-1].next_offset
        found = [each for rows in rows_of(ranges, ("offset",)) for each in rows["offset"].to_pylist()]
        assert found == list(range(ranges[-1].next_offset))


def test_damage(filled: Daemon) -> None:
    """Damage is told, with its place; and so is a file that is gone."""
    filled.kill()
    directory = directory_of(filled)
    (first, *others) = directory.ranges(directory.topic("orders"), 0)
    path = Path(first.path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptLog, match=r"orders-0 is damaged at offset \d+: "):
        list(read_range(first))
    path.unlink()
    with pytest.raises(LogFileGone, match=r"0\.log of orders-0 is gone"):
        list(read_range(first))
    assert sum(rows.num_rows for rows in rows_of(others)) == 2000 - first.next_offset


def test_minikafka_itself(tmp_path: Path) -> None:
    """A directory that no rustlog has ever seen is read as it is."""
    write_directory(tmp_path)
    directory = DataDirectory(str(tmp_path))
    assert [(each.name, each.partitions) for each in directory.topics()] == [
        ("__consumer_offsets", 4), ("orders", 2),
    ]  # fmt: skip
    ranges = directory.ranges(directory.topic("orders"), 0)
    found = [row for rows in rows_of(ranges) for row in rows.to_pylist()]
    content = [(row["offset"], row["key"], row["value"]) for row in found]
    assert content == [(offset, key, payload) for offset, _, key, payload in ORDERS]
    assert round(found[7]["timestamp"].timestamp() * 1000) == ORDERS[7][1]


def test_no_data_directory(tmp_path: Path) -> None:
    """What is none is refused with a sentence."""
    with pytest.raises(NoDataDirectory, match="there is no such directory"):
        DataDirectory(str(tmp_path / "nowhere"))
    with pytest.raises(NoDataDirectory, match="no file FORMAT"):
        DataDirectory(str(tmp_path))
    (tmp_path / "FORMAT").write_text("{}")
    with pytest.raises(NoDataDirectory, match="FORMAT is not a document"):
        DataDirectory(str(tmp_path))


# -- TLS ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file with a key and a certificate for 127.0.0.1 that is its own authority."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    place = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1"]
    output = ["-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run([*command, *names, *output], cwd=place, check=True, capture_output=True)
    both = place / "both.pem"
    both.write_bytes((place / "key.pem").read_bytes() + (place / "certificate.pem").read_bytes())
    return both


@pytest.fixture
def tls_port(broker: Daemon, certificate: Path) -> Iterator[int]:
    """What takes TLS from clients that have the certificate, and leads to the broker."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificate))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve_tls, args=(server, context, broker.port), daemon=True).start()
        yield server.getsockname()[1]


def _serve_tls(server: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with suppress(OSError):
        while True:
            accepted, _ = server.accept()
            with (
                suppress(OSError),
                context.wrap_socket(accepted, server_side=True) as near,
                socket.create_connection(("127.0.0.1", port)) as far,
            ):
                while request := near.recv(65536):
                    far.sendall(request)
                    near.sendall(far.recv(65536))


def test_tls(certificate: Path, tls_port: int) -> None:
    """With certificates, under Kafka's names for options; without them it is refused, and said why."""
    options = {
        "kafka.bootstrap.servers": f"127.0.0.1:{tls_port}",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.location": str(certificate),
        "kafka.ssl.keystore.location": str(certificate),
        "kafka.default.api.timeout.ms": "1000",
    }
    with KafkaClient(ClientSettings.from_options(options)) as client:
        assert client.cluster.any().address == f"127.0.0.1:{tls_port}"
    del options["kafka.ssl.truststore.location"]
    client = KafkaClient(ClientSettings.from_options(options))
    with client, pytest.raises(GaveUp, match="certificate"):
        client.topics()
    options["kafka.ssl.keystore.location"] = "/nowhere.pem"
    client = KafkaClient(ClientSettings.from_options(options))
    with client, pytest.raises(BadOption, match="nowhere"):
        client.topics()


def test_tls_of_a_broker(make_daemon: Callable[..., Daemon], certificate: Path) -> None:
    """A broker that listens with TLS is written to and read from."""
    pytest.importorskip("OpenSSL")
    files = f"privateKey={certificate}:certKey={certificate}"
    daemon = make_daemon(listen=f"kafka=ssl:0:interface=127.0.0.1:{files}").start()
    partition = TopicPartition("orders", 0)
    with connect(f"127.0.0.1:{daemon.port}", is_tls=True, ca_file=str(certificate)) as client:
        client.create_topic("orders", 1)
        write(client, partition, messages(1000), batch_records=300)
        found = as_messages(read_offsets(client, partition, 0, 1000, columns=COLUMNS))
    assert [evolve(each, offset=-1) for each in found] == messages(1000)
