"""
L{Daemon}: a real C{twistd rustlog} in a process of its own, and L{Client}, a bare socket to it.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.doubles import DROPINS

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 30
"""How long anything may take before it counts as hanging."""

_RUN = {
    "twistd": "from twisted.scripts.twistd import run; run()",
    "twist": "import sys; from twisted.application.twist._twist import Twist; Twist.main(sys.argv)",
}
_READY = re.compile(r"ready: (?P<places>[^\n\"]*)")
_COMPLAINT = re.compile(r"^\S+ \S+ (?:WARN|ERROR|CRITICAL) .*$", re.MULTILINE)
_PORT = re.compile(r":(\d+)(?:,|$)")


def command(runner: str, *arguments: str) -> list[str]:
    """A command that runs C{twistd} or C{twist} of the Python that runs the tests."""
    return [sys.executable, "-c", _RUN[runner], *arguments]


def environment() -> dict[str, str]:
    """One in which this checkout, and the plugins of the tests, are found from any directory."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{DROPINS}", "PYTHONUNBUFFERED": "1"}


class Daemon:
    """
    A broker on a port of its own choice, with its data in C{directory}.

    It can be killed and started again, and finds its data then.

    @ivar python: the interpreter of an L{Installation <tests.integration.installation.Installation>}; by
        default that of the tests, which finds this checkout and the plugins of the tests.
    @ivar listen: C{None} leaves the choice to the broker.
    @ivar within: a command that runs another one in a place of its own.
    @ivar directory: its working directory, too.
    @ivar ports: of all its listeners; C{port} is the first.
    @ivar log: all that it has ever said on stdout and stderr.
    """

    def __init__(
        self,
        directory: Path,
        *options: str,
        before: Sequence[str] = ("-n", "--pidfile="),
        runner: str = "twistd",
        listen: str | None = "rustlog=tcp:0:interface=127.0.0.1",
        python: str | None = None,
        within: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self._log_file = directory / "daemon.out"
        places = [] if listen is None else [f"--listen={listen}"]
        self._command = command(
            runner, *before, "rustlog", f"--data-dir={directory / 'data'}", *places, *options
        )
        self._environment = environment()
        if python is not None:
            self._command[0] = python
            del self._environment["PYTHONPATH"]
        self._command[:0] = within
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self.port = 0
        self.ports: list[int] = []

    def __enter__(self) -> Daemon:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def log(self) -> str:
        return self._log_file.read_text() if self._log_file.exists() else ""

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    def launch(self) -> Daemon:
        """Begin to run; whether it gets ready is another matter."""
        assert self._process is None, "it runs already"
        self._log_start = len(self.log)
        with self._log_file.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return self

    def start(self) -> Daemon:
        """Run, and wait until it is ready."""
        self.launch()
        match = self.wait_for_log(_READY)
        self.ports = [int(each) for each in _PORT.findall(match["places"])]
        self.port = self.ports[0] if self.ports else 0
        return self

    def wait_for_log(self, pattern: re.Pattern[str] | str) -> re.Match[str]:
        """Wait until it has said something, since it was last started."""
        for _ in every_now_and_then(f"the log says {pattern!r}", self.describe):
            match = re.search(pattern, self.log[self._log_start :])
            if match:
                return match
            assert self._process is not None
            assert self._process.poll() is None, self.describe()
        raise AssertionError  # not reached: the loop gives up by itself

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self._process is not None, "it does not run"
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait until it has ended by itself; its exit status."""
        assert self._process is not None, "it does not run"
        try:
            status = self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end\n{self.describe()}") from None
        self._process = None
        return status

    def stop(self) -> None:
        """Ask it to stop, as a service manager does; it must end well."""
        self.signal(signal.SIGTERM)
        status = self.wait()
        assert status == 0, f"exit status {status}\n{self.log}"

    def kill(self) -> None:
        """Let it die at once, if it is alive."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def memory_max(self) -> int:
        """The most memory, in bytes, that it has ever had."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert match is not None, status
        return int(match[1]) * 1024

    def complaints(self) -> list[str]:
        """All that it has said that is worse than information."""
        return _COMPLAINT.findall(self.log)

    def describe(self) -> str:
        """For messages: how it was started, and what it said."""
        return f"{' '.join(self._command)}\n--- its log:\n{self.log}---"

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A connection."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_SECONDS) as connection:
            yield Client(connection)


class Client:
    """Speaks the RustLog protocol as its specification does: a length, and JSON."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def send(self, name: str, **fields: Any) -> None:
        """Send a request, and do not wait."""
        self.socket.sendall(frame(json.dumps({name: fields}).encode()))

    def receive(self) -> dict[str, Any]:
        """
        The next answer.

        @raise EOFError: the connection ended instead.
        """
        (length,) = struct.unpack("!I", self._read(4))
        answer: dict[str, Any] = json.loads(self._read(length))
        return answer

    def call(self, name: str, **fields: Any) -> dict[str, Any]:
        """Send a request; its answer."""
        self.send(name, **fields)
        return self.receive()

    def exchange(self, payload: bytes) -> bytes:
        """Send anything; the payload of the answer."""
        self.socket.sendall(frame(payload))
        (length,) = struct.unpack("!I", self._read(4))
        return self._read(length)

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Make a topic."""
        answer = self.call("CreateTopic", topic=topic, partitions=partitions, config=config)
        assert "CreateTopic" in answer, answer

    def read_all(self, topic: str, partition: int = 0) -> dict[int, bytes]:
        """Every record, by its offset."""
        found: dict[int, bytes] = {}
        offset = 0
        while True:
            answer = self.call("Fetch", topic=topic, partition=partition, offset=offset, max_bytes=1_000_000)
            records = answer["Fetch"]["records"]
            found.update((each["offset"], bytes(each["payload"])) for each in records)
            offset = answer["Fetch"]["next_offset"]
            if not records:
                return found

    def is_closed(self) -> bool:
        """Whether the broker has closed the connection; waits for that."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return bytes(data)


def frame(payload: bytes) -> bytes:
    """C{payload} with its length before it."""
    return struct.pack("!I", len(payload)) + payload


def every_now_and_then(what: str, describe: Any = str) -> Iterator[None]:
    """For a loop that waits: a turn now and then, until that takes too long."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        yield
        time.sleep(0.01)
    raise AssertionError(f"waited in vain until {what}\n{describe()}")


def free_port() -> int:
    """A port that nobody listens on, nor is given for outgoing connections: for brokers that keep theirs."""
    for port in random.sample(range(15_000, 32_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("there is no free port")
