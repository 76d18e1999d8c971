"""
MiniKafka's records to Arrow.

All numbers are big-endian:

    ========  ====  ==============  ====================================
    position  size  field           note
    ========  ====  ==============  ====================================
    0         4     length          of all that follows this field
    4         4     checksum        CRC-32 (zlib's) of the payload only
    8         8     offset          one more than that of the record before
    16        8     timestamp       milliseconds
    24        4     key length
    28        ...   key
    ...       4     payload length
    ...       ...   payload
    ========  ====  ==============  ====================================

Where a record begins is known when the one before it has been seen, and each has a checksum of its own: so
here, other than for batches, there is one loop over all records.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from rustlog.log.batch import Buffer, build_batch
from rustlog.spark.assembling import Assembly
from rustlog.spark.batches import HEADER
from rustlog.spark.chunks import Chunk
from rustlog.spark.errors import CorruptLog
from rustlog.spark.fields import NOT_READ, Fields
from rustlog.spark.varints import Bytes, Numbers

_HEADER = np.dtype(
    [("length", ">i4"), ("checksum", ">u4"), ("offset", ">i8"), ("timestamp", ">i8"), ("key_size", ">i4")]
)
HEADER_BYTES = _HEADER.itemsize  # 28
Headers = Any
"""An array of such headers."""

_SIZE = Struct(">i")
_SIZE_BYTES = 4


def decode_records(
    buffer: Buffer,
    schema: pa.Schema,
    *,
    topic: str,
    partition: int,
    from_offset: int,
    to_offset: int,
    rows_max: int,
) -> Iterator[pa.RecordBatch]:
    """
    The records that stand back to back, as Arrow batches of at most C{rows_max} rows.  Every checksum is
    verified.

    @raise CorruptLog: at the first that is not right.
    """
    data = np.frombuffer(buffer, np.uint8)
    starts, last = _starts(buffer, topic, partition), -1
    for row in range(0, len(starts), rows_max):
        at = starts[row : row + rows_max]
        headers = data[at[:, None] + np.arange(HEADER_BYTES)].view(_HEADER)[:, 0]
        offsets = headers["offset"].astype(np.int64)
        fields = _fields(data, headers, at)
        wrong = _find_wrong(data, headers, offsets, fields, last)
        if wrong is not None:
            raise CorruptLog(topic, partition, int(offsets[wrong]), "a record, or its checksum, is wrong")
        last = int(offsets[-1])
        assembly = Assembly(_chunk(topic, partition, data, offsets), schema)
        rows = assembly.rows(fields, np.zeros(len(at), np.intp), from_offset, to_offset)
        if rows.num_rows:
            yield rows


def _starts(buffer: Buffer, topic: str, partition: int) -> Numbers:
    """Where records begin."""
    found, position, end, unpack = [], 0, len(buffer), _SIZE.unpack_from
    while position < end - HEADER_BYTES:
        found.append(position)
        length = unpack(buffer, position)[0]
        if length < HEADER_BYTES:
            break
        position += length + _SIZE_BYTES
    if position != end:
        offset = int.from_bytes(buffer[found[-1] + 8 : found[-1] + 16], "big") if found else -1
        raise CorruptLog(topic, partition, offset, "records do not follow each other")
    return np.array(found, np.int64)


def _fields(data: Bytes, headers: Headers, at: Numbers) -> Fields:
    """The columns of some records; sizes may be wrong, which is found out by L{_find_wrong}."""
    stops = at + _SIZE_BYTES + headers["length"]
    key_at, key_sizes = at + HEADER_BYTES, headers["key_size"].astype(np.int64)
    value_at = key_at + key_sizes + _SIZE_BYTES
    return Fields(
        timestamp_deltas=headers["timestamp"].astype(np.int64),
        offset_deltas=headers["offset"] - headers["offset"][0],
        key_at=key_at, key_sizes=key_sizes, value_at=value_at, value_sizes=stops - value_at,
        headers_at=NOT_READ, stops=stops,
    )  # fmt: skip


def _find_wrong(data: Bytes, headers: Headers, offsets: Numbers, fields: Fields, last: int) -> int | None:
    """The first record that is none: lengths must agree, and offsets follow each other."""
    size_at = np.clip(fields.value_at - _SIZE_BYTES, 0, len(data) - _SIZE_BYTES)
    sizes = data[size_at[:, None] + np.arange(_SIZE_BYTES)].view(">i4")[:, 0]
    right = (fields.key_sizes >= 0) & (fields.value_sizes >= 0) & (sizes == fields.value_sizes)
    right &= np.diff(offsets, prepend=offsets[0] - 1 if last < 0 else last) == 1
    wrong = np.flatnonzero(~right)
    count = int(wrong[0]) if wrong.size else len(offsets)
    view, checksums = data.data, headers["checksum"].tolist()
    bounds = zip(fields.value_at[:count].tolist(), fields.stops[:count].tolist(), strict=True)
    for row, (begin, end) in enumerate(bounds):
        if crc32(view[begin:end]) != checksums[row]:
            return row
    return count if wrong.size else None


def _chunk(topic: str, partition: int, data: Bytes, offsets: Numbers) -> Chunk:
    """What stands for a batch, of which only the base offset counts."""
    batch = build_batch(b"", record_count=len(offsets), base_timestamp=0, max_timestamp=0)
    headers = np.frombuffer(batch.at(int(offsets[0]), 0).buffer, HEADER)
    return Chunk(topic, partition, headers, data, np.zeros(1, np.int64), np.array([len(data)]))
