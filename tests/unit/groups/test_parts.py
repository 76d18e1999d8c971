"""Tests for the smaller parts of L{rustlog.groups}: transitions, documents, words, subscriptions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.groups import documents
from rustlog.groups.reasons import (
    DepartureReason,
    GenerationBegan,
    MemberDeparted,
    RebalanceBegan,
    RebalanceReason,
    reason_name,
)
from rustlog.groups.subscriptions import topics_of
from rustlog.groups.transitions import BEGINNINGS, TRANSITIONS, GroupState, diagram
from rustlog.groups.values import Remembered, RememberedMember
from rustlog.observability.groups import GroupCounters
from rustlog.observability.metrics import Metrics
from tests.unit.test_docs import page

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
MEMBERS = st.builds(
    RememberedMember,
    member_id=TEXT,
    instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    session_timeout_ms=st.integers(0, 2**31),
    rebalance_timeout_ms=st.integers(0, 2**31),
    protocols=st.lists(st.tuples(TEXT, st.binary(max_size=5)), max_size=2).map(tuple),
    assignment=st.binary(max_size=5),
)
GROUPS = st.builds(
    Remembered,
    generation=st.integers(0, 2**31),
    protocol_type=TEXT,
    protocol_name=TEXT,
    leader_id=TEXT,
    members=st.lists(MEMBERS, max_size=3).map(tuple),
)


class TransitionTests(SynchronousTestCase):
    """The table."""

    def test_documentation(self) -> None:
        """The diagram in the documentation is the one of the table."""
        self.assertIn(f"```mermaid\n{diagram()}```", page("docs/explanation/groups.md"))

    def test_every_state_is_reached(self) -> None:
        """No state is there for nothing."""
        self.assertEqual({*BEGINNINGS, *TRANSITIONS.values()}, set(GroupState))


class DocumentTests(SynchronousTestCase):
    """What is saved."""

    @given(GROUPS)
    def test_round_trip(self, remembered: Remembered) -> None:
        """What is read is what was written."""
        self.assertEqual(documents.decode("billing", documents.encode(remembered)), remembered)


class WordsTests(SynchronousTestCase):
    """What is told."""

    def test_sentences(self) -> None:
        """Each event is one line that says why."""
        began = RebalanceBegan(
            group="g",
            generation=3,
            reason=RebalanceReason.MEMBER_CHANGED,
            member_id="m",
            words="more\ntopics",
        )
        self.assertEqual(
            str(began),
            "group 'g': generation 3 ends with a rebalance: a member changed its subscription "
            "('m', it says: 'more\\ntopics')",
        )
        gone = MemberDeparted(
            group="g",
            member_id="m",
            reason=DepartureReason.SESSION_EXPIRED,
            client_host="/::1",
            detail="9 ms",
            words="bye",
        )
        self.assertEqual(
            str(gone),
            "group 'g': member 'm' at /::1 is gone: nothing was heard of it within its session timeout "
            "(9 ms); it says: 'bye'",
        )
        stable = GenerationBegan(group="g", generation=4, members=2, protocol_name="range", leader_id="m")
        self.assertEqual(
            str(stable), "group 'g': generation 4 is stable with 2 members, assigned by 'm' ('range')"
        )
        self.assertEqual([reason_name(each) for each in (began, gone, stable)],
                         ["member_changed", "session_expired", ""])  # fmt: skip

    def test_long_names(self) -> None:
        """What clients make up does not fill the log."""
        name = "x" * 30_000
        for event in (
            RebalanceBegan(group=name, generation=1, reason=RebalanceReason.MEMBER_LEFT, member_id=name),
            MemberDeparted(group=name, member_id=name, reason=DepartureReason.LEFT, words=name),
            GenerationBegan(group=name, generation=1, members=1, leader_id=name, protocol_name=name),
        ):
            self.assertLess(len(str(event)), 1500)

    def test_counters(self) -> None:
        """They are counted by reason."""
        metrics = Metrics()
        count = GroupCounters(metrics)
        count("rebalance", "member_left")
        count("departure", "left")
        count("generation", "")
        text = metrics.text().decode()
        for line in (
            'rustlog_group_rebalances_total{reason="member_left"} 1.0',
            'rustlog_group_members_left_total{reason="left"} 1.0',
            "rustlog_group_generations_total 1.0",
        ):
            self.assertIn(line, text)


class SubscriptionTests(SynchronousTestCase):
    """What consumers read."""

    def test_topics(self) -> None:
        """The topics, whatever follows them."""
        subscription = b"\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x03\xc3\xb6b\xff\xff\xff\xff\x00\x00\x00\x00"
        self.assertEqual(topics_of(subscription), ["a", "öb"])
        self.assertEqual(topics_of(b"\x00\x00\x00\x00\x00\x00"), [])

    @given(st.binary(max_size=40))
    def test_anything(self, metadata: bytes) -> None:
        """Anything else is not understood, and does no harm."""
        topics = topics_of(metadata)
        self.assertTrue(topics is None or all(isinstance(each, str) for each in topics))

    def test_riddles(self) -> None:
        """Cut off, or not text."""
        one = b"\x00\x00\x00\x00\x00\x01"
        for metadata in (b"", b"\x00\x00\x7f\xff\xff\xff", one + b"\x00\x05abc", one + b"\xff\xff",
                         one + b"\x00\x01\xff"):  # fmt: skip
            self.assertIsNone(topics_of(metadata))
