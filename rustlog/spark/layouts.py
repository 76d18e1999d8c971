"""
How the entries of a log stand in its files: record batches, or MiniKafka's records.

See C{docs/reference/disk-layout.md}.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from struct import Struct
from typing import BinaryIO, NamedTuple, Protocol

from rustlog.log.batch import HEADER, HEADER_SIZE, MAGIC, PREFIX_SIZE
from rustlog.storage.datadir import MINIKAFKA, SEGMENTS

_PREFIX = Struct(">8xi")  # that of a batch: its offset, and its length
_LENGTH = Struct(">i")

CHUNK_BYTES = 256 * 1024
"""Headers are looked for in pieces of this size."""


class Entry(NamedTuple):
    """A batch or record: how large it is, its first offset, and the one behind its last."""

    size: int
    base_offset: int
    next_offset: int


class Whole(NamedTuple):
    """
    The whole entries at the beginning of something.

    @ivar size: bytes of all of them.
    @ivar last: where the last of them begins.
    @ivar wanted: how large the next one claims to be; 0 if that can not be seen.
    """

    size: int
    last: int
    wanted: int


class Layout(Protocol):
    """One of the two; C{header_bytes} must be seen to know what an entry is."""

    header_bytes: int

    def entry(self, content: bytes, at: int) -> Entry | None:
        """The entry whose header begins there; C{None}: that is none."""

    def whole(self, content: bytes) -> Whole:
        """How much of it is whole entries; nothing of them is checked but their lengths."""

    def index_path(self, log: PurePath, aside: PurePath, partition: int) -> PurePath:
        """Where the index of a file of the log is."""


class _Batches:
    header_bytes = HEADER_SIZE

    def entry(self, content: bytes, at: int) -> Entry | None:
        fields = HEADER.unpack_from(content, at)
        size = fields[1] + PREFIX_SIZE
        if fields[3] != MAGIC or size < HEADER_SIZE or fields[6] < 0:
            return None
        return Entry(size, fields[0], fields[0] + fields[6] + 1)

    def whole(self, content: bytes) -> Whole:
        return _whole(content, _PREFIX, PREFIX_SIZE)

    def index_path(self, log: PurePath, aside: PurePath, partition: int) -> PurePath:
        return log.with_suffix(".index")


class _Records:
    """A length, a checksum, offset, timestamp, and the length of the key; L{rustlog.spark.minikafka}."""

    _header = Struct(">iIqqi")
    header_bytes = _header.size
    _least = header_bytes

    def entry(self, content: bytes, at: int) -> Entry | None:
        length, _, offset, _, key_size = self._header.unpack_from(content, at)
        if not 0 <= key_size <= length - self._least:
            return None
        return Entry(length + 4, offset, offset + 1)

    def whole(self, content: bytes) -> Whole:
        return _whole(content, _LENGTH, _LENGTH.size)

    def index_path(self, log: PurePath, aside: PurePath, partition: int) -> PurePath:
        return aside / f"{partition}-{log.stem}.index"


def _whole(content: bytes, prefix: Struct, more: int) -> Whole:
    """Entries whose length is the last number of a prefix, and does not count the C{more} bytes of that."""
    position, last, end, unpack = 0, 0, len(content), prefix.unpack_from
    while position + more <= end:
        size = unpack(content, position)[-1] + more
        if size <= more or position + size > end:
            return Whole(position, last, max(size, 0))
        position, last = position + size, position
    return Whole(position, last, 0)


LAYOUTS: dict[str, Layout] = {SEGMENTS: _Batches(), MINIKAFKA: _Records()}
"""By the names of the formats."""


def entries(file: BinaryIO, layout: Layout, position: int, end: int) -> Iterator[tuple[int, Entry | None]]:
    """
    The entries that are whole, from a boundary on, and where each begins; C{None} where there is something
    else, which is the last then.  Only headers are read.
    """
    chunk, chunk_at = b"", position
    while position + layout.header_bytes <= end:
        at = position - chunk_at
        if not 0 <= at <= len(chunk) - layout.header_bytes:
            file.seek(position)
            chunk, chunk_at, at = file.read(min(CHUNK_BYTES, end - position)), position, 0
            if len(chunk) < layout.header_bytes:
                return  # Somebody has cut it off meanwhile.
        entry = layout.entry(chunk, at)
        if entry is None:
            yield position, None
            return
        if position + entry.size > end:
            return
        yield position, entry
        position += entry.size
