"""
MiniKafka's files, by a few lines that know nothing of rustlog.
"""

from __future__ import annotations

import struct
import zlib

Stored = tuple[int, int, bytes, bytes]
"""Offset, timestamp, key, payload."""


def write_record(offset: int, timestamp: int, key: bytes, payload: bytes) -> bytes:
    """One record, from the table of its fields."""
    body = struct.pack(">I", zlib.crc32(payload))
    body += struct.pack(">q", offset)
    body += struct.pack(">q", timestamp)
    body += struct.pack(">i", len(key)) + key
    body += struct.pack(">i", len(payload)) + payload
    return struct.pack(">i", len(body)) + body


def read_records(content: bytes) -> list[Stored]:
    """All records of a file."""
    found = []
    at = 0
    while at < len(content):
        (length,) = struct.unpack_from(">i", content, at)
        crc, offset, timestamp, key_length = struct.unpack_from(">Iqqi", content, at + 4)
        key = content[at + 28 : at + 28 + key_length]
        (payload_length,) = struct.unpack_from(">i", content, at + 28 + key_length)
        payload = content[at + 32 + key_length : at + 32 + key_length + payload_length]
        assert 28 + key_length + payload_length == length
        assert zlib.crc32(payload) == crc
        found.append((offset, timestamp, key, payload))
        at += 4 + length
    return found
