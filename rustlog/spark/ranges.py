"""
L{Range}: a piece of a file of a log, which can be sent to a worker and read there without a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

import pyarrow as pa
from attrs import frozen

from rustlog.log.batch import RecordBatch
from rustlog.model import MAX_OFFSET
from rustlog.spark.batches import choose, find_batches
from rustlog.spark.chunks import CHUNK_BYTES
from rustlog.spark.columns import DEFAULT_COLUMNS, schema_of
from rustlog.spark.decoding import ROWS_MAX, decode
from rustlog.spark.encoding import encode
from rustlog.spark.errors import CorruptLog, LogFileGone
from rustlog.spark.layouts import LAYOUTS, Layout, Whole
from rustlog.spark.minikafka import decode_records
from rustlog.storage.datadir import MINIKAFKA

PIECE_BYTES = CHUNK_BYTES
"""So much is read at once, or one entry if that is larger."""


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
    @raise LogFileGone: retention was here.
    """
    schema = schema_of(columns)
    for piece in _pieces(wanted):
        if wanted.format == MINIKAFKA:
            yield from decode_records(
                piece, schema, topic=wanted.topic, partition=wanted.partition,
                from_offset=wanted.from_offset, to_offset=wanted.to_offset, rows_max=rows_max,
            )  # fmt: skip
        else:
            yield from decode(
                piece, topic=wanted.topic, partition=wanted.partition, columns=columns,
                from_offset=wanted.from_offset, to_offset=wanted.to_offset, rows_max=rows_max,
            )  # fmt: skip


def raw_batches(wanted: Range) -> Iterator[RecordBatch]:
    """
    The batches of a range as they are in the file, each checked; those that have some wanted record are
    whole, so they may have others, too.  Of MiniKafka's records, batches are made.

    @raise CorruptLog: when it gets there.
    @raise LogFileGone: retention was here.
    """
    if wanted.format == MINIKAFKA:
        yield from _made_batches(wanted)
        return
    for piece in _pieces(wanted):
        found = find_batches(piece, wanted.topic, wanted.partition)
        chosen = choose(found, from_offset=wanted.from_offset, to_offset=wanted.to_offset, with_markers=True)
        chosen.verify()
        yield from chosen


def _made_batches(wanted: Range) -> Iterator[RecordBatch]:
    columns = ("key", "value", "timestamp", "offset")
    for rows in read_range(wanted, columns):
        first = rows.column("offset")[0].as_py()
        for each in encode(rows, now_ms=0):
            yield RecordBatch(each.data).at(first + each.row, 0)


def _pieces(wanted: Range) -> Iterator[memoryview]:
    """The content, in pieces of whole entries of about L{PIECE_BYTES}; that their offsets fit is checked."""
    layout, position, end = LAYOUTS[wanted.format], wanted.position, wanted.position + wanted.size
    expected, size = wanted.base_offset, PIECE_BYTES
    with _open(wanted) as file:
        while position < end:
            file.seek(position)
            content = file.read(min(size, end - position))
            whole = layout.whole(content)
            if whole.size:
                expected = _check_offsets(wanted, layout, content, whole, expected)
                yield memoryview(content)[: whole.size]
                position, size = position + whole.size, PIECE_BYTES
            elif size < whole.wanted <= end - position:
                size = whole.wanted
            else:
                raise _corrupt(wanted, expected, f"there is nothing whole at {position} in {wanted.path}")


def _check_offsets(wanted: Range, layout: Layout, content: bytes, whole: Whole, expected: int) -> int:
    """
    Where the next piece has to begin, or behind that.  Offsets are not in the checksum of a batch: that they
    ascend from the known beginning to the known end is what guards them.
    """
    first, last = layout.entry(content, 0), layout.entry(content, whole.last)
    if first is None or last is None:
        raise _corrupt(wanted, expected, "there is no batch where one should begin")
    is_first = expected == wanted.base_offset
    if first.base_offset < expected or (is_first and first.base_offset != expected):
        raise _corrupt(wanted, expected, f"offset {first.base_offset} stands in its place")
    if last.next_offset > wanted.next_offset:
        raise _corrupt(wanted, last.base_offset, f"what follows begins at {wanted.next_offset}")
    return last.next_offset


def _corrupt(wanted: Range, offset: int, reason: str) -> CorruptLog:
    return CorruptLog(wanted.topic, wanted.partition, offset, reason)


def _open(wanted: Range) -> FileIO:
    try:
        return Path(wanted.path).open("rb", buffering=0)
    except FileNotFoundError:
        raise LogFileGone(wanted.topic, wanted.partition, wanted.path) from None
