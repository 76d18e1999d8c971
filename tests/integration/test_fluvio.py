"""The Fluvio protocol against a real broker: with bare bytes, and with the C{fluvio} package."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from tests.integration.certificates import Authority
from tests.integration.daemon import PATIENCE_SECONDS, Daemon, free_port
from tests.integration.fluvio_user import NO_KEY, FluvioUser, Raised, decoded, fluvio_user

STALL_SECONDS = float(os.environ.get("RUSTLOG_STALL_SECONDS", "3"))
"""How long a consumer does not say that it has read anything, in the test of that."""

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

LISTEN = "fluvio=tcp:0:interface=127.0.0.1"


@pytest.fixture
def broker(make_daemon: Callable[..., Daemon], storage: str) -> Daemon:
    """One for each store."""
    return make_daemon(f"--storage={storage}", listen=LISTEN).start()


@pytest.fixture
def user(broker: Daemon) -> Iterator[FluvioUser]:
    with fluvio_user(f"127.0.0.1:{broker.port}") as user:
        yield user


# -- bare bytes ------------------------------------------------------------------------


class Wire:
    """A bare socket that knows frames."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self._input = self.socket.makefile("rb")

    def send(self, key: int, version: int, number: int, body: bytes) -> None:
        payload = struct.pack(">Hhih", key, version, number, 2) + b"me" + body
        self.socket.sendall(struct.pack(">i", len(payload)) + payload)

    def receive(self) -> tuple[int, bytes]:
        """The id and the body of the next answer."""
        (size,) = struct.unpack(">i", self._input.read(4))
        payload = self._input.read(size)
        return struct.unpack(">i", payload[:4])[0], payload[4:]

    def ask(self, key: int, version: int, body: bytes) -> bytes:
        self.send(key, version, 77, body)
        number, answer = self.receive()
        assert number == 77
        return answer

    def create(self, name: str) -> None:
        spec = bytes.fromhex("01 00000001 00000001 00 00 00 04 00 00")
        content = struct.pack(">h", len(name)) + name.encode() + b"\0\0" + spec
        answer = self.ask(1001, 19, b"\0\5Topic" + struct.pack(">i", len(content)) + content)
        assert answer == struct.pack(">h", len(name)) + name.encode() + b"\0\0\0"

    def close(self) -> None:
        self._input.close()
        self.socket.close()


@pytest.fixture
def wire(broker: Daemon) -> Iterator[Wire]:
    wire = Wire(broker.port)
    yield wire
    wire.close()


def example_of_the_description(topic: bytes, value: bytes) -> bytes:
    """A ProduceRequest as the description of Fluvio's sources shows it, filled in."""
    record = b"\0" + b"\0" + b"\0" + b"\0" + bytes([2 * len(value)]) + value + b"\0"
    records = bytes([2 * len(record)]) + record
    now = 1_760_000_000_000
    checked = struct.pack(">hiqqqhi", 0, 0, now, now, -1, -1, 0) + records
    batch = struct.pack(">iBI", 0, 2, crc32c(checked)) + checked
    return b"".join(
        [
            bytes.fromhex("00 0001 00007530 00000001"),
            struct.pack(">h", len(topic)) + topic,
            bytes.fromhex("00000001 00000000"),
            struct.pack(">qi", 0, len(batch)) + batch,
            bytes.fromhex("00000000"),
        ]
    )


def test_example_of_the_description(wire: Wire, broker: Daemon) -> None:
    """The example is stored, and answered field by field as it is described."""
    wire.create("test-produce")
    for offset in range(2):
        answer = wire.ask(0, 7, example_of_the_description(b"test-produce", b"hello"))
        head = bytes.fromhex("00000001 000c") + b"test-produce" + bytes.fromhex("00000001 00000000 0000")
        assert answer == head + struct.pack(">qqqi", offset, -1, 0, 0)
    with fluvio_user(f"127.0.0.1:{broker.port}") as user:
        assert user.read("test-produce", 2) == [(0, NO_KEY, b"hello"), (1, NO_KEY, b"hello")]


def test_example_with_an_unknown_topic(wire: Wire) -> None:
    """A topic that is not there has the code that is described."""
    answer = wire.ask(0, 7, example_of_the_description(b"nope", b"hello"))
    head = bytes.fromhex("00000001 0004") + b"nope" + bytes.fromhex("00000001 00000000 0006")
    assert answer == head + struct.pack(">qqqi", -1, -1, -1, 0)


