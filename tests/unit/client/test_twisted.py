"""Tests for L{rustlog.client.twisted_client}, L{rustlog.client.protocol} and L{rustlog.client.consumer}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.trial.unittest import SynchronousTestCase

import rustlog.client
from rustlog.client import Client, ClientSettings, Consumer, Record, Subscription, connect, errors
from rustlog.client.protocol import ClientConnection
from tests.unit.client.harness import ClockPace, Link, LocalEndpoint
from tests.unit.wire.harness import World, frame


class ClientCase(SynchronousTestCase):
    """A broker with the topic C{orders} of two partitions, and a client that is connected to it."""

    def setUp(self) -> None:
        self.world = World()
        self.world.create("orders", 2)
        self.clock = self.world.clock
        self.net = LocalEndpoint(self.world)
        self.client: Client = self.successResultOf(self.connect())

    def connect(self, **settings: float) -> Deferred[Client]:
        reactor: Any = self.clock
        return connect(
            self.net,
            ClientSettings(**settings),
            reactor=reactor,
            random=ClockPace(self.clock),  # type: ignore[arg-type]
        )

    @property
    def link(self) -> Link:
        return self.net.links[-1]

    def result(self, deferred: Deferred[Any]) -> Any:
        """What comes of it once all has arrived."""
        self.net.pump()
        return self.successResultOf(deferred)

    def failure(self, deferred: Deferred[Any], kind: type[Exception]) -> Any:
        self.net.pump()
        return self.failureResultOf(deferred, kind).value

    def advance(self, seconds: float) -> None:
        """Let time pass, in small steps."""
        for _ in range(round(seconds * 20)):
            self.clock.advance(0.05)
            self.net.pump()


class ConnectTests(SynchronousTestCase):
    """Where to."""

    def test_addresses(self) -> None:
        """A host and a port, a path, or an endpoint."""
        reactor = MemoryReactorClock()
        connect("127.0.0.1:19", reactor=reactor)
        reactor.advance(1)
        self.assertEqual(reactor.tcpClients[0][:2], ("127.0.0.1", 19))
        connect("unix:/run/rustlog", reactor=reactor)
        self.assertEqual(reactor.unixClients[0][0], "/run/rustlog")
        self.assertRaises(ValueError, connect, "a:b", reactor=reactor)

    def test_refused(self) -> None:
        """It tries once, and says where nobody was."""
        net = LocalEndpoint(World())
        net.refusals = 1
        failed = connect(net, reactor=MemoryReactorClock())  # type: ignore[arg-type]
        error = self.failureResultOf(failed, errors.ConnectionFailed).value
        self.assertIn("Connection was refused by other side", str(error))
        self.assertEqual(net.links, [])

    def test_names(self) -> None:
        """What the package offers is there, and nothing else."""
        for name in rustlog.client.__all__:
            self.assertIsNotNone(getattr(rustlog.client, name))
        self.assertRaises(AttributeError, getattr, rustlog.client, "nonsense")


class CallTests(ClientCase):
    """Requests and answers."""

    def test_produce_and_fetch(self) -> None:
        """What is produced is fetched."""
        produced = self.client.produce("orders", [Record(b"one", b"k"), b"two"], 1)
        self.assertEqual(self.result(produced), [0, 1])
        fetched = self.result(self.client.fetch("orders", 1, 0))
        self.assertEqual(
            [(each.key, each.value) for each in fetched.records], [(b"k", b"one"), (None, b"two")]
        )

    def test_pipelining(self) -> None:
        """Requests do not wait for answers; each gets its own."""
        asked = [self.client.produce("orders", [b"%d" % number]) for number in range(5)]
        wrong = self.client.describe_topic("nonsense")
        after = self.client.list_offsets("orders", 0, "latest")
        self.net.pump()
        self.assertEqual([self.successResultOf(each) for each in asked], [[0], [1], [2], [3], [4]])
        self.failureResultOf(wrong, errors.TopicNotFound)
        self.assertEqual(self.successResultOf(after).offset, 5)

    def test_awaitable(self) -> None:
        """All of it can be awaited, and the client closes itself."""

        async def use() -> int:
            async with self.client as client:
                await client.produce("orders", [b"one"])
                return len((await client.fetch("orders", 0, 0)).records)

        done = Deferred.fromCoroutine(use())
        self.assertEqual(self.result(done), 1)
        self.assertTrue(self.link.is_cut)

    def test_too_large(self) -> None:
        """What no broker would take is refused here."""
        self.failure(self.client.produce("orders", [bytes(11_000_000)]), errors.TooLarge)

    def test_cancelled(self) -> None:
        """The answer to a cancelled request is thrown away, and the others get theirs."""
        cancelled = self.client.produce("orders", [b"one"])
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        self.assertEqual(self.result(self.client.produce("orders", [b"two"])), [1])

    def test_timers_end(self) -> None:
        """When all is answered, nothing is left to wait for."""
        self.result(self.client.ping())
        self.assertEqual(self.clock.getDelayedCalls(), [])


class FaultTests(ClientCase):
    """Connections break."""

    def test_reads_are_repeated(self) -> None:
        """What does no harm is tried again, over a new connection, after a moment."""
        asked = self.client.list_topics()
        self.link.cut()
        self.net.pump()
        self.assertNoResult(asked)
        self.advance(0.1)
        self.assertEqual(len(self.result(asked)), 1)
        self.assertEqual(len(self.net.links), 2)

    def test_produce_is_not_repeated(self) -> None:
        """Nobody knows whether it was done; here it was, and is not done twice."""
        asked = self.client.produce("orders", [b"one"])
        self.link.deliver()
        self.link.cut()
        self.failureResultOf(asked, errors.ConnectionLost)
        self.assertEqual(self.result(self.client.list_offsets("orders", 0, "latest")).offset, 1)

    def test_produce_at_least_once(self) -> None:
        """Who asks for it gets the record written, perhaps twice."""
        asked = self.client.produce("orders", [b"one"], at_least_once=True)
        self.link.deliver()
        self.link.cut()
        self.advance(0.1)
        self.assertEqual(self.result(asked), [1])

    def test_reconnects(self) -> None:
        """After the connection is lost, the next request makes a new one; all that wait share it."""
        self.link.cut()
        self.net.refusals = 2
        asked = [self.client.produce("orders", [b"one"]), self.client.produce("orders", [b"two"])]
        self.advance(1)
        self.assertEqual(sorted(self.result(each) for each in asked), [[0], [1]])
        self.assertEqual(len(self.net.links), 2)

    def test_gives_up(self) -> None:
        """After a while it is enough."""
        client = self.successResultOf(self.connect(retry_seconds=2))
        self.link.cut()
        self.net.refusals = 1000
        asked = client.ping()
        self.advance(1)
        self.assertNoResult(asked)
        self.advance(2)
        self.failureResultOf(asked, errors.ConnectionFailed)

    def test_timeout(self) -> None:
        """Silence ends the connection, because later answers could not be told apart."""
        client = self.successResultOf(self.connect(timeout_seconds=3, retry_seconds=0))
        first, second = client.ping(), client.ping()
        self.clock.advance(3)
        self.link.pump()
        error = self.failureResultOf(first, errors.RequestTimedOut).value
        self.assertIn("nothing came within 3 seconds", str(error))
        self.failureResultOf(second, errors.ConnectionLost)
        self.assertTrue(self.link.transport.disconnected)

    def test_long_poll_is_not_silence(self) -> None:
        """What the broker was told to wait is added to what an answer may take."""
        client = self.successResultOf(self.connect(timeout_seconds=3, retry_seconds=0))
        asked = client.fetch("orders", 0, 0, max_wait_ms=10_000)
        self.advance(9)
        self.assertNoResult(asked)
        self.advance(2)
        self.assertEqual(self.successResultOf(asked).records, [])

    def test_closed(self) -> None:
        """What is under way fails, and nothing more is accepted."""
        asked = self.client.ping()
        closed = self.client.close()
        self.assertNoResult(closed)
        self.link.pump()
        self.link.pump()
        self.successResultOf(closed)
        self.successResultOf(asked)  # It was answered before.
        self.failureResultOf(self.client.ping(), errors.ClientClosed)
        self.successResultOf(self.client.close())

    def test_closed_while_waiting(self) -> None:
        """A request that was to be tried again is not, and no timer is left."""
        asked = self.client.ping()
        self.link.cut()
        self.assertNoResult(asked)
        self.client.close()
        self.failureResultOf(asked, errors.ClientClosed)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_closed_while_connecting(self) -> None:
        """An attempt to connect is given up."""
        self.link.cut()
        self.net.is_slow = True
        asked = self.client.ping()
        self.client.close()
        self.failureResultOf(asked, errors.ClientClosed)


class ProtocolTests(SynchronousTestCase):
    """What else may come over a connection."""

    def setUp(self) -> None:
        self.world = World()
        self.connection = ClientConnection(self.world.clock)
        self.transport = StringTransport()
        self.connection.makeConnection(self.transport)

    def test_unasked(self) -> None:
        """What the broker says before it is asked is the reason why the connection ends."""
        self.connection.dataReceived(frame(b'{"Error":{"message":"too many connections: try again later"}}'))
        self.assertTrue(self.transport.disconnected)
        asked = self.connection.ask("Ping", b"{}", 5)
        self.connection.connectionLost()
        error = self.failureResultOf(asked, errors.ConnectionLost).value
        self.assertIn("too many connections", error.reason)

    def test_too_long(self) -> None:
        """Who announces more than a frame may have is not a broker."""
        asked = self.connection.ask("Ping", b"{}", 5)
        self.connection.dataReceived(b"HTTP/1.1 400 Bad Request")
        self.assertTrue(self.transport.disconnected)
        self.connection.connectionLost()
        self.assertIn("not one of the RustLog protocol", str(self.failureResultOf(asked).value))

    def test_one_byte_at_a_time(self) -> None:
        """Answers may come in pieces."""
        asked = self.connection.ask("Ping", b"{}", 5)
        for byte in frame(b'{"Ping":{}}'):
            self.connection.dataReceived(bytes([byte]))
        self.assertEqual(self.successResultOf(asked), b'{"Ping":{}}')


class ConsumerTests(ClientCase):
    """The at-least-once loop."""

    def setUp(self) -> None:
        super().setUp()
        self.seen: list[bytes | None] = []
        for partition in (0, 1):
            values = [b"%d/%d" % (partition, number) for number in range(3)]
            self.result(self.client.produce("orders", values, partition))

    def see(self, record: Record) -> None:
        self.seen.append(record.value)

    def consumer(self, process: Any = None, **more: Any) -> Consumer:
        wanted = Subscription(topic="orders", group_id="kitchen", **more)
        return Consumer(self.client, process or self.see, wanted)

    def committed(self) -> list[int | None]:
        return [self.result(self.client.committed("kitchen", "orders", each)) for each in (0, 1)]

    def test_to_the_end(self) -> None:
        """All records are processed, and committed."""
        self.result(self.consumer(follow=False).run())
        self.assertEqual(sorted(self.seen), [b"0/0", b"0/1", b"0/2", b"1/0", b"1/1", b"1/2"])  # type: ignore[type-var]
        self.assertEqual(self.committed(), [3, 3])

    def test_follows_until_stopped(self) -> None:
        """What comes later is processed when it comes."""
        consumer = self.consumer(partitions=[0])
        running = consumer.run()
        self.advance(2)
        self.client.produce("orders", [b"late"])
        self.advance(1)
        self.assertEqual(self.seen[3:], [b"late"])
        stopped = consumer.stop()
        self.advance(1)
        self.successResultOf(stopped)
        self.successResultOf(running)
        self.assertEqual(self.committed(), [4, None])

    def test_several_partitions(self) -> None:
        """Several are looked at in turn."""
        consumer = self.consumer()
        running = consumer.run()
        self.advance(1)
        self.client.produce("orders", [b"late"], 1)
        self.advance(1)
        self.assertEqual(self.seen[6:], [b"late"])
        consumer.stop()
        self.net.pump()
        self.successResultOf(running)

    def test_slow_processing(self) -> None:
        """The next record waits until the one before is done; nothing is committed before that."""
        doing: list[Deferred[None]] = []

        def process(record: Record) -> Deferred[None]:
            self.see(record)
            doing.append(Deferred())
            return doing[-1]

        running = self.consumer(process, partitions=[0], follow=False).run()
        self.net.pump()
        for number in range(3):
            self.assertEqual(len(self.seen), number + 1)
            self.assertEqual(self.committed(), [None, None])
            doing[-1].callback(None)
            self.net.pump()
        self.successResultOf(running)
        self.assertEqual(self.committed(), [3, None])

    def test_coroutine(self) -> None:
        """The processing may be a coroutine."""

        async def process(record: Record) -> None:
            self.see(record)

        self.result(self.consumer(process, partitions=[1], follow=False).run())
        self.assertEqual(len(self.seen), 3)

    def test_failing_processing(self) -> None:
        """What was processed before is committed, and the error is told."""

        def process(record: Record) -> None:
            if record.offset == 2:
                raise ZeroDivisionError
            self.see(record)

        running = self.consumer(process, partitions=[0]).run()
        self.failure(running, ZeroDivisionError)
        self.assertEqual(self.committed(), [2, None])

    def test_stop_while_processing(self) -> None:
        """The record at hand is finished and committed; the others come again the next time."""
        doing: Deferred[None] = Deferred()
        consumer = self.consumer(lambda record: doing, partitions=[0])
        running = consumer.run()
        self.net.pump()
        stopped = consumer.stop()
        self.net.pump()
        self.assertNoResult(stopped)
        doing.callback(None)
        self.net.pump()
        self.successResultOf(stopped)
        self.successResultOf(running)
        self.assertEqual(self.committed(), [1, None])

    def test_survives_the_broker(self) -> None:
        """A lost connection is made anew, and no record is missed."""
        consumer = self.consumer(partitions=[0])
        consumer.run().addErrback(self.fail)
        self.advance(1)
        self.link.cut()
        self.net.refusals = 3
        self.advance(3)
        self.client.produce("orders", [b"late"])
        self.advance(1)
        self.assertEqual(self.seen[-1], b"late")
        consumer.stop()
        self.advance(1)

    def test_refused(self) -> None:
        """What the broker refuses ends it."""
        self.failure(
            Consumer(self.client, self.see, Subscription(topic="nonsense")).run(), errors.TopicNotFound
        )

    def test_stop_before_and_after(self) -> None:
        """Stopping what does not run is nothing."""
        consumer = self.consumer(follow=False)
        self.successResultOf(consumer.stop())
