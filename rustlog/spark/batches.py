"""
The batches in a fetch or in a part of a file: found, checked, and chosen.

Every batch that is handed on has its checksum verified.  Left out are batches outside the wanted offsets,
control batches, and those of transactions that were aborted: a fetch of committed data comes with a list of
such transactions (producer id, first offset), each of which ends at the producer's next abort marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

from rustlog.errors import RustlogError
from rustlog.log.batch import (
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    PREFIX_SIZE,
    TRANSACTIONAL_BIT,
    Buffer,
    RecordBatch,
)
from rustlog.log.codecs import decompress
from rustlog.model import MAX_OFFSET
from rustlog.spark.errors import CorruptLog

Aborted = Iterable[tuple[int, int]]
"""Producer id and first offset of each transaction."""

RECORD_BYTES_MIN = 7
"""One byte each for size, attributes, two deltas, two sizes and the number of headers."""

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""What a compressed batch may become here: brokers of others admit larger ones than ours."""

_TRANSACTIONS = TRANSACTIONAL_BIT | CONTROL_BIT
_MARKER = Struct(">hh")
_ABORT = 0


def all_batches(
    buffer: Buffer, topic: str, partition: int, *, may_be_cut_off: bool = False
) -> Iterator[tuple[int, RecordBatch]]:
    """
    The batches that stand back to back, and where each begins; without copying, and unchecked.

    @param may_be_cut_off: whether the last one may be incomplete, and is left out then: what is fetched may
        end anywhere.
    @raise CorruptLog: there is something else.
    """
    view = memoryview(buffer)
    position, end, offset = 0, len(view), -1
    while position < end:
        left = end - position
        if left < HEADER_SIZE:
            if may_be_cut_off:
                return
            raise CorruptLog(topic, partition, offset, f"the last {left} bytes are less than a header")
        fields = HEADER.unpack_from(view, position)
        base_offset, size = fields[0], fields[1] + PREFIX_SIZE
        if fields[3] != MAGIC:
            raise CorruptLog(topic, partition, base_offset, _wrong_magic(fields[3]))
        if size < HEADER_SIZE:
            raise CorruptLog(topic, partition, base_offset, f"a batch claims to have {size} bytes")
        if size > left:
            if may_be_cut_off:
                return
            raise CorruptLog(
                topic, partition, base_offset, f"a batch claims {size} bytes where {left} are left"
            )
        batch = RecordBatch(view[position : position + size])
        yield position, batch
        position, offset = position + size, batch.next_offset


def _wrong_magic(magic: int) -> str:
    if magic in (0, 1):
        return f"message format {magic}, older than Kafka 0.11, is not supported"
    return f"magic is {magic}, not {MAGIC}: there is no batch here"


def chosen_batches(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    from_offset: int = 0,
    to_offset: int = MAX_OFFSET,
    aborted: Aborted = (),
    may_be_cut_off: bool = False,
    with_markers: bool = False,
) -> Iterator[tuple[int, RecordBatch]]:
    """
    The batches, and where they begin, with records in [C{from_offset}, C{to_offset}), each checked.

    @param with_markers: control batches are wanted, too.

    @raise CorruptLog: at the first that is not right.
    """
    transactions = _Transactions(aborted, topic, partition)
    last = -1
    for position, batch in all_batches(buffer, topic, partition, may_be_cut_off=may_be_cut_off):
        # One look at the header: this is done for every batch, and some are small.
        base_offset, _, _, _, _, attributes, last_delta, *_, record_count = batch.header
        if base_offset >= to_offset:
            return
        if base_offset + last_delta < from_offset:
            continue
        _check(batch, last, topic, partition)
        last = base_offset + last_delta
        if attributes & _TRANSACTIONS and transactions.exclude(batch, with_markers):
            continue
        if record_count:
            yield position, batch


def _check(batch: RecordBatch, last: int, topic: str, partition: int) -> None:
    base_offset, _, _, _, _, _, last_delta, *_, record_count = batch.header
    reason = ""
    if not batch.has_valid_crc():
        reason = "the checksum of the batch does not match"
    elif last_delta < 0 or base_offset <= last:
        reason = "offsets do not ascend"
    elif not 0 <= record_count <= last_delta + 1:
        reason = f"{record_count} records do not fit {last_delta + 1} offsets"
    if reason:
        raise CorruptLog(topic, partition, batch.base_offset, reason)


class _Transactions:
    """Which producers are inside of an aborted transaction, while one goes along the log."""

    def __init__(self, aborted: Aborted, topic: str, partition: int) -> None:
        self._coming = sorted(aborted, key=lambda each: each[1], reverse=True)
        self._open: set[int] = set()
        self._place = topic, partition

    def exclude(self, batch: RecordBatch, with_markers: bool) -> bool:
        """Whether this one is a marker that is not wanted, or belongs to an aborted transaction."""
        while self._coming and self._coming[-1][1] <= batch.last_offset:
            self._open.add(self._coming.pop()[0])
        if batch.is_control:
            if batch.producer_id in self._open and self._is_abort(batch):
                self._open.discard(batch.producer_id)
            return not with_markers
        return batch.is_transactional and batch.producer_id in self._open

    def _is_abort(self, batch: RecordBatch) -> bool:
        """The key of the only record of a control batch has a version and a type."""
        payload = payload_of(batch, *self._place)
        # size, attributes, timestamp delta, offset delta, key size: one byte each in a marker.
        if len(payload) < 5 + _MARKER.size:
            raise CorruptLog(*self._place, batch.base_offset, "a control batch has no marker")
        return bool(_MARKER.unpack_from(payload, 5)[1] == _ABORT)


def payload_of(batch: RecordBatch, topic: str, partition: int) -> Buffer:
    """
    The records of a batch as they are without compression.

    @raise CorruptLog: they do not decompress, or there can not be so many.
    """
    payload: Buffer = batch.payload
    if batch.codec:
        try:
            payload = decompress(batch.codec, payload, DECOMPRESSED_BYTES_MAX)
        except RustlogError as error:
            raise CorruptLog(topic, partition, batch.base_offset, str(error)) from None
    if batch.record_count * RECORD_BYTES_MIN > len(payload):
        reason = f"there are less than {batch.record_count} records in {len(payload)} bytes"
        raise CorruptLog(topic, partition, batch.base_offset, reason)
    return payload
