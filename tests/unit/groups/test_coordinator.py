"""Tests for L{rustlog.groups.coordinator} and L{rustlog.groups.cells}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import (
    Closed,
    CoordinatorNotAvailable,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    GroupReadsTopic,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    StaleGeneration,
    StorageFull,
    UnknownMember,
)
from rustlog.groups.coordinator import GroupCoordinator
from rustlog.groups.transitions import GroupState
from rustlog.groups.values import Committer, GroupLimits, Joined, Leaving, Sync, Synced
from rustlog.model import Committed, TopicPartition
from rustlog.offsets.memory import MemoryOffsets
from rustlog.testing.delayed import DelayedOffsetStore
from rustlog.testing.environment import memory_environment
from tests.unit.groups.driver import LIMITS, SESSION_MS, a_join

ORDERS = TopicPartition("orders", 0)
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x00"


class ManualStore(MemoryOffsets):
    """
    A store that fails, or is late, when a test says so.

    @ivar save_error: what saves fail with.
    @ivar late_saves: saves that wait for the test, if it is a list.
    """

    def __init__(self) -> None:
        super().__init__()
        self.save_error: Exception | None = None
        self.late_saves: list[Deferred[None]] | None = None
        self.saves = 0

    def save(self, group: str, version: int, document: bytes) -> Deferred[int]:
        self.saves += 1
        if self.save_error is not None:
            return fail(self.save_error)
        if self.late_saves is None:
            return super().save(group, version, document)
        late: Deferred[None] = Deferred()
        self.late_saves.append(late)
        return late.addCallback(lambda _: super(ManualStore, self).save(group, version, document))


class CoordinatorCase(SynchronousTestCase):
    """A coordinator, and members that behave."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.store = ManualStore()
        self.counted: list[tuple[str, str]] = []
        self.coordinator = self.restart()

    def restart(self, **more: Any) -> GroupCoordinator:
        """Another one on the same store, as after a crash."""
        environment = memory_environment()
        self.coordinator = GroupCoordinator(
            more.pop("store", self.store), self.clock, environment.random, more.pop("limits", LIMITS),
            count=lambda kind, reason: self.counted.append((kind, reason)), **more,
        )  # fmt: skip
        self.coordinator.start()
        return self.coordinator

    def join(self, group: str = "billing", member_id: str = "", **more: Any) -> Deferred[Joined]:
        return self.coordinator.join(group, a_join(member_id, **more))

    def sync(self, joined: Joined, group: str = "billing") -> Deferred[Synced]:
        shares = tuple((each.member_id, each.member_id.encode()) for each in joined.members)
        asked = Sync(member_id=joined.member_id, generation=joined.generation, assignments=shares)
        return self.coordinator.sync(group, asked)

    def settle(self, group: str = "billing", **more: Any) -> Joined:
        """A stable group of one member."""
        waiting = self.join(group, **more)
        self.clock.advance(LIMITS.initial_delay_ms / 1000)
        joined = self.successResultOf(waiting)
        self.successResultOf(self.sync(joined, group))
        return joined

    def heartbeat(self, joined: Joined, group: str = "billing") -> Deferred[None]:
        return self.coordinator.heartbeat(group, joined.member_id, None, joined.generation)

    def leave(self, joined: Joined, group: str = "billing") -> None:
        leaving = [Leaving(member_id=joined.member_id)]
        self.assertEqual(self.successResultOf(self.coordinator.leave(group, leaving)), [None])

    def commit(self, joined: Joined | None, offset: int = 5, group: str = "billing") -> Deferred[None]:
        committer = Committer()
        if joined is not None:
            committer = Committer(member_id=joined.member_id, generation=joined.generation)
        return self.coordinator.commit(group, committer, {ORDERS: Committed(offset)})

    def committed(self, group: str = "billing") -> dict[TopicPartition, Committed]:
        return self.successResultOf(self.store.fetch(group))


