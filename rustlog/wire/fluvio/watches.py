"""
What clients know of the cluster, and hear when it changes: one watch for each Watch request that is
about topics or partitions, until the connection ends.

A change is not queued.  A watch remembers only which topics have changed since the client was last
told, and how many partitions it knew of each; what they are now is looked up when its turn has come.
So what a client that reads slowly can make the broker remember is no more than the topics that there
are, and those that it still believes in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from rustlog.judging import is_internal
from rustlog.model import TopicInfo
from rustlog.results import Result
from rustlog.wire.fluvio.cluster import OBJECT_BYTES, Cluster, gone
from rustlog.wire.fluvio.controller import Change, ChangeKind, WatchResponse
from rustlog.wire.fluvio.errors import Refused, other
from rustlog.wire.fluvio.objects import PARTITION, TOPIC
from rustlog.wire.fluvio.partitions import partition_name
from rustlog.wire.fluvio.turns import Origin, Outlet, Turns

CHANGING = (TOPIC, PARTITION)
"""
The labels whose objects change, in the order in which clients hear of that: who finds the first partition of
a topic expects to know the topic.
"""


@define(eq=False)
class Watch:
    """What one client is told of the objects of one label."""

    label: str
    _origin: Origin
    _cluster: Cluster
    _outlet: Outlet
    _turns: Turns
    _epoch: int = field(default=1, init=False)
    _changed: dict[str, int] = field(factory=dict, init=False)  # how many partitions the client knows of

    def first(self) -> WatchResponse:
        """All that there is."""
        objects = self._cluster.objects(self.label, self._cluster.topics())
        return WatchResponse(self.label, self._epoch, (), tuple(objects))

    def note(self, name: str, known: int, is_there: bool) -> None:
        """
        A topic has changed.

        @param known: how many partitions it had before.
        @param is_there: whether it is there now.
        """
        first_known = self._changed.setdefault(name, known)
        if not first_known and not is_there:
            del self._changed[name]  # The client has never heard of it.

    def tell(self) -> None:
        """Ask for a turn, if there is something to tell."""
        if self._changed:
            self._turns.ask(self)

    def bytes_wanted(self) -> int:
        return sum(self._size(*each) for each in self._changed.items())

    def _size(self, name: str, known: int) -> int:
        info = self._cluster.topic(name)
        return OBJECT_BYTES * max(1, known, 0 if info is None else info.partitions)

    def take_turn(self) -> Result[None]:
        changed, self._changed = self._changed, {}
        changes = tuple(change for each in changed.items() for change in self._changes(*each))
        if changes:
            self._epoch += 1
            self._outlet.push(self._origin, WatchResponse(self.label, self._epoch, changes))
        return None

    def _changes(self, name: str, known: int) -> Iterator[Change]:
        """What a client has to hear of a topic of which it knows so many partitions."""
        info = self._cluster.topic(name)
        topics = () if info is None else (info,)
        for each in self._cluster.objects(self.label, topics):
            yield Change(ChangeKind.UPDATE, each)
        for lost in self._names_gone(name, known, 0 if info is None else info.partitions):
            yield Change(ChangeKind.DELETE, gone(self.label, lost))

    def _names_gone(self, name: str, known: int, present: int) -> list[str]:
        if self.label == PARTITION:
            return [partition_name(name, index) for index in range(present, known)]
        return [] if present else [name]


class Watches:
    """Those of one connection."""

    def __init__(
        self, outlet: Outlet, turns: Turns, cluster: Cluster, clock: IReactorTime, watches_max: int
    ) -> None:
        self._outlet = outlet
        self._turns = turns
        self._cluster = cluster
        self._clock = clock
        self._watches_max = watches_max
        self._watches: list[Watch] = []
        self._telling: IDelayedCall | None = None
        self._unwatch: Callable[[], object] = list

    def open(self, origin: Origin, label: str) -> WatchResponse:
        """
        All objects of a label; what becomes of them will follow.

        @raise Refused: there are too many watches.
        """
        watch = Watch(label, origin, self._cluster, self._outlet, self._turns)
        if label in CHANGING:
            self._keep(watch)
        return watch.first()

    def _keep(self, watch: Watch) -> None:
        if len(self._watches) >= self._watches_max:
            sentence = f"the connection has more than streams.max={self._watches_max} watches"
            raise Refused(other(sentence), sentence)
        if not self._watches:
            cluster = self._cluster
            self._unwatch = cluster.broker.watch_topics(cluster.context, self._topic_changed)
        self._watches.append(watch)
        self._watches.sort(key=lambda each: CHANGING.index(each.label))

    def close(self) -> None:
        """Tell nobody anything any more."""
        self._unwatch()
        self._watches = []
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None

    def _topic_changed(self, old: TopicInfo | None, new: TopicInfo | None) -> None:
        info = new or old
        if info is None or is_internal(info):
            return
        for each in self._watches:
            each.note(info.name, 0 if old is None else old.partitions, new is not None)
        if self._telling is None:
            # Not from within the change; and several may come at once.
            self._telling = self._clock.callLater(0, self._tell)

    def _tell(self) -> None:
        self._telling = None
        for each in self._watches:
            each.tell()
