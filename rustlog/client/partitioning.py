"""
Which partition a record with a key belongs to: the same as for Kafka's own clients, so that records with the
same key meet in one partition whoever has sent them.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 of C{data}, with the seed that Kafka uses; unsigned."""
    whole = len(data) & ~3
    value = _SEED ^ len(data)
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        value = value * _M & _MASK ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


def partition_for(key: bytes, partitions: int) -> int:
    """The partition for a key, in a topic that has so many."""
    return (murmur2(key) & _POSITIVE) % partitions
