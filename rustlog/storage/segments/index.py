"""
L{SparseIndex}: finds the neighbourhood of a key in a segment.

Both indexes of a segment are files of fixed-size, big-endian entries in growing order,
one every C{index.interval.bytes} of log:

    ==========  =======================================================  ========
    suffix      entry                                                    bytes
    ==========  =======================================================  ========
    .index      u32 offset - base offset, u32 position of the batch      8
    .timeindex  i64 highest timestamp so far, u32 offset - base offset   12
                of the batch that has it
    ==========  =======================================================  ========

They are disposable: rebuilt from the log when missing or wrong.  The youngest entries
of the segment that is being written are held in memory until its next checkpoint.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct

from rustlog.storage.handles import Handle
from rustlog.storage.segments.reading import read_warm

OFFSET_ENTRY = Struct(">II")
TIME_ENTRY = Struct(">qI")

_BLOCK_ENTRIES = 256
"""So many entries are read at once at the end of a search."""

Entry = tuple[int, int]


class IndexDamaged(Exception):
    """The file is missing, too short, or points to the wrong place."""


class SparseIndex:
    """
    One index file with its unwritten tail.

    @param flushed: how many entries of the file count; C{None}: all that it has.
    """

    __slots__ = ("_entry", "_flushed", "_pending", "handle")

    def __init__(self, handle: Handle, entry: Struct, flushed: int | None) -> None:
        self.handle = handle
        self._entry = entry
        self._flushed = flushed
        self._pending: list[Entry] = []

    @property
    def flushed(self) -> int:
        """How many entries are in the file."""
        if self._flushed is None:
            try:
                self._flushed = self.handle.file.size // self._entry.size
            except FileNotFoundError:
                raise IndexDamaged(f"{self.handle.path.name} is missing") from None
        return self._flushed

    @property
    def flushed_bytes(self) -> int:
        """How long the file is at least."""
        return self.flushed * self._entry.size

    def add(self, key: int, value: int) -> None:
        """Add an entry; neither key nor value may be less than that of the last one."""
        self._pending.append((key, value))

    def floor(self, key: int, field: int = 0) -> Entry | None:
        """
        The last entry whose key is not above C{key}; C{field=1} searches by value.

        @raise Cold: the file is not in memory.
        @raise IndexDamaged: the file is not right.
        """
        pending = self._pending
        if pending and pending[0][field] <= key:
            return pending[bisect_right(pending, key, key=lambda entry: entry[field]) - 1]
        return self._search_file(key, field)

    def last(self) -> Entry | None:
        """The youngest entry."""
        if self._pending:
            return self._pending[-1]
        return self._read(self.flushed - 1, 1)[0] if self.flushed else None

    def flush(self) -> None:
        """Hand the tail to the kernel."""
        if not self._pending and self._flushed is not None and self._flushed > 0:
            return
        file = self.handle.create()
        end = self.flushed_bytes
        if file.size > end:
            # Entries that a crash left behind a checkpoint.
            file.truncate(end)
        pack = self._entry.pack
        file.append([b"".join(pack(*entry) for entry in self._pending)])
        self._flushed = self.flushed + len(self._pending)
        self._pending = []

    def clear(self) -> None:
        """Begin anew."""
        self._flushed = 0
        self._pending = []

    def _search_file(self, key: int, field: int) -> Entry | None:
        low, high = 0, self.flushed
        if not high:
            return None  # There may be no file yet.
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self._read(middle, 1)[0][field] <= key:
                low = middle
            else:
                high = middle
        block = self._read(low, high - low)
        count = bisect_right(block, key, key=lambda entry: entry[field])
        return block[count - 1] if count else None

    def _read(self, number: int, count: int) -> list[Entry]:
        size = self._entry.size
        try:
            content = read_warm(self.handle, number * size, count * size)
        except FileNotFoundError:
            raise IndexDamaged(f"{self.handle.path.name} is missing") from None
        if len(content) < count * size:
            raise IndexDamaged(f"{self.handle.path.name} is too short")
        return list(self._entry.iter_unpack(content))
