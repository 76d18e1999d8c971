"""
All records of a chunk, found.

There are two ways, with the same result: numpy's, and C's, where that has been compiled.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rustlog.spark import native
from rustlog.spark.chains import Broken, record_bounds
from rustlog.spark.chunks import Chunk
from rustlog.spark.fields import BrokenRecord, Depth, Fields, read_fields
from rustlog.spark.varints import Numbers

_NOT_FILLED = "its records do not fill it"


def scan(chunk: Chunk, depth: Depth, rows_max: int) -> Iterator[tuple[Numbers, Fields]]:
    """
    The fields of the records, so many rows at a time, and to which batch each row belongs.

    @raise CorruptLog: a batch does not have the records that it should have.
    """
    compiled, counts = native.load(), chunk.field("record_count")
    owners = np.repeat(np.arange(len(counts)), counts)
    if compiled is None:
        scanned = _scan(chunk, depth, rows_max, owners)
    else:
        scanned = _scan_natively(compiled, chunk, depth, rows_max)
    for row, fields in zip(range(0, len(owners), rows_max), scanned, strict=True):
        yield owners[row : row + rows_max], fields


def _scan_natively(compiled: native.Native, chunk: Chunk, depth: Depth, rows_max: int) -> Iterator[Fields]:
    found = compiled.locate(chunk.data, chunk.begins, chunk.ends, chunk.field("record_count"), depth)
    if isinstance(found, int):
        raise chunk.corrupt(found, _NOT_FILLED)
    for row in range(0, len(found.stops), rows_max):
        yield found.between(row, row + rows_max)


def _scan(chunk: Chunk, depth: Depth, rows_max: int, owners: Numbers) -> Iterator[Fields]:
    try:
        starts, stops = record_bounds(chunk.data, chunk.begins, chunk.ends, chunk.field("record_count"))
    except Broken as broken:
        raise chunk.corrupt(broken.batch, _NOT_FILLED) from None
    for row in range(0, len(starts), rows_max):
        piece = slice(row, row + rows_max)
        try:
            yield read_fields(chunk.data, starts[piece], stops[piece], depth)
        except BrokenRecord as broken:
            raise chunk.corrupt(int(owners[row + broken.row]), broken.reason) from None
