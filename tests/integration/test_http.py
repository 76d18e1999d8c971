"""The HTTP listener of a real broker, asked by real clients."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.daemon import PATIENCE_SECONDS, Client, Daemon, every_now_and_then

HTTP = "--listen=http=tcp:0:interface=127.0.0.1"
MEBIBYTE = 1024 * 1024

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Site:
    """The HTTP listener of a daemon that also listens for RustLog clients, first."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        match = daemon.wait_for_log(r"ready: .*\bhttp on 127\.0\.0\.1:(\d+)")
        self.port = int(match[1])
        self.base = f"http://127.0.0.1:{self.port}"

    def get(self, path: str, method: str = "GET") -> tuple[int, Any, bytes]:
        """Status, headers and body."""
        try:
            with urlopen(Request(self.base + path, method=method), timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.headers, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def json(self, path: str) -> Any:
        status, headers, body = self.get(path)
        assert (status, headers["Content-Type"]) == (200, "application/json"), body
        return json.loads(body)

    def samples(self) -> Samples:
        """What Prometheus would read."""
        status, headers, body = self.get("/metrics")
        assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
        }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


@pytest.fixture
def site(make_daemon: Callable[..., Daemon]) -> Site:
    """Of a broker that keeps its log in files."""
    return Site(make_daemon("--storage=segments", HTTP).start())


def test_metrics(site: Site) -> None:
    """What clients do can be seen in the metrics, in numbers that only grow."""
    before = site.samples()
    produce = {"protocol": "rustlog", "listener": "rustlog", "request": "Produce"}
    assert ("rustlog_requests_total", frozenset({*produce.items(), ("outcome", "ok")})) not in before
    with site.daemon.client() as client:
        client.create("orders", 2)
        for _ in range(10):
            client.call("Produce", topic="orders", partition=0, records=[[1, 2], [3]])
        client.call("Produce", topic="nowhere", partition=0, records=[[1]])
        client.call("OffsetCommit", topic="orders", partition=0, group_id="a/b", offset=5)
        client.call("Fetch", topic="orders", partition=0, offset=0, max_bytes=MEBIBYTE)
        after = site.samples()
        assert value(after, "rustlog_connections", protocol="rustlog", listener="rustlog") == 1
    assert value(after, "rustlog_requests_total", **produce, outcome="ok") == 10
    assert value(after, "rustlog_requests_total", **produce, outcome="PartitionNotFound") == 1
    assert value(after, "rustlog_request_seconds_count", **produce) == 11
    assert value(after, "rustlog_request_seconds_sum", **produce) > 0
    assert value(after, "rustlog_appended_records_total", protocol="rustlog") == 20
    assert value(after, "rustlog_read_bytes_total", protocol="rustlog") > 0
    assert value(after, "rustlog_sync_round_seconds_count") >= 10
    assert value(after, "rustlog_synced_files_total") >= 10
    assert value(after, "rustlog_topic_records", topic="orders") == 20
    assert value(after, "rustlog_topic_bytes", topic="orders") > 0
    assert value(after, "rustlog_topics") == value(before, "rustlog_topics") + 1
    assert value(after, "rustlog_partitions") == value(before, "rustlog_partitions") + 2
    assert value(after, "rustlog_group_lag", group="a/b", topic="orders") == 15
    scrapes = {"protocol": "http", "listener": "http", "request": "metrics"}
    assert value(after, "rustlog_requests_total", **scrapes, outcome="ok") == 1
    assert value(after, "process_resident_memory_bytes") > MEBIBYTE
    assert value(after, "process_open_fds") > 3


def test_reactor_lag(site: Site) -> None:
    """The reactor is measured all the time, also when nobody does anything."""
    for _ in every_now_and_then("the reactor was measured", site.daemon.describe):
        if value(site.samples(), "rustlog_reactor_lag_seconds_count") >= 1:
            break


