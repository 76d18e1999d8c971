"""
L{Chunk}: batches that are decoded together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from attrs import frozen

from rustlog.log.batch import HEADER_SIZE, Buffer, RecordBatch
from rustlog.spark.batches import payload_of
from rustlog.spark.errors import CorruptLog
from rustlog.spark.varints import Bytes

CHUNK_BYTES = 8 * 1024 * 1024
"""So much is decoded at once, or one batch if that is larger: what memory it takes depends on this."""


@frozen
class Chunk:
    """
    Batches whose records, no longer compressed, are in one piece of memory.

    @ivar begins: where in C{data} the records of each batch begin, and C{ends} where they end.
    """

    topic: str
    partition: int
    batches: list[RecordBatch]
    data: Bytes
    begins: list[int]
    ends: list[int]

    @property
    def counts(self) -> list[int]:
        """How many records each batch has."""
        return [batch.record_count for batch in self.batches]

    def corrupt(self, batch: int, reason: str) -> CorruptLog:
        """What to say of one of them."""
        return CorruptLog(self.topic, self.partition, self.batches[batch].base_offset, reason)


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
    first, batches = pieces[0][0], [batch for _, batch, _ in pieces]
    if batches[0].codec:
        payloads = [payload for _, _, payload in pieces]
        ends = np.cumsum([len(each) for each in payloads]).tolist()
        data = payloads[0] if len(payloads) == 1 else b"".join(payloads)
        return Chunk(topic, partition, batches, np.frombuffer(data, np.uint8), [0, *ends[:-1]], ends)
    begins = [position - first + HEADER_SIZE for position, _, _ in pieces]
    ends = [position - first + batch.size for position, batch, _ in pieces]
    data = memoryview(buffer)[first : first + ends[-1]]
    return Chunk(topic, partition, batches, np.frombuffer(data, np.uint8), begins, ends)
