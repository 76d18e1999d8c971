"""Tests for L{rustlog.wire.http.protocol}: HTTP on a connection, and its limits."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.logger import formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog.interfaces import IDrainableFactory
from rustlog.observability.requests import RequestLog
from rustlog.settings import BrokerConfig
from rustlog.wire.connection import SHORT_LINGER_SECONDS
from rustlog.wire.http.answers import Answer
from rustlog.wire.http.protocol import (
    BODY_BYTES_MAX,
    HEADER_BYTES_MAX,
    IDLE_SECONDS_MAX,
    REQUEST_SECONDS_MAX,
    HttpFactory,
    make_factory,
)
from tests.unit.wire.harness import FakeTransport, World

MIB = 1024 * 1024


class Browser:
    """A client of one connection."""

    def __init__(self, factory: HttpFactory, buffer_size: int | None = None) -> None:
        self.transport = FakeTransport(buffer_size)
        self.connection = factory.buildProtocol(None)
        self.connection.makeConnection(self.transport)

    def send(self, data: bytes) -> None:
        self.connection.dataReceived(data)

    def ask(self, path: str, method: str = "GET", *headers: str) -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: test", *headers, "", ""]
        self.send("\r\n".join(lines).encode())

    def answers(self) -> list[tuple[int, dict[str, str], bytes]]:
        """Status, headers and body of all that has come since the last call."""
        data, found = self.transport.value(), []
        self.transport.clear()
        while data:
            head, _, data = data.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            length = int(headers["Content-Length"])
            found.append((int(first.split()[1]), headers, data[:length]))
            data = data[length:]
        return found

    def get(self, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
        self.ask(path, method)
        (answer,) = self.answers()
        return answer

    def disconnect(self) -> None:
        reason = ConnectionAborted() if self.transport.disconnected else ConnectionDone()
        self.connection.connectionLost(Failure(reason))


class HttpCase(SynchronousTestCase):
    config: BrokerConfig | None = None

    def setUp(self) -> None:
        self.world = World(self.config, requests=RequestLog(is_wanted=True))
        self.factory = make_factory(evolve(self.world.listener, name="http"))
        self.clock = self.world.clock

    def browser(self, buffer_size: int | None = None) -> Browser:
        return Browser(self.factory, buffer_size)

    def hold(self) -> Deferred[Answer]:
        """Let /api/groups take until told."""
        waiting: Deferred[Any] = Deferred()
        self.patch(self.world.broker, "groups", lambda _: waiting)
        return waiting


class RequestTests(HttpCase):
    def test_interfaces(self) -> None:
        """It is what the service expects, and closes after all others."""
        verifyObject(IDrainableFactory, self.factory)
        verifyObject(IHalfCloseableProtocol, self.browser().connection)
        self.assertTrue(self.factory.closes_last)

    def test_get(self) -> None:
        """A request is answered, with everything that a careful browser wants to know."""
        status, headers, body = self.browser().get("/healthz")
        self.assertEqual((status, body), (200, b"ok\n"))
        self.assertEqual(headers["Content-Type"], "text/plain; charset=utf-8")
        self.assertEqual(headers["Cache-Control"], "no-store")
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertNotIn("Connection", headers)

    def test_byte_by_byte(self) -> None:
        """However it comes."""
        browser = self.browser()
        for each in b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n":
            browser.send(bytes([each]))
        self.assertEqual([status for status, _, _ in browser.answers()], [200])

    def test_head(self) -> None:
        """HEAD is GET without the body."""
        browser = self.browser()
        browser.ask("/healthz", "HEAD")
        head, _, body = browser.transport.value().partition(b"\r\n\r\n")
        self.assertIn(b"Content-Length: 3", head)
        self.assertEqual(body, b"")

    def test_other_methods(self) -> None:
        """Anything else is not allowed, and the client is told what is."""
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "get"):
            status, headers, body = self.browser().get("/healthz", method)
            self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
            self.assertEqual(json.loads(body)["error"], "MethodNotAllowed")

    def test_keep_alive(self) -> None:
        """Many requests may follow each other on a connection, even before they are answered."""
        browser = self.browser()
        for _ in range(3):
            browser.get("/healthz")
        browser.send(b"GET /healthz HTTP/1.1\r\n\r\nGET /nowhere HTTP/1.1\r\n\r\n")
        self.assertEqual([status for status, _, _ in browser.answers()], [200, 404])
        self.assertFalse(browser.transport.disconnecting)

    def test_close(self) -> None:
        """A client that wants the connection closed gets that."""
        browser = self.browser()
        browser.ask("/healthz", "GET", "Connection: close")
        ((_, headers, _),) = browser.answers()
        self.assertEqual(headers["Connection"], "close")
        self.assertTrue(browser.transport.disconnecting)

    def test_order(self) -> None:
        """Requests are answered one after the other, even if the first takes long."""
        waiting = self.hold()
        browser = self.browser()
        browser.ask("/api/groups")
        browser.ask("/healthz")
        self.assertEqual(browser.answers(), [])
        waiting.callback(())
        self.assertEqual([body for _, _, body in browser.answers()], [b'{"groups":[]}\n', b"ok\n"])

    def test_gone_before_the_answer(self) -> None:
        """Whoever leaves before the answer gets none, and harms nobody."""
        waiting = self.hold()
        browser = self.browser()
        browser.ask("/api/groups")
        browser.disconnect()
        waiting.callback(())
        self.assertEqual(browser.answers(), [])
        self.assertEqual(self.world.capacity.connections, 0)

    def test_half_closed(self) -> None:
        """A client that says it will send nothing more is answered, and then the connection ends."""
        waiting = self.hold()
        browser = self.browser()
        browser.ask("/api/groups")
        browser.connection.readConnectionLost()
        self.assertFalse(browser.transport.disconnecting)
        waiting.callback(())
        self.assertEqual(len(browser.answers()), 1)
        self.assertTrue(browser.transport.disconnecting)

    def test_half_closed_without_request(self) -> None:
        """Without a request, it ends at once."""
        browser = self.browser()
        browser.connection.readConnectionLost()
        self.assertTrue(browser.transport.disconnecting)

    def test_defect(self) -> None:
        """A defect of ours is logged, and the client is told that it was not its fault."""
        self.patch(self.world.broker, "groups", lambda _: fail(ZeroDivisionError()))
        status, _, body = self.browser().get("/api/groups")
        self.assertEqual(status, 500)
        self.assertEqual(json.loads(body)["message"], "internal error")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class ToldTests(HttpCase):
    def setUp(self) -> None:
        super().setUp()
        self.events: list[dict[str, Any]] = []
        globalLogPublisher.addObserver(self.events.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.events.append)

    def lines(self) -> list[str]:
        return [
            f"{each['log_level'].name}: {formatEvent(each)}"
            for each in self.events
            if each.get("log_namespace", "").startswith("rustlog.")
        ]

    def test_log(self) -> None:
        """Each request is a line at DEBUG, like those of other protocols; so are connections here."""
        browser = self.browser()
        browser.get("/healthz")
        browser.get("/readyz", "BREW")
        connected, first, second = self.lines()
        self.assertRegex(connected, r"^debug: \S+ connected to http$")
        self.assertRegex(first, r"^debug: http GET healthz .* \d+ bytes in, 3 bytes out, .*'ok'")
        self.assertRegex(second, r"^debug: http other readyz .*'405'")

    def test_counted(self) -> None:
        """Requests are counted by what was asked for, and by status."""
        browser = self.browser()
        browser.get("/healthz")
        browser.get("/api/topics/nothing")
        browser.get("/api/topics/nowhere")
        browser.get("/made-up")
        meter = self.factory.listener.meter
        self.assertEqual(
            {key: each.count for key, each in meter.tallies.items()},
            {("healthz", "ok"): 1, ("topic", "404"): 2, ("unknown", "404"): 1},
        )
        tally = meter.tallies["healthz", "ok"]
        size = len("GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n")
        self.assertEqual((tally.request_bytes, tally.response_bytes), (size, 3))
        self.assertEqual((meter.open, meter.opened), (1, 1))


class LimitTests(HttpCase):
    config = BrokerConfig(max_connections=2, slow_client_timeout_ms=10_000)

    def test_headers(self) -> None:
        """Headers without end are refused."""
        browser = self.browser()
        browser.send(b"GET /healthz HTTP/1.1\r\n")
        for _ in range(HEADER_BYTES_MAX // 1000 + 1):
            browser.send(b"X-Header: " + b"x" * 990 + b"\r\n")
        self.assertTrue(browser.transport.value().startswith(b"HTTP/1.1 400 "))
        self.assertTrue(browser.transport.disconnecting)

    def test_line(self) -> None:
        """So is a line without end."""
        browser = self.browser()
        browser.send(b"GET /" + b"x" * (2 * HEADER_BYTES_MAX))
        ((status, _, _),) = browser.answers()
        self.assertEqual(status, 431)
        self.assertTrue(browser.transport.is_write_closed)

    def test_not_http(self) -> None:
        """So is what is no HTTP at all."""
        browser = self.browser()
        browser.send(b"\x00\x00\x00\x10{}\r\n\r\n")
        self.assertTrue(browser.transport.disconnecting)

    def test_small_body(self) -> None:
        """A small body is read and thrown away, and the connection goes on."""
        browser = self.browser()
        browser.ask("/healthz", "GET", "Content-Length: 5")
        browser.send(b"12345")
        self.assertEqual([status for status, _, _ in browser.answers()], [200])
        self.assertEqual(browser.get("/healthz")[0], 200)

    def test_large_body(self) -> None:
        """A large one is not waited for; the client is told so, and what it still sends goes nowhere."""
        browser = self.browser()
        browser.ask("/healthz", "POST", f"Content-Length: {MIB}")
        browser.send(b"x" * BODY_BYTES_MAX)
        self.assertEqual(browser.answers(), [])
        browser.send(b"x" * (MIB - BODY_BYTES_MAX))
        ((status, headers, _),) = browser.answers()
        self.assertEqual((status, headers["Connection"]), (413, "close"))
        self.assertTrue(browser.transport.is_write_closed)
        browser.ask("/healthz")
        self.assertEqual(browser.answers(), [])
        self.clock.advance(SHORT_LINGER_SECONDS)
        self.assertTrue(browser.transport.disconnected)
        browser.disconnect()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_chunked_body(self) -> None:
        """So it is with a body that does not say how large it is."""
        browser = self.browser()
        browser.ask("/healthz", "POST", "Transfer-Encoding: chunked")
        for _ in range(5):
            browser.send(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
        self.assertEqual([status for status, _, _ in browser.answers()], [413])

    def test_too_many_connections(self) -> None:
        """One too many is told so, and ends."""
        browsers = [self.browser() for _ in range(3)]
        ((status, headers, body),) = browsers[2].answers()
        self.assertEqual((status, headers["Connection"]), (503, "close"))
        self.assertIn("too many connections", json.loads(body)["message"])
        self.assertTrue(browsers[2].transport.is_write_closed)
        browsers[2].connection.readConnectionLost()
        self.assertTrue(browsers[2].transport.disconnecting)
        for each in browsers:
            each.disconnect()
        self.assertEqual((self.world.capacity.connections, self.clock.getDelayedCalls()), (0, []))
        self.assertEqual(self.factory.listener.meter.refused, 1)

    def test_idle(self) -> None:
        """A connection without requests is kept for a while, and then closed."""
        browser = self.browser()
        browser.get("/healthz")
        self.clock.advance(IDLE_SECONDS_MAX - 1)
        self.assertEqual(browser.get("/healthz")[0], 200)
        self.clock.advance(IDLE_SECONDS_MAX - 1)
        self.assertFalse(browser.transport.disconnecting)
        self.clock.advance(1)
        self.assertTrue(browser.transport.disconnecting)

    def test_half_a_request(self) -> None:
        """A client that sends half a request and then nothing is cut off soon."""
        browser = self.browser()
        browser.send(b"GET /healthz HTTP/1.1\r\n")
        self.pass_time(9)
        self.assertFalse(browser.transport.disconnected)
        self.pass_time(2)
        self.assertTrue(browser.transport.disconnected)

    def test_drop_by_drop(self) -> None:
        """So is one that sends a byte now and then for ever."""
        browser = self.browser()
        browser.send(b"GET /healthz HTTP/1.1\r\nX: ")
        for _ in range(REQUEST_SECONDS_MAX // 5):
            self.assertFalse(browser.transport.disconnected)
            self.pass_time(5)
            browser.send(b"x")
        self.pass_time(5)
        browser.send(b"x")
        self.assertTrue(browser.transport.disconnected)

    def test_nothing_ticks_between_requests(self) -> None:
        """Between requests a client is not watched."""
        browser = self.browser()
        browser.get("/healthz")
        self.assertEqual(len(self.clock.getDelayedCalls()), 1, "the one of the idle connection")

    def pass_time(self, seconds: int) -> None:
        self.clock.pump([0.1] * (seconds * 10))


class LargeAnswerTests(HttpCase):
    config = BrokerConfig(slow_client_timeout_ms=10_000)

    def setUp(self) -> None:
        super().setUp()
        for number in range(5000):
            self.world.create(f"topic-with-a-name-that-takes-room-{number}")
        self.slow = self.browser(buffer_size=64 * 1024)
        self.slow.ask("/api/topics")
        self.clock.pump([0.0] * 5)

    @property
    def used(self) -> int:
        return self.world.capacity.budget.answers.used

    def test_as_fast_as_the_client_reads(self) -> None:
        """What is not read yet is taken from the memory for answers, and sent piece by piece."""
        self.assertGreater(self.used, 256 * 1024)
        while self.slow.transport.unread:
            self.slow.transport.client_reads()
        ((status, _, body),) = self.slow.answers()
        self.assertEqual((status, len(json.loads(body)["topics"])), (200, 5000))
        self.assertEqual(self.used, 0)
        self.assertEqual(self.slow.get("/healthz")[0], 200)

    def test_client_that_does_not_read(self) -> None:
        """A client that does not read its answer is cut off, and its memory is given back."""
        self.clock.pump([0.5] * 25)
        self.assertTrue(self.slow.transport.disconnected)
        self.slow.disconnect()
        self.assertEqual(self.used, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_client_that_leaves(self) -> None:
        """So it is with one that leaves in the middle."""
        self.slow.disconnect()
        self.assertEqual(self.used, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_drain(self) -> None:
        """A stop waits for the answer to be read, for a while."""
        done = self.factory.drain()
        self.assertFalse(self.slow.transport.disconnecting)
        while self.slow.transport.unread:
            self.slow.transport.client_reads()
        self.assertTrue(self.slow.transport.disconnecting)
        self.assertNoResult(done)
        self.slow.disconnect()
        self.successResultOf(done)


class DrainTests(HttpCase):
    def test_idle(self) -> None:
        """Connections without a request, or with half of one, are closed at once."""
        browsers = [self.browser() for _ in range(3)]
        browsers[0].get("/healthz")
        browsers[1].send(b"GET /hea")
        done = self.factory.drain()
        for each in browsers:
            self.assertTrue(each.transport.disconnecting)
            each.disconnect()
        self.successResultOf(done)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_request_in_work(self) -> None:
        """A request that has come is answered first; the client hears that it was the last."""
        waiting = self.hold()
        browser = self.browser()
        browser.ask("/api/groups")
        done = self.factory.drain()
        self.assertFalse(browser.transport.disconnecting)
        waiting.callback(())
        ((status, headers, _),) = browser.answers()
        self.assertEqual((status, headers["Connection"]), (200, "close"))
        self.assertTrue(browser.transport.disconnecting)
        browser.disconnect()
        self.successResultOf(done)

    def test_too_late(self) -> None:
        """A connection that comes while it stops is closed at once."""
        self.factory.drain()
        self.assertTrue(self.browser().transport.disconnecting)
