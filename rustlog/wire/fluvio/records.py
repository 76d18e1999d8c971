"""
The records inside a batch of Fluvio, made into those of the log and back.

Each record is, in L{zigzag varints <rustlog.log.varints>}, nearly what it is in
L{the log <rustlog.log.records>}:

    ==================  ==================================  ==========================================
    part                Fluvio                              the log
    ==================  ==================================  ==========================================
    size                varint; of all that follows         the same
    attributes          1 byte, unused                      the same
    timestamp delta     varint                              the same
    offset delta        varint; shown is the position       the same; shown is this
    key                 0 for none; or 1, varint size,      varint size, -1 for null; bytes
                        bytes
    value               varint size, bytes                  the same, or -1 for null
    headers             varint, always 0                    varint count, and the headers
    ==================  ==================================  ==========================================

So a record without a key differs in one byte, 0 here and 1 there; with one, it is a byte longer here, and its
size one more.  The loops find that place in each record and leave the rest as it is: nobody makes an object
of a record.  What is not so simple (headers, gaps between offsets) is for L{encode_records}.

They are in one piece for speed, and read on without fear: whatever goes beyond the end of a record is found
out when the record does not end where it said.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from rustlog.errors import CorruptBatch, InvalidRecord
from rustlog.log.batch import Buffer
from rustlog.log.varints import continue_varint, encode_varint
from rustlog.model import Record

_NO_KEY, _KEY = b"\x00", b"\x01"
_MINUS_ONE = 1
"""As it is in zigzag."""

_DELTA_MAX = 2**64


@frozen
class LogRecords:
    """Records as the log has them, and the bounds of their timestamp deltas."""

    data: Buffer
    delta_min: int
    delta_max: int


def to_log(data: bytes, position: int, count: int) -> LogRecords:
    """
    The records of Fluvio from C{position} to the end of the data.

    @raise CorruptBatch: they are not C{count} records.
    @raise InvalidRecord: something in them can not be kept.
    """
    patched, result = bytearray(data), bytearray()
    copied, end = position, len(data)
    last_delta, delta_min, delta_max = -1, _DELTA_MAX, -_DELTA_MAX
    try:
        for index in range(count):
            start = position
            size = data[position]
            position += 1
            if size > 0x7F:
                byte = data[position]
                if byte < 0x80:  # A varint of two bytes is common, and a call for each would be slow.
                    size += (byte << 7) - 0x80
                    position += 1
                else:
                    size, position = continue_varint(data, position, size)
            after_size = position
            record_end = position + (size >> 1)
            if size & 1 or record_end > end:
                raise CorruptBatch("a record is larger than what is left, or of negative size")

            number = data[position + 1]  # one byte of attributes is passed over
            position += 2
            if number > 0x7F:
                number, position = continue_varint(data, position, number)
            if number != last_delta:
                last_delta = number
                delta = number >> 1 ^ -(number & 1)
                if delta > delta_max:
                    delta_max = delta
                if delta < delta_min:
                    delta_min = delta

            number = data[position]
            position += 1
            if number > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    number += (byte << 7) - 0x80
                    position += 1
                else:
                    number, position = continue_varint(data, position, number)
            if number != index << 1:
                raise InvalidRecord(f"the offset delta of record {index} is not {index}")

            tag = data[position]
            if tag == 0:
                patched[position] = _MINUS_ONE
                position += 1
            elif tag == 1:
                result += patched[copied:start]
                result += encode_varint((size >> 1) - 1)
                result += data[after_size:position]
                copied = position + 1
                number = data[copied]
                position += 2
                if number > 0x7F:
                    number, position = continue_varint(data, position, number)
                if number & 1:
                    raise CorruptBatch("a key of negative size")
                position += number >> 1
            else:
                raise CorruptBatch(f"{tag} before a key is neither yes nor no")

            number = data[position]
            position += 1
            if number > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    number += (byte << 7) - 0x80
                    position += 1
                else:
                    number, position = continue_varint(data, position, number)
            position += number >> 1
            if number & 1 or position + 1 != record_end or data[position]:
                raise _problem_of_end(data, position, record_end, number)
            position = record_end
    except IndexError:
        raise CorruptBatch(f"there are less than {count} whole records") from None
    if position != end:
        raise CorruptBatch(f"{end - position} bytes follow the last of {count} records")
    result += memoryview(patched)[copied:]
    return LogRecords(result, delta_min, delta_max)


def _problem_of_end(data: bytes, position: int, record_end: int, value_size: int) -> Exception:
    if value_size & 1:
        return CorruptBatch("a value of negative size")
    if position < record_end and data[position]:
        return InvalidRecord("the number behind a value is not 0")
    return CorruptBatch("a record does not end where it said")


def from_log(data: bytes, position: int, count: int) -> Buffer | None:
    """
    Records of the log from C{position} to the end of the data, as they are in Fluvio.

    @return: C{None} if there is something about them that Fluvio has no place for: headers, or offsets that
        are not those of their positions.
    @raise CorruptBatch: they are not C{count} records.
    """
    patched, result = bytearray(data), bytearray()
    copied, end = position, len(data)
    try:
        for index in range(count):
            start = position
            size = data[position]
            position += 1
            if size > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    size += (byte << 7) - 0x80
                    position += 1
                else:
                    size, position = continue_varint(data, position, size)
            after_size = position
            record_end = position + (size >> 1)
            if size & 1 or record_end > end:
                raise CorruptBatch("a record is larger than what is left, or of negative size")

            number = data[position + 1]  # one byte of attributes is passed over
            position += 2
            if number > 0x7F:
                number, position = continue_varint(data, position, number)

            number = data[position]
            position += 1
            if number > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    number += (byte << 7) - 0x80
                    position += 1
                else:
                    number, position = continue_varint(data, position, number)
            if number != index << 1:
                return None

            number = data[position]
            if number == _MINUS_ONE:
                patched[position] = 0
                position += 1
            else:
                result += patched[copied:start]
                result += encode_varint((size >> 1) + 1)
                result += data[after_size:position]
                result += _KEY
                copied = position
                position += 1
                if number > 0x7F:
                    number, position = continue_varint(data, position, number)
                if number & 1:
                    raise CorruptBatch("a key of negative size")
                position += number >> 1

            number = data[position]
            position += 1
            if number > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    number += (byte << 7) - 0x80
                    position += 1
                else:
                    number, position = continue_varint(data, position, number)
            if number & 1:
                if number != _MINUS_ONE:
                    raise CorruptBatch("a value of negative size")
                patched[position - 1] = 0
            else:
                position += number >> 1
            if data[position]:
                return None
            position += 1
            if position != record_end:
                raise CorruptBatch("a record does not end where it said")
    except IndexError:
        raise CorruptBatch(f"there are less than {count} whole records") from None
    if position != end:
        raise CorruptBatch(f"{end - position} bytes follow the last of {count} records")
    result += memoryview(patched)[copied:]
    return result


def encode_records(records: Sequence[Record]) -> bytes:
    """Records as they stand in a batch of Fluvio: without headers, and with offsets by position."""
    parts: list[bytes] = []
    base_timestamp = records[0].timestamp
    for index, record in enumerate(records):
        key, value = record.key, record.value or b""
        before_value = b"\x00%b%b%b%b" % (
            encode_varint(record.timestamp - base_timestamp),
            encode_varint(index),
            _NO_KEY if key is None else _KEY + encode_varint(len(key)) + key,
            encode_varint(len(value)),
        )
        parts += encode_varint(len(before_value) + len(value) + 1), before_value, value, b"\x00"
    return b"".join(parts)
