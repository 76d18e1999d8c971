"""
MiniKafka's record, and the batches that are made of records when they are read.

All numbers are big-endian and signed, but for the checksum:

    ========  ====  ==============  ==================================
    position  size  field           note
    ========  ====  ==============  ==================================
    0         4     length          of all that follows this field
    4         4     checksum        CRC-32 (zlib's) of the payload only
    8         8     offset          one more than that of the record before
    16        8     timestamp       milliseconds
    24        4     key length
    28        ...   key
    ...       4     payload length
    ...       ...   payload
    ========  ====  ==============  ==================================

Everything here is plain bytes and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from zlib import crc32

from rustlog.log import records
from rustlog.log.batch import RecordBatch, build_batch
from rustlog.model import Record
from rustlog.storage.minikafka.limits import refuse
from rustlog.storage.segments.partition import Encoded
from rustlog.storage.segments.reading import Damage
from rustlog.storage.segments.walking import CHUNK_BYTES, Read

HEADER = Struct(">iIqqi")
HEADER_BYTES = HEADER.size  # 28
OFFSET_AT = 8

_SIZE = Struct(">i")
_LENGTH_BYTES = 4
LENGTH_MIN = HEADER_BYTES  # What follows the length: the rest of the header, and the length of the payload.
OVERHEAD_BYTES = HEADER_BYTES + _SIZE.size
"""
What a record has beside key and payload.  In a batch it never has more, since timestamps lie within
L{TIME_SPAN_MAX} there: so a batch is no larger than its records here and a batch's header.
"""

RUN_RECORDS_MAX = 8_000
RUN_BYTES_MAX = 1024 * 1024
"""So much at most becomes one batch."""

TIME_SPAN_MAX = 2**62
"""How far the timestamps in one batch may lie apart: differences must fit 64 bits."""

_NO_RECORD = "there is no record where one should begin"
TORN = "the file ends within a record"
WRONG_CHECKSUM = "the checksum of the payload does not match"

# -- writing -------------------------------------------------------------------------


def encode(value: bytes, key: bytes, timestamp: int, offset: int) -> bytes:
    """One record."""
    length = LENGTH_MIN + len(key) + len(value)
    header = HEADER.pack(length, crc32(value), offset, timestamp, len(key))
    return b"%b%b%b%b" % (header, key, _SIZE.pack(len(value)), value)


def encode_batch(batch: RecordBatch, base_offset: int) -> Encoded:
    """
    The records of a batch, whatever its codec.

    @raise RustlogError: it has something that the format can not hold, or is not made of records.
    """
    refuse(batch)
    parts, entries = [], []
    for offset, record in enumerate(records.decode(batch), base_offset):
        if record.headers or record.value is None:
            refuse(batch, record)
        part = encode(record.value or b"", record.key or b"", record.timestamp, offset)
        parts.append(part)
        entries.append((offset, len(part), record.timestamp))
    content = b"".join(parts)
    return Encoded((content,), len(content), entries)


# -- reading -------------------------------------------------------------------------


def split(content: bytes, at: int, expected: int | None) -> Iterator[tuple[int, Record, bool]]:
    """
    The whole records from C{at} on: where each ends, itself, and whether its payload has the right checksum.

    @param expected: the offset of the first one, if that is known.  Only payloads have a checksum: that
        lengths agree, and that offsets follow each other, is what guards the rest.
    @raise Damage: at the first that is no record.
    """
    end, unpack, unpack_size = len(content), HEADER.unpack_from, _SIZE.unpack_from
    while at + HEADER_BYTES <= end:
        length, checksum, offset, timestamp, key_size = unpack(content, at)
        following = at + _LENGTH_BYTES + length
        if length < LENGTH_MIN or not 0 <= key_size <= length - LENGTH_MIN:
            raise Damage(at, _NO_RECORD)
        if following > end:
            return
        key_at = at + HEADER_BYTES
        key_end = key_at + key_size
        value_at = key_end + 4
        if value_at + unpack_size(content, key_end)[0] != following:
            raise Damage(at, _NO_RECORD)
        if offset != expected and expected is not None:
            raise Damage(at, f"offset {offset} stands where {expected} should")
        value = content[value_at:following]
        record = Record(value, content[key_at:key_end], (), timestamp, offset)
        yield following, record, crc32(value) == checksum
        at, expected = following, offset + 1


def walk(read: Read, start: int, end: int, expected: int) -> Iterator[tuple[int, int, Record, bool]]:
    """
    Every record between two positions: where it begins, its size, itself, and whether its payload has the
    right checksum.  Blocks.

    @raise Damage: at the first that is no record, or not whole.
    """
    chunk, chunk_start, position = b"", start, start
    while position < end:
        try:
            for following, record, is_right in split(chunk, position - chunk_start, expected):
                size = chunk_start + following - position
                yield position, size, record, is_right
                position += size
                expected += 1
        except Damage as damage:
            raise Damage(chunk_start + damage.position, damage.reason) from None
        rest = len(chunk) - (position - chunk_start)
        wanted = min(_bytes_wanted(chunk, position - chunk_start), end - position)
        if wanted <= rest:
            if position < end:
                raise Damage(position, TORN)
            return
        chunk, chunk_start = read(position, wanted), position
        if len(chunk) < wanted:
            end = position + len(chunk)  # Someone has cut it off meanwhile.


def _bytes_wanted(chunk: bytes, at: int) -> int:
    """How much must be read to have the next record whole, and others with it."""
    if len(chunk) - at < _LENGTH_BYTES:
        return CHUNK_BYTES
    return max(CHUNK_BYTES, _LENGTH_BYTES + int(_SIZE.unpack_from(chunk, at)[0]))


def another_follows(content: bytes, expected: int) -> bool:
    """Whether a whole, right record of a later offset stands behind the bad one at the beginning."""
    high = expected >> 16
    return any(_is_found(content, each, expected) for each in (high, high + 1))


def _is_found(content: bytes, high: int, expected: int) -> bool:
    """The same for records whose offsets have these upper 48 bits."""
    pattern = high.to_bytes(6, "big")
    found = content.find(pattern, OFFSET_AT + 1)
    while found >= 0:
        if _is_record(content, found - OFFSET_AT, expected):
            return True
        found = content.find(pattern, found + 1)
    return False


def _is_record(content: bytes, at: int, expected: int) -> bool:
    try:
        _, record, is_right = next(split(content, at, None))
    except (Damage, StopIteration):
        return False
    return is_right and record.offset is not None and record.offset > expected


# -- batches -------------------------------------------------------------------------


def make_batch(run: Sequence[Record], leader_epoch: int) -> RecordBatch:
    """A batch of records whose offsets follow each other."""
    timestamps = [record.timestamp for record in run]
    batch = build_batch(
        records.encode_records(run, timestamps),
        record_count=len(run),
        base_timestamp=timestamps[0],
        max_timestamp=max(timestamps),
    )
    assert run[0].offset is not None
    return batch.at(run[0].offset, leader_epoch)
