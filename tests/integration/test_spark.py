"""C{format("rustlog")} in a real Spark, with a real broker."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rustlog.client import blocking
from rustlog.client.partitioning import partition_for
from rustlog.model import Record, TopicPartition
from rustlog.spark.kafka import KafkaClient
from rustlog.spark.settings import ClientSettings
from tests.integration.daemon import PATIENCE_SECONDS, ROOT, Daemon, every_now_and_then
from tests.integration.fluvio_user import fluvio_user
from tests.integration.kafka_clients import Confluent, Message
from tests.integration.test_minikafka import MiniClient

LISTEN = ("rustlog", "kafka", "minikafka", "fluvio")
TIME_MS = 1_746_090_000_000


class Broker:
    """A broker with all its protocols, and a Spark that knows it."""

    def __init__(self, daemon: Daemon, spark: SparkSession) -> None:
        self.daemon = daemon
        self.spark = spark
        self.ports = dict(zip(LISTEN, daemon.ports, strict=True))
        self.servers = f"127.0.0.1:{self.ports['kafka']}"
        self.path = str(daemon.directory / "data")

    @property
    def client(self) -> KafkaClient:
        return KafkaClient(ClientSettings(bootstrap=(("127.0.0.1", self.ports["kafka"]),)))

    def create(self, topic: str, partitions: int = 1) -> None:
        with self.client as client:
            client.create_topic(topic, partitions)

    def produce(self, topic: str, values: list[str], partition: int = 0) -> None:
        messages = [Message(each.encode()) for each in values]
        Confluent(self.servers).produce(topic, messages, partition=partition)

    def read(self, topic: str, schema: str | None = None, **options: Any) -> DataFrame:
        reader = self.spark.read.format("rustlog").option("subscribe", topic)
        if "path" not in options or options.pop("with_broker", False):
            reader = reader.option("kafka.bootstrap.servers", self.servers)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.options(**options).load()

    def values(self, topic: str, **options: Any) -> list[str]:
        rows = self.read(topic, "value binary, partition int, offset long", **options)
        found = rows.orderBy("partition", "offset").collect()
        return [bytes(each.value).decode() for each in found]

    def stream(self, topic: str, **options: Any) -> DataFrame:
        reader = self.spark.readStream.format("rustlog").option("kafka.bootstrap.servers", self.servers)
        return reader.option("subscribe", topic).options(**{"startingOffsets": "earliest", **options}).load()

    def write(self, rows: DataFrame, **options: Any) -> None:
        writer = rows.write.format("rustlog").option("kafka.bootstrap.servers", self.servers)
        writer.options(**options).mode("append").save()

    def copy(self, rows: DataFrame, topic: str, checkpoint: Path, **options: Any) -> list[Any]:
        """Run a stream into a topic until it has all there is; its progress."""
        writer = rows.writeStream.format("rustlog").option("kafka.bootstrap.servers", self.servers)
        query = (
            writer.option("topic", topic).option("checkpointLocation", str(checkpoint)).options(**options)
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        return [each for each in query.recentProgress if each.numInputRows]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Broker]:
    """One for all tests here; each has topics of its own."""
    listen = "tcp:0:interface=127.0.0.1"
    more = [f"--listen={each}={listen}" for each in LISTEN[1:]]
    directory = tmp_path_factory.mktemp("broker")
    options = ("--sync=never", "--set=retention.ms=-1", *more)
    with Daemon(directory, *options, listen=f"rustlog={listen}") as daemon:
        yield Broker(daemon, spark)


# -- reading -------------------------------------------------------------------------


def produce_over_kafka(broker: Broker, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.servers})
    for record in RECORDS:
        headers = list(record.headers)
        producer.produce(topic, record.value, record.key, headers=headers, timestamp=record.timestamp)
    assert producer.flush(PATIENCE_SECONDS) == 0


def produce_over_rustlog(broker: Broker, topic: str) -> None:
    with blocking.connect(f"127.0.0.1:{broker.ports['rustlog']}") as client:
        client.produce(topic, RECORDS)


def produce_over_minikafka(broker: Broker, topic: str) -> None:
    client = MiniClient(broker.ports["minikafka"])
    for record in RECORDS:
        client.produce(topic, (record.key or b"").decode(), record.value or b"")
    client.close()


def produce_over_fluvio(broker: Broker, topic: str) -> None:
    with fluvio_user(f"127.0.0.1:{broker.ports['fluvio']}") as user:
        user.produce(topic, [(each.key or b"", each.value or b"") for each in RECORDS])


RECORDS = [
    Record(b"one", b"a", (("kind", b"tea"), ("none", None)), TIME_MS),
    Record(b"two", None, (), TIME_MS + 1),
    Record(b"\xff\x00", b"", (), TIME_MS - 1),
]

PROTOCOLS = {
    "kafka": produce_over_kafka,
    "rustlog": produce_over_rustlog,
    "minikafka": produce_over_minikafka,
    "fluvio": produce_over_fluvio,
}
"""How records get in; a protocol that is added to the broker is added here."""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_protocols(broker: Broker, protocol: str) -> None:
    """What came in over any protocol comes out with all that the protocol has: keys, headers, times."""
    topic = f"from-{protocol}"
    broker.create(topic)
    before_ms = time.time() * 1000 - 1
    PROTOCOLS[protocol](broker, topic)
    rows = broker.read(topic, includeHeaders="true").orderBy("offset").collect()
    assert [bytes(each.value) for each in rows] == [each.value for each in RECORDS]
    assert [each.offset for each in rows] == [0, 1, 2]
    assert {(each.topic, each.partition, each.timestampType) for each in rows} == {(topic, 0, 0)}
    keys = [None if each.key is None else bytes(each.key) for each in rows]
    times = [each.timestamp.replace(tzinfo=UTC).timestamp() * 1000 for each in rows]
    headers = [
        each.headers and [(one.key, one.value and bytes(one.value)) for one in each.headers] for each in rows
    ]
    if protocol in ("minikafka", "fluvio"):
        # They have no headers, times are those of the moment, and whoever has no key says that it is empty.
        assert keys == [b"a", b"", b""]
        assert all(before_ms <= each <= time.time() * 1000 for each in times)
        assert headers == [None] * 3
    else:
        assert keys == [b"a", None, b""]
        assert times == [each.timestamp for each in RECORDS]
        assert headers == [[("kind", b"tea"), ("none", None)], None, None]


def test_parts_of_a_topic(broker: Broker) -> None:
    """From where to where is read is said by offset or time, for all partitions or each."""
    broker.create("parts", 2)
    for partition in range(2):
        messages = [Record(b"%d" % number, timestamp=TIME_MS + number) for number in range(20)]
        with blocking.connect(f"127.0.0.1:{broker.ports['rustlog']}") as client:
            client.produce("parts", messages, partition)
    assert broker.values("parts") == [str(each) for each in range(20)] * 2
    offsets = {
        "startingOffsets": '{"parts":{"0":18,"1":-2}}',
        "endingOffsets": '{"parts":{"0":-1,"1":1}}',
    }
    assert broker.values("parts", **offsets) == ["18", "19", "0"]
    times = {"startingTimestamp": TIME_MS + 18, "endingTimestamp": TIME_MS + 19}
    assert broker.values("parts", **times) == ["18", "18"]
    by_time = {"parts": {"0": TIME_MS + 19, "1": TIME_MS + 50}}
    lenient = {"startingOffsetsByTimestampStrategy": "latest"}
    assert broker.values("parts", startingOffsetsByTimestamp=json.dumps(by_time), **lenient) == ["19"]
    rows = broker.read("parts", "offset long", minPartitions=7)
    assert rows.rdd.getNumPartitions() >= 7
    assert sorted(each.offset for each in rows.collect()) == sorted(2 * list(range(20)))


def test_pruned_and_filtered(broker: Broker) -> None:
    """Columns that are not named are not read, and filters reach the source when Spark lets them."""
    broker.create("filtered", 3)
    for partition in range(3):
        broker.produce("filtered", [f"{partition}-{number}" for number in range(10)], partition)
    rows = broker.read("filtered", "offset long, value binary", pushFilters="true")
    assert rows.columns == ["offset", "value"]
    assert rows.where("offset >= 8").count() == 6
    narrow = broker.read("filtered", pushFilters="true").where("partition = 1 and offset between 3 and 5")
    assert [bytes(each.value) for each in narrow.collect()] == [b"1-3", b"1-4", b"1-5"]
    assert narrow.rdd.getNumPartitions() == 1
    since = datetime.now(UTC).isoformat()
    assert broker.read("filtered", pushFilters="true").where(f"timestamp >= '{since}'").count() == 0


@pytest.mark.parametrize("storage", ["segments", "minikafka"])
def test_directory(tmp_path: Path, spark: SparkSession, storage: str) -> None:
    """Sealed segments are read from the directory, the rest from the broker, or from there if it is dead."""
    options = (f"--storage={storage}", "--sync=never", "--set=segment.bytes=20000")
    more = [f"--listen={each}=tcp:0:interface=127.0.0.1" for each in LISTEN[1:]]
    with Daemon(tmp_path, *options, *more, listen="rustlog=tcp:0:interface=127.0.0.1") as daemon:
        broker = Broker(daemon, spark)
        broker.create("stored", 2)
        values = [f"{number:05} " + "x" * (number % 50) for number in range(3000)]
        for start in range(0, 3000, 100):
            broker.produce("stored", values[start : start + 100], start // 100 % 2)
        expected = sorted(values)
        both = broker.read("stored", path=broker.path, with_broker=True, minPartitions=4)
        assert sorted(bytes(each.value).decode() for each in both.collect()) == expected
        assert both.rdd.getNumPartitions() >= 4
        part = {
            "startingOffsets": '{"stored":{"0":110,"1":1400}}',
            "endingOffsets": '{"stored":{"0":130,"1":-1}}',
        }
        through_broker = broker.values("stored", **part)
        assert len(through_broker) == 120
        assert broker.values("stored", path=broker.path, with_broker=True, **part) == through_broker
        assert sorted(broker.values("stored", path=broker.path)) == expected
        (last,) = broker.read("stored", path=broker.path).where("offset = 1499 and partition = 1").collect()
        since = {
            "startingTimestamp": int(last.timestamp.replace(tzinfo=UTC).timestamp() * 1000),
            "startingOffsetsByTimestampStrategy": "latest",
        }
        assert values[-1] in broker.values("stored", path=broker.path, **since)
        daemon.kill()
        assert sorted(broker.values("stored", path=broker.path)) == expected


def test_wrong_options(broker: Broker) -> None:
    """What is wrong is said on the driver, in one sentence, before anything runs."""
    for options, words in (
        ({"subscrbe": "a"}, "option subscrbe: there is no such option; did you mean subscribe?"),
        ({"startingOffsets": "sometimes"}, "option startingOffsets: expected earliest"),
        ({"kafka.auto.offset.reset": "earliest"}, "say startingOffsets instead"),
    ):
        with pytest.raises(AnalysisException, match=words.replace("?", r"\?")):
            broker.read("orders", **options).collect()
    with pytest.raises(AnalysisException, match="there is no topic from-kafak; did you mean from-kafka"):
        broker.read("from-kafak").collect()
    with pytest.raises(AnalysisException, match="there is no column ofset; did you mean offset"):
        broker.read("orders", "ofset long").collect()
    with pytest.raises(AnalysisException, match="the column value is binary, not string; cast it"):
        broker.read("orders", "value string").collect()
    with pytest.raises(AnalysisException, match="the column has to be string or binary, not int64"):
        broker.write(broker.spark.range(3).withColumnRenamed("id", "value"), topic="orders")


# -- streams -------------------------------------------------------------------------


def test_stream_survives_restarts(broker: Broker, tmp_path: Path) -> None:
    """A stream goes on where it was, in steps, with new partitions, and tells a group how far it is."""
    broker.create("steps", 2)
    broker.create("steps-out", 1)
    broker.produce("steps", [f"a{each}" for each in range(30)], 0)
    broker.produce("steps", [f"b{each}" for each in range(10)], 1)
    options = {"maxOffsetsPerTrigger": 16, "groupId": "steppers"}

    def run() -> list[Any]:
        rows = broker.stream("steps", **options).select("value")
        return broker.copy(rows, "steps-out", tmp_path / "checkpoint")

    progress = run()
    assert [each.numInputRows for each in progress] == [16, 16, 8]
    assert json.loads(progress[-1].sources[0].endOffset) == {"steps": {"0": 30, "1": 10}}
    assert json.loads(progress[0].sources[0].latestOffset) == {"steps": {"0": 30, "1": 10}}
    assert run() == []
    grow(broker, "steps", 3)
    broker.produce("steps", ["c0", "c1"], 2)
    broker.produce("steps", ["a30"], 0)
    assert sum(each.numInputRows for each in run()) == 3
    expected = [f"a{each}" for each in range(31)] + [f"b{each}" for each in range(10)] + ["c0", "c1"]
    assert sorted(broker.values("steps-out")) == sorted(expected)
    with broker.client as client:
        committed = client.committed_offsets("steppers")
    assert {each: found.offset for each, found in committed.items()} == {
        TopicPartition("steps", 0): 31, TopicPartition("steps", 1): 10, TopicPartition("steps", 2): 2,
    }  # fmt: skip


def grow(broker: Broker, topic: str, partitions: int) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.servers})
    new = confluent_kafka.admin.NewPartitions(topic, partitions)
    admin.create_partitions([new])[topic].result(PATIENCE_SECONDS)


@pytest.mark.parametrize("fails", [True, False])
def test_deleted_records(broker: Broker, tmp_path: Path, fails: bool) -> None:
    """Records that were deleted before they were read stop a stream, or are passed over, as it was told."""
    topic, out = f"lossy-{fails}", f"lossy-{fails}-out"
    broker.create(topic)
    broker.create(out)
    broker.produce(topic, [str(each) for each in range(10)])

    def run() -> None:
        rows = broker.stream(topic, failOnDataLoss=str(fails), maxOffsetsPerTrigger=5).select("value")
        broker.copy(rows, out, tmp_path / "checkpoint")

    run()
    broker.produce(topic, [str(each) for each in range(10, 20)])
    with broker.client as client:
        client.delete_records({TopicPartition(topic, 0): 13})
    if fails:
        with pytest.raises(StreamingQueryException, match=r"offset 10 of lossy-True-0 can not be read"):
            run()
        assert len(broker.values(out)) == 10
    else:
        run()
        expected = [str(each) for each in range(20) if not 10 <= each < 13]
        assert broker.values(out) == expected


def test_stream_while_records_come(broker: Broker, tmp_path: Path) -> None:
    """A stream that does not end gets what comes, from a pattern of topics."""
    broker.create("live-a")
    rows = (
        broker.spark.readStream.format("rustlog").option("kafka.bootstrap.servers", broker.servers)
        .option("subscribePattern", "live-.").option("startingOffsets", "earliest").load()
    )  # fmt: skip
    writer = rows.writeStream.format("memory").queryName("live")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        broker.produce("live-a", ["1", "2"])
        broker.create("live-b")
        broker.produce("live-b", ["3"])
        for _ in every_now_and_then("three rows have come"):
            if broker.spark.table("live").count() == 3:
                break
        assert {each.topic for each in broker.spark.table("live").collect()} == {"live-a", "live-b"}
    finally:
        query.stop()


# -- writing -------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_written_rows_are_read_by_kafka_clients(broker: Broker, compression: str) -> None:
    """Keys, values and headers arrive as they are, where Kafka's clients look for them."""
    topic = f"written-{compression}"
    broker.create(topic, 3)
    rows = broker.spark.range(300).select(
        f.when(f.col("id") % 3 > 0, f.concat(f.lit("k"), "id")).alias("key"),
        f.when(f.col("id") != 7, f.concat(f.lit("v"), "id")).cast("binary").alias("value"),
        f.when(f.col("id") == 299, f.lit(1)).cast("int").alias("partition"),
        f.expr("array(struct('h' as key, cast(cast(id as string) as binary) as value))").alias("headers"),
    )
    broker.write(rows, topic=topic, compression=compression)
    user, found = Confluent(broker.servers), {}
    with broker.client as client:
        ends = client.list_offsets({TopicPartition(topic, each): -1 for each in range(3)})
    for each, end in ends.items():
        for message in user.consume(topic, end.offset, partition=each.partition):
            (header,) = message.headers
            found[int(header[1] or b"")] = (message.key, message.value, each.partition)
    assert set(found) == set(range(300))
    for number, (key, value, partition) in found.items():
        assert key == (b"k%d" % number if number % 3 else None)
        assert value == (b"v%d" % number if number != 7 else None)
        if number == 299:
            assert partition == 1
        elif key is not None:
            assert partition == partition_for(key, 3)


