"""
L{Chunk}: batches that are decoded together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from rustlog.log.batch import HEADER_SIZE, PREFIX_SIZE, TIMESTAMP_TYPE_BIT, Buffer, RecordBatch
from rustlog.spark.batches import payload_of
from rustlog.spark.errors import CorruptLog
from rustlog.spark.varints import Bytes, Numbers

HEADER = np.dtype(
    [
        ("base_offset", ">i8"), ("batch_length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"),
        ("crc", ">u4"), ("attributes", ">i2"), ("last_offset_delta", ">i4"), ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"), ("producer_id", ">i8"), ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"), ("record_count", ">i4"),
    ]
)  # fmt: skip
"""That of L{rustlog.log.batch}, for many of them."""

CHUNK_BYTES = 8 * 1024 * 1024
"""So much is decoded at once, or one batch if that is larger: what memory it takes depends on this."""


@frozen
class Chunk:
    """
    Batches whose records, no longer compressed, are in one piece of memory.

    @ivar headers: of the batches; their fields are those of L{HEADER}.
    @ivar begins: where in C{data} the records of each batch begin, and C{ends} where they end.
    """

    topic: str
    partition: int
    headers: Any
    data: Bytes
    begins: Numbers
    ends: Numbers

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


def headers_of(batches: Iterable[RecordBatch]) -> Any:
    """The headers of batches, as an array."""
    return np.frombuffer(b"".join([batch.buffer[:HEADER_SIZE] for batch in batches]), HEADER)


_Piece = tuple[int, RecordBatch, Buffer]


def chunks(
    buffer: Buffer, batches: Iterable[tuple[int, RecordBatch]], topic: str, partition: int
) -> Iterator[Chunk]:
    """
    Put batches of C{buffer} together, in their order.

    @raise CorruptLog: the records of one of them do not decompress.
    """
    pieces: list[_Piece] = []
    size = 0
    for position, batch in batches:
        payload = payload_of(batch, topic, partition)
        if pieces:
            first, is_plain = pieces[0][0], not pieces[0][1].codec
            # What was left out between two that are not compressed is carried along.
            grown = position + batch.size - first if is_plain else size + len(payload)
            if is_plain == bool(batch.codec) or grown > CHUNK_BYTES:
                yield _chunk(buffer, pieces, topic, partition)
                pieces, size = [], 0
        pieces.append((position, batch, payload))
        size += len(payload)
    if pieces:
        yield _chunk(buffer, pieces, topic, partition)


def _chunk(buffer: Buffer, pieces: list[_Piece], topic: str, partition: int) -> Chunk:
    first, headers = pieces[0][0], headers_of(batch for _, batch, _ in pieces)
    if pieces[0][1].codec:
        payloads = [payload for _, _, payload in pieces]
        sizes = np.array([len(each) for each in payloads], np.int64)
        ends = np.cumsum(sizes)
        data = payloads[0] if len(payloads) == 1 else b"".join(payloads)
        return Chunk(topic, partition, headers, np.frombuffer(data, np.uint8), ends - sizes, ends)
    begins = np.array([position for position, _, _ in pieces], np.int64) - first + HEADER_SIZE
    ends = begins + headers["batch_length"] + (PREFIX_SIZE - HEADER_SIZE)
    data = memoryview(buffer)[first : first + int(ends[-1])]
    return Chunk(topic, partition, headers, np.frombuffer(data, np.uint8), begins, ends)
