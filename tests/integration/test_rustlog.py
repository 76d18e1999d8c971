"""The RustLog protocol against a real broker, from bare sockets."""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.integration.daemon import Client, Daemon, every_now_and_then, frame

MEBIBYTE = 1024 * 1024
FRAME_BYTES_MAX = 10 * MEBIBYTE

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads memory use from /proc")


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    """A client of a broker that has a topic C{orders} with three partitions."""
    with daemon.client() as client:
        client.create("orders", 3)
        yield client


# -- the examples of the specification -----------------------------------------------


def test_produce_append_produce(client: Client) -> None:
    """Example 1: offsets go on where they were."""
    orders = {"topic": "orders", "partition": 0}
    assert client.call("Produce", **orders, records=[[10, 20], [30, 40]]) == {"Produce": {"offsets": [0, 1]}}
    assert client.call("Produce", **orders, records=[[50, 60]]) == {"Produce": {"offsets": [2]}}


def test_fetch_with_consumer_group(client: Client) -> None:
    """Example 2: a group goes on where it has committed, wherever it asks to begin."""
    orders = {"topic": "orders", "partition": 0}
    fetch = {**orders, "offset": 0, "max_bytes": 1048576, "group_id": "processor"}
    group = {**orders, "group_id": "processor"}
    client.call("Produce", **orders, records=[[10, 20], [30, 40]])
    assert client.call("OffsetFetch", **group) == {"OffsetFetch": {"offset": None}}
    assert client.call("Fetch", **fetch) == {
        "Fetch": {
            "records": [{"offset": 0, "payload": [10, 20]}, {"offset": 1, "payload": [30, 40]}],
            "next_offset": 2,
        }
    }
    assert client.call("OffsetCommit", **group, offset=2) == {"OffsetCommit": {"success": True}}
    client.call("Produce", **orders, records=[[50, 60]])
    assert client.call("Fetch", **fetch) == {
        "Fetch": {"records": [{"offset": 2, "payload": [50, 60]}], "next_offset": 3}
    }
    assert client.call("OffsetFetch", **group) == {"OffsetFetch": {"offset": 2}}


def test_fetch_without_consumer_group(client: Client) -> None:
    """Example 3: without a group, the offset is the one that was asked for."""
    orders = {"topic": "orders", "partition": 0}
    client.call("Produce", **orders, records=[[1], [2], [10, 20], [30, 40]])
    assert client.call("Fetch", **orders, offset=2, max_bytes=1048576, group_id=None) == {
        "Fetch": {
            "records": [{"offset": 2, "payload": [10, 20]}, {"offset": 3, "payload": [30, 40]}],
            "next_offset": 4,
        }
    }


def test_errors(client: Client) -> None:
    """Example 4: an error names what was not found; the connection stays open."""
    for topic, partition in (("nonexistent", 0), ("orders", 99)):
        answer = client.call(
            "Fetch", topic=topic, partition=partition, offset=0, max_bytes=1048576, group_id=None
        )
        message = f"partition not found: topic={topic}, partition={partition}"
        assert answer == {"Error": {"message": message}}
    client.socket.sendall(frame(b"this is not JSON"))
    assert client.receive()["Error"]["message"].startswith("failed to parse request: ")
    assert "Produce" in client.call("Produce", topic="orders", partition=0, records=[[1]])


def test_edges(client: Client) -> None:
    """Empty produces, the end of the log, at least one record, commits that overwrite."""
    orders = {"topic": "orders", "partition": 1}
    assert client.call("Produce", **orders, records=[]) == {"Produce": {"offsets": []}}
    assert client.call("Fetch", **orders, offset=7, max_bytes=1) == {
        "Fetch": {"records": [], "next_offset": 0}
    }
    client.call("Produce", **orders, records=[[1] * 100, [2] * 100])
    assert client.call("Fetch", **orders, offset=0, max_bytes=1) == {
        "Fetch": {"records": [{"offset": 0, "payload": [1] * 100}], "next_offset": 1}
    }
    for offset in (9, 1):
        client.call("OffsetCommit", **orders, group_id="g", offset=offset)
    assert client.call("OffsetFetch", **orders, group_id="g") == {"OffsetFetch": {"offset": 1}}
    answer = client.call("OffsetCommit", topic="nonexistent", partition=0, group_id="g", offset=0)
    assert answer == {"OffsetCommit": {"success": False}}


