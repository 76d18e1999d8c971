"""
Wrappers that make every answer of a store late.

A store may answer at once, and then code that relies on it works by accident.  Wrapped in
L{DelayedLogStore} or L{DelayedOffsetStore}, the same store does what it is told in the order of the
calls, but each answer, be it a value or an error, comes after a delay of its own: answers overtake
each other, and so do the announcements to watchers.  The delays come from a seeded source and a test's
clock, so that a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import alsoProvides, implementer

from rustlog.errors import RustlogError
from rustlog.interfaces import (
    ILogStore,
    IOffsetExpiry,
    IOffsetStore,
    IPartition,
    IRandomSource,
    ITopicCatalog,
)
from rustlog.log.batch import RecordBatch
from rustlog.model import (
    Appended,
    Committed,
    Fetched,
    FoundOffset,
    Isolation,
    OffsetSpec,
    PartitionDescription,
    ProducerDescription,
    StorageDescription,
    StoreLimits,
    TopicInfo,
    TopicPartition,
)
from rustlog.results import Result, deferred

T = TypeVar("T")
TopicListener = Callable[[TopicInfo | None, TopicInfo | None], object]

DELAY_SECONDS_MAX = 0.1


@define
class Delays:
    """Makes things late."""

    _clock: IReactorTime
    _random: IRandomSource
    _last_answer_at: float = 0.0

    def answer(self, result: Result[T]) -> Deferred[T]:
        """The same result, some time after it has come."""
        late: Deferred[T] = Deferred()
        deferred(result).addBoth(lambda outcome: self._deliver(late, outcome))
        return late

    def last_answer(self, result: Result[T]) -> Deferred[T]:
        """The same result, after all the answers that are on their way."""
        late: Deferred[T] = Deferred()

        def wait(outcome: object) -> None:
            remaining = max(0.0, self._last_answer_at - self._clock.seconds())
            self._clock.callLater(remaining, self._deliver, late, outcome)

        deferred(result).addBoth(wait)
        return late

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call it some time later."""
        self._clock.callLater(self._random.uniform(0, DELAY_SECONDS_MAX), function, *arguments)

    def _deliver(self, late: Deferred[T], outcome: Any) -> None:
        delay = self._random.uniform(0, DELAY_SECONDS_MAX)
        self._last_answer_at = max(self._last_answer_at, self._clock.seconds() + delay)
        # A Deferred takes a Failure as a callback's result too, and does the right thing.
        self._clock.callLater(delay, late.callback, outcome)


@implementer(ITopicCatalog)
@define(eq=False)
class DelayedCatalog:
    """Changes are answered late; questions that are answered at once by contract still are."""

    _catalog: ITopicCatalog
    _delays: Delays

    def get(self, name: str) -> TopicInfo | None:
        return self._catalog.get(name)

    def get_by_id(self, topic_id: UUID) -> TopicInfo | None:
        return self._catalog.get_by_id(topic_id)

    def all(self) -> tuple[TopicInfo, ...]:
        return self._catalog.all()

    def refresh(self, name: str) -> Deferred[TopicInfo | None]:
        return self._delays.answer(self._catalog.refresh(name))

    def create(
        self, name: str, partitions: int, config: Mapping[str, str], internal: bool = False
    ) -> Deferred[TopicInfo]:
        return self._delays.answer(self._catalog.create(name, partitions, config, internal))

    def delete(self, name: str) -> Deferred[None]:
        return self._delays.answer(self._catalog.delete(name))

    def grow(self, name: str, partitions: int) -> Deferred[TopicInfo]:
        return self._delays.answer(self._catalog.grow(name, partitions))

    def configure(self, name: str, changes: Mapping[str, str | None]) -> Deferred[TopicInfo]:
        return self._delays.answer(self._catalog.configure(name, changes))

    def subscribe(self, listener: TopicListener) -> Callable[[], None]:
        cancel: Callable[[], None] = self._catalog.subscribe(listener)
        return cancel