class MemberTests(CoordinatorCase):
    """The life of members."""

    def test_life(self) -> None:
        """Join, own, live, commit, leave."""
        joined = self.settle(client_id="shop")
        self.assertTrue(joined.member_id.startswith("shop-"), joined.member_id)
        self.successResultOf(self.heartbeat(joined))
        self.successResultOf(self.commit(joined))
        self.assertEqual(self.committed()[ORDERS].offset, 5)
        self.leave(joined)
        self.failureResultOf(self.heartbeat(joined), UnknownMember)

    def test_id_of_static_member(self) -> None:
        """It is called by its instance id."""
        joined = self.settle(client_id="shop", instance_id="one")
        self.assertTrue(joined.member_id.startswith("one-"), joined.member_id)

    def test_ids_are_unique(self) -> None:
        """No two clients get the same one."""
        ids = {
            self.failureResultOf(self.join(requires_known_id=True), MemberIdRequired).value.member_id
            for _ in range(10)
        }
        self.assertEqual(len(ids), 10)

    def test_sessions_end(self) -> None:
        """Who is not heard of is out; the timer is the group's own."""
        joined = self.settle()
        for _ in range(3):
            self.clock.advance(0.9 * SESSION_MS / 1000)
            self.successResultOf(self.heartbeat(joined))
        self.clock.advance(SESSION_MS / 1000)
        self.failureResultOf(self.heartbeat(joined), UnknownMember)
        self.assertIn(("departure", "session_expired"), self.counted)

    def test_reasons_are_counted(self) -> None:
        """Rebalances and departures by reason, generations."""
        self.leave(self.settle())
        self.assertEqual(
            self.counted,
            [("rebalance", "member_joined"), ("generation", ""), ("departure", "left"),
             ("rebalance", "member_left"), ("generation", "")],
        )  # fmt: skip

    def test_client_is_gone(self) -> None:
        """A JoinGroup that nobody waits for any more is cancelled."""
        waiting = self.join()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.assertIn(("departure", "connection_lost"), self.counted)
        self.clock.advance(3)
        self.assertFalse(self.coordinator.is_active("billing"))

    def test_next_request_from_within_an_answer(self) -> None:
        """A client may ask the next thing as soon as it has its answer."""
        waiting = self.join().addCallback(self.sync)
        self.clock.advance(3)
        synced = self.successResultOf(waiting)
        self.assertEqual(synced.protocol_name, "range")
        self.clock.advance(5)

    def test_leaving_of_many(self) -> None:
        """Each gets an answer of its own."""
        joined = self.settle()
        leaving = [Leaving(member_id="x"), Leaving(member_id=joined.member_id)]
        first, second = self.successResultOf(self.coordinator.leave("billing", leaving))
        self.assertIsInstance(first, UnknownMember)
        self.assertIsNone(second)


