"""
Which partition each row of a column of keys belongs to: the same as for Kafka's own clients.

The hash goes through a key in words of four bytes.  Here it goes through all keys together: the n-th words of
all that have so many.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rustlog.client import partitioning
from rustlog.spark.varints import Bytes, Numbers

NULL_RUN = 1024
"""
So many rows without a key go to one partition before it is the next one's turn: full batches, evenly spread.
"""

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)

_LOCKSTEP_KEYS_MIN = 16
"""The last words of a few long keys are better left to plain Python."""


class Partitioner:
    """
    Kafka's default: by the murmur2 hash of the key; rows without a key in runs, one partition after the
    other.

    @param first: where the first run goes; different tasks should begin at different places.
    """

    def __init__(self, partitions: int, first: int = 0) -> None:
        self._partitions = partitions
        self._nulls = first % partitions * NULL_RUN

    def assign(self, keys: pa.Array) -> NDArray[np.int32]:
        """The partition of each row; an empty key is a key, null is none."""
        keys = keys.cast(pa.binary())
        chosen = np.empty(len(keys), np.int32)
        is_null = keys.is_null().to_numpy(zero_copy_only=False)
        nulls = int(is_null.sum())
        if nulls:
            runs = (self._nulls + np.arange(nulls)) // NULL_RUN
            chosen[is_null] = runs % self._partitions
            self._nulls = (self._nulls + nulls) % (NULL_RUN * self._partitions)
        if nulls < len(keys):
            hashes = murmur2(keys.drop_null() if nulls else keys)
            chosen[~is_null] = (hashes & _POSITIVE) % np.uint32(self._partitions)
        return chosen


def murmur2(keys: pa.Array) -> NDArray[np.uint32]:
    """The hashes of keys (C{binary}), none of which is null."""
    if not len(keys):
        return np.empty(0, np.uint32)
    _, offsets, content = keys.buffers()
    places = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    data = np.frombuffer(content, np.uint8) if content is not None and content.size else np.zeros(1, np.uint8)
    sizes = np.diff(places)
    order = np.argsort(-sizes, kind="stable")  # Those that have most words first.
    ordered = _hash(data, places[:-1][order], sizes[order])
    hashes = np.empty(len(order), np.uint32)
    hashes[order] = ordered
    return hashes


def _hash(data: Bytes, at: Numbers, sizes: Numbers) -> NDArray[np.uint32]:
    words = sizes // 4
    steps = int(words[min(_LOCKSTEP_KEYS_MIN, len(words)) - 1])
    value = _SEED ^ sizes.astype(np.uint32)
    active = np.searchsorted(-words, -np.arange(steps), side="left")
    for step in range(steps):
        width = active[step]
        word = _words(data, at[:width] + 4 * step, 4) * _M
        word = (word ^ word >> np.uint32(24)) * _M
        value[:width] = value[:width] * _M ^ word
    value = _add_rest(data, at + 4 * words, sizes & 3, value)
    value = (value ^ value >> np.uint32(13)) * _M
    value ^= value >> np.uint32(15)
    for index in np.flatnonzero(words > steps):
        key = data[at[index] : at[index] + sizes[index]].tobytes()
        value[index] = partitioning.murmur2(key)
    return value


def _add_rest(
    data: Bytes, at: Numbers, rest: Numbers, value: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """The one to three bytes that are left of a key."""
    for count in (1, 2, 3):
        rows = np.flatnonzero(rest == count)
        if rows.size:
            value[rows] = (value[rows] ^ _words(data, at[rows], count)) * _M
    return value


def _words(data: Bytes, at: Numbers, count: int) -> NDArray[np.uint32]:
    """Little-endian numbers of so many bytes."""
    word = data.take(at, mode="clip").astype(np.uint32)
    for byte in range(1, count):
        word |= data.take(at + byte, mode="clip").astype(np.uint32) << np.uint32(8 * byte)
    return word
