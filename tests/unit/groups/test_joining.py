"""Tests for L{rustlog.groups.state}: how clients become members."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import (
    GroupFull,
    InconsistentProtocol,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from rustlog.groups.reasons import (
    DepartureReason,
    GenerationBegan,
    MemberDeparted,
    RebalanceBegan,
    RebalanceReason,
)
from rustlog.groups.state import Group
from rustlog.groups.transitions import GroupState
from rustlog.groups.values import GroupLimits, Joined, JoinedMember
from tests.unit.groups.driver import REBALANCE_MS, SESSION_MS, Driver

BOTH = (("range", b"a"), ("roundrobin", b"b"))


class FirstMembersTests(SynchronousTestCase):
    """The first rebalance of a group."""

    def setUp(self) -> None:
        self.driver = Driver()

    def test_nobody(self) -> None:
        """A group that nobody has heard of is empty, and can be forgotten."""
        group = self.driver.group
        self.assertEqual((group.state, group.generation), (GroupState.EMPTY, 0))
        self.assertTrue(group.is_idle)

    def test_one_member(self) -> None:
        """The first member waits for others; then it is alone, and leads."""
        ticket = self.driver.join("", "a")
        self.assertIs(self.driver.group.state, GroupState.PREPARING_REBALANCE)
        self.driver.pass_time(2.9)
        self.assertEqual(self.driver.answers, {})
        self.driver.pass_time(0.1)
        expected = Joined(
            member_id="a",
            generation=1,
            protocol_type="consumer",
            protocol_name="range",
            leader_id="a",
            members=(JoinedMember("a", None, b"topics"),),
        )
        self.assertEqual(self.driver.answers, {ticket: expected})
        self.assertIs(self.driver.group.state, GroupState.COMPLETING_REBALANCE)

    def test_more_members_prolong_the_wait(self) -> None:
        """Each round of the wait that brings somebody new is followed by another."""
        first = self.driver.join("", "a")
        self.driver.pass_time(2)
        second = self.driver.join("", "b")
        self.driver.pass_time(2)
        self.assertEqual(self.driver.answers, {})
        self.driver.pass_time(2)
        self.assertEqual(self.driver.answers[first].generation, 1)
        self.assertEqual(self.driver.answers[second].members, (), "only the leader has to know the others")
        self.assertEqual({each.member_id for each in self.driver.answers[first].members}, {"a", "b"})

    def test_the_wait_has_an_end(self) -> None:
        """However many come, the rebalance timeout is the longest that the first one waits."""
        first = self.driver.join("", "a", rebalance_timeout_ms=7_000)
        for number in range(7):
            self.driver.pass_time(0.99)
            self.driver.join("", f"late {number}")
        self.assertNotIn(first, self.driver.answers)
        self.driver.pass_time(0.1)
        self.assertEqual(len(self.driver.answers[first].members), 8)

    def test_no_delay(self) -> None:
        """With a delay of 0, a member is served as soon as the clock ticks."""
        driver = Driver(GroupLimits(initial_delay_ms=0))
        ticket = driver.join("", "a")
        driver.pass_time(0)
        self.assertEqual(driver.answers[ticket].generation, 1)

    def test_join_again_while_waiting(self) -> None:
        """A client that repeats its wish, perhaps elsewhere, is one member; the old wish ends."""
        first = self.driver.join("", "a")
        again = self.driver.join("a")
        self.driver.pass_time(3)
        self.assertIsInstance(self.driver.answers[first], RebalanceInProgress)
        self.assertEqual(len(self.driver.answers[again].members), 1)

    def test_reasons_are_told(self) -> None:
        """Why the rebalance began, and how it ended."""
        self.driver.settle("a", reason="I start")
        began, ended = self.driver.events
        self.assertEqual(
            began,
            RebalanceBegan(
                group="orders",
                generation=0,
                reason=RebalanceReason.MEMBER_JOINED,
                member_id="a",
                words="I start",
            ),
        )
        self.assertEqual(
            ended,
            GenerationBegan(group="orders", generation=1, members=1, protocol_name="range", leader_id="a"),
        )


class RequiredIdTests(SynchronousTestCase):
    """Modern clients get an id first, and join with it."""

    def setUp(self) -> None:
        self.driver = Driver()

    def ask_for_id(self, new: str) -> None:
        error = self.driver.answers[self.driver.join("", new, requires_known_id=True)]
        assert isinstance(error, MemberIdRequired)
        self.assertEqual(error.member_id, new)

    def test_id_is_given(self) -> None:
        """Nothing happens to the group until the client joins with its id."""
        self.ask_for_id("a")
        self.assertIs(self.driver.group.state, GroupState.EMPTY)
        self.assertFalse(self.driver.group.is_idle)
        ticket = self.driver.join("a", requires_known_id=True)
        self.driver.pass_time(3)
        self.assertEqual(self.driver.answers[ticket].member_id, "a")
        self.assertEqual(self.driver.group.pending, {})

    def test_id_expires(self) -> None:
        """Who does not come back within its session timeout is forgotten."""
        self.ask_for_id("a")
        self.driver.pass_time(SESSION_MS / 1000)
        self.assertTrue(self.driver.group.is_idle)
        (event,) = self.driver.events
        departed = MemberDeparted(group="orders", member_id="a", reason=DepartureReason.NEVER_JOINED)
        self.assertEqual(event, departed)
        self.assertIsInstance(self.driver.answers[self.driver.join("a")], UnknownMember)

    def test_rebalance_waits_for_pending_members(self) -> None:
        """Somebody who is about to join is waited for, as long as its id is good."""
        self.driver.settle("a")
        self.driver.pass_time(1)
        self.ask_for_id("b")
        ticket = self.driver.join("a")
        self.assertNotIn(ticket, self.driver.answers)
        self.driver.join("b")
        self.assertEqual(len(self.driver.answers[ticket].members), 2)

    def test_rebalance_goes_on_without_pending_members(self) -> None:
        """When the id is not good any more, or given back, nobody waits for it."""
        for give_up in (lambda: self.driver.pass_time(SESSION_MS / 1000), lambda: self.driver.leave("b")):
            self.driver = Driver()
            self.driver.settle("a")
            self.ask_for_id("b")
            ticket = self.driver.join("a")
            give_up()
            self.assertEqual(len(self.driver.answers[ticket].members), 1)

    def test_static_members_need_no_id(self) -> None:
        """They are known by their instance id."""
        ticket = self.driver.join("", "a", requires_known_id=True, instance_id="one")
        self.driver.pass_time(3)
        self.assertEqual(self.driver.answers[ticket].member_id, "a")


class RejoiningTests(SynchronousTestCase):
    """Members that join again."""

    def setUp(self) -> None:
        self.driver = Driver()
        self.generation = self.driver.settle("a", "b")

    def test_newcomer(self) -> None:
        """A new member makes all others join again; the generation is the next one."""
        new = self.driver.join("", "c")
        self.assertIsInstance(self.driver.heartbeat("a", self.generation), RebalanceInProgress)
        first = self.driver.join("a")
        self.assertNotIn(first, self.driver.answers)
        self.driver.join("b")
        self.assertEqual(self.driver.answers[new].generation, self.generation + 1)
        self.assertEqual({each.member_id for each in self.driver.answers[first].members}, {"a", "b", "c"})

    def test_leader(self) -> None:
        """When the leader of a stable group joins again, that is a rebalance: it has its reasons."""
        self.driver.join("a")
        self.assertIs(self.driver.group.state, GroupState.PREPARING_REBALANCE)
        self.assertIs(self.driver.events[-1].reason, RebalanceReason.LEADER_REJOINED)

    def test_follower(self) -> None:
        """When another member does, and has nothing new to say, it is told what it knows already."""
        ticket = self.driver.join("b")
        answer = self.driver.answers[ticket]
        self.assertEqual((answer.generation, answer.leader_id, answer.members), (self.generation, "a", ()))
        self.assertIs(self.driver.group.state, GroupState.STABLE)

    def test_changed_follower(self) -> None:
        """If it reads other topics now, that is a rebalance."""
        self.driver.join("b", protocols=(("range", b"other topics"),))
        self.assertIs(self.driver.group.state, GroupState.PREPARING_REBALANCE)
        self.assertIs(self.driver.events[-1].reason, RebalanceReason.MEMBER_CHANGED)

    def test_lost_answer(self) -> None:
        """Who did not hear the answer to its JoinGroup may ask again, and gets the same one."""
        first = self.driver.join("a")
        self.driver.join("b")
        again = self.driver.join("a")
        self.assertEqual(self.driver.answers[again], self.driver.answers[first])

    def test_changed_before_assignment(self) -> None:
        """If it has something else to say before the leader has assigned, the rebalance begins anew."""
        self.driver.join("a")
        self.driver.join("b")
        waiting = self.driver.sync("a", self.generation + 1)
        self.driver.join("b", protocols=(("range", b"other topics"),))
        self.assertIs(self.driver.group.state, GroupState.PREPARING_REBALANCE)
        self.assertIsInstance(self.driver.answers[waiting], RebalanceInProgress)

    def test_unknown_member(self) -> None:
        """An id that the group does not have is no good, be there members or not."""
        self.assertIsInstance(self.driver.answers[self.driver.join("x")], UnknownMember)
        driver = Driver()
        self.assertIsInstance(driver.answers[driver.join("x")], UnknownMember)
        self.assertTrue(driver.group.is_idle)

    def test_not_all_join_again(self) -> None:
        """After the rebalance timeout the group goes on without those who did not."""
        ticket = self.driver.join("a")
        for _ in range(REBALANCE_MS // 5_000):
            self.driver.heartbeat("b", self.generation)
            self.driver.pass_time(5)
        self.assertEqual([each.member_id for each in self.driver.answers[ticket].members], ["a"])
        departed = next(each for each in self.driver.events if isinstance(each, MemberDeparted))
        self.assertEqual((departed.member_id, departed.reason), ("b", DepartureReason.NOT_REJOINED))
        self.assertIsInstance(self.driver.heartbeat("b", self.generation), UnknownMember)

    def test_new_leader(self) -> None:
        """If the leader is not among those who joined, another member leads."""
        ticket = self.driver.join("b", protocols=(("range", b"other topics"),))
        self.driver.pass_time(SESSION_MS / 1000)
        answer = self.driver.answers[ticket]
        self.assertEqual((answer.leader_id, len(answer.members)), ("b", 1))


class ProtocolTests(SynchronousTestCase):
    """Members must be able to talk to each other."""

    def setUp(self) -> None:
        self.driver = Driver()

    def refuses(self, **more: object) -> None:
        self.assertIsInstance(self.driver.answers[self.driver.join("", "x", **more)], InconsistentProtocol)

    def test_nothing_offered(self) -> None:
        """A client without protocol type or protocols is refused, even by an empty group."""
        self.refuses(protocol_type="")
        self.refuses(protocols=())
        self.assertTrue(self.driver.group.is_idle)

    def test_other_type(self) -> None:
        """Consumers and workers of Connect do not mix."""
        self.driver.settle("a")
        self.refuses(protocol_type="connect")

    def test_nothing_in_common(self) -> None:
        """A client that knows none of the protocols that all others know is refused."""
        self.driver.settle("a", protocols=BOTH)
        self.driver.join("", "b", protocols=(("roundrobin", b""),))
        self.refuses(protocols=(("range", b""),))

    def test_votes(self) -> None:
        """Of the protocols that all know, the one that most like best is taken."""
        reverse = BOTH[::-1]
        only_others = (("sticky", b""), *reverse)
        tickets = [self.driver.join("", name, protocols=each) for name, each in
                   (("a", BOTH), ("b", only_others), ("c", reverse))]  # fmt: skip
        self.driver.pass_time(6)
        self.assertEqual({self.driver.answers[each].protocol_name for each in tickets}, {"roundrobin"})
        self.assertEqual([each.metadata for each in self.driver.answers[tickets[0]].members], [b"b"] * 3)

    def test_empty_group_takes_any(self) -> None:
        """Once all have left, others may use the group in their own way."""
        self.driver.settle("a")
        self.driver.leave("a")
        ticket = self.driver.join("", "x", protocol_type="connect", protocols=(("default", b""),))
        self.driver.pass_time(3)
        self.assertEqual(self.driver.answers[ticket].protocol_type, "connect")


class LimitTests(SynchronousTestCase):
    """No group grows without bounds."""

    def test_session_timeout(self) -> None:
        """It must be within the limits."""
        driver = Driver()
        for milliseconds in (5_999, 1_800_001, -1):
            error = driver.answers[driver.join("", "a", session_timeout_ms=milliseconds)]
            self.assertIsInstance(error, InvalidSessionTimeout)

    def test_members(self) -> None:
        """A full group takes nobody else; its members may join again."""
        driver = Driver(GroupLimits(members_max=2))
        driver.settle("a", "b")
        self.assertIsInstance(driver.answers[driver.join("", "c")], GroupFull)
        ticket = driver.join("a")
        driver.join("b")
        self.assertEqual(len(driver.answers[ticket].members), 2)

    def test_who_joins_last_is_too_many(self) -> None:
        """In a rebalance, places are given in the order of joining."""
        driver = Driver(GroupLimits(members_max=2))
        driver.settle("a", "b")
        driver.join("a")
        driver.join("", "c")
        self.assertIsInstance(driver.answers[driver.join("b")], GroupFull)
        self.assertEqual({each.member_id for each in driver.group.members}, {"a", "c"})
        self.assertIs(driver.group.state, GroupState.COMPLETING_REBALANCE)

    def test_pending_members(self) -> None:
        """Not more ids are given out than there may be members."""
        driver = Driver(GroupLimits(members_max=2))
        answers = [driver.answers[driver.join("", name, requires_known_id=True)] for name in "abc"]
        self.assertEqual([type(each) for each in answers], [MemberIdRequired, MemberIdRequired, GroupFull])

    def test_bytes(self) -> None:
        """What members have to say is limited, too; to say it again costs nothing."""
        driver = Driver(GroupLimits(bytes_max=20_000))
        driver.settle("a", protocols=(("range", bytes(10_000)),))
        refused = driver.join("", "b", protocols=(("range", bytes(10_000)),))
        self.assertIsInstance(driver.answers[refused], GroupFull)
        again = driver.join("a", protocols=(("range", bytes(10_000)),))
        self.assertEqual(driver.answers[again].generation, 2)

    def test_limit_was_lowered(self) -> None:
        """A group that is loaded with too many members has them join again."""
        driver = Driver()
        driver.settle("a", "b", "c")
        remembered = driver.group._remember(dict.fromkeys("abc", b""))
        group = Group.recalled("orders", GroupLimits(members_max=2), remembered, 0)
        self.assertIs(group.state, GroupState.PREPARING_REBALANCE)


class ConnectionTests(SynchronousTestCase):
    """Clients that are gone while they wait."""

    def setUp(self) -> None:
        self.driver = Driver()

    def test_new_member(self) -> None:
        """One that has never been a member is forgotten at once: it owns nothing."""
        first = self.driver.join("", "a")
        second = self.driver.join("", "b")
        self.driver.hang_up(first)
        self.driver.pass_time(6)
        self.assertEqual([each.member_id for each in self.driver.answers[second].members], ["b"])
        (departed,) = (each for each in self.driver.events if isinstance(each, MemberDeparted))
        self.assertEqual((departed.member_id, departed.reason), ("a", DepartureReason.CONNECTION_LOST))

    def test_old_member(self) -> None:
        """One that has been has its session timeout to come back; the others wait for it."""
        self.driver.settle("a", "b")
        first, second = self.driver.join("a"), self.driver.join("", "c")
        self.driver.hang_up(first)
        self.driver.join("b")
        self.assertNotIn(second, self.driver.answers)
        self.driver.join("a")
        self.assertEqual(self.driver.answers[second].generation, 2)

    def test_old_member_does_not_return(self) -> None:
        """After that, they do not."""
        self.driver.settle("a", "b")
        first, second = self.driver.join("a"), self.driver.join("b")
        self.assertIn(second, self.driver.answers)
        first, second = self.driver.join("a", protocols=(("range", b"x"),)), None
        self.driver.hang_up(first)
        second = self.driver.join("b")
        self.driver.pass_time(SESSION_MS / 1000)
        self.assertEqual([each.member_id for each in self.driver.answers[second].members], ["b"])

    def test_after_the_answer(self) -> None:
        """A connection that is lost later means nothing here."""
        ticket = self.driver.join("", "a")
        self.driver.pass_time(3)
        self.driver.hang_up(ticket)
        self.assertIn("a", self.driver.group.members)

    def test_sync(self) -> None:
        """A member that is gone while it waits for its assignment may ask again."""
        tickets = {each: self.driver.join("", each) for each in "ab"}
        self.driver.pass_time(6)
        waiting = self.driver.sync("b", 1)
        self.driver.hang_up(waiting)
        self.driver.sync("a", 1, assignments=(("b", b"all"),))
        self.driver.save()
        self.assertEqual(self.driver.synced(self.driver.sync("b", 1)), b"all")
        self.assertEqual(len(tickets), 2)

    def test_new_member_waits_too_long(self) -> None:
        """A new member is not kept waiting for ever, be its connection alive or not."""
        self.driver.settle("a", rebalance_timeout_ms=3_600_000, session_timeout_ms=1_800_000)
        ticket = self.driver.join("", "b", rebalance_timeout_ms=3_600_000)
        self.driver.pass_time(299)
        self.assertNotIn(ticket, self.driver.answers)
        self.driver.pass_time(1)
        self.assertIsInstance(self.driver.answers[ticket], UnknownMember)
