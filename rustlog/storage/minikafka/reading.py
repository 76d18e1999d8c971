"""
Batches out of records: what a read finds in a log that has none.

They are made anew for each read.  A batch begins with the record that was asked for, and has as many of the
following ones as fit.  So the same question gets the same records, and where all that fits was there
already, the same bytes.
"""

from __future__ import annotations

from rustlog.log.batch import HEADER_SIZE
from rustlog.model import Record
from rustlog.storage.minikafka.format import (
    HEADER_BYTES,
    RUN_BYTES_MAX,
    RUN_RECORDS_MAX,
    TIME_SPAN_MAX,
    WRONG_CHECKSUM,
    make_batch,
    split,
)
from rustlog.storage.segments.lookup import visible_segments
from rustlog.storage.segments.partition import SegmentedPartition
from rustlog.storage.segments.reading import Damage, read_warm
from rustlog.storage.segments.segment import Segment
from rustlog.storage.slices import MemorySlice

READ_BYTES_MAX = 1024 * 1024
"""More is not made for one partition, unless one record is larger: the reactor waits for it."""

ANSWER_BYTES_MAX = 4 * 1024 * 1024
"""Nor for all partitions of one read."""


def find(
    partition: SegmentedPartition, offset: int, max_bytes: int, at_least_one: bool
) -> tuple[MemorySlice, ...]:
    """As L{rustlog.storage.segments.lookup.Find}."""
    batches: list[bytes] = []
    left = min(max_bytes, READ_BYTES_MAX)
    for segment, limit in visible_segments(partition, offset):
        try:
            position = segment.locate(offset, limit)
            while position is not None and position < limit:
                must = at_least_one and not batches
                run, end = _run(partition, segment, position, limit, offset, left - HEADER_SIZE, must)
                if not run:
                    return _slices(batches)
                batches.append(bytes(make_batch(run, partition.epochs.at(offset)).buffer))
                left -= len(batches[-1])
                position, offset = end, offset + len(run)
                segment.remember(offset, position)
        except Damage:
            if batches:
                break  # Who goes on reading will hear of it.
            raise
    return _slices(batches)


def _slices(batches: list[bytes]) -> tuple[MemorySlice, ...]:
    return (MemorySlice(batches[0] if len(batches) == 1 else b"".join(batches)),) if batches else ()


def _run(
    partition: SegmentedPartition,
    segment: Segment,
    position: int,
    limit: int,
    offset: int,
    room: int,
    must: bool,
) -> tuple[list[Record], int]:
    """
    The records for one batch, and where they end.

    @param room: so many bytes of them at most.
    @param must: give one even if it is larger.
    """
    size = min(limit - position, max(room, HEADER_BYTES), RUN_BYTES_MAX)
    content = read_warm(segment.log, position, size)
    run, end = _records(partition, content, position, offset)
    if not run and must:
        header = segment.layout.header(content, 0, position) if len(content) >= HEADER_BYTES else None
        if header is None or position + header.size > limit:
            raise Damage(position, "there is no record where one should begin")
        run, end = _records(partition, read_warm(segment.log, position, header.size), position, offset)
        if not run:
            raise Damage(position, "the file ends within a record")
    return run, end


def _records(
    partition: SegmentedPartition, content: bytes, position: int, offset: int
) -> tuple[list[Record], int]:
    """Records of one epoch, at most so many, up to the first that is damaged; the first must not be."""
    _, epoch_end = partition.epochs.end_of(partition.epochs.at(offset), partition.log_end_offset)
    count_max = min(RUN_RECORDS_MAX, epoch_end - offset)
    run: list[Record] = []
    end = 0
    try:
        for following, record, is_right in split(content, 0, offset):
            if not is_right:
                raise Damage(end, WRONG_CHECKSUM)
            if run and not -TIME_SPAN_MAX < record.timestamp - run[0].timestamp < TIME_SPAN_MAX:
                break
            run.append(record)
            end = following
            if len(run) >= count_max:
                break
    except Damage as damage:
        if not run:
            raise Damage(position + damage.position, damage.reason) from None
    return run, position + end
