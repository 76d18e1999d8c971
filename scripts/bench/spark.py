#!/usr/bin/env python
"""
How fast Spark reads a log: from its files, through the broker, beside Parquet files of the same rows, and
beside a data source that yields tuples.

All in one session on all cores, to the sink C{noop}, which looks at every column and keeps none.  Each is
run once before it counts; then all in turn, several rounds; the median counts.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from common import MIB, Broker, Report, Row, arguments, median_rows, temporary_directory
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from rustlog.model import TopicPartition
from rustlog.spark import native
from rustlog.spark.columns import ddl_of
from rustlog.spark.encoding import encode
from rustlog.spark.kafka import KafkaClient
from rustlog.spark.session import open_session, parse_conf
from rustlog.spark.settings import ClientSettings

PARTITIONS = 4
BATCH_BYTES = 64 * 1024


def main(options: argparse.Namespace) -> None:
    report = Report(options.json)
    spark = open_session(options.master, parse_conf(options.conf))
    spark.dataSource.register(Tuples)
    report.table("the decoder", [{"decoder": "C" if native.load() is not None else "numpy"}])
    size = 16 * MIB if options.quick else options.megabytes * MIB
    for record_bytes in (100, 1024):
        with temporary_directory() as directory:
            broker = Broker(directory, "--sync=never", "--listen=kafka=tcp:0:interface=127.0.0.1")
            try:
                title = f"records of {record_bytes} B"
                report.table(title, measure(spark, directory, broker, record_bytes, size, options))
            finally:
                broker.stop()
    spark.stop()
    report.end()


def measure(
    spark: SparkSession,
    directory: Path,
    broker: Broker,
    record_bytes: int,
    size: int,
    options: argparse.Namespace,
) -> list[Row]:
    servers = f"127.0.0.1:{kafka_port(broker)}"
    count = size // record_bytes
    fill(servers, record_bytes, count)
    log = spark.read.format("rustlog").option("subscribe", "orders").option("minPartitions", 2 * PARTITIONS)
    from_disk = log.option("path", str(directory / "data")).load()
    log = spark.read.format("rustlog").option("subscribe", "orders").option("minPartitions", 2 * PARTITIONS)
    through_broker = log.option("kafka.bootstrap.servers", servers).load()
    parquet = str(directory / "parquet")
    from_disk.write.option("compression", "snappy").parquet(parquet)
    ways: dict[str, DataFrame] = {
        "rustlog, from disk": from_disk,
        "rustlog, through the broker": through_broker,
        "Parquet, snappy": spark.read.parquet(parquet),
    }
    if record_bytes == 100:
        ways["tuples"] = spark.read.format("tuples").option("path", str(directory / "data")).load()
    for rows in ways.values():
        run(rows)
    rounds = 1 if options.quick else options.rounds
    found = [
        [row(name, run(rows), count, record_bytes) for name, rows in ways.items()] for _ in range(rounds)
    ]
    medians = median_rows(found, "seconds")
    reference = next(each for each in medians if each["source"].startswith("Parquet"))
    for each in medians:
        each["of Parquet"] = reference["seconds"] / each["seconds"]
    return medians


def row(name: str, seconds: float, count: int, record_bytes: int) -> Row:
    return {
        "source": name,
        "seconds": seconds,
        "M rows/s": count / seconds / 1e6,
        "MB/s": count * record_bytes / seconds / 1e6,
    }


def run(rows: DataFrame) -> float:
    start = time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def kafka_port(broker: Broker) -> int:
    return int(broker.log().split(b"kafka on 127.0.0.1:")[1].split()[0].rstrip(b","))


def fill(servers: str, record_bytes: int, count: int) -> None:
    """Write records as producers under load do: in batches of 64 KiB."""
    now_ms = int(time.time() * 1000)  # Older ones would be deleted: retention is at work.
    host, port = servers.split(":")
    step = 64 * 1024 * 1024 // record_bytes // PARTITIONS
    with KafkaClient(ClientSettings(bootstrap=((host, int(port)),))) as client:
        client.create_topic("orders", PARTITIONS, config={"segment.bytes": str(64 * MIB)})
        for number, start in enumerate(range(0, count, step)):
            rows = random_rows(record_bytes, min(step, count - start))
            for batch in encode(rows, now_ms=now_ms, batch_bytes=BATCH_BYTES):
                client.produce(TopicPartition("orders", number % PARTITIONS), batch.data)


def random_rows(record_bytes: int, count: int) -> pa.RecordBatch:
    """Values that can not be compressed, so that nobody is helped by that."""
    data = pa.py_buffer(os.urandom(record_bytes * count))
    values = pa.FixedSizeBinaryArray.from_buffers(pa.binary(record_bytes), count, [None, data])
    return pa.RecordBatch.from_pydict({"value": values.cast(pa.binary())})


class Tuples(DataSource):
    """The plain way to write a source: the broker's own decoder, and a tuple for each record."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> str:
        return ddl_of()

    def reader(self, schema: Any) -> DataSourceReader:
        return TupleReader(self.options["path"])


class TupleReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        from rustlog.spark.files import DataDirectory

        directory = DataDirectory(self._path)
        topic = directory.topic("orders")
        ranges = (directory.ranges(topic, index) for index in range(topic.partitions))
        return [InputPartition(each) for some in ranges for each in some]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        from datetime import UTC, datetime

        from rustlog.log import records
        from rustlog.spark.ranges import raw_batches

        wanted = partition.value
        for batch in raw_batches(wanted):
            for each in records.decode(batch):
                at = datetime.fromtimestamp(each.timestamp / 1000, UTC)
                yield (each.key, each.value, wanted.topic, wanted.partition, each.offset, at, 0)


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--megabytes", type=int, default=512, help="of records, for each size (512)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (5)")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="of Spark")
    parser.add_argument("--master", default="local[*]", help="as spark-submit has it (local[*])")


if __name__ == "__main__":
    main(arguments(__doc__, extend))
