"""
What a client has to read.

Answers go to the transport in pieces of moderate size, the next one when the last has
gone, so that it is known how much memory waits for the client, and whether it reads at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, cast

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from rustlog.wire.budget import Pool

CHUNK_BYTES = 128 * 1024
"""What is given to a transport at once; more than the amount at which it calls itself full."""


@implementer(IPushProducer)
class OutputQueue:
    """
    The answers of one connection.

    @ivar progress: called when the client has read something.
    @ivar blocked: called when the client has to read before more can be written.
    @ivar unblocked: called when it has.
    """

    def __init__(
        self,
        transport: Any,
        pool: Pool,
        *,
        progress: Callable[[], object],
        blocked: Callable[[], object],
        unblocked: Callable[[], object],
    ) -> None:
        self._transport = transport
        self._pool = pool
        self._progress = progress
        self._blocked = blocked
        self._unblocked = unblocked
        self._queue: deque[memoryview] = deque()
        self._is_paused = False
        self.is_blocked = False
        self.bytes_written = 0
        transport.registerProducer(self, True)

    def write(self, data: bytes) -> None:
        """Send, now or when the client has read what is before it."""
        self.bytes_written += len(data)
        if not self.is_blocked and len(data) <= CHUNK_BYTES:
            self._transport.write(data)
        else:
            self._queue.append(memoryview(data))
            self._pool.take(len(data))
            self._send()
        self._notice()

    def detach(self) -> None:
        """Nothing more will be written: leave the transport alone."""
        self._transport.unregisterProducer()

    def close(self) -> None:
        """The connection is lost: give the memory back."""
        self._is_paused = True
        self._pool.give_back(sum(map(_held, self._queue)))
        self._queue.clear()

    # -- the transport's side --

    def pauseProducing(self) -> None:
        self._is_paused = True
        self._notice()

    def resumeProducing(self) -> None:
        self._is_paused = False
        self._progress()
        self._send()
        self._notice()

    def stopProducing(self) -> None:
        """The connection is lost; L{close} follows."""
        self._is_paused = True

    def _send(self) -> None:
        while self._queue and not self._is_paused:
            self._transport.write(self._next_chunk())

    def _next_chunk(self) -> bytes:
        parts = []
        room = CHUNK_BYTES
        while self._queue and room:
            piece = self._queue.popleft()
            if len(piece) > room:
                self._queue.appendleft(piece[room:])
                piece = piece[:room]
            else:
                # All of the memory is held until the last piece of an answer is gone.
                self._pool.give_back(_held(piece))
            parts.append(piece)
            room -= len(piece)
        return b"".join(parts)

    def _notice(self) -> None:
        is_blocked = self._is_paused or bool(self._queue)
        if is_blocked != self.is_blocked:
            self.is_blocked = is_blocked
            (self._blocked if is_blocked else self._unblocked)()


def _held(piece: memoryview) -> int:
    """How much memory a piece of an answer holds: the whole answer."""
    return len(cast(bytes, piece.obj))
