"""What the RustLog protocol has beyond its core, against a real broker, from bare sockets."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import binary_client as binary
from tests.integration.daemon import Client, Daemon
from tests.protocol_page import conversation, is_same

MEBIBYTE = 1024 * 1024
ORDERS = {"topic": "orders", "partition": 0}


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    """A client of a broker that has a topic C{orders}."""
    with daemon.client() as client:
        client.create("orders")
        yield client


def fetch(client: Client, offset: int = 0, **how: Any) -> Any:
    """The answer to a Fetch, or what went wrong."""
    answer = client.call("Fetch", **{**ORDERS, "offset": offset, "max_bytes": 2**40, **how})
    return answer.get("Fetch", answer)


def test_reference_page(make_daemon: Callable[..., Daemon], storage: str) -> None:
    """The conversation on the reference page."""
    daemon = make_daemon(f"--storage={storage}", "--offsets=memory").start()
    with daemon.client() as client:
        for request, expected in conversation():
            answer = client.exchange(request)
            assert is_same(expected, answer), (request, answer)


def test_binary_and_json(client: Client) -> None:
    """What is written in one encoding is read in the other, on the same connection."""
    assert binary.parse(client.exchange(binary.produce(b"a", b"\x00\xff"))) == ("Produce", 0, 2)
    client.call("Produce", **ORDERS, records=["Yg=="], keys=["aw=="], encoding="base64")
    assert binary.parse(client.exchange(binary.fetch(1))) == ("Fetch", [b"\x00\xff", b"b"], 3)
    assert fetch(client, 1)["records"] == [
        {"offset": 1, "payload": [0, 255]},
        {"offset": 2, "payload": [98]},
    ]
    name, text = binary.parse(client.exchange(binary.METRICS))
    assert name == "MetricsFetch"
    assert b"rustlog_requests_total{" in text


def test_record_that_only_binary_can_carry(client: Client) -> None:
    """The largest record that fits a frame goes in and comes out; JSON says how."""
    largest = bytes(range(256)) * 40_959 + b"x" * 200
    room = 10 * MEBIBYTE - len(binary.produce(b""))
    record = largest[:room]
    assert binary.parse(client.exchange(binary.produce(record))) == ("Produce", 0, 1)
    for encoding in ("json", "base64"):
        message = fetch(client, encoding=encoding)["Error"]["message"]
        assert message.startswith("max frame size exceeded: record at offset 0 has "), message
        assert message.endswith("fetch it with the binary encoding, or go on behind it with 1"), message
    assert binary.parse(client.exchange(binary.fetch(max_bytes=1))) == ("Fetch", [record], 1)


def test_record_that_base64_can_carry(client: Client) -> None:
    """A record that is too large as an array of numbers is not too large as base64."""
    record = b"\xff" * (7 * MEBIBYTE)
    text = base64.b64encode(record).decode()
    assert client.call("Produce", **ORDERS, records=[text], encoding="base64") == {
        "Produce": {"offsets": [0]}
    }
    message = fetch(client)["Error"]["message"]
    assert 'fetch it with "encoding": "base64" or the binary encoding' in message
    (found,) = fetch(client, encoding="base64")["records"]
    assert found == {"offset": 0, "payload": text}


def test_many_records_in_each_encoding(client: Client) -> None:
    """Going on from next_offset meets every record once, in all encodings."""
    records = [bytes([number % 256]) * (number % 1000) for number in range(5000)]
    for start in range(0, 5000, 500):
        client.exchange(binary.produce(*records[start : start + 500]))
    for encoding in ("json", "base64"):
        found: list[bytes] = []
        while len(found) < 5000:
            answer = fetch(client, len(found), max_bytes=300_000, encoding=encoding)["records"]
            for each in answer:
                payload = each["payload"]
                found.append(bytes(payload) if encoding == "json" else base64.b64decode(payload))
        assert found == records
    found, offset = [], 0
    while offset < 5000:
        _, payloads, offset = binary.parse(client.exchange(binary.fetch(offset, max_bytes=300_000)))
        found += payloads
    assert found == records


def test_long_poll(daemon: Daemon, client: Client) -> None:
    """Who waits is answered as soon as there is something, and when the time is over."""
    began = time.monotonic()
    assert fetch(client, max_wait_ms=300) == {"records": [], "next_offset": 0}
    assert time.monotonic() - began >= 0.3
    client.send("Fetch", **ORDERS, offset=0, max_bytes=1000, max_wait_ms=30_000)
    with daemon.client() as other:
        time.sleep(0.1)
        began = time.monotonic()
        other.call("Produce", **ORDERS, records=[[1]])
        assert client.receive()["Fetch"]["next_offset"] == 1
        assert time.monotonic() - began < 5


def test_many_wait(daemon: Daemon, client: Client) -> None:
    """More clients may wait than there is memory for answers, and nobody else is held up."""
    waiting = [daemon.client() for _ in range(60)]
    clients = [each.__enter__() for each in waiting]
    try:
        for each in clients:
            each.send("Fetch", **ORDERS, offset=0, max_bytes=1000, max_wait_ms=30_000)
        time.sleep(0.2)
        assert fetch(client)["records"] == []
        client.call("Produce", **ORDERS, records=[[7]])
        for each in clients:
            assert each.receive()["Fetch"]["records"] == [{"offset": 0, "payload": [7]}]
    finally:
        for one in waiting:
            one.__exit__(None, None, None)


def test_stop_does_not_wait_for_who_waits(make_daemon: Callable[..., Daemon]) -> None:
    """A broker that is asked to stop answers who waits, and stops at once."""
    daemon = make_daemon("--storage=memory").start()
    with daemon.client() as client:
        client.create("orders")
        client.send("Fetch", **ORDERS, offset=0, max_bytes=1000, max_wait_ms=30_000)
        time.sleep(0.2)
        began = time.monotonic()
        stopping = threading.Thread(target=daemon.stop)
        stopping.start()
        assert client.receive() == {"Fetch": {"records": [], "next_offset": 0}}
        assert time.monotonic() - began < 4
        assert client.is_closed()
        client.socket.close()
        stopping.join()


def test_auto_commit(client: Client) -> None:
    """A group that commits by fetching sees every record once."""
    client.call("Produce", **ORDERS, records=[[number] for number in range(100)])
    seen = []
    while True:
        found = fetch(client, max_bytes=7, group_id="g", auto_commit=True)
        if not found["records"]:
            break
        seen += [each["payload"][0] for each in found["records"]]
    assert seen == list(range(100))
    (offset,) = client.call("DescribeGroup", group_id="g")["DescribeGroup"]["offsets"]
    assert (offset["offset"], offset["lag"]) == (100, 0)


def test_administration_survives_a_restart(make_daemon: Callable[..., Daemon]) -> None:
    """Topics, their settings and the starts of their logs are as durable as records."""
    daemon = make_daemon("--storage=segments").start()
    with daemon.client() as client:
        for topic in ("orders", "doomed"):
            client.create(topic)
        client.call("Produce", **ORDERS, records=[[1], [2], [3]])
        client.call("DeleteRecords", **ORDERS, before=2)
        client.call("AlterTopic", topic="orders", partitions=3, config={"retention.ms": 5_000_000})
        client.call("DeleteTopic", topic="doomed")
        before = client.call("DescribeTopic", topic="orders")
    daemon.kill()
    daemon.start()
    with daemon.client() as client:
        after = client.call("DescribeTopic", topic="orders")["DescribeTopic"]
        assert after["id"] == before["DescribeTopic"]["id"]
        assert after["config"] == {"retention.ms": "5000000"}
        bounds = [(each["log_start_offset"], each["high_watermark"]) for each in after["partitions"]]
        assert bounds == [(2, 3), (0, 0), (0, 0)]
        names = [each["topic"] for each in client.call("ListTopics")["ListTopics"]["topics"]]
        assert "doomed" not in names
        assert fetch(client)["Error"]["message"] == "offset out of range: 0 is not within 2..3"
        assert fetch(client, offset_reset="earliest")["records"] == [{"offset": 2, "payload": [3]}]


def test_nonsense(client: Client) -> None:
    """Whatever a client sends, framed, is answered, and the connection goes on."""
    for payload in (
        b"",
        b"\x00",
        b"\x01",
        b"\x01" * 1000,
        b"\x02\xff\xff",
        b"\x09\x09",
        b"\xfe\x00\x01",
        b"\xff\xff",
        b"null",
        b'"Produce"',
        b'{"Ping": 5}',
        json.dumps({"Produce": {**ORDERS, "records": ["a"]}}).encode(),
    ):
        answer = client.exchange(payload)
        if answer[:1] == b"\xfe":
            name, code, message = binary.parse(answer)
            assert (name, code) == ("Error", 2)
        else:
            message = json.loads(answer)["Error"]["message"]
        assert message.startswith("failed to parse request: "), message
    assert client.exchange(b"\xff") == b"\xff"
