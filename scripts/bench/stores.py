"""
Appending to and reading from the stores themselves: no sockets, no JSON.

The files are real ones, and so are the threads that sync them.  Batches are built beforehand.  Stores
that answer at once are asked one by one; under sync=always, also with 128 appends outstanding, which
share their syncs.  Reads take up to 1 MiB at a time, of what was just written: it is in the page cache.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from attrs import frozen
from common import MIB, Report, Row, arguments, median_rows, temporary_directory
from twisted.internet.defer import Deferred, gatherResults, inlineCallbacks
from twisted.internet.task import deferLater, react

from rustlog.environment.real import real_environment
from rustlog.log.batch import RecordBatch
from rustlog.log.records import build
from rustlog.model import Isolation, Record, SyncPolicy
from rustlog.results import deferred
from rustlog.storage.memory import MemorySettings
from rustlog.storage.memory import open_store as open_memory
from rustlog.storage.segments.store import SegmentsSettings
from rustlog.storage.segments.store import open_store as open_segments

TOPIC = "bench"
READ_BYTES = MIB
APPENDS_PER_TURN = 64
"""So often at most a store that answers at once is asked before the reactor has its turn."""

Steps = Generator["Deferred[Any]", Any, Any]


@frozen
class Shape:
    """What a batch looks like."""

    records: int
    record_bytes: int

    def __str__(self) -> str:
        return f"{self.records} x {self.record_bytes} B"

    def batch(self) -> RecordBatch:
        return build([Record(bytes(self.record_bytes))] * self.records, now_ms=time.time_ns() // 1_000_000)


SHAPES = (Shape(100, 100), Shape(1, 1024), Shape(100, 1024))


@frozen
class Subject:
    """A store, how to open it, and how many appends are outstanding."""

    name: str
    open: Callable[[Any, Path], Any]
    outstanding: int = 1


def _segments(sync: str) -> Callable[[Any, Path], Any]:
    def open_it(environment: Any, directory: Path) -> Any:
        return open_segments(SegmentsSettings(data_dir=directory, sync=SyncPolicy.parse(sync)), environment)

    return open_it


SUBJECTS = (
    Subject("memory", lambda environment, _: open_memory(MemorySettings(), environment)),
    Subject("segments, sync=never", _segments("never")),
    Subject("segments, sync=250", _segments("250")),
    Subject("segments, sync=always", _segments("always")),
    Subject("segments, sync=always", _segments("always"), outstanding=128),
)


@frozen
class Effort:
    """How long to measure; the bytes bound what the memory store takes."""

    seconds: float
    bytes_max: int
    rounds: int


def main(reactor: Any, options: argparse.Namespace) -> Deferred[None]:
    effort = Effort(options.seconds, 256 * MIB, options.rounds)
    if options.quick:
        effort = Effort(0.2, 32 * MIB, 1)
    return _measure_all(reactor, effort, Report(options.json))


@inlineCallbacks
def _measure_all(reactor: Any, effort: Effort, report: Report) -> Steps:
    environment = real_environment(reactor)
    for shape in SHAPES:
        rounds: list[list[Row]] = []
        for _ in range(effort.rounds):
            rounds.append([])
            for subject in SUBJECTS:
                row = yield _measure(environment, subject, shape, effort)
                rounds[-1].append(row)
        report.table(f"batches of {shape}", median_rows(rounds, "appends/s"))
    report.end()
    yield environment.workers.close()


@inlineCallbacks
def _measure(environment: Any, subject: Subject, shape: Shape, effort: Effort) -> Steps:
    with temporary_directory() as directory:
        store = yield deferred(subject.open(environment, directory))
        yield store.catalog.create(TOPIC, 1, {})
        partition = store.partition(TOPIC, 0)
        batch = shape.batch()
        appending = Appending(environment.clock, store, partition, batch, effort)
        seconds = yield appending.run(subject.outstanding)
        count = appending.count
        read_seconds = yield _read_all(store, partition, batch, count)
        yield store.close()
    return _row(subject, batch.size, count, seconds, read_seconds)


def _row(subject: Subject, size: int, count: int, seconds: float, read_seconds: float) -> Row:
    return {
        "store": subject.name,
        "outstanding": subject.outstanding,
        "appends/s": count / seconds,
        "append MB/s": count * size / seconds / 1e6,
        "read batches/s": count / read_seconds,
        "read MB/s": count * size / read_seconds / 1e6,
    }


class Appending:
    """Keeps a number of appends outstanding until time or bytes are used up."""

    def __init__(self, clock: Any, store: Any, partition: Any, batch: RecordBatch, effort: Effort) -> None:
        self.count = 0
        self._clock = clock
        self._store = store
        self._entries = [(partition, batch)]
        self._count_max = effort.bytes_max // batch.size
        self._started = time.perf_counter()
        self._deadline = self._started + effort.seconds

    @inlineCallbacks
    def run(self, outstanding: int) -> Steps:
        """The seconds that it took; C{count} is then what was appended."""
        yield gatherResults([self._one_after_another() for _ in range(outstanding)], consumeErrors=True)
        return time.perf_counter() - self._started

    @inlineCallbacks
    def _one_after_another(self) -> Steps:
        while self.count < self._count_max and time.perf_counter() < self._deadline:
            self.count += 1
            result = self._store.append(self._entries)
            if type(result) is Deferred:
                result = yield result
            elif self.count % APPENDS_PER_TURN == 0:
                yield deferLater(self._clock, 0)
            if isinstance(result[0], Exception):
                raise result[0]


@inlineCallbacks
def _read_all(store: Any, partition: Any, batch: RecordBatch, count: int) -> Steps:
    """The seconds that it takes to have every byte in memory once."""
    started = time.perf_counter()
    found = 0
    while found < count:
        wants = [(partition, found * batch.record_count, READ_BYTES)]
        (fetched,) = yield deferred(store.read(wants, READ_BYTES, Isolation.READ_UNCOMMITTED))
        if isinstance(fetched, Exception):
            raise fetched
        found += sum(len(each.buffer()) for each in fetched.slices) // batch.size
        fetched.release()
    return time.perf_counter() - started


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=0.5, help="of appending, for each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median is shown")


if __name__ == "__main__":
    react(main, [arguments(__doc__, _options)])
