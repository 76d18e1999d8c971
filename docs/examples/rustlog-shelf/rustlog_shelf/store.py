"""The C{shelf} log store: an SQLite database in the data directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from shutil import disk_usage
from sqlite3 import Connection
from typing import Any

from attrs import field, frozen, validators
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure
from zope.interface import implementer

from rustlog.environment import Environment
from rustlog.errors import Closed, RustlogError, StartupError, StorageFailed, TopicNotFound
from rustlog.interfaces import ILogStore
from rustlog.log.batch import RecordBatch
from rustlog.log.epochs import LeaderEpochs
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
from rustlog.storage.catalog import Catalog
from rustlog.storage.watchers import Listener, Watchers
from rustlog_shelf import tables
from rustlog_shelf.database import Database, open_database
from rustlog_shelf.tables import ShelfPartition

STEP_PARTITIONS = 16
"""How many partitions one step of maintenance looks over."""


@frozen
class ShelfSettings:
    """What the broker tells this store, and one setting of its own: C{--set=shelf.cache.kib=N}."""

    data_dir: PurePath
    topic_defaults: TopicConfig = field(factory=TopicConfig)
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    cache_kib: int = field(
        default=16 * 1024,
        validator=validators.ge(64),
        metadata={"doc": "How much of the database is kept in memory."},
    )


def open_store(settings: ShelfSettings, environment: Environment) -> Deferred[ShelfStore]:
    """What C{--storage=shelf} calls."""
    path = settings.data_dir / "shelf.db"
    opening = open_database(path, tables.SCHEMA, tables.VERSION, environment.workers)
    return opening.addCallback(_load, settings, environment).addErrback(_refuse, path)


def _load(database: Database, settings: ShelfSettings, environment: Environment) -> Deferred[ShelfStore]:
    def load(db: Connection) -> tuple[list[TopicInfo], dict[str, tuple[int, int]]]:
        db.execute(f"PRAGMA cache_size = -{settings.cache_kib}")
        return tables.load_topics(db), tables.load_bounds(db)

    return database.run(load).addCallback(lambda loaded: ShelfStore(settings, environment, database, *loaded))


def _refuse(failure: Failure, path: PurePath) -> Failure:
    if failure.check(StorageFailed):
        raise StartupError(f"cannot read {path}: {failure.value}")
    return failure


class ShelfJournal:
    """Where the catalogue is written down."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, info: TopicInfo) -> Deferred[None]:
        return self._database.run(tables.save_topic, info)

    def remove(self, info: TopicInfo) -> Deferred[None]:
        return self._database.run(tables.remove_topic, info)


