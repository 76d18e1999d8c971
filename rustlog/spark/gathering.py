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

from rustlog.spark import native
from rustlog.spark.varints import Bytes, Numbers


def gather(data: Bytes, at: Numbers, sizes: Numbers, kind: pa.DataType | None = None) -> pa.Array:
    """
    A column of these pieces of C{data}; one of negative size is null.

    @param at: where they begin, in growing order, none before the end of the one before it.
    @param kind: C{binary}, if nothing is said, or C{string}.
    """
    kind = kind or pa.binary()
    if not len(at):
        return pa.array([], kind)
    compiled = native.load()
    buffers = _take(data, at, np.maximum(sizes, 0)) if compiled is None else compiled.gather(data, at, sizes)
    is_null = sizes < 0
    validity = pa.py_buffer(bitmap(~is_null)) if is_null.any() else None
    return pa.Array.from_buffers(kind, len(at), [validity, *buffers])


def _take(data: Bytes, at: Numbers, sizes: Numbers) -> tuple[pa.Buffer, pa.Buffer]:
    """The offsets and the content of such a column, null or not."""
    count = len(at)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = at
    offsets[1::2] = at + sizes
    taken = binary(data, offsets).take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
    return taken.buffers()[1:]


def binary(data: object, offsets: NDArray[np.integer[Any]]) -> pa.Array:
    """A column of what stands between each two of these positions in C{data}; nothing is copied."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers, null_count=0)


def bitmap(flags: NDArray[np.bool_]) -> Bytes:
    """Flags as Arrow has them: eight to a byte, lowest first."""
    return np.packbits(flags, bitorder="little")