class MemoryTests(CoordinatorCase):
    """What is kept in memory, and what is not."""

    def test_strangers(self) -> None:
        """Whoever asks for groups that nobody knows leaves nothing behind."""
        self.failureResultOf(self.coordinator.heartbeat("nobody", "x", None, 1), UnknownMember)
        self.failureResultOf(self.commit(Joined(
            member_id="x", generation=3, protocol_type="", protocol_name="", leader_id=""
        ), group="nobody"), StaleGeneration)  # fmt: skip
        self.failureResultOf(self.coordinator.describe("nobody"), GroupNotFound)
        self.assertFalse(self.coordinator.is_active("nobody"))
        self.assertEqual(self.coordinator._memory_bytes, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_empty_groups(self) -> None:
        """A group is forgotten when its last member has left, and its number goes on from the store."""
        joined = self.settle()
        self.assertTrue(self.coordinator.is_active("billing"))
        self.leave(joined)
        self.assertFalse(self.coordinator.is_active("billing"))
        self.assertEqual((self.coordinator._cells, self.coordinator._memory_bytes), ({}, 0))
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.settle().generation, joined.generation + 2)

    def test_limit_of_all_groups(self) -> None:
        """All groups together are limited, too."""
        self.restart(memory_bytes_max=20_000)
        big = (("range", bytes(8_000)),)
        self.settle("one", protocols=big)
        self.failureResultOf(self.join("two", protocols=big), GroupFull)
        self.assertFalse(self.coordinator.is_active("two"))

    def test_rebalance_at_the_limit(self) -> None:
        """Who is a member already, and wants no more than before, is not refused."""
        big = (("range", bytes(8_000)),)
        self.restart(memory_bytes_max=16_000)
        joined = self.settle(protocols=big)
        again = self.successResultOf(self.join(member_id=joined.member_id, protocols=big))
        self.successResultOf(self.sync(again))

    def test_assignments_are_limited(self) -> None:
        """Assignments count, too."""
        self.restart(memory_bytes_max=16_000)
        waiting = self.join()
        self.clock.advance(3)
        joined = self.successResultOf(waiting)
        shares = ((joined.member_id, bytes(15_000)),)
        asked = Sync(member_id=joined.member_id, generation=joined.generation, assignments=shares)
        self.failureResultOf(self.coordinator.sync("billing", asked), GroupFull)


class RestartTests(CoordinatorCase):
    """What survives."""

    def test_members(self) -> None:
        """Members of a stable group go on as if nothing had happened."""
        joined = self.settle()
        self.restart()
        self.successResultOf(self.heartbeat(joined))
        self.successResultOf(self.commit(joined))
        self.assertEqual(self.successResultOf(self.sync(joined)).assignment, joined.member_id.encode())
        self.assertTrue(self.coordinator.is_active("billing"))

    def test_who_does_not_return(self) -> None:
        """Others expire, even if nobody ever asks for the group again."""
        self.settle()
        self.restart()
        self.clock.advance(SESSION_MS / 1000)
        self.assertFalse(self.coordinator.is_active("billing"))
        self.assertEqual(self.successResultOf(self.coordinator.describe("billing")).state, GroupState.EMPTY)

    def test_before_it_has_looked_around(self) -> None:
        """As long as it is not known which groups have members, all count as active."""
        self.settle()
        environment = memory_environment()
        late = DelayedOffsetStore(self.store, self.clock, environment.random)
        self.restart(store=late)
        self.assertTrue(self.coordinator.is_active("nobody"))
        self.clock.pump([0.1] * 10)
        self.assertFalse(self.coordinator.is_active("nobody"))
        self.assertTrue(self.coordinator.is_active("billing"))

    def test_unfinished_rebalance(self) -> None:
        """A rebalance that was under way is forgotten: members are told to join again."""
        joined = self.settle()
        new = self.join(member_id="")
        again = self.join(member_id=joined.member_id)
        newcomer, member = self.successResultOf(new), self.successResultOf(again)
        self.restart()
        self.failureResultOf(self.sync(member), StaleGeneration)
        self.failureResultOf(self.sync(newcomer), UnknownMember)
        self.successResultOf(self.heartbeat(joined))

    def test_stop(self) -> None:
        """Whoever waits is sent away, and nobody expires any more."""
        joined = self.settle()
        waiting = self.join()
        self.coordinator.stop()
        self.failureResultOf(waiting, NotCoordinator)
        self.failureResultOf(self.join(), NotCoordinator)
        self.failureResultOf(self.sync(joined), NotCoordinator)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.successResultOf(self.commit(joined))

    def test_unreadable(self) -> None:
        """A group whose document makes no sense is not available, and the log says why; it can be deleted."""
        for document in (b"{", b'{"format": 2}', b'{"format": 1}', b"[]", b'{"format": 1, "members": 5}'):
            version, _ = self.successResultOf(self.store.load("damaged"))
            self.successResultOf(self.store.save("damaged", version, document))
            error = self.failureResultOf(self.join("damaged"), CoordinatorNotAvailable)
            self.assertIn("can not be read", str(error.value))
        self.assertEqual(self.successResultOf(self.coordinator.describe_all()), [])
        self.successResultOf(self.coordinator.forget_unused("damaged"))
        self.successResultOf(self.coordinator.delete("damaged"))
        self.assertEqual(self.settle("damaged").generation, 1)

    def test_store_fails(self) -> None:
        """If the store can not be read, clients try again later."""
        self.patch(self.store, "load", lambda group: fail(Closed()))
        self.failureResultOf(self.join(), CoordinatorNotAvailable)
        self.patch(self.store, "load", lambda group: fail(ValueError("a defect")))
        self.failureResultOf(self.join(), CoordinatorNotAvailable)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.assertFalse(self.coordinator.is_active("billing"))

    def test_gone_while_loading(self) -> None:
        """A client that is gone before its group was loaded is not missed."""
        environment = memory_environment()
        self.restart(store=DelayedOffsetStore(self.store, self.clock, environment.random))
        first, second = self.join(), self.join()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.clock.pump([0.1] * 40)
        self.assertEqual(len(self.successResultOf(second).members), 1)


