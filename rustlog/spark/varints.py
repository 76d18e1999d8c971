"""
Kafka's zigzag varints, many at a time.

A number is written in groups of seven bits, lowest first, with the high bit set in all bytes but the last;
0, -1, 1, -2, … are counted as 0, 1, 2, 3, ….  Nearly all numbers in a log have one or two bytes, so a whole
column of them takes two passes, and the rare long ones are gone through on their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]

BYTES_MAX = 10
"""Seven bits each: enough for 64."""


class TooLong(ValueError):
    """A number has more than 64 bits; C{index} tells which one."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def read(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    """
    The numbers that begin at some positions, and the positions behind them.  What would be read beyond the
    end is taken from the last byte: who calls this finds out by the positions.

    @raise TooLong: one of them does not end.
    """
    first = data.take(at, mode="clip")
    raw = (first & 0x7F).astype(np.uint64)
    after = at + 1
    open_ = np.flatnonzero(first > 0x7F)
    shift = 7
    while open_.size:
        if shift >= 7 * BYTES_MAX:
            raise TooLong(int(open_[0]))
        byte = data.take(after[open_], mode="clip")
        if shift == 63 and (byte > 1).any():
            raise TooLong(int(open_[np.flatnonzero(byte > 1)[0]]))
        raw[open_] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[open_] += 1
        open_ = open_[byte > 0x7F]
        shift += 7
    return _unzigzag(raw), after


def _unzigzag(raw: NDArray[np.uint64]) -> Numbers:
    one = np.uint64(1)
    return ((raw >> one).view(np.int64)) ^ -((raw & one).view(np.int64))


def sizes(numbers: Numbers) -> Numbers:
    """How many bytes each of them takes."""
    raw = _zigzag(numbers)
    count = np.ones(len(raw), np.int64)
    for shift in range(7, 64, 7):
        longer = raw >> np.uint64(shift) != 0
        if not longer.any():
            break
        count += longer
    return count


def write(out: Bytes, at: Numbers, numbers: Numbers) -> Numbers:
    """Write each number at its position in C{out}; the positions behind them."""
    raw = _zigzag(numbers)
    longer = raw > 0x7F
    out[at] = (raw & np.uint64(0x7F)).astype(np.uint8) | (longer.astype(np.uint8) << 7)
    after = at + 1
    open_ = np.flatnonzero(longer)
    rest = raw[open_] >> np.uint64(7)
    while open_.size:
        longer = rest > 0x7F
        out[after[open_]] = (rest & np.uint64(0x7F)).astype(np.uint8) | (longer.astype(np.uint8) << 7)
        after[open_] += 1
        open_, rest = open_[longer], rest[longer] >> np.uint64(7)
    return after


def _zigzag(numbers: Numbers) -> NDArray[np.uint64]:
    signed: Any = (numbers << 1) ^ (numbers >> 63)
    return signed.view(np.uint64)

def encoded(numbers: Numbers) -> tuple[Bytes, Numbers]:
    """All of them behind each other, and where each begins, with the end of the last."""
    offsets = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(sizes(numbers), out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    write(out, offsets[:-1], numbers)
    return out, offsets