def test_pipelined(client: Client) -> None:
    """Requests that are sent without waiting are answered in their order."""
    for number in range(200):
        client.send("Produce", topic="orders", partition=number % 3, records=[[number]])
    client.send("Fetch", topic="orders", partition=2, offset=0, max_bytes=MEBIBYTE)
    for number in range(200):
        assert client.receive() == {"Produce": {"offsets": [number // 3]}}
    records = client.receive()["Fetch"]["records"]
    assert [each["payload"][0] for each in records] == list(range(2, 200, 3))


def test_byte_by_byte(client: Client) -> None:
    """It does not matter how the bytes of a request arrive."""
    payload = json.dumps({"Produce": {"topic": "orders", "partition": 0, "records": [[7]]}}).encode()
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in frame(payload):
        client.socket.sendall(bytes([byte]))
    assert client.receive() == {"Produce": {"offsets": [0]}}


def test_frame_too_large(client: Client) -> None:
    """A frame that is announced above the limit is refused, and the connection closed."""
    client.socket.sendall(struct.pack("!I", FRAME_BYTES_MAX + 1))
    assert client.receive()["Error"]["message"].startswith("max frame size exceeded")
    client.socket.shutdown(socket.SHUT_WR)
    assert client.is_closed()


def test_largest_frame(client: Client) -> None:
    """A frame of exactly the limit is served."""
    skeleton = json.dumps({"Produce": {"topic": "orders", "partition": 0, "records": [[1]]}}).encode()
    client.socket.sendall(frame(skeleton + b" " * (FRAME_BYTES_MAX - len(skeleton))))
    assert client.receive() == {"Produce": {"offsets": [0]}}


# -- what an acknowledgement means -----------------------------------------------------


class Producer(threading.Thread):
    """
    Produces as fast as it is answered, with some requests under way, until the broker is gone.

    @ivar acknowledged: what was acknowledged, by partition and offset.
    """

    PARTITIONS = 3
    IN_FLIGHT = 8

    def __init__(self, daemon: Daemon, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._daemon = daemon
        self._sent: list[tuple[int, list[bytes]]] = []
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.refusals: list[Any] = []
        self.start()

    def run(self) -> None:
        try:
            with self._daemon.client() as client:
                self._produce(client)
        except (OSError, EOFError):
            pass  # That the broker dies is what this is about.

    def _produce(self, client: Client) -> None:
        number = 0
        while True:
            while len(self._sent) < self.IN_FLIGHT:
                records = [f"{self.name} {number} {index}".encode() * 5 for index in range(number % 4 + 1)]
                self._sent.append((number % self.PARTITIONS, records))
                client.send(
                    "Produce",
                    topic="orders",
                    partition=number % self.PARTITIONS,
                    records=[list(each) for each in records],
                )
                number += 1
            answer = client.receive()
            partition, records = self._sent.pop(0)
            if "Produce" not in answer:
                self.refusals.append(answer)
                continue
            offsets = answer["Produce"]["offsets"]
            self.acknowledged.update(
                ((partition, offset), record) for offset, record in zip(offsets, records, strict=True)
            )


def read_everything(daemon: Daemon) -> dict[tuple[int, int], bytes]:
    """All records of C{orders}; their offsets have no gaps."""
    found: dict[tuple[int, int], bytes] = {}
    with daemon.client() as client:
        for partition in range(Producer.PARTITIONS):
            records = client.read_all("orders", partition)
            assert list(records) == list(range(len(records)))
            found.update(((partition, offset), payload) for offset, payload in records.items())
    return found


def assert_kept(kept: dict[tuple[int, int], bytes], found: dict[tuple[int, int], bytes]) -> None:
    """Everything that was acknowledged, or read before, is there and reads the same."""
    lost = {place: payload for place, payload in kept.items() if found.get(place) != payload}
    assert not lost, f"{len(lost)} of {len(kept)} records are lost or different: {sorted(lost)[:5]}"


def test_kill_at_random(make_daemon: Callable[..., Daemon]) -> None:
    """Killed 20 times in the middle of it, no acknowledged record is lost, moved or changed."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    print(f"seed {seed}")
    daemon = make_daemon("--storage=segments", "--sync=always", "--set=segment.bytes=65536").start()
    with daemon.client() as client:
        client.create("orders", Producer.PARTITIONS)
    kept: dict[tuple[int, int], bytes] = {}
    for round_number in range(20):
        producers = [Producer(daemon, f"{round_number}-{index}") for index in range(2)]
        for _ in every_now_and_then("something is acknowledged", daemon.describe):
            if all(each.acknowledged for each in producers):
                break
        time.sleep(chance.uniform(0, 0.3))
        daemon.kill()
        for each in producers:
            each.join()
            assert not each.refusals
            kept.update(each.acknowledged)
        found = read_everything(daemon.start())
        assert_kept(kept, found)
        kept = found
    assert len(kept) > 1000


@pytest.mark.parametrize("sync", ["always", "50", "never"])
def test_orderly_stop(make_daemon: Callable[..., Daemon], sync: str) -> None:
    """Asked to stop in the middle of it, it keeps what it has acknowledged, however it syncs."""
    daemon = make_daemon("--storage=segments", f"--sync={sync}").start()
    with daemon.client() as client:
        client.create("orders", Producer.PARTITIONS)
    kept: dict[tuple[int, int], bytes] = {}
    for round_number in range(3):
        producer = Producer(daemon, f"{round_number}")
        for _ in every_now_and_then("something is acknowledged", daemon.describe):
            if len(producer.acknowledged) > 100:
                break
        daemon.stop()
        producer.join()
        kept.update(producer.acknowledged)
        assert not producer.refusals
        found = read_everything(daemon.start())
        assert_kept(kept, found)
        kept = found


@pytest.mark.parametrize("sync", ["50", "never"])
def test_kill_without_sync(make_daemon: Callable[..., Daemon], sync: str) -> None:
    """However it syncs, nothing is lost with the process alone."""
    daemon = make_daemon("--storage=segments", f"--sync={sync}").start()
    with daemon.client() as client:
        client.create("orders", Producer.PARTITIONS)
    producer = Producer(daemon, "one")
    for _ in every_now_and_then("something is acknowledged", daemon.describe):
        if len(producer.acknowledged) > 100:
            break
    daemon.kill()
    producer.join()
    assert_kept(producer.acknowledged, read_everything(daemon.start()))


def test_second_broker(make_daemon: Callable[..., Daemon]) -> None:
    """A second broker on the same data is refused in one line, and does the first no harm."""
    daemon = make_daemon("--storage=segments").start()
    with daemon.client() as client:
        client.create("orders")
        second = make_daemon("--storage=segments").launch()
        assert second.wait() == 1
        lines = [line for line in second.log.splitlines() if line.startswith("rustlog: ")]
        assert len(lines) == 1
        assert re.search(r"in use", lines[0]), lines
        assert "Traceback" not in second.log
        assert client.call("Produce", topic="orders", partition=0, records=[[1]]) == {
            "Produce": {"offsets": [0]}
        }


# -- memory is bounded, whatever clients do ----------------------------------------------

BUDGET = 64 * MEBIBYTE
ALLOWANCE = 96 * MEBIBYTE
"""For what the budget does not count: parsed requests, records on their way, fragmentation."""


@pytest.fixture
def tight_daemon(make_daemon: Callable[..., Daemon], storage: str) -> Daemon:
    """One with little memory to give."""
    return make_daemon(
        f"--storage={storage}",
        f"--set=queued.max.request.bytes={BUDGET}",
        listen="rustlog=tcp:0:interface=127.0.0.1:backlog=1024",
    ).start()


@needs_proc
def test_client_that_never_reads(tight_daemon: Daemon) -> None:
    """Clients that ask and never read do not fill the broker's memory; others are served."""
    payload = list(range(256)) * 1024
    with ExitStack() as stack:
        client = stack.enter_context(tight_daemon.client())
        client.create("orders")
        for _ in range(8):
            client.call("Produce", topic="orders", partition=0, records=[payload])
        before = tight_daemon.memory_max()
        for _ in range(20):
            deaf = stack.enter_context(tight_daemon.client())
            deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(50):
                deaf.send("Fetch", topic="orders", partition=0, offset=0, max_bytes=8 * MEBIBYTE)
        for _ in range(20):
            started = time.monotonic()
            assert "Produce" in client.call("Produce", topic="orders", partition=0, records=[[1]])
            assert time.monotonic() - started < 10
            time.sleep(0.05)
        assert tight_daemon.memory_max() - before < BUDGET + ALLOWANCE


@needs_proc
def test_frames_that_never_come(tight_daemon: Daemon) -> None:
    """Hundreds of announced frames that do not come take no memory, and keep nobody from working."""
    with ExitStack() as stack:
        client = stack.enter_context(tight_daemon.client())
        client.create("orders")
        before = tight_daemon.memory_max()
        beginning = struct.pack("!I", FRAME_BYTES_MAX) + b'{"Produce": {"topic": "orders", "records": ['
        for _ in range(500):
            stack.enter_context(tight_daemon.client()).socket.sendall(beginning)
        for number in range(20):
            answer = client.call("Produce", topic="orders", partition=0, records=[[1]])
            assert answer == {"Produce": {"offsets": [number]}}
        assert tight_daemon.memory_max() - before < BUDGET + ALLOWANCE


@needs_proc
def test_frames_that_come_slowly(tight_daemon: Daemon) -> None:
    """Nor do frames of which much comes, but never the end."""
    with ExitStack() as stack:
        client = stack.enter_context(tight_daemon.client())
        client.create("orders")
        before = tight_daemon.memory_max()
        connections = [stack.enter_context(tight_daemon.client()).socket for _ in range(100)]
        for connection in connections:
            connection.setblocking(False)
            connection.sendall(struct.pack("!I", FRAME_BYTES_MAX))
        piece = b" " * (64 * 1024)
        for _ in range(100):
            for connection in connections:
                try:
                    connection.send(piece)
                except (BlockingIOError, ConnectionError):
                    continue  # It has to wait for its turn, or was cut off.
        assert "Produce" in client.call("Produce", topic="orders", partition=0, records=[[1]])
        assert tight_daemon.memory_max() - before < BUDGET + ALLOWANCE


def test_stop_with_deaf_client(make_daemon: Callable[..., Daemon]) -> None:
    """A client that does not read its answers does not keep the broker from stopping."""
    daemon = make_daemon("--storage=memory").start()
    with daemon.client() as client:
        client.create("orders")
        client.call("Produce", topic="orders", partition=0, records=[[7] * MEBIBYTE])
        for _ in range(20):
            client.send("Fetch", topic="orders", partition=0, offset=0, max_bytes=MEBIBYTE)
        daemon.signal(signal.SIGTERM)
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