class SavingTests(CoordinatorCase):
    """Documents."""

    def test_assignment_waits(self) -> None:
        """Nobody is told what it owns before that is durable."""
        self.store.late_saves = []
        waiting = self.join()
        self.clock.advance(3)
        syncing = self.sync(self.successResultOf(waiting))
        self.assertNoResult(syncing)
        self.store.late_saves.pop().callback(None)
        self.successResultOf(syncing)

    def test_one_at_a_time(self) -> None:
        """Each save knows the version that the one before got."""
        self.store.late_saves = []
        waiting = self.join(instance_id="one")
        self.clock.advance(3)
        joined = self.successResultOf(waiting)
        syncing = self.sync(joined)
        self.leave(joined)
        self.failureResultOf(syncing, UnknownMember)
        self.assertEqual(len(self.store.late_saves), 1)
        self.store.late_saves.pop().callback(None)
        self.assertEqual(len(self.store.late_saves), 1)
        self.store.late_saves.pop().callback(None)
        self.assertEqual(self.successResultOf(self.store.load("billing"))[0], 2)
        self.assertFalse(self.coordinator.is_active("billing"))

    def test_failure(self) -> None:
        """What can not be saved does not hold."""
        for error, logged in ((StorageFull(), 0), (ValueError("a defect"), 1)):
            waiting = self.join()
            self.clock.advance(3)
            joined = self.successResultOf(waiting)
            self.store.save_error = error
            self.failureResultOf(self.sync(joined), CoordinatorNotAvailable)
            self.assertEqual(len(self.flushLoggedErrors(ValueError)), logged)
            self.store.save_error = None
            self.failureResultOf(self.heartbeat(joined), RebalanceInProgress)
            self.leave(joined)

    def test_somebody_else(self) -> None:
        """If somebody else has saved the group, it is his: all who wait are told to look for him."""
        joined = self.settle()
        _, document = self.successResultOf(self.store.load("billing"))
        self.successResultOf(self.store.save("billing", 1, document))
        follower = self.join()
        again = self.successResultOf(self.join(member_id=joined.member_id, protocols=(("range", b"x"),)))
        self.successResultOf(follower)
        self.failureResultOf(self.sync(again), NotCoordinator)
        self.assertFalse(self.coordinator.is_active("billing"))
        self.successResultOf(self.heartbeat(joined))


