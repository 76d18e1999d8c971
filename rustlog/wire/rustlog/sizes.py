"""
How large messages become, before they are written: so that what does not fit a frame is
noticed while something can be done about it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import orjson

from rustlog.wire.rustlog.messages import FRAME_BYTES_MAX, Encoding, FetchedRecord

U64_MAX = 2**64 - 1

_PRODUCE_FRAME = len('{"Produce":{"offsets":[]}}')
_FETCH_FRAME = len('{"Fetch":{"records":[],"next_offset":}}') + len(str(U64_MAX))
_BINARY_FETCH_FRAME = 1 + 4 + 8  # type, count, next offset
_FETCH_RECORD = len('{"offset":,"payload":},')
_KEY = len(',"key":')
_HEADERS = len(',"headers":[]')
_HEADER = len("[,],")
_TIMESTAMP = len(',"timestamp":')
_NULL = len("null")
_ONE_DIGIT = bytes(range(10))
_TWO_DIGITS_AT_MOST = bytes(range(100))

PRODUCE_RECORDS_MAX = (FRAME_BYTES_MAX - _PRODUCE_FRAME) // len(f"{2**63},")
"""How many records a Produce may have, so that their offsets fit an answer, whatever they will be."""

FETCH_ROOM: dict[Encoding, int] = {
    "json": FRAME_BYTES_MAX - _FETCH_FRAME,
    "base64": FRAME_BYTES_MAX - _FETCH_FRAME,
    "binary": FRAME_BYTES_MAX - _BINARY_FETCH_FRAME,
}
"""Bytes of an answer to a Fetch that are left for records."""


def array_size(data: bytes) -> int:
    """How many bytes it takes as a JSON array of numbers."""
    if not data:
        return 2
    tens = len(data.translate(None, _ONE_DIGIT))
    hundreds = len(data.translate(None, _TWO_DIGITS_AT_MOST))
    return 2 * len(data) + tens + hundreds + 1


def base64_size(data: bytes) -> int:
    """How many bytes it takes as base64 between quotes."""
    return (len(data) + 2) // 3 * 4 + 2


def blob_size(data: bytes) -> int:
    """How many bytes it takes in binary, its length included."""
    return 4 + len(data)


_SIZES: dict[Encoding, Callable[[bytes], int]] = {
    "json": array_size,
    "base64": base64_size,
    "binary": blob_size,
}


@cache
def record_sizer(encoding: Encoding, include: frozenset[str] = frozenset()) -> Callable[[FetchedRecord], int]:
    """What tells how much a record takes of L{FETCH_ROOM}, when it is written in this way."""
    size_of = _SIZES[encoding]

    def binary(record: FetchedRecord) -> int:
        return size_of(record.payload or b"")

    def plain(record: FetchedRecord) -> int:
        return _FETCH_RECORD + len(str(record.offset)) + size_of(record.payload or b"")

    def full(record: FetchedRecord) -> int:
        size = _FETCH_RECORD + len(str(record.offset)) + maybe(record.payload)
        if "key" in include:
            size += _KEY + maybe(record.key)
        if "timestamp" in include:
            size += _TIMESTAMP + (_NULL if record.timestamp is None else len(str(record.timestamp)))
        if "headers" in include:
            headers = record.headers or ()
            size += _HEADERS + sum(_HEADER + len(orjson.dumps(name)) + maybe(it) for name, it in headers)
        return size

    def maybe(data: bytes | None) -> int:
        return _NULL if data is None else size_of(data)

    if encoding == "binary":
        return binary
    return full if include else plain