@implementer(ILogStore)
class ShelfStore:
    """Every question is put to the tables; what is answered is on the disk."""

    limits = StoreLimits()

    def __init__(
        self,
        settings: ShelfSettings,
        environment: Environment,
        database: Database,
        topics: list[TopicInfo],
        bounds: dict[str, tuple[int, int]],
    ) -> None:
        self._settings = settings
        self._wall = environment.wall
        self._database = database
        self._watchers = Watchers(environment.clock)
        self._partitions: dict[str, list[ShelfPartition]] = {}
        self._to_maintain: list[ShelfPartition] = []
        self._is_closed = False
        self.catalog = Catalog(environment.random, ShelfJournal(database), topics)
        self.catalog.subscribe(self._topic_changed)
        for info in topics:
            self._topic_changed(None, info)
            for partition in self._partitions[info.name]:
                partition.log_start_offset, partition.high_watermark = bounds[partition.key]

    # -- topics --

    def partition(self, topic: str, index: int) -> ShelfPartition | None:
        partitions = self._partitions.get(topic, [])
        return partitions[index] if 0 <= index < len(partitions) else None

    def _topic_changed(self, old: TopicInfo | None, new: TopicInfo | None) -> None:
        if new is None:
            assert old is not None
            for partition in self._partitions.pop(old.name):
                self._watchers.announce(partition)
            return
        partitions = self._partitions.setdefault(new.name, [])
        for partition in partitions:
            partition.topic = new
        partitions += [ShelfPartition(new, index) for index in range(len(partitions), new.partitions)]

    # -- records --

    def append(
        self, entries: list[tuple[ShelfPartition, RecordBatch]]
    ) -> Deferred[list[Appended | RustlogError]]:
        appended = self._run(tables.append, entries, self._wall.now_ms())
        return appended.addCallback(self._show, entries).addErrback(lambda why: _for_each(why, entries))

    def _show(self, answers: list[Any], entries: list[tuple[ShelfPartition, RecordBatch]]) -> list[Any]:
        for (partition, batch), answer in zip(entries, answers, strict=True):
            if isinstance(answer, Appended) and not answer.duplicate:
                partition.high_watermark = answer.base_offset + batch.last_offset_delta + 1
                self._watchers.announce(partition)
        return answers

    def read(
        self, wants: list[tuple[ShelfPartition, int, int]], max_bytes: int, isolation: Isolation
    ) -> Deferred[list[Fetched | RustlogError]]:
        return self._run(tables.read, wants, max_bytes).addErrback(lambda why: _for_each(why, wants))

    def watch(self, partition: ShelfPartition, listener: Listener) -> Callable[[], None]:
        return self._watchers.watch(partition, listener)

    def offset_for(self, partition: ShelfPartition, spec: OffsetSpec | int) -> Deferred[FoundOffset]:
        return self._run(tables.offset_for, partition, spec)

    def epoch_end(self, partition: ShelfPartition, epoch: int) -> Deferred[tuple[int, int]]:
        epochs = LeaderEpochs([(tables.LEADER_EPOCH, 0)])
        return self._run(tables.bounds, partition).addCallback(lambda found: epochs.end_of(epoch, found[1]))

    def delete_records(self, partition: ShelfPartition, before: int) -> Deferred[int]:
        return self._run(tables.delete_records, partition, before).addCallback(_start_at, partition)

    def describe(self, partition: ShelfPartition) -> Deferred[PartitionDescription]:
        return self._run(tables.describe, partition)

    def producers(self, partition: ShelfPartition) -> Deferred[tuple[ProducerDescription, ...]]:
        return self._run(tables.producers, partition)

    # -- the store as a whole --

    def describe_storage(self) -> Deferred[StorageDescription]:
        place = self._settings.data_dir
        return self._run(lambda db: StorageDescription(str(place), disk_usage(place).free))

    def allocate_producer_ids(self, count: int) -> Deferred[int]:
        return self._run(tables.allocate_producer_ids, count)

    def maintain(self) -> Deferred[bool]:
        if not self._to_maintain:
            self._to_maintain = [each for group in self._partitions.values() for each in group]
        step = self._to_maintain[-STEP_PARTITIONS:]
        del self._to_maintain[-STEP_PARTITIONS:]
        return self._run(self._maintain, step, self._wall.now_ms()).addCallback(self._maintained)

    def _maintain(
        self, db: Connection, step: list[ShelfPartition], now_ms: int
    ) -> tuple[list[tuple[ShelfPartition, int, bool]], bool]:
        """By a worker: for each partition its new start, and whether it needs more; the same for the rest."""
        done = []
        for partition in step:
            config = with_overrides(self._settings.topic_defaults, partition.topic.config)
            try:
                done.append((partition, *tables.retire(db, partition, config, now_ms)))
            except TopicNotFound:  # It was deleted meanwhile.
                continue
        return done, tables.sweep(db, now_ms - self._settings.producer_id_expiration_ms)

    def _maintained(self, result: tuple[list[tuple[ShelfPartition, int, bool]], bool]) -> bool:
        done, needs_sweeping = result
        for partition, start, needs_more in done:
            _start_at(start, partition)
            if needs_more:
                self._to_maintain.append(partition)
        return needs_sweeping or bool(self._to_maintain)

    def close(self) -> Deferred[None]:
        """Changes of topics that are under way still need the database."""
        self._is_closed = True
        self._watchers.announce_all()
        return self.catalog.close().addCallback(lambda _: self._database.close())

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        return fail(Closed()) if self._is_closed else self._database.run(function, *arguments)


def _for_each(failure: Failure, asked: list[Any]) -> list[Any]:
    """What concerns all of a call stands in the place of each answer."""
    failure.trap(RustlogError)
    return [failure.value] * len(asked)


def _start_at(offset: int, partition: ShelfPartition) -> int:
    """Answers come in the order of the calls, but a step of maintenance may know less than the hint."""
    partition.log_start_offset = max(partition.log_start_offset, offset)
    return offset
