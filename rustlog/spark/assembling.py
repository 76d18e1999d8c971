"""
From the fields of records to the columns of an Arrow batch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from attrs import frozen
from numpy.typing import NDArray

from rustlog.spark.chunks import Chunk
from rustlog.spark.columns import SCHEMA
from rustlog.spark.errors import NotRepresentable
from rustlog.spark.fields import BrokenRecord, Depth, Fields
from rustlog.spark.gathering import gather
from rustlog.spark.headers import read_headers
from rustlog.spark.varints import Numbers

_DEPTHS = {"key": Depth.CONTENT, "value": Depth.CONTENT, "headers": Depth.HEADERS}

_MILLISECONDS_MAX = (2**63 - 1) // 1000


class Assembly:
    """Makes Arrow batches of the records of one chunk."""

    def __init__(self, chunk: Chunk, schema: pa.Schema) -> None:
        self._chunk = chunk
        self._schema = schema
        self._base_offsets = chunk.field("base_offset")
        self._last_deltas = chunk.field("last_offset_delta")
        self._last_offset = -1
        self.depth = max((_DEPTHS.get(name, Depth.OFFSETS) for name in schema.names), default=Depth.OFFSETS)

    def rows(
        self, fields: Fields, owners: NDArray[np.intp], from_offset: int, to_offset: int
    ) -> pa.RecordBatch:
        """
        The rows in [C{from_offset}, C{to_offset}).

        @param owners: to which batch each row belongs.
        """
        offsets = self._offsets(fields, owners)
        first, last = (int(each) for each in np.searchsorted(offsets, (from_offset, to_offset)))
        rows = _Rows(self._chunk, fields.between(first, last), owners[first:last], offsets[first:last])
        arrays = [_COLUMNS[name](rows) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _offsets(self, fields: Fields, owners: NDArray[np.intp]) -> Numbers:
        deltas = fields.offset_deltas
        offsets = self._base_offsets[owners] + deltas
        right = (deltas >= 0) & (deltas <= self._last_deltas[owners])
        right[1:] &= offsets[1:] > offsets[:-1]
        right[:1] &= offsets[:1] > self._last_offset
        if not right.all():
            batch = int(owners[np.flatnonzero(~right)[0]])
            raise self._chunk.corrupt(batch, "offsets do not ascend within those of the batch")
        self._last_offset = int(offsets[-1])
        return offsets


@frozen
class _Rows:
    """Of what columns are made."""

    chunk: Chunk
    fields: Fields
    owners: NDArray[np.intp]
    offsets: Numbers


def _keys(rows: _Rows) -> pa.Array:
    return gather(rows.chunk.data, rows.fields.key_at, rows.fields.key_sizes)


def _values(rows: _Rows) -> pa.Array:
    return gather(rows.chunk.data, rows.fields.value_at, rows.fields.value_sizes)


def _topics(rows: _Rows) -> pa.Array:
    return pa.repeat(pa.scalar(rows.chunk.topic, pa.string()), len(rows.offsets))


def _partitions(rows: _Rows) -> pa.Array:
    return pa.array(np.full(len(rows.offsets), rows.chunk.partition, np.int32))


def _offset_column(rows: _Rows) -> pa.Array:
    return pa.array(rows.offsets)


def _timestamps(rows: _Rows) -> pa.Array:
    """Where the broker has given the time, it is that of the batch."""
    bases, deltas = rows.chunk.field("base_timestamp")[rows.owners], rows.fields.timestamp_deltas
    is_given = rows.chunk.is_append_time
    if is_given.any():
        is_given = is_given[rows.owners]
        bases = np.where(is_given, rows.chunk.field("max_timestamp")[rows.owners], bases)
        deltas = np.where(is_given, 0, deltas)
    times = bases + deltas
    wrong = np.flatnonzero(
        (np.abs(times) > _MILLISECONDS_MAX) | (((bases ^ times) & (deltas ^ times)) < 0)
    )
    if wrong.size:
        offset = int(rows.offsets[wrong[0]])
        reason = "its time does not fit Spark's microseconds; leave out the column timestamp"
        raise NotRepresentable(rows.chunk.topic, rows.chunk.partition, offset, reason)
    return pa.array(times * 1000).view(pa.timestamp("us", "UTC"))


def _timestamp_types(rows: _Rows) -> pa.Array:
    return pa.array(rows.chunk.is_append_time[rows.owners].astype(np.int32))


def _headers(rows: _Rows) -> pa.Array:
    if not len(rows.fields.headers_at):
        return pa.nulls(len(rows.offsets), SCHEMA.field("headers").type)
    try:
        return read_headers(rows.chunk.data, rows.fields.headers_at, rows.fields.stops)
    except BrokenRecord as broken:
        raise rows.chunk.corrupt(int(rows.owners[broken.row]), broken.reason) from None


_COLUMNS: dict[str, Callable[[_Rows], pa.Array]] = {
    "key": _keys,
    "value": _values,
    "topic": _topics,
    "partition": _partitions,
    "offset": _offset_column,
    "timestamp": _timestamps,
    "timestampType": _timestamp_types,
    "headers": _headers,
}