# -- topics ----------------------------------------------------------------------------


def test_topics(user: FluvioUser) -> None:
    """Topics are made with all that can be said of them, listed and removed."""
    user.create("alpha")
    user.create("more", partitions=3, retention_time=3600, segment_size=2_000_000, compression=None)
    user.create("assigned", assignment=[[0, [5001]]])
    assert user.list() == ["alpha", "assigned", "more"]
    assert user.list("lph") == ["alpha"]
    partitions = user.list_partitions()
    assert {"alpha-0", "more-0", "more-1", "more-2"} <= set(partitions)
    user.delete("more")
    assert user.list() == ["alpha", "assigned"]


def test_refused_topics(user: FluvioUser, broker: Daemon) -> None:
    """What is refused is said by the package in its own words, or in ours."""
    user.create("alpha")
    for ask, words in (
        (lambda: user.create("alpha"), "already exists"),
        (lambda: user.create("Bad_Name"), "Invalid topic name"),
        (lambda: user.create("beta", replications=3), "there is 1 unit"),
        (lambda: user.delete("nope"), "not found"),
        (lambda: user.delete("consumer-offset"), "consumer-offset"),
        (lambda: user.produce_text("nope", ["a"]), "nope"),
        (lambda: user.read("nope", 1), "nope"),
    ):
        with pytest.raises(Raised, match=words):
            ask()
    assert user.list() == ["alpha"]
    assert user.list_smartmodules() == []
    assert broker.complaints() == []


def test_made_and_used_at_once(user: FluvioUser, broker: Daemon) -> None:
    """A topic that was just made is known to other clients when its maker hears of it."""
    with fluvio_user(f"127.0.0.1:{broker.port}") as other:
        other.list()
        for index in range(50):
            user.create(f"fresh-{index}")
            assert other.produce_text(f"fresh-{index}", ["a"]) == [0]


def test_watch(user: FluvioUser, broker: Daemon) -> None:
    """A program that watches topics hears of each change."""
    user.create("alpha")
    assert user.watch() == [["alpha", "consumer-offset"], []]
    with fluvio_user(f"127.0.0.1:{broker.port}") as other:
        other.create("beta", partitions=2)
        assert user.watch() == [[], [[True, "beta"]]]
        other.delete("alpha")
        assert user.watch() == [[], [[False, "alpha"]]]


# -- producing -------------------------------------------------------------------------


def test_one_by_one(user: FluvioUser) -> None:
    """Records that are sent one by one, with keys and without."""
    user.create("alpha")
    assert user.produce_text("alpha", ["one", "zwei", ""]) == [0, 1, 2]
    assert user.produce("alpha", [(b"k", b"v"), (b"\0\xff", b"\xfe")], at_once=False) == [(0, 3), (0, 4)]
    assert user.read("alpha", 5) == [
        (0, b"", b"one"),
        (1, b"", b"zwei"),
        (2, b"", b""),
        (3, b"k", b"v"),
        (4, b"\0\xff", b"\xfe"),
    ]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressed(user: FluvioUser, compression: str) -> None:
    """Batches of every compression come back as they were."""
    user.create("alpha")
    pairs = [(b"k%d" % each, b"v%d" % each * 20) for each in range(500)]
    placed = user.produce("alpha", pairs, compression=compression)
    assert placed == [(0, each) for each in range(500)]
    assert [(key, value) for _, key, value in user.read("alpha", 500)] == pairs


def test_isolation(user: FluvioUser) -> None:
    """Both kinds of acknowledgement."""
    user.create("alpha")
    for index, isolation in enumerate(("ReadCommitted", "ReadUncommitted")):
        assert user.produce("alpha", [(b"", b"a")], isolation=isolation) == [(0, index)]


def test_partitions(user: FluvioUser) -> None:
    """Records of one key go to one partition, in order; all are found in all partitions together."""
    user.create("alpha", partitions=3)
    pairs = [(b"k%d" % (each % 10), b"%d" % each) for each in range(300)]
    placed = user.produce("alpha", pairs)
    assert {partition for partition, _ in placed} == {0, 1, 2}
    found = decoded(user.read_all_partitions("alpha", 300))
    assert sorted((key, value) for _, key, value in found) == sorted(pairs)
    for index in range(3):
        mine = [pair for pair, (partition, _) in zip(pairs, placed, strict=True) if partition == index]
        read = user.read("alpha", len(mine), partition=index)
        assert [(key, value) for _, key, value in read] == mine


