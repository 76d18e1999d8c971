"""
What a broker holds, as numbers at one moment.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen


@frozen
class TopicFigures:
    """
    A topic.

    @ivar records: how many offsets can be read, over all partitions.
    @ivar end_offsets: the sum of the high watermarks.
    @ivar size: in bytes.
    """

    name: str
    partitions: int
    internal: bool
    records: int
    end_offsets: int
    size: int


@frozen
class LagFigures:
    """How far a group is behind in one partition."""

    topic: str
    partition: int
    lag: int


@frozen
class GroupFigures:
    """
    A group.

    @ivar lags: where partitions still exist.
    """

    name: str
    lags: tuple[LagFigures, ...]

    @property
    def lag(self) -> int:
        """In all partitions together."""
        return sum(each.lag for each in self.lags)

    def lag_by_topic(self) -> Iterable[tuple[str, int]]:
        """In all partitions of each topic."""
        sums: dict[str, int] = {}
        for each in self.lags:
            sums[each.topic] = sums.get(each.topic, 0) + each.lag
        return sums.items()


@frozen
class Figures:
    """
    All of it, by name.

    @ivar fenced: how many partitions accept nothing any more.
    """

    topics: tuple[TopicFigures, ...] = ()
    groups: tuple[GroupFigures, ...] = ()
    fenced: int = 0

    @property
    def partitions(self) -> int:
        """Of all topics."""
        return sum(each.partitions for each in self.topics)
