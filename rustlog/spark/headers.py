"""
The headers of records, the n-th of all records at once.

After the number of headers come, for each, the size of its name, the name, the size of its value (-1 for
null), and the value.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rustlog.spark.columns import HEADER
from rustlog.spark.fields import NULL, BrokenRecord
from rustlog.spark.gathering import bitmap, gather
from rustlog.spark.varints import Bytes, Numbers, TooLong, read

_HEADER_BYTES_MIN = 2


def read_headers(data: Bytes, at: Numbers, stops: Numbers) -> pa.Array:
    """
    The column C{headers}: a list for each record, null for those that have none.

    @param at: where the number of headers stands.
    @param stops: where the records end.
    @raise BrokenRecord: the headers of a record do not end with it.
    """
    try:
        counts, at = read(data, at)
        _check((counts >= 0) & (counts <= (stops - at) // _HEADER_BYTES_MIN))
        total = np.cumsum(counts)
        rows = total - counts
        places = _places(data, at, stops, counts, rows)
    except TooLong as error:
        raise BrokenRecord(error.index, "a number has more than 64 bits") from None
    names = _as_text(gather(data, places[0], places[1], pa.string()))
    values = gather(data, places[2], places[3])
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADER))
    offsets = np.concatenate(([0], total)).astype(np.int32)
    is_there = counts > 0
    validity = None if is_there.all() else pa.py_buffer(bitmap(is_there))
    return pa.Array.from_buffers(
        pa.list_(HEADER), len(counts), [validity, pa.py_buffer(offsets)], children=[pairs]
    )


def _places(data: Bytes, at: Numbers, stops: Numbers, counts: Numbers, rows: Numbers) -> Numbers:
    """Where names and values begin, and their sizes: four rows of numbers, with a column for each header."""
    places = np.empty((4, int(counts.sum())), np.int64)
    active = np.flatnonzero(counts)
    step = 0
    ends = at.copy()
    while active.size:
        here = _one_header(data, ends[active], stops[active], active)
        places[:, rows[active] + step] = here
        ends[active] = here[2] + np.maximum(here[3], 0)
        step += 1
        active = active[counts[active] > step]
    _check(ends == stops)
    return places


def _one_header(data: Bytes, at: Numbers, stops: Numbers, rows: Numbers) -> tuple[Numbers, ...]:
    try:
        name_sizes, names = read(data, at)
        _check((name_sizes >= 0) & (name_sizes <= stops - names), rows)
        value_sizes, values = read(data, names + name_sizes)
        _check((value_sizes >= NULL) & (value_sizes <= stops - values), rows)
    except TooLong as error:
        raise BrokenRecord(int(rows[error.index]), "a number has more than 64 bits") from None
    return names, name_sizes, values, value_sizes


def _check(is_right: NDArray[np.bool_], rows: Numbers | None = None) -> None:
    wrong = np.flatnonzero(~is_right)
    if wrong.size:
        row = wrong[0] if rows is None else rows[wrong[0]]
        raise BrokenRecord(int(row), "the headers of a record do not end with it")


def _as_text(names: pa.Array) -> pa.Array:
    """Names that are not UTF-8 get replacement characters, as in Kafka's Java client."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raw = names.cast(pa.binary(), safe=False).to_pylist()
        return pa.array([each.decode("utf-8", "replace") for each in raw], pa.string())
    return names
