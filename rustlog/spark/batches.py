"""
The batches in a fetch or in a part of a file: found, and chosen, all at once.

Logs of small batches have a lot of them, so that there are only two loops over batches: one finds where they
begin, the other compares checksums.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

import numpy as np
from attrs import frozen
from crc32c import crc32c
from numpy.typing import NDArray

from rustlog.log.batch import CODEC_MASK, HEADER_SIZE, MAGIC, PREFIX_SIZE, Buffer, RecordBatch
from rustlog.model import MAX_OFFSET
from rustlog.spark.errors import CorruptLog
from rustlog.spark.transactions import TRANSACTION_BITS, Aborted, Transactions
from rustlog.spark.varints import Numbers

HEADER = np.dtype(
    [
        ("base_offset", ">i8"), ("batch_length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"),
        ("crc", ">u4"), ("attributes", ">i2"), ("last_offset_delta", ">i4"), ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"), ("producer_id", ">i8"), ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"), ("record_count", ">i4"),
    ]
)  # fmt: skip
"""That of L{rustlog.log.batch}, for many of them."""

_LENGTH = Struct(">8xi")
_CRC_FROM = 21


@frozen
class Batches:
    """
    Some batches in a buffer.

    @ivar positions: where each begins.
    @ivar headers: an array of L{HEADER}.
    """

    topic: str
    partition: int
    view: memoryview
    positions: Numbers
    headers: Any

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, which: slice | Numbers) -> Batches:
        """Some of them."""
        return Batches(self.topic, self.partition, self.view, self.positions[which], self.headers[which])

    def __iter__(self) -> Iterator[RecordBatch]:
        """Each by itself, without copying."""
        for begin, end in zip(self.positions.tolist(), self.ends.tolist(), strict=True):
            yield RecordBatch(self.view[begin:end])

    def field(self, name: str) -> Numbers:
        """Of the header of each."""
        numbers: Numbers = self.headers[name].astype(np.int64)
        return numbers

    @property
    def ends(self) -> Numbers:
        """Behind each."""
        return self.positions + self.field("batch_length") + PREFIX_SIZE

    @property
    def last_offsets(self) -> Numbers:
        """Of each, as far as it says so itself."""
        return self.field("base_offset") + self.field("last_offset_delta")

    @property
    def is_compressed(self) -> NDArray[np.bool_]:
        """Of each."""
        return (self.field("attributes") & CODEC_MASK) != 0

    def corrupt(self, number: int, reason: str) -> CorruptLog:
        """What to say of one of them."""
        return CorruptLog(self.topic, self.partition, int(self.headers["base_offset"][number]), reason)

    def verify(self) -> None:
        """
        Compare the checksums.

        @raise CorruptLog: one is wrong.
        """
        begins, ends, sums = self.positions + _CRC_FROM, self.ends, self.headers["crc"]
        bounds = zip(begins.tolist(), ends.tolist(), sums.tolist(), strict=True)
        for number, (begin, end, expected) in enumerate(bounds):
            if crc32c(self.view[begin:end]) != expected:
                raise self.corrupt(number, "the checksum of the batch does not match")


def find_batches(buffer: Buffer, topic: str, partition: int, *, may_be_cut_off: bool = False) -> Batches:
    """
    The batches that stand back to back, without copying, and unchecked.

    @param may_be_cut_off: whether the last one may be incomplete, and is left out then: what is fetched may
        end anywhere.
    @raise CorruptLog: there is something else.
    """
    view, position, found, unpack = memoryview(buffer), 0, [], _LENGTH.unpack_from
    last = len(view) - HEADER_SIZE
    while position <= last:
        size = unpack(view, position)[0] + PREFIX_SIZE
        if size < HEADER_SIZE or position + size > len(view):
            break
        found.append(position)
        position += size
    batches = _batches(topic, partition, view, found)
    _check_magic(batches)
    if position < len(view):
        problem = _problem_behind(batches, position, may_be_cut_off)
        if problem is not None:
            raise problem
    return batches


def all_batches(
    buffer: Buffer, topic: str, partition: int, *, may_be_cut_off: bool = False
) -> Iterator[tuple[int, RecordBatch]]:
    """The same, one by one, and where each begins."""
    batches = find_batches(buffer, topic, partition, may_be_cut_off=may_be_cut_off)
    return zip(batches.positions.tolist(), batches, strict=True)


def _batches(topic: str, partition: int, view: memoryview, found: list[int]) -> Batches:
    positions, data = np.array(found, np.int64), np.frombuffer(view, np.uint8)
    headers = data[positions[:, None] + np.arange(HEADER_SIZE)].view(HEADER)[:, 0]
    return Batches(topic, partition, view, positions, headers)


def _check_magic(batches: Batches) -> None:
    magic = batches.headers["magic"]
    wrong = np.flatnonzero(magic != MAGIC)
    if wrong.size:
        raise batches.corrupt(int(wrong[0]), _wrong_magic(int(magic[wrong[0]])))


def _wrong_magic(magic: int) -> str:
    if magic in (0, 1):
        return f"message format {magic}, older than Kafka 0.11, is not supported"
    return f"magic is {magic}, not {MAGIC}: there is no batch here"


def _problem_behind(batches: Batches, position: int, may_be_cut_off: bool) -> CorruptLog | None:
    """What is wrong with what stands behind the last whole batch, if anything is."""
    left = len(batches.view) - position
    if left < HEADER_SIZE:
        offset = int(batches.last_offsets[-1]) + 1 if len(batches) else -1
        problem = CorruptLog(
            batches.topic, batches.partition, offset, f"the last {left} bytes are less than a header"
        )
        return None if may_be_cut_off else problem
    batch = RecordBatch(batches.view[position:])
    size = batch.header[1] + PREFIX_SIZE
    reason = f"a batch claims {size} bytes where {left} are left"
    if batch.magic != MAGIC:
        reason = _wrong_magic(batch.magic)
    elif may_be_cut_off and size > left:
        return None
    return CorruptLog(batches.topic, batches.partition, batch.base_offset, reason)


def choose(
    batches: Batches,
    *,
    from_offset: int = 0,
    to_offset: int = MAX_OFFSET,
    aborted: Aborted = (),
    with_markers: bool = False,
) -> Batches:
    """
    Those that have records in [C{from_offset}, C{to_offset}) which may be seen.  Checksums are not compared.

    @param aborted: (producer id, first offset) of transactions to be left out.
    @param with_markers: control batches are wanted, too.
    @raise CorruptLog: what the headers say does not go together.
    """
    is_near = (batches.last_offsets >= from_offset) & (batches.field("base_offset") < to_offset)
    near = batches if is_near.all() else batches[np.flatnonzero(is_near)]
    _check_headers(near)
    is_wanted = near.field("record_count") > 0
    attributes = near.headers["attributes"]
    if (attributes & TRANSACTION_BITS).any():
        transactions = Transactions(aborted, near.topic, near.partition)
        is_wanted &= [not transactions.exclude(batch, with_markers) for batch in near]
    return near if is_wanted.all() else near[np.flatnonzero(is_wanted)]


def _check_headers(batches: Batches) -> None:
    deltas, counts = batches.field("last_offset_delta"), batches.field("record_count")
    bases, lasts = batches.field("base_offset"), batches.last_offsets
    ascends = deltas >= 0
    ascends[1:] &= bases[1:] > lasts[:-1]
    for is_right, reason in (
        (ascends, "offsets do not ascend"),
        ((counts >= 0) & (counts <= deltas + 1), "there are more records than offsets"),
    ):
        wrong = np.flatnonzero(~is_right)
        if wrong.size:
            raise batches.corrupt(int(wrong[0]), reason)
