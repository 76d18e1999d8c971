"""Tests for L{rustlog.wire.connection}: memory, slow clients, and how connections end."""

from __future__ import annotations

import json
from struct import pack
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import IHalfCloseableProtocol, ISSLTransport
from twisted.internet.testing import StringTransport
from twisted.logger import LogLevel, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import alsoProvides
from zope.interface.verify import verifyObject

from rustlog.observability.requests import RequestLog
from rustlog.settings import BrokerConfig
from rustlog.wire.connection import (
    ENTRY_BYTES,
    FREE_PASS_BYTES,
    LINGER_BYTES_MAX,
    LINGER_SECONDS,
    client_name,
)
from tests.unit.wire.harness import Client, FakeTransport, World, fetch, frame, frames, produce

MIB = 1024 * 1024
SMALL_BUDGET = BrokerConfig(queued_max_request_bytes=32 * MIB)
"""16 MiB for requests: room for one frame of 10 MiB, not for two."""

ANNOUNCEMENT = pack("!I", 10 * MIB)
TRANSPORT_BUFFER = 64 * 1024


def large(size: int = 10 * MIB) -> bytes:
    """A frame with a request of that size."""
    request = json.dumps(produce(b"large")).encode()
    return frame(request + b" " * (size - len(request)))


class ConnectionCase(SynchronousTestCase):
    config: BrokerConfig | None = None

    def setUp(self) -> None:
        self.world = World(self.config)
        self.world.create("orders")
        self.events: list[dict[str, Any]] = []

    @property
    def requests_used(self) -> int:
        return self.world.capacity.budget.requests.used

    @property
    def answers_used(self) -> int:
        return self.world.capacity.budget.answers.used

    def hold_appends(self) -> list[Deferred[Any]]:
        """Let produces take until told."""
        pending: list[Deferred[Any]] = []
        original = self.world.memory.append

        def append(entries: Any) -> Deferred[Any]:
            result = original(entries)
            pending.append(Deferred().addCallback(lambda _: result))
            return pending[-1]

        self.patch(self.world.memory, "append", append)
        return pending


