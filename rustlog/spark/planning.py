"""
Ranges of offsets: how much a micro-batch takes, and how the work is split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from attrs import evolve, frozen

from rustlog.model import TopicPartition
from rustlog.spark.positions import Offsets


@frozen(order=True)
class OffsetRange:
    """The offsets from C{start} up to, but without, C{end}."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.start


Ranges = list[OffsetRange]


def ranges_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Ranges:
    """What lies between two offsets of each partition, where anything does."""
    return [
        OffsetRange(each, start[each], end[each])
        for each in sorted(end)
        if each in start and start[each] < end[each]
    ]


def limited(start: Offsets, end: Offsets, offsets_max: int) -> Offsets:
    """
    Not more than so many offsets, and from each partition in proportion to what it has: a small one is not
    kept waiting by a large one, and all get to their end together.  At least one offset is taken if there is
    one.
    """
    sizes = {each: end[each] - start[each] for each in end}
    total = sum(sizes.values())
    if total <= offsets_max:
        return dict(end)
    shares = {each: size * offsets_max // total for each, size in sizes.items()}
    # What rounding has left over goes to those that it hit most, one each.
    by_rest = sorted(sizes, key=lambda each: (-(sizes[each] * offsets_max % total), each))
    for each in by_rest[: offsets_max - sum(shares.values())]:
        shares[each] += 1
    return {each: start[each] + shares[each] for each in end}


def split(ranges: Sequence[OffsetRange], parts_min: int, offsets_max: int | None = None) -> Ranges:
    """
    Split ranges so that there are at least C{parts_min}, none with more than C{offsets_max}, as equal
    as can be.  A range is never made empty, so there may be less of them.
    """
    if offsets_max is not None:
        ranges = [part for each in ranges for part in pieces(each, -(-each.count // offsets_max))]
    total = sum(each.count for each in ranges)
    if len(ranges) >= parts_min or not total:
        return list(ranges)
    wanted = {each: max(1, each.count * parts_min // total) for each in ranges}
    by_rest = sorted(ranges, key=lambda each: -(each.count / wanted[each]))
    for each in by_rest[: max(0, parts_min - sum(wanted.values()))]:
        wanted[each] += 1
    return [part for each in ranges for part in pieces(each, wanted[each])]


def pieces(whole: OffsetRange, count: int) -> Ranges:
    """A range in so many pieces, or in less if it has not so many offsets."""
    count = min(count, whole.count)
    edges = [whole.start + whole.count * index // count for index in range(count + 1)]
    return [evolve(whole, start=start, end=end) for start, end in pairwise(edges)]

