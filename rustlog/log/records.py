"""
The records inside a batch: building, decoding, finding by time.

Each record is, in L{zigzag varints <rustlog.log.varints>}:

    ==================  =============================================================
    size                varint; of all that follows
    attributes          1 byte, unused
    timestamp delta     varint; from the base timestamp of the batch
    offset delta        varint; from its base offset
    key                 varint size, -1 for null; that many bytes
    value               varint size, -1 for null; that many bytes
    headers             varint count; each has a key (UTF-8) and a value like the above
    ==================  =============================================================

A header key that is not UTF-8 is kept: its stray bytes become lone surrogates
(C{surrogateescape}) and turn into themselves again when the record is built anew.

This is the slowest part of a broker in Python, so it is only for those who must look
inside: protocols that show records one by one, lookups by time, tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rustlog.errors import CorruptBatch, InvalidRecord, RequestRefused
from rustlog.log.batch import CODEC_MASK, HEADER_SIZE, NO_PRODUCER_ID, RecordBatch, build_batch
from rustlog.log.codecs import Codec, compress, decompress
from rustlog.log.varints import NULL, continue_varint, encode_varint, read_varint
from rustlog.model import Record

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
"""
What a compressed batch may become: six times the largest record that every protocol
carries, so that no honest batch is near it, and a quarter of the memory that requests may use by default.
"""

NO_TIMESTAMP = -1
_TIMESTAMP_MIN, _TIMESTAMP_MAX = -(2**63), 2**63 - 1

Headers = tuple[tuple[str, bytes | None], ...]

# -- building ------------------------------------------------------------------------


def build(
    records: Iterable[Record],
    *,
    now_ms: int,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> RecordBatch:
    """
    Make a batch.  A record without a timestamp gets C{now_ms}; offsets are given anew, from 0.

    @raise InvalidRecord: there are no records, or one of them can not be expressed.
    """
    records = list(records)
    if not records:
        raise InvalidRecord("a batch needs at least one record")
    timestamps = [now_ms if record.timestamp == NO_TIMESTAMP else record.timestamp for record in records]
    if min(timestamps) < 0 or max(timestamps) > _TIMESTAMP_MAX:
        raise InvalidRecord("a timestamp is not within 0..2**63-1")
    return build_batch(
        compress(codec, encode_records(records, timestamps)),
        record_count=len(records),
        base_timestamp=timestamps[0],
        max_timestamp=max(timestamps),
        attributes=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def encode_records(records: Sequence[Record], timestamps: Sequence[int]) -> bytes:
    """Records as they stand in a batch that is not compressed; their offsets are counted from 0."""
    parts: list[bytes] = []
    base_timestamp = timestamps[0]
    for offset_delta, record in enumerate(records):
        key, value = record.key, record.value
        before_key = b"\x00%b%b%b" % (
            encode_varint(timestamps[offset_delta] - base_timestamp),
            encode_varint(offset_delta),
            NULL if key is None else encode_varint(len(key)) + key,
        )
        value_size = NULL if value is None else encode_varint(len(value))
        value = value or b""
        headers = _encode_headers(record.headers) if record.headers else b"\x00"
        size = len(before_key) + len(value_size) + len(value) + len(headers)
        parts += encode_varint(size), before_key, value_size, value, headers
    return b"".join(parts)


def _encode_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for key, value in headers:
        try:
            name = key.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise InvalidRecord(f"header key {key!r} is not text") from None
        parts += encode_varint(len(name)), name
        parts += (NULL,) if value is None else (encode_varint(len(value)), value)
    return b"".join(parts)


# -- decoding ------------------------------------------------------------------------


def uncompressed(batch: RecordBatch, size_max: int = DECOMPRESSED_BYTES_MAX) -> RecordBatch:
    """
    A copy of its own with the same records, at the same place, as they are without compression: for who
    takes it apart little by little.

    @raise CorruptBatch: the content does not decompress.
    @raise InvalidRecord: the codec is unknown.
    """
    if batch.codec == Codec.NONE:
        return RecordBatch(bytes(batch.buffer))
    payload = decompress(batch.codec, batch.payload, size_max)
    plain = build_batch(
        payload,
        record_count=batch.record_count,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        attributes=batch.attributes & ~CODEC_MASK,
        last_offset_delta=batch.last_offset_delta,
    )
    return plain.at(batch.base_offset, batch.leader_epoch)


def decode(
    batch: RecordBatch, *, from_offset: int = 0, size_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """
    The records of a batch, one at a time, with their offsets and timestamps.

    @param from_offset: records before this offset are passed over.
    @raise CorruptBatch: at once when the content does not decompress; else from the iterator, at
        the record where it turns out to be damaged.
    @raise InvalidRecord: at once; the codec is unknown.
    """
    if from_offset > batch.last_offset:
        return iter(())
    if batch.codec == Codec.NONE:
        return _decode_records(batch, bytes(batch.buffer), HEADER_SIZE, from_offset)
    return _decode_records(batch, decompress(batch.codec, batch.payload, size_max), 0, from_offset)


def _decode_records(batch: RecordBatch, data: bytes, position: int, from_offset: int) -> Iterator[Record]:
    """
    The loop itself, in one piece for speed.  It reads on without fear: whatever goes beyond the
    end of a record is found out when the record does not end where it said.
    """
    base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
    append_time = batch.max_timestamp if batch.is_log_append_time else None
    from_delta, delta_max, last_delta = from_offset - base_offset, batch.last_offset_delta, -1
    end = len(data)
    try:
        for _ in range(batch.record_count):
            number = data[position]
            position += 1
            if number > 0x7F:
                number, position = continue_varint(data, position, number)
            record_end = position + (number >> 1)
            if number & 1 or record_end > end:
                raise CorruptBatch("a record is larger than what is left, or of negative size")

            number = data[position + 1]  # one byte of attributes is passed over
            position += 2
            if number > 0x7F:
                number, position = continue_varint(data, position, number)
            timestamp = base_timestamp + (number >> 1 ^ -(number & 1)) if append_time is None else append_time
            if not _TIMESTAMP_MIN <= timestamp <= _TIMESTAMP_MAX:
                raise CorruptBatch("a timestamp has more than 64 bits")

            number = data[position]
            position += 1
            if number > 0x7F:
                number, position = continue_varint(data, position, number)
            delta = number >> 1
            if number & 1 or not last_delta < delta <= delta_max:
                raise CorruptBatch("offsets do not ascend within those of the batch")
            last_delta = delta
            if delta < from_delta:
                position = record_end
                continue

            number = data[position]
            position += 1
            if number > 0x7F:
                number, position = continue_varint(data, position, number)
            if number & 1:
                _check_null(number)
                key = None
            else:
                start = position
                position += number >> 1
                key = data[start:position]

            number = data[position]
            position += 1
            if number > 0x7F:
                number, position = continue_varint(data, position, number)
            if number & 1:
                _check_null(number)
                value = None
            else:
                start = position
                position += number >> 1
                value = data[start:position]

            headers: Headers = ()
            if data[position]:
                headers, position = _decode_headers(data, position)
            else:
                position += 1
            if position != record_end:
                raise CorruptBatch("a record does not end where it said")
            yield Record(value, key, headers, timestamp, base_offset + delta)
    except IndexError:
        raise CorruptBatch(f"there are less than {batch.record_count} whole records") from None
    if position != end:
        raise CorruptBatch(f"{end - position} bytes follow the last of {batch.record_count} records")


def _decode_headers(data: bytes, position: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position)
    if count & 1:
        raise CorruptBatch("a negative number of headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count >> 1):
        size, position = read_varint(data, position)
        if size & 1:
            raise CorruptBatch("a header key of negative size")
        name = data[position : position + (size >> 1)]
        size, position = read_varint(data, position + (size >> 1))
        if size & 1:
            _check_null(size)
            value = None
        else:
            value = data[position : position + (size >> 1)]
            position += size >> 1
        headers.append((name.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position


def _check_null(size: int) -> None:
    """A negative size must be -1, which as a varint is 1."""
    if size != 1:
        raise CorruptBatch("a key or value of negative size")


# -- finding by time -----------------------------------------------------------------


def first_at_or_after(batch: RecordBatch, timestamp_ms: int, *, from_offset: int = 0) -> Record | None:
    """
    The first record, at C{from_offset} or behind it, that is not older than C{timestamp_ms}.

    @raise CorruptBatch: as L{decode} does.
    """
    if batch.max_timestamp < timestamp_ms:
        return None
    records = decode(batch, from_offset=from_offset)
    return next((record for record in records if record.timestamp >= timestamp_ms), None)


def first_with_max_timestamp(batch: RecordBatch) -> Record | None:
    """
    The record whose timestamp is the largest; the first, if there are several, as in Kafka.
    C{None} if the batch bears no timestamps.

    @raise CorruptBatch: as L{decode} does.
    """
    if batch.max_timestamp == NO_TIMESTAMP:
        return None
    return first_at_or_after(batch, batch.max_timestamp)


def max_timestamp_from(batch: RecordBatch, offset: int) -> int:
    """
    The largest timestamp of the records at C{offset} or behind it: what is left to find of a batch
    whose beginning has been deleted.
    """
    try:
        return max((each.timestamp for each in decode(batch, from_offset=offset)), default=-1)
    except RequestRefused:
        return batch.max_timestamp  # The producer's records are no records; the header must do.
