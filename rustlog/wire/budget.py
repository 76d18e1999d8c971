"""
The memory that requests and answers in transit may use, over all connections of the process.

There are two pools, and an order between them that makes a deadlock impossible: who holds
memory for a request may wait for memory for its answer, never the other way round.  What
holds the memory of answers is clients that have to read them, and those are watched
(L{rustlog.wire.slowness}).
"""

from __future__ import annotations

from collections import OrderedDict

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime


class Pool:
    """
    So many bytes, lent to whoever comes first.

    Nobody is called from within L{reserve} or L{give_back}: those who waited get their turn
    from the reactor, so that one connection never runs inside the call of another.
    """

    def __init__(self, clock: IReactorTime, limit_bytes: int) -> None:
        self._clock = clock
        self._limit = limit_bytes
        self._waiting: OrderedDict[Deferred[None], int] = OrderedDict()
        self._is_grant_due = False
        self.used = 0

    @property
    def is_contended(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def take(self, size: int) -> None:
        """
        Count bytes that are used in any case, even beyond the limit: whoever
        wants to L{reserve} waits the longer.
        """
        self.used += size

    def reserve(self, size: int) -> Deferred[None] | None:
        """
        Take so many bytes when there is room, in the order of asking.

        More than the limit is given too, when nothing else is in use.

        @return: C{None} when they are yours; otherwise a Deferred that fires when they
            are, and may be cancelled until then.
        """
        if not self._waiting and self._has_room(size):
            self.used += size
            return None
        waiter: Deferred[None] = Deferred(self._cancelled)
        self._waiting[waiter] = size
        return waiter

    def give_back(self, size: int) -> None:
        """They are no longer used."""
        self.used -= size
        assert self.used >= 0, "more was given back than taken"
        self._grant_soon()

    def _has_room(self, size: int) -> bool:
        return self.used + size <= self._limit or self.used == 0

    def _cancelled(self, waiter: Deferred[None]) -> None:
        del self._waiting[waiter]
        self._grant_soon()  # The next one may want less.

    def _grant_soon(self) -> None:
        if self._waiting and not self._is_grant_due:
            self._is_grant_due = True
            self._clock.callLater(0, self._grant)

    def _grant(self) -> None:
        """One at a time: what it is for may be much work, and others shall have their turn in between."""
        self._is_grant_due = False
        waiter, size = next(iter(self._waiting.items()), (None, 0))
        if waiter is None or not self._has_room(size):
            return
        del self._waiting[waiter]
        self.used += size
        self._grant_soon()
        waiter.callback(None)


class Budget:
    """Half for what clients have sent, half for what they have to read."""

    def __init__(self, clock: IReactorTime, limit_bytes: int) -> None:
        self.requests = Pool(clock, limit_bytes // 2)
        self.answers = Pool(clock, limit_bytes // 2)

    @property
    def is_contended(self) -> bool:
        """Whether somebody waits for memory."""
        return self.requests.is_contended or self.answers.is_contended
