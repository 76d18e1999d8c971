"""Tests for L{rustlog.client.blocking}, L{rustlog.client.blocking_consumer} and L{rustlog.client.sockets}."""

from __future__ import annotations

import socket
from struct import pack

from twisted.trial.unittest import SynchronousTestCase

from rustlog.client import calls, errors
from rustlog.client.addresses import TcpAddress, UnixAddress
from rustlog.client.blocking import Client, connect
from rustlog.client.consuming import Batch
from rustlog.client.retrying import ClientSettings
from rustlog.client.sockets import SocketConnection, open_socket
from rustlog.client.twisted_client import Client as TwistedClient
from rustlog.model import Record
from tests.unit.client.harness import LocalBroker


class ClientCase(SynchronousTestCase):
    """A broker with the topic C{orders} of two partitions, and a client."""

    def setUp(self) -> None:
        self.broker = LocalBroker()
        self.broker.world.create("orders", 2)
        self.client = self.broker.client()

    def values(self, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
        return [each.value for each in self.client.fetch(topic, partition, 0).records]


class MethodTests(ClientCase):
    """Each request, and what comes of it."""

    def test_topics(self) -> None:
        """Topics are made, listed, described, altered and deleted."""
        made = self.client.create_topic("audit", 3, {"retention.ms": 5000})
        self.assertEqual((made.topic, made.partitions, made.config), ("audit", 3, {"retention.ms": "5000"}))
        self.assertEqual([each.topic for each in self.client.list_topics()], ["audit", "orders"])
        self.assertEqual(len(self.client.describe_topic("audit").partitions), 3)
        altered = self.client.alter_topic("audit", 4, {"retention.ms": None})
        self.assertEqual((altered.partitions, altered.config), (4, {}))
        self.client.delete_topic("audit")
        self.assertRaises(errors.TopicNotFound, self.client.describe_topic, "audit")
        self.assertRaises(errors.AlreadyExists, self.client.create_topic, "orders")

    def test_records(self) -> None:
        """What is produced is fetched: values, keys, headers, timestamps, any bytes and none."""
        sent = [
            Record(bytes(range(256)), b"\x00\xff", (("a", b"\xfe"), ("b", None), ("a", b"")), 5),
            Record(None, b"gone", timestamp=6),
            Record(b"", timestamp=7),
        ]
        self.assertEqual(self.client.produce("orders", sent, 1), [0, 1, 2])
        fetched = self.client.fetch("orders", 1, 0)
        self.assertEqual(fetched.next_offset, 3)
        for offset, (before, after) in enumerate(zip(sent, fetched.records, strict=True)):
            self.assertEqual(
                after, Record(before.value, before.key, before.headers, before.timestamp, offset)
            )

    def test_plain_values(self) -> None:
        """Values may be given as such."""
        self.assertEqual(self.client.produce("orders", [b"one", b"two"]), [0, 1])
        self.assertEqual(self.values(), [b"one", b"two"])

    def test_offsets(self) -> None:
        """Offsets are found by place and by time, and what is before them is deleted."""
        self.client.produce("orders", [Record(b"", timestamp=time) for time in (10, 30, 20)])
        found = {
            at: self.client.list_offsets("orders", 0, at)
            for at in ("earliest", "latest", "max_timestamp", 15)
        }
        self.assertEqual({at: each.offset for at, each in found.items()}, {
            "earliest": 0, "latest": 3, "max_timestamp": 1, 15: 1
        })  # fmt: skip
        self.assertIsNone(self.client.list_offsets("orders", 0, 31).offset)
        self.assertEqual(self.client.delete_records("orders", 0, 2), 2)
        self.assertRaises(errors.OffsetOutOfRange, self.client.fetch, "orders", 0, 0)
        self.assertEqual(self.client.fetch("orders", 0, 0, offset_reset="earliest").next_offset, 3)

    def test_groups(self) -> None:
        """Groups commit, are described and deleted."""
        self.client.produce("orders", [b"1", b"2", b"3"])
        self.assertIsNone(self.client.committed("kitchen", "orders", 0))
        self.client.commit("kitchen", "orders", 0, 1)
        self.client.commit("kitchen", "orders", 1, 0)
        self.assertEqual(self.client.committed("kitchen", "orders", 0), 1)
        self.assertEqual(self.client.list_groups(), ["kitchen"])
        self.assertEqual([each.lag for each in self.client.describe_group("kitchen")], [2, 0])
        self.client.delete_group("kitchen", "orders", 1)
        self.assertEqual(len(self.client.describe_group("kitchen")), 1)
        self.client.delete_group("kitchen")
        self.assertRaises(errors.GroupNotFound, self.client.describe_group, "kitchen")
        self.assertRaises(errors.CommitRefused, self.client.commit, "kitchen", "orders", 9, 0)

    def test_group_fetch(self) -> None:
        """A fetch for a group begins where that was; the broker may commit by itself."""
        self.client.produce("orders", [b"1", b"2", b"3"])
        self.client.commit("kitchen", "orders", 0, 1)
        first = self.client.fetch("orders", 0, 0, group_id="kitchen", auto_commit=True)
        self.assertEqual([each.value for each in first.records], [b"2", b"3"])
        self.assertEqual(self.client.committed("kitchen", "orders", 0), 3)

    def test_broker(self) -> None:
        """The broker says that it is there, and what it can do."""
        self.client.ping()
        self.assertIn("Produce", self.client.api_versions().requests)

    def test_same_as_the_other(self) -> None:
        """Both clients have a method for each request, of the same name and with the same arguments."""
        names = [
            name for name, each in vars(calls).items() if getattr(each, "__module__", "") == calls.__name__
        ]
        made = [name for name in names if name[0].islower()]
        self.assertEqual(len(made), 16)
        for name in made:
            for client in (Client, TwistedClient):
                self.assertIs(getattr(client, name).__wrapped__, getattr(calls, name))


class FaultTests(ClientCase):
    """Connections break."""

    def test_connects_when_needed(self) -> None:
        """There is one connection, as long as it holds."""
        self.client.ping()
        self.client.ping()
        self.assertEqual(len(self.broker.connections), 1)

    def test_reads_are_repeated(self) -> None:
        """What does no harm is tried again, over a new connection."""
        self.client.produce("orders", [b"one"])
        self.broker.faults += ["unsent", "unanswered"]
        self.assertEqual(self.values(), [b"one"])
        self.assertEqual(len(self.broker.connections), 3)
        self.assertTrue(self.broker.connections[0].closed)

    def test_produce_is_not_repeated(self) -> None:
        """Nobody knows whether it was done; here it was, and is not done twice."""
        self.broker.faults.append("unanswered")
        error = self.assertRaises(errors.ConnectionLost, self.client.produce, "orders", [b"one"])
        self.assertEqual(error.request, "Produce")
        self.assertEqual(self.values(), [b"one"])

    def test_produce_at_least_once(self) -> None:
        """Who asks for it gets the record written, perhaps twice."""
        self.broker.faults.append("unanswered")
        self.assertEqual(self.client.produce("orders", [b"one"], at_least_once=True), [1])
        self.assertEqual(self.values(), [b"one", b"one"])

    def test_unsent_produce_is_repeated(self) -> None:
        """What was certainly not sent may be: there was no connection."""
        self.broker.refusals = 2
        self.assertEqual(self.client.produce("orders", [b"one"]), [0])
        self.assertEqual(self.values(), [b"one"])

    def test_broker_went_away(self) -> None:
        """A connection that is known to be gone is not used: nothing can be lost in it."""
        self.client.ping()
        self.broker.connections[0].gone = True
        self.assertEqual(self.client.produce("orders", [b"one"]), [0])
        self.assertEqual(len(self.broker.connections), 2)

    def test_gives_up(self) -> None:
        """After a while it is enough; the delays grow meanwhile."""
        self.broker.refusals = 1000
        pace = self.broker.pace
        client = self.broker.client(ClientSettings(retry_seconds=5), pace)
        self.assertRaises(errors.ConnectionFailed, client.ping)
        self.assertEqual(pace.slept, [0.1, 0.2, 0.4, 0.8, 1.6])

    def test_interrupted(self) -> None:
        """After Ctrl-C in the middle of an exchange, the connection is not used any more."""
        self.client.ping()
        connection = self.broker.connections[0]

        def interrupt(*_: object) -> bytes:
            raise KeyboardInterrupt

        connection.exchange = interrupt  # type: ignore[method-assign]
        self.assertRaises(KeyboardInterrupt, self.client.ping)
        self.assertTrue(connection.closed)
        self.client.ping()

    def test_closed(self) -> None:
        """A closed client says so."""
        with self.client as client:
            client.ping()
        self.assertTrue(self.broker.connections[0].closed)
        self.assertEqual(
            str(self.assertRaises(errors.ClientClosed, self.client.ping)), "the client is closed"
        )
        self.client.close()


class ConsumerTests(ClientCase):
    """The at-least-once loop."""

    def setUp(self) -> None:
        super().setUp()
        self.client.produce("orders", [b"a0", b"a1", b"a2"], 0)
        self.client.produce("orders", [b"b0", b"b1"], 1)

    def committed(self) -> list[int | None]:
        return [self.client.committed("kitchen", "orders", partition) for partition in (0, 1)]

    def test_all(self) -> None:
        """Without a group all records come, each partition in its order, and nothing is committed."""
        found = [each.value for each in self.client.consume("orders", follow=False)]
        self.assertEqual(sorted(found), [b"a0", b"a1", b"a2", b"b0", b"b1"])  # type: ignore[type-var]
        self.assertEqual(self.client.list_groups(), [])

    def test_group(self) -> None:
        """A group gets each record once, over several lives."""
        self.assertEqual(len(list(self.client.consume("orders", "kitchen", follow=False))), 5)
        self.assertEqual(self.committed(), [3, 2])
        self.client.produce("orders", [b"a3"], 0)
        (record,) = self.client.consume("orders", "kitchen", follow=False)
        self.assertEqual((record.offset, record.value), (3, b"a3"))

    def test_left_in_the_middle(self) -> None:
        """The record at which a loop is left comes again; those before do not."""
        with self.client.consume("orders", "kitchen", partitions=[0], follow=False) as consumer:
            for record in consumer:
                if record.value == b"a1":
                    break
        self.assertEqual(self.committed(), [1, None])

    def test_failed_in_the_middle(self) -> None:
        """So does one whose processing failed, and the error is told."""

        def fail() -> None:
            with self.client.consume("orders", "kitchen", partitions=[0]) as consumer:
                next(consumer)
                next(consumer)
                raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, fail)
        self.assertEqual(self.committed(), [1, None])

    def test_failed_and_broker_gone(self) -> None:
        """If then the commit fails, too, the first error is the one that is told."""

        def fail() -> None:
            with self.client.consume("orders", "kitchen", partitions=[0]) as consumer:
                next(consumer)
                next(consumer)
                self.client.close()
                raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, fail)

    def test_explicit_commit(self) -> None:
        """Who has processed the last record, too, says so."""
        consumer = self.client.consume("orders", "kitchen", partitions=[0])
        next(consumer)
        next(consumer)
        consumer.commit()
        self.assertEqual(self.committed(), [2, None])
        consumer.close()
        self.assertEqual(self.committed(), [2, None])

    def test_nothing_is_committed_early(self) -> None:
        """As long as records are being processed, they are not committed."""
        consumer = self.client.consume("orders", "kitchen", partitions=[0])
        for _ in range(3):
            next(consumer)
        self.assertEqual(self.committed(), [None, None])

    def test_batches(self) -> None:
        """Whole batches may be processed, and committed when they are."""
        consumer = self.client.consume("orders", "kitchen", partitions=[0], follow=False, max_bytes=4)
        batch = consumer.poll()
        assert isinstance(batch, Batch)
        self.assertEqual(([each.value for each in batch.records], batch.next_offset), ([b"a0", b"a1"], 2))
        consumer.commit_batch(batch)
        self.assertEqual(self.committed(), [2, None])
        consumer.poll()
        self.assertIsNone(consumer.poll())

    def test_start(self) -> None:
        """A group that has not begun begins where it is told to."""
        for start, found in (
            ("latest", []),
            (2, [b"a2"]),
            ({0: 1}, [b"a1", b"a2"]),
            ("earliest", [b"a0", b"a1", b"a2"]),
        ):
            consumer = self.client.consume("orders", partitions=[0], start=start, follow=False)  # type: ignore[arg-type]
            self.assertEqual([each.value for each in consumer], found)

    def test_start_is_for_the_first_time(self) -> None:
        """A group that was somewhere goes on from there, even if the end would be later."""
        self.client.commit("kitchen", "orders", 0, 1)
        consumer = self.client.consume("orders", "kitchen", partitions=[0], start="latest", follow=False)
        self.assertEqual([each.value for each in consumer], [b"a1", b"a2"])

    def test_follow_one(self) -> None:
        """A single partition is waited for at the broker."""
        consumer = self.client.consume("orders", partitions=[0], start="latest")
        self.broker.world.clock.callLater(2, self.broker.client().produce, "orders", [b"late"])
        self.assertEqual(next(consumer).value, b"late")

    def test_follow_several(self) -> None:
        """Several are looked at in turn, with pauses that grow."""
        pace = self.broker.pace
        consumer = self.broker.client(pace=pace).consume("orders", start="latest")
        self.broker.world.clock.callLater(2, self.broker.client().produce, "orders", [b"late"], 1)
        self.assertEqual(next(consumer).value, b"late")
        self.assertEqual(pace.slept, [0.05, 0.1, 0.2, 0.4, 0.5, 0.5, 0.5])

    def test_retention_was_faster(self) -> None:
        """A group that was at deleted records hears it, unless it has said where to go on."""
        self.client.commit("kitchen", "orders", 0, 0)
        self.client.delete_records("orders", 0, 2)
        consumer = self.client.consume("orders", "kitchen", partitions=[0], follow=False)
        self.assertRaises(errors.OffsetOutOfRange, next, consumer)
        consumer = self.client.consume(
            "orders", "kitchen", partitions=[0], follow=False, offset_reset="earliest"
        )
        self.assertEqual([each.value for each in consumer], [b"a2"])


