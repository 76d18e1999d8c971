"""
The fields of records, each of all records at once.

What a record consists of is told in L{rustlog.log.records}.  Keys, values and headers are not copied: their
places are found.
"""

from __future__ import annotations

from enum import IntEnum

import attrs
import numpy as np
from attrs import frozen

from rustlog.spark.varints import Bytes, Numbers, TooLong, read

NULL = -1
"""The size of a key or value that is null."""


class Depth(IntEnum):
    """How far into the records somebody has to look."""

    OFFSETS = 0
    CONTENT = 1
    HEADERS = 2


class BrokenRecord(ValueError):
    """A record is not one; C{row} tells which."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.row = row
        self.reason = reason


@frozen
class Fields:
    """
    What is known of some records, each a row of these.

    @ivar headers_at: where the number of headers stands.
    @ivar stops: where the records end.
    """

    timestamp_deltas: Numbers
    offset_deltas: Numbers
    key_at: Numbers
    key_sizes: Numbers
    value_at: Numbers
    value_sizes: Numbers
    headers_at: Numbers
    stops: Numbers

    def between(self, first: int, last: int) -> Fields:
        """Some of the rows."""
        if first == 0 and last >= len(self.stops):
            return self
        return Fields(*[getattr(self, each.name)[first:last] for each in attrs.fields(Fields)])


NOT_READ = np.empty(0, np.int64)
"""In the place of what nobody wants to have."""


def read_fields(data: Bytes, starts: Numbers, stops: Numbers, depth: Depth) -> Fields:
    """
    Read records that begin and end at these positions.

    @param depth: what is not needed is not read, and empty in the answer.
    @raise BrokenRecord: the fields of one do not fill it.
    """
    try:
        timestamps, at = read(data, starts + 1)  # one byte of attributes is passed over
        offsets, at = read(data, at)
        if depth < Depth.CONTENT:
            _check_ends(at, stops)
            none = NOT_READ
            return Fields(timestamps, offsets, none, none, none, none, none, stops)
        key_sizes, key_at = read(data, at)
        at = _behind(key_at, key_sizes, stops)
        value_sizes, value_at = read(data, at)
        headers_at = _behind(value_at, value_sizes, stops)
    except TooLong as error:
        raise BrokenRecord(error.index, "a number has more than 64 bits") from None
    _check_counts(data, headers_at, stops)
    return Fields(timestamps, offsets, key_at, key_sizes, value_at, value_sizes, headers_at, stops)


def _behind(at: Numbers, sizes: Numbers, stops: Numbers) -> Numbers:
    """The positions behind keys or values, once it is known that they lie within their records."""
    wrong = np.flatnonzero((sizes < NULL) | (sizes > stops - at))
    if wrong.size:
        raise BrokenRecord(int(wrong[0]), "a key or value has a wrong size")
    return at + np.maximum(sizes, 0)


def _check_ends(at: Numbers, stops: Numbers) -> None:
    wrong = np.flatnonzero(at > stops)
    if wrong.size:
        raise BrokenRecord(int(wrong[0]), "a record does not end where it said")


def _check_counts(data: Bytes, headers_at: Numbers, stops: Numbers) -> None:
    """Those that have no headers must end behind that; the others can not."""
    left = stops - headers_at - 1
    wrong = np.flatnonzero((left < 0) | ((data.take(headers_at, mode="clip") == 0) & (left > 0)))
    if wrong.size:
        raise BrokenRecord(int(wrong[0]), "a record does not end where it said")
