"""
Where the records of batches begin and end.

A record begins where the one before it ends: a chain, which can not be followed by many hands.  But batches
are independent of each other.  So the chains of many batches are followed in lockstep, with one numpy
operation for the n-th record of all of them; when few batches are left, in a plain loop, which then takes
less time than numpy's calls do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rustlog.spark.varints import Bytes, Numbers, TooLong, read

LOCKSTEP_BATCHES_MIN = 48
"""For fewer batches a loop is as fast: both take about 150 ns for a record then."""

_SIZE_BYTES_MAX = 5


class Broken(ValueError):
    """The records of a batch do not fill it; C{batch} is its place in the row."""

    def __init__(self, batch: int) -> None:
        super().__init__(batch)
        self.batch = batch


def record_bounds(
    data: Bytes, begins: Numbers, ends: Numbers, counts: Numbers
) -> tuple[Numbers, Numbers]:
    """
    Where each record begins, behind its size, and where it ends: batch by batch, in their order.

    @param begins: where in C{data} the records of each batch begin.
    @param ends: and where they end.
    @param counts: how many records each has.
    @raise Broken: these records are not there.
    """
    rows = np.cumsum(counts) - counts
    starts = np.empty(int(counts.sum()), np.int64)
    stops = np.empty_like(starts)
    # Those with most records first: the ones that go on are always the first ones.
    order = np.argsort(-counts, kind="stable")
    at = begins[order]
    steps = _lockstep(data, at, counts[order], rows[order], starts, stops)
    view = data.data
    for place in range(len(order)):
        batch = int(order[place])
        left, row = int(counts[batch]) - steps, int(rows[batch]) + steps
        if left > 0:
            bounds = _loop(view, int(at[place]), int(ends[batch]), left)
            if bounds is None:
                raise Broken(batch)
            starts[row : row + left], stops[row : row + left] = bounds
            at[place] = bounds[1][-1]
    _check(starts, stops, at, order, ends, counts)
    return starts, stops


def _lockstep(
    data: Bytes, at: Numbers, counts: Numbers, rows: Numbers, starts: Numbers, stops: Numbers
) -> int:
    """Follow the chains while there are enough of them; how many records of each that were."""
    if len(counts) < LOCKSTEP_BATCHES_MIN:
        return 0
    steps = int(counts[LOCKSTEP_BATCHES_MIN - 1])
    # How many batches have more than so many records.
    active = np.searchsorted(-counts, -np.arange(steps), side="left")
    for step in range(steps):
        width = active[step]
        here = at[:width]
        sizes, after = _sizes(data, here)
        row = rows[:width] + step
        starts[row] = after
        after = after + sizes
        stops[row] = after
        at[:width] = after
    return steps


def _sizes(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    """The sizes of records; written out because it is called a hundred times for each batch."""
    first = data.take(at, mode="clip")
    second = data.take(at + 1, mode="clip")
    is_long = first > 0x7F
    if (second[is_long] > 0x7F).any():
        return _long_sizes(data, at)
    raw = (first & 0x7F) + (second.astype(np.int64) << 7) * is_long
    # A negative size would be odd.  It makes the record end before it begins, which is found out.
    return (raw >> 1) - (raw & 1) * (raw + 1), at + 1 + is_long


def _long_sizes(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    try:
        sizes, after = read(data, at)
    except TooLong:
        return np.full(len(at), -1, np.int64), at
    sizes[after - at > _SIZE_BYTES_MAX] = -1
    return sizes, after


def _loop(view: memoryview, at: int, end: int, count: int) -> tuple[list[int], list[int]] | None:
    """The same for one batch; C{None} if there are not that many records."""
    starts, stops = [], []
    try:
        for _ in range(count):
            number = view[at]
            at += 1
            if number > 0x7F:
                number, shift = number & 0x7F, 7
                while True:
                    byte = view[at]
                    at += 1
                    number |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
                    if shift >= 7 * _SIZE_BYTES_MAX:
                        return None
            starts.append(at)
            at += number >> 1
            stops.append(at)
            if number & 1 or at > end:
                return None
    except IndexError:
        return None
    return starts, stops


def _check(
    starts: Numbers, stops: Numbers, at: Numbers, order: NDArray[np.intp], ends: Numbers, counts: Numbers
) -> None:
    """Nothing may be left over, and no record may end before it begins."""
    left_over = np.flatnonzero(at != ends[order])
    if left_over.size:
        raise Broken(int(order[left_over[0]]))
    backwards = np.flatnonzero(stops < starts)
    if backwards.size:
        raise Broken(int(np.searchsorted(np.cumsum(counts), backwards[0], side="right")))
