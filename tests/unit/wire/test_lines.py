"""Tests for L{rustlog.wire.lines}, and for connections of lines."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from rustlog.results import Result
from rustlog.settings import BrokerConfig
from rustlog.wire.connection import ENTRY_BYTES, LineConnection
from rustlog.wire.factory import ConnectionFactory
from rustlog.wire.lines import LineReceiver
from rustlog.wire.pipeline import Work
from rustlog.wire.receiving import Pause
from tests.unit.wire.harness import Client, World

LIMIT = 100


class Receiver(LineReceiver):
    """Writes down what it is told."""

    MAX_LENGTH = LIMIT

    def __init__(self) -> None:
        super().__init__()
        self.announced: list[int] = []
        self.lines: list[bytes] = []
        self.too_long: list[int] = []
        self.pause_at: int | None = None
        self.makeConnection(StringTransport())

    def frame_announced(self, length: int) -> None:
        self.announced.append(length)
        if length == self.pause_at:
            self.pause(Pause.MEMORY)

    def stringReceived(self, string: bytes) -> None:
        self.lines.append(string)

    def lengthLimitExceeded(self, length: int) -> None:
        self.too_long.append(length)
        self.pause(Pause.ENDING)
        self.forget_input()


class LineReceiverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.receiver = Receiver()

    def test_lines_in_pieces_of_any_size(self) -> None:
        """However the network cuts the bytes, the same lines arrive."""

        @settings(deadline=None, max_examples=60)
        @given(
            st.lists(st.text("ab \r", max_size=LIMIT - 1), max_size=6),
            st.lists(st.integers(1, 40), min_size=1, max_size=9),
        )
        def check(texts: list[str], sizes: list[int]) -> None:
            receiver = Receiver()
            data = b"".join(f"{each}\n".encode() for each in texts)
            position = turn = 0
            while position < len(data):
                size = sizes[turn % len(sizes)]
                receiver.dataReceived(data[position : position + size])
                position, turn = position + size, turn + 1
            expected = [each.encode().removesuffix(b"\r") for each in texts]
            self.assertEqual(receiver.lines, expected)
            self.assertEqual(receiver.announced, [len(each) for each in expected])
            self.assertEqual(receiver.bytes_received, len(data))

        check()

    def test_ends_of_lines(self) -> None:
        """A line may end as telnet ends them; an empty one is one, too."""
        self.receiver.dataReceived(b"one\r\ntwo\n\r\n\nlast without an end")
        self.assertEqual(self.receiver.lines, [b"one", b"two", b"", b""])

    def test_longest_line(self) -> None:
        """The limit is that of the line without its end."""
        longest = b"x" * LIMIT
        for end in (b"\n", b"\r\n"):
            self.receiver.dataReceived(longest + end)
        self.assertEqual((self.receiver.lines, self.receiver.too_long), ([longest] * 2, []))

    def test_too_long(self) -> None:
        """A line that is too long is refused, whole or not, however it comes; nothing follows it."""
        for data in (b"x" * (LIMIT + 1) + b"\n", b"x" * (LIMIT + 2), b"x" * (LIMIT + 1) + b"\r\n"):
            for size in (1, 7, len(data)):
                receiver = Receiver()
                for position in range(0, len(data), size):
                    if not receiver.too_long:
                        receiver.dataReceived(data[position : position + size])
                self.assertEqual(len(receiver.too_long), 1, (data, size))
                self.assertGreater(receiver.too_long[0], LIMIT)
                receiver.dataReceived(b"next\n")
                self.assertEqual(receiver.lines, [])

    def test_paused_by_an_announcement(self) -> None:
        """A line whose announcement is answered with a pause is handed over after that, once."""
        self.receiver.pause_at = 3
        self.receiver.dataReceived(b"a\nbcd\ne\n")
        self.assertEqual((self.receiver.lines, self.receiver.announced), ([b"a"], [1, 3]))
        self.receiver.resume(Pause.MEMORY)
        self.assertEqual(self.receiver.lines, [b"a", b"bcd", b"e"])

    def test_mid_line(self) -> None:
        """It is known whether the client owes the rest of a line."""
        states = []
        for data in (b"", b"a", b"b\n", b"c\nd"):
            self.receiver.dataReceived(data)
            states.append(self.receiver.is_mid_frame)
        self.assertEqual(states, [False, True, False, True])
        self.receiver.pause(Pause.OUTPUT)
        self.assertFalse(self.receiver.is_mid_frame)


class Shouting(LineConnection):
    """Answers every line in capitals: at once, or when told to."""

    MAX_LENGTH = LIMIT
    pending: list[Deferred[bytes]] | None = None

    def understand(self, payload: bytes) -> Work:
        work = Work()
        work.start = lambda: self.shout(payload.upper() + b"\n")  # type: ignore[method-assign]
        return work

    def shout(self, answer: bytes) -> Result[bytes]:
        if self.pending is None:
            return answer
        self.pending.append(Deferred().addCallback(lambda _: answer))
        return self.pending[-1]

    def frame_too_large(self, length: int) -> bytes:
        return b"TOO LONG\n"

    def too_many_connections(self) -> bytes:
        return b"TOO MANY\n"


class LineConnectionTests(SynchronousTestCase):
    """A connection of lines is like one of frames in all that matters."""

    def connect(self, **config: int) -> tuple[World, Client]:
        world = World(BrokerConfig(**config))
        world.factory = ConnectionFactory(world.listener, Shouting)
        return world, world.client()

    def test_answers(self) -> None:
        """Lines are answered in order, as they are."""
        _, client = self.connect()
        client.send_bytes(b"one\ntwo\r\nthr")
        client.send_bytes(b"ee\n")
        self.assertEqual(client.transport.value(), b"ONE\nTWO\nTHREE\n")

    def test_memory_is_counted(self) -> None:
        """A line takes memory until it is answered, or the client is gone."""
        world, client = self.connect()
        client.connection.pending = []
        client.send_bytes(b"one\ntwo\n")
        self.assertEqual(world.capacity.budget.requests.used, 2 * (3 + ENTRY_BYTES))
        client.connection.pending[0].callback(None)
        self.assertEqual(world.capacity.budget.requests.used, 3 + ENTRY_BYTES)
        client.disconnect()
        client.connection.pending[1].callback(None)
        self.assertEqual(world.capacity.budget.requests.used, 0)

    def test_in_flight(self) -> None:
        """Only so many lines are read before the first is answered."""
        _, client = self.connect(max_in_flight_requests=2)
        client.connection.pending = []
        client.send_bytes(b"a\nb\nc\nd\n")
        self.assertFalse(client.transport.is_reading)
        for number in range(4):
            client.connection.pending[number].callback(None)
        self.assertEqual(client.transport.value(), b"A\nB\nC\nD\n")
        self.assertTrue(client.transport.is_reading)

    def test_too_long(self) -> None:
        """Who sends a line that is too long hears so, after the answers to what came before, and no more."""
        _, client = self.connect()
        client.send_bytes(b"one\n" + b"x" * (LIMIT + 1) + b"\ntwo\n")
        self.assertEqual(client.transport.value(), b"ONE\nTOO LONG\n")
        self.assertTrue(client.transport.is_write_closed)

    def test_slow_client(self) -> None:
        """Who does not finish a line is cut off after a while."""
        world, client = self.connect(slow_client_timeout_ms=1000)
        client.send_bytes(b"on")
        world.clock.pump([0.1] * 9)
        self.assertFalse(client.transport.disconnected)
        world.clock.pump([0.1] * 3)
        self.assertTrue(client.transport.disconnected)

    def test_drain(self) -> None:
        """When the broker stops, what has come is answered, and the rest of a line is not awaited."""
        world, client = self.connect()
        client.connection.pending = []
        client.send_bytes(b"one\ntw")
        drained = world.factory.drain()
        client.connection.pending[0].callback(None)
        self.assertEqual(client.transport.value(), b"ONE\n")
        client.connection.readConnectionLost()
        client.settle()
        self.successResultOf(drained)
