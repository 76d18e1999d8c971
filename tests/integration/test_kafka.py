"""The Kafka protocol against a real broker, from real clients."""

from __future__ import annotations

import asyncio
import platform
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.integration.daemon import Daemon
from tests.integration.kafka_clients import Aiokafka, Confluent, Message

KAFKA = "--listen=kafka=tcp:0:interface=127.0.0.1"


@pytest.fixture(scope="module", params=["segments", "memory"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for all tests here, which use topics of their own: for RustLog, and for Kafka."""
    directory: Path = tmp_path_factory.mktemp(request.param)
    with Daemon(directory, KAFKA, f"--storage={request.param}", "--sync=never", "--partitions=2") as daemon:
        yield daemon


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test."""
    return "".join(each if each.isalnum() else "-" for each in request.node.name)


def server(broker: Daemon) -> str:
    return f"127.0.0.1:{broker.ports[1]}"


def test_between_protocols(broker: Daemon, topic: str) -> None:
    """What is written over RustLog is read over Kafka, and the reverse, at the same offsets."""
    user = Confluent(server(broker))
    assert user.produce(topic, [Message(b"kafka 0"), Message(b"kafka 1")], compression="zstd") == [0, 1]
    with broker.client() as client:
        answer = client.call("Produce", topic=topic, partition=0, records=[list(b"rustlog 2")])
        assert answer == {"Produce": {"offsets": [2]}}
        assert user.produce(topic, [Message(b"kafka 3")]) == [3]
        by_rustlog = client.read_all(topic)
    by_kafka = {each.offset: each.value for each in user.consume(topic, 4)}
    assert by_kafka == by_rustlog == {0: b"kafka 0", 1: b"kafka 1", 2: b"rustlog 2", 3: b"kafka 3"}


def test_waiting_for_data(broker: Daemon, topic: str) -> None:
    """A consumer at the end of a log hears of new data at once."""
    user = Aiokafka(server(broker))
    user.produce(topic, [Message(b"first")])

    async def wait() -> float:
        consumer = AIOKafkaConsumer(bootstrap_servers=server(broker), group_id=None, fetch_max_wait_ms=20_000)
        await consumer.start()
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 1)
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0.3)
        started = time.monotonic()
        await asyncio.to_thread(Confluent(server(broker)).produce, topic, [Message(b"second")])
        assert (await waiting).value == b"second"
        took = time.monotonic() - started
        await consumer.stop()
        return took

    assert asyncio.run(wait()) < 5


def test_much(broker: Daemon, topic: str) -> None:
    """Many megabytes in many batches come back as they were: nothing lost, doubled or mixed up."""
    user = Confluent(server(broker))
    messages = [Message(b"%d " % number + bytes(1000)) for number in range(20_000)]
    assert user.produce(topic, messages, idempotent=True) == list(range(20_000))
    assert [each.value for each in user.consume(topic, 20_000)] == [each.value for each in messages]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others have no such setting")
def test_memory_is_used_again(tmp_path: Path) -> None:
    """The memory of one request serves the next: the kernel need not clear new pages for each."""
    with Daemon(tmp_path, KAFKA, "--storage=segments", "--sync=never") as daemon:
        user = Confluent(server(daemon))
        messages = [Message(bytes(1_000_000))] * 20
        user.produce("orders", messages)
        before = page_faults(daemon.pid)
        user.produce("orders", messages * 3)
        assert page_faults(daemon.pid) - before < 500


def page_faults(pid: int) -> int:
    """How often the kernel had to find a page for a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[7])


def test_restart(tmp_path: Path) -> None:
    """After a restart everything is still there, and producing goes on."""
    with Daemon(tmp_path, KAFKA) as daemon:
        user = Confluent(server(daemon))
        assert user.produce("orders", [Message(b"before")]) == [0]
        daemon.stop()
        daemon.start()
        user = Confluent(server(daemon))
        assert user.produce("orders", [Message(b"after")]) == [1]
        assert [each.value for each in user.consume("orders", 2)] == [b"before", b"after"]


def test_limit_of_records(tmp_path: Path) -> None:
    """With kafka.fetch.max.records, consumers still get everything, in smaller steps."""
    with Daemon(tmp_path, KAFKA, "--storage=memory", "--set=kafka.fetch.max.records=100") as daemon:
        user = Confluent(server(daemon))
        messages = [Message(b"%d" % number) for number in range(1000)]
        user.produce("orders", messages)
        assert len(user.consume("orders", 1000)) == 1000


def test_log_lines(tmp_path: Path) -> None:
    """The log tells of connections and topics; with --log-level=debug, of each step of a request."""
    with Daemon(tmp_path, KAFKA, "--storage=memory", "--log-level=debug") as daemon:
        user = Confluent(server(daemon))
        user.produce("test-topic", [Message(b"a")])
        user.consume("test-topic", 1)
        for line in (
            rf"INFO  Starting rustlog server on 127\.0\.0\.1:{daemon.ports[1]}",
            r"INFO  New connection from: 127\.0\.0\.1:\d+",
            r"DEBUG Processing PRODUCE request \(correlation_id: \d+\)",
            r"DEBUG Produce request for topic: test-topic",
            r"INFO  Creating new topic: test-topic",
            r"DEBUG Message stored at offset 0 in topic test-topic",
            r"DEBUG Sent response \(\d+ bytes\)",
            r"DEBUG Processing FETCH request \(correlation_id: \d+\)",
            r"DEBUG Fetch request for topic: test-topic, offset: 0, max_bytes: \d+",
            r"DEBUG Retrieved 1 messages from topic test-topic",
        ):
            daemon.wait_for_log(line)


def test_rubbish(broker: Daemon) -> None:
    """What is no request ends its connection, and no other."""
    user = Confluent(server(broker))
    for rubbish in (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, 0, 2, 1, -1),
        struct.pack(">i", -5),
        struct.pack(">ihhih", 14, 3, 1, 1, -1) + b"\x7f\xff\xff\xff",
    ):
        with socket.create_connection(("127.0.0.1", broker.ports[1]), 10) as connection:
            connection.sendall(rubbish)
            assert connection.recv(1) == b"", rubbish
    assert user.produce("after-rubbish", [Message(b"a")]) == [0]
