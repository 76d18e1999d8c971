"""
The parts that workers read, and how they are cut.

A part is a list of pieces that are read one after the other: a L{Range <rustlog.spark.ranges.Range>} of a
file, or an L{OffsetRange <rustlog.spark.planning.OffsetRange>} to be fetched from brokers.  Where a
directory is at hand, sealed files are read from there and only what is behind them is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Union

import pyarrow as pa
from attrs import evolve, frozen

from rustlog.model import TopicPartition
from rustlog.spark.errors import DataLost, LogFileGone
from rustlog.spark.files import RANGE_BYTES, DataDirectory
from rustlog.spark.kafka import KafkaClient
from rustlog.spark.options import ReadOptions
from rustlog.spark.planning import OffsetRange, split
from rustlog.spark.ranges import Range, read_range
from rustlog.spark.reading import read_offsets

Piece = Union[Range, OffsetRange]


# -- cutting, on the driver ----------------------------------------------------------


def plan_parts(
    ranges: Sequence[OffsetRange], options: ReadOptions, directory: DataDirectory | None = None
) -> list[Piece]:
    """Cut ranges of offsets into pieces, each of which is the work of one task."""
    if directory is None:
        return list(split(ranges, options.parts_min, options.offsets_per_part_max))
    pieces = _pieces_of_files(ranges, options, directory, RANGE_BYTES)
    if len(pieces) < options.parts_min:
        size = sum(each.size for each in pieces if isinstance(each, Range))
        pieces = _pieces_of_files(ranges, options, directory, max(1, size // options.parts_min))
    return pieces


def _pieces_of_files(
    ranges: Sequence[OffsetRange], options: ReadOptions, directory: DataDirectory, range_bytes: int
) -> list[Piece]:
    pieces: list[Piece] = []
    fetched: list[OffsetRange] = []
    for each in ranges:
        stored = directory.ranges(
            directory.topic(each.partition.topic),
            each.partition.partition,
            from_offset=each.start,
            to_offset=each.end,
            range_bytes=range_bytes,
            sealed_only=options.client is not None,
        )
        pieces += stored
        fetched += _not_in_files(each, stored)
    return pieces + list(split(fetched, options.parts_min - len(pieces), options.offsets_per_part_max))


def _not_in_files(wanted: OffsetRange, stored: Sequence[Range]) -> Iterator[OffsetRange]:
    """What is before the first file, or behind the last: deleted meanwhile, or not sealed yet."""
    if not stored:
        yield wanted
        return
    first, last = stored[0].first_offset, stored[-1].end_offset
    if wanted.start < first:
        yield evolve(wanted, end=min(first, wanted.end))
    if last < wanted.end:
        yield evolve(wanted, start=max(last, wanted.start))


# -- reading, on the workers ---------------------------------------------------------


@frozen
class PartReader:
    """Reads pieces; can be sent to workers."""

    options: ReadOptions
    columns: tuple[str, ...]
    connect: Callable[..., KafkaClient] = KafkaClient

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """
        The rows of a piece.

        @raise DataLost: some of them are gone, and the options say that this is an error.
        """
        if isinstance(piece, OffsetRange):
            yield from self._fetch(piece)
            return
        is_there = False
        try:
            for rows in read_range(piece, self.columns):
                is_there = True
                yield rows
        except LogFileGone:
            # The file went while it was waited for, or this machine does not have it.
            if is_there:
                raise
            partition = TopicPartition(piece.topic, piece.partition)
            yield from self._fetch(OffsetRange(partition, piece.first_offset, piece.end_offset))

    def _fetch(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        if self.options.client is None:
            yield from self._lost(wanted)
            return
        with self.connect(self.options.client) as client:
            left: OffsetRange | None = wanted
            while left is not None and left.count > 0:
                left = yield from self._fetch_with(client, left)

    def _fetch_with(
        self, client: KafkaClient, wanted: OffsetRange
    ) -> Generator[pa.RecordBatch, None, OffsetRange | None]:
        """@return: where to go on, when something was missing that may be missing."""
        try:
            yield from read_offsets(
                client,
                wanted.partition,
                wanted.start,
                wanted.end,
                columns=self.columns,
                read_committed=self.options.reads_committed,
                fetch_bytes=self.options.fetch_bytes,
            )
        except DataLost as lost:
            if self.options.fails_on_data_loss:
                raise
            left = evolve(wanted, start=max(lost.offset, lost.start), end=min(wanted.end, lost.end))
            return None if left == wanted else left
        return None

    def _lost(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        if self.options.fails_on_data_loss:
            partition = wanted.partition
            raise DataLost(partition.topic, partition.partition, wanted.start, wanted.end, wanted.end)
        yield from ()
