"""
L{Segment}: one C{.log} file with its indexes.

It knows where batches lie, and nothing of what is visible or who may write: that is the
partition's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import TypeVar

from twisted.logger import Logger

from rustlog.log.batch import Buffer
from rustlog.model import Record
from rustlog.storage.handles import Handle, Handles
from rustlog.storage.segments.files import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from rustlog.storage.segments.index import OFFSET_ENTRY, TIME_ENTRY, Entry, IndexDamaged, SparseIndex
from rustlog.storage.segments.layout import BATCHES, EntryHeader, Layout
from rustlog.storage.segments.ranges import Ranges
from rustlog.storage.segments.reading import Damage, probe, read_waiting, read_warm

RELATIVE_OFFSET_MAX = 2**31 - 1
"""How far an offset may lie from the base: what an index entry holds, as in Kafka."""

POSITION_MAX = 2**32 - 1
"""And how far a position from the beginning.  What lies behind, in a file of others, is found by walking."""

_WALK_BYTES = 4096
"""Headers are looked for in pieces of this size: the usual distance of index entries."""

_POSITIONS_MAX = 64
"""Ends of so many recent reads are remembered, for readers that go on from there."""

_OFFSET_BYTES = 8

T = TypeVar("T")


class Segment:
    """
    One file of a partition.

    @ivar size: bytes of log that count.
    @ivar created_ms: when it was begun, for rolling by age.
    """

    _log = Logger()

    __slots__ = (
        "_positions", "_since_entry", "base_offset", "created_ms", "layout", "log",
        "max_timestamp_entry", "offsets", "size", "times", "verified",
    )  # fmt: skip

    def __init__(
        self,
        handles: Handles,
        directory: PurePath,
        base_offset: int,
        *,
        layout: Layout = BATCHES,
        size: int = 0,
        created_ms: int = -1,
        index_entries: int | None = None,
        time_entries: int | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.layout = layout
        self.log = handles.handle(layout.path(directory, base_offset, LOG_SUFFIX))
        index = handles.handle(layout.path(directory, base_offset, INDEX_SUFFIX))
        times = handles.handle(layout.path(directory, base_offset, TIME_INDEX_SUFFIX))
        self.offsets = SparseIndex(index, OFFSET_ENTRY, index_entries)
        self.times = SparseIndex(times, TIME_ENTRY, time_entries)
        self.max_timestamp_entry: tuple[int, int] | None = None
        self.verified = Ranges()
        self._positions: dict[int, int] = {}
        self._since_entry = 0

    # -- writing --

    def append(self, buffers: tuple[Buffer, ...], size: int) -> None:
        """
        Write entries at the end; L{note} of each must follow.

        @raise OSError: nothing is promised of the bytes behind C{size} of the segment.
        """
        self.log.file.append(buffers)
        self.verified.add(self.size, self.size + size)

    def undo_append(self) -> None:
        """Cut off what a failed L{append} may have left; nothing, if the file could not even be opened."""
        if self.log.opened is not None:
            self.log.opened.truncate(self.size)

    def note(self, base_offset: int, size: int, max_timestamp: int, interval: int) -> None:
        """Take notice of an entry that stands at the end, whoever wrote it."""
        relative = base_offset - self.base_offset
        highest = self.max_timestamp_entry
        if highest is None or max_timestamp > highest[0]:
            highest = self.max_timestamp_entry = (max_timestamp, relative)
        if (self._since_entry > interval and self.size <= POSITION_MAX) or self.size == 0:
            self.offsets.add(relative, self.size)
            self.times.add(*highest)
            self._since_entry = 0
        self._since_entry += size
        self.size += size

    def flush_indexes(self) -> None:
        """Hand both indexes to the kernel, for a checkpoint."""
        self.offsets.flush()
        self.times.flush()

    def seal(self) -> None:
        """No batch will follow: the time index ends with the highest timestamp of all."""
        if self.max_timestamp_entry is not None:
            self.times.add(*self.max_timestamp_entry)
        self.flush_indexes()

    def retire(self) -> list[PurePath]:
        """The files are to be removed: close them when nobody uses them any more."""
        handles = (self.log, self.offsets.handle, self.times.handle)
        for handle in handles:
            handle.retire()
        return [handle.path for handle in handles]

    # -- looking --

    def locate(self, offset: int, limit: int) -> int | None:
        """
        Where the first batch begins that ends at C{offset} or later, if it begins below C{limit}.

        @raise Cold: not all is in memory.
        @raise Damage: what is found there is not a batch.
        """
        position = self._positions.get(offset)
        if position is not None and position < limit and self._is_continued(offset, position):
            return position
        for header in self._headers_around(offset, limit):
            if header.last_offset >= offset:
                return header.position
        return None

    def end_of_read(self, start: int, end: int, limit: int) -> tuple[int, int | None]:
        """
        The end of a whole batch at C{end} or before, as late as the index or else the headers
        tell, but of one batch at least; and the offset that follows there, if that is known.

        @param limit: the end of the last batch that may be read.
        """
        if end >= limit:
            return limit, None
        indexed = self._look_up(lambda: self._indexed_before(end))
        if indexed is not None and indexed[0] > start:
            return indexed
        boundary, following = start, None
        for header in self.headers(start, limit):
            if boundary > start and header.position + header.size > end:
                break
            boundary, following = header.position + header.size, header.last_offset + 1
        return boundary, following

    def remember(self, offset: int, position: int) -> None:
        """A reader is likely to go on from here."""
        positions = self._positions
        if len(positions) >= _POSITIONS_MAX:
            del positions[next(iter(positions))]
        positions[offset] = position

    def ensure_verified(self, start: int, end: int) -> int:
        """
        Check the batches between two boundaries unless that was done before.

        @return: the end of the last right one.
        @raise Damage: the first is damaged already.
        """
        if self.verified.covers(start, end):
            probe(self.log, start, end)
            return end
        size, problem = self.layout.verified(memoryview(read_warm(self.log, start, end - start)))
        if size == 0:
            raise Damage(start, problem)
        self.verified.add(start, start + size)
        return start + size

    def headers(
        self, position: int, limit: int, read: Callable[[Handle, int, int], bytes] = read_warm
    ) -> Iterator[EntryHeader]:
        """
        The headers of all entries from a boundary on.

        Offsets lie outside the checksum: that each follows the one before is what guards them.
        """
        layout, wanted = self.layout, self.layout.header_bytes
        chunk, chunk_start = b"", position
        expected = self.base_offset if position == 0 else None
        while position < limit:
            at = position - chunk_start
            if at + wanted > len(chunk):
                chunk = read(self.log, position, min(_WALK_BYTES, limit - position))
                chunk_start, at = position, 0
            if len(chunk) - at < wanted:
                raise Damage(position, "the file ends within a batch")
            header = layout.header(chunk, at, position)
            if header is None or position + header.size > limit:
                raise Damage(position, "there is no batch where one should begin")
            if expected is not None and header.base_offset != expected:
                raise Damage(position, f"offset {header.base_offset} stands where {expected} should")
            yield header
            position += header.size
            expected = header.last_offset + 1

    def records_of(self, header: EntryHeader, from_offset: int) -> Iterable[Record]:
        """The records of one entry, which is verified."""
        self.ensure_verified(header.position, header.position + header.size)
        content = read_warm(self.log, header.position, header.size)
        return self.layout.records(content, header, from_offset)

    def highest_timestamp(self) -> tuple[int, int] | None:
        """The highest timestamp in the segment, and the base offset of the batch that has it."""
        if self.size == 0:
            return None
        if self.max_timestamp_entry is None:
            self.max_timestamp_entry = self._look_up(self._last_time_entry)
        timestamp, relative = self.max_timestamp_entry
        return timestamp, self.base_offset + relative

    def headers_since(self, timestamp: int, limit: int) -> Iterator[EntryHeader]:
        """Headers from a place on before which everything is older than C{timestamp}."""
        return self._headers_around(self._look_up(lambda: self._offset_since(timestamp)), limit)

    # -- repairing --

    def rebuild_indexes(self, reason: str, interval: int = _WALK_BYTES) -> None:
        """Make both indexes anew from the headers.  Blocks, but is hardly ever needed."""
        self._log.warn("rebuilding the indexes of {path}: {reason}", path=str(self.log.path), reason=reason)
        end, self.size = self.size, 0
        self.offsets.clear()
        self.times.clear()
        self.max_timestamp_entry = None
        self._since_entry = 0
        try:
            for header in self.headers(0, end, read_waiting):
                self.note(header.base_offset, header.size, header.max_timestamp, interval)
        except Damage as damage:
            self._log.error(
                "{path} is damaged at {position}: {reason}",
                path=str(self.log.path), position=damage.position, reason=damage.reason,
            )  # fmt: skip
        self.size = end
        try:
            self.seal()
        except OSError as error:
            # A full disk, most likely.  What was found is in memory and does its service from there.
            path = str(self.log.path)
            self._log.warn("cannot write the indexes of {path}: {error}", path=path, error=error)

    # -- using the indexes, which may be wrong --

    def _look_up(self, look: Callable[[], T]) -> T:
        """Look something up; if an index turns out to be wrong, make both anew and look again."""
        try:
            return look()
        except IndexDamaged as problem:
            self.rebuild_indexes(str(problem))
        try:
            return look()
        except IndexDamaged as problem:
            # They are as right as the log now.
            raise Damage(0, str(problem)) from None

    def _headers_around(self, offset: int, limit: int) -> Iterator[EntryHeader]:
        """Headers from the index entry before C{offset} on."""
        return self.headers(self._look_up(lambda: self._position_before(offset)), limit)

    def _position_before(self, offset: int) -> int:
        if self.size == 0:
            return 0
        entry = self.offsets.floor(max(0, offset - self.base_offset))
        if entry is None:
            # There is one for the first batch, always.
            raise IndexDamaged(f"{self.offsets.handle.path.name} is empty")
        return self._checked(entry)

    def _indexed_before(self, end: int) -> tuple[int, int] | None:
        """The last position in the index that is not behind C{end}, and the offset there."""
        entry = self.offsets.floor(end, field=1)
        return None if entry is None else (self._checked(entry), self.base_offset + entry[0])

    def _checked(self, entry: Entry) -> int:
        """The position in an entry of the offset index, once it is known to be right."""
        relative, position = entry
        if position >= self.size:
            raise IndexDamaged(f"{self.offsets.handle.path.name} points behind the end")
        if not self._begins_with(self.base_offset + relative, position):
            raise IndexDamaged(f"{self.offsets.handle.path.name} points to the wrong place")
        return position

    def _is_continued(self, offset: int, position: int) -> bool:
        """Whether the log goes on where a read ended: what was read was right, what follows need not be."""
        return self.verified.covers(position, position + 1) or self._begins_with(offset, position)

    def _begins_with(self, offset: int, position: int) -> bool:
        """Whether a batch with this base offset stands there."""
        stored = read_warm(self.log, position + self.layout.offset_at, _OFFSET_BYTES)
        return int.from_bytes(stored, "big") == offset

    def _offset_since(self, timestamp: int) -> int:
        """The offset of a batch before which everything is older than C{timestamp}."""
        entry = self.times.floor(timestamp - 1)
        if entry is None:
            return self.base_offset
        self._check_time(entry)
        return self.base_offset + entry[1]

    def _last_time_entry(self) -> Entry:
        entry = self.times.last()
        if entry is None:
            raise IndexDamaged(f"{self.times.handle.path.name} is empty")
        self._check_time(entry)
        return entry

    def _check_time(self, entry: Entry) -> None:
        """An entry of the time index is right if the batch that it names has its timestamp."""
        timestamp, relative = entry
        offset = self.base_offset + relative
        for header in self.headers(self._position_before(offset), self.size):
            if header.last_offset >= offset:
                if (header.base_offset, header.max_timestamp) == (offset, timestamp):
                    return
                break
        raise IndexDamaged(f"{self.times.handle.path.name} points to the wrong place")
