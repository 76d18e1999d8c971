"""L{Ranges}: which parts of a file have been verified."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Ranges:
    """A set of positions, as few disjoint ranges [start, end) as can be."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def covers(self, start: int, end: int) -> bool:
        """Whether the whole of [start, end) is in it."""
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and self._ends[at] >= end

    def add(self, start: int, end: int) -> None:
        """Put [start, end) in, joining what it touches."""
        if self._ends and self._ends[-1] == start:
            # What a writer does: grow at the end.
            self._ends[-1] = end
            return
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