def test_topics_by_row(broker: Broker) -> None:
    """Each row can say its topic; topics are made by writing to them, where the broker does that."""
    rows = broker.spark.createDataFrame(
        [("red", "1", datetime(2025, 1, 1, tzinfo=UTC)), ("blue", "2", datetime(2025, 1, 2, tzinfo=UTC))],
        "topic string, value string, timestamp timestamp",
    )
    broker.write(rows, includeTimestamp="true")
    assert broker.values("red") == ["1"]
    (found,) = broker.read("blue").collect()
    assert found.timestamp.replace(tzinfo=UTC) == datetime(2025, 1, 2, tzinfo=UTC)
    with pytest.raises(PySparkException, match="column topic is null"):
        broker.write(rows.withColumn("topic", f.lit(None).cast("string")))


def test_at_least_once(broker: Broker, tmp_path: Path) -> None:
    """Rows can go straight to the broker, without staging."""
    broker.create("fast-in")
    broker.create("fast-out")
    broker.produce("fast-in", ["a", "b"])
    broker.copy(broker.stream("fast-in"), "fast-out", tmp_path / "checkpoint", delivery="at-least-once")
    assert broker.values("fast-out") == ["a", "b"]
    assert not (tmp_path / "checkpoint" / "rustlog-staging").exists()


