"""Tests for L{rustlog.storage.memory}."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.environment import Environment
from rustlog.errors import OutOfOrderSequence
from rustlog.log import records
from rustlog.log.batch import RecordBatch
from rustlog.log.producers import EXPIRED_AT_ONCE_MAX
from rustlog.model import Appended, Fetched, Isolation, Record
from rustlog.settings import TopicConfig
from rustlog.storage.memory import PARTITIONS_PER_STEP, MemorySettings, MemoryStore, open_store
from rustlog.storage.memorylog import MemoryPartition
from rustlog.testing.contracts import VolatileLogStoreContract
from rustlog.testing.environment import START_OF_TIME_MS, memory_environment


class MemoryStoreContractTests(VolatileLogStoreContract, SynchronousTestCase):
    """The memory store does what every log store must do."""

    def open_store(self, environment: Environment) -> MemoryStore:
        return open_store(MemorySettings(), environment)


class SmallSegmentsContractTests(VolatileLogStoreContract, SynchronousTestCase):
    """The same when each batch has a segment of its own, if the topic does not say otherwise."""

    def open_store(self, environment: Environment) -> MemoryStore:
        return open_store(MemorySettings(topic_defaults=TopicConfig(segment_bytes=14)), environment)


def batch(*values: bytes, producer_id: int = -1, sequence: int = -1) -> RecordBatch:
    """A batch as of the start of time."""
    return records.build(
        [Record(value) for value in values],
        now_ms=START_OF_TIME_MS,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=sequence,
    )


class MemoryStoreTests(SynchronousTestCase):
    """What is special about the memory store."""

    def setUp(self) -> None:
        self.environment = memory_environment()

    def open(self, **settings: Any) -> MemoryStore:
        """A store with some settings."""
        return open_store(MemorySettings(**settings), self.environment)

    def create(self, store: MemoryStore, partitions: int = 1, **config: str) -> MemoryPartition:
        """Make a topic; its first partition."""
        named = {name.replace("_", "."): value for name, value in config.items()}
        self.successResultOf(store.catalog.create("orders", partitions, named))
        partition = store.partition("orders", 0)
        assert partition is not None
        return partition

    def test_answers_at_once(self) -> None:
        """Appends and reads are answered with plain values: nothing has to be awaited."""
        store = self.open()
        partition = self.create(store)
        self.assertEqual(store.append([(partition, batch(b"a"))]), [Appended(0, 0)])
        (fetched,) = store.read([(partition, 0, 1000)], 1000, Isolation.READ_UNCOMMITTED)
        self.assertIsInstance(fetched, Fetched)

    def test_forgets(self) -> None:
        """It does not claim to be durable, and is not."""
        store = self.open()
        self.create(store)
        self.successResultOf(store.close())
        self.assertFalse(store.limits.durable)
        self.assertEqual(self.open().catalog.all(), ())

    def test_topic_defaults(self) -> None:
        """What a topic does not say for itself, the settings of the store say."""
        store = self.open(topic_defaults=TopicConfig(retention_ms=1000, segment_ms=5))
        partition = self.create(store, retention_ms="2000")
        self.assertEqual((partition.config.retention_ms, partition.config.segment_ms), (2000, 5))
        self.successResultOf(store.catalog.configure("orders", {"retention.ms": None}))
        self.assertEqual(partition.config.retention_ms, 1000)

    def test_maintains_in_steps(self) -> None:
        """One step of maintenance looks after a limited number of partitions."""
        store = self.open()
        partition = self.create(store, partitions=2 * PARTITIONS_PER_STEP + 1)
        steps = [self.successResultOf(store.maintain()) for _ in range(4)]
        self.assertEqual(steps, [True, True, False, True])
        self.assertFalse(partition.deleted)

    def test_silent_producers_expire(self) -> None:
        """A producer that has long been silent is forgotten: any sequence number is welcome again."""
        store = self.open(producer_id_expiration_ms=60_000)
        partition = self.create(store)
        store.append([(partition, batch(b"a", producer_id=7, sequence=0))])
        for seconds, expected in ((59, OutOfOrderSequence), (2, Appended)):
            self.environment.clock.advance(seconds)
            self.successResultOf(store.maintain())
            (answer,) = store.append([(partition, batch(b"b", producer_id=7, sequence=5))])
            self.assertIsInstance(answer, expected)

    def test_many_silent_producers(self) -> None:
        """Very many of them are forgotten step by step."""
        store = self.open(producer_id_expiration_ms=1)
        partition = self.create(store)
        sent = [batch(b"a", producer_id=number, sequence=0) for number in range(EXPIRED_AT_ONCE_MAX + 1)]
        store.append([(partition, each) for each in sent])
        self.environment.clock.advance(1)
        steps = [self.successResultOf(store.maintain()) for _ in range(2)]
        self.assertEqual(steps, [True, False])

    def test_deleted_topic_gives_memory_back(self) -> None:
        """Whoever still has a handle on a deleted topic does not keep its records alive."""
        store = self.open()
        partition = self.create(store)
        store.append([(partition, batch(b"a", producer_id=1, sequence=0))])
        self.successResultOf(store.catalog.delete("orders"))
        self.assertEqual(partition.describe().segments, ())
        self.assertEqual(self.successResultOf(store.maintain()), False)

    def test_close_tells_watchers(self) -> None:
        """Who waits for data hears that there will be none."""
        store = self.open()
        partition = self.create(store)
        told: list[object] = []
        store.watch(partition, told.append)
        self.successResultOf(store.close())
        self.environment.clock.advance(0)
        self.assertEqual(told, [partition])
