"""
The connections of one listener: counted, and brought to an orderly end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from zope.interface import implementer

from rustlog.interfaces import IDrainableFactory
from rustlog.wire.listener import Listener

DRAIN_SECONDS_MAX = 5.0
"""How long connections may take to come to an end by themselves."""

REFUSALS_LOG_SECONDS = 10.0
"""How often, at most, a line tells of refused connections."""


class Drainable(Protocol):
    """A connection that can be brought to an end."""

    def drain(self) -> None:
        """Answer what has been received, take no more, and close."""

    def refuse(self) -> None:
        """It is one too many: tell it so, and close."""

    def cut_off(self, reason: str) -> None:
        """End at once."""


@implementer(IDrainableFactory)
class ConnectionFactory(Factory):
    """
    Makes connections.

    @ivar make: makes one, of this factory: a Twisted protocol that is L{Drainable}.
    """

    _log = Logger()
    noisy = False

    def __init__(self, listener: Listener, make: Callable[[ConnectionFactory], Any]) -> None:
        self.listener = listener
        self._make = make
        self._connections: set[Drainable] = set()
        self._is_draining = False
        self._drained: list[Deferred[None]] = []
        self._deadline: IDelayedCall | None = None
        self._refused = 0
        self._told_at: float | None = None

    def buildProtocol(self, address: IAddress | None) -> Any:
        return self._make(self)

    # -- what connections tell --

    def connection_made(self, connection: Drainable) -> bool:
        """Whether it may stay.  If not, it is already on its way out."""
        capacity = self.listener.capacity
        self._connections.add(connection)
        may_stay = capacity.enter()
        self.listener.meter.entered(is_welcome=may_stay)
        if self._is_draining:
            connection.drain()
            return False
        if may_stay:
            return True
        self._tell_refusal()
        if capacity.is_flooded:
            connection.cut_off("there are too many connections")
        else:
            connection.refuse()
        return False

    def connection_lost(self, connection: Drainable) -> None:
        """It is gone."""
        self._connections.discard(connection)
        self.listener.capacity.leave()
        self.listener.meter.left()
        self._drained_if_empty()

    def _tell_refusal(self) -> None:
        self._refused += 1
        now = self.listener.clock.seconds()
        if self._told_at is None or now - self._told_at >= REFUSALS_LOG_SECONDS:
            self._told_at = now
            self._log.warn(
                "{listener} refused {refused} connections: max.connections={limit} are open",
                listener=self.listener.name,
                refused=self._refused,
                limit=self.listener.capacity.connections_max,
            )
            self._refused = 0

    # -- the end --

    def drain(self) -> Deferred[None]:
        """See L{IDrainableFactory.drain}; after some seconds, what is left is cut off."""
        if not self._is_draining:
            self._is_draining = True
            self._deadline = self.listener.clock.callLater(DRAIN_SECONDS_MAX, self._deadline_passed)
            for each in list(self._connections):
                each.drain()
        done: Deferred[None] = Deferred()
        self._drained.append(done)
        self._drained_if_empty()
        return done

    def abort(self) -> None:
        """Cut all connections off, whatever is under way."""
        for each in list(self._connections):
            each.cut_off("the broker stops")

    def _deadline_passed(self) -> None:
        self._deadline = None
        self.abort()

    def _drained_if_empty(self) -> None:
        if self._connections or not self._is_draining:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        drained, self._drained = self._drained, []
        for each in drained:
            each.callback(None)
