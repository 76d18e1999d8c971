"""
What a client has to read.

Answers go to the transport in pieces of moderate size, the next one when the last has
gone, so that it is known how much memory waits for the client, and whether it reads at all.

Slices of files go from the page cache to the socket (L{rustlog.wire.sendfile}) where the
transport is a plain TCP connection; elsewhere they are read when it is their turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

from attrs import define
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from zope.interface import implementer

from rustlog.interfaces import ISlice
from rustlog.log.batch import Buffer
from rustlog.wire.answers import Part, Parts, is_slice, part_content, part_size
from rustlog.wire.budget import Pool
from rustlog.wire.sendfile import FileSender, can_send_files

CHUNK_BYTES = 128 * 1024
"""What is given to a transport at once; more than the amount at which it calls itself full."""

SENDFILE_FROM_BYTES = 64 * 1024
"""
An answer below this size is sent as one buffer.  Copying it costs less than waiting for the socket before
and behind a region of a file does.
"""


@define(eq=False)
class _Piece:
    """
    A buffer, or what is left of it.

    @ivar held: how much memory it holds until the last of it is gone: all of its answer.
    @ivar slice: where it comes from, if it has to be released.
    """

    view: memoryview
    held: int
    slice: ISlice | None = None


@implementer(IPushProducer)
class OutputQueue:
    """
    The answers of one connection.

    @ivar progress: called when the client has read something.
    @ivar blocked: called when the client has to read before more can be written.
    @ivar unblocked: called when it has.
    @ivar drained: called when nothing is left here after something was.
    @ivar is_blocked: whether the client has to read first.
    """

    _log = Logger()

    def __init__(
        self,
        transport: Any,
        pool: Pool,
        *,
        progress: Callable[[], object],
        blocked: Callable[[], object],
        unblocked: Callable[[], object],
        drained: Callable[[], object] = list,
    ) -> None:
        self._transport = transport
        self._pool = pool
        self._progress = progress
        self._blocked = blocked
        self._unblocked = unblocked
        self._drained = drained
        self._queue: deque[_Piece | ISlice] = deque()
        self._can_send_files = can_send_files(transport)
        self._sender: FileSender | None = None
        self._is_paused = False
        self.is_blocked = False
        self.bytes_written = 0
        transport.registerProducer(self, True)

    @property
    def is_empty(self) -> bool:
        """Whether everything is with the transport, and that does not call itself full."""
        return not self._queue and self._sender is None and not self._is_paused

    def memory_for(self, answer: Parts) -> int:
        """How much of an answer will be read into memory on its way."""
        if self._can_send_files:
            return 0
        return sum(cast(ISlice, each).size for each in answer.parts if is_slice(each))

    def write(self, data: Buffer) -> None:
        """Send, now or when the client has read what is before it."""
        self.bytes_written += len(data)
        if self.is_empty and len(data) <= CHUNK_BYTES:
            self._transport.write(data)
        else:
            self._enqueue(data)
            self._send()
        self._notice()

    def write_parts(self, parts: Sequence[Part]) -> None:
        """The same for buffers and slices; the latter are released when they are sent."""
        size = sum(map(part_size, parts))
        if size < SENDFILE_FROM_BYTES:
            self._write_joined(parts, size)
            return
        for part in parts:
            if is_slice(part):
                whole = cast(ISlice, part)
                self.bytes_written += whole.size
                self._queue.append(whole)
                self._send()
            else:
                self.write(cast(Buffer, part))
        self._notice()

    def _write_joined(self, parts: Sequence[Part], size: int) -> None:
        try:
            whole = b"".join(map(part_content, parts))
            if len(whole) < size:
                raise OSError("the file ends before the region")
        except OSError as error:
            self._give_up(error)
        else:
            self.write(whole)
        finally:
            for part in parts:
                if is_slice(part):
                    cast(ISlice, part).release()

    def _enqueue(self, data: Buffer) -> None:
        self._queue.append(_Piece(memoryview(data), len(data)))
        self._pool.take(len(data))

    def detach(self) -> None:
        """Nothing more will be written: leave the transport alone."""
        self._transport.unregisterProducer()

    def close(self) -> None:
        """The connection is lost: give everything back."""
        self._is_paused = True
        if self._sender is not None:
            self._sender.close()
            self._sender = None
        while self._queue:
            piece = self._queue.popleft()
            if isinstance(piece, _Piece):
                self._forget(piece)
            else:
                piece.release()

    # -- the transport's side --

    def pauseProducing(self) -> None:
        self._is_paused = True
        self._notice()

    def resumeProducing(self) -> None:
        self._is_paused = False
        self._progress()
        self._go_on()

    def stopProducing(self) -> None:
        """The connection is lost; L{close} follows."""
        self._is_paused = True

    def _go_on(self) -> None:
        self._send()
        self._notice()
        if self.is_empty:
            self._drained()

    def _send(self) -> None:
        while self._queue and self._sender is None and not self._is_paused:
            first = self._queue[0]
            if isinstance(first, _Piece):
                self._transport.write(self._next_chunk())
            else:
                self._queue.popleft()
                self._begin_slice(first)

    def _next_chunk(self) -> bytes:
        parts = []
        room = CHUNK_BYTES
        while self._queue and room:
            piece = self._queue[0]
            if not isinstance(piece, _Piece):
                break
            view = piece.view[:room]
            parts.append(view)
            room -= len(view)
            if len(view) < len(piece.view):
                piece.view = piece.view[len(view) :]
            else:
                self._queue.popleft()
                self._forget(piece)
        return b"".join(parts)

    def _forget(self, piece: _Piece) -> None:
        self._pool.give_back(piece.held)
        if piece.slice is not None:
            piece.slice.release()

    def _notice(self) -> None:
        is_blocked = self._is_paused or (self._sender is not None and self._sender.is_stuck)
        if is_blocked != self.is_blocked:
            self.is_blocked = is_blocked
            (self._blocked if is_blocked else self._unblocked)()

    # -- slices --

    def _begin_slice(self, whole: ISlice) -> None:
        region = whole.region() if self._can_send_files else None
        if region is None:
            self._read(whole, 0)
            return
        self._transport.unregisterProducer()
        self._sender = FileSender(self._transport, whole, region, self._file_moved)
        self._transport.registerProducer(self._sender, False)

    def _read(self, whole: ISlice, position: int) -> None:
        """Send the rest of a slice like any other bytes."""
        try:
            content = memoryview(whole.buffer())
        except OSError as error:
            whole.release()
            self._give_up(error)
            return
        self._queue.appendleft(_Piece(content[position:], len(content), whole))
        self._pool.take(len(content))

    def _give_up(self, error: OSError) -> None:
        """The client has heard how much will come: there is no way to tell it anything else."""
        self._log.error("what a client is to be sent can not be read: {error}", error=error)
        self._is_paused = True
        self._transport.abortConnection()

    def _file_moved(self, sender: FileSender) -> None:
        """Some of a file was sent, or all of it, or it can not be sent that way, or the socket is full."""
        if sender.has_progressed:
            self._progress()
        if not sender.is_done:
            self._notice()
            return
        self._sender = None
        self._transport.unregisterProducer()
        self._transport.registerProducer(self, True)
        if sender.is_refused:
            self._can_send_files = False
            self._read(sender.whole, sender.sent)
        else:
            sender.whole.release()
        self._go_on()
