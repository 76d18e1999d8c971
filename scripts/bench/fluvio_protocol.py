"""
The Fluvio protocol of a real broker, driven by the fluvio package, beside the Kafka protocol of the same
broker, driven by librdkafka (confluent-kafka).

Both write to and read from one partition each, in turns, without compression, C{--sync=never}.  Fluvio's
producer makes batches of 16 kB unless it is told otherwise, so it is measured with those and with batches
of 1 MB, which are about what librdkafka makes.  CPU is that of the broker, in seconds for each gigabyte of
values; memory is the most that it held.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from common import Broker, Report, Row, arguments, broker, median_rows, percentile
from fluvio import Fluvio, FluvioAdmin, FluvioConfig, Offset, TopicProducerConfigBuilder
from kafka import consume_all, measure, produce_all, value_of

SHAPES = ((100, 400_000), (1024, 160_000))
"""Bytes of a value, and how many of them."""

BATCHES = ((16_384, 1_048_576), (1_000_000, 8_000_000))
"""Bytes of a batch and of a request: what the package does by itself, and what librdkafka does."""

LATENCIES = 1_000
_AT_ONCE = 1_000
_PORTS = re.compile(rb"(fluvio|kafka) on 127\.0\.0\.1:(\d+)")
_topics = iter(f"bench-{number}" for number in range(10**6))


def main(options: argparse.Namespace) -> None:
    report = Report(options.json)
    rounds, share = (1, 20) if options.quick else (options.rounds, 1)
    listen = [f"--listen={each}=tcp:0:interface=127.0.0.1" for each in ("kafka", "fluvio")]
    with broker("--sync=never", *listen) as running:
        ports = dict(_PORTS.findall(running.log()))
        kafka, fluvio = (f"127.0.0.1:{ports[each].decode()}" for each in (b"kafka", b"fluvio"))
        user = User(fluvio)
        report.table("produce and consume", _throughput(running, kafka, user, rounds, share))
        report.table("end to end, one message at a time", [user.latency(LATENCIES // share)])
    report.end()


def _throughput(running: Broker, kafka: str, user: User, rounds: int, share: int) -> Iterator[Row]:
    for size, total in SHAPES:
        measured = [list(_turn(running, kafka, user, size, total // share)) for _ in range(rounds)]
        yield from median_rows(measured, "MB/s")


def _turn(running: Broker, kafka: str, user: User, size: int, total: int) -> Iterator[Row]:
    place = running, size, total
    for batch, request in BATCHES:
        topic = user.create()
        how = f"{size} B, batches of {batch // 1000} kB"
        produce = partial(user.produce, topic, size, total, batch, request)
        yield measure(f"produce {how}", *place, produce)
        yield measure(f"consume {how}", *place, partial(user.consume, topic, total))
    topic = next(_topics)
    yield measure(f"produce {size} B, kafka", *place, partial(produce_all, kafka, topic, size, total))
    yield measure(f"consume {size} B, kafka", *place, partial(consume_all, kafka, topic, total))


class User:
    """A program that uses the package."""

    def __init__(self, endpoint: str) -> None:
        config = FluvioConfig.new(endpoint)
        self._admin = FluvioAdmin.connect_with_config(config)
        self._fluvio = Fluvio.connect_with_config(config)

    def create(self) -> str:
        """A new topic."""
        topic = next(_topics)
        self._admin.create_topic(topic)
        return topic

    def produce(self, topic: str, size: int, total: int, batch: int, request: int) -> float:
        """So many seconds."""
        builder = TopicProducerConfigBuilder()
        builder.batch_size(batch)
        builder.max_request_size(request)
        producer = self._fluvio.topic_producer_with_config(topic, builder.build())
        records = [(b"", value_of(size))] * _AT_ONCE
        started = time.perf_counter()
        sent: list[Any] = []
        for _ in range(total // _AT_ONCE):
            sent = producer.send_all(records)
        producer.flush()
        last = sent[-1].wait().offset()
        if last != total - 1:
            raise RuntimeError(f"the last of {total} messages is at offset {last}")
        return time.perf_counter() - started

    def consume(self, topic: str, total: int) -> float:
        """So many seconds."""
        started = time.perf_counter()
        consumer = self._fluvio.partition_consumer(topic, 0)
        found = sum(1 for _ in islice(consumer.stream(Offset.beginning()), total))
        if found != total:
            raise RuntimeError(f"{total - found} messages did not come")
        return time.perf_counter() - started

    def latency(self, count: int) -> Row:
        """From the call of send to the return of the consumer."""
        topic = self.create()
        builder = TopicProducerConfigBuilder()
        builder.linger(0)
        producer = self._fluvio.topic_producer_with_config(topic, builder.build())
        producer.send(b"", b"first")
        producer.flush()
        stream = self._fluvio.partition_consumer(topic, 0).stream(Offset.beginning())
        next(stream)
        taken = []
        for _ in range(count):
            started = time.perf_counter()
            producer.send(b"", b"x" * 100)
            producer.flush()
            next(stream)
            taken.append((time.perf_counter() - started) * 1000)
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
