"""
The ids of idempotent producers, taken from the store by the block.

To hand one out durably costs a write.  So a block of them is asked for at once, and what is left of it
when the broker stops is never used.
"""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from rustlog.interfaces import ILogStore

BLOCK = 1000
"""As many as a Kafka broker asks for at once."""


class ProducerIds:
    """Hands them out, each once."""

    def __init__(self, store: ILogStore) -> None:
        self._store = store
        self._block = range(0)
        self._waiting: deque[Deferred[int]] = deque()

    def take(self) -> Deferred[int]:
        """One more; fails with what the store says."""
        if self._block and not self._waiting:
            return succeed(self._next())
        waiting: Deferred[int] = Deferred()
        self._waiting.append(waiting)
        if len(self._waiting) == 1:
            self._refill()
        return waiting

    def _next(self) -> int:
        taken = self._block[0]
        self._block = self._block[1:]
        return taken

    def _refill(self) -> None:
        self._store.allocate_producer_ids(BLOCK).addCallbacks(self._serve, self._refuse)

    def _serve(self, first: int) -> None:
        self._block = range(first, first + BLOCK)
        waiting, self._waiting = self._waiting, deque()
        while waiting and self._block:
            waiting.popleft().callback(self._next())
        if waiting:
            self._waiting.extendleft(reversed(waiting))
            self._refill()

    def _refuse(self, failure: Failure) -> None:
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.errback(failure)
