"""
The Kafka protocol of a real broker, driven by librdkafka (confluent-kafka), beside librdkafka's own mock.

The mock is C, keeps nothing on disk and runs in the process of the client: it shows what the client can do.
Both take turns in one run, one partition each, acks=all, without compression, C{--sync=never}.  CPU is
that of the broker, in seconds for each gigabyte of values; memory is the most that it held.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
from common import Broker, Report, Row, arguments, broker, median_rows, percentile

SHAPES = ((100, 1_500_000), (1024, 400_000))
"""Bytes of a value, and how many of them."""

LATENCIES = 2_000
_PATIENCE_SECONDS = 60
_PORT = re.compile(rb"kafka on 127\.0\.0\.1:(\d+)")
_topics = iter(f"bench-{number}" for number in range(10**6))


def main(options: argparse.Namespace) -> None:
    report = Report(options.json)
    rounds, share = (1, 20) if options.quick else (options.rounds, 1)
    with broker("--sync=never", "--listen=kafka=tcp:0:interface=127.0.0.1") as running:
        found = _PORT.search(running.log())
        assert found is not None, running.log()
        server = f"127.0.0.1:{found[1].decode()}"
        report.table("produce and consume", _throughput(running, server, rounds, share))
        report.table("end to end, one message at a time", [_latency(server, LATENCIES // share)])
    report.end()


def _throughput(running: Broker, server: str, rounds: int, share: int) -> Iterator[Row]:
    for size, total in SHAPES:
        measured = [list(_turn(running, server, size, total // share)) for _ in range(rounds)]
        yield from median_rows(measured, "MB/s")


def _turn(running: Broker, server: str, size: int, total: int) -> Iterator[Row]:
    topic = next(_topics)
    yield measure(f"produce {size} B", running, size, total, lambda: produce_all(server, topic, size, total))
    yield measure(f"produce {size} B, mock", None, size, total, lambda: produce_all("", topic, size, total))
    yield measure(f"consume {size} B", running, size, total, lambda: consume_all(server, topic, total))


def measure(what: str, running: Broker | None, size: int, total: int, work: Any) -> Row:
    cpu = 0.0
    if running is not None:
        running.forget_peak()
        cpu = running.cpu_seconds()
    seconds = work()
    gigabytes = size * total / 1e9
    return {
        "": what,
        "msg/s": total / seconds,
        "MB/s": gigabytes * 1000 / seconds,
        "CPU s/GB": "-" if running is None else (running.cpu_seconds() - cpu) / gigabytes,
        "cores": "-" if running is None else (running.cpu_seconds() - cpu) / seconds,
        "peak MiB": "-" if running is None else running.peak_rss_mib(),
    }


def value_of(size: int) -> bytes:
    """A value of that size."""
    return bytes(range(256)) * (size // 256) + bytes(size % 256)


def produce_all(server: str, topic: str, size: int, total: int) -> float:
    """So many seconds; without a server, to the mock."""
    place = {"bootstrap.servers": server} if server else {"test.mock.num.brokers": 1}
    producer = confluent_kafka.Producer(
        {
            **place,
            "acks": -1,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
            "log_level": 0,
        }
    )
    value = value_of(size)
    producer.produce(topic, value, partition=0)
    producer.flush(_PATIENCE_SECONDS)
    started = time.perf_counter()
    for _ in range(total):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(_PATIENCE_SECONDS)
    if left:
        raise RuntimeError(f"{left} messages were not acknowledged")
    return time.perf_counter() - started


def _consumer(server: str, topic: str, offset: int) -> Any:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": server,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
            "queued.min.messages": 1_000_000,
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
    return consumer


def consume_all(server: str, topic: str, total: int) -> float:
    consumer = _consumer(server, topic, 0)
    started = time.perf_counter()
    found = 0
    while found < total:
        batch = consumer.consume(min(10_000, total - found), _PATIENCE_SECONDS)
        if not batch:
            raise RuntimeError(f"{total - found} messages did not come")
        found += len(batch)
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


def _latency(server: str, count: int) -> Row:
    """From the call of produce to the return of consume."""
    topic = next(_topics)
    producer = confluent_kafka.Producer({"bootstrap.servers": server, "linger.ms": 0, "log_level": 0})
    producer.produce(topic, b"first", partition=0)
    producer.flush(_PATIENCE_SECONDS)
    consumer = _consumer(server, topic, 0)
    consumer.consume(1, _PATIENCE_SECONDS)
    taken = []
    for _ in range(count):
        started = time.perf_counter()
        producer.produce(topic, b"x" * 100, partition=0)
        producer.poll(0)
        if not consumer.consume(1, _PATIENCE_SECONDS):
            raise RuntimeError("a message did not come")
        taken.append((time.perf_counter() - started) * 1000)
    consumer.close()
    return {
        "": "100 B",
        "mean ms": statistics.fmean(taken),
        "p50 ms": percentile(taken, 50),
        "p99 ms": percentile(taken, 99),
    }


def _extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured [3]")


if __name__ == "__main__":
    main(arguments(__doc__, _extend))
