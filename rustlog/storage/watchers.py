"""
L{Watchers}: tells those who wait that a partition has moved.

A store calls L{Watchers.announce} wherever it likes, C{append} included; the listeners
are called later, from the reactor, once for any number of announcements.  Partitions that
nobody watches cost one look into a dict.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from rustlog.interfaces import IPartition

Listener = Callable[[IPartition], object]


class Watchers:
    """The listeners of one store."""

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._listeners: dict[IPartition, dict[object, Listener]] = {}
        self._moved: dict[IPartition, None] = {}  # A set that keeps its order.

    def watch(self, partition: IPartition, listener: Listener) -> Callable[[], None]:
        """As in L{ILogStore.watch <rustlog.interfaces.ILogStore.watch>}."""
        watch = object()
        self._listeners.setdefault(partition, {})[watch] = listener
        return lambda: self._cancel(partition, watch)

    def announce(self, partition: IPartition) -> None:
        """Data became visible in the partition, or it died."""
        if partition not in self._listeners:
            return
        if not self._moved:
            self._clock.callLater(0, self._tell)
        self._moved[partition] = None

    def announce_all(self) -> None:
        """Something concerns every partition: the store is being closed."""
        for partition in self._listeners:
            self.announce(partition)

    def _cancel(self, partition: IPartition, watch: object) -> None:
        watches = self._listeners.get(partition, {})
        watches.pop(watch, None)
        if not watches:
            self._listeners.pop(partition, None)

    def _tell(self) -> None:
        moved, self._moved = self._moved, {}
        for partition in moved:
            for watch in tuple(self._listeners.get(partition, ())):
                self._tell_one(partition, watch)

    def _tell_one(self, partition: IPartition, watch: object) -> None:
        listener = self._listeners.get(partition, {}).get(watch)
        if listener is None:  # Cancelled by a listener that was called before it.
            return
        try:
            listener(partition)
        except Exception:  # One listener's mistake is not the others' loss.
            self._log.failure("a listener on {partition} failed", partition=partition.name)
