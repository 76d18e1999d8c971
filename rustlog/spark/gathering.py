"""
Pieces of memory to a column.

What is wanted lies apart, with other things between; in Arrow it follows each other.  So an Arrow array is
laid over the memory as it is, whose elements are in turn what is wanted and what is between; and of that,
Arrow takes every second one.  That is one copy, made in C++.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rustlog.spark.varints import Bytes, Numbers


def gather(data: Bytes, at: Numbers, sizes: Numbers, kind: pa.DataType | None = None) -> pa.Array:
    """
    A column of these pieces of C{data}; one of negative size is null.

    @param at: where they begin, in growing order, none before the end of the one before it.
    @param kind: C{binary}, if nothing is said, or C{string}.
    """
    kind, count = kind or pa.binary(), len(at)
    if not count:
        return pa.array([], kind)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = at
    is_null = sizes < 0
    has_null = is_null.any()
    offsets[1::2] = at + (np.maximum(sizes, 0) if has_null else sizes)
    laid_over = pa.Array.from_buffers(
        kind, 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)], null_count=0
    )
    taken = laid_over.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
    if not has_null:
        return taken
    _, positions, content = taken.buffers()
    return pa.Array.from_buffers(kind, count, [pa.py_buffer(bitmap(~is_null)), positions, content])


def binary(data: object, offsets: NDArray[np.integer[Any]]) -> pa.Array:
    """A column of what stands between each two of these positions in C{data}; nothing is copied."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers, null_count=0)


def bitmap(flags: NDArray[np.bool_]) -> Bytes:
    """Flags as Arrow has them: eight to a byte, lowest first."""
    return np.packbits(flags, bitorder="little")
