"""
Zigzag varints, of which records are made: seven bits a byte, lowest first, and 0, -1, 1, -2, … counted as
0, 1, 2, 3, …

Loops over records look up or read short ones in place: a function call for each would double their time.
"""

from __future__ import annotations

from rustlog.errors import CorruptBatch

_SHIFT_MAX = 70
"""Ten bytes of seven bits: enough for 64."""


def _encode(number: int) -> bytes:
    number = number << 1 if number >= 0 else (-number << 1) - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


VARINTS = tuple(map(_encode, range(8192)))
"""The numbers of one or two bytes: nearly all sizes and deltas that occur."""

NULL = _encode(-1)
"""The size of what is not there."""


def encode_varint(number: int) -> bytes:
    return VARINTS[number] if 0 <= number < 8192 else _encode(number)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A varint as it stands (its lowest bit tells that it is negative), and where it ends."""
    first = data[position]
    if first < 0x80:
        return first, position + 1
    return continue_varint(data, position + 1, first)


def continue_varint(data: bytes, position: int, number: int) -> tuple[int, int]:
    """
    The same, when its first byte said that more follow.

    @raise CorruptBatch: it has no end.
    """
    byte = data[position]
    number = number & 0x7F | (byte & 0x7F) << 7
    shift = 14
    while byte > 0x7F:
        position += 1
        byte = data[position]
        number |= (byte & 0x7F) << shift
        shift += 7
        if number >> 64 or shift > _SHIFT_MAX:
            raise CorruptBatch("a varint has more than 64 bits")
    return number, position + 1
