"""
L{Catalog}: the topics of a store, kept in memory and written through a L{Journal}.

Every store of ours has one; they differ only in where the journal writes.  A change is
visible, and announced, when the journal has it and not before; when the journal
fails, nothing has changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Protocol
from uuid import UUID

from twisted.internet.defer import Deferred, fail, inlineCallbacks, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from rustlog.errors import Closed, TopicExists, TopicNotFound
from rustlog.interfaces import IRandomSource, ITopicCatalog
from rustlog.log.topics import configure, grow
from rustlog.model import TopicInfo

Listener = Callable[[TopicInfo | None, TopicInfo | None], object]
Plan = Callable[[TopicInfo | None], TopicInfo | None]
"""Given a topic as it is, say how it shall be; C{None}: not at all.  Raises to refuse."""


class Journal(Protocol):
    """Where a catalogue is written down.  Of one topic, one call is made at a time."""

    def save(self, info: TopicInfo) -> Deferred[None]:
        """Remember a topic, new or changed; fires once durable."""

    def remove(self, info: TopicInfo) -> Deferred[None]:
        """Forget a topic; fires once durable."""


class NoJournal:
    """For stores that forget."""

    def save(self, info: TopicInfo) -> Deferred[None]:
        return succeed(None)

    def remove(self, info: TopicInfo) -> Deferred[None]:
        return succeed(None)


@implementer(ITopicCatalog)
class Catalog:
    """
    Changes of one topic are made one after the other, in the order of the calls;
    changes of different topics overlap.
    """

    _log = Logger()

    def __init__(self, random: IRandomSource, journal: Journal, topics: Iterable[TopicInfo] = ()) -> None:
        self._random = random
        self._journal = journal
        self._by_name = {info.name: info for info in topics}
        self._by_id = {info.id: info for info in self._by_name.values()}
        self._sorted: tuple[TopicInfo, ...] | None = None
        self._listeners: dict[object, Listener] = {}
        self._changes: dict[str, deque[tuple[Plan, Deferred[Any]]]] = {}
        self._unpublished: deque[tuple[TopicInfo | None, TopicInfo | None, Deferred[None]]] = deque()
        self._closed: Deferred[None] | None = None

    # -- looking --

    def get(self, name: str) -> TopicInfo | None:
        return self._by_name.get(name)

    def get_by_id(self, topic_id: UUID) -> TopicInfo | None:
        return self._by_id.get(topic_id)

    def all(self) -> tuple[TopicInfo, ...]:
        if self._sorted is None:
            self._sorted = tuple(self._by_name[name] for name in sorted(self._by_name))
        return self._sorted

    def refresh(self, name: str) -> Deferred[TopicInfo | None]:
        return succeed(self.get(name))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        subscription = object()
        self._listeners[subscription] = listener

        def cancel() -> None:
            self._listeners.pop(subscription, None)

        return cancel

    # -- changing --

    def create(
        self, name: str, partitions: int, config: Mapping[str, str], internal: bool = False
    ) -> Deferred[TopicInfo]:
        def plan(old: TopicInfo | None) -> TopicInfo:
            if old is not None:
                raise TopicExists(name)
            return TopicInfo(self._random.uuid(), name, partitions, dict(config), internal)

        return self._change(name, plan)

    def delete(self, name: str) -> Deferred[None]:
        def plan(old: TopicInfo | None) -> None:
            existing(old, name)

        return self._change(name, plan)

    def grow(self, name: str, partitions: int) -> Deferred[TopicInfo]:
        def plan(old: TopicInfo | None) -> TopicInfo:
            return grow(existing(old, name), partitions)

        return self._change(name, plan)

    def configure(self, name: str, changes: Mapping[str, str | None]) -> Deferred[TopicInfo]:
        def plan(old: TopicInfo | None) -> TopicInfo:
            return configure(existing(old, name), changes)

        return self._change(name, plan)

    def close(self) -> Deferred[None]:
        """Refuse further changes; fires when those under way have ended."""
        if self._closed is None:
            self._closed = Deferred()
            self._close_if_idle()
        done: Deferred[None] = Deferred()
        self._closed.addCallback(lambda _: done.callback(None))
        return done

    # -- one change after the other --

    def _change(self, name: str, plan: Plan) -> Deferred[Any]:
        if self._closed is not None:
            return fail(Closed())
        # A Deferred of its own: whoever stops waiting for the answer does not stop the change.
        answer: Deferred[Any] = Deferred()
        if name in self._changes:
            self._changes[name].append((plan, answer))
        else:
            self._changes[name] = deque([(plan, answer)])
            self._work_off(name)
        return answer

    @inlineCallbacks
    def _work_off(self, name: str) -> Generator[Deferred[Any], Any, None]:
        """
        Make the changes of one topic, new ones included, until none is left.  A loop, so that
        a thousand clients who create the same topic do not become a thousand frames.
        """
        changes = self._changes[name]
        while changes:
            plan, answer = changes.popleft()
            try:
                new = yield self._make(name, plan)
            except Exception:  # Whatever it was, it belongs to who asked for the change.
                answer.errback(Failure())
            else:
                answer.callback(new)
        del self._changes[name]
        self._close_if_idle()

    @inlineCallbacks
    def _make(self, name: str, plan: Plan) -> Generator[Deferred[Any], Any, TopicInfo | None]:
        old = self._by_name.get(name)
        new = plan(old)
        if new is not None:
            yield self._journal.save(new)
        elif old is not None:
            yield self._journal.remove(old)
        yield self._publish(old, new)
        return new

    def _close_if_idle(self) -> None:
        if self._closed is not None and not self._changes and not self._closed.called:
            self._closed.callback(None)

    # -- showing the change --

    def _publish(self, old: TopicInfo | None, new: TopicInfo | None) -> Deferred[None]:
        """
        Show a change and tell the listeners.  A change made by a listener
        has its turn when all have heard of the one before.
        """
        published: Deferred[None] = Deferred()
        self._unpublished.append((old, new, published))
        if len(self._unpublished) == 1:
            while self._unpublished:
                old, new, done = self._unpublished[0]
                self._show(old, new)
                self._tell(old, new)
                self._unpublished.popleft()
                done.callback(None)
        return published

    def _show(self, old: TopicInfo | None, new: TopicInfo | None) -> None:
        self._sorted = None
        if old is not None:
            del self._by_name[old.name], self._by_id[old.id]
        if new is not None:
            self._by_name[new.name] = self._by_id[new.id] = new

    def _tell(self, old: TopicInfo | None, new: TopicInfo | None) -> None:
        for subscription in tuple(self._listeners):
            listener = self._listeners.get(subscription)
            if listener is None:
                continue
            try:
                listener(old, new)
            except Exception:  # One listener's mistake is not the others' loss.
                self._log.failure("a listener of the topic catalogue failed")


def existing(topic: TopicInfo | None, name: str) -> TopicInfo:
    """The topic, which must be there."""
    if topic is None:
        raise TopicNotFound(name)
    return topic
