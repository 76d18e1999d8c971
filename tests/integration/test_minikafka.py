"""The MiniKafka protocol against a real broker, beside the others."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from tests.integration.daemon import PATIENCE_SECONDS, ROOT, Daemon, free_port
from tests.integration.kafka_clients import Confluent, Message

_SESSION = re.compile(r"^```session\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class MiniClient:
    """A bare socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self._input = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def line(self) -> bytes:
        return self._input.readline()

    def ask(self, data: bytes) -> bytes:
        self.send(data)
        return self.line()

    def produce(self, topic: str, key: str, payload: bytes) -> bytes:
        return self.ask(f"TOPIC {topic} {key} {len(payload)}\n".encode() + payload)

    def consume(self, request: str, count: int) -> list[bytes]:
        """So many messages, each of them acknowledged; the one that is pushed behind them is not."""
        found = []
        answer = self.ask(request.encode() + b"\n")
        for _ in range(count):
            found.append(self._payload(answer))
            assert self.ask(b"ACK\n") == b"+OK\n"
            answer = self.line()
        if answer != b"+EMPTY\n":
            self._payload(answer)
        return found

    def _payload(self, answer: bytes) -> bytes:
        word, _, length, *_ = answer.split(b" ")
        assert word == b"+MSG", answer
        return self._input.read(int(length))

    def read(self, size: int) -> bytes:
        return self._input.read(size)

    def close(self) -> None:
        self._input.close()
        self._socket.close()


@pytest.fixture
def broker(make_daemon: Callable[..., Daemon]) -> Daemon:
    """Its ports are those of rustlog, kafka and minikafka."""
    return make_daemon(
        f"--listen=kafka=tcp:{free_port()}:interface=127.0.0.1",
        "--listen=minikafka=tcp:0:interface=127.0.0.1",
        "--set=group.initial.rebalance.delay.ms=0",
    ).start()


@pytest.fixture
def client(broker: Daemon) -> Iterator[MiniClient]:
    client = MiniClient(broker.ports[2])
    yield client
    client.close()


def kafka_server(broker: Daemon) -> str:
    return f"127.0.0.1:{broker.ports[1]}"


def consume_over_kafka(broker: Daemon, group: str, count: int) -> list[bytes]:
    """Join the group, read so many, commit them, leave."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka_server(broker),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    found = []
    for each in consumer.consume(count, PATIENCE_SECONDS):
        assert each.error() is None, each.error()
        found.append(each.value())
        consumer.commit(each, asynchronous=False)
    consumer.close()
    return found


def test_page(client: MiniClient) -> None:
    """The conversation of the reference page is the one that is had."""
    page = (ROOT / "docs/reference/minikafka-protocol.md").read_text("utf-8")
    (session,) = _SESSION.findall(page)
    turns = re.findall(r"((?:^> .*\n)+)((?:^[^>\n].*\n)+)", session, re.MULTILINE)
    assert len(turns) == 10
    for said, answer in turns:
        first, *others = (line[2:] for line in said.splitlines())
        client.send(f"{first}\n{''.join(others)}".encode())
        expected = re.sub(r"^(\+MSG .*\n.*)\n", r"\1", answer, flags=re.MULTILINE)
        assert client.read(len(expected)).decode() == expected


def test_one_group_over_all_protocols(broker: Daemon, client: MiniClient) -> None:
    """A group goes on over one protocol where it stopped over another: nothing lost, nothing twice."""
    values = [b"%d" % each for each in range(12)]
    assert [client.produce("orders", "k", each) for each in values] == [
        b"+OFFSET %d\n" % each for each in range(12)
    ]
    found = consume_over_kafka(broker, "bar", 4)
    found += client.consume("orders:bar:0", 3)
    with broker.client() as rustlog:
        place = {"topic": "orders", "partition": 0, "group_id": "bar"}
        answer = rustlog.call("Fetch", **place, offset=0, max_bytes=2, auto_commit=True)["Fetch"]
        found += [bytes(each["payload"]) for each in answer["records"]]
    found += client.consume("orders:bar:0", 1)
    found += consume_over_kafka(broker, "bar", 12 - len(found))
    assert found == values
    assert client.ask(b"orders:bar:0\n") == b"+EMPTY\n"


def test_commits_are_records(broker: Daemon, client: MiniClient) -> None:
    """A consumer of Kafka can read what was acknowledged."""
    client.produce("orders", "k", b"tea")
    client.consume("orders:bar:0", 1)
    (record,) = Confluent(kafka_server(broker)).consume("__consumer_offsets", 1)
    assert (record.key, record.value) == (b"bar:orders:0", b"1")


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed(broker: Daemon, client: MiniClient, compression: str) -> None:
    """What was compressed over Kafka is read message by message."""
    values = [b"%d " % each * 20 for each in range(50)]
    user = Confluent(kafka_server(broker))
    user.produce("orders", [Message(each) for each in values], compression=compression)
    assert client.consume("orders:bar:0", 50) == values
