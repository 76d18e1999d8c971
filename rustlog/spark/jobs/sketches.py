"""
Figures of many records in little memory, which can be made apart and put together.

L{Sizes} counts sizes in buckets, each 2 % wider than the one before: a percentile is off by 1 % at most.
L{Distinct} is a HyperLogLog of 4,096 registers: a count of distinct values is off by 1.6 % in the mean; few
values are counted nearly exactly.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field
from numpy.typing import NDArray

from rustlog.spark.partitioning import murmur2

_WIDTH = np.log(1.02)
_BUCKETS = int(np.log(2.0**33) / _WIDTH) + 3

_HASH_BITS = 32
_HASHES = 2.0**_HASH_BITS
_INDEX_BITS = 12
_REGISTERS = 1 << _INDEX_BITS
_ALPHA = 0.7213 / (1 + 1.079 / _REGISTERS)
_LINEAR_UP_TO = 2.5 * _REGISTERS


def _buckets() -> NDArray[np.int64]:
    return np.zeros(_BUCKETS, np.int64)


@define(eq=False)
class Sizes:
    """How large things are."""

    count: int = 0
    total: int = 0
    largest: int = 0
    _counts: NDArray[np.int64] = field(factory=_buckets)

    def add(self, sizes: NDArray[np.int64]) -> None:
        """Take notice of some more."""
        if not len(sizes):
            return
        self.count += len(sizes)
        self.total += int(sizes.sum())
        self.largest = max(self.largest, int(sizes.max()))
        bucket = np.ceil(np.log(np.maximum(sizes, 1)) / _WIDTH).astype(np.int64)
        # Bucket 0 is for what is empty, bucket 1 for one byte.
        self._counts += np.bincount(np.where(sizes > 0, bucket + 1, 0), minlength=_BUCKETS)

    def merge(self, other: Sizes) -> None:
        """Take notice of what another one has seen."""
        self.count += other.count
        self.total += other.total
        self.largest = max(self.largest, other.largest)
        self._counts = self._counts + other._counts

    def percentile(self, share: float) -> int:
        """So large is, about, the one that is larger than this share of all."""
        if not self.count:
            return 0
        rank = max(1, int(np.ceil(share * self.count)))
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        if bucket == 0:
            return 0
        return min(self.largest, round(float(np.exp((bucket - 1.5) * _WIDTH)))) if bucket > 1 else 1


def _registers() -> NDArray[np.uint8]:
    return np.zeros(_REGISTERS, np.uint8)


@define(eq=False)
class Distinct:
    """How many different values there are."""

    _registers: NDArray[np.uint8] = field(factory=_registers)

    def add(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Take notice of some more; null is no value."""
        unique = pc.unique(values).drop_null()
        if not len(unique):
            return
        hashes = murmur2(_one_array(unique))
        index = (hashes >> np.uint32(_HASH_BITS - _INDEX_BITS)).astype(np.int64)
        rest = (hashes << np.uint32(_INDEX_BITS)) | np.uint32(1 << (_INDEX_BITS - 1))
        np.maximum.at(self._registers, index, _leading_zeros(rest) + np.uint8(1))

    def merge(self, other: Distinct) -> None:
        """Take notice of what another one has seen."""
        self._registers = np.maximum(self._registers, other._registers)

    def estimate(self) -> int:
        """About so many."""
        raw = _ALPHA * _REGISTERS**2 / float(np.sum(2.0 ** -self._registers.astype(np.float64)))
        empty = int((self._registers == 0).sum())
        if raw <= _LINEAR_UP_TO and empty:
            return round(_REGISTERS * float(np.log(_REGISTERS / empty)))
        # Where there are millions of values, some of them have the same hash.
        return round(-_HASHES * float(np.log(1 - min(raw / _HASHES, 0.999))))


def _one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _leading_zeros(numbers: NDArray[np.uint32]) -> NDArray[np.uint8]:
    zeros = np.zeros(len(numbers), np.uint8)
    for shift in (16, 8, 4, 2, 1):
        empty = numbers < np.uint32(1 << (_HASH_BITS - shift))
        zeros[empty] += np.uint8(shift)
        numbers = np.where(empty, numbers << np.uint32(shift), numbers)
    return zeros
