"""Tests for L{rustlog.wire.sendfile}: real files and sockets, a transport that does as Twisted's do."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

from twisted.internet.interfaces import IPullProducer, ITCPTransport
from twisted.internet.task import Clock
from twisted.internet.tcp import Connection
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from rustlog.wire import output, sendfile
from rustlog.wire.budget import Pool
from rustlog.wire.output import OutputQueue
from rustlog.wire.sendfile import FileSender, can_send_files


class FileSlice:
    """A region of a file."""

    def __init__(self, descriptor: int, position: int, size: int) -> None:
        self.descriptor, self.position, self.size = descriptor, position, size
        self.released = self.reads = 0

    def region(self) -> tuple[int, int]:
        return self.descriptor, self.position

    def buffer(self) -> bytes:
        self.reads += 1
        return os.pread(self.descriptor, self.size, self.position)

    def release(self) -> None:
        self.released += 1


@implementer(ITCPTransport)
class SocketTransport(Connection):
    """Twisted's own, on one end of a pair of sockets, with a reactor that acts when a test says so."""

    def __init__(self, end: socket.socket) -> None:
        self.wants_to_write = False
        self.aborted = False
        super().__init__(end, None, Clock())
        self.connected = True

    def startReading(self) -> None:
        pass

    def stopReading(self) -> None:
        pass

    def startWriting(self) -> None:
        self.wants_to_write = True

    def stopWriting(self) -> None:
        self.wants_to_write = False

    def abortConnection(self) -> None:
        self.aborted = True

    def turn(self) -> None:
        """One turn of the reactor."""
        if self.wants_to_write:
            self.doWrite()


class SendFileCase(SynchronousTestCase):
    sendfile_from_bytes = 0

    def setUp(self) -> None:
        self.patch(output, "SENDFILE_FROM_BYTES", self.sendfile_from_bytes)
        self.content = os.urandom(3_000_000)
        path = self.mktemp()
        with open(path, "wb") as file:
            file.write(self.content)
        self.file = os.open(path, os.O_RDONLY)
        self.addCleanup(os.close, self.file)
        ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        self.addCleanup(ours.close)
        self.addCleanup(self.theirs.close)
        ours.setblocking(False)
        self.transport = SocketTransport(ours)
        self.events: list[str] = []
        self.pool = Pool(Clock(), 1000)
        self.output = OutputQueue(
            self.transport,
            self.pool,
            progress=lambda: None,
            blocked=lambda: self.events.append("blocked"),
            unblocked=lambda: self.events.append("unblocked"),
            drained=lambda: self.events.append("drained"),
        )

    def slice(self, position: int, size: int) -> FileSlice:
        return FileSlice(self.file, position, size)

    def read(self) -> bytes:
        """What the client can read now."""
        data = b""
        try:
            while True:
                data += self.theirs.recv(2**20)
        except BlockingIOError:
            return data

    def read_all(self) -> bytes:
        """What the client reads if it goes on reading."""
        data = self.read()
        for _ in range(1000):
            self.transport.turn()
            data += self.read()
        return data


