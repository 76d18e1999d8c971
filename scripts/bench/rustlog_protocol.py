"""
The RustLog protocol of a real broker, driven over one bare socket.

Produces carry one record of 100 bytes each; so many of them are outstanding at any time, and they
take turns over so many partitions.  Fetches ask for 1 MiB.  The encodings are compared with produces of 100
records of 1 KiB, 16 of which are outstanding.  The client is Python, too, and needs a core of its own.  CPU
is that of the broker, in percent of one core.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import re
import struct
import time
from collections import deque

from common import (
    MIB,
    Broker,
    Connection,
    Report,
    Row,
    arguments,
    broker,
    expect_success,
    frame,
    median_rows,
    percentile,
)

OUTSTANDING = (1, 16, 128)
PARTITIONS = (1, 16, 128)
RECORD = list(bytes(range(100)))
"""Bytes of one and of two digits."""

FETCH_SHAPES = ((100, 100_000), (1024, 20_000))
"""Bytes of a record, and how many are fetched."""

ENCODINGS = ("json", "base64", "binary")

_NEXT_OFFSET = re.compile(rb'"next_offset":(\d+)\}\}$')


def main(options: argparse.Namespace) -> None:
    report = Report(options.json)
    seconds, rounds, share = (0.3, 1, 10) if options.quick else (options.seconds, options.rounds, 1)
    for sync in options.sync:
        title = f"produce, --sync={sync}, 1 record of 100 B per request"
        with broker(f"--sync={sync}") as running:
            report.table(title, _produces(running, seconds, rounds))
    with broker("--sync=never") as running:
        report.table("fetch, max_bytes=1 MiB", _fetches(running, rounds, share))
    with broker("--sync=never") as running:
        report.table("encodings, records of 1 KiB", _encodings(running, seconds, rounds, share))
    report.end()


# -- produce -----------------------------------------------------------------------


def _produces(running: Broker, seconds: float, rounds: int) -> list[Row]:
    with Connection(running.port) as connection:
        requests = [_requests(connection, partitions) for partitions in PARTITIONS]
        return median_rows(
            [
                [
                    _produce(running, connection, each, outstanding, seconds)
                    for each, outstanding in itertools.product(requests, OUTSTANDING)
                ]
                for _ in range(rounds)
            ],
            by="requests/s",
        )


def _requests(connection: Connection, partitions: int) -> list[bytes]:
    """One request for each partition of a new topic, which has been sent once: that opens the files."""
    topic = f"over-{partitions}"
    connection.create_topic(topic, partitions)
    requests = [
        frame("Produce", topic=topic, partition=each, records=[RECORD]) for each in range(partitions)
    ]
    for request in requests:
        connection.ask(request)
    return requests


def _produce(
    running: Broker, connection: Connection, requests: list[bytes], outstanding: int, seconds: float
) -> Row:
    cpu = running.cpu_seconds()
    started = time.perf_counter()
    waits = keep_outstanding(connection, requests, outstanding, seconds)
    elapsed = time.perf_counter() - started
    return {
        "outstanding": str(outstanding),
        "partitions": len(requests),
        "requests/s": len(waits) / elapsed,
        "p50 ms": percentile(waits, 50) * 1000,
        "p99 ms": percentile(waits, 99) * 1000,
        "CPU %": (running.cpu_seconds() - cpu) / elapsed * 100,
        "RSS MiB": running.rss_mib(),
    }


def keep_outstanding(
    connection: Connection, requests: list[bytes], outstanding: int, seconds: float
) -> list[float]:
    """Send one request for each answer that comes; how long each answer took."""
    upcoming = itertools.cycle(requests)
    sent: deque[float] = deque()
    waits: list[float] = []
    deadline = time.perf_counter() + seconds
    room = outstanding
    while room or sent:
        now = time.perf_counter()
        if now < deadline and room:
            connection.send(b"".join(itertools.islice(upcoming, room)))
            sent.extend([now] * room)
        if not sent:
            break
        answers = connection.answers()
        now = time.perf_counter()
        waits.extend(now - sent.popleft() for _ in answers)
        for answer in answers:
            expect_success(answer)
        room = len(answers)
    return waits


# -- fetch -------------------------------------------------------------------------


def _fetches(running: Broker, rounds: int, share: int) -> list[Row]:
    with Connection(running.port) as connection:
        shapes = [(record_bytes, count // share) for record_bytes, count in FETCH_SHAPES]
        for record_bytes, count in shapes:
            _fill(connection, record_bytes, count)
        return median_rows(
            [[_fetch(running, connection, *shape) for shape in shapes] for _ in range(rounds)],
            by="records/s",
        )


def _fill(connection: Connection, record_bytes: int, count: int) -> None:
    connection.create_topic(f"of-{record_bytes}", 1)
    record = list(itertools.islice(itertools.cycle(range(256)), record_bytes))
    request = frame("Produce", topic=f"of-{record_bytes}", partition=0, records=[record] * 100)
    for _ in range(count // 100):
        connection.ask(request)


def _fetch(running: Broker, connection: Connection, record_bytes: int, count: int) -> Row:
    topic = f"of-{record_bytes}"
    cpu = running.cpu_seconds()
    started = time.perf_counter()
    offset = answers = size = 0
    while offset < count:
        fetch = frame("Fetch", topic=topic, partition=0, offset=offset, max_bytes=MIB, group_id=None)
        answer = connection.ask(fetch)
        offset, before = _next_offset(answer), offset
        if offset <= before:
            raise RuntimeError(f"no records at offset {before}")
        answers += 1
        size += len(answer)
    elapsed = time.perf_counter() - started
    return {
        "record bytes": str(record_bytes),
        "records/s": offset / elapsed,
        "payload MB/s": offset * record_bytes / elapsed / 1e6,
        "JSON MB/s": size / elapsed / 1e6,
        "answers/s": answers / elapsed,
        "CPU %": (running.cpu_seconds() - cpu) / elapsed * 100,
        "RSS MiB": running.rss_mib(),
    }


def _next_offset(answer: bytes) -> int:
    found = _NEXT_OFFSET.search(answer[-64:])
    if found is None:
        raise RuntimeError(f"no answer to a Fetch: {answer[:200]!r}")
    return int(found[1])


# -- encodings ---------------------------------------------------------------------


def _encodings(running: Broker, seconds: float, rounds: int, share: int) -> list[Row]:
    with Connection(running.port) as connection:
        for encoding in ENCODINGS:
            connection.create_topic(encoding, 1)
        return median_rows(
            [
                [_encoding(running, connection, each, seconds, 20_000 // share) for each in ENCODINGS]
                for _ in range(rounds)
            ],
            by="fetch MB/s",
        )


def _encoding(running: Broker, connection: Connection, encoding: str, seconds: float, count: int) -> Row:
    record = bytes(itertools.islice(itertools.cycle(range(256)), 1024))
    request = _produce_request(encoding, [record] * 100)
    started, cpu = time.perf_counter(), running.cpu_seconds()
    produced = 100 * len(keep_outstanding(connection, [request], 16, seconds))
    produce_seconds, produce_cpu = time.perf_counter() - started, running.cpu_seconds() - cpu
    started, cpu = time.perf_counter(), running.cpu_seconds()
    offset = 0
    while offset < min(count, produced):
        answer = connection.ask(_fetch_request(encoding, offset))
        offset = int.from_bytes(answer[-8:], "big") if encoding == "binary" else _next_offset(answer)
    fetch_seconds, fetch_cpu = time.perf_counter() - started, running.cpu_seconds() - cpu
    return {
        "encoding": encoding,
        "bytes/record": len(request) / 100,
        "produce MB/s": produced * 1024 / produce_seconds / 1e6,
        "produce CPU us/record": produce_cpu / produced * 1e6,
        "fetch MB/s": offset * 1024 / fetch_seconds / 1e6,
        "fetch CPU us/record": fetch_cpu / offset * 1e6,
    }


def _produce_request(encoding: str, records: list[bytes]) -> bytes:
    if encoding == "binary":
        blobs = b"".join(struct.pack(">I", len(each)) + each for each in records)
        return _binary(b"\x01" + _text(encoding) + struct.pack(">II", 0, len(records)) + blobs)
    if encoding == "json":
        return frame("Produce", topic=encoding, partition=0, records=[list(each) for each in records])
    texts = [base64.b64encode(each).decode() for each in records]
    return frame("Produce", topic=encoding, partition=0, records=texts, encoding=encoding)


def _fetch_request(encoding: str, offset: int) -> bytes:
    if encoding == "binary":
        return _binary(b"\x02" + _text("") + _text(encoding) + struct.pack(">IQI", 0, offset, MIB))
    return frame("Fetch", topic=encoding, partition=0, offset=offset, max_bytes=MIB, encoding=encoding)


def _binary(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=1, help="of each produce measurement")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median is shown")
    parser.add_argument(
        "--sync", nargs="+", default=["always"], help="what --sync of the broker is to be, one after another"
    )


if __name__ == "__main__":
    main(arguments(__doc__, _options))
