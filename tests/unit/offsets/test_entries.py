"""Tests for L{rustlog.offsets.entries}."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.log import records
from rustlog.log.batch import CONTROL_BIT, build_batch
from rustlog.model import MAX_OFFSET, Committed, Record, StoreLimits, TopicPartition
from rustlog.offsets.entries import Writer, replay
from rustlog.offsets.state import Group, Groups

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
WRITER = Writer(StoreLimits())
PLAIN_WRITER = Writer(StoreLimits(headers=False, null_values=False))

names = st.text(st.characters(codec="utf-8"), max_size=20)
topics = st.text("abcXYZ019._-", min_size=1, max_size=20)
partitions = st.builds(TopicPartition, topics, st.integers(0, 10_000))
commits = st.builds(
    Committed,
    st.integers(0, MAX_OFFSET),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=names,
    commit_time=st.integers(-1, 2**62),
)


def replayed(*batches: list[Record], groups: Groups | None = None) -> Groups:
    """What is known of groups when records have been replayed; all must be understood."""
    groups = Groups() if groups is None else groups
    for each in batches:
        assert replay(groups, records.build(each, now_ms=77)) == 0
    return groups


class WriterTests(SynchronousTestCase):
    """What is written."""

    def test_offset(self) -> None:
        """An offset is decimal text under group, topic and partition; the rest is in headers."""
        committed = Committed(42, leader_epoch=3, metadata="größer", commit_time=1700)
        (record,) = WRITER.commit("a:b", {ORDERS_1: committed}, None)
        self.assertEqual((record.key, record.value), (b"a:b:orders:1", b"42"))
        self.assertEqual(
            dict(record.headers),
            {"commit_time": b"1700", "leader_epoch": b"3", "metadata": "größer".encode()},
        )
        self.assertEqual(record.timestamp, 1700)

    def test_offset_alone(self) -> None:
        """A log without headers has the offset and, as the time of the record, that of the commit."""
        committed = Committed(42, leader_epoch=3, metadata="lost", commit_time=1700)
        written = PLAIN_WRITER.commit("g", {ORDERS_0: committed}, None)
        self.assertEqual(written, [Record(b"42", b"g:orders:0", timestamp=1700)])
        found = replayed(written).get("g").offsets
        self.assertEqual(found, {ORDERS_0: Committed(42, commit_time=1700)})

    def test_deletion(self) -> None:
        """What is deleted has a null value, or an empty one where there is no null."""
        (record,) = WRITER.delete("g", [ORDERS_0])
        self.assertEqual((record.key, record.value), (b"g:orders:0", None))
        (record,) = PLAIN_WRITER.delete("g", [ORDERS_0])
        self.assertEqual((record.key, record.value), (b"g:orders:0", b""))


class ReplayTests(SynchronousTestCase):
    """What is read is what was written."""

    def test_everything(self) -> None:
        """All that is known of a group comes back, whatever its name."""

        @given(names, st.dictionaries(partitions, commits, max_size=5), st.integers(-1, 99), st.binary())
        def check(name: str, offsets: Any, generation: int, document: bytes) -> None:
            group = Group(offsets, generation, 7, document)
            self.assertEqual(replayed(WRITER.everything(name, group)).get(name), group)

        check()

    def test_forget(self) -> None:
        """Nothing of a group is left when it is forgotten, in either kind of log."""
        for writer in (WRITER, PLAIN_WRITER):
            group = Group({ORDERS_0: Committed(1), ORDERS_1: Committed(2)}, 5, 3, b"document")
            groups = replayed(writer.everything("g", group), writer.forget("g", group))
            self.assertEqual(groups.everyone(), [])

    def test_delete(self) -> None:
        """The other offsets of the group stay, and so does its generation."""
        group = Group({ORDERS_0: Committed(1), ORDERS_1: Committed(2)}, 5)
        groups = replayed(WRITER.everything("g", group), WRITER.delete("g", [ORDERS_0]))
        self.assertEqual(groups.get("g"), Group({ORDERS_1: Committed(2)}, 5))

    def test_last_one_counts(self) -> None:
        """A later record replaces an earlier one."""
        batches = [WRITER.commit("g", {ORDERS_0: Committed(each)}, None) for each in (5, 9, 3)]
        self.assertEqual(replayed(*batches).get("g").offsets, {ORDERS_0: Committed(3)})

    def test_documents_are_never_offsets(self) -> None:
        """Groups that are called like keys keep what is theirs apart."""
        first = WRITER.save("a:orders", 1, b"5") + WRITER.commit("a", {ORDERS_0: Committed(5)}, 8)
        second = WRITER.commit("a:document", {ORDERS_0: Committed(6)}, None)
        groups = replayed(first, second)
        self.assertEqual(groups.names(), ("a", "a:document", "a:orders"))
        self.assertEqual(groups.get("a:document").offsets, {ORDERS_0: Committed(6)})
        self.assertEqual(groups.get("a:orders").document, b"5")

    def test_minikafka(self) -> None:
        """Records as MiniKafka writes them are understood; their time is that of the commit."""
        groups = replayed([Record(b"17", b"my:group:orders:1", timestamp=99)])
        self.assertEqual(groups.get("my:group").offsets, {ORDERS_1: Committed(17, commit_time=99)})


class StrangeRecordsTests(SynchronousTestCase):
    """What nobody here has written is passed over."""

    def strange(self, *content: Record) -> int:
        """How many of the records are not understood, among one that is; that one counts."""
        groups = Groups()
        known = WRITER.commit("g", {ORDERS_0: Committed(5)}, None)
        count = replay(groups, records.build([*content, *known], now_ms=1))
        self.assertEqual(groups.get("g").offsets, {ORDERS_0: Committed(5)})
        self.assertEqual(groups.everyone(), ["g"])
        return count

    def test_keys(self) -> None:
        """Keys that name no partition of a group."""
        for key in (None, b"", b"x", b":", b"topic:1", b"g:t:", b"g:t:x", b"g:t:-1", b"g::1", b"\xff:t:1"):
            self.assertEqual(self.strange(Record(b"5", key)), 1, key)

    def test_values(self) -> None:
        """Values that are no offsets, and headers that can not be read."""
        for value in (b"x", b"-1", b" 5", b"5.0", str(MAX_OFFSET + 1).encode(), b"9" * 5000):
            self.assertEqual(self.strange(Record(value, b"x:t:1")), 1, value)
            self.assertEqual(self.strange(Record(value, b"x:generation")), 1, value)
            self.assertEqual(self.strange(Record(value, b"x:document")), 1, value)
        for header in ("commit_time", "leader_epoch"):
            self.assertEqual(self.strange(Record(b"5", b"x:t:1", ((header, b"soon"),))), 1)
        self.assertEqual(self.strange(Record(b"5", b"x:t:1", (("metadata", b"\xff"),))), 1)

    def test_no_records(self) -> None:
        """A batch whose content is no records at all."""
        batch = build_batch(b"rubbish", record_count=3, base_timestamp=0, max_timestamp=0)
        self.assertEqual(replay(Groups(), batch), 3)

    def test_control_batches(self) -> None:
        """Control batches are none of our business, and nothing strange."""
        batch = build_batch(
            b"rubbish", record_count=1, base_timestamp=0, max_timestamp=0, attributes=CONTROL_BIT
        )
        self.assertEqual(replay(Groups(), batch), 0)
