"""
L{Range}: a piece of a file of a log, which can be sent to a worker and read there without a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from attrs import frozen

from rustlog.log.batch import RecordBatch
from rustlog.model import MAX_OFFSET
from rustlog.spark.columns import DEFAULT_COLUMNS
from rustlog.spark.decoding import ROWS_MAX


@frozen
class Range:
    """
    Whole batches (or, in MiniKafka's format, whole records) in one file.

    @ivar format: C{segments} or C{minikafka}.
    @ivar path: of the file.
    @ivar position: where in it the range begins, and C{size} how many bytes it has.
    @ivar base_offset: of its first record.
    @ivar next_offset: where what follows it begins.
    @ivar from_offset: records before it are not wanted (they were deleted, perhaps), nor those from
        C{to_offset} on.
    @ivar is_sealed: whether the file never changes any more.
    """

    topic: str
    partition: int
    format: str
    path: str
    position: int
    size: int
    base_offset: int
    next_offset: int
    from_offset: int = 0
    to_offset: int = MAX_OFFSET
    is_sealed: bool = True

    @property
    def first_offset(self) -> int:
        """The first one that is wanted of it."""
        return max(self.base_offset, self.from_offset)

    @property
    def end_offset(self) -> int:
        """The one behind the last that is wanted of it."""
        return min(self.next_offset, self.to_offset)


def read_range(
    wanted: Range, columns: Sequence[str] = DEFAULT_COLUMNS, rows_max: int = ROWS_MAX
) -> Iterator[pa.RecordBatch]:
    """
    The records of a range, as Arrow batches; read a few megabytes at a time.

    @raise CorruptLog: when it gets there.
    @raise NoDataDirectory: the file is gone: retention was here.
    """
    raise NotImplementedError


def raw_batches(wanted: Range) -> Iterator[RecordBatch]:
    """
    The batches of a range as they are in the file, each checked; those that have some wanted record are
    whole, so they may have others, too.  Of MiniKafka's records, batches are made.

    @raise CorruptLog: when it gets there.
    @raise NoDataDirectory: the file is gone: retention was here.
    """
    raise NotImplementedError
