"""Tests for L{rustlog.monitoring}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import Closed, PartitionFenced
from rustlog.model import Committed, TopicPartition
from rustlog.monitoring import REST, STEP, Monitoring
from rustlog.observability.figures import Figures, GroupFigures, LagFigures, TopicFigures
from rustlog.observability.health import Health, Stage
from rustlog.observability.metrics import Metrics
from rustlog.testing.delayed import DelayedLogStore, DelayedOffsetStore
from rustlog.testing.environment import simulated_environment
from tests.unit.observability.test_metrics import samples
from tests.unit.wire.harness import CONTEXT, World, produce


class MonitoringCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.use(World())

    def use(self, world: World) -> None:
        self.world = world
        self.monitoring = Monitoring(world.broker, world.clock, Metrics(), Health(Stage.READY))

    def result_of(self, deferred: Deferred[Any]) -> Any:
        """Let time pass until it is there."""
        results: list[Any] = []
        deferred.addBoth(results.append)
        for _ in range(10_000):
            if results:
                break
            self.world.clock.advance(0.001)
        (result,) = results
        return result

    def figures(self) -> Figures:
        found = self.result_of(self.monitoring.figures())
        self.assertIsInstance(found, Figures)
        return found  # type: ignore[no-any-return]

    def commit(self, group: str, **offsets: int) -> None:
        committed = {TopicPartition(topic, 0): Committed(offset) for topic, offset in offsets.items()}
        self.successResultOf(self.world.broker.commit_offsets(CONTEXT, group, committed))


class FiguresTests(MonitoringCase):
    def test_empty(self) -> None:
        """An empty broker holds nothing."""
        self.assertEqual(self.figures(), Figures())

    def test_topics(self) -> None:
        """Of each topic the sums over its partitions are known."""
        self.world.create("orders", 2)
        client = self.world.client()
        client.ask(produce(b"a", b"b"))
        client.ask(produce(b"c", partition=1))
        size = self.world.broker.traffic["rustlog"].appended_bytes
        administration = self.world.broker.administration
        self.successResultOf(administration.delete_records(CONTEXT, TopicPartition("orders", 0), 1))
        self.assertEqual(self.figures().topics, (TopicFigures("orders", 2, False, 2, 3, size),))

    def test_groups(self) -> None:
        """Of each group it is known how far it is behind, where there still is something to be behind."""
        self.world.create("orders")
        self.world.create("gone")
        self.world.client().ask(produce(b"a", b"b", b"c"))
        self.commit("kitchen", orders=1, gone=0)
        self.commit("ahead", orders=99)
        self.world.memory.catalog.delete("gone")
        self.assertEqual(
            self.figures().groups,
            (
                GroupFigures("ahead", (LagFigures("orders", 0, 0),)),
                GroupFigures("kitchen", (LagFigures("orders", 0, 2),)),
            ),
        )

    def test_in_steps(self) -> None:
        """With very many partitions, others have their turn in between."""
        self.world.create("wide", STEP * 10)
        for number in range(STEP * 2):
            self.world.create(f"topic-{number}")
        pauses: list[Deferred[None]] = []
        self.patch(self.monitoring, "pause", lambda: pauses.append(Deferred()) or pauses[-1])
        found = self.monitoring.figures()
        while not found.called:
            pauses[-1].callback(None)
        self.assertGreaterEqual(len(pauses), 12)
        self.assertEqual(self.successResultOf(found).partitions, STEP * 12)

    def test_shared(self) -> None:
        """Those who ask at the same time share the answer."""
        self.world.create("wide", STEP * 2)
        asked = [self.monitoring.figures() for _ in range(3)]
        first = self.result_of(asked[0])
        for each in asked[1:]:
            self.assertIs(self.successResultOf(each), first)

    def test_rest(self) -> None:
        """What took long is not done again at once; what took no time is."""
        self.assertIsNot(self.figures(), self.figures())
        self.world.create("wide", STEP * 2)
        before = self.world.clock.seconds()
        first = self.figures()
        took = self.world.clock.seconds() - before
        self.assertIs(self.figures(), first)
        self.world.clock.advance(took * REST)
        self.assertIsNot(self.figures(), first)

    def test_deleted_meanwhile(self) -> None:
        """A topic that is deleted while it is looked at is left out."""
        self.world.create("wide", STEP * 3)
        self.world.create("zoo")
        found = self.monitoring.figures()
        self.world.memory.catalog.delete("wide")
        self.assertEqual([each.name for each in self.result_of(found).topics], ["zoo"])

    def test_failure(self) -> None:
        """When a store can not answer, everyone who asked hears it; the next one may be luckier."""
        self.patch(self.world.broker, "groups", lambda _: fail(Closed()))
        for each in [self.monitoring.figures(), self.monitoring.figures()]:
            self.failureResultOf(each, Closed)

    def test_slow_stores(self) -> None:
        """Stores that answer late, and in any order, are waited for."""
        self.use(
            World(
                environment=simulated_environment(3),
                wrap=lambda store, environment: DelayedLogStore(store, environment.clock, environment.random),
                wrap_offsets=lambda store, environment: DelayedOffsetStore(
                    store, environment.clock, environment.random
                ),
            )
        )
        self.world.create("orders", 3)
        self.assertEqual(self.figures().partitions, 3)


class MetricsTextTests(MonitoringCase):
    def test_text(self) -> None:
        """The text has everything, as of now."""
        self.world.create("orders")
        self.world.client().ask(produce(b"a"))
        text = self.result_of(self.monitoring.metrics_text())
        self.assertEqual(samples(text)["rustlog_topic_records", frozenset({("topic", "orders")})], 1)

    def test_through_a_listener(self) -> None:
        """A wire protocol finds it at its listener."""
        self.assertIn(b"rustlog_topics 0.0", self.result_of(self.world.listener.monitoring.metrics_text()))


class ReadinessTests(MonitoringCase):
    def test_stages(self) -> None:
        """It is ready after the start and before the stop."""
        for stage, problems in (
            (Stage.STARTING, ["the broker is starting"]),
            (Stage.READY, []),
            (Stage.STOPPING, ["the broker is stopping"]),
        ):
            self.monitoring.health.stage = stage
            self.assertEqual(self.monitoring.problems(), problems)

    def test_fenced(self) -> None:
        """It is not while a partition is fenced, and tells which one."""
        fenced = [PartitionFenced(TopicPartition("orders", 7), "a sync failed")]
        self.patch(self.world.broker.administration, "fenced", lambda _: fenced)
        self.assertEqual(self.monitoring.problems(), ["partition orders-7 is fenced: a sync failed"])
        self.assertEqual(self.figures().fenced, 1)

    def test_store_without_fences(self) -> None:
        """Of a store that knows of no fences, none is fenced."""
        self.assertEqual(self.world.broker.administration.fenced(CONTEXT), [])
