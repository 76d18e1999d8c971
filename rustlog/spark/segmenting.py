"""
Files of a log to ranges, by the index beside them.

An index has entries of eight bytes: an offset, relative to that of the file, and the position of the batch
that begins with it; u32 both, big-endian.  It is disposable, so each entry that is used is compared with the
log, and where there is no right one, ranges are larger.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from attrs import evolve, frozen

from rustlog.model import MAX_OFFSET
from rustlog.spark.errors import CorruptLog
from rustlog.spark.layouts import LAYOUTS, Layout, entries
from rustlog.spark.ranges import Range
from rustlog.spark.varints import Numbers

_ENTRY = np.dtype([("offset", ">u4"), ("position", ">u4")])

_ATTEMPTS_MAX = 100

Boundary = tuple[int, int]
"""A position between entries, and the offset that follows there."""


@frozen
class Segment:
    """
    One file of a partition.

    @ivar next_base: where the next file begins; C{None}: there is none.
    """

    path: str
    base_offset: int
    size: int
    next_base: int | None = None

    @property
    def is_sealed(self) -> bool:
        """Whether another file follows, so that this one never changes any more."""
        return self.next_base is not None


def split_segment(segment: Segment, index: Path, wanted: Range, range_bytes: int) -> list[Range]:
    """
    Ranges of about C{range_bytes} of one file, with whatever of it is within the offsets of C{wanted}.

    @raise CorruptLog: the last file does not end as a log that is being written.
    """
    if segment.next_base is not None and segment.next_base <= wanted.from_offset:
        return []
    if segment.base_offset >= wanted.to_offset or not segment.size:
        return []
    try:
        with Path(segment.path).open("rb", buffering=0) as file:
            boundaries = _Boundaries(file, segment, index, wanted).split(range_bytes)
    except FileNotFoundError:
        return []  # Retention was here.
    return [
        evolve(
            wanted, path=segment.path, position=begin, size=end - begin,
            base_offset=base, next_offset=following, is_sealed=segment.is_sealed,
        )
        for (begin, base), (end, following) in pairwise(boundaries)
    ]  # fmt: skip


class _Boundaries:
    """Where a file can be cut."""

    def __init__(self, file: BinaryIO, segment: Segment, index: Path, wanted: Range) -> None:
        self._file = file
        self._segment = segment
        self._wanted = wanted
        self._layout: Layout = LAYOUTS[wanted.format]
        self._positions, self._offsets = self._read_index(index)

    def split(self, range_bytes: int) -> list[Boundary]:
        """The boundaries of ranges, the first and the last included; none if there is nothing."""
        end = self._end()
        first = self._at_or_before(self._wanted.from_offset)
        if end[1] > self._wanted.to_offset:
            end = self._at_or_after(self._wanted.to_offset, end)
        found = [first]
        while end[0] - found[-1][0] > range_bytes:
            following = self._from(found[-1][0] + range_bytes)
            if following is None or following[0] >= end[0]:
                break
            found.append(following)
        return [*found, end] if end[0] > first[0] and end[1] > self._wanted.from_offset else []

    def _read_index(self, index: Path) -> tuple[Numbers, Numbers]:
        try:
            content = index.read_bytes()
        except FileNotFoundError:
            content = b""
        found = np.frombuffer(content, _ENTRY, len(content) // _ENTRY.itemsize)
        positions, offsets = found["position"].astype(np.int64), found["offset"].astype(np.int64)
        grows = len(found) < 2 or ((np.diff(positions) > 0).all() and (np.diff(offsets) > 0).all())
        usable = (positions < self._segment.size) & grows
        return positions[usable], offsets[usable] + self._segment.base_offset

    def _at_or_before(self, offset: int) -> Boundary:
        """The last known boundary that is not behind an offset."""
        number = int(np.searchsorted(self._offsets, offset, side="right")) - 1
        return self._right(range(number, -1, -1)) or (0, self._segment.base_offset)

    def _at_or_after(self, offset: int, end: Boundary) -> Boundary:
        """The first known boundary at or behind an offset."""
        return self._right(range(int(np.searchsorted(self._offsets, offset)), len(self._offsets))) or end

    def _from(self, position: int) -> Boundary | None:
        """The first known boundary at or behind a position."""
        return self._right(range(int(np.searchsorted(self._positions, position)), len(self._positions)))

    def _right(self, numbers: range) -> Boundary | None:
        """The first of these entries of the index that is right; if many are wrong, so are the others."""
        for number in numbers[:_ATTEMPTS_MAX]:
            position, offset = int(self._positions[number]), int(self._offsets[number])
            self._file.seek(position)
            header = self._file.read(self._layout.header_bytes)
            entry = self._layout.entry(header, 0) if len(header) == self._layout.header_bytes else None
            if entry is not None and entry.base_offset == offset:
                return position, offset
        return None

    def _end(self) -> Boundary:
        """
        Of a file that may still grow, what is whole; it is looked for from the last entry of the index on.
        """
        segment = self._segment
        if segment.next_base is not None:
            return segment.size, segment.next_base
        end = self._at_or_before(MAX_OFFSET)
        for position, entry in entries(self._file, self._layout, end[0], segment.size):
            if entry is None:
                reason = f"there is no batch where one should begin, at {position} in {segment.path}"
                raise CorruptLog(self._wanted.topic, self._wanted.partition, end[1], reason)
            end = position + entry.size, entry.next_offset
        return end
