"""
L{Chunk}: batches that are decoded together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from rustlog.log.batch import HEADER_SIZE, TIMESTAMP_TYPE_BIT, Buffer
from rustlog.spark.batches import Batches
from rustlog.spark.errors import CorruptLog
from rustlog.spark.payloads import payload_of
from rustlog.spark.varints import Bytes, Numbers

CHUNK_BYTES = 8 * 1024 * 1024
"""So much is decoded at once, or one batch if that is larger: what memory it takes depends on this."""

_RECORD_BYTES_MIN = 7
"""One byte each for size, attributes, two deltas, two sizes and the number of headers."""


@frozen
class Chunk:
    """
    Batches whose records, no longer compressed, are in one piece of memory.

    @ivar headers: of the batches: an array of L{HEADER <rustlog.spark.batches.HEADER>}.
    @ivar begins: where in C{data} the records of each batch begin, and C{ends} where they end.
    @raise CorruptLog: there can not be so many records as the headers say.
    """

    topic: str
    partition: int
    headers: Any
    data: Bytes
    begins: Numbers
    ends: Numbers

    def __attrs_post_init__(self) -> None:
        # Before memory is taken for all of them.
        counts, sizes = self.field("record_count"), self.ends - self.begins
        wrong = np.flatnonzero(counts * _RECORD_BYTES_MIN > sizes)
        if wrong.size:
            count, size = int(counts[wrong[0]]), int(sizes[wrong[0]])
            raise self.corrupt(int(wrong[0]), f"there are less than {count} records in {size} bytes")

    def field(self, name: str) -> Numbers:
        """Of the header of each batch."""
        numbers: Numbers = self.headers[name].astype(np.int64)
        return numbers

    @property
    def is_append_time(self) -> NDArray[np.bool_]:
        """Of each batch: whether the broker has given the time."""
        return (self.field("attributes") & TIMESTAMP_TYPE_BIT) != 0

    def corrupt(self, batch: int, reason: str) -> CorruptLog:
        """What to say of one of them."""
        return CorruptLog(self.topic, self.partition, int(self.headers["base_offset"][batch]), reason)


def chunks(batches: Batches) -> Iterator[Chunk]:
    """
    Put batches together, in their order, when their checksums have been found right.

    @raise CorruptLog: one of them is damaged.
    """
    is_compressed, positions, ends = batches.is_compressed, batches.positions, batches.ends
    changes = np.append(np.flatnonzero(np.diff(is_compressed)) + 1, len(batches))
    first = 0
    while first < len(batches):
        full = int(np.searchsorted(ends, positions[first] + CHUNK_BYTES, side="right"))
        change = int(changes[np.searchsorted(changes, first, side="right")])
        last = max(first + 1, min(full, change))
        some = batches[first:last]
        some.verify()
        yield from _unpacked(some) if is_compressed[first] else [_plain(some)]
        first = last


def _plain(batches: Batches) -> Chunk:
    """They are where they were; what was left out between them is carried along."""
    first, ends = int(batches.positions[0]), batches.ends
    data = np.frombuffer(batches.view[first : int(ends[-1])], np.uint8)
    begins = batches.positions - first + HEADER_SIZE
    return Chunk(batches.topic, batches.partition, batches.headers, data, begins, ends - first)


def _unpacked(batches: Batches) -> Iterator[Chunk]:
    """They become larger, so that there may be several chunks of them."""
    payloads: list[Buffer] = []
    size, first = 0, 0
    for number, batch in enumerate(batches):
        payload = payload_of(batch, batches.topic, batches.partition)
        if payloads and size + len(payload) > CHUNK_BYTES:
            yield _joined(batches[first:number], payloads)
            payloads, size, first = [], 0, number
        payloads.append(payload)
        size += len(payload)
    yield _joined(batches[first:], payloads)


def _joined(batches: Batches, payloads: list[Buffer]) -> Chunk:
    sizes = np.array([len(each) for each in payloads], np.int64)
    ends = np.cumsum(sizes)
    data = np.frombuffer(payloads[0] if len(payloads) == 1 else b"".join(payloads), np.uint8)
    return Chunk(batches.topic, batches.partition, batches.headers, data, ends - sizes, ends)
