"""
L{Monitoring}: what operators may ask a broker.

Whether it is well, and how much it holds.  The latter is found out in steps, because a broker may
have ten thousand partitions, and clients want to be served meanwhile.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, inlineCallbacks, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from rustlog.broker import Broker
from rustlog.errors import PartitionNotFound, RustlogError
from rustlog.model import RequestContext, TopicInfo, TopicPartition
from rustlog.observability.figures import Figures, GroupFigures, LagFigures, TopicFigures
from rustlog.observability.health import Health
from rustlog.observability.metrics import Metrics

STEP = 100
"""How many partitions are looked at before others have their turn."""

REST = 10
"""
What was found out is good for so many times as long as it took: however often somebody asks, no more than
a tenth of the time goes into it.
"""

_ITSELF = RequestContext("internal", "internal", "the broker itself")

Steps = Generator["Deferred[Any]", Any, Any]
T = TypeVar("T")


class Monitoring:
    """Of one broker, shared by all its listeners."""

    def __init__(self, broker: Broker, clock: IReactorTime, metrics: Metrics, health: Health) -> None:
        self.metrics = metrics
        self.health = health
        self._broker = broker
        self._clock = clock
        self._started = clock.seconds()
        self._waiting: list[Deferred[Figures]] | None = None
        self._good_until: float | None = None

    @property
    def uptime_seconds(self) -> float:
        """How long it has been there."""
        return self._clock.seconds() - self._started

    def problems(self) -> list[str]:
        """Why clients should not be sent here; nothing, if they should."""
        found = [f"the broker is {self.health.stage.value}"] if not self.health.is_ready else []
        return found + [str(each) for each in self._broker.administration.fenced(_ITSELF)]

    @inlineCallbacks
    def metrics_text(self) -> Steps:
        """Deferred C{bytes}: all metrics, for Prometheus."""
        yield self.figures()
        parts = []
        for part in self.metrics.parts():
            parts.append(part)
            yield self.pause()
        return b"".join(parts)

    def pause(self) -> Deferred[None]:
        """Fires after others have had their turn."""
        return deferLater(self._clock, 0)

    def figures(self) -> Deferred[Figures]:
        """What the broker holds, now or a moment ago; the metrics have it too, from then on."""
        if self._good_until is not None and self._clock.seconds() < self._good_until:
            return succeed(self.metrics.figures)
        waiting: Deferred[Figures] = Deferred()
        if self._waiting is not None:
            self._waiting.append(waiting)
            return waiting
        self._waiting = [waiting]
        self._look().addCallbacks(self._found, self._failed)
        return waiting

    def _found(self, figures: Figures) -> None:
        self.metrics.figures = figures
        for each in self._take_waiting():
            each.callback(figures)

    def _failed(self, failure: Any) -> None:
        for each in self._take_waiting():
            each.errback(failure)

    def _take_waiting(self) -> list[Deferred[Figures]]:
        waiting, self._waiting = self._waiting, None
        return waiting or []

    # -- looking --

    @inlineCallbacks
    def _look(self) -> Steps:
        began = self._clock.seconds()
        topics = []
        looked = 0
        for info in self._broker.topics(_ITSELF):
            figures = yield self._topic(info)
            if figures is not None:
                topics.append(figures)
            looked += info.partitions
            if looked >= STEP:
                looked = 0
                yield self.pause()
        groups = yield self._groups()
        took = self._clock.seconds() - began
        self._good_until = self._clock.seconds() + took * REST
        return Figures(tuple(topics), groups, len(self._broker.administration.fenced(_ITSELF)))

    @inlineCallbacks
    def _topic(self, info: TopicInfo) -> Steps:
        """C{TopicFigures}; C{None} when it was deleted meanwhile."""
        records = ends = size = 0
        try:
            for index in range(info.partitions):
                if index % STEP == STEP - 1:
                    yield self.pause()
                name = TopicPartition(info.name, index)
                start, end = self._broker.bounds(_ITSELF, name)
                description = yield self._broker.administration.describe_partition(_ITSELF, name)
                records += end - start
                ends += end
                size += description.size
        except RustlogError:
            return None
        return TopicFigures(info.name, info.partitions, info.internal, records, ends, size)

    @inlineCallbacks
    def _groups(self) -> Steps:
        found = []
        for number, group in enumerate((yield self._broker.groups(_ITSELF)), 1):
            committed = yield self._broker.fetch_offsets(_ITSELF, group)
            lags = tuple(self._lags((name, each.offset) for name, each in sorted(committed.items())))
            found.append(GroupFigures(group, lags))
            if number % STEP == 0 or len(lags) > STEP:
                yield self.pause()
        return tuple(found)

    def _lags(self, committed: Iterable[tuple[TopicPartition, int]]) -> Iterator[LagFigures]:
        for name, offset in committed:
            try:
                _, end = self._broker.bounds(_ITSELF, name)
            except PartitionNotFound:
                continue
            yield LagFigures(name.topic, name.partition, max(0, end - offset))
