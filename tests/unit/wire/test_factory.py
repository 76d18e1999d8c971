"""Tests for L{rustlog.wire.factory}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import Closed
from rustlog.settings import BrokerConfig
from rustlog.wire.connection import SHORT_LINGER_SECONDS
from rustlog.wire.factory import DRAIN_SECONDS_MAX
from rustlog.wire.listener import REFUSALS_MAX
from rustlog.wire.rustlog.protocol import make_factory
from tests.unit.wire.harness import Client, World, fetch, frame, produce


class DrainTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.world.create("orders")
        self.pending: list[Deferred[Any]] = []
        self.patch(self.world.memory, "append", lambda _: self.pending.append(Deferred()) or self.pending[-1])

    def test_no_connections(self) -> None:
        """Without connections there is nothing to wait for."""
        self.successResultOf(self.world.factory.drain())
        self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def test_idle_connections_close_at_once(self) -> None:
        """Idle clients are let go at once; it is over when the last is gone."""
        clients = [self.world.client() for _ in range(3)]
        clients[0].ask(fetch())
        clients[1].send_bytes(b"\x00\x00\x00\x09half")
        done = self.world.factory.drain()
        for each in clients:
            self.assertTrue(each.transport.disconnecting)
            self.assertNoResult(done)
            each.settle()
        self.successResultOf(done)
        self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def test_requests_in_work_are_answered(self) -> None:
        """What has been received is answered before the connection ends; nothing more is read."""
        client = self.world.client()
        client.send(produce(b"a"))
        client.send(fetch())
        done = self.world.factory.drain()
        self.assertFalse(client.transport.is_reading)
        self.assertFalse(client.transport.disconnecting)
        self.pending[0].callback([Closed()])
        answers = client.received()
        self.assertEqual([next(iter(each)) for each in answers], ["Error", "Fetch"])
        self.assertTrue(client.transport.is_write_closed)
        client.send(produce(b"too late"))
        self.assertEqual(client.received(), [])
        self.assertNoResult(done)
        client.connection.readConnectionLost()
        client.settle()
        self.successResultOf(done)

    def test_answers_that_are_not_read_yet(self) -> None:
        """An answer that waits for the client to read is delivered before the connection ends."""
        client = self.world.client(buffer_size=64 * 1024)
        client.transport.producer.pauseProducing()
        done = self.world.factory.drain()
        self.assertFalse(client.transport.is_write_closed)
        client.transport.client_reads()
        self.assertTrue(client.transport.is_write_closed)
        client.disconnect()
        self.successResultOf(done)

    def test_client_that_does_not_close(self) -> None:
        """A client that got its answers and does not close is cut off soon."""
        client = self.world.client()
        client.send(produce(b"a"))
        self.world.factory.drain()
        self.pending[0].callback([Closed()])
        self.assertFalse(client.transport.disconnected)
        self.world.clock.advance(SHORT_LINGER_SECONDS)
        self.assertTrue(client.transport.disconnected)

    def test_deadline(self) -> None:
        """What is not done in time is cut off."""
        client = self.world.client()
        client.send(produce(b"a"))
        done = self.world.factory.drain()
        self.world.clock.advance(DRAIN_SECONDS_MAX)
        self.assertTrue(client.transport.disconnected)
        client.settle()
        self.successResultOf(done)

    def test_twice(self) -> None:
        """Who asks again waits for the same end."""
        client = self.world.client()
        first, second = self.world.factory.drain(), self.world.factory.drain()
        client.settle()
        self.successResultOf(first)
        self.successResultOf(second)
        self.successResultOf(self.world.factory.drain())

    def test_abort(self) -> None:
        """Who can not wait cuts everything off."""
        client = self.world.client()
        client.send(produce(b"a"))
        done = self.world.factory.drain()
        self.world.factory.abort()
        self.assertTrue(client.transport.disconnected)
        client.settle()
        self.successResultOf(done)

    def test_late_connection(self) -> None:
        """Who connects while the broker stops is turned away."""
        held = self.world.client()
        held.send(produce(b"a"))
        self.world.factory.drain()
        late = self.world.client()
        self.assertTrue(late.transport.disconnecting)
        late.settle()
        self.assertEqual(self.world.capacity.connections, 1)


class ConnectionLimitTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(BrokerConfig(max_connections=2))
        self.world.create("orders")
        self.lines: list[str] = []

        def observe(event: dict[str, Any]) -> None:
            if event["log_namespace"].startswith("rustlog."):
                self.lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def test_refused(self) -> None:
        """One too many is told so, and its connection is closed."""
        clients = [self.world.client() for _ in range(2)]
        refused = self.world.client()
        self.assertEqual(
            refused.received(), [{"Error": {"message": "too many connections: try again later"}}]
        )
        self.assertTrue(refused.transport.is_write_closed)
        refused.send_bytes(frame(b"{}"))
        self.assertEqual(refused.received(), [])
        self.assertIn("Fetch", clients[0].ask(fetch()))

    def test_room_again(self) -> None:
        """When one leaves, the next may come."""
        clients = [self.world.client() for _ in range(3)]
        clients[0].disconnect()
        clients[2].disconnect()
        self.assertIn("Fetch", self.world.client().ask(fetch()))

    def test_refused_client_that_stays(self) -> None:
        """One that was refused and does not close is cut off soon."""
        refused = [self.world.client() for _ in range(3)][-1]
        self.world.clock.advance(SHORT_LINGER_SECONDS)
        self.assertTrue(refused.transport.disconnected)

    def test_over_all_listeners(self) -> None:
        """The limit is that of the process."""
        other = make_factory(self.world.listener)
        self.world.client()
        Client(other)
        self.assertIn("Error", Client(other).received()[0])
        self.assertIn("Error", self.world.client().received()[0])

    def test_flood(self) -> None:
        """When far too many come, they are cut off without a word."""
        clients = [self.world.client() for _ in range(2 + REFUSALS_MAX + 1)]
        self.assertFalse(clients[-2].transport.disconnected)
        self.assertEqual(len(clients[-2].received()), 1)
        self.assertTrue(clients[-1].transport.disconnected)
        self.assertEqual(clients[-1].received(), [])

    def test_one_line_for_many(self) -> None:
        """Refusals are told, but not each of them."""
        for _ in range(50):
            self.world.client()
        refusals = "door refused {} connections: max.connections=2 are open"
        self.assertEqual(self.lines[2:], [refusals.format(1)])
        self.world.clock.advance(10)
        self.world.client()
        self.assertEqual(self.lines[3:], [refusals.format(48)])