def test_for_each_batch(broker: Broker, tmp_path: Path) -> None:
    """Batches that a program writes itself are written once each, too, if they have names."""
    broker.create("named")

    def write(batch: int, value: str) -> None:
        rows = broker.spark.createDataFrame([(value,)], "value string")
        named = {"applicationId": "me", "batchId": batch, "stagingLocation": str(tmp_path)}
        broker.write(rows, topic="named", **named)

    for batch, value in ((0, "a"), (1, "b"), (1, "b again"), (0, "a again"), (2, "c")):
        write(batch, value)
    assert broker.values("named") == ["a", "b", "c"]


def test_failed_task_writes_nothing(broker: Broker, tmp_path: Path) -> None:
    """With a staging directory, a job of which a task fails leaves no row behind."""
    broker.create("whole")
    rows = broker.spark.range(4).repartition(2).select(
        f.when(f.col("id") < 3, f.lit("x")).otherwise(f.raise_error(f.lit("no"))).alias("value")
    )  # fmt: skip
    with pytest.raises(PySparkException):
        broker.write(rows, topic="whole", stagingLocation=str(tmp_path))
    assert broker.values("whole") == []
    good = broker.spark.range(2).select(f.lit("y").alias("value"))
    broker.write(good, topic="whole", stagingLocation=str(tmp_path))
    assert broker.values("whole") == ["y", "y"]