def test_large_record(user: FluvioUser) -> None:
    """A record of 3 MiB, which is more than a consumer asks for at once."""
    user.create("alpha")
    value = os.urandom(3 * 1024 * 1024)
    how = {"max_request_size": 8 * 1024 * 1024, "batch_size": 4 * 1024 * 1024}
    assert user.produce("alpha", [(b"k", value)], **how) == [(0, 0)]
    assert user.read("alpha", 1) == [(0, b"k", value)]


def test_too_large(make_daemon: Callable[..., Daemon]) -> None:
    """A batch that is larger than it may be is refused, and the producer goes on."""
    broker = make_daemon("--storage=memory", "--set=max.message.bytes=10000", listen=LISTEN).start()
    with fluvio_user(f"127.0.0.1:{broker.port}") as user:
        user.create("alpha")
        with pytest.raises(Raised, match=r"too large|MessageTooLarge"):
            user.produce("alpha", [(b"", b"x" * 20_000)])
        assert user.produce("alpha", [(b"", b"x" * 2_000)]) == [(0, 0)]


# -- consuming -------------------------------------------------------------------------


def test_offsets_to_begin_at(user: FluvioUser) -> None:
    """From the beginning, from the end, and from a place between."""
    user.create("alpha")
    user.produce("alpha", [(b"", b"%d" % each) for each in range(100)])
    for offset, first in (
        (("absolute", 42), 42),
        (("from_beginning", 7), 7),
        (("from_end", 3), 97),
    ):
        assert user.read("alpha", 2, offset) == [
            (first, b"", b"%d" % first),
            (first + 1, b"", b"%d" % (first + 1)),
        ]


def test_live(user: FluvioUser, broker: Daemon) -> None:
    """What comes while a consumer waits reaches it at once."""
    user.create("alpha")
    user.produce_text("alpha", ["before"])
    user.open("live", "alpha", ["end"])
    with fluvio_user(f"127.0.0.1:{broker.port}") as other:
        other.list()
        for index in range(20):
            began = time.monotonic()
            other.produce_text("alpha", [f"live {index}"])
            ((offset, _, value),) = decoded(user.next("live", 1))
            assert (offset, value) == (index + 1, b"live %d" % index)
            assert time.monotonic() - began < 5


def test_not_continuous(user: FluvioUser) -> None:
    """A consumer that wants only what is there ends there."""
    user.create("alpha")
    user.produce("alpha", [(b"", b"%d" % each) for each in range(10)])
    user.open("some", "alpha", continuous=False)
    assert len(user.next("some", 100)) == 10
    user.create("empty")
    user.open("none", "empty", continuous=False)
    assert user.next("none", 100) == []


def test_smart_module(user: FluvioUser) -> None:
    """A module that is asked for is not there; that is said, and not passed over."""
    user.create("alpha")
    user.produce_text("alpha", ["a"])
    with pytest.raises(Raised, match="upper"):
        user.read_with_module("alpha", "upper")


def test_much_in_small_answers(user: FluvioUser) -> None:
    """Twenty thousand records through answers of 64 KiB: all of them, once, in order."""
    user.create("alpha")
    user.produce_much("alpha", 20_000, 100)
    user.open("small", "alpha", max_bytes=64 * 1024)
    assert user.count("small", 20_000) == [20_000, True]


def test_consumer_that_stalls(user: FluvioUser, broker: Daemon) -> None:
    """One that does not go on reading keeps nobody from it: not others, and not its own connection."""
    user.create("alpha")
    user.produce_much("alpha", 2_000, 1000)
    user.open("stalled", "alpha", max_bytes=64 * 1024)
    assert user.count("stalled", 1) == [1, True]
    with fluvio_user(f"127.0.0.1:{broker.port}") as other:
        rounds = 0
        deadline = time.monotonic() + STALL_SECONDS
        while time.monotonic() < deadline or not rounds:
            rounds += 1
            for each in (user, other):
                text = f"round {rounds}"
                (offset,) = each.produce_text("alpha", [text])
                assert each.read("alpha", 1, ("absolute", offset)) == [(offset, b"", text.encode())]
    rest = decoded(user.next("stalled", 1_999))
    assert [value.partition(b"|")[0] for _, _, value in rest] == [b"%d" % each for each in range(1, 2_000)]
    assert broker.complaints() == []


