"""Tests for L{rustlog.storage.segments.ranges}."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.storage.segments.ranges import Ranges


class RangesTests(SynchronousTestCase):
    """Which parts of a file have been verified."""

    def test_empty(self) -> None:
        """At first nothing is in it."""
        self.assertFalse(Ranges().covers(0, 1))

    def test_growing(self) -> None:
        """What a writer appends is one range, however often it writes."""
        ranges = Ranges()
        for start in range(0, 1000, 10):
            ranges.add(start, start + 10)
        self.assertTrue(ranges.covers(0, 1000))
        self.assertTrue(ranges.covers(5, 995))
        self.assertFalse(ranges.covers(0, 1001))
        self.assertEqual(len(ranges._starts), 1)

    def test_gap(self) -> None:
        """A part is only covered if all of it is."""
        ranges = Ranges()
        ranges.add(0, 10)
        ranges.add(20, 30)
        self.assertTrue(ranges.covers(20, 30))
        for start, end in ((0, 20), (5, 25), (10, 20), (15, 16), (29, 31)):
            self.assertFalse(ranges.covers(start, end))

    def test_joined(self) -> None:
        """What fills a gap joins its neighbours."""
        ranges = Ranges()
        for start, end in ((0, 10), (20, 30), (40, 50), (10, 20), (28, 45)):
            ranges.add(start, end)
        self.assertTrue(ranges.covers(0, 50))
        self.assertEqual(len(ranges._starts), 1)

    def test_any_ranges(self) -> None:
        """It covers exactly what was put in, in as few ranges as can be."""
        pair = st.tuples(st.integers(0, 30), st.integers(1, 8))

        @settings(deadline=None, max_examples=150)
        @given(st.lists(pair, max_size=12))
        def agrees(pairs: list[tuple[int, int]]) -> None:
            ranges, positions = Ranges(), set()
            for start, size in pairs:
                ranges.add(start, start + size)
                positions.update(range(start, start + size))
            for start in range(40):
                for end in range(start + 1, 40):
                    expected = positions.issuperset(range(start, end))
                    self.assertEqual(ranges.covers(start, end), expected)
            runs = [each for each in positions if each - 1 not in positions]
            self.assertEqual(ranges._starts, sorted(runs))

        agrees()