def test_new_checkpoint_with_the_same_application(broker: Broker, tmp_path: Path) -> None:
    """An application id with another checkpoint is an error: its batches would be taken for others."""
    broker.create("twice-in")
    broker.create("twice")
    broker.produce("twice-in", ["a"])
    named = {"applicationId": "app", "stagingLocation": str(tmp_path / "staging")}
    broker.copy(broker.stream("twice-in"), "twice", tmp_path / "one", **named)
    with pytest.raises(StreamingQueryException, match="Give it another applicationId"):
        broker.copy(broker.stream("twice-in"), "twice", tmp_path / "two", **named)
    assert broker.values("twice") == ["a"]


# -- the example ---------------------------------------------------------------------


def test_example(
    make_daemon: Callable[..., Daemon],
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The example runs, and a client of Kafka reads what it has written."""
    daemon = make_daemon(listen="kafka=tcp:0:interface=127.0.0.1").start()
    script = ROOT / "docs" / "examples" / "spark" / "orders.py"
    spec = importlib.util.spec_from_file_location("orders", script)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    servers = f"127.0.0.1:{daemon.port}"
    example.main(spark, servers, str(tmp_path / "checkpoint"))
    said = capsys.readouterr().out
    assert "in the morning: 3 orders" in said
    assert "since then: 2 orders" in said
    found = Confluent(servers).consume("sales", 2)
    assert {each.key: json.loads(each.value or b"") for each in found} == {
        b"09:00": {"sold": 7, "orders": 2}, b"09:10": {"sold": 8, "orders": 2},
    }  # fmt: skip