class FileTests(SendFileCase):
    def test_in_order(self) -> None:
        """Files and bytes come as they were written."""
        first, second = self.slice(100, 50), self.slice(5, 7)
        self.output.write_parts([b"<", first, b"|", second])
        self.output.write(b">")
        self.assertEqual(self.read_all(), b"<" + self.content[100:150] + b"|" + self.content[5:12] + b">")
        self.assertEqual([first.released, second.released], [1, 1])
        self.assertEqual([first.reads, second.reads, self.pool.used], [0, 0, 0])
        self.assertTrue(self.output.is_empty)

    def test_one_turn(self) -> None:
        """A small file is out after one turn of the reactor, and holds nothing up."""
        self.output.write_parts([b"<", self.slice(0, 1000)])
        self.transport.turn()
        self.assertEqual(self.read(), b"<" + self.content[:1000])
        self.assertEqual(self.events, ["drained"])

    def test_slow_client(self) -> None:
        """A client that does not read blocks the output; it goes on where it was when the client reads."""
        large = self.slice(0, 3_000_000)
        self.output.write_parts([b"<", large, b">"])
        for _ in range(5):
            self.transport.turn()
        self.assertEqual(self.events, ["blocked"])
        self.assertEqual(large.released, 0)
        self.assertEqual(self.read_all(), b"<" + self.content + b">")
        self.assertEqual(self.events, ["blocked", "unblocked", "drained"])
        self.assertEqual(large.released, 1)

    def test_only_a_file(self) -> None:
        """It need not be announced by bytes."""
        self.output.write_parts([self.slice(7, 9)])
        self.assertEqual(self.read_all(), self.content[7:16])

    def test_lost_connection(self) -> None:
        """What was under way is released, once."""
        large, later = self.slice(0, 3_000_000), self.slice(0, 10)
        self.output.write_parts([b"<", large, later])
        self.transport.turn()
        self.output.close()
        self.transport.turn()
        self.assertEqual([large.released, later.released], [1, 1])

    def test_no_memory(self) -> None:
        """None is needed."""
        self.assertEqual(self.output.memory_for(output.Parts([b"", self.slice(0, 10)], 10)), 0)

    def test_is_a_producer(self) -> None:
        """It does what transports expect of a producer."""
        verifyObject(IPullProducer, FileSender(self.transport, self.slice(0, 1), (self.file, 0), list))


class SmallAnswerTests(SendFileCase):
    """Answers that are not worth a C{sendfile}."""

    sendfile_from_bytes = output.SENDFILE_FROM_BYTES

    def test_one_buffer(self) -> None:
        """A small answer is sent as a whole, and its slices are given back at once."""
        small = self.slice(10, 500)
        self.output.write_parts([b"<", small, b">"])
        self.transport.doWrite()
        self.assertEqual(self.read(), b"<" + self.content[10:510] + b">")
        self.assertEqual([small.reads, small.released, self.pool.used], [1, 1, 0])

    def test_behind_a_large_one(self) -> None:
        """It waits for its turn, with its memory accounted for."""
        large, small = self.slice(0, 3_000_000), self.slice(3, 4)
        self.output.write_parts([b"<", large, b">"])
        self.transport.turn()
        self.output.write_parts([b"(", small, b")"])
        self.assertEqual((small.released, self.pool.used), (1, 7))
        self.assertEqual(self.read_all(), b"<" + self.content + b">(" + self.content[3:7] + b")")
        self.assertEqual(self.pool.used, 0)

    def test_file_too_short(self) -> None:
        """A file that lacks what it should have ends the connection: the client must not go on without it."""
        beyond = self.slice(len(self.content) - 10, 20)
        self.output.write_parts([b"<", beyond])
        self.assertTrue(self.transport.aborted)
        self.assertEqual(beyond.released, 1)


class TroubleTests(SendFileCase):
    def fail(self, number: int) -> None:
        def refuse(*arguments: Any) -> int:
            raise OSError(number, os.strerror(number))

        self.patch(sendfile, "send_file", refuse)

    def test_not_this_way(self) -> None:
        """Where the file system can not do it, files are read and sent; and so are those after it."""
        self.fail(errno.EINVAL)
        slices = [self.slice(100, 50), self.slice(5, 7)]
        self.output.write_parts([b"<", *slices, b">"])
        self.assertEqual(self.read_all(), b"<" + self.content[100:150] + self.content[5:12] + b">")
        self.assertEqual([each.released for each in slices], [1, 1])

    def test_client_is_gone(self) -> None:
        """A lost connection is that, and nothing else."""
        self.fail(errno.EPIPE)
        self.output.write_parts([b"<", self.slice(0, 10)])
        self.transport.turn()
        self.assertTrue(self.transport.aborted)
        self.assertFalse(self.transport.wants_to_write)

    def test_file_too_short(self) -> None:
        """A region that is not there is an error, not an endless wait."""
        self.output.write_parts([b"<", self.slice(2_999_999, 2)])
        for _ in range(5):
            self.transport.turn()
        self.assertTrue(self.transport.aborted)


class CapabilityTests(SendFileCase):
    def test_plain_transports(self) -> None:
        """Only what goes to the kernel as it is can be sent past the transport."""
        self.assertTrue(can_send_files(self.transport))
        self.transport.TLS = True
        self.assertFalse(can_send_files(self.transport))
        self.assertFalse(can_send_files(object()))
