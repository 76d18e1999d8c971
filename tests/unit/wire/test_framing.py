"""Tests for L{rustlog.wire.framing}."""

from __future__ import annotations

from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.framing import FrameReceiver
from rustlog.wire.receiving import Pause
from tests.unit.wire.harness import frame


class Receiver(FrameReceiver):
    """Writes down what it is told."""

    MAX_LENGTH = 1000

    def __init__(self) -> None:
        super().__init__()
        self.announced: list[int] = []
        self.frames: list[bytes] = []
        self.too_long: list[int] = []
        self.pause_at: int | None = None

    def frame_announced(self, length: int) -> None:
        self.announced.append(length)
        if length == self.pause_at:
            self.pause(Pause.MEMORY)

    def stringReceived(self, string: bytes) -> None:
        self.frames.append(string)

    def lengthLimitExceeded(self, length: int) -> None:
        self.too_long.append(length)
        self.pause(Pause.ENDING)


class FrameReceiverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.receiver = Receiver()
        self.transport = StringTransport()
        self.receiver.makeConnection(self.transport)

    def test_frames_in_pieces_of_any_size(self) -> None:
        """However the network cuts the bytes, the same frames arrive."""

        @settings(deadline=None, max_examples=60)
        @given(
            st.lists(st.binary(max_size=300), max_size=6),
            st.lists(st.integers(1, 40), min_size=1, max_size=9),
        )
        def check(payloads: list[bytes], sizes: list[int]) -> None:
            receiver = Receiver()
            receiver.makeConnection(StringTransport())
            data = b"".join(map(frame, payloads))
            position = turn = 0
            while position < len(data):
                size = sizes[turn % len(sizes)]
                receiver.dataReceived(data[position : position + size])
                position, turn = position + size, turn + 1
            self.assertEqual(receiver.frames, payloads)
            self.assertEqual(receiver.announced, [len(each) for each in payloads])
            self.assertEqual(receiver.bytes_received, len(data))

        check()

    def test_every_byte_boundary(self) -> None:
        """Two frames, cut in two at every place."""
        data = frame(b"first") + frame(b"") + frame(b"third")
        for cut in range(len(data) + 1):
            receiver = Receiver()
            receiver.makeConnection(StringTransport())
            receiver.dataReceived(data[:cut])
            receiver.dataReceived(data[cut:])
            self.assertEqual(receiver.frames, [b"first", b"", b"third"], cut)

    def test_announced_before_the_body(self) -> None:
        """The size of a frame is known before any of its body is there."""
        self.receiver.dataReceived(pack("!I", 500))
        self.assertEqual(self.receiver.announced, [500])
        self.assertTrue(self.receiver.is_mid_frame)
        self.receiver.dataReceived(b"x" * 500)
        self.assertFalse(self.receiver.is_mid_frame)
        self.assertEqual(self.receiver.announced, [500])

    def test_too_long(self) -> None:
        """A frame above the limit is told of, is not announced, and ends it."""
        self.receiver.dataReceived(frame(b"good") + pack("!I", 1001) + frame(b"not any more"))
        self.assertEqual(self.receiver.too_long, [1001])
        self.assertEqual(self.receiver.frames, [b"good"])
        self.assertEqual(self.receiver.announced, [4])

    def test_longest(self) -> None:
        """A frame of exactly the limit is received."""
        self.receiver.dataReceived(frame(b"x" * 1000))
        self.assertEqual(self.receiver.frames, [b"x" * 1000])
        self.assertEqual(self.receiver.too_long, [])

    def test_waits_when_paused_at_the_announcement(self) -> None:
        """A frame that has to wait is handed over when it may go on, and so is what follows."""
        self.receiver.pause_at = 6
        self.receiver.dataReceived(frame(b"one") + frame(b"second") + frame(b"three"))
        self.assertEqual(self.receiver.frames, [b"one"])
        self.assertEqual(self.transport.producerState, "paused")
        self.receiver.resume(Pause.MEMORY)
        self.assertEqual(self.receiver.frames, [b"one", b"second", b"three"])
        self.assertEqual(self.transport.producerState, "producing")
        self.assertEqual(self.receiver.announced, [3, 6, 5])

    def test_data_that_comes_while_paused(self) -> None:
        """What a transport delivers although it was paused is kept in order."""
        self.receiver.pause(Pause.OUTPUT)
        self.receiver.dataReceived(frame(b"one")[:5])
        self.receiver.dataReceived(frame(b"one")[5:] + frame(b"two"))
        self.assertEqual(self.receiver.frames, [])
        self.receiver.resume(Pause.OUTPUT)
        self.assertEqual(self.receiver.frames, [b"one", b"two"])

    def test_reasons_add_up(self) -> None:
        """Reading goes on only when the last reason against it is gone."""
        self.receiver.pause(Pause.OUTPUT)
        self.receiver.pause(Pause.IN_FLIGHT)
        self.receiver.resume(Pause.OUTPUT)
        self.assertEqual(self.transport.producerState, "paused")
        self.receiver.resume(Pause.OUTPUT)
        self.assertEqual(self.transport.producerState, "paused")
        self.receiver.resume(Pause.IN_FLIGHT)
        self.assertEqual(self.transport.producerState, "producing")

    def test_paused_from_within(self) -> None:
        """A handler that pauses gets no further frame; one that resumes at once gets all, in order."""

        class Pausing(Receiver):
            def stringReceived(self, string: bytes) -> None:
                self.pause(Pause.IN_FLIGHT)
                super().stringReceived(string)
                if string != b"stop":
                    self.resume(Pause.IN_FLIGHT)

        receiver = Pausing()
        receiver.makeConnection(StringTransport())
        receiver.dataReceived(frame(b"1") + frame(b"2") + frame(b"stop") + frame(b"4"))
        self.assertEqual(receiver.frames, [b"1", b"2", b"stop"])
        receiver.resume(Pause.IN_FLIGHT)
        self.assertEqual(receiver.frames, [b"1", b"2", b"stop", b"4"])

    def test_large_body_is_copied_a_bounded_number_of_times(self) -> None:
        """Receiving a large frame in small pieces takes time in proportion to its size."""
        self.receiver.MAX_LENGTH = 10_485_760
        copied = 0
        original = FrameReceiver._collect

        def collect(receiver: FrameReceiver, body: bytearray, data: bytes) -> bytes:
            nonlocal copied
            before = len(body)
            rest = original(receiver, body, data)
            copied += len(body) - before
            # If what was left over grew, it would be copied with every piece.
            self.assertEqual(len(receiver._unprocessed), 0)
            return rest

        self.patch(FrameReceiver, "_collect", collect)
        size = 1024 * 1024
        data = frame(bytes(size))
        for position in range(0, len(data), 1024):
            self.receiver.dataReceived(data[position : position + 1024])
        self.assertEqual([len(each) for each in self.receiver.frames], [size])
        self.assertLessEqual(copied, size)

    def test_nothing_is_kept_after_the_last_frame(self) -> None:
        """An idle connection holds no memory of what it has received."""
        self.receiver.dataReceived(frame(b"x" * 900) + b"\x00\x00")
        self.assertEqual(self.receiver._unprocessed, b"\x00\x00")

    def test_forget_input(self) -> None:
        """What was received in part is dropped on demand."""
        self.receiver.dataReceived(frame(b"x" * 100)[:50])
        self.receiver.forget_input()
        self.assertFalse(self.receiver.is_mid_frame)
        self.receiver.dataReceived(frame(b"new"))
        self.assertEqual(self.receiver.frames, [b"new"])
