"""
What Spark wants to filter, as far as it is worth knowing before reading.

Filters on topic, partition and offset say which parts of the log are of interest.  Those on a timestamp say
where to begin, as the log can be asked for the first record that is not older than a time; where to end they
do not say, because timestamps may go back.  Spark applies every filter itself once more, so what is read may
be too much, but never too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from attrs import evolve, frozen

from rustlog.model import MAX_OFFSET, TopicPartition
from rustlog.spark.positions import Bounds, Offsets

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class Narrowing:
    """
    What is wanted at most.

    @ivar topics: C{None} for all; C{partitions} likewise.
    @ivar to_offset: the one behind the last.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    from_offset: int = 0
    to_offset: int = MAX_OFFSET
    from_time_ms: int | None = None

    def by(self, kind: str, column: str, value: Any) -> Narrowing:
        """
        With one more filter; unchanged if there is nothing to learn from it.

        @param kind: what Spark calls it, C{EqualTo} or C{LessThan} for example.
        """
        if value is None:
            return self
        if column == "topic":
            chosen = _chosen(kind, value)
            return self if chosen is None else evolve(self, topics=_both(self.topics, chosen))
        if column == "partition":
            chosen = _chosen(kind, value)
            return self if chosen is None else evolve(self, partitions=_both(self.partitions, chosen))
        if column == "offset":
            low, high = _interval(kind, value)
            return evolve(self, from_offset=max(self.from_offset, low), to_offset=min(self.to_offset, high))
        if column == "timestamp":
            return self._by_time(kind, value)
        return self

    def _by_time(self, kind: str, value: Any) -> Narrowing:
        if kind not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
            return self
        # Rounded down: a record has milliseconds, a filter may have less.
        time_ms = (value.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
        if self.from_time_ms is not None:
            time_ms = max(time_ms, self.from_time_ms)
        return evolve(self, from_time_ms=max(0, time_ms))

    def wants(self, partition: TopicPartition) -> bool:
        """Whether there may be something in it."""
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )

    def apply(
        self, starts: Offsets, ends: Mapping[TopicPartition, int], log: Bounds
    ) -> tuple[Offsets, Offsets]:
        """From where to where it is worth reading."""
        wanted = [each for each in starts if self.wants(each)]
        first = {each: max(starts[each], self.from_offset) for each in wanted}
        last = {each: min(ends[each], self.to_offset) for each in wanted}
        if self.from_time_ms is not None and wanted:
            found = log.at_time(dict.fromkeys(wanted, self.from_time_ms))
            for each, offset in found.items():
                first[each] = last[each] if offset is None else max(first[each], offset)
        return first, last


EVERYTHING = Narrowing()


def _chosen(kind: str, value: Any) -> frozenset[Any] | None:
    if kind in ("EqualTo", "EqualNullSafe"):
        return frozenset([value])
    return frozenset(value) if kind == "In" else None


def _both(known: frozenset[Any] | None, chosen: Iterable[Any]) -> frozenset[Any]:
    return frozenset(chosen) if known is None else known & frozenset(chosen)


def _interval(kind: str, value: Any) -> tuple[int, int]:
    """The offsets that a filter leaves: the first one, and the one behind the last."""
    if kind in ("EqualTo", "EqualNullSafe"):
        return value, value + 1
    if kind == "In":
        numbers = [each for each in value if each is not None] or [MAX_OFFSET]
        return min(numbers), max(numbers) + 1
    intervals = {
        "GreaterThan": (value + 1, MAX_OFFSET),
        "GreaterThanOrEqual": (value, MAX_OFFSET),
        "LessThan": (0, value),
        "LessThanOrEqual": (0, value + 1),
    }
    return intervals.get(kind, (0, MAX_OFFSET))
