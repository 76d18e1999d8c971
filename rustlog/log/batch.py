"""
L{RecordBatch}: the unit of appending, storing, reading and checksumming.

The layout is that of Kafka's record batch, version 2, big-endian:

    ========  ====  ========================  ===========================================
    position  size  field                     note
    ========  ====  ========================  ===========================================
    0         8     base_offset               assigned by the store; outside the checksum
    8         4     batch_length              of all that follows this field
    12        4     partition_leader_epoch    assigned by the store; outside the checksum
    16        1     magic                     2
    17        4     crc                       CRC-32C of everything from position 21 on
    21        2     attributes                bits 0-2 codec, 3 timestamp type,
                                              4 transactional, 5 control
    23        4     last_offset_delta
    27        8     base_timestamp            of the first record
    35        8     max_timestamp
    43        8     producer_id               -1: not idempotent
    51        2     producer_epoch
    53        4     base_sequence
    57        4     record_count
    61        ...   records                   compressed as a whole if there is a codec
    ========  ====  ========================  ===========================================

A broker is fast when it does not look inside: nothing here decodes a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Union

from crc32c import crc32c

from rustlog.errors import CorruptBatch, InvalidRecord

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size  # 61
PREFIX_SIZE = 12
"""base_offset and batch_length: what must be seen to know where a batch ends."""

MAGIC = 2
_PREFIX = Struct(">qi")
_PLACEMENT = Struct(">qii")  # base_offset, batch_length, partition_leader_epoch
_CRC = Struct(">I")
_CRC_AT = 17
_CRC_FROM = 21
_AFTER_PLACEMENT = _PLACEMENT.size  # 16

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20

NO_PRODUCER_ID = -1

Buffer = Union[bytes, bytearray, memoryview]


class RecordBatch:
    """
    An immutable view on the bytes of one batch; its header is read at first use.

    Making one checks nothing: L{check} does, for bytes that come from outside.
    """

    __slots__ = ("_fields", "buffer")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self._fields: tuple[int, ...] | None = None

    @property
    def header(self) -> tuple[int, ...]:
        """All header fields, in their order, from one C{struct} call."""
        fields = self._fields
        if fields is None:
            fields = self._fields = HEADER.unpack_from(self.buffer)
        return fields

    @property
    def size(self) -> int:
        """Bytes, header included."""
        return len(self.buffer)

    @property
    def base_offset(self) -> int:
        return self.header[0]

    @property
    def leader_epoch(self) -> int:
        return self.header[2]

    @property
    def magic(self) -> int:
        return self.header[3]

    @property
    def crc(self) -> int:
        return self.header[4]

    @property
    def attributes(self) -> int:
        return self.header[5]

    @property
    def last_offset_delta(self) -> int:
        return self.header[6]

    @property
    def base_timestamp(self) -> int:
        return self.header[7]

    @property
    def max_timestamp(self) -> int:
        return self.header[8]

    @property
    def producer_id(self) -> int:
        return self.header[9]

    @property
    def producer_epoch(self) -> int:
        return self.header[10]

    @property
    def base_sequence(self) -> int:
        return self.header[11]

    @property
    def record_count(self) -> int:
        return self.header[12]

    @property
    def codec(self) -> int:
        """Number of the compression codec; L{rustlog.log.codecs} knows them."""
        return self.header[5] & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.header[5] & TIMESTAMP_TYPE_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.header[5] & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.header[5] & CONTROL_BIT)

    @property
    def last_offset(self) -> int:
        fields = self.header
        return fields[0] + fields[6]

    @property
    def next_offset(self) -> int:
        fields = self.header
        return fields[0] + fields[6] + 1

    @property
    def payload(self) -> memoryview:
        """The records, compressed as they are."""
        return memoryview(self.buffer)[HEADER_SIZE:]

    def has_valid_crc(self) -> bool:
        """Whether the checksum is that of the bytes."""
        return crc32c(memoryview(self.buffer)[_CRC_FROM:]) == self.crc

    def check(self) -> None:
        """
        Judge bytes that come from outside.

        @raise CorruptBatch: they are not one whole batch with a valid checksum.
        @raise InvalidRecord: it has no records, or offsets would not be dense.
        """
        if len(self.buffer) < HEADER_SIZE:
            raise CorruptBatch(f"{len(self.buffer)} bytes are less than a header")
        if self.magic != MAGIC:
            raise CorruptBatch(f"magic is {self.magic}, not {MAGIC}")
        if self.header[1] + PREFIX_SIZE != len(self.buffer):
            present = len(self.buffer) - PREFIX_SIZE
            raise CorruptBatch(f"the length field says {self.header[1]}, there are {present} bytes")
        if not self.has_valid_crc():
            raise CorruptBatch("checksum does not match")
        if self.record_count < 1:
            # Less than one would leave the end of the log where it is, or move it back.
            raise InvalidRecord(f"a batch of {self.record_count} records")
        if self.record_count != self.last_offset_delta + 1:
            raise InvalidRecord(
                f"{self.record_count} records but a last offset delta of {self.last_offset_delta}"
            )

    def placed(self, base_offset: int, leader_epoch: int) -> tuple[bytes, memoryview]:
        """
        The bytes to store: the first fields are replaced, the rest is not copied.
        """
        first = _PLACEMENT.pack(base_offset, self.header[1], leader_epoch)
        return first, memoryview(self.buffer)[_AFTER_PLACEMENT:]

    def at(self, base_offset: int, leader_epoch: int) -> RecordBatch:
        """A copy of this batch at its place in a log."""
        return RecordBatch(b"".join(self.placed(base_offset, leader_epoch)))

    def with_append_time(self, now_ms: int) -> RecordBatch:
        """A copy that bears the time of its arrival: attributes, time and checksum change."""
        fields = list(self.header)
        fields[5] |= TIMESTAMP_TYPE_BIT
        fields[8] = now_ms
        content = bytearray(self.buffer)
        HEADER.pack_into(content, 0, *fields)
        _CRC.pack_into(content, _CRC_AT, crc32c(memoryview(content)[_CRC_FROM:]))
        return RecordBatch(bytes(content))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordBatch) and bytes(self.buffer) == bytes(other.buffer)

    def __hash__(self) -> int:
        return hash(bytes(self.buffer))

    def __repr__(self) -> str:
        return f"<RecordBatch {self.base_offset}..{self.last_offset}, {self.size} bytes>"


def batch_size(buffer: Buffer, position: int = 0) -> int:
    """How many bytes the batch that begins at C{position} claims to have."""
    length: int = _PREFIX.unpack_from(buffer, position)[1]
    return length + PREFIX_SIZE


def build_batch(
    payload: Buffer,
    *,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    last_offset_delta: int | None = None,
) -> RecordBatch:
    """
    Put a header with a right checksum before encoded (and perhaps compressed) records.

    @param last_offset_delta: where offsets have gaps; by default they have none.
    """
    last_delta = record_count - 1 if last_offset_delta is None else last_offset_delta
    content = bytearray(HEADER_SIZE + len(payload))
    content[HEADER_SIZE:] = payload
    length = len(content) - PREFIX_SIZE
    HEADER.pack_into(
        content, 0,
        0, length, -1, MAGIC, 0, attributes, last_delta, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, record_count,
    )  # fmt: skip
    _CRC.pack_into(content, _CRC_AT, crc32c(memoryview(content)[_CRC_FROM:]))
    return RecordBatch(bytes(content))


def split_batches(buffer: Buffer) -> Iterator[RecordBatch]:
    """
    The batches that stand back to back in C{buffer}, without copying.

    @raise CorruptBatch: the last one is not whole.
    """
    view = memoryview(buffer)
    position, end = 0, len(view)
    while position < end:
        if end - position < HEADER_SIZE:
            raise CorruptBatch(f"{end - position} bytes are less than a header")
        size = batch_size(view, position)
        if size < HEADER_SIZE or position + size > end:
            raise CorruptBatch(f"a batch claims {size} bytes where {end - position} are left")
        yield RecordBatch(view[position : position + size])
        position += size
