"""Tests for L{rustlog.groups.state}: what members do, and how they go."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import (
    CoordinatorNotAvailable,
    GroupFull,
    GroupNotEmpty,
    InconsistentProtocol,
    NotCoordinator,
    RebalanceInProgress,
    StaleGeneration,
    StorageFull,
    UnknownMember,
)
from rustlog.groups.reasons import DepartureReason, MemberDeparted, RebalanceReason
from rustlog.groups.state import Group
from rustlog.groups.transitions import GroupState
from rustlog.groups.values import GroupLimits, GroupMembership, MemberDescription
from tests.unit.groups.driver import LIMITS, REBALANCE_MS, SESSION_MS, Driver


class SyncTests(SynchronousTestCase):
    """The leader assigns."""

    def setUp(self) -> None:
        self.driver = Driver()
        self.driver.join("", "a")
        self.driver.join("", "b")
        self.driver.pass_time(6)

    def test_assignment(self) -> None:
        """Members wait for the leader, and it for the store; then each hears what it owns."""
        second = self.driver.sync("b", 1)
        first = self.driver.sync("a", 1, assignments=(("a", b"0, 1"), ("b", b"2"), ("x", b"3")))
        self.assertNotIn(second, self.driver.answers)
        self.assertIs(self.driver.group.state, GroupState.COMPLETING_REBALANCE)
        remembered = self.driver.save()
        self.assertEqual((self.driver.synced(first), self.driver.synced(second)), (b"0, 1", b"2"))
        self.assertIs(self.driver.group.state, GroupState.STABLE)
        saved = {each.member_id: each.assignment for each in remembered.members}
        self.assertEqual(saved, {"a": b"0, 1", "b": b"2"})

    def test_late(self) -> None:
        """Who asks when all is done is told at once; and again, if it asks again."""
        self.driver.sync("a", 1, assignments=(("b", b"2"),))
        self.driver.save()
        for _ in range(2):
            self.assertEqual(self.driver.synced(self.driver.sync("b", 1)), b"2")

    def test_forgotten_member(self) -> None:
        """Who is not mentioned by the leader owns nothing."""
        first = self.driver.sync("a", 1, assignments=(("b", b"2"),))
        self.driver.save()
        self.assertEqual(self.driver.synced(first), b"")

    def test_leader_repeats_itself(self) -> None:
        """What the leader says first counts; that it says it twice does no harm."""
        first = self.driver.sync("a", 1, assignments=(("a", b"1"),))
        again = self.driver.sync("a", 1, assignments=(("a", b"2"),))
        self.assertEqual(len(self.driver.saves), 1)
        self.driver.save()
        self.assertIsInstance(self.driver.answers[first], RebalanceInProgress)
        self.assertEqual(self.driver.synced(again), b"1")

    def test_rebalance_meanwhile(self) -> None:
        """If somebody joins before the assignment is saved, nobody is told of it."""
        first = self.driver.sync("a", 1, assignments=(("a", b"1"),))
        self.driver.join("", "c")
        self.driver.save()
        self.assertIsInstance(self.driver.answers[first], RebalanceInProgress)
        self.assertIs(self.driver.group.state, GroupState.PREPARING_REBALANCE)
        self.assertIsInstance(self.driver.answers[self.driver.sync("b", 1)], RebalanceInProgress)

    def test_not_saved(self) -> None:
        """An assignment that can not be saved is none: members are told to try again, and join again."""
        first = self.driver.sync("a", 1, assignments=(("a", b"1"),))
        second = self.driver.sync("b", 1)
        self.driver.save(StorageFull())
        for each in (first, second):
            self.assertIsInstance(self.driver.answers[each], CoordinatorNotAvailable)
        self.assertIs(self.driver.events[-1].reason, RebalanceReason.SAVE_FAILED)
        again = self.driver.join("a")
        self.driver.join("b")
        self.assertEqual(self.driver.answers[again].generation, 2)

    def test_refusals(self) -> None:
        """Strangers, other generations and other protocols are refused."""
        refused = [
            (self.driver.sync("x", 1), UnknownMember),
            (self.driver.sync("a", 0), StaleGeneration),
            (self.driver.sync("a", 2), StaleGeneration),
            (self.driver.sync("a", 1, protocol_type="connect"), InconsistentProtocol),
            (self.driver.sync("a", 1, protocol_name="sticky"), InconsistentProtocol),
        ]
        for ticket, error in refused:
            self.assertIsInstance(self.driver.answers[ticket], error)
        self.driver.sync("a", 1, protocol_type="consumer", protocol_name="range")
        self.assertEqual(len(self.driver.saves), 1)

    def test_too_large(self) -> None:
        """An assignment that exceeds what can be saved is refused."""
        driver = Driver(GroupLimits(bytes_max=20_000))
        driver.join("", "a")
        driver.pass_time(3)
        ticket = driver.sync("a", 1, assignments=(("a", bytes(20_000)),))
        self.assertIsInstance(driver.answers[ticket], GroupFull)
        self.assertEqual(driver.saves, [])

    def test_large_again(self) -> None:
        """What is replaced does not count."""
        driver = Driver(GroupLimits(bytes_max=20_000))
        driver.join("", "a")
        driver.pass_time(3)
        for generation in (1, 2):
            ticket = driver.sync("a", generation, assignments=(("a", bytes(15_000)),))
            driver.save()
            self.assertEqual(len(driver.synced(ticket)), 15_000)
            driver.join("a")

    def test_not_all_sync(self) -> None:
        """Who does not ask for its assignment within the rebalance timeout is out; the rest rebalances."""
        first = self.driver.sync("a", 1)
        self.driver.save()
        for _ in range(REBALANCE_MS // 5_000):
            self.driver.heartbeat("a", 1)
            self.driver.heartbeat("b", 1)
            self.driver.pass_time(5)
        self.assertIn(first, self.driver.answers)
        departed = next(each for each in self.driver.events if isinstance(each, MemberDeparted))
        self.assertEqual((departed.member_id, departed.reason), ("b", DepartureReason.NOT_SYNCED))
        self.assertIs(self.driver.events[-1].reason, RebalanceReason.SYNC_MISSING)
        self.assertIs(self.driver.group.state, GroupState.PREPARING_REBALANCE)

    def test_all_sync(self) -> None:
        """Otherwise nothing happens at that time."""
        self.driver.sync("b", 1)
        self.driver.sync("a", 1)
        self.driver.save()
        for _ in range(2 * REBALANCE_MS // 5_000):
            self.driver.heartbeat("a", 1)
            self.driver.heartbeat("b", 1)
            self.driver.pass_time(5)
        self.assertIs(self.driver.group.state, GroupState.STABLE)


class HeartbeatTests(SynchronousTestCase):
    """Members say that they live."""

    def setUp(self) -> None:
        self.driver = Driver()
        self.generation = self.driver.settle("a", "b")

    def test_stable(self) -> None:
        """All is well."""
        self.assertIsNone(self.driver.heartbeat("a", self.generation))

    def test_refusals(self) -> None:
        """Strangers and other generations are refused; nobody is there in an empty group."""
        self.assertIsInstance(self.driver.heartbeat("x", self.generation), UnknownMember)
        self.assertIsInstance(self.driver.heartbeat("a", self.generation - 1), StaleGeneration)
        self.assertIsInstance(Driver().heartbeat("a", 0), UnknownMember)

    def test_rebalance(self) -> None:
        """It is how members learn that they have to join again."""
        self.driver.join("", "c")
        self.assertIsInstance(self.driver.heartbeat("a", self.generation), RebalanceInProgress)

    def test_before_assignment(self) -> None:
        """Who has joined and waits for the leader is fine."""
        self.driver.join("a")
        self.driver.join("b")
        self.assertIsNone(self.driver.heartbeat("b", self.generation + 1))

    def test_session(self) -> None:
        """Heartbeats and commits keep a session alive; without them, it ends."""
        for _ in range(3):
            self.driver.pass_time(0.9 * SESSION_MS / 1000)
            self.driver.heartbeat("a", self.generation)
            self.driver.commit("b", self.generation)
        self.driver.pass_time(0.9 * SESSION_MS / 1000)
        self.driver.heartbeat("a", self.generation)
        self.driver.pass_time(0.2 * SESSION_MS / 1000)
        self.assertEqual([each.member_id for each in self.driver.group.members], ["a"])
        departed, began = self.driver.events[-2:]
        self.assertEqual((departed.member_id, departed.reason), ("b", DepartureReason.SESSION_EXPIRED))
        self.assertIn("10000 ms", str(departed))
        self.assertIs(began.reason, RebalanceReason.MEMBER_LEFT)

    def test_who_waits_lives(self) -> None:
        """A member that has joined again, or waits for the leader, need not send heartbeats."""
        self.driver.join("", "c")
        ticket = self.driver.join("b")
        for _ in range(4):
            self.driver.pass_time(0.9 * SESSION_MS / 1000)
            self.driver.heartbeat("a", self.generation)
        self.assertNotIn(ticket, self.driver.answers)
        self.assertIn("b", self.driver.group.members)


class CommitTests(SynchronousTestCase):
    """Who may commit."""

    def setUp(self) -> None:
        self.driver = Driver()

    def test_no_members(self) -> None:
        """Anybody, as long as there are no members."""
        self.assertIsNone(self.driver.commit())
        self.driver.settle("a")
        self.driver.leave("a")
        self.assertIsNone(self.driver.commit())

    def test_members(self) -> None:
        """Members of this generation, and nobody else, once there are some."""
        generation = self.driver.settle("a")
        self.assertIsNone(self.driver.commit("a", generation))
        self.assertIsInstance(self.driver.commit("a", generation - 1), StaleGeneration)
        self.assertIsInstance(self.driver.commit("a", generation + 1), StaleGeneration)
        self.assertIsInstance(self.driver.commit("x", generation), UnknownMember)
        self.assertIsInstance(self.driver.commit(), UnknownMember)
        self.assertIsInstance(self.driver.commit("a"), StaleGeneration)

    def test_generation_of_nothing(self) -> None:
        """A generation of a group that never had one is an old one."""
        self.assertIsInstance(self.driver.commit("a", 1), StaleGeneration)

    def test_rebalance(self) -> None:
        """Members may commit when a rebalance begins, but not before they know what is theirs."""
        generation = self.driver.settle("a")
        self.driver.join("", "b")
        self.assertIsNone(self.driver.commit("a", generation))
        self.driver.join("a")
        self.assertIsInstance(self.driver.commit("a", generation), StaleGeneration)
        self.assertIsInstance(self.driver.commit("a", generation + 1), RebalanceInProgress)


class LeavingTests(SynchronousTestCase):
    """Members that go."""

    def setUp(self) -> None:
        self.driver = Driver()
        self.generation = self.driver.settle("a", "b")

    def test_leave(self) -> None:
        """The others rebalance at once."""
        self.assertIsNone(self.driver.leave("a"))
        self.assertIs(self.driver.group.state, GroupState.PREPARING_REBALANCE)
        ticket = self.driver.join("b")
        self.assertEqual(self.driver.answers[ticket].leader_id, "b")

    def test_last_one(self) -> None:
        """When nobody is left, the group is empty; that is saved."""
        self.driver.leave("a")
        self.driver.leave("b")
        self.assertIs(self.driver.group.state, GroupState.EMPTY)
        remembered = self.driver.save()
        self.assertEqual((remembered.members, remembered.generation), ((), self.generation + 1))
        self.assertTrue(self.driver.group.is_idle)
        self.assertIn("nobody is left", str(self.driver.events[-1]))

    def test_never_saved(self) -> None:
        """Of a group that never was stable, nothing need be saved."""
        driver = Driver()
        driver.join("", "a")
        driver.pass_time(3)
        driver.leave("a")
        self.assertEqual(driver.saves, [])
        self.assertTrue(driver.group.is_idle)

    def test_strangers(self) -> None:
        """Who is not there can not leave."""
        self.assertIsInstance(self.driver.leave("x"), UnknownMember)
        self.assertIsInstance(self.driver.leave(), UnknownMember)

    def test_while_waiting(self) -> None:
        """Whoever waits on its behalf is told."""
        first = self.driver.join("a")
        self.driver.leave("a")
        self.assertIsInstance(self.driver.answers[first], UnknownMember)

    def test_while_syncing(self) -> None:
        """Also if it was the assignment for which it waited."""
        self.driver.join("a")
        self.driver.join("b")
        waiting = self.driver.sync("b", self.generation + 1)
        self.driver.leave("b")
        self.assertIsInstance(self.driver.answers[waiting], UnknownMember)

    def test_rebalance_is_complete(self) -> None:
        """If it was the only one that others waited for, they go on."""
        ticket = self.driver.join("a")
        self.driver.leave("b")
        self.assertEqual(self.driver.answers[ticket].generation, self.generation + 1)


class EndTests(SynchronousTestCase):
    """Deleting, leaving to others, and looking."""

    def test_delete(self) -> None:
        """A group without members can be deleted; then it answers no more."""
        driver = Driver()
        driver.group.delete()
        self.assertIs(driver.group.state, GroupState.DEAD)
        self.assertIsInstance(driver.answers[driver.join("", "a")], CoordinatorNotAvailable)
        self.assertIsInstance(driver.commit(), CoordinatorNotAvailable)
        self.assertIsInstance(driver.heartbeat("a", 1), CoordinatorNotAvailable)
        self.assertIsInstance(driver.leave("a"), CoordinatorNotAvailable)
        self.assertRaises(CoordinatorNotAvailable, driver.group.delete)

    def test_delete_with_members(self) -> None:
        """One with members can not."""
        driver = Driver()
        driver.settle("a")
        self.assertRaises(GroupNotEmpty, driver.group.delete)

    def test_abandon(self) -> None:
        """When somebody else is responsible, all who wait are told so."""
        driver = Driver()
        ticket = driver.join("", "a")
        driver.group.abandon(NotCoordinator("orders"))
        driver._take()
        self.assertIsInstance(driver.answers[ticket], NotCoordinator)

    def test_describe(self) -> None:
        """What members say and own is shown when the group is stable."""
        driver = Driver()
        driver.settle("a", client_id="shop", client_host="/127.0.0.1")
        self.assertEqual(
            driver.group.describe(),
            GroupMembership(
                "orders",
                GroupState.STABLE,
                "consumer",
                "range",
                (MemberDescription("a", None, "shop", "/127.0.0.1", b"topics", b"a"),),
            ),
        )
        driver.join("", "b")
        description = driver.group.describe()
        self.assertEqual((description.state, description.protocol_name), (GroupState.PREPARING_REBALANCE, ""))
        self.assertEqual(description.members[0], MemberDescription("a", None, "shop", "/127.0.0.1"))

    def test_topics(self) -> None:
        """Which topics consumers read is known, unless they speak in riddles; then it may be any."""
        subscription = b"\x00\x03\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"
        driver = Driver()
        driver.settle("a", protocols=(("range", subscription),))
        self.assertEqual([driver.group.reads(each) for each in ("orders", "other")], [True, False])
        driver = Driver()
        driver.settle("a", protocols=(("range", b"?"),))
        self.assertTrue(driver.group.reads("other"))
        self.assertTrue(driver.group.has_consumers)

    def test_recall(self) -> None:
        """After a restart, members find their group as it was; those who do not come back expire."""
        driver = Driver()
        generation = driver.settle("a", "b")
        remembered = driver.group._remember({"a": b"1", "b": b"2"})
        driver = Driver(group=Group.recalled("orders", LIMITS, remembered, 0))
        self.assertIsNone(driver.heartbeat("a", generation))
        self.assertIsNone(driver.commit("b", generation))
        self.assertEqual(driver.synced(driver.sync("b", generation)), b"2")
        driver.pass_time(SESSION_MS / 2000)
        driver.heartbeat("a", generation)
        driver.pass_time(SESSION_MS / 2000)
        self.assertEqual([each.member_id for each in driver.group.members], ["a"])
        self.assertIs(driver.group.state, GroupState.PREPARING_REBALANCE)