def test_topic_deleted_under_a_stream(user: FluvioUser, broker: Daemon) -> None:
    """Who reads a topic hears that it is gone."""
    user.create("alpha")
    user.produce_text("alpha", ["a"])
    with fluvio_user(f"127.0.0.1:{broker.port}") as other:
        other.begin_read("alpha", 2)
        broker.wait_for_log("(?s)connected.*connected.*connected.*connected.*connected.*connected")
        user.delete("alpha")
        with pytest.raises(Raised, match="deleted"):
            other.finish()


# -- progress --------------------------------------------------------------------------


def read_as(user: FluvioUser, name: str, count: int, strategy: str = "MANUAL") -> list[bytes]:
    """What the consumer called C{kitchen} reads next."""
    user.open(name, "alpha", consumer="kitchen", strategy=strategy)
    return [value for _, _, value in decoded(user.next(name, count))]


def test_manual_commits(user: FluvioUser, broker: Daemon) -> None:
    """What was committed is where the next one begins; what was not comes again."""
    user.create("alpha")
    user.produce("alpha", [(b"", b"%d" % each) for each in range(10)])
    assert read_as(user, "first", 3) == [b"0", b"1", b"2"]
    user.commit("first")
    assert user.offsets() == [["kitchen", "alpha", 0, 2]]
    user.next("first", 2)
    with fluvio_user(f"127.0.0.1:{broker.port}") as other:
        assert read_as(other, "second", 2) == [b"3", b"4"]
    user.delete_offset("kitchen", "alpha", 0)
    assert user.offsets() == []
    with fluvio_user(f"127.0.0.1:{broker.port}") as other:
        assert read_as(other, "third", 1) == [b"0"]


def test_automatic_commits(user: FluvioUser, broker: Daemon) -> None:
    """So it is with who has the package commit by itself."""
    user.create("alpha")
    user.produce("alpha", [(b"", b"%d" % each) for each in range(10)])
    read_as(user, "first", 4, "AUTO")
    user.close("first")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not user.offsets() and time.monotonic() < deadline:
        time.sleep(0.1)
    ((_, _, _, offset),) = user.offsets()
    assert 0 <= offset <= 3
    with fluvio_user(f"127.0.0.1:{broker.port}") as other:
        assert read_as(other, "second", 1) == [b"%d" % (offset + 1)]


def test_restart(make_daemon: Callable[..., Daemon]) -> None:
    """Topics, records and progress outlive the broker."""
    broker = make_daemon(listen=f"fluvio=tcp:{free_port()}:interface=127.0.0.1").start()
    with fluvio_user(f"127.0.0.1:{broker.port}") as user:
        user.create("alpha")
        user.produce("alpha", [(b"", b"%d" % each) for each in range(5)])
        read_as(user, "first", 2)
        user.commit("first")
        broker.stop()
        broker.start()
    with fluvio_user(f"127.0.0.1:{broker.port}") as user:
        assert user.list() == ["alpha"]
        assert read_as(user, "second", 3) == [b"2", b"3", b"4"]
        assert user.offsets() == [["kitchen", "alpha", 0, 1]]


def test_stop_with_streams(user: FluvioUser, broker: Daemon) -> None:
    """A broker whose clients consume stops at once."""
    user.create("alpha")
    user.produce_text("alpha", ["a"])
    user.open("live", "alpha")
    user.next("live", 1)
    began = time.monotonic()
    broker.stop()
    assert time.monotonic() - began < 5


# -- places ----------------------------------------------------------------------------


def test_two_ports(make_daemon: Callable[..., Daemon]) -> None:
    """Where units have a port of their own, clients find it, and the controller's is only that."""
    broker = make_daemon(
        "--storage=memory", "--listen=fluvio-spu=tcp:0:interface=127.0.0.1", listen=LISTEN
    ).start()
    with fluvio_user(f"127.0.0.1:{broker.ports[0]}") as user:
        user.create("alpha")
        assert user.produce_text("alpha", ["a"]) == [0]
        assert user.read("alpha", 1) == [(0, b"", b"a")]
    assert "connected to fluvio-spu" in broker.log


