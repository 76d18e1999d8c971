"""
Pieces of logs as a DataFrame of Spark, for jobs that must bring records of many partitions together.

Workers read and decode; what goes through Spark is what has to be exchanged between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from rustlog.model import TopicPartition
from rustlog.spark.columns import COLUMNS, ddl_of
from rustlog.spark.jobs.running import Advance, Tasks
from rustlog.spark.jobs.sources import Piece, read_piece

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDER = "_order"
"""
A column by which records of several partitions can be brought into one order: the highest timestamp so far
in the partition.  It never falls, so records of one partition keep theirs.
"""

Change = Callable[[pa.RecordBatch], pa.RecordBatch]


@frozen
class Reader:
    """Reads pieces by their numbers, in a worker."""

    pieces: tuple[Piece, ...]
    highest_before: tuple[int, ...]
    change: Change | None = None

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._read(number)

    def _read(self, number: int) -> Iterator[pa.RecordBatch]:
        highest = self.highest_before[number]
        for rows in read_piece(self.pieces[number], COLUMNS):
            times = rows.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False)
            order = np.maximum(np.maximum.accumulate(times), highest)
            highest = int(order[-1])
            rows = rows.append_column(ORDER, pa.array(order))
            yield self.change(rows) if self.change is not None else rows


def frame(
    spark: SparkSession, pieces: Sequence[Piece], highest: Mapping[int, int], change: Change | None = None
) -> DataFrame:
    """
    All columns of all records, and L{ORDER}.

    @param highest: of each piece, by its number, the highest timestamp before it.
    @param change: applied to every batch, in the worker; keeps the columns.
    """
    reader = Reader(tuple(pieces), tuple(highest[number] for number in range(len(pieces))), change)
    numbers = spark.range(0, len(pieces), 1, max(1, len(pieces)))
    return numbers.mapInArrow(reader, f"{ddl_of(COLUMNS)}, {ORDER} long")


# -- what must be known before ---------------------------------------------------------


def highest_timestamp(piece: Piece) -> int:
    """In microseconds; C{-1} if there is no record."""
    highest = -1
    for rows in read_piece(piece, ("timestamp",)):
        highest = max(highest, pc.max(rows.column(0).cast(pa.int64())).as_py())
    return highest


def highest_before(tasks: Tasks, pieces: Sequence[Piece], advance: Advance = id) -> dict[int, int]:
    """For each piece, by its number: the highest timestamp in the pieces before it, of the same partition."""
    partitions = {piece.name for piece in pieces}
    if len(partitions) < 2:
        return dict.fromkeys(range(len(pieces)), -1)  # There is nothing to bring into one order.
    found = tasks.run("timestamps", pieces, highest_timestamp, lambda piece: 0, advance)
    reached: dict[TopicPartition, int] = {}
    before = {}
    for number, (piece, highest) in enumerate(zip(pieces, found, strict=True)):
        before[number] = reached.get(piece.name, -1)
        reached[piece.name] = max(before[number], highest)
    return before
