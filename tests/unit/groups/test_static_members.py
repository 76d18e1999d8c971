"""Tests for L{rustlog.groups.state}: members with a C{group.instance.id}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import (
    CoordinatorNotAvailable,
    FencedInstance,
    RebalanceInProgress,
    StorageFull,
    UnknownMember,
)
from rustlog.groups.reasons import DepartureReason, RebalanceReason
from rustlog.groups.transitions import GroupState
from tests.unit.groups.driver import REBALANCE_MS, SESSION_MS, Driver


class StaticMemberTests(SynchronousTestCase):
    """C{a} and C{b} are static, in a stable group that C{a} leads."""

    def setUp(self) -> None:
        self.driver = Driver()
        tickets = {each: self.driver.join("", each, instance_id=f"instance {each}") for each in "ab"}
        self.driver.pass_time(6)
        self.generation = self.driver.finish(tickets)

    def replace(self, which: str, **more: object) -> int:
        return self.driver.join("", f"new {which}", instance_id=f"instance {which}", **more)

    def test_replacement(self) -> None:
        """A static member that starts again takes its old place, once that is saved, without a rebalance."""
        ticket = self.replace("b")
        self.assertNotIn(ticket, self.driver.answers)
        remembered = self.driver.save()
        self.assertEqual([each.member_id for each in remembered.members], ["a", "new b"])
        answer = self.driver.answers[ticket]
        self.assertEqual((answer.member_id, answer.leader_id), ("new b", "a"))
        self.assertEqual(answer.generation, self.generation)
        self.assertIs(self.driver.group.state, GroupState.STABLE)
        self.assertEqual(self.driver.synced(self.driver.sync("new b", self.generation)), b"b")
        self.assertIs(self.driver.events[-1].reason, DepartureReason.REPLACED)

    def test_old_one_is_fenced(self) -> None:
        """Whoever still uses the old id is told that it was replaced."""
        self.replace("b")
        self.driver.save()
        instance = "instance b"
        self.assertIsInstance(self.driver.heartbeat("b", self.generation, instance), FencedInstance)
        self.assertIsInstance(self.driver.commit("b", self.generation, instance), FencedInstance)
        self.assertIsInstance(self.driver.leave("b", instance), FencedInstance)
        refused = self.driver.join("b", instance_id=instance)
        self.assertIsInstance(self.driver.answers[refused], FencedInstance)
        refused = self.driver.sync("b", self.generation, instance_id=instance)
        self.assertIsInstance(self.driver.answers[refused], FencedInstance)
        self.assertIsInstance(self.driver.heartbeat("b", self.generation), UnknownMember)

    def test_waiting_one_is_fenced(self) -> None:
        """Also if it waits for something."""
        waiting = self.driver.join("b", instance_id="instance b", protocols=(("range", b"other"),))
        self.replace("b")
        self.assertIsInstance(self.driver.answers[waiting], FencedInstance)

    def test_leader_of_old_clients(self) -> None:
        """A leader that comes back is told that the one it was leads: it shall not assign."""
        ticket = self.replace("a")
        self.driver.save()
        answer = self.driver.answers[ticket]
        self.assertEqual((answer.leader_id, answer.members, answer.skip_assignment), ("a", (), False))

    def test_leader_of_new_clients(self) -> None:
        """Or, if it understands that, that it leads and shall not assign."""
        ticket = self.replace("a", may_skip_assignment=True)
        self.driver.save()
        answer = self.driver.answers[ticket]
        self.assertEqual((answer.leader_id, len(answer.members), answer.skip_assignment), ("new a", 2, True))
        again = self.replace("b", may_skip_assignment=True)
        self.driver.save()
        self.assertFalse(self.driver.answers[again].skip_assignment)

    def test_replacement_is_not_saved(self) -> None:
        """If that can not be saved, the old one keeps its place."""
        ticket = self.replace("b")
        self.driver.save(StorageFull())
        self.assertIsInstance(self.driver.answers[ticket], CoordinatorNotAvailable)
        self.assertIsNone(self.driver.heartbeat("b", self.generation, "instance b"))

    def test_rebalance_meanwhile(self) -> None:
        """If a rebalance begins before it is saved, the newcomer is a part of that."""
        ticket = self.replace("b")
        self.driver.leave("a", "instance a")
        self.assertEqual(self.driver.answers[ticket].generation, self.generation + 1)
        self.driver.save()
        self.assertIs(self.driver.group.state, GroupState.COMPLETING_REBALANCE)

    def test_other_protocol(self) -> None:
        """If the members would choose another protocol now, there is a rebalance."""
        driver = Driver()
        both = (("range", b""), ("sticky", b""))
        driver.join("", "a", instance_id="instance a", protocols=both)
        driver.pass_time(3)
        driver.sync("a", 1)
        driver.save()
        driver.join("", "new a", instance_id="instance a", protocols=both[::-1])
        self.assertIs(driver.events[-1].reason, RebalanceReason.PROTOCOL_CHANGED)
        self.assertIs(driver.group.state, GroupState.COMPLETING_REBALANCE)

    def test_before_assignment(self) -> None:
        """While the leader assigns to the old id, a replacement begins a new rebalance."""
        self.driver.join("a", instance_id="instance a")
        self.driver.join("b", instance_id="instance b")
        waiting = self.driver.sync("a", self.generation + 1)
        self.replace("b")
        self.assertIs(self.driver.events[-1].reason, RebalanceReason.STATIC_MEMBER_RETURNED)
        self.assertIsInstance(self.driver.answers[waiting], RebalanceInProgress)

    def test_absence(self) -> None:
        """A static member that does not join again stays a member, until its session ends."""
        ticket = self.driver.join("a", instance_id="instance a", rebalance_timeout_ms=5_000)
        self.driver.group.members["b"].rebalance_timeout_ms = 5_000
        self.driver.pass_time(SESSION_MS / 1000)
        self.assertIn(ticket, self.driver.answers)

    def test_stays_through_rebalance(self) -> None:
        """When time is up, the others go on, and it keeps what the leader gives it."""
        driver = Driver()
        for each in "ab":
            driver.join("", each, instance_id=f"instance {each}", rebalance_timeout_ms=6_000)
        driver.pass_time(6)
        driver.sync("a", 1)
        driver.save()
        driver.sync("b", 1)
        ticket = driver.join("a", instance_id="instance a", rebalance_timeout_ms=6_000)
        driver.pass_time(6)
        self.assertEqual([each.member_id for each in driver.answers[ticket].members], ["a", "b"])

    def test_nobody_is_here(self) -> None:
        """If all are static and none has joined again, their sessions decide."""
        ticket = self.driver.join("a", instance_id="instance a")
        self.driver.hang_up(ticket)
        self.driver.group.members["b"].session_timeout_ms = 10 * REBALANCE_MS
        self.driver.heartbeat("b", self.generation, "instance b")
        self.driver.pass_time(REBALANCE_MS / 1000)
        self.assertEqual([each.member_id for each in self.driver.group.members], ["b"])
        self.assertIs(self.driver.group.state, GroupState.PREPARING_REBALANCE)
        self.driver.pass_time(10 * REBALANCE_MS / 1000)
        self.assertIs(self.driver.group.state, GroupState.EMPTY)

    def test_removed_by_instance_id(self) -> None:
        """An administrator may send a member away whose id he does not know."""
        self.assertIsNone(self.driver.leave("", "instance b"))
        self.assertIsInstance(self.driver.leave("", "instance b"), UnknownMember)
        self.assertNotIn("b", self.driver.group.members)

    def test_unknown_instance(self) -> None:
        """An instance id that the group does not know is not one of its members."""
        self.assertIsInstance(self.driver.heartbeat("a", self.generation, "x"), UnknownMember)
