"""Tests for L{rustlog.testing.delayed}."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog.errors import TopicNotFound
from rustlog.interfaces import ILogStore, IOffsetExpiry, IOffsetStore, ITopicCatalog
from rustlog.log import records
from rustlog.log.batch import RecordBatch
from rustlog.model import Committed, Fetched, Isolation, OffsetSpec, Record, TopicPartition
from rustlog.offsets.memory import MemoryOffsets
from rustlog.storage.memory import MemorySettings, MemoryStore
from rustlog.testing.delayed import DELAY_SECONDS_MAX, DelayedLogStore, DelayedOffsetStore, Delays
from rustlog.testing.environment import SeededRandom, memory_environment

ORDERS_0 = TopicPartition("orders", 0)


def batch(value: bytes = b"a") -> RecordBatch:
    """One record."""
    return records.build([Record(value)], now_ms=1)


class DelaysTests(SynchronousTestCase):
    """What makes things late."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.delays = Delays(self.clock, SeededRandom(Random(1)))

    def order(self, seed: int) -> list[int]:
        """In which order twenty answers come."""
        came: list[int] = []
        delays = Delays(self.clock, SeededRandom(Random(seed)))
        for number in range(20):
            delays.answer(number).addCallback(came.append)
        self.assertEqual(came, [])
        self.clock.advance(DELAY_SECONDS_MAX)
        return came

    def test_value(self) -> None:
        """A value comes late, but soon."""
        late = self.delays.answer("value")
        self.assertNoResult(late)
        self.clock.advance(DELAY_SECONDS_MAX)
        self.assertEqual(self.successResultOf(late), "value")

    def test_deferred(self) -> None:
        """So does a Deferred's, counted from when it is there."""
        result: Deferred[str] = Deferred()
        late = self.delays.answer(result)
        self.clock.advance(10)
        self.assertNoResult(late)
        result.callback("value")
        self.assertNoResult(late)
        self.clock.advance(DELAY_SECONDS_MAX)
        self.assertEqual(self.successResultOf(late), "value")

    def test_failure(self) -> None:
        """So does an error."""
        late: Deferred[None] = self.delays.answer(fail(TopicNotFound("orders")))
        self.assertNoResult(late)
        self.clock.advance(DELAY_SECONDS_MAX)
        self.failureResultOf(late, TopicNotFound)

    def test_answers_overtake_each_other(self) -> None:
        """All answers come, in another order than they were asked for."""
        came = self.order(1)
        self.assertEqual(sorted(came), list(range(20)))
        self.assertNotEqual(came, sorted(came))

    def test_seeded(self) -> None:
        """The same seed gives the same order, another one another."""
        self.assertEqual(self.order(1), self.order(1))
        self.assertNotEqual(self.order(1), self.order(2))

    def test_last_answer(self) -> None:
        """The last answer comes when all others have come."""
        for seed in range(20):
            delays = Delays(self.clock, SeededRandom(Random(seed)))
            others = [delays.answer(number) for number in range(5)]
            last = delays.last_answer(succeed(None)).addCallback(partial(_all_called, others))
            self.clock.pump([DELAY_SECONDS_MAX / 10] * 30)
            self.assertTrue(self.successResultOf(last))


def _all_called(waiting: list[Deferred[Any]], _: object) -> bool:
    return all(each.called for each in waiting)