class SocketTests(SynchronousTestCase):
    """Frames over real sockets."""

    def setUp(self) -> None:
        near, self.far = socket.socketpair()
        self.connection = SocketConnection(near)
        self.addCleanup(self.far.close)
        self.addCleanup(self.connection.close)
        self.now = 0.0

    def exchange(self, seconds: float = 5) -> bytes:
        return self.connection.exchange("Ping", b"hello", seconds, lambda: self.now)

    def test_exchange(self) -> None:
        """A frame goes out, and one comes in."""
        self.far.sendall(pack(">I", 3) + b"yes")
        self.assertEqual(self.exchange(), b"yes")
        self.assertEqual(self.far.recv(100), pack(">I", 5) + b"hello")
        self.assertFalse(self.connection.is_gone())

    def test_closed_by_the_broker(self) -> None:
        """It is noticed, before or after something was sent."""
        self.far.close()
        self.assertTrue(self.connection.is_gone())
        self.assertRaises(errors.ConnectionLost, self.exchange)

    def test_closed_within_an_answer(self) -> None:
        """Half an answer is none."""
        self.far.sendall(pack(">I", 3) + b"ye")
        self.far.shutdown(socket.SHUT_WR)
        self.assertIn(
            "has closed the connection", str(self.assertRaises(errors.ConnectionLost, self.exchange))
        )

    def test_timeout(self) -> None:
        """Silence ends at some time."""
        self.assertRaises(errors.RequestTimedOut, self.exchange, 0.001)
        self.assertRaises(errors.RequestTimedOut, self.exchange, 0)

    def test_not_a_broker(self) -> None:
        """Who speaks something else is not listened to."""
        self.far.sendall(b"HTTP/1.1 400 Bad Request\r\n")
        self.assertRaises(errors.NotUnderstood, self.exchange)

    def test_nobody_listens(self) -> None:
        """One hears where nobody was, and why."""
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        open_socket(TcpAddress("127.0.0.1", port), 5).close()
        listener.close()
        error = self.assertRaises(errors.ConnectionFailed, connect, f"127.0.0.1:{port}")
        self.assertEqual(str(error), f"cannot connect to 127.0.0.1:{port}: Connection refused")
        self.assertRaises(errors.ConnectionFailed, open_socket, UnixAddress("/nowhere/at/all"), 5)
