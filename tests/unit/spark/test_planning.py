"""Tests for L{rustlog.spark.planning} and L{rustlog.spark.positions}: ranges of offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.model import TopicPartition
from rustlog.spark.errors import BadOption
from rustlog.spark.planning import OffsetRange, limited, pieces, ranges_between, split
from rustlog.spark.positions import AtOffsets, AtTimes, Offsets, from_json, resolve, to_json

A, B, C = (TopicPartition("orders", index) for index in range(3))

offsets = st.integers(0, 10**12)


class Log:
    """Two partitions; the first has offsets 10 to 20, the second none yet."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return {each: {A: 10, B: 0}[each] for each in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return {each: {A: 20, B: 0}[each] for each in partitions}

    def at_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {each: 10 + time if each == A and time < 10 else None for each, time in times.items()}


class LimitTests(SynchronousTestCase):
    def test_all(self) -> None:
        """What is below the limit is taken whole."""
        self.assertEqual(limited({A: 0, B: 5}, {A: 10, B: 10}, 15), {A: 10, B: 10})

    def test_proportional(self) -> None:
        """Each partition gives in proportion to what it has."""
        self.assertEqual(limited({A: 0, B: 100}, {A: 900, B: 200}, 100), {A: 90, B: 110})

    def test_never_stuck(self) -> None:
        """Even a limit of one makes progress."""
        self.assertEqual(sum(limited({A: 0, B: 0, C: 0}, {A: 5, B: 5, C: 5}, 1).values()), 1)

    def test_any(self) -> None:
        """Never more than the limit, and exactly as many if there are so many."""

        @settings(max_examples=50, deadline=None)
        @given(st.lists(st.integers(0, 10**6), min_size=1, max_size=6), st.integers(1, 10**6))
        def check(sizes: list[int], limit: int) -> None:
            partitions = [TopicPartition("t", index) for index in range(len(sizes))]
            start = dict.fromkeys(partitions, 7)
            end = {each: 7 + size for each, size in zip(partitions, sizes, strict=True)}
            found = limited(start, end, limit)
            self.assertEqual(sum(found.values()) - sum(start.values()), min(limit, sum(sizes)))
            self.assertTrue(all(7 <= found[each] <= end[each] for each in partitions))

        check()


class SplitTests(SynchronousTestCase):
    def test_enough(self) -> None:
        """What is enough already stays as it is."""
        ranges = [OffsetRange(A, 0, 10), OffsetRange(B, 0, 1)]
        self.assertEqual(split(ranges, 2), ranges)

    def test_large_ones(self) -> None:
        """The large ranges are split, the small ones are not."""
        ranges = split([OffsetRange(A, 0, 1000), OffsetRange(B, 0, 10)], 5)
        self.assertEqual([each.count for each in ranges if each.partition == A], [250] * 4)
        self.assertEqual([each.count for each in ranges if each.partition == B], [10])

    def test_limit(self) -> None:
        """A task can be limited as well."""
        self.assertEqual([each.count for each in split([OffsetRange(A, 5, 30)], 1, 10)], [8, 8, 9])

    def test_less_than_asked_for(self) -> None:
        """Three records are not the work of ten tasks."""
        self.assertEqual(len(split([OffsetRange(A, 0, 3)], 10)), 3)
        self.assertEqual(split([], 10), [])

    def test_any(self) -> None:
        """Nothing is lost, doubled, or empty, and there are as many as asked for."""

        @settings(max_examples=50, deadline=None)
        @given(
            st.lists(st.integers(1, 10**6), min_size=1, max_size=5),
            st.integers(1, 40),
            st.none() | st.integers(50, 10**6),
        )
        def check(sizes: list[int], parts: int, limit: int | None) -> None:
            ranges = [OffsetRange(TopicPartition("t", n), n, n + size) for n, size in enumerate(sizes)]
            found = split(ranges, parts, limit if limit and sum(sizes) // limit < 1000 else None)
            self.assertTrue(all(each.count > 0 for each in found))
            self.assertGreaterEqual(len(found), min(parts, sum(sizes)))
            for each in ranges:
                own = [one for one in found if one.partition == each.partition]
                self.assertEqual(own[0].start, each.start)
                self.assertEqual([one.end for one in own[:-1]], [one.start for one in own[1:]])
                self.assertEqual(own[-1].end, each.end)

        check()

    def test_pieces(self) -> None:
        """Pieces are as equal as can be."""
        self.assertEqual([each.count for each in pieces(OffsetRange(A, 0, 10), 3)], [3, 3, 4])

    def test_between(self) -> None:
        """Where there is nothing, there is no range."""
        found = ranges_between({A: 1, B: 5, C: 9}, {A: 3, B: 5, C: 8})
        self.assertEqual(found, [OffsetRange(A, 1, 3)])


class PositionTests(SynchronousTestCase):
    def test_everywhere(self) -> None:
        """One word means each partition's own offset."""
        self.assertEqual(resolve(AtOffsets("o", everywhere=-2), [B, A], Log()), {A: 10, B: 0})
        self.assertEqual(resolve(AtOffsets("o", everywhere=-1), [A], Log()), {A: 20})

    def test_by_partition(self) -> None:
        """Numbers are taken as they are, -1 and -2 are looked up."""
        self.assertEqual(resolve(AtOffsets("o", {A: -1, B: 3}), [A, B], Log()), {A: 20, B: 3})

    def test_times(self) -> None:
        """Where no record is young enough, the end is meant, or it is an error."""
        self.assertEqual(resolve(AtTimes("t", everywhere=5), [A, B], Log()), {A: 15, B: 0})
        strict = AtTimes("t", everywhere=5, falls_back=False)
        error = self.assertRaises(BadOption, resolve, strict, [A, B], Log())
        self.assertIn("no record of orders-1 is that young", str(error))

    def test_other_partitions(self) -> None:
        """All that is read has to be named, and nothing else."""
        missing = self.assertRaises(BadOption, resolve, AtOffsets("o", {A: 1}), [A, B], Log())
        self.assertIn("says nothing of orders-1", str(missing))
        other = self.assertRaises(BadOption, resolve, AtOffsets("o", {A: 1, B: 2}), [A], Log())
        self.assertIn("orders-1 is not among", str(other))

    def test_json(self) -> None:
        """Offsets in a checkpoint look as those of Spark's Kafka source do."""
        self.assertEqual(to_json({B: 2, A: 1}), {"orders": {"0": 1, "1": 2}})
        self.assertEqual(from_json(to_json({B: 2, A: 1})), {A: 1, B: 2})