class DelayedLogStoreTests(SynchronousTestCase):
    """A log store that answers late."""

    def setUp(self) -> None:
        self.environment = memory_environment()
        self.clock = self.environment.clock
        self.inner = MemoryStore(MemorySettings(), self.environment)
        self.store = DelayedLogStore(self.inner, self.clock, self.environment.random)
        self.successResultOf(self.inner.catalog.create("orders", 1, {}))
        self.partition: Any = self.store.partition("orders", 0)

    def late(self, answer: Deferred[Any]) -> Any:
        """The value of an answer, which must come late."""
        self.assertNoResult(answer)
        self.clock.advance(DELAY_SECONDS_MAX)
        return self.successResultOf(answer)

    def test_provides_interfaces(self) -> None:
        """It can stand wherever a log store can."""
        verifyObject(ILogStore, self.store)
        verifyObject(ITopicCatalog, self.store.catalog)
        self.assertEqual(self.store.limits, self.inner.limits)

    def test_partitions_are_those_of_the_store(self) -> None:
        """Handles are not wrapped."""
        self.assertIs(self.partition, self.inner.partition("orders", 0))
        self.assertIsNone(self.store.partition("orders", 1))

    def test_appends_at_once_and_answers_late(self) -> None:
        """The store does its work in the order of the calls; only the answers are late."""
        answers = [self.store.append([(self.partition, batch())]) for _ in range(3)]
        self.assertEqual(self.partition.high_watermark, 3)
        self.assertEqual([self.late(answers[0])[0].base_offset], [0])
        self.assertEqual([self.successResultOf(each)[0].base_offset for each in answers[1:]], [1, 2])

    def test_reads_late(self) -> None:
        """A read shows what was there when it was asked for."""
        answer = self.store.read([(self.partition, 0, 1000)], 1000, Isolation.READ_UNCOMMITTED)
        self.store.append([(self.partition, batch())])
        (fetched,) = self.late(answer)
        assert isinstance(fetched, Fetched)
        self.assertEqual(fetched.size, 0)

    def test_everything_else_is_late(self) -> None:
        """Every question is answered by the store, and late."""
        self.store.append([(self.partition, batch())])
        store, partition = self.store, self.partition
        self.assertEqual(self.late(store.offset_for(partition, OffsetSpec.LATEST)).offset, 1)
        self.assertEqual(self.late(store.epoch_end(partition, 0)), (0, 1))
        self.assertGreater(self.late(store.describe(partition)).size, 0)
        self.assertEqual(self.late(store.delete_records(partition, 1)), 1)
        self.assertEqual(self.late(store.allocate_producer_ids(5)), 0)
        self.assertEqual(self.late(store.allocate_producer_ids(5)), 5)
        self.assertEqual(self.late(store.maintain()), False)

    def test_catalog_changes_are_late(self) -> None:
        """Changes of topics are answered late, and refused late; looking is not."""
        catalog = self.store.catalog
        heard: list[Any] = []
        cancel = catalog.subscribe(lambda old, new: heard.append(new and new.name))
        created = self.late(catalog.create("payments", 1, {"retention.ms": "5"}))
        self.assertEqual(catalog.get("payments"), created)
        self.assertEqual(catalog.get_by_id(created.id), created)
        self.assertEqual([each.name for each in catalog.all()], ["orders", "payments"])
        self.assertEqual(self.late(catalog.refresh("payments")), created)
        self.assertEqual(self.late(catalog.grow("payments", 2)).partitions, 2)
        self.assertEqual(dict(self.late(catalog.configure("payments", {"retention.ms": None})).config), {})
        cancel()
        self.late(catalog.delete("payments"))
        refused = catalog.delete("payments")
        self.assertNoResult(refused)
        self.clock.advance(DELAY_SECONDS_MAX)
        self.failureResultOf(refused, TopicNotFound)
        self.assertEqual(heard, ["payments"] * 3)

    def test_watchers_are_told_late(self) -> None:
        """Announcements take their time as well."""
        told: list[Any] = []
        self.store.watch(self.partition, told.append)
        self.store.append([(self.partition, batch())])
        self.clock.advance(0)
        self.assertEqual(told, [])
        self.clock.advance(DELAY_SECONDS_MAX)
        self.assertEqual(told, [self.partition])

    def test_cancelled_watch(self) -> None:
        """Who cancels is not told, not even of what is on its way."""
        told: list[Any] = []
        cancel = self.store.watch(self.partition, told.append)
        self.store.append([(self.partition, batch())])
        self.clock.advance(0)
        cancel()
        self.clock.advance(DELAY_SECONDS_MAX)
        self.store.append([(self.partition, batch())])
        self.clock.pump([DELAY_SECONDS_MAX] * 3)
        self.assertEqual(told, [])

    def test_closes_last(self) -> None:
        """When it is closed, nobody waits for an answer any more."""
        answers = [self.store.append([(self.partition, batch())]) for _ in range(10)]
        closed = self.store.close().addCallback(partial(_all_called, answers))
        self.clock.pump([DELAY_SECONDS_MAX / 10] * 30)
        self.assertTrue(self.successResultOf(closed))


class DelayedOffsetStoreTests(SynchronousTestCase):
    """An offset store that answers late."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.store = DelayedOffsetStore(MemoryOffsets(), self.clock, SeededRandom(Random(1)))

    def late(self, answer: Deferred[Any]) -> Any:
        """The value of an answer, which must come late."""
        self.assertNoResult(answer)
        self.clock.advance(2 * DELAY_SECONDS_MAX)
        self.clock.advance(DELAY_SECONDS_MAX)
        return self.successResultOf(answer)

    def test_provides_interface(self) -> None:
        """It can stand wherever an offset store can."""
        verifyObject(IOffsetStore, self.store)
        verifyObject(IOffsetExpiry, self.store)

    def test_everything_is_late(self) -> None:
        """Every call is done by the store, and answered late."""
        self.late(self.store.commit("billing", {ORDERS_0: Committed(5)}, 3))
        self.assertEqual(self.late(self.store.fetch("billing")), {ORDERS_0: Committed(5)})
        self.assertEqual(self.late(self.store.fetch("billing", [])), {})
        self.assertEqual(self.late(self.store.groups()), ("billing",))
        self.assertEqual(self.late(self.store.save("billing", 0, b"x")), 1)
        self.assertEqual(self.late(self.store.load("billing")), (1, b"x"))
        self.assertEqual(self.late(self.store.expire("billing", 1)), 0)
        self.late(self.store.delete("billing", [ORDERS_0]))
        self.late(self.store.delete("billing"))
        self.assertEqual(self.late(self.store.groups()), ())
        self.assertIsNone(self.late(self.store.close()))
