"""
From Arrow to record batches, by columns: the reverse of L{rustlog.spark.decoding}.

Of each record, all that stands before its key is written for all records at once, and so is what stands
between key and value. Then Arrow joins these columns and the user's, row by row, into one that is the content
of the batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen

from rustlog.log.batch import NO_PRODUCER_ID, build_batch
from rustlog.log.codecs import Codec, compress
from rustlog.spark import varints
from rustlog.spark.contents import Content, contents
from rustlog.spark.gathering import binary
from rustlog.spark.varints import Numbers

BATCH_BYTES = 512 * 1024
BATCH_RECORDS = 16 * 1024

_OVERHEAD_BYTES = 40
"""More than a record has beside its key, value and headers."""

_SEQUENCE_MASK = 2**31 - 1


@frozen
class ProducerState:
    """
    Who writes: what an idempotent producer puts into its batches.

    @ivar sequence: the number of the first record; those of one partition follow each other.
    """

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1
    sequence: int = -1

    def after(self, records: int) -> ProducerState:
        """The same, so many records later; after the highest number comes 0."""
        if self.producer_id == NO_PRODUCER_ID:
            return self
        return evolve(self, sequence=(self.sequence + records) & _SEQUENCE_MASK)


ANONYMOUS = ProducerState()
"""Who does not mind that a record may be there twice."""


@frozen
class EncodedBatch:
    """One batch, to be produced; C{row} is that of its first record."""

    data: bytes
    row: int
    records: int


def encode(
    rows: pa.RecordBatch | pa.Table,
    *,
    now_ms: int,
    codec: Codec = Codec.NONE,
    batch_bytes: int = BATCH_BYTES,
    batch_records: int = BATCH_RECORDS,
    producer: ProducerState = ANONYMOUS,
) -> Iterator[EncodedBatch]:
    """
    Make batches of the columns C{value}, and C{key}, C{timestamp}, C{headers} if they are there; others are
    not looked at.  Batches do not span the chunks of a table.

    @param rows: C{key} and C{value} are binary or string; C{timestamp} is a timestamp of any unit, or a
        number of milliseconds; C{headers} as L{rustlog.spark.columns.SCHEMA} has it.
    @param now_ms: for records without a timestamp.
    @param batch_bytes: how large a batch gets before it is compressed; a single record may be larger.
    @param producer: the sequence number is counted on from batch to batch.
    @raise BadOption: a column is missing, is of another type, or has something that no record can have.
    """
    done = 0
    for content in contents(rows, now_ms):
        firsts = _split(content, batch_bytes, batch_records)
        records = _join(content, firsts)
        for first, last in zip(firsts, [*firsts[1:].tolist(), len(content.times)], strict=True):
            times = content.times[first:last]
            batch = build_batch(
                compress(codec, records.between(first, last)),
                record_count=int(last - first),
                base_timestamp=int(times[0]),
                max_timestamp=int(times.max()),
                attributes=codec,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=producer.sequence,
            )
            yield EncodedBatch(bytes(batch.buffer), done + int(first), int(last - first))
            producer = producer.after(int(last - first))
        done += len(content.times)


def _split(content: Content, batch_bytes: int, batch_records: int) -> Numbers:
    """The first row of each batch."""
    ends = np.cumsum(content.sizes + _OVERHEAD_BYTES)
    firsts, first, count = [], 0, len(ends)
    while first < count:
        firsts.append(first)
        room = batch_bytes + (int(ends[first - 1]) if first else 0)
        fitting = int(np.searchsorted(ends, room, side="right"))
        first = min(max(fitting, first + 1), first + batch_records)
    return np.array(firsts, np.int64)


@frozen
class _Records:
    """The content of batches, record by record."""

    ends: Numbers
    data: memoryview

    def between(self, first: int, last: int) -> memoryview:
        start = self.ends[first]
        return self.data[start : self.ends[last]]


def _join(content: Content, firsts: Numbers) -> _Records:
    count = len(content.times)
    own_first = np.repeat(firsts, np.diff(firsts, append=count))
    beginnings = _beginnings(content, content.times - content.times[own_first], np.arange(count) - own_first)
    parts = [beginnings]
    if content.keys is not None:
        parts.append(content.keys)
    parts += [binary(*varints.encoded(content.value_sizes)), content.values]
    if content.headers is None:
        parts.append(pa.scalar(b"\0"))
    else:
        parts += [binary(*varints.encoded(content.header_counts)), content.headers]
    joined = pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")
    _, offsets, data = joined.buffers()
    return _Records(np.frombuffer(offsets, np.int32)[: count + 1].astype(np.int64), memoryview(data))


def _beginnings(content: Content, time_deltas: Numbers, offset_deltas: Numbers) -> pa.Array:
    """What stands before each key: size of the record, attributes, deltas, size of the key."""
    numbers = [time_deltas, offset_deltas, content.key_sizes]
    sizes = 1 + sum(map(varints.sizes, numbers))
    following = varints.sizes(content.value_sizes) + varints.sizes(content.header_counts)
    record_sizes = sizes + following + content.sizes
    sizes += varints.sizes(record_sizes)
    ends = np.cumsum(sizes)
    out = np.zeros(int(ends[-1]), np.uint8)
    at = varints.write(out, ends - sizes, record_sizes) + 1  # attributes are 0
    for each in numbers:
        at = varints.write(out, at, each)
    return binary(out, np.concatenate(([0], ends)))
