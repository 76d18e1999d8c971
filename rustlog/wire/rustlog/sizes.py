"""
How large messages become, before they are written: so that what does not fit a frame is
noticed while something can be done about it.
"""

from __future__ import annotations

import orjson

from rustlog.wire.rustlog.messages import FRAME_BYTES_MAX, Encoding, FetchedRecord

U64_MAX = 2**64 - 1

_PRODUCE_FRAME = len('{"Produce":{"offsets":[]}}')
_FETCH_FRAME = len('{"Fetch":{"records":[],"next_offset":}}') + len(str(U64_MAX))
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

FETCH_ROOM = FRAME_BYTES_MAX - _FETCH_FRAME
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


SIZES = {"json": array_size, "base64": base64_size}


def fetched_record_size(
    record: FetchedRecord, encoding: Encoding = "json", include: frozenset[str] = frozenset()
) -> int:
    """What it takes of L{FETCH_ROOM}."""
    size_of = SIZES[encoding]
    size = _FETCH_RECORD + len(str(record.offset))
    size += _NULL if record.payload is None else size_of(record.payload)
    if not include:
        return size
    if "key" in include:
        size += _KEY + (_NULL if record.key is None else size_of(record.key))
    if "timestamp" in include:
        size += _TIMESTAMP + len(str(record.timestamp))
    if "headers" in include:
        size += _HEADERS
        for name, value in record.headers or ():
            size += _HEADER + len(orjson.dumps(name)) + (_NULL if value is None else size_of(value))
    return size