def test_api(site: Site) -> None:
    """Topics and groups can be looked at, whatever they are called."""
    with site.daemon.client() as client:
        client.create("orders", 2, **{"retention.ms": "1000000"})
        client.call("Produce", topic="orders", partition=1, records=[[1], [2], [3]])
        client.call("OffsetCommit", topic="orders", partition=1, group_id="a/b ü", offset=1)
    (topic,) = (each for each in site.json("/api/topics")["topics"] if not each["internal"])
    assert (topic["name"], topic["partitions"], topic["records"]) == ("orders", 2, 3)
    described = site.json("/api/topics/orders")
    assert described["config"] == {"retention.ms": "1000000"}
    assert [each["high_watermark"] for each in described["partitions"]] == [0, 3]
    assert [each["bytes"] for each in described["partitions"]] == [0, topic["bytes"]]
    assert site.json("/api/groups") == {"groups": [{"group": "a/b ü", "partitions": 1, "lag": 2}]}
    group = site.json("/api/groups/a%2Fb%20%C3%BC")
    assert (group["group"], group["lag"], group["offsets"][0]["offset"]) == ("a/b ü", 2, 1)
    status, headers, body = site.get("/api/topics/nothing")
    assert (status, headers["Content-Type"]) == (404, "application/json")
    assert json.loads(body) == {"error": "TopicNotFound", "message": "topic not found: nothing"}


def test_pages(site: Site) -> None:
    """There is a page for people; HEAD works, writing does not."""
    status, headers, body = site.get("/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"<h1>rustlog " in body
    status, headers, empty = site.get("/healthz", "HEAD")
    assert (status, headers["Content-Length"], empty) == (200, "3", b"")
    status, headers, _ = site.get("/metrics", "POST")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert site.get("/nowhere")[0] == 404


def test_keep_alive(site: Site) -> None:
    """A client can keep its connection, as Prometheus does."""
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE_SECONDS)
    for _ in range(3):
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"ready\n")
    samples = site.samples()
    place = {"protocol": "http", "listener": "http"}
    assert value(samples, "rustlog_requests_total", **place, request="readyz", outcome="ok") == 3
    assert value(samples, "rustlog_connections_opened_total", **place) == 2
    connection.close()


def test_stop(site: Site) -> None:
    """While the broker waits for its clients to take their answers, it is alive, but not ready."""
    with site.daemon.client() as deaf:
        deaf.create("orders")
        deaf.call("Produce", topic="orders", partition=0, records=[[7] * MEBIBYTE])
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(20):
            deaf.send("Fetch", topic="orders", partition=0, offset=0, max_bytes=MEBIBYTE)
        site.daemon.signal(signal.SIGTERM)
        site.daemon.wait_for_log("stopping")
        assert site.get("/healthz")[0] == 200
        status, _, body = site.get("/readyz")
        assert (status, body) == (503, b"the broker is stopping\n")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", site.daemon.port), PATIENCE_SECONDS)
        site.daemon.signal(signal.SIGTERM)
        assert site.daemon.wait() == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", site.port), PATIENCE_SECONDS)
    assert "Traceback" not in site.daemon.log


def test_idle_connections_do_not_delay_a_stop(site: Site) -> None:
    """A kept connection is closed when the broker stops, without waiting."""
    with socket.create_connection(("127.0.0.1", site.port), PATIENCE_SECONDS) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
        started = time.monotonic()
        site.daemon.stop()
        assert time.monotonic() - started < 5
        assert connection.recv(1) == b""


def test_large_body(site: Site) -> None:
    """Whoever uploads gets an answer all the same, not a broken connection."""
    with socket.create_connection(("127.0.0.1", site.port), PATIENCE_SECONDS) as connection:
        connection.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        connection.sendall(b"x" * 1_000_000)
        assert re.match(rb"HTTP/1.1 413 .*\r\n", connection.recv(1000))


def test_ten_thousand_partitions(make_daemon: Callable[..., Daemon]) -> None:
    """With ten thousand partitions, other clients are served while somebody looks at all of them."""
    site = Site(make_daemon("--storage=memory", HTTP).start())
    before = value(site.samples(), "rustlog_partitions")
    with site.daemon.client() as client, ExitStack() as stack:
        for number in range(10):
            client.create(f"topic-{number}", 1000)
        scraper = stack.enter_context(socket.create_connection(("127.0.0.1", site.port), PATIENCE_SECONDS))
        served = _served_while_scraping(client, scraper)
        assert len(site.json("/api/topics/topic-3")["partitions"]) == 1000
        assert value(site.samples(), "rustlog_partitions") == before + 10_000
    assert served > 10


def _served_while_scraping(client: Client, scraper: socket.socket) -> int:
    """How many small requests are answered between asking for metrics and getting them."""
    served = 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    scraper.setblocking(False)
    while time.monotonic() < deadline:
        assert "Produce" in client.call("Produce", topic="topic-0", partition=0, records=[[1]])
        try:
            assert scraper.recv(10).startswith(b"HTTP/1.1 2")
            return served
        except BlockingIOError:
            served += 1
    raise AssertionError("the metrics do not come")
