"""Tests for L{rustlog.spark.jobs.lag}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rustlog.model import Record
from rustlog.offsets.entries import read_commit
from rustlog.spark.jobs.lag import (
    HOUR_MS,
    Commits,
    Lag,
    hour_of,
    lags,
    merge_commits,
    merge_ends,
    see_commit,
)

ORDERS = ("orders", 0)


def commit(key: str, value: bytes | None, hour: float, **headers: bytes) -> Record:
    """A record of C{__consumer_offsets}."""
    return Record(value, key.encode(), tuple(headers.items()), int(hour * HOUR_MS))


class CommitTests(SynchronousTestCase):
    """What the records of groups say."""

    def seen(self, *records: Record) -> Commits:
        found: Commits = {}
        for record in records:
            see_commit(found, record)
        return found

    def test_last_of_an_hour(self) -> None:
        """The last commit of each hour counts, by the order of the log; groups may contain colons."""
        found = self.seen(
            commit("eu:kitchen:orders:0", b"5", 1.1),
            commit("eu:kitchen:orders:0", b"9", 1.9),
            commit("eu:kitchen:orders:0", b"7", 1.2),
            commit("eu:kitchen:orders:1", b"3", 2),
        )
        member = ("eu:kitchen", "orders", 0)
        self.assertEqual(found, {member: {HOUR_MS: 7}, ("eu:kitchen", "orders", 1): {2 * HOUR_MS: 3}})

    def test_commit_time(self) -> None:
        """When it was committed is what a header says, if there is one."""
        found = self.seen(commit("g:orders:0", b"5", 9, commit_time=b"%d" % (3 * HOUR_MS + 1)))
        self.assertEqual(found, {("g", "orders", 0): {3 * HOUR_MS: 5}})

    def test_forgotten(self) -> None:
        """A group that is deleted has no offset any more."""
        found = self.seen(commit("g:orders:0", b"5", 1), commit("g:orders:0", None, 2))
        self.assertEqual(found, {("g", "orders", 0): {HOUR_MS: 5, 2 * HOUR_MS: None}})

    def test_others(self) -> None:
        """Generations, documents and what is not ours are passed over."""
        strange = [
            commit("g:generation", b"5", 1),
            commit("g:document", b"1\n{}", 1),
            commit("nonsense", b"5", 1),
            commit("g:orders:0", b"many", 1),
            Record(b"5", None),
            Record(b"5", b"\xff\xfe:orders:0"),
        ]
        self.assertEqual(self.seen(*strange), {})
        self.assertEqual([read_commit(each) for each in strange], [None] * len(strange))

    def test_merge(self) -> None:
        """Of the same hour, later parts of the log count."""
        member = ("g", "orders", 0)
        merged = merge_commits([{member: {0: 1, HOUR_MS: 2}}, {member: {HOUR_MS: 5}}])
        self.assertEqual(merged, {member: {0: 1, HOUR_MS: 5}})


class LagTests(SynchronousTestCase):
    """How far a group is behind."""

    def test_steps(self) -> None:
        """Ends and commits hold until they change; before the first commit there is no lag."""
        ends = {ORDERS: {0: 10, HOUR_MS: 30, 4 * HOUR_MS: 40}}
        found = lags(ends, {("g", "orders", 0): {HOUR_MS: 25, 3 * HOUR_MS: 30}})
        expected = [(1, 5), (3, 0), (4, 10)]
        self.assertEqual(found, [Lag("g", "orders", hour * HOUR_MS, lag) for hour, lag in expected])

    def test_partitions_together(self) -> None:
        """The lag of a topic is that of all its partitions."""
        ends = {ORDERS: {0: 10}, ("orders", 1): {0: 7}, ("orders", 2): {0: 100}}
        found = lags(ends, {("g", "orders", 0): {0: 4}, ("g", "orders", 1): {0: 5}})
        self.assertEqual(found, [Lag("g", "orders", 0, 8)])

    def test_never_negative(self) -> None:
        """Who has committed more than there is, by the clocks, is not behind."""
        self.assertEqual(lags({ORDERS: {0: 3}}, {("g", "orders", 0): {0: 5}}), [Lag("g", "orders", 0, 0)])

    def test_old_timestamps(self) -> None:
        """A record with an old timestamp does not bring the end back."""
        ends = {ORDERS: {0: 50, HOUR_MS: 20}}
        found = lags(ends, {("g", "orders", 0): {0: 10}})
        self.assertEqual([each.lag for each in found], [40, 40])

    def test_gone(self) -> None:
        """A group that was deleted has no lag from then on."""
        found = lags({ORDERS: {0: 9, 5 * HOUR_MS: 20}}, {("g", "orders", 0): {0: 4, HOUR_MS: None}})
        self.assertEqual(found, [Lag("g", "orders", 0, 5)])

    def test_unknown_topic(self) -> None:
        """A topic of which no records are left has no lag."""
        self.assertEqual(lags({}, {("g", "old", 0): {0: 4}}), [Lag("g", "old", 0, 0)])

    def test_merge_ends(self) -> None:
        """The highest end of an hour counts, whichever part has it."""
        merged = merge_ends([{ORDERS: {0: 5}}, {ORDERS: {0: 3, HOUR_MS: 9}}])
        self.assertEqual(merged, {ORDERS: {0: 5, HOUR_MS: 9}})

    def test_hour_of(self) -> None:
        """Hours begin at full hours, before 1970 too."""
        self.assertEqual([hour_of(-1), hour_of(0), hour_of(HOUR_MS + 5)], [-HOUR_MS, 0, HOUR_MS])