class MemoryTests(ConnectionCase):
    config = SMALL_BUDGET

    def test_announced_frame_is_reserved(self) -> None:
        """The memory of a frame is taken when its length is known, and given back when it is answered."""
        client = self.world.client()
        client.send_bytes(large()[:4])
        self.assertEqual(self.requests_used, 10 * MIB + ENTRY_BYTES)
        client.send_bytes(large()[4:])
        self.assertEqual(client.received(), [{"Produce": {"offsets": [0]}}])
        self.assertEqual(self.requests_used, 0)

    def test_waits_for_memory(self) -> None:
        """A second large frame waits, unread, until the first is answered; then it is served."""
        first, second = self.world.client(), self.world.client()
        first.send_bytes(large()[:100])
        second.send_bytes(large()[:100])
        self.assertTrue(first.transport.is_reading)
        self.assertFalse(second.transport.is_reading)
        first.send_bytes(large()[100:])
        self.world.clock.advance(0)
        self.assertTrue(second.transport.is_reading)
        second.send_bytes(large()[100:])
        self.assertEqual(second.received(), [{"Produce": {"offsets": [1]}}])
        self.assertEqual(self.requests_used, 0)

    def test_in_the_order_of_asking(self) -> None:
        """Those who wait for memory get it one after the other, first come, first served."""
        clients = [self.world.client() for _ in range(5)]
        for each in clients:
            each.send_bytes(ANNOUNCEMENT)
        for number, each in enumerate(clients):
            reading = [other.transport.is_reading for other in clients[number:]]
            self.assertEqual(reading, [True] + [False] * (4 - number))
            each.send_bytes(large()[4:])
            self.world.clock.advance(0)
        self.assertEqual(
            [each.received() for each in clients], [[{"Produce": {"offsets": [n]}}] for n in range(5)]
        )

    def test_small_requests_do_not_wait(self) -> None:
        """While large frames wait for memory, small requests are served."""
        for _ in range(3):
            self.world.client().send_bytes(ANNOUNCEMENT)
        self.assertTrue(self.world.capacity.budget.is_contended)
        self.assertEqual(self.world.client().ask(produce(b"small")), {"Produce": {"offsets": [0]}})

    def test_free_pass_is_bounded(self) -> None:
        """One connection can not collect memory with many small requests that are not answered."""
        for _ in range(2):
            self.world.client().send_bytes(ANNOUNCEMENT)
        before = self.requests_used
        pending = self.hold_appends()
        client = self.world.client()
        request = frame(json.dumps(produce(b"small")).encode() + b" " * 5000)
        client.send_bytes(request * 50)
        self.assertFalse(client.transport.is_reading)
        self.assertGreater(len(pending), 5)
        self.assertLessEqual(self.requests_used - before, FREE_PASS_BYTES)

    def test_five_hundred_announcements(self) -> None:
        """500 clients that announce 10 MiB each hold no more than the budget, and others are served."""
        clients = [self.world.client() for _ in range(500)]
        for each in clients:
            each.send_bytes(ANNOUNCEMENT)
        self.assertLessEqual(self.requests_used, 16 * MIB)
        self.assertEqual(sum(each.transport.is_reading for each in clients), 1)
        self.assertEqual(self.world.client().ask(produce(b"small")), {"Produce": {"offsets": [0]}})
        for each in clients:
            each.disconnect()
        self.assertEqual(self.requests_used, 0)
        self.assertFalse(self.world.capacity.budget.is_contended)

    def test_lost_while_waiting(self) -> None:
        """A client that leaves while it waits for memory is forgotten, and the next one gets its turn."""
        clients = [self.world.client() for _ in range(3)]
        for each in clients:
            each.send_bytes(ANNOUNCEMENT)
        clients[1].disconnect()
        clients[0].disconnect()
        self.world.clock.advance(0)
        self.assertTrue(clients[2].transport.is_reading)
        clients[2].disconnect()
        self.assertEqual(self.requests_used, 0)

    def test_lost_in_the_middle_of_a_frame(self) -> None:
        """A client that leaves in the middle of a frame gives its memory back."""
        client = self.world.client()
        client.send_bytes(large()[:1000])
        client.disconnect()
        self.assertEqual(self.requests_used, 0)

    def test_lost_with_requests_in_the_queue(self) -> None:
        """What waits in the queue is given back at once, what is being worked on when it ends."""
        pending = self.hold_appends()
        client = self.world.client()
        client.send(produce(b"a"))
        client.send(fetch())
        client.send(produce(b"b"))
        client.disconnect()
        one = len(json.dumps(produce(b"a"))) + ENTRY_BYTES
        self.assertEqual(self.requests_used, one)
        pending[0].callback(None)
        self.assertEqual(self.requests_used, 0)
        self.assertEqual(len(pending), 1)

    def test_fetches_wait_for_memory(self) -> None:
        """Clients that fetch and do not read can not take more than the budget together."""
        filler = self.world.client()
        for _ in range(5):
            filler.ask(produce(b"\xff" * 500_000))
        clients = [self.world.client(TRANSPORT_BUFFER) for _ in range(5)]
        for each in clients:
            each.send(fetch(max_bytes=2**40))
        self.assertLessEqual(self.answers_used, 16 * MIB)
        answered = [each for each in clients if each.transport.value()]
        self.assertEqual(len(answered), 1)
        while answered[0].transport.unread:
            answered[0].transport.client_reads()
        self.assertEqual(len(answered[0].received()[0]["Fetch"]["records"]), 5)
        self.world.clock.advance(0)
        self.assertEqual(len([each for each in clients if each.transport.value()]), 1)
        for each in clients:
            each.disconnect()
            self.world.clock.advance(0)
        self.assertEqual((self.answers_used, self.requests_used), (0, 0))


