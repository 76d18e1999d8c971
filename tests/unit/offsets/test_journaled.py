"""Tests for L{rustlog.offsets.journaled}."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import Closed, StaleGeneration, StorageFailed, StorageFull, VersionConflict
from rustlog.log.batch import RecordBatch
from rustlog.model import CONSUMER_OFFSETS, Committed, StoreLimits, TopicPartition
from rustlog.offsets import journaled, topic
from rustlog.offsets.entries import replay
from rustlog.offsets.journaled import JournaledOffsets
from rustlog.offsets.state import Groups
from rustlog.testing.environment import memory_environment
from tests.unit.offsets.stores import DATA_DIR, FileStores, TopicStores

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)


@define(eq=False)
class ManualJournal:
    """A journal that is written to when a test says so."""

    limits: StoreLimits = field(factory=StoreLimits)
    batches: list[RecordBatch] = field(factory=list)
    start: int = 0
    waiting: list[Deferred[None]] = field(factory=list)
    forgetting: Any = None
    is_prompt: bool = False
    is_defective: bool = False
    is_closed: bool = False

    def append(self, batch: RecordBatch) -> Any:
        if self.is_defective:
            raise ZeroDivisionError
        self.batches.append(batch)
        if self.is_prompt:
            return None
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def mark(self) -> int:
        return len(self.batches)

    def forget_before(self, mark: int) -> Deferred[None]:
        if self.forgetting is not None:
            outcome: Deferred[None] = self.forgetting
            return outcome
        self.start = mark
        return succeed(None)

    def close(self) -> Deferred[None]:
        self.is_closed = True
        return succeed(None)

    def answer(self, index: int = 0, error: Exception | None = None) -> None:
        """One of the batches that wait is on disk, or never will be."""
        waiting = self.waiting.pop(index)
        waiting.callback(None) if error is None else waiting.errback(error)

    def replayed(self) -> Groups:
        """What a start would find."""
        groups = Groups()
        for batch in self.batches[self.start :]:
            replay(groups, batch)
        return groups


class JournaledTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.environment = memory_environment()
        self.journal = ManualJournal()
        self.offsets = JournaledOffsets(self.environment, self.journal, Groups(), 0)

    def commit(self, offset: int, group: str = "g", generation: int | None = None) -> Deferred[None]:
        return self.offsets.commit(group, {ORDERS_0: Committed(offset)}, generation)

    def committed(self, group: str = "g") -> int | None:
        found = self.successResultOf(self.offsets.fetch(group))
        return found[ORDERS_0].offset if found else None


class OrderTests(JournaledTestCase):
    """One change after the other, though they overlap."""

    def test_nothing_is_seen_before_it_is_written(self) -> None:
        """A commit is visible when it is acknowledged, and not before."""
        done = self.commit(5)
        self.assertNoResult(done)
        self.assertIsNone(self.committed())
        self.assertEqual(self.successResultOf(self.offsets.groups()), ())
        self.journal.answer()
        self.successResultOf(done)
        self.assertEqual(self.committed(), 5)

    def test_answers_that_overtake(self) -> None:
        """Whatever the journal answers first, the last commit of all wins, and is answered last."""
        first, second = self.commit(5), self.commit(6)
        self.journal.answer(1)
        self.assertNoResult(second)
        self.assertIsNone(self.committed())
        self.journal.answer(0)
        self.successResultOf(first)
        self.successResultOf(second)
        self.assertEqual(self.committed(), 6)

    def test_failure_in_between(self) -> None:
        """A commit that fails leaves no trace, and does not harm the others."""
        results = [self.commit(each) for each in (5, 6, 7)]
        self.journal.answer(2)
        self.journal.answer(1, StorageFull())
        self.journal.answer(0)
        self.failureResultOf(results[1], StorageFull)
        self.successResultOf(results[2])
        self.assertEqual(self.committed(), 7)

    def test_commit_from_an_answer(self) -> None:
        """Who commits again as soon as he is answered comes behind those who waited."""
        order: list[int] = []
        self.journal.is_prompt = True
        done = self.commit(1).addCallback(lambda _: self.commit(3).addCallback(lambda _: order.append(3)))
        self.commit(2).addCallback(lambda _: order.append(2))
        self.successResultOf(done)
        self.assertEqual(order, [3, 2])
        self.assertEqual(self.committed(), 2)

    def test_defect(self) -> None:
        """A defect belongs to who met it; the others go on."""
        self.journal.is_defective = True
        self.failureResultOf(self.commit(5), ZeroDivisionError)
        self.journal.is_defective, self.journal.is_prompt = False, True
        self.successResultOf(self.commit(6))


class PromiseTests(JournaledTestCase):
    """Rules are applied to what will be, when all that is under way succeeds."""

    def test_generation_under_way(self) -> None:
        """A commit of an earlier generation is refused while that of a later one is being written."""
        later, earlier = self.commit(5, generation=3), self.commit(9, generation=2)
        self.journal.answer()
        self.successResultOf(later)
        self.failureResultOf(earlier, StaleGeneration)
        self.assertEqual(self.journal.waiting, [])

    def test_generation_that_failed(self) -> None:
        """When the later one fails, the earlier one is the current one again."""
        later = self.commit(5, generation=3)
        self.journal.answer(0, StorageFull())
        self.failureResultOf(later, StorageFull)
        self.journal.is_prompt = True
        self.successResultOf(self.commit(9, generation=2))

    def test_generation_is_written_until_it_is_known(self) -> None:
        """Of two commits of a new generation either may fail; what is acknowledged has its generation."""
        results = [self.commit(each, generation=3) for each in (5, 6)]
        self.journal.answer(0, StorageFull())
        del self.journal.batches[0]
        self.journal.answer(0)
        self.failureResultOf(results[0], StorageFull)
        self.successResultOf(results[1])
        self.assertEqual(self.journal.replayed().get("g").generation, 3)

    def test_version_under_way(self) -> None:
        """A document is saved over one that is still being written, by who knows its version."""
        first = self.offsets.save("g", 0, b"one")
        other = self.offsets.save("g", 0, b"other")
        second = self.offsets.save("g", 1, b"two")
        self.journal.answer()
        self.journal.answer()
        self.assertEqual((self.successResultOf(first), self.successResultOf(second)), (1, 2))
        self.failureResultOf(other, VersionConflict)
        self.assertEqual(self.successResultOf(self.offsets.load("g")), (2, b"two"))

    def test_version_that_failed(self) -> None:
        """A version that could not be written was never there."""
        first = self.offsets.save("g", 0, b"one")
        self.journal.answer(0, StorageFull())
        self.failureResultOf(first, StorageFull)
        self.journal.is_prompt = True
        self.assertEqual(self.successResultOf(self.offsets.save("g", 0, b"one")), 1)

    def test_delete_waits(self) -> None:
        """A deletion is of all that was asked for before, and of nothing that was asked for later."""
        before = self.offsets.commit("g", {ORDERS_0: Committed(5), ORDERS_1: Committed(5)}, 3)
        deleted = self.offsets.delete("g")
        after = self.commit(1, generation=1)
        self.assertEqual(len(self.journal.batches), 1)
        for each in (before, deleted, after):
            self.assertNoResult(each)
            self.journal.answer()
            self.successResultOf(each)
        self.assertEqual(self.successResultOf(self.offsets.fetch("g")), {ORDERS_0: Committed(1)})
        self.assertEqual(self.journal.replayed().get("g").offsets, {ORDERS_0: Committed(1)})


class SnapshotTests(JournaledTestCase):
    """The journal is shortened while commits go on."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(journaled, "SNAPSHOT_BYTES_MIN", 10_000)
        self.patch(journaled, "PIECE_RECORDS", 2)
        self.journal.is_prompt = True

    def run_snapshot(self) -> None:
        done = self.offsets.snapshot()
        self.environment.clock.pump([0.001] * 20)
        self.successResultOf(done)

    def test_short(self) -> None:
        """However many commits there are, the journal stays short, and tells everything."""
        for number in range(2000):
            self.successResultOf(self.commit(number, f"group {number % 5}"))
            self.environment.clock.advance(0.001)
            size = sum(each.size for each in self.journal.batches[self.journal.start :])
            self.assertLess(size, 15_000)
        self.assertGreater(self.journal.start, 1500)
        groups = self.journal.replayed()
        found = {name: groups.get(name).offsets[ORDERS_0].offset for name in groups.names()}
        self.assertEqual(found, {f"group {each}": 1995 + each for each in range(5)})

    def test_waits_for_what_is_under_way(self) -> None:
        """Nothing is copied that may fail yet: a commit that fails never comes back."""
        self.successResultOf(self.commit(5))
        self.journal.is_prompt = False
        failing = self.commit(6)
        done = self.offsets.snapshot()
        self.journal.batches.pop()
        self.journal.answer(0, StorageFull())
        self.failureResultOf(failing, StorageFull)
        self.journal.answer()
        self.environment.clock.advance(0)
        self.successResultOf(done)
        self.assertEqual(self.journal.replayed().get("g").offsets, {ORDERS_0: Committed(5)})

    def test_commits_meanwhile(self) -> None:
        """Commits between two pieces count, whether their group was copied already or not."""
        for number in range(6):
            self.successResultOf(self.commit(number, f"group {number}"))
        done = self.offsets.snapshot()
        self.assertNoResult(done)
        for number in range(6):
            self.successResultOf(self.commit(10 + number, f"group {number}"))
        self.successResultOf(self.offsets.delete("group 5"))
        self.successResultOf(self.commit(7, "new"))
        self.environment.clock.pump([0.001] * 5)
        self.successResultOf(done)
        self.assertGreater(self.journal.start, 0)
        groups = self.journal.replayed()
        found = {name: groups.get(name).offsets[ORDERS_0].offset for name in groups.names()}
        self.assertEqual(found, {**{f"group {each}": 10 + each for each in range(5)}, "new": 7})

    def test_generations_and_documents(self) -> None:
        """All that is known of a group is copied, even if it has no offsets."""
        self.successResultOf(self.commit(5, "a", generation=3))
        self.successResultOf(self.offsets.save("b", 0, b"document"))
        self.run_snapshot()
        groups = self.journal.replayed()
        self.assertEqual(groups.get("a").generation, 3)
        self.assertEqual((groups.get("b").version, groups.get("b").document), (1, b"document"))

    def test_nothing_left(self) -> None:
        """Where everything was deleted, the journal becomes empty."""
        self.successResultOf(self.commit(5))
        self.successResultOf(self.offsets.delete("g"))
        self.run_snapshot()
        self.assertEqual(self.journal.start, len(self.journal.batches))

    def test_asked_for_twice(self) -> None:
        """Who asks for one that is under way waits for that."""
        self.successResultOf(self.commit(5))
        first, second = self.offsets.snapshot(), self.offsets.snapshot()
        self.assertNoResult(second)
        self.environment.clock.advance(0)
        self.successResultOf(first)
        self.successResultOf(second)
        self.assertEqual(len(self.journal.batches), 2)

    def test_failure(self) -> None:
        """When it fails, all is as before; it is tried again when as much has been written once more."""
        self.journal.forgetting = fail(StorageFailed("no"))
        while self.offsets.journal_bytes < 9_900:
            self.successResultOf(self.commit(5))
        self.successResultOf(self.commit(6))
        self.environment.clock.pump([0.001] * 3)
        self.assertLess(self.offsets.journal_bytes, 1_000)
        self.assertEqual(self.journal.start, 0)
        self.journal.forgetting = None
        while self.journal.start == 0:
            self.successResultOf(self.commit(7))
            self.environment.clock.advance(0.001)
        self.assertEqual(self.journal.replayed().get("g").offsets, {ORDERS_0: Committed(7)})

    def test_close(self) -> None:
        """A close waits for the piece that is under way, and begins no other."""
        for number in range(6):
            self.successResultOf(self.commit(number, f"group {number}"))
        self.journal.is_prompt = False
        self.offsets.snapshot()
        closed = self.offsets.close()
        self.failureResultOf(self.commit(9), Closed)
        self.assertNoResult(closed)
        self.journal.answer()
        self.environment.clock.advance(0)
        self.successResultOf(closed)
        self.assertTrue(self.journal.is_closed)
        self.assertEqual((self.journal.start, len(self.journal.waiting)), (0, 0))


