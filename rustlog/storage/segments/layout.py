"""
How a log is laid out in files: what makes one format of segments different from another.

A C{.log} file is a row of entries: record batches here, single records in the store C{minikafka}.  Everything
that deals with segments (rolling, indexes, recovery, retention, reading without waiting) is the same
for all of them, and asks a L{Layout} where it matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import NamedTuple, Protocol

from rustlog.log import records
from rustlog.log.batch import HEADER, HEADER_SIZE, MAGIC, PREFIX_SIZE, RecordBatch
from rustlog.model import Record
from rustlog.storage.segments.files import segment_path
from rustlog.storage.segments.walking import Read, another_follows, check_batch, checked_batches


class EntryHeader(NamedTuple):
    """Where an entry lies, and what its header says."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


Checked = tuple[int, int, RecordBatch]


class Layout(Protocol):
    """
    The format of one partition's files.

    @ivar header_bytes: so much of an entry must be seen to know what and how large it is.
    @ivar offset_at: where in an entry its base offset stands: eight bytes.
    """

    header_bytes: int
    offset_at: int

    def path(self, directory: PurePath, base_offset: int, suffix: str) -> PurePath:
        """Where a file of a segment lies."""

    def header(self, content: bytes, at: int, position: int) -> EntryHeader | None:
        """The header of the entry that begins at C{at}; C{None}: that is no entry."""

    def verified(self, content: memoryview) -> tuple[int, str]:
        """How many bytes, from the beginning on, are whole and right entries; what is wrong behind them."""

    def records(self, content: bytes, header: EntryHeader, from_offset: int) -> Iterable[Record]:
        """The records of one verified entry."""

    def checked(self, read: Read, start: int, end: int, expected: int) -> Iterator[Checked]:
        """
        Every entry between two positions: where it begins, its size, and itself as a batch.  Blocks.

        @param expected: the offset of the first one.
        @raise Damage: at the first that is not right.
        """

    def another_follows(self, content: bytes, expected: int) -> bool:
        """
        Whether a whole entry of a later offset stands behind the bad one at the beginning: then that is
        damaged, and not torn.
        """


class BatchLayout:
    """Record batches, back to back, with the indexes beside them."""

    header_bytes = HEADER_SIZE
    offset_at = 0

    def path(self, directory: PurePath, base_offset: int, suffix: str) -> PurePath:
        return segment_path(directory, base_offset, suffix)

    def header(self, content: bytes, at: int, position: int) -> EntryHeader | None:
        fields = HEADER.unpack_from(content, at)
        size = fields[1] + PREFIX_SIZE
        if fields[3] != MAGIC or size < HEADER_SIZE:
            return None
        return EntryHeader(position, size, fields[0], fields[0] + fields[6], fields[8])

    def verified(self, content: memoryview) -> tuple[int, str]:
        position, expected = 0, None
        while position < len(content) or position == 0:
            problem, batch = check_batch(content[position:], expected)
            if batch is None:
                return position, problem
            expected = batch.next_offset
            position += batch.size
        return position, ""

    def records(self, content: bytes, header: EntryHeader, from_offset: int) -> Iterable[Record]:
        return records.decode(RecordBatch(content), from_offset=from_offset)

    def checked(self, read: Read, start: int, end: int, expected: int) -> Iterator[Checked]:
        for position, batch in checked_batches(read, start, end, expected):
            yield position, batch.size, batch

    def another_follows(self, content: bytes, expected: int) -> bool:
        return another_follows(content, expected)


BATCHES = BatchLayout()