class SlowReaderTests(ConnectionCase):
    def fill(self) -> None:
        self.world.client().ask(produce(b"\xff" * 50_000))  # 200 kB of JSON

    def test_nothing_is_worked_on_for_a_client_that_does_not_read(self) -> None:
        """When answers pile up, the connection is not read, and its next requests wait."""
        self.fill()
        client = self.world.client(TRANSPORT_BUFFER)
        client.send_bytes(frame(json.dumps(fetch()).encode()) * 20)
        self.assertFalse(client.transport.is_reading)
        self.assertLess(len(client.transport.value()), 200_000)
        self.assertLess(self.answers_used, 250_000)
        for _ in range(100):
            client.transport.client_reads()
        self.assertEqual(len(client.received()), 20)
        self.assertTrue(client.transport.is_reading)
        self.assertEqual((self.answers_used, self.requests_used), (0, 0))

    def test_client_that_never_reads(self) -> None:
        """A client that never reads its answers holds one of them, and is cut off in the end."""
        self.fill()
        client = self.world.client(TRANSPORT_BUFFER)
        client.send_bytes(frame(json.dumps(fetch()).encode()) * 100)
        self.world.clock.pump([1] * 29)
        self.assertFalse(client.transport.disconnected)
        self.world.clock.pump([1] * 5)
        self.assertTrue(client.transport.disconnected)
        client.settle()
        self.assertEqual((self.answers_used, self.requests_used), (0, 0))

    def test_slow_but_steady(self) -> None:
        """A client that reads a piece now and then stays."""
        self.fill()
        client = self.world.client(TRANSPORT_BUFFER)
        client.send_bytes(frame(json.dumps(fetch()).encode()) * 5)
        for _ in range(10):
            self.world.clock.pump([1] * 20)
            client.transport.client_reads()
        self.assertFalse(client.transport.disconnected)

    def test_answers_of_overlapping_produces_keep_their_order(self) -> None:
        """Produces that end while the client does not read are answered when it does."""
        self.fill()
        pending = self.hold_appends()
        client = self.world.client(TRANSPORT_BUFFER)
        client.send(fetch())
        while client.transport.unread:
            client.transport.client_reads()
        client.received()
        for number in range(3):
            client.send(produce(b"%d" % number))
        client.transport.producer.pauseProducing()
        for each in pending:
            each.callback(None)
        self.assertEqual(client.received(), [])
        client.transport.client_reads()
        self.assertEqual(client.received(), [{"Produce": {"offsets": [n]}} for n in (1, 2, 3)])

    def test_queued_requests_wait_until_the_client_reads(self) -> None:
        """Requests that were received before the answers piled up are worked on one by one, as it reads."""
        self.fill()
        pending = self.hold_appends()
        reads: list[object] = []
        original = self.world.memory.read
        self.patch(self.world.memory, "read", lambda *args: reads.append(args) or original(*args))
        client = self.world.client(TRANSPORT_BUFFER)
        client.send(produce(b"first"))
        client.send_bytes(frame(json.dumps(fetch()).encode()) * 3)
        self.assertTrue(client.transport.is_reading)
        pending[0].callback(None)
        for number in (1, 2, 3):
            self.assertEqual(len(reads), number)
            self.assertFalse(client.transport.is_reading)
            client.transport.client_reads()
            client.transport.client_reads()
        self.assertTrue(client.transport.is_reading)
        self.assertEqual(len(client.received()), 4)

    def test_stuck_in_the_middle_of_a_frame(self) -> None:
        """A client that stops in the middle of a frame is cut off; one that goes on is not."""
        stuck, steady = self.world.client(), self.world.client()
        data = large(1 * MIB)
        stuck.send_bytes(data[:100])
        for position in range(0, 400, 10):
            steady.send_bytes(data[position : position + 10])
            self.world.clock.advance(1)
        self.assertTrue(stuck.transport.disconnected)
        self.assertFalse(steady.transport.disconnected)

    def test_sooner_when_others_wait(self) -> None:
        """When others wait for the memory, a tenth of the time is enough, and they get it."""
        self.world = World(SMALL_BUDGET)
        self.world.create("orders")
        stuck, waiting = self.world.client(), self.world.client()
        stuck.send_bytes(large()[:100])
        waiting.send_bytes(ANNOUNCEMENT)
        self.world.clock.pump([1] * 3)
        self.assertTrue(stuck.transport.disconnected)
        stuck.settle()
        self.world.clock.advance(0)
        self.assertTrue(waiting.transport.is_reading)
        self.assertFalse(waiting.transport.disconnected)

    def test_idle_clients_stay(self) -> None:
        """A client that holds nothing may be silent for ever, and so may one whose request takes long."""
        self.hold_appends()
        idle, working = self.world.client(), self.world.client()
        idle.ask(fetch())
        working.send(produce(b"a"))
        self.world.clock.pump([10] * 100)
        self.assertFalse(idle.transport.disconnecting)
        self.assertFalse(working.transport.disconnecting)

    def test_waiting_for_memory_is_not_slow(self) -> None:
        """A client that has to wait for its turn is not blamed for it."""
        self.world = World(SMALL_BUDGET)
        self.world.create("orders")
        pending = self.hold_appends()
        working, waiting = self.world.client(), self.world.client()
        working.send_bytes(large())
        waiting.send_bytes(large()[:100])
        self.world.clock.pump([10] * 100)
        self.assertFalse(waiting.transport.disconnecting)
        self.assertFalse(working.transport.disconnecting)
        pending[0].callback(None)
        self.world.clock.advance(0)
        waiting.send_bytes(large()[100:])
        pending[1].callback(None)
        self.assertEqual(waiting.received(), [{"Produce": {"offsets": [1]}}])


