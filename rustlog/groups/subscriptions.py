"""
What consumers say to their leader, as far as the broker has to understand it: the topics that they read.

All versions begin alike: i16 version, i32 number of topics, and for each an i16 length and a name.
"""

from __future__ import annotations

import struct

CONSUMER = "consumer"
"""The protocol type whose members are consumers."""

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def topics_of(metadata: bytes) -> list[str] | None:
    """The topics of a subscription; C{None} if it is none."""
    topics: list[str] = []
    try:
        _, count = _HEAD.unpack_from(metadata)
        position = _HEAD.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            name = metadata[position : position + length]
            if length < 0 or len(name) < length:
                return None
            topics.append(name.decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return topics
