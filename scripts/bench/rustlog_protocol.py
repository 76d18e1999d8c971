"""
The RustLog protocol of a real broker, driven over one bare socket.

Produces carry one record of 100 bytes each; so many of them are outstanding at any time, and they
take turns over so many partitions.  Fetches ask for 1 MiB.  The client is Python, too, and needs a core
of its own.  CPU is that of the broker, in percent of one core.
"""

from __future__ import annotations

import argparse
import itertools
import re
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
        found = _NEXT_OFFSET.search(answer[-64:])
        if found is None or int(found[1]) <= offset:
            raise RuntimeError(f"no records at offset {offset}")
        offset = int(found[1])
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


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=1, help="of each produce measurement")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median is shown")
    parser.add_argument(
        "--sync", nargs="+", default=["always"], help="what --sync of the broker is to be, one after another"
    )


if __name__ == "__main__":
    main(arguments(__doc__, _options))
