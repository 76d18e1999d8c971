"""
The C{memory} store: real log semantics, nothing on disk.

For tests, demonstrations, and logs that may be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import field, frozen
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from rustlog.environment import Environment
from rustlog.errors import Closed, RustlogError, TopicNotFound
from rustlog.interfaces import ILogStore
from rustlog.log.batch import RecordBatch
from rustlog.model import (
    Appended,
    Fetched,
    FoundOffset,
    Isolation,
    OffsetSpec,
    PartitionDescription,
    ProducerDescription,
    StorageDescription,
    StoreLimits,
    TopicInfo,
)
from rustlog.settings import TopicConfig, with_overrides
from rustlog.storage.catalog import Catalog, NoJournal
from rustlog.storage.memorylog import MemoryPartition
from rustlog.storage.watchers import Listener, Watchers

T = TypeVar("T")

PARTITIONS_PER_STEP = 256
"""How many partitions one call of C{maintain} looks over."""


@frozen
class MemorySettings:
    """What the broker tells this store."""

    topic_defaults: TopicConfig = field(factory=TopicConfig)
    producer_id_expiration_ms: int = 24 * 3600 * 1000


def open_store(settings: MemorySettings, environment: Environment) -> MemoryStore:
    """What C{--storage=memory} calls."""
    return MemoryStore(settings, environment)


@implementer(ILogStore)
class MemoryStore:
    """Everything is visible as soon as it is appended, and answered at once."""

    limits = StoreLimits(durable=False)

    def __init__(self, settings: MemorySettings, environment: Environment) -> None:
        self._settings = settings
        self._wall = environment.wall
        self._watchers = Watchers(environment.clock)
        self._partitions: dict[str, list[MemoryPartition]] = {}
        self._to_maintain: list[MemoryPartition] = []
        self._next_producer_id = 0
        self._closed = False
        self.catalog = Catalog(environment.random, NoJournal())
        self.catalog.subscribe(self._topic_changed)

    # -- topics --

    def partition(self, topic: str, index: int) -> MemoryPartition | None:
        partitions = self._partitions.get(topic)
        if partitions is None or not 0 <= index < len(partitions):
            return None
        return partitions[index]

    def _topic_changed(self, old: TopicInfo | None, new: TopicInfo | None) -> None:
        if new is None:
            assert old is not None
            self._forget(old)
            return
        config = with_overrides(self._settings.topic_defaults, new.config)
        partitions = self._partitions.setdefault(new.name, [])
        for partition in partitions:
            partition.reconfigure(new, config)
        for index in range(len(partitions), new.partitions):
            partitions.append(MemoryPartition(new, index, config))

    def _forget(self, topic: TopicInfo) -> None:
        for partition in self._partitions.pop(topic.name):
            partition.die()
            self._watchers.announce(partition)

    # -- records --

    def append(self, entries: list[tuple[MemoryPartition, RecordBatch]]) -> list[Appended | RustlogError]:
        now_ms = self._wall.now_ms()
        return [self._append_one(partition, batch, now_ms) for partition, batch in entries]

    def _append_one(
        self, partition: MemoryPartition, batch: RecordBatch, now_ms: int
    ) -> Appended | RustlogError:
        try:
            self._require_alive(partition)
            appended = partition.append(batch, now_ms)
        except RustlogError as error:
            return error
        self._watchers.announce(partition)
        return appended

    def read(
        self, wants: list[tuple[MemoryPartition, int, int]], max_bytes: int, isolation: Isolation
    ) -> list[Fetched | RustlogError]:
        answers: list[Fetched | RustlogError] = []
        left = max_bytes
        for partition, offset, size_max in wants:
            try:
                self._require_alive(partition)
                fetched = partition.read(offset, min(size_max, left), at_least_one=left == max_bytes)
            except RustlogError as error:
                answers.append(error)
            else:
                answers.append(fetched)
                left -= fetched.size
        return answers

    def watch(self, partition: MemoryPartition, listener: Listener) -> Callable[[], None]:
        return self._watchers.watch(partition, listener)

    def offset_for(self, partition: MemoryPartition, spec: OffsetSpec | int) -> Deferred[FoundOffset]:
        return self._ask(partition, partition.offset_for, spec)

    def epoch_end(self, partition: MemoryPartition, epoch: int) -> Deferred[tuple[int, int]]:
        return self._ask(partition, partition.epoch_end, epoch)

    def delete_records(self, partition: MemoryPartition, before: int) -> Deferred[int]:
        return self._ask(partition, partition.delete_records, before)

    def describe(self, partition: MemoryPartition) -> Deferred[PartitionDescription]:
        return self._ask(partition, partition.describe)

    def producers(self, partition: MemoryPartition) -> Deferred[tuple[ProducerDescription, ...]]:
        return self._ask(partition, partition.describe_producers)

    def _ask(
        self, partition: MemoryPartition, method: Callable[..., T], *arguments: object
    ) -> Deferred[T]:
        """What a living partition says, or why there is no answer."""
        try:
            self._require_alive(partition)
            return succeed(method(*arguments))
        except RustlogError as error:
            return fail(error)

    def _require_alive(self, partition: MemoryPartition) -> None:
        if self._closed:
            raise Closed()
        if partition.deleted:
            raise TopicNotFound(partition.name.topic)

    # -- the store as a whole --

    def describe_storage(self) -> Deferred[StorageDescription]:
        return fail(Closed()) if self._closed else succeed(StorageDescription("memory"))

    def allocate_producer_ids(self, count: int) -> Deferred[int]:
        if self._closed:
            return fail(Closed())
        first = self._next_producer_id
        self._next_producer_id += count
        return succeed(first)

    def maintain(self) -> Deferred[bool]:
        if self._closed:
            return fail(Closed())
        if not self._to_maintain:
            self._to_maintain = [each for group in self._partitions.values() for each in group]
        step = self._to_maintain[-PARTITIONS_PER_STEP:]
        del self._to_maintain[-PARTITIONS_PER_STEP:]
        now_ms = self._wall.now_ms()
        for partition in step:
            partition.retire(now_ms)
            if partition.expire_producers(now_ms, self._settings.producer_id_expiration_ms):
                self._to_maintain.append(partition)
        return succeed(bool(self._to_maintain))

    def close(self) -> Deferred[None]:
        self._closed = True
        self._watchers.announce_all()
        return self.catalog.close()
