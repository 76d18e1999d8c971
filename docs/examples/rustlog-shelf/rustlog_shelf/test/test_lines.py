"""Tests for L{rustlog_shelf.lines}."""

from __future__ import annotations

from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from rustlog.testing.broker import TestBroker
from rustlog_shelf.lines import LinesSettings, make_factory


class LinesTests(SynchronousTestCase):
    """A client at a terminal."""

    def setUp(self) -> None:
        self.broker = TestBroker()
        self.factory = make_factory(self.broker.listener(LinesSettings(line_bytes=300)))
        self.connect()
        self.say(b"MAKE orders 1")

    def connect(self) -> None:
        """Connect, again perhaps."""
        self.transport = StringTransport()
        self.connection = self.factory.buildProtocol(None)
        self.connection.makeConnection(self.transport)

    def say(self, line: bytes) -> bytes:
        """What is answered to a line, at once."""
        self.transport.clear()
        self.connection.dataReceived(line + b"\n")
        return self.transport.value()

    def test_put_and_get(self) -> None:
        """What is put can be got, in order, by anybody."""
        self.assertEqual(self.say(b"PUT orders 0 one tea"), b"OK 0\n")
        self.assertEqual(self.say(b"put orders 0 two coffees"), b"OK 1\n")
        self.connect()
        self.assertEqual(self.say(b"GET orders 0 0"), b"OK 0 one tea\n")
        self.assertEqual(self.say(b"GET orders 0 1"), b"OK 1 two coffees\n")
        self.assertEqual(self.say(b"GET orders 0 2"), b"END 2\n")

    def test_any_bytes(self) -> None:
        """Every byte can be put and got; what would break a line is escaped."""
        self.assertEqual(self.say(b"PUT orders 0 50%25 %0A \xff\xc3\xa4"), b"OK 0\n")
        self.assertEqual(self.say(b"GET orders 0 0"), b"OK 0 50%25 %0A %FF%C3%A4\n")
        self.assertEqual(self.say(b"PUT orders 0 "), b"OK 1\n")
        self.assertEqual(self.say(b"GET orders 0 1"), b"OK 1 \n")

    def test_wait(self) -> None:
        """Who asks with a time waits for the next record, but no longer than that."""
        self.assertEqual(self.say(b"GET orders 0 0 5000"), b"")
        waiting = self.transport
        self.connect()
        self.say(b"PUT orders 0 tea")
        self.broker.clock.advance(0)
        self.assertEqual(waiting.value(), b"OK 0 tea\n")
        self.assertEqual(self.say(b"GET orders 0 1 5000"), b"")
        self.broker.clock.advance(5)
        self.assertEqual(self.transport.value(), b"END 1\n")

    def test_disconnected_while_waiting(self) -> None:
        """Nothing is left of a client that went away while it waited."""
        self.say(b"GET orders 0 0 5000")
        self.connection.connectionLost()
        self.assertEqual(self.broker.capacity.budget.answers.used, 0)
        self.assertEqual(self.broker.capacity.connections, 0)

    def test_misunderstood(self) -> None:
        """A line that is no command is answered with what would be one, and nothing else happens."""
        everything = b"ERR say MAKE topic partitions, PUT topic partition text or GET topic partition offset"
        for line in (b"", b"HELO", b"\xff\x00"):
            self.assertTrue(self.say(line).startswith(everything))
        self.assertEqual(self.say(b"PUT orders 0"), b"ERR say PUT topic partition text\n")
        self.assertEqual(self.say(b"PUT orders x tea"), b"ERR say PUT topic partition text\n")
        for line in (b"GET orders 0", b"GET orders 0 -1", b"GET orders 0 1 2 3", b"GET"):
            self.assertTrue(self.say(line).startswith(b"ERR say GET topic partition offset"))
        self.assertEqual(self.say(b"MAKE more 1 2"), b"ERR say MAKE topic partitions\n")

    def test_refused(self) -> None:
        """What the broker refuses is told in the words of this protocol, or the broker's own."""
        self.assertEqual(self.say(b"PUT cakes 0 one"), b"ERR no such partition: cakes 0\n")
        self.assertEqual(self.say(b"GET orders 7 0"), b"ERR no such partition: orders 7\n")
        self.assertEqual(self.say(b"GET orders 0 9"), b"ERR offsets go from 0 to 0\n")
        self.assertEqual(self.say(b"MAKE orders 1"), b"ERR topic exists already: orders\n")
        self.assertTrue(self.say(b"MAKE o\xff 1").startswith(b"ERR invalid topic name"))

    def test_line_too_long(self) -> None:
        """A line beyond the limit ends the connection, with a word on why."""
        self.assertEqual(self.say(b"PUT orders 0 " + b"x" * 300), b"ERR a line may have 300 bytes\n")
        self.assertTrue(self.transport.disconnecting)

    def test_record_too_long(self) -> None:
        """A record that does not fit a line is refused; the next one can be had."""
        self.say(b"PUT orders 0 " + b"\x00" * 200)
        self.assertTrue(self.say(b"GET orders 0 0").startswith(b"ERR record 0 is longer than a line"))
        self.assertEqual(self.say(b"GET orders 0 1"), b"END 1\n")

    def test_drain(self) -> None:
        """When the broker stops, clients that have nothing to wait for are let go at once."""
        drained = self.factory.drain()
        self.assertTrue(self.transport.disconnecting)
        self.connection.connectionLost()
        self.successResultOf(drained)