class CommitTests(CoordinatorCase):
    """Who may commit, and where it goes."""

    def test_alone(self) -> None:
        """A consumer that shares with nobody commits as long as there are no members."""
        self.successResultOf(self.commit(None))
        self.assertEqual(self.committed()[ORDERS].offset, 5)
        self.settle()
        self.failureResultOf(self.commit(None, 6), UnknownMember)
        self.assertEqual(self.committed()[ORDERS].offset, 5)

    def test_old_generation(self) -> None:
        """Members of old generations may not."""
        joined = self.settle()
        again = self.successResultOf(self.join(member_id=joined.member_id))
        self.successResultOf(self.sync(again))
        self.failureResultOf(self.commit(joined, 6), StaleGeneration)
        self.successResultOf(self.commit(again, 7))
        self.assertEqual(self.committed()[ORDERS].offset, 7)

    def test_store_remembers(self) -> None:
        """The store is told the generation, so that it can refuse an old one by itself."""
        joined = self.settle()
        self.successResultOf(self.commit(joined))
        self.failureResultOf(self.store.commit("billing", {ORDERS: Committed(1)}, 0), StaleGeneration)


class AdministrationTests(CoordinatorCase):
    """Looking at groups, and deleting them."""

    def test_describe_all(self) -> None:
        """All groups, with members or without, by name."""
        self.successResultOf(self.commit(None, group="quiet"))
        self.settle("active")
        self.leave(self.settle("deserted"), "deserted")
        found = self.successResultOf(self.coordinator.describe_all())
        self.assertEqual(
            [(each.name, each.state, each.protocol_type) for each in found],
            [("active", GroupState.STABLE, "consumer"), ("deserted", GroupState.EMPTY, "consumer"),
             ("quiet", GroupState.EMPTY, "")],
        )  # fmt: skip

    def test_very_many(self) -> None:
        """Whoever asks for very many groups does not keep others waiting until all are found."""
        for number in range(250):
            self.successResultOf(self.commit(None, group=f"group {number}"))
        listing = self.coordinator.describe_all()
        self.assertNoResult(listing)
        self.clock.pump([0, 0])
        self.assertEqual(len(self.successResultOf(listing)), 250)

    def test_delete(self) -> None:
        """An empty group is forgotten with all that it has committed; one with members is not."""
        joined = self.settle()
        self.successResultOf(self.commit(joined))
        self.failureResultOf(self.coordinator.delete("billing"), GroupNotEmpty)
        self.leave(joined)
        self.successResultOf(self.coordinator.delete("billing"))
        self.assertEqual(self.committed(), {})
        self.assertEqual(self.successResultOf(self.store.groups()), ())
        self.failureResultOf(self.coordinator.delete("billing"), GroupNotFound)

    def test_join_while_deleting(self) -> None:
        """Who wants to join a group that is being deleted shall try again, and finds a new one."""
        self.successResultOf(self.commit(None))
        deleted: Deferred[None] = Deferred()
        delete = self.store.delete
        self.patch(self.store, "delete", lambda group: deleted.addCallback(lambda _: delete(group)))
        deleting = self.coordinator.delete("billing")
        self.failureResultOf(self.join(), CoordinatorNotAvailable)
        deleted.callback(None)
        self.successResultOf(deleting)
        self.assertEqual(self.settle().generation, 1)

    def test_delete_waits_for_saves(self) -> None:
        """A document on its way does not bring a deleted group back."""
        joined = self.settle()
        self.store.late_saves = []
        self.leave(joined)
        deleting = self.coordinator.delete("billing")
        self.assertNoResult(deleting)
        self.store.late_saves.pop().callback(None)
        self.successResultOf(deleting)
        self.assertEqual(self.successResultOf(self.store.groups()), ())

    def test_delete_fails(self) -> None:
        """If the store fails, the group is as it was."""
        self.successResultOf(self.commit(None))
        self.patch(self.store, "delete", lambda group: fail(StorageFull()))
        self.failureResultOf(self.coordinator.delete("billing"), StorageFull)
        self.assertEqual(self.settle().generation, 1)

    def test_forget_unused(self) -> None:
        """What nobody uses, and has committed nothing, is forgotten; nothing else is."""
        self.settle("active")
        self.leave(self.settle("deserted"), "deserted")
        worked = self.settle("worked")
        self.successResultOf(self.commit(worked, group="worked"))
        self.leave(worked, "worked")
        for name in ("active", "deserted", "worked", "nobody"):
            self.successResultOf(self.coordinator.forget_unused(name))
        self.assertEqual(self.successResultOf(self.store.groups()), ("active", "worked"))
        self.assertEqual(list(self.coordinator._cells), ["active"])

    def test_commit_while_forgetting(self) -> None:
        """So does a commit, of whatever protocol, be it under way already or just beginning."""
        for is_earlier in (True, False):
            self.leave(self.settle())
            self.forget_and_commit(is_earlier)
            kept = self.successResultOf(MemoryOffsets.fetch(self.store, "billing"))
            self.assertEqual(kept[ORDERS].offset, 3)
            self.successResultOf(self.store.delete("billing"))
        self.assertEqual((self.coordinator._commits, self.coordinator._forgetting), ({}, set()))

    def forget_and_commit(self, is_earlier: bool) -> None:
        """A store that takes its time; what it knew before the commit, it tells after it has begun."""
        written: Deferred[None] = Deferred()
        known: Deferred[dict[Any, Any]] = Deferred()

        def commit(*arguments: Any) -> Deferred[None]:
            return written.addCallback(lambda _: MemoryOffsets.commit(self.store, *arguments))

        self.patch(self.store, "commit", commit)
        self.patch(self.store, "fetch", lambda group: known)
        actions = [
            lambda: self.coordinator.commit_freely("billing", {ORDERS: Committed(3)}),
            lambda: self.coordinator.forget_unused("billing"),
        ]
        results = [action() for action in (actions if is_earlier else reversed(actions))]
        known.callback({})
        written.callback(None)
        for each in results:
            self.successResultOf(each)

    def test_join_while_forgetting(self) -> None:
        """Somebody who comes meanwhile keeps it alive."""
        joined = self.settle()
        self.leave(joined)
        fetched: Deferred[dict[Any, Any]] = Deferred()
        self.patch(self.store, "fetch", lambda group: fetched)
        forgetting = self.coordinator.forget_unused("billing")
        waiting = self.join()
        fetched.callback({})
        self.successResultOf(forgetting)
        self.clock.advance(3)
        self.assertEqual(self.successResultOf(waiting).generation, joined.generation + 2)

    def test_delete_offsets(self) -> None:
        """What members read stays; the rest can go."""
        joined = self.settle(protocols=(("range", SUBSCRIPTION),))
        self.successResultOf(self.commit(joined))
        other = TopicPartition("other", 0)
        answers = self.successResultOf(self.coordinator.delete_offsets("billing", [ORDERS, other]))
        self.assertIsInstance(answers[ORDERS], GroupReadsTopic)
        self.assertIsNone(answers[other])
        self.leave(joined)
        self.assertEqual(
            self.successResultOf(self.coordinator.delete_offsets("billing", [ORDERS])), {ORDERS: None}
        )
        self.assertEqual(self.committed(), {})

    def test_delete_offsets_of_others(self) -> None:
        """Of members that are no consumers it is not known what they need; of nobody, there is nothing."""
        self.settle(protocol_type="connect")
        self.failureResultOf(self.coordinator.delete_offsets("billing", [ORDERS]), GroupNotEmpty)
        self.failureResultOf(self.coordinator.delete_offsets("nobody", [ORDERS]), GroupNotFound)

    def test_limits(self) -> None:
        """Groups have the limits that the coordinator was given."""
        self.restart(limits=GroupLimits(members_max=1, initial_delay_ms=0))
        first = self.join()
        self.failureResultOf(self.join(), GroupFull)
        self.clock.advance(0)
        self.successResultOf(first)
