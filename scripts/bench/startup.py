"""
How long a start takes after kill -9: from the start of the process to the line that says ready.

A process fills the log of a store with batches of 1 MiB and is killed as soon as there is enough.  Then
two brokers are started on the result, one after the other, and killed in their turn.  "checked" is how
much of the log stood behind the last checkpoint and had to be read.  With --sync=never that depends on
how far the disk was behind the writes.  "cold" means that the kernel was told to forget what it holds of
the log.  An empty store shows what of it is the start of Python and Twisted.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from common import ROOT, Broker, Report, Row, arguments, temporary_directory
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import deferLater, react

from rustlog.environment.real import real_environment
from rustlog.log.records import build
from rustlog.model import Record, SyncPolicy
from rustlog.results import deferred
from rustlog.storage.segments.store import SegmentsSettings, open_store

TOPIC = "filled"
RECORDS, RECORD_BYTES = 1024, 1024
BATCHES_TOGETHER = 16
"""They share a sync."""

_CHECKED = re.compile(rb"checked (\d+) bytes")
FILLED = "filled"


def main(options: argparse.Namespace) -> None:
    report = Report(options.json)
    sizes = [0, 10_000_000, 50_000_000] if options.quick else [0, *options.bytes]
    title = f"start after kill -9, {options.partitions} partition(s), filled with sync={options.sync}"
    rounds = 1 if options.quick else options.rounds
    report.table(title, (_row(size, options, rounds) for size in sizes))
    report.end()


def _row(size: int, options: argparse.Namespace, rounds: int) -> Row:
    first, second, cold = [], [], []
    for _ in range(rounds):
        with temporary_directory() as directory:
            _fill(directory, size, options)
            first.append(_start_and_kill(directory))
            second.append(_start_and_kill(directory))
        with temporary_directory() as directory:
            _fill(directory, size, options)
            _forget(directory)
            cold.append(_start_and_kill(directory))
    return {
        "log": f"{size / 1e9:g} GB" if size else "empty",
        "first s": statistics.median(seconds for seconds, _ in first),
        "worst s": max(first)[0],
        "checked MB": statistics.median(checked for _, checked in first),
        "cold s": statistics.median(seconds for seconds, _ in cold),
        "second s": statistics.median(seconds for seconds, _ in second),
    }


def _start_and_kill(directory: Path) -> tuple[float, float]:
    """The seconds, and the megabytes that had to be checked."""
    running = Broker(directory)
    running.kill()
    found = _CHECKED.search(running.log())
    return running.start_seconds, int(found[1]) / 1e6 if found else 0.0


def _forget(directory: Path) -> None:
    """Have the log read from the disk again, as after a reboot."""
    for path in directory.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)  # Only what is on the disk can be forgotten.
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


# -- the one that fills, and dies --------------------------------------------------


def _fill(directory: Path, size: int, options: argparse.Namespace) -> None:
    command = [sys.executable, __file__, f"--fill={directory / 'data'}", f"--bytes={size}"]
    process = subprocess.Popen(
        [*command, f"--partitions={options.partitions}", f"--sync={options.sync}"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        try:
            if process.stdout.readline().strip() != FILLED:
                raise RuntimeError(f"filling {directory} failed with status {process.wait()}")
        finally:
            process.send_signal(signal.SIGKILL)


@inlineCallbacks
def fill(reactor: Any, options: argparse.Namespace) -> Generator[Deferred[Any], Any, None]:
    """Append until there is enough, say so, and go on living until killed."""
    settings = SegmentsSettings(data_dir=Path(options.fill), sync=SyncPolicy.parse(options.sync))
    store = yield open_store(settings, real_environment(reactor))
    yield store.catalog.create(TOPIC, options.partitions, {})
    batch = build([Record(os.urandom(RECORD_BYTES))] * RECORDS, now_ms=time.time_ns() // 1_000_000)
    partitions = itertools.cycle([store.partition(TOPIC, each) for each in range(options.partitions)])
    left = -(-options.bytes[0] // batch.size)
    while left:
        together = min(left, BATCHES_TOGETHER)
        results = yield deferred(store.append([(next(partitions), batch) for _ in range(together)]))
        for error in (each for each in results if isinstance(each, Exception)):
            raise error
        left -= together
        yield deferLater(reactor, 0)  # Checkpoints are written meanwhile.
    print(FILLED, flush=True)
    yield Deferred()


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bytes", type=int, nargs="+", default=[100_000_000, 2_000_000_000], help="sizes of the log"
    )
    parser.add_argument("--partitions", type=int, default=1, help="over which it is spread")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is shown")
    parser.add_argument("--sync", default="always", help="of the one that fills the log")
    parser.add_argument("--fill", metavar="DIRECTORY", help="only fill a store there, and wait to be killed")


if __name__ == "__main__":
    options = arguments(__doc__, _options)
    if options.fill:
        react(fill, [options])
    else:
        main(options)
