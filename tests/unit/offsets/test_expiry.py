"""Tests for L{rustlog.offsets.expiry}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from rustlog.errors import StorageFull
from rustlog.interfaces import IOffsetStore
from rustlog.model import Committed, TopicPartition
from rustlog.offsets.expiry import GROUPS_PER_STEP, MINUTE_MS, Expiry
from rustlog.offsets.memory import MemoryOffsets
from rustlog.storage.memory import MemorySettings, MemoryStore
from rustlog.testing.environment import memory_environment
from tests.unit.offsets.stores import FileStores, TopicStores

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
RETENTION_MINUTES = 60


@implementer(IOffsetStore)
class KeepingOffsets:
    """An offset store that can not expire anything, over one that could."""

    def __init__(self, offsets: MemoryOffsets) -> None:
        for name in ("commit", "fetch", "groups", "delete", "load", "save", "close"):
            setattr(self, name, getattr(offsets, name))


class ExpiryTests(SynchronousTestCase):
    """Old offsets of groups without members go, step by step."""

    def setUp(self) -> None:
        self.environment = memory_environment()
        self.log = MemoryStore(MemorySettings(), self.environment)
        self.successResultOf(self.log.catalog.create("orders", 2, {}))
        self.use(MemoryOffsets())

    def use(self, offsets: Any) -> None:
        self.offsets = offsets
        self.expiry = Expiry(offsets, self.log.catalog, self.environment.wall, RETENTION_MINUTES)

    def finish(self, result: Deferred[Any]) -> Any:
        outcomes: list[Any] = []
        result.addCallback(outcomes.append)
        self.environment.clock.pump([0.001] * 100)
        (outcome,) = outcomes
        return outcome

    def commit(self, group: str, age_minutes: float, partition: TopicPartition = ORDERS_0) -> None:
        now_ms = self.environment.wall.now_ms()
        committed = Committed(5, commit_time=now_ms - int(age_minutes * MINUTE_MS))
        self.finish(self.offsets.commit(group, {partition: committed}))

    def run_through(self) -> int:
        """Make all steps; how many there were."""
        steps = 1
        while self.finish(self.expiry.step()):
            steps += 1
        return steps

    def groups(self) -> tuple[str, ...]:
        groups: tuple[str, ...] = self.finish(self.offsets.groups())
        return groups

    def test_old_offsets_go(self) -> None:
        """What was committed longer ago than it is kept is forgotten, by every store; the rest is not."""
        for offsets in (
            self.offsets,
            self.finish(FileStores().open(self.environment)),
            self.finish(TopicStores().open(self.environment)),
        ):
            self.use(offsets)
            self.commit("old", RETENTION_MINUTES + 1)
            self.commit("young", RETENTION_MINUTES - 1)
            self.commit("both", RETENTION_MINUTES + 1, ORDERS_0)
            self.commit("both", RETENTION_MINUTES - 1, ORDERS_1)
            self.run_through()
            self.assertEqual(self.groups(), ("both", "young"))
            self.assertEqual(set(self.finish(self.offsets.fetch("both"))), {ORDERS_1})

    def test_groups_go(self) -> None:
        """Of each group without members, who knows its members is asked to forget it, if nothing is left."""
        asked: list[str] = []

        def forget(group: str) -> Deferred[None]:
            asked.append(group)
            return succeed(None)

        self.expiry.forget_group = forget
        self.expiry.is_active = lambda group: group == "active"
        self.commit("active", RETENTION_MINUTES + 1)
        self.commit("old", RETENTION_MINUTES + 1)
        self.run_through()
        self.assertEqual(asked, ["old"])

    def test_time_passes(self) -> None:
        """An offset that is not committed again grows old; one that is, does not, however low."""
        self.commit("idle", 0)
        for _ in range(3):
            self.commit("busy", 0)
            self.environment.clock.advance(RETENTION_MINUTES * 60 - 60)
            self.run_through()
        self.assertEqual(self.groups(), ("busy",))

    def test_active_groups_keep_theirs(self) -> None:
        """As long as a group has members, nothing of it is old."""
        self.expiry.is_active = {"active"}.__contains__
        for group in ("active", "left"):
            self.commit(group, RETENTION_MINUTES + 1)
        self.run_through()
        self.assertEqual(self.groups(), ("active",))

    def test_without_a_time(self) -> None:
        """What bears no time is kept."""
        self.finish(self.offsets.commit("timeless", {ORDERS_0: Committed(5)}))
        self.environment.clock.advance(1e6)
        self.run_through()
        self.assertEqual(self.groups(), ("timeless",))

    def test_document_stays(self) -> None:
        """What the coordinator remembers of a group is its own business."""
        self.commit("old", RETENTION_MINUTES + 1)
        self.finish(self.offsets.save("old", 0, b"document"))
        self.run_through()
        self.assertEqual(self.finish(self.offsets.fetch("old")), {})
        self.assertEqual(self.finish(self.offsets.load("old")), (1, b"document"))

    def test_bounded_steps(self) -> None:
        """However many groups there are, a step looks over some of them; all have their turn."""
        count = 2 * GROUPS_PER_STEP + 1
        for number in range(count):
            self.commit(f"group {number}", RETENTION_MINUTES + 1)
        self.finish(self.expiry.step())
        self.assertEqual(len(self.groups()), count - GROUPS_PER_STEP)
        self.assertEqual(self.run_through(), 2)
        self.assertEqual(self.groups(), ())

    def test_store_that_can_not(self) -> None:
        """A store without that power keeps everything."""
        self.use(KeepingOffsets(self.offsets))
        self.commit("old", RETENTION_MINUTES + 1)
        self.run_through()
        self.assertEqual(self.groups(), ("old",))

    def test_commit_under_way(self) -> None:
        """A commit that came before the expiry was through is kept, though it was not visible yet."""
        for stores in (FileStores(), TopicStores()):
            self.use(self.finish(stores.open(self.environment)))
            self.commit("busy", RETENTION_MINUTES + 1)
            fresh = Committed(9, commit_time=self.environment.wall.now_ms())
            committed = self.offsets.commit("busy", {ORDERS_0: fresh})
            self.assertNoResult(committed)
            stepped = self.expiry.step()
            self.finish(committed)
            self.finish(stepped)
            self.assertEqual(self.finish(self.offsets.fetch("busy")), {ORDERS_0: fresh})

    def test_topics_that_are_gone(self) -> None:
        """Offsets of topics that are gone go too, at the start: their deletion was cut short."""
        self.commit("reader", 0)
        self.commit("reader", 0, TopicPartition("deleted", 0))
        self.commit("other", 0, TopicPartition("deleted", 1))
        self.finish(self.expiry.forget_orphans())
        self.assertEqual(self.groups(), ("reader",))
        self.assertEqual(set(self.finish(self.offsets.fetch("reader"))), {ORDERS_0})

    def test_orphans_that_stay(self) -> None:
        """When they can not be deleted, that is no reason not to start."""
        self.commit("reader", 0, TopicPartition("deleted", 0))
        self.patch(self.offsets, "delete", lambda group, partitions: fail(StorageFull()))
        self.finish(self.expiry.forget_orphans())
        self.assertEqual(self.groups(), ("reader",))

    def test_topics_of_other_brokers(self) -> None:
        """A topic that this broker has not heard of yet is not gone."""
        foreign = TopicPartition("foreign", 0)
        self.commit("reader", 0, foreign)
        self.patch(self.log.catalog, "refresh", lambda name: succeed(object()))
        self.finish(self.expiry.forget_orphans())
        self.assertEqual(set(self.finish(self.offsets.fetch("reader"))), {foreign})
