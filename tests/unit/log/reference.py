"""
Kafka's record batch, version 2, written down a second time: slowly, from its
specification alone, and without anything of rustlog.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

Header = tuple[bytes, "bytes | None"]
Fields = tuple[int, int, "bytes | None", "bytes | None", Sequence[Header]]
"""Timestamp delta, offset delta, key, value, headers."""


def crc32c(data: bytes) -> int:
    """Castagnoli's polynomial, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    """Zigzag in 64 bits, then seven bits a byte, the lowest first."""
    zigzag = (number << 1 ^ number >> 63) & 0xFFFFFFFFFFFFFFFF
    encoded = b""
    while True:
        low, zigzag = zigzag & 0x7F, zigzag >> 7
        if not zigzag:
            return encoded + bytes([low])
        encoded += bytes([low | 0x80])


def sized(data: bytes | None) -> bytes:
    """Bytes after their size, null as -1."""
    return varint(-1) if data is None else varint(len(data)) + data


def record(fields: Fields) -> bytes:
    """One record after its size."""
    timestamp_delta, offset_delta, key, value, headers = fields
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + sized(key) + sized(value)
    body += varint(len(headers))
    for name, content in headers:
        body += sized(name) + sized(content)
    return varint(len(body)) + body


def batch(
    payload: bytes,
    *,
    record_count: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = 0,
    max_timestamp: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """One batch around encoded records."""
    if last_offset_delta is None:
        last_offset_delta = record_count - 1
    summed = struct.pack(
        ">hiqqqhii",
        attributes, last_offset_delta, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, record_count,
    )  # fmt: skip
    summed += payload
    after_length = struct.pack(">ibI", leader_epoch, 2, crc32c(summed)) + summed
    return struct.pack(">qi", base_offset, len(after_length)) + after_length
