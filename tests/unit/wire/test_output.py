"""Tests for L{rustlog.wire.output}."""

from __future__ import annotations

from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog.storage.slices import MemorySlice
from rustlog.wire.answers import Parts
from rustlog.wire.budget import Pool
from rustlog.wire.output import CHUNK_BYTES, OutputQueue
from tests.unit.wire.harness import FakeTransport


class CountedSlice(MemorySlice):
    """Knows how often it was read and released."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.__dict__.update(reads=0, released=0)

    def buffer(self) -> bytes:
        self.__dict__["reads"] += 1
        return super().buffer()

    def release(self) -> None:
        self.__dict__["released"] += 1


class OutputQueueTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.make(buffer_size=64 * 1024)

    def make(self, buffer_size: int | None) -> None:
        self.events: list[str] = []
        self.transport = FakeTransport(buffer_size)
        self.pool = Pool(Clock(), 1000)
        self.output = OutputQueue(
            self.transport,
            self.pool,
            progress=lambda: self.events.append("progress"),
            blocked=lambda: self.events.append("blocked"),
            unblocked=lambda: self.events.append("unblocked"),
        )

    def test_is_a_producer(self) -> None:
        """It does what transports expect of a producer."""
        verifyObject(IPushProducer, self.output)
        self.assertTrue(self.transport.streaming)

    def test_small_answers_go_at_once(self) -> None:
        """While the transport takes them, answers are not held, and not counted."""
        self.output.write(b"one")
        self.output.write(b"two")
        self.assertEqual(self.transport.value(), b"onetwo")
        self.assertEqual((self.pool.used, self.events), (0, []))
        self.assertEqual(self.output.bytes_written, 6)

    def test_full_transport(self) -> None:
        """When the transport is full, answers wait, are counted, and keep their order."""
        self.output.write(b"a" * 70_000)
        self.assertEqual(self.events, ["blocked"])
        self.output.write(b"b")
        self.output.write(b"c")
        self.assertEqual(self.pool.used, 2)
        self.assertEqual(len(self.transport.value()), 70_000)
        self.transport.client_reads()
        self.assertEqual(self.transport.value()[-3:], b"abc")
        self.assertEqual(self.events, ["blocked", "progress", "unblocked"])
        self.assertEqual(self.pool.used, 0)

    def test_large_answer_in_pieces(self) -> None:
        """A large answer goes piece by piece as the client reads; all of it counts until the last."""
        answer = bytes(range(256)) * 4 * 300  # 300 KiB
        self.output.write(answer)
        self.assertEqual(len(self.transport.value()), CHUNK_BYTES)
        self.assertEqual(self.pool.used, len(answer))
        self.transport.client_reads()
        self.assertEqual(len(self.transport.value()), 2 * CHUNK_BYTES)
        self.assertEqual(self.pool.used, len(answer))
        self.transport.client_reads()
        self.assertEqual(self.transport.value(), answer)
        self.assertEqual(self.pool.used, 0)

    def test_many_waiting_answers_are_joined(self) -> None:
        """Answers that waited go out together, not one by one."""
        self.output.write(b"a" * 70_000)
        for _ in range(1000):
            self.output.write(b"answer")
        writes = []
        self.patch(self.transport, "write", writes.append)
        self.transport.client_reads()
        self.assertEqual(writes, [b"answer" * 1000])

    def test_transport_that_never_is_full(self) -> None:
        """A transport without limits gets everything at once."""
        self.make(buffer_size=None)
        self.output.write(b"x" * 1_000_000)
        self.assertEqual(len(self.transport.value()), 1_000_000)
        self.assertEqual(self.pool.used, 0)
        self.assertFalse(self.output.is_blocked)

    def test_lost_connection(self) -> None:
        """When the connection is lost, the memory is given back, also of what was sent in part."""
        self.output.write(b"x" * 1_000_000)
        self.output.write(b"y" * 1_000)
        self.assertEqual(self.pool.used, 1_001_000)
        self.output.stopProducing()
        self.output.close()
        self.assertEqual(self.pool.used, 0)

    def test_slices(self) -> None:
        """Slices are read and sent in their place, and released when they have been."""
        first, second = CountedSlice(b"first"), CountedSlice(b"second")
        self.output.write_parts([b"<", first, b"|", second, b">"])
        self.assertEqual(self.transport.value(), b"<first|second>")
        self.assertEqual((first.released, second.released, self.pool.used), (1, 1, 0))
        self.assertEqual(self.output.bytes_written, 14)

    def test_slices_wait(self) -> None:
        """A slice is not read before it is its turn, and is kept until the last of it is out."""
        large, later = CountedSlice(b"x" * 300_000), CountedSlice(b"later")
        self.output.write_parts([b"<", large, later, b">"])
        self.assertEqual((large.released, later.reads, self.pool.used), (0, 0, 300_001))
        self.assertEqual(self.output.memory_for(Parts([b"", large, later], 300_005)), 300_005)
        while self.output.is_blocked:
            self.transport.client_reads()
        self.assertEqual(self.transport.value(), b"<" + b"x" * 300_000 + b"later>")
        self.assertEqual((large.released, later.released, self.pool.used), (1, 1, 0))

    def test_unreadable_slice(self) -> None:
        """When the disk fails in the middle of an answer, the connection is lost, and nothing else."""
        bad, later = CountedSlice(b"bad"), CountedSlice(b"later")

        def fail() -> bytes:
            raise OSError("the disk has melted")

        bad.__dict__["buffer"] = fail
        self.output.write_parts([b"<", bad, later])
        self.assertTrue(self.transport.disconnected)
        self.output.close()
        self.assertEqual((bad.released, later.released, self.pool.used), (1, 1, 0))

    def test_lost_connection_with_slices(self) -> None:
        """When the connection is lost, what was not sent is released, once."""
        large, later = CountedSlice(b"x" * 300_000), CountedSlice(b"later")
        self.output.write_parts([b"<", large, later])
        self.output.stopProducing()
        self.output.close()
        self.assertEqual((large.released, later.released, self.pool.used), (1, 1, 0))

    def test_detach(self) -> None:
        """A transport can close only when it is left alone."""
        self.output.detach()
        self.assertIsNone(self.transport.producer)