def test_advertised(make_daemon: Callable[..., Daemon]) -> None:
    """Clients go where they are told to."""
    port = free_port()
    broker = make_daemon(
        "--storage=memory",
        f"--advertise=localhost:{port}",
        listen=f"fluvio=tcp:{port}:interface=127.0.0.1",
    ).start()
    with fluvio_user(f"127.0.0.1:{port}") as user:
        user.create("alpha")
        assert user.produce_text("alpha", ["a"]) == [0]
    assert broker.complaints() == []


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6")
def test_ipv6(make_daemon: Callable[..., Daemon]) -> None:
    """So do those that came over IPv6."""
    broker = make_daemon("--storage=memory", listen=r"fluvio=tcp:0:interface=\:\:1").start()
    with fluvio_user(f"[::1]:{broker.port}") as user:
        user.create("alpha")
        assert user.produce_text("alpha", ["a"]) == [0]


def test_tls(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """Over TLS, the certificate is for the domain, and for the unit's name in it."""
    authority = Authority(tmp_path)
    server = authority.sign("server", "rustlog.example", "*.rustlog.example")
    client = authority.sign("client")
    broker = make_daemon(
        "--storage=memory",
        listen=f"fluvio=ssl:0:privateKey={server.key}:certKey={server.certificate}:interface=127.0.0.1",
    ).start()
    tls = {
        "domain": "rustlog.example",
        "key": str(client.key),
        "certificate": str(client.certificate),
        "authority": str(authority.certificate),
    }
    with fluvio_user(f"127.0.0.1:{broker.port}", tls) as user:
        user.create("alpha")
        pairs = [(b"k%d" % each, os.urandom(10_000)) for each in range(200)]
        user.produce("alpha", pairs)
        assert [(key, value) for _, key, value in user.read("alpha", 200)] == pairs
    assert broker.complaints() == []


# -- bad clients -----------------------------------------------------------------------


def test_garbage(broker: Daemon, user: FluvioUser) -> None:
    """Bytes that mean nothing cost their sender the connection, and nobody else anything."""
    user.create("alpha")
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\2xy", b"\0\0\0\x10" + b"\xff" * 16):
        with socket.create_connection(("127.0.0.1", broker.port), PATIENCE_SECONDS) as bad:
            bad.sendall(data)
            assert bad.recv(100) == b""
    assert user.produce_text("alpha", ["a"]) == [0]


def test_client_that_never_reads(make_daemon: Callable[..., Daemon]) -> None:
    """It is cut off, and the broker does not grow."""
    broker = make_daemon(
        "--storage=memory", "--set=slow.client.timeout.ms=1000", listen=LISTEN
    ).start()
    with fluvio_user(f"127.0.0.1:{broker.port}") as user:
        user.create("alpha")
        user.produce_much("alpha", 10_000, 1000)
        before = broker.memory_max()
        wire = Wire(broker.port)
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for number in range(200):
            wire.send(1003, 24, number, stream_request(b"alpha", 2**30))
        broker.wait_for_log("it neither sent nor read anything")
        assert user.produce_text("alpha", ["a"]) == [10_000]
        assert broker.memory_max() - before < 100 * 1024 * 1024
        wire.close()


def stream_request(topic: bytes, max_bytes: int) -> bytes:
    """The body of a StreamFetch from the beginning."""
    place = struct.pack(">IqiB", 0, 0, max_bytes, 0)
    return struct.pack(">h", len(topic)) + topic + place + b"\0\0\0\0" + b"\0"


def test_many_streams(broker: Daemon) -> None:
    """A connection may have hundreds of streams, which all go on."""
    wire = Wire(broker.port)
    wire.create("alpha")
    for number in range(300):
        wire.send(1003, 24, number, stream_request(b"alpha", 1000))
    for value in (b"one", b"two"):
        wire.send(0, 7, 999, example_of_the_description(b"alpha", value))
        answers: dict[int, Any] = {}
        while len(answers) < 301:
            number, body = wire.receive()
            answers[number] = body
        assert set(answers) == {*range(300), 999}
        ids = [struct.unpack(">I", answers[number][7:11])[0] for number in range(300)]
        assert sorted(ids) == list(range(1, 301))
        for each in ids:
            wire.send(1005, 0, 1000, struct.pack(">iqI", 1, 99, each))
        for _ in ids:
            assert wire.receive()[0] == 1000
    wire.close()
