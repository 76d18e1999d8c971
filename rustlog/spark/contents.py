"""
L{Content}: what rows say, brought into the one shape from which records are made.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from rustlog.log.records import NO_TIMESTAMP
from rustlog.spark import varints
from rustlog.spark.columns import HEADER
from rustlog.spark.errors import BadOption
from rustlog.spark.gathering import binary
from rustlog.spark.varints import Numbers

CONTENT_BYTES_MAX = 256 * 1024 * 1024
"""How much is turned into records at once: Arrow's columns have room for eight times that."""

_PER_MILLISECOND = {"us": 1_000, "ns": 1_000_000}


@frozen
class Content:
    """
    Rows to become records.

    @ivar sizes: bytes of key, value and headers of each row.
    @ivar key_sizes: -1 where there is no key, and so for C{value_sizes}.
    @ivar keys: C{None}: no row has one.
    @ivar headers: each row's, encoded but for their number; C{None}: no row has any.
    """

    times: Numbers
    sizes: Numbers
    key_sizes: Numbers
    value_sizes: Numbers
    header_counts: Numbers
    keys: pa.Array | None
    values: pa.Array
    headers: pa.Array | None


def contents(rows: pa.RecordBatch | pa.Table, now_ms: int) -> Iterator[Content]:
    """
    Of the columns C{value}, C{key}, C{timestamp} and C{headers}.

    @raise BadOption: see L{encode <rustlog.spark.encoding.encode>}.
    """
    if "value" not in rows.schema.names:
        raise BadOption("columns", "there is no column value")
    for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
        for piece in _pieces(batch):
            yield _content(piece, now_ms)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Not too much at a time."""
    if batch.num_rows > 1 and batch.nbytes > CONTENT_BYTES_MAX:
        middle = batch.num_rows // 2
        yield from _pieces(batch.slice(0, middle))
        yield from _pieces(batch.slice(middle))
    elif batch.num_rows:
        yield batch


def _content(rows: pa.RecordBatch, now_ms: int) -> Content:
    names, none = rows.schema.names, np.full(rows.num_rows, -1, np.int64)
    values = _binary(rows, "value")
    keys = _binary(rows, "key") if "key" in names else None
    if keys is not None and keys.null_count == len(keys):
        keys = None
    counts, headers = _headers(rows) if "headers" in names else (none + 1, None)
    key_sizes, value_sizes = none if keys is None else _sizes(keys), _sizes(values)
    sizes = np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
    if headers is not None:
        sizes = sizes + _sizes(headers)
    times = _times(rows, now_ms)
    return Content(times, sizes, key_sizes, value_sizes, counts, keys, values, headers)


def _binary(rows: pa.RecordBatch, name: str) -> pa.Array:
    column = rows.column(name)
    if column.type == pa.binary():
        return column
    try:
        return column.cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise BadOption("columns", f"{name} is {column.type}, neither binary nor string") from None


def _sizes(column: pa.Array) -> Numbers:
    """Of the elements of a column of bytes; -1 for null."""
    return pc.binary_length(column).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


# -- times ---------------------------------------------------------------------------


def _times(rows: pa.RecordBatch, now_ms: int) -> Numbers:
    if "timestamp" not in rows.schema.names:
        return np.full(rows.num_rows, now_ms, np.int64)
    column = rows.column("timestamp")
    times = _milliseconds(column)
    times = np.where(times == NO_TIMESTAMP, now_ms, times)
    if (times < 0).any():
        raise BadOption("columns", "a timestamp is before 1970, which no record can have")
    return times


def _milliseconds(column: pa.Array) -> Numbers:
    kind = column.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise BadOption("columns", f"timestamp is {kind}, neither a timestamp nor a number of milliseconds")
    unit = getattr(kind, "unit", "ms")
    if unit == "s":
        column, unit = column.cast(pa.timestamp("ms", kind.tz)), "ms"
    numbers = column.cast(pa.int64()).fill_null(NO_TIMESTAMP * _PER_MILLISECOND.get(unit, 1))
    return numbers.to_numpy(zero_copy_only=False) // _PER_MILLISECOND.get(unit, 1)


# -- headers -------------------------------------------------------------------------


def _headers(rows: pa.RecordBatch) -> tuple[Numbers, pa.Array | None]:
    """How many headers each row has, and all that follows their number."""
    column = rows.column("headers")
    if column.null_count == len(column):
        return np.zeros(len(column), np.int64), None
    try:
        column = column.cast(pa.list_(HEADER))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise BadOption("columns", f"headers is {column.type}, not {pa.list_(HEADER)}") from None
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    names, values = column.flatten().flatten()
    if names.null_count:
        raise BadOption("columns", "a header has no key")
    name_sizes, value_sizes = (binary(*varints.encoded(_sizes(each))) for each in (names, values))
    joined = pc.binary_join_element_wise(
        name_sizes, names.cast(pa.binary()), value_sizes, values, b"",
        null_handling="replace", null_replacement=b"",
    )  # fmt: skip
    _, offsets, data = joined.buffers()
    of_rows = np.frombuffer(offsets, np.int32)[np.concatenate(([0], np.cumsum(counts)))]
    return counts, binary(data, of_rows)