class OversizeTests(ConnectionCase):
    def setUp(self) -> None:
        super().setUp()
        self.client = self.world.client()

    def test_answers_before_it_come_first(self) -> None:
        """Requests before the frame that is too large are answered, then it is refused, then it ends."""
        pending = self.hold_appends()
        self.client.send(produce(b"a"))
        self.client.send_bytes(pack("!I", 2**32 - 1) + b"x" * 1000)
        self.assertFalse(self.client.transport.is_write_closed)
        self.assertFalse(self.client.transport.is_reading)
        pending[0].callback(None)
        first, second = self.client.received()
        self.assertEqual(first, {"Produce": {"offsets": [0]}})
        self.assertEqual(
            second,
            {"Error": {"message": "max frame size exceeded: 4294967295 bytes, at most 10485760 are allowed"}},
        )
        self.assertTrue(self.client.transport.is_write_closed)

    def test_the_rest_is_thrown_away(self) -> None:
        """What the client still sends is read, so that it gets to see its answer, and forgotten."""
        self.client.send_bytes(pack("!I", 20 * MIB))
        self.client.received()
        self.assertTrue(self.client.transport.is_reading)
        self.client.send_bytes(frame(json.dumps(produce(b"a")).encode()) * 100)
        self.assertEqual(self.client.received(), [])
        self.assertEqual(self.requests_used, 0)
        self.assertEqual(self.world.memory.partition("orders", 0).high_watermark, 0)

    def test_client_closes(self) -> None:
        """When the client closes too, all is over."""
        self.client.send_bytes(pack("!I", 20 * MIB))
        self.client.connection.writeConnectionLost()
        self.client.connection.readConnectionLost()
        self.assertTrue(self.client.transport.disconnecting)
        self.assertFalse(self.client.transport.disconnected)
        self.client.settle()
        self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def test_for_a_limited_time(self) -> None:
        """A client that does not close is cut off after a while."""
        self.client.send_bytes(pack("!I", 20 * MIB))
        self.world.clock.advance(LINGER_SECONDS - 1)
        self.assertFalse(self.client.transport.disconnected)
        self.world.clock.advance(1)
        self.assertTrue(self.client.transport.disconnected)

    def test_for_a_limited_number_of_bytes(self) -> None:
        """A client that does not stop sending is cut off."""
        self.client.send_bytes(pack("!I", 2**32 - 1))
        piece = bytes(MIB)
        for _ in range(LINGER_BYTES_MAX // MIB):
            self.client.send_bytes(piece)
        self.assertFalse(self.client.transport.disconnected)
        self.client.send_bytes(b"x")
        self.assertTrue(self.client.transport.disconnected)

    def test_transport_that_can_not_be_half_closed(self) -> None:
        """Where only the whole connection can be closed, it is, after the answer; so it is with TLS."""
        encrypted = FakeTransport()
        alsoProvides(encrypted, ISSLTransport)
        for transport in (StringTransport(), encrypted):
            connection = self.world.factory.buildProtocol(None)
            connection.makeConnection(transport)
            connection.dataReceived(pack("!I", 20 * MIB))
            self.assertEqual(len(frames(transport.value())), 1)
            self.assertTrue(transport.disconnecting)


class EndTests(ConnectionCase):
    def test_half_closed_by_the_client(self) -> None:
        """A client that says that it will send no more gets the answers that it waits for."""
        pending = self.hold_appends()
        client = self.world.client()
        verifyObject(IHalfCloseableProtocol, client.connection)
        client.send(produce(b"a"))
        client.send(fetch())
        client.connection.readConnectionLost()
        self.assertFalse(client.transport.disconnecting)
        pending[0].callback(None)
        self.assertEqual([next(iter(each)) for each in client.received()], ["Produce", "Fetch"])
        self.assertTrue(client.transport.disconnecting)
        self.assertFalse(client.transport.disconnected)

    def test_half_closed_without_requests(self) -> None:
        """A client that is done is let go at once, also in the middle of a frame."""
        for data in (b"", b"\x00", frame(b"{}")[:5]):
            client = self.world.client()
            client.send_bytes(data)
            client.connection.readConnectionLost()
            self.assertTrue(client.transport.disconnecting)
            client.settle()
        self.assertEqual(self.requests_used, 0)

    def test_half_closed_and_then_silent(self) -> None:
        """A client that neither sends nor reads any more does not keep its connection for ever."""
        client = self.world.client()
        client.connection.readConnectionLost()
        self.world.clock.advance(LINGER_SECONDS)
        self.assertTrue(client.transport.disconnected)

    def test_no_delay(self) -> None:
        """Small answers are not held back by TCP."""
        self.assertTrue(self.world.client().transport.no_delay)

    def test_nothing_is_left(self) -> None:
        """After a connection is lost there are no timers, and no memory is in use."""
        client = self.world.client(TRANSPORT_BUFFER)
        client.ask(produce(b"\xff" * 1000))
        client.send_bytes(large()[:100])
        client.disconnect()
        self.assertEqual(self.world.clock.getDelayedCalls(), [])
        self.assertEqual((self.answers_used, self.requests_used, self.world.capacity.connections), (0, 0, 0))

    def test_unanswerable_failure(self) -> None:
        """Should a request end without an answer, the connection does not hang: it is cut off."""
        pending = self.hold_appends()
        client = self.world.client()
        client.send(produce(b"a"))
        self.patch(client.connection, "_write", lambda answer: 1 / 0)
        pending[0].callback(None)
        self.assertTrue(client.transport.disconnected)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class LoggingTests(ConnectionCase):
    def setUp(self) -> None:
        super().setUp()

        def observe(event: dict[str, Any]) -> None:
            if event["log_namespace"].startswith("rustlog."):
                self.events.append(event)

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def lines(self) -> list[str]:
        return [formatEvent(each) for each in self.events]

    def test_one_line_each(self) -> None:
        """A connection is one line when it begins and one, with figures, when it ends."""
        client = self.world.client()
        client.ask(produce(b"a"))
        client.ask(fetch())
        client.disconnect()
        bytes_in = len(json.dumps(produce(b"a"))) + len(json.dumps(fetch())) + 8
        self.assertEqual(self.lines()[0], "192.168.1.1:54321 connected to door")
        self.assertTrue(
            self.lines()[1].startswith(
                f"192.168.1.1:54321 disconnected from door: 2 requests, {bytes_in} bytes in, "
            ),
            self.lines(),
        )
        self.assertTrue(self.lines()[1].endswith(" bytes out; closed by the client"))
        self.assertEqual([each["log_level"] for each in self.events], [LogLevel.info] * 2)

    def test_reasons(self) -> None:
        """The line says why a connection ended."""

        def oversize(client: Client) -> None:
            client.send_bytes(b"\xff\xff\xff\xff")

        def stuck(client: Client) -> None:
            client.send_bytes(large()[:9])
            self.world.clock.pump([3] * 10)

        def drained(client: Client) -> None:
            client.connection.drain()

        for act, reason in [
            (oversize, "its request of 4294967295 bytes is too large"),
            (stuck, "it neither sent nor read anything for 30.0 s"),
            (drained, "the broker stops"),
        ]:
            client = self.world.client()
            act(client)
            client.disconnect()
            self.assertTrue(self.lines()[-1].endswith(reason), self.lines()[-1])

    def test_lost(self) -> None:
        """What the network says is repeated."""
        client = self.world.client()
        client.connection.connectionLost(Failure(ConnectionLost("cable cut")))
        self.assertIn("cable cut", self.lines()[-1])

    def test_request_lines(self) -> None:
        """Every request is a line, if that is wanted."""
        self.world = World(requests=RequestLog(is_wanted=True))
        self.world.create("orders")
        client = self.world.client()
        pending = self.hold_appends()
        client.send(produce(b"a", b"b"))
        self.world.clock.advance(0.25)
        pending[0].callback(None)
        client.received()
        client.ask(fetch())
        client.ask(fetch(partition=9))
        client.ask_bytes(b"{}")
        said = [each for each in self.events if each["log_level"] is LogLevel.debug]
        told = [(e["request"], e["topic"], e["partition"], e["records"], e["duration_ms"]) for e in said]
        self.assertEqual(
            told,
            [
                ("Produce", "orders", 0, 2, 250.0),
                ("Fetch", "orders", 0, 2, 0.0),
                ("Fetch", "orders", 9, 0, 0.0),
                ("unknown", None, None, 0, 0.0),
            ],
        )
        self.assertEqual(said[0]["request_bytes"], len(json.dumps(produce(b"a", b"b"))))
        self.assertEqual(said[0]["response_bytes"], len('{"Produce":{"offsets":[0,1]}}'))
        self.assertEqual(
            [each["outcome"][:23] for each in said],
            ["ok", "ok", "partition not found: to", "failed to parse request"],
        )

    def test_no_request_lines(self) -> None:
        """If it is not wanted, no event is made at all."""
        self.world.client().ask(fetch())
        self.assertEqual([each for each in self.events if each["log_level"] is LogLevel.debug], [])


class ClientNameTests(SynchronousTestCase):
    def test_names(self) -> None:
        """Clients are called by their address."""
        self.assertEqual(client_name(IPv4Address("TCP", "127.0.0.1", 5)), "127.0.0.1:5")
        self.assertEqual(client_name(IPv6Address("TCP", "::1", 5)), "[::1]:5")
        self.assertEqual(client_name(UNIXAddress(None)), "a local client")

    def test_local_client(self) -> None:
        """A client on a local socket is served like any other, and has no TCP to be tuned."""
        world = World()
        connection = world.factory.buildProtocol(None)
        transport = FakeTransport()
        transport.peerAddr = UNIXAddress(None)
        connection.makeConnection(transport)
        self.assertFalse(transport.no_delay)
        connection.dataReceived(frame(b"{}"))
        self.assertEqual(len(frames(transport.value())), 1)
