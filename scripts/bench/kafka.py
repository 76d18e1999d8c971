"""
The Kafka protocol of a real broker, driven by librdkafka (confluent-kafka), beside librdkafka's own mock.

The mock is C, keeps nothing on disk and runs in the process of the client: it shows what the client can do.
Both take turns in one run, one partition each, acks=all, without compression, C{--sync=never}.  CPU is
that of the broker, in seconds for each gigabyte of values; memory is the most that it held.

Fetching is measured with a bare socket, too, that throws away what it gets: from the broker, and from a
process that does nothing but C{sendfile} of as many bytes of the same file for each request.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import socket
import statistics
import struct
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import confluent_kafka
from common import MIB, Broker, Report, Row, arguments, broker, median_rows, percentile, warm_memory

from rustlog.wire.kafka.fetch import FetchRequest, PartitionWant, TopicWant, encode_request

SHAPES = ((100, 1_500_000), (1024, 400_000))
"""Bytes of a value, and how many of them."""

LATENCIES = 2_000
FETCHES = 4_000
_OUTSTANDING = 4
_FETCH_VERSION = 4
_REQUEST_HEAD = struct.Struct(">hhih")
_LENGTH = struct.Struct(">I")
_PATIENCE_SECONDS = 60
_PORT = re.compile(rb"kafka on 127\.0\.0\.1:(\d+)")
_topics = iter(f"bench-{number}" for number in range(10**6))


def main(options: argparse.Namespace) -> None:
    report = Report(options.json)
    rounds, share = (1, 20) if options.quick else (options.rounds, 1)
    warm_memory(sum(size * total for size, total in SHAPES) * rounds / share / 1e9)
    with broker("--sync=never", "--listen=kafka=tcp:0:interface=127.0.0.1") as running:
        found = _PORT.search(running.log())
        assert found is not None, running.log()
        server = f"127.0.0.1:{found[1].decode()}"
        report.table("produce and consume", _throughput(running, server, rounds, share))
        report.table("fetch 1 MiB at a time", _fetching(running, server, rounds, FETCHES // share))
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


# -- what sendfile allows ------------------------------------------------------------


def _fetching(running: Broker, server: str, rounds: int, count: int) -> Iterator[Row]:
    topic = next(_topics)
    produce_all(server, topic, 1024, 2 * MIB // 1024)
    host, port = server.rsplit(":", 1)
    request = _fetch_request(topic)
    file = running.directory / "data" / "logs" / topic / "0" / "0.log"
    with _sendfile_server(file) as bare:
        measured = [
            [
                _fetch_row("the broker", running, (host, int(port)), request, count),
                _fetch_row("sendfile alone", None, bare, request, count),
            ]
            for _ in range(rounds)
        ]
    yield from median_rows(measured, "MB/s")


def _fetch_row(what: str, running: Broker | None, address: Any, request: bytes, count: int) -> Row:
    cpu = 0.0 if running is None else running.cpu_seconds()
    started = time.perf_counter()
    received = _fetch(address, request, count)
    seconds = time.perf_counter() - started
    return {
        "": what,
        "fetches/s": count / seconds,
        "MB/s": received / seconds / 1e6,
        "CPU s/GB": "-" if running is None else (running.cpu_seconds() - cpu) / (received / 1e9),
    }


def _fetch_request(topic: str) -> bytes:
    wants = [TopicWant(topic, None, [PartitionWant(0, 0, MIB)])]
    head = _REQUEST_HEAD.pack(1, _FETCH_VERSION, 1, 0)
    body = encode_request(_FETCH_VERSION, FetchRequest(500, 1, 2 * MIB, 0, wants), head)
    return _LENGTH.pack(len(body)) + body


def _fetch(address: tuple[str, int], request: bytes, count: int) -> int:
    """Ask so often, a few times ahead; how many bytes came."""
    sink = bytearray(MIB)
    received = 0
    with socket.create_connection(address) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(request * _OUTSTANDING)
        for number in range(count):
            (left,) = _LENGTH.unpack(client.recv(_LENGTH.size, socket.MSG_WAITALL))
            received += left
            while left:
                size = client.recv_into(sink, left)
                if not size:
                    raise RuntimeError("the connection was closed")
                left -= size
            if number < count - _OUTSTANDING:
                client.sendall(request)
    return received


class _sendfile_server:  # noqa: N801, used as a function
    """A process that answers every request, whatever it says, with the first mebibyte of a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> tuple[str, int]:
        ours, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_serve, args=(self._file, theirs), daemon=True)
        self._process.start()
        address: tuple[str, int] = ours.recv()
        return address

    def __exit__(self, *reason: object) -> None:
        self._process.terminate()
        self._process.join()


def _serve(file: Path, told: Connection) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, file.open("rb") as source:
        told.send(server.getsockname())
        while True:
            client, _ = server.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with client:
                while _answer(client, source.fileno()):
                    pass


def _answer(client: socket.socket, file: int) -> bool:
    prefix = client.recv(_LENGTH.size, socket.MSG_WAITALL)
    if not prefix:
        return False
    client.recv(_LENGTH.unpack(prefix)[0], socket.MSG_WAITALL)
    client.sendall(_LENGTH.pack(MIB))
    sent = 0
    while sent < MIB:
        sent += os.sendfile(client.fileno(), file, sent, MIB - sent)
    return True


def _extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured [3]")


if __name__ == "__main__":
    main(arguments(__doc__, _extend))