@implementer(ILogStore)
class DelayedLogStore:
    """An L{ILogStore} whose every answer is late."""

    def __init__(self, store: ILogStore, clock: IReactorTime, random: IRandomSource) -> None:
        self.store = store
        self._delays = Delays(clock, random)
        self.catalog = DelayedCatalog(store.catalog, self._delays)

    @property
    def limits(self) -> StoreLimits:
        return self.store.limits

    def partition(self, topic: str, index: int) -> IPartition | None:
        return self.store.partition(topic, index)

    def append(
        self, entries: list[tuple[IPartition, RecordBatch]]
    ) -> Deferred[list[Appended | RustlogError]]:
        return self._delays.answer(self.store.append(entries))

    def read(
        self, wants: list[tuple[IPartition, int, int]], max_bytes: int, isolation: Isolation
    ) -> Deferred[list[Fetched | RustlogError]]:
        return self._delays.answer(self.store.read(wants, max_bytes, isolation))

    def watch(self, partition: IPartition, listener: Callable[[IPartition], object]) -> Callable[[], None]:
        cancelled = False

        def tell(moved: IPartition) -> None:
            if not cancelled:
                listener(moved)

        def cancel() -> None:
            nonlocal cancelled
            cancelled = True
            unwatch()

        unwatch = self.store.watch(partition, lambda moved: self._delays.call(tell, moved))
        return cancel

    def offset_for(self, partition: IPartition, spec: OffsetSpec | int) -> Deferred[FoundOffset]:
        return self._delays.answer(self.store.offset_for(partition, spec))

    def epoch_end(self, partition: IPartition, epoch: int) -> Deferred[tuple[int, int]]:
        return self._delays.answer(self.store.epoch_end(partition, epoch))

    def delete_records(self, partition: IPartition, before: int) -> Deferred[int]:
        return self._delays.answer(self.store.delete_records(partition, before))

    def describe(self, partition: IPartition) -> Deferred[PartitionDescription]:
        return self._delays.answer(self.store.describe(partition))

    def producers(self, partition: IPartition) -> Deferred[tuple[ProducerDescription, ...]]:
        return self._delays.answer(self.store.producers(partition))

    def describe_storage(self) -> Deferred[StorageDescription]:
        return self._delays.answer(self.store.describe_storage())

    def allocate_producer_ids(self, count: int) -> Deferred[int]:
        return self._delays.answer(self.store.allocate_producer_ids(count))

    def maintain(self) -> Deferred[bool]:
        return self._delays.answer(self.store.maintain())

    def close(self) -> Deferred[None]:
        return self._delays.last_answer(self.store.close())


@implementer(IOffsetStore)
class DelayedOffsetStore:
    """An L{IOffsetStore} whose every answer is late; it has the powers of the one that it wraps."""

    def __init__(self, store: IOffsetStore, clock: IReactorTime, random: IRandomSource) -> None:
        self.store = store
        self._delays = Delays(clock, random)
        if IOffsetExpiry.providedBy(store):
            alsoProvides(self, IOffsetExpiry)

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], generation: int | None = None
    ) -> Deferred[None]:
        return self._delays.answer(self.store.commit(group, offsets, generation))

    def fetch(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Deferred[dict[TopicPartition, Committed]]:
        return self._delays.answer(self.store.fetch(group, partitions))

    def groups(self) -> Deferred[tuple[str, ...]]:
        return self._delays.answer(self.store.groups())

    def delete(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Deferred[None]:
        return self._delays.answer(self.store.delete(group, partitions))

    def expire(self, group: str, before_ms: int) -> Deferred[int]:
        return self._delays.answer(IOffsetExpiry(self.store).expire(group, before_ms))

    def load(self, group: str) -> Deferred[tuple[int, bytes]]:
        return self._delays.answer(self.store.load(group))

    def save(self, group: str, version: int, document: bytes) -> Deferred[int]:
        return self._delays.answer(self.store.save(group, version, document))

    def close(self) -> Deferred[None]:
        return self._delays.last_answer(self.store.close())
