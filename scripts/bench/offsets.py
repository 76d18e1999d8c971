"""
What a million commits leave behind: how large the offsets are on disk, and how long a start takes then.

A process commits for a hundred groups in turn, with many commits outstanding, and is killed when all are
acknowledged.  Then brokers are started on the result.  "largest" is the most that was on disk at any
time, looked at about every 1,000 commits; "size" is what was there in the end.  A start is timed from the
start of the process to the line that says ready; that of an empty store shows what of it is the start of
Python and Twisted.  "replay" is the part of it that opens the offset store.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from datetime import datetime
from pathlib import Path
from typing import Any

from common import ROOT, Broker, Report, Row, arguments, temporary_directory
from twisted.internet.defer import Deferred, gatherResults, inlineCallbacks
from twisted.internet.task import deferLater, react

from rustlog.environment.real import real_environment
from rustlog.interfaces import IOffsetStoreFactory
from rustlog.model import CONSUMER_OFFSETS, Committed, SyncPolicy, TopicPartition
from rustlog.plugins import find
from rustlog.storage.segments.store import SegmentsSettings, open_store

TOPIC = "orders"
LOOK_EVERY = 1_000
STARTS = 5
_PLACES = {"topic": Path("logs") / CONSUMER_OFFSETS / "0", "file": Path("offsets")}
_LINE = re.compile(rb"^(\S+ \S+) \w+ +(opening the offset store|ready:)", re.MULTILINE)


def main(options: argparse.Namespace) -> None:
    report = Report(options.json)
    commits = 50_000 if options.quick else options.commits
    title = f"{commits:,} commits to {options.groups} groups, sync={options.sync}"
    kinds = [(kind, count) for kind in options.offsets for count in (0, commits)]
    report.table(title, (_row(kind, count, options) for kind, count in kinds))
    report.end()


def _row(kind: str, commits: int, options: argparse.Namespace) -> Row:
    with temporary_directory() as directory:
        filled = _fill(directory, kind, commits, options)
        size = _size(directory / "data" / _PLACES[kind])
        starts = [_start(directory, kind) for _ in range(1 if options.quick else STARTS)]
    return {
        "offsets": f"{kind}, {commits:,} commits",
        "commits/s": commits / filled["seconds"] if commits else 0.0,
        "largest MB": filled["largest"] / 1e6,
        "size MB": size / 1e6,
        "start s": statistics.median(whole for whole, _ in starts),
        "worst s": max(starts)[0],
        "replay s": statistics.median(replay for _, replay in starts),
    }


def _size(directory: Path) -> int:
    """What the files take on disk."""
    found = 0
    for path in directory.glob("*"):
        try:
            found += path.stat().st_blocks * 512
        except FileNotFoundError:  # It was removed just now.
            continue
    return found


def _start(directory: Path, kind: str) -> tuple[float, float]:
    """Seconds until it is ready, and those of them that the offset store took."""
    running = Broker(directory, f"--offsets={kind}")
    running.kill()
    begin, end = (datetime.fromisoformat(when.decode()) for when, _ in _LINE.findall(running.log())[-2:])
    return running.start_seconds, (end - begin).total_seconds()


# -- the one that commits, and dies -------------------------------------------------


def _fill(directory: Path, kind: str, commits: int, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, f"--fill={directory / 'data'}", f"--commits={commits}"]
    more = [f"--groups={options.groups}", f"--outstanding={options.outstanding}", f"--sync={options.sync}"]
    process = subprocess.Popen(
        [*command, *more, "--offsets", kind],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        try:
            filled: dict[str, float] = json.loads(process.stdout.readline() or "null")
        finally:
            process.send_signal(signal.SIGKILL)
    if filled is None:
        raise RuntimeError(f"filling {directory} failed with status {process.returncode}")
    return filled


@inlineCallbacks
def fill(reactor: Any, options: argparse.Namespace) -> Generator[Deferred[Any], Any, None]:
    """Commit until it is enough, say how it went, and go on living until killed."""
    environment, directory = real_environment(reactor), Path(options.fill)
    sync, (kind,) = SyncPolicy.parse(options.sync), options.offsets
    log_store = yield open_store(SegmentsSettings(directory, sync), environment)
    yield log_store.catalog.create(TOPIC, 1, {})
    plugin = find(IOffsetStoreFactory, kind)
    settings = plugin.settings_class()
    own = {"data_dir": directory, "sync": sync} if kind == "file" else {}
    offsets = yield plugin.open(settings(**own), environment, log_store)
    partition, largest, looked = TopicPartition(TOPIC, 0), 0, 0
    begin = time.monotonic()
    for done in range(0, options.commits, options.outstanding):
        now_ms = environment.wall.now_ms()
        numbers = range(done, min(done + options.outstanding, options.commits))
        yield gatherResults(
            [
                offsets.commit(
                    f"group-{each % options.groups}", {partition: Committed(each, commit_time=now_ms)}
                )
                for each in numbers
            ]
        )
        if done - looked >= LOOK_EVERY:
            looked, largest = done, max(largest, _size(directory / _PLACES[kind]))
        yield deferLater(reactor, 0)  # Others have their turn, as in a broker.
    print(json.dumps({"seconds": time.monotonic() - begin, "largest": largest}), flush=True)
    yield Deferred()


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--commits", type=int, default=1_000_000, help="how many of them")
    parser.add_argument("--groups", type=int, default=100, help="by how many groups")
    parser.add_argument("--outstanding", type=int, default=500, help="how many at once")
    parser.add_argument("--offsets", nargs="+", default=["topic", "file"], help="the offset stores")
    parser.add_argument("--sync", default="always", help="what an acknowledgement means")
    parser.add_argument("--fill", metavar="DIRECTORY", help="only commit there, and wait to be killed")


if __name__ == "__main__":
    options = arguments(__doc__, _options)
    if options.fill:
        react(fill, [options])
    else:
        main(options)
