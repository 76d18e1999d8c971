"""
What the measurements share: a broker of one's own, a client without a library, what C{/proc} knows,
and the printing.

Everything a script starts or writes is its own and goes away with it: the broker is ended by its
process id, and files are in a temporary directory (C{TMPDIR} says on which device).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # So that a checkout can be measured without installing it.

MIB = 2**20
START_SECONDS_MAX = 300
STOP_SECONDS_MAX = 30
_READY = re.compile(rb"ready: rustlog on 127\.0\.0\.1:(\d+)")
_POLL_SECONDS = 0.002
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_LENGTH = struct.Struct(">I")

Row = dict[str, Any]


# -- the command line and the printing ---------------------------------------------


def arguments(doc: str | None, extend: Callable[[argparse.ArgumentParser], None] | None = None) -> Any:
    """Read the command line: C{--json} and C{--quick}, and what C{extend} adds."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--quick", action="store_true", help="less of everything: to see that it works")
    if extend is not None:
        extend(parser)
    # Whoever ends the script ends what it started, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    return parser.parse_args()


class Report:
    """Tables: printed as they come, or all at once as JSON."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._tables: dict[str, list[Row]] = {}
        self._say(f"{machine()}")

    def table(self, title: str, rows: Iterable[Row]) -> None:
        """Take rows as they are measured; their keys are the headings."""
        kept = self._tables.setdefault(title, [])
        self._say(f"\n{title}")
        widths: list[int] = []
        for row in rows:
            kept.append(row)
            if not widths:
                widths = [max(len(key), 9) for key in row]
                widths[0] = max(widths[0], 34)
                self._say(_line(row.keys(), widths))
            self._say(_line(map(shown, row.values()), widths))

    def end(self) -> None:
        """The last word."""
        if self._as_json:
            print(json.dumps({"machine": machine(), "tables": self._tables}, indent=2))

    def _say(self, text: str) -> None:
        if not self._as_json:
            print(text, flush=True)


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    first, *others = cells
    rest = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
    return "  ".join([f"{first:<{widths[0]}}", *rest]).rstrip()


def shown(value: Any) -> str:
    """A number with three digits or more, for people."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if type(value) is int else str(value)


def machine() -> str:
    """Where it was measured."""
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, "
        f"{platform.python_implementation()} {platform.python_version()}"
    )


def median_rows(rounds: Sequence[Sequence[Row]], by: str) -> list[Row]:
    """
    Of several rounds over the same things, for each thing the measurement in the middle.  Rounds
    rather than repetitions: what else the machine does then disturbs all of them alike.
    """
    return [
        sorted(same, key=lambda row: float(row[by]))[len(same) // 2] for same in zip(*rounds, strict=True)
    ]


def percentile(values: Sequence[float], percent: int) -> float:
    """That value below which so many of them lie."""
    if len(values) < 2:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


# -- the broker --------------------------------------------------------------------


class Broker:
    """A daemon as users start it, with its own process."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self._log_path = directory / "broker.log"
        twistd = Path(sys.executable).with_name("twistd")
        command = [
            str(twistd), "--nodaemon", "--pidfile=", "rustlog", "--storage=segments",
            f"--data-dir={directory / 'data'}", "--listen=rustlog=tcp:0:interface=127.0.0.1", *options,
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        started = time.perf_counter()
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            self.port = self._await_ready()
        except BaseException:
            self.kill()
            raise
        self.start_seconds = time.perf_counter() - started

    @property
    def pid(self) -> int:
        return self._process.pid

    def _await_ready(self) -> int:
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            found = _READY.search(self.log())
            if found:
                return int(found[1])
            if self._process.poll() is not None:
                break
            time.sleep(_POLL_SECONDS)
        raise RuntimeError(f"the broker did not start:\n{self.log().decode(errors='replace')}")

    def log(self) -> bytes:
        """All that it said."""
        return self._log_path.read_bytes()

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """C{kill -9}."""
        self._process.kill()
        self._process.wait()

    # -- what the kernel says of it --

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        fields = self._proc("stat").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def rss_mib(self) -> float:
        """Memory that it holds now."""
        return int(self._proc("statm").split()[1]) * _PAGE / MIB

    def peak_rss_mib(self) -> float:
        """The most that it held since it started, or since L{forget_peak}."""
        found = re.search(r"VmHWM:\s+(\d+) kB", self._proc("status"))
        if found is None:
            raise RuntimeError("this kernel does not tell VmHWM")
        return int(found[1]) / 1024

    def forget_peak(self) -> float:
        """Have the peak begin again at what it holds now, which is returned."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        return self.peak_rss_mib()

    def handles(self) -> int:
        """Open files and sockets."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def _proc(self, name: str) -> str:
        return Path(f"/proc/{self.pid}/{name}").read_text()


@contextmanager
def broker(*options: str) -> Iterator[Broker]:
    """A broker with an empty log, for as long as the block lasts."""
    with temporary_directory() as directory:
        running = Broker(directory, *options)
        try:
            yield running
        finally:
            running.stop()


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A directory that goes away again."""
    with tempfile.TemporaryDirectory(prefix="rustlog-bench-") as name:
        yield Path(name)


def warm_memory(gigabytes: float) -> None:
    """
    Write a file of that size, and remove it.  A virtual machine gets memory from its host when it touches it
    for the first time, which costs several times what writing does, and would be counted as the broker's.
    """
    piece = bytes(MIB)
    with temporary_directory() as directory, (directory / "warm").open("wb", buffering=0) as file:
        for _ in range(int(gigabytes * 1e9 / MIB)):
            file.write(piece)


# -- the client --------------------------------------------------------------------


def frame(name: str, **fields: Any) -> bytes:
    """One request, ready to be sent."""
    payload = json.dumps({name: fields}, separators=(",", ":")).encode()
    return _LENGTH.pack(len(payload)) + payload


def announcement(size: int) -> bytes:
    """The beginning of a frame, of which the rest need not follow."""
    return _LENGTH.pack(size)


class Connection:
    """A bare socket that knows where frames end."""

    def __init__(self, port: int, seconds_max: float = 60) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds_max)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()

    def send(self, content: bytes) -> None:
        self.socket.sendall(content)

    def answers(self) -> list[bytes]:
        """Wait for at least one whole answer; give all that are there."""
        while True:
            found = self._take()
            if found:
                return found
            chunk = self.socket.recv(MIB)
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            self._received += chunk

    def _take(self) -> list[bytes]:
        received, position, found = self._received, 0, []
        while len(received) - position >= 4:
            end = position + 4 + _LENGTH.unpack_from(received, position)[0]
            if end > len(received):
                break
            found.append(bytes(received[position + 4 : end]))
            position = end
        del received[:position]
        return found

    def ask(self, request: bytes) -> bytes:
        """One request, one answer; an error is one here, too."""
        self.send(request)
        (answer,) = self.answers()
        return expect_success(answer)

    def create_topic(self, topic: str, partitions: int) -> None:
        self.ask(frame("CreateTopic", topic=topic, partitions=partitions, config={}))

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def expect_success(answer: bytes) -> bytes:
    """A measurement of errors would be a fast one."""
    if answer.startswith((b'{"Error"', b"\xfe")):
        raise RuntimeError(f"the broker refused: {answer.decode(errors='replace')}")
    return answer