class BoundedTests(SynchronousTestCase):
    """What commits leave on disk is bounded."""

    COMMITS = 6_000
    GROUPS = 20
    SNAPSHOT_BYTES = 100_000

    def setUp(self) -> None:
        self.patch(journaled, "SNAPSHOT_BYTES_MIN", self.SNAPSHOT_BYTES)
        self.environment = memory_environment()

    def finish(self, result: Deferred[Any]) -> Any:
        outcomes: list[Any] = []
        result.addCallback(outcomes.append)
        self.environment.clock.pump([0.001] * 5)
        (outcome,) = outcomes
        return outcome

    def disk_bytes(self, directory: Any) -> int:
        files = self.environment.files
        return sum(files.size(directory / name) for name in files.names(directory) if name != "LOCK")

    def check(self, stores: Any, directory: Any, limit: int) -> None:
        store = self.finish(stores.open(self.environment))
        largest = 0
        for number in range(0, self.COMMITS, 20):
            offsets = {ORDERS_0: Committed(number, commit_time=number)}
            commits = [store.commit(f"group {each}", offsets) for each in range(self.GROUPS)]
            self.environment.clock.pump([0.001] * 2)
            for each in commits:
                self.successResultOf(each)
            largest = max(largest, self.disk_bytes(directory))
        self.assertGreater(largest, self.SNAPSHOT_BYTES // 2)
        self.assertLess(largest, limit)
        self.finish(store.close())
        store = self.finish(stores.open(self.environment))
        self.assertEqual(len(self.finish(store.groups())), self.GROUPS)
        found = self.finish(store.fetch("group 7"))
        self.assertEqual(found[ORDERS_0].offset, self.COMMITS - 20)

    def test_topic(self) -> None:
        """Thousands of commits leave no more than two snapshots' worth of the topic."""
        config = {**topic.TOPIC_CONFIG, "segment.bytes": str(self.SNAPSHOT_BYTES // 2)}
        self.patch(topic, "TOPIC_CONFIG", config)
        self.check(TopicStores(), DATA_DIR / "logs" / CONSUMER_OFFSETS / "0", 2 * self.SNAPSHOT_BYTES)

    def test_file(self) -> None:
        """The same in files."""
        self.check(FileStores(), DATA_DIR / "offsets", 2 * self.SNAPSHOT_BYTES)
