"""
Fluvio's batches and the log's: two cousins, translated into each other.

A batch of Fluvio has the header of L{the log's <rustlog.log.batch>}, field by field and checksum included,
but for two things.  The count of records, which is the header's last field there, belongs to the records
here and is compressed with them; and bit 4 of the attributes, "transactional" there, means here that a u32,
the id of a schema, follows the header:

    ========  ====  ========================  ===========================================
    position  size  field                     note
    ========  ====  ========================  ===========================================
    0         57    header                    as in the log, without the record count
    57        4     record_count              \\ compressed together, if there is a codec
    61        ...   records                   / (see L{rustlog.wire.fluvio.records})
    ========  ====  ========================  ===========================================

B{In} (L{to_log}): keys, values, timestamps and the codec are kept.  Offsets are given anew by the log.  A
first timestamp of -1 means that there are none; the records get the time of their arrival.  Refused is what
can not be kept or makes no sense: a schema, unknown attributes, a count that is not the last offset delta
plus one, an offset delta that is not the record's position.  Programs that were written by the description of
Fluvio's sources leave the count out.  It is told by its first byte: that of a count is 0, and no record is of
size 0.

B{Out} (L{from_log}): headers are left out, a null value becomes an empty one, the rest is kept.  Fluvio shows
a record at base offset plus position, so that a batch with gaps between its offsets becomes several.  Batches
of control records are not shown.  Records of a LogAppendTime batch bear the time of the append.

What is stored with a codec is shown with it.  That costs compressing once more for each reader, where giving
out plain records would cost nothing; but a producer who compresses has a network in mind that its consumers
use as well, and a megabyte that is kept can be 64 when it is plain, which would have to be held for each of
them until it is sent.  docs/reference/fluvio-protocol.md has figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct

from crc32c import crc32c

from rustlog.errors import CorruptBatch, InvalidRecord
from rustlog.log import codecs
from rustlog.log.batch import HEADER_SIZE as LOG_HEADER_SIZE
from rustlog.log.batch import (
    MAGIC,
    PREFIX_SIZE,
    Buffer,
    RecordBatch,
    batch_size,
    build_batch,
)
from rustlog.log.codecs import Codec
from rustlog.log.records import DECOMPRESSED_BYTES_MAX, NO_TIMESTAMP, decode
from rustlog.model import Record
from rustlog.wire.fluvio import records
from rustlog.wire.fluvio.compression import compress, decompress
from rustlog.wire.fluvio.records import LogRecords

HEADER = Struct(">qiibIhiqqqhi")
HEADER_SIZE = HEADER.size  # 57
_CRC_FROM = 21
_BEFORE_CRC = Struct(">qiibI")
_CHECKED = Struct(">hiqqqhi")
_COUNT = Struct(">i")

SCHEMA_BIT = 0x10
_CODECS = frozenset(map(int, Codec))

RECORDS_MAX = 1_000_000
"""
Of a batch that is sent: about a second of work, in which nobody else is served.  A few kilobytes,
decompressed, can be nine times as many.
"""

_TIMESTAMP_MAX = 2**63 - 1


def split(batches: Buffer) -> Iterator[memoryview]:
    """
    Batches that stand back to back, without copying.

    @raise CorruptBatch: the last one is not whole.
    """
    view = memoryview(batches)
    position, end = 0, len(view)
    while position < end:
        left = end - position
        if left < HEADER_SIZE:
            raise CorruptBatch(f"{left} bytes are less than a header")
        size = batch_size(view, position)
        if not HEADER_SIZE <= size <= left:
            raise CorruptBatch(f"a batch claims {size} bytes where {left} are left")
        yield view[position : position + size]
        position += size


def is_intact(batch: Buffer) -> bool:
    """Whether one whole batch is what it says that it is."""
    _, length, _, magic, checksum = _BEFORE_CRC.unpack_from(batch)
    fits = length + PREFIX_SIZE == len(batch)
    return fits and magic == MAGIC and crc32c(memoryview(batch)[_CRC_FROM:]) == checksum


def next_offset(batch: Buffer) -> int:
    """
    The offset behind the last record of a batch of Fluvio.  That of the batch of the log from which it comes
    can be larger, as the last records of that may be gone.
    """
    fields = HEADER.unpack_from(batch)
    return int(fields[0] + fields[6] + 1)


def offset_behind(batch: Buffer) -> int:
    """The one that follows the last record of a batch."""
    fields = HEADER.unpack_from(batch)
    base_offset, last_delta = fields[0], fields[6]
    return int(base_offset + last_delta + 1)


# -- in --------------------------------------------------------------------------------


def to_log(batches: Buffer, now_ms: int) -> list[RecordBatch]:
    """
    The batches of Fluvio that stand back to back, as the log keeps them.

    @param now_ms: for records without a timestamp.
    @raise CorruptBatch: they are no batches.
    @raise InvalidRecord: something in them can not be kept.
    """
    translated = [_to_log(batch, now_ms) for batch in split(batches)]
    if not translated:
        raise InvalidRecord("there is no batch")
    return translated


def _to_log(batch: memoryview, now_ms: int) -> RecordBatch:
    codec, last_delta, first_timestamp = _checked_header(batch)
    data = decompress(codec, batch[HEADER_SIZE:], DECOMPRESSED_BYTES_MAX)
    position, count = _record_count(data, last_delta)
    found = records.to_log(data, position, count)
    base_timestamp = _base_timestamp(first_timestamp, found, now_ms)
    return build_batch(
        codecs.compress(codec, found.data) if codec else found.data,
        record_count=count,
        base_timestamp=base_timestamp,
        max_timestamp=base_timestamp + found.delta_max,
        attributes=codec,
    )


def _checked_header(batch: memoryview) -> tuple[Codec, int, int]:
    """Codec, last offset delta and first timestamp."""
    _, _, _, magic, _, attributes, last_delta, first_timestamp, *_ = HEADER.unpack_from(batch)
    if magic != MAGIC:
        raise CorruptBatch(f"magic is {magic}, not {MAGIC}")
    if not is_intact(batch):
        raise CorruptBatch("checksum does not match")
    if attributes & SCHEMA_BIT:
        raise InvalidRecord("the id of a schema can not be kept")
    if attributes not in _CODECS:
        raise InvalidRecord(f"unknown attributes {attributes & 0xFFFF:#06x}")
    return Codec(attributes), last_delta, first_timestamp


def _record_count(data: bytes, last_delta: int) -> tuple[int, int]:
    """Where the records begin, and how many there are."""
    position, count = 0, last_delta + 1
    if data[:1] == b"\0":
        if len(data) < _COUNT.size:
            raise CorruptBatch("the content ends within the count of records")
        position, count = _COUNT.size, _COUNT.unpack_from(data)[0]
    if count < 1:
        raise InvalidRecord(f"a batch of {count} records")
    if count != last_delta + 1:
        raise InvalidRecord(f"{count} records but a last offset delta of {last_delta}")
    if count > RECORDS_MAX:
        raise InvalidRecord(f"a batch of {count} records, where {RECORDS_MAX} are allowed")
    return position, count


def _base_timestamp(first_timestamp: int, found: LogRecords, now_ms: int) -> int:
    if first_timestamp == NO_TIMESTAMP and found.delta_min == found.delta_max == 0:
        return now_ms
    if first_timestamp + found.delta_min < 0 or first_timestamp + found.delta_max > _TIMESTAMP_MAX:
        raise InvalidRecord("a timestamp is not within 0..2**63-1")
    if first_timestamp < 0:
        raise InvalidRecord("timestamps are counted from none")
    return first_timestamp


# -- out -------------------------------------------------------------------------------


def from_log(batch: RecordBatch) -> list[bytes]:
    """
    A batch of the log as Fluvio shows it: several, where offsets have gaps, and none where there is nothing
    to show.  What a client has read when it has read them is L{next_offset} of the last one.

    @raise CorruptBatch: its content is damaged.
    @raise InvalidRecord: its codec is unknown.
    """
    if batch.is_control or not batch.record_count:
        return []
    if not batch.is_log_append_time:
        found = _records_from_log(batch)
        if found is not None:
            times = batch.base_timestamp, batch.max_timestamp
            return [_build(found, batch.record_count, batch.base_offset, *times, Codec(batch.codec))]
    return [build(run, Codec(batch.codec), _offset(run[0])) for run in _runs(decode(batch))]


def _records_from_log(batch: RecordBatch) -> Buffer | None:
    if batch.codec == Codec.NONE:
        return records.from_log(bytes(batch.buffer), LOG_HEADER_SIZE, batch.record_count)
    data = codecs.decompress(batch.codec, batch.payload, DECOMPRESSED_BYTES_MAX)
    return records.from_log(data, 0, batch.record_count)


def _runs(found: Iterable[Record]) -> Iterator[list[Record]]:
    """Records whose offsets follow each other."""
    run: list[Record] = []
    for record in found:
        if run and record.offset != _offset(run[-1]) + 1:
            yield run
            run = []
        run.append(record)
    if run:
        yield run


def _offset(record: Record) -> int:
    assert record.offset is not None
    return record.offset


def build(run: Sequence[Record], codec: Codec = Codec.NONE, base_offset: int = 0) -> bytes:
    """A batch of these records, one offset after the other."""
    times = run[0].timestamp, max(each.timestamp for each in run)
    return _build(records.encode_records(run), len(run), base_offset, *times, codec)


def _build(
    content: Buffer, count: int, base_offset: int, first_timestamp: int, max_timestamp: int, codec: Codec
) -> bytes:
    """A header with a right checksum, and records behind it."""
    payload = b"".join((_COUNT.pack(count), content))
    if codec:
        payload = compress(codec, payload)
    checked = _CHECKED.pack(codec, count - 1, first_timestamp, max_timestamp, -1, -1, -1)
    checksum = crc32c(payload, crc32c(checked))
    length = HEADER_SIZE - PREFIX_SIZE + len(payload)
    return b"".join((_BEFORE_CRC.pack(base_offset, length, -1, MAGIC, checksum), checked, payload))
