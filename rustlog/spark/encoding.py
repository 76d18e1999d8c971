"""
From Arrow to record batches, by columns: the reverse of L{rustlog.spark.decoding}.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from attrs import frozen

from rustlog.log.batch import NO_PRODUCER_ID
from rustlog.log.codecs import Codec

BATCH_BYTES = 512 * 1024
BATCH_RECORDS = 16 * 1024


@frozen
class ProducerState:
    """
    Who writes: what an idempotent producer puts into its batches.

    @ivar sequence: the number of the first record; those of one partition follow each other.
    """

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1
    sequence: int = -1


@frozen
class EncodedBatch:
    """One batch, to be produced; C{row} is that of its first record."""

    data: bytes
    row: int
    records: int


def encode(
    rows: pa.RecordBatch | pa.Table,
    *,
    now_ms: int,
    codec: Codec = Codec.NONE,
    batch_bytes: int = BATCH_BYTES,
    batch_records: int = BATCH_RECORDS,
    producer: ProducerState = ProducerState(),
) -> Iterator[EncodedBatch]:
    """
    Make batches of the columns C{value}, and C{key}, C{timestamp}, C{headers} if they are there; others are
    not looked at.

    @param rows: C{key} and C{value} are binary or string; C{timestamp} is a timestamp of any unit, or a number
        of milliseconds; C{headers} as L{rustlog.spark.columns.SCHEMA} has it.
    @param now_ms: for records without a timestamp.
    @param batch_bytes: how large a batch gets before it is compressed; a single record may be larger.
    @param producer: the sequence number is counted on from batch to batch.
    @raise BadOption: a column is missing, or is of another type.
    """
    raise NotImplementedError
