"""
L{Turns}: whose turn it is to write to a connection, besides the answers to its requests.

Streams write when they have something to say, not when they are asked.  So that this takes no more
memory than there is, and does not pile up before a client that does not read, each asks first.  Its
turn comes when the client has read what was written before, and the memory for what it will write is
reserved.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Protocol

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from rustlog.results import Result
from rustlog.wire.budget import Pool
from rustlog.wire.fluvio.apis import Api
from rustlog.wire.fluvio.errors import NONE, ErrorCode


@frozen
class Origin:
    """The request that a stream answers, again and again."""

    api: Api
    version: int
    correlation_id: int


class Outlet(Protocol):
    """The connection, as streams see it."""

    @property
    def is_blocked(self) -> bool:
        """Whether the client has to read before more should be written."""

    def push(
        self,
        origin: Origin,
        response: Any,
        *,
        error: ErrorCode = NONE,
        topic: str | None = None,
        partition: int | None = None,
        records: int = 0,
    ) -> None:
        """Write one more answer; the rest is for the log."""


class Speaker(Protocol):
    """Somebody who has something to say."""

    def bytes_wanted(self) -> int:
        """How much that will be in all likelihood."""

    def take_turn(self) -> Result[None]:
        """Say it now.  The memory is given back when that is done; it does not fail."""


class Turns:
    """
    Of one connection.  Speakers have their turn in the order of asking, and one of them at a time waits for
    memory: a client has no larger share of it for having many streams.
    """

    def __init__(self, outlet: Outlet, pool: Pool) -> None:
        self._outlet = outlet
        self._pool = pool
        self._queue: OrderedDict[Speaker, None] = OrderedDict()
        self._waiting_for_memory: Deferred[None] | None = None
        self._is_going_on = False
        self._is_closed = False

    def ask(self, speaker: Speaker) -> None:
        """C{speaker} wants to write.  To ask twice is to ask once."""
        if not self._is_closed:
            self._queue.setdefault(speaker, None)
            self.go_on()

    def forget(self, speaker: Speaker) -> None:
        """It has nothing to say any more."""
        self._queue.pop(speaker, None)

    def go_on(self) -> None:
        """Let speak who can; to be called when the client has read."""
        if self._is_going_on:
            return
        self._is_going_on = True
        try:
            while self._queue and self._waiting_for_memory is None and not self._outlet.is_blocked:
                self._next(self._queue.popitem(last=False)[0])
        finally:
            self._is_going_on = False

    def close(self) -> None:
        """Nobody listens any more."""
        self._is_closed = True
        self._queue.clear()
        if self._waiting_for_memory is not None:
            self._waiting_for_memory.cancel()

    def _next(self, speaker: Speaker) -> None:
        size = speaker.bytes_wanted()
        waiting = self._pool.reserve(size)
        if waiting is None:
            self._speak(speaker, size)
            return
        self._waiting_for_memory = waiting
        waiting.addCallbacks(self._got_memory, _ignore_cancelling, callbackArgs=(speaker, size))

    def _got_memory(self, _: None, speaker: Speaker, size: int) -> None:
        self._waiting_for_memory = None
        self._speak(speaker, size)
        self.go_on()

    def _speak(self, speaker: Speaker, size: int) -> None:
        result = speaker.take_turn()
        if type(result) is Deferred:
            result.addCallback(lambda _: self._pool.give_back(size))
        else:
            self._pool.give_back(size)


def _ignore_cancelling(failure: Failure) -> None:
    failure.trap(CancelledError)
