"""
The journal of a partition: which batches its records came in, and from whom.

MiniKafka's log has no room for that, but a producer that sends a batch again must be recognized.  So the
header of every batch is written here, before its records go into the log, and both are synced in the same
round.  After a crash the log ends with the last batch that both have in full: nobody was told of what is cut
off, and who sends it again is not taken for someone else.

    <data-dir>/checkpoints/<topic id>/<n>-<first offset>.journal

A checkpoint has all that came before it, so a new journal is begun with each one, and the old is removed once
that is durable.  Entries have a fixed size, and all numbers are big-endian:

    ========  ====  ================================================
    position  size  field
    ========  ====  ================================================
    0         4     CRC-32 of the rest of the entry
    4         8     time of arrival, milliseconds
    12        4     CRC-32 of the records as they are in the log
    16        61    header of the batch, with its offset and epoch
    ========  ====  ================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from struct import Struct
from zlib import crc32

from attrs import frozen

from rustlog.interfaces import IFiles
from rustlog.log.batch import HEADER_SIZE, Buffer, RecordBatch
from rustlog.storage.handles import Handles

SUFFIX = ".journal"

_CHECKSUM = Struct(">I")
_FACTS = Struct(">qI")
_HEADER_AT = _CHECKSUM.size + _FACTS.size
ENTRY_BYTES = _HEADER_AT + HEADER_SIZE


@frozen
class Entry:
    """
    A batch of which the records are, or should be, in the log.

    @ivar batch: only its header.
    @ivar checksum: of the bytes in the log.
    """

    batch: RecordBatch
    arrived_ms: int
    checksum: int

    @classmethod
    def of(cls, batch: RecordBatch, offset: int, leader_epoch: int, now_ms: int, content: Buffer) -> Entry:
        """The entry of a batch that is to be written at C{offset}."""
        first, rest = batch.placed(offset, leader_epoch)
        header = first + rest[: HEADER_SIZE - len(first)]
        return cls(RecordBatch(header), now_ms, crc32(content))

    def to_bytes(self) -> bytes:
        content = _FACTS.pack(self.arrived_ms, self.checksum) + bytes(self.batch.buffer)
        return _CHECKSUM.pack(crc32(content)) + content


class Journal:
    """The journal that is being written; there is a file once there is an entry."""

    def __init__(self, handles: Handles, directory: PurePath, index: int, first_offset: int) -> None:
        self.handle = handles.handle(directory / f"{index}-{first_offset}{SUFFIX}")
        self._size = 0

    @property
    def is_empty(self) -> bool:
        return self._size == 0

    def append(self, entry: Entry) -> None:
        """
        Write an entry.

        @raise OSError: nothing is promised of it; L{undo} must follow.
        """
        self.handle.create().append([entry.to_bytes()])
        self._size += ENTRY_BYTES

    def undo(self, is_written: bool) -> None:
        """Take back the last entry, which may have been written or not."""
        if is_written:
            self._size -= ENTRY_BYTES
        if self.handle.opened is not None:
            self.handle.opened.truncate(self._size)


def journals(files: IFiles, directory: PurePath, index: int) -> list[PurePath]:
    """The journals of a partition, the oldest first."""
    pattern = re.compile(rf"{index}-(\d+){re.escape(SUFFIX)}")
    found = [match for match in map(pattern.fullmatch, files.names(directory)) if match]
    return [directory / match[0] for match in sorted(found, key=lambda match: int(match[1]))]


def read_entries(files: IFiles, paths: list[PurePath], next_offset: int) -> Iterator[Entry]:
    """
    The batches from C{next_offset} on, each of which continues the one before.  Blocks.
    """
    for path in paths:
        for entry in _read_file(files, path):
            if entry.batch.base_offset == next_offset:
                yield entry
                next_offset = entry.batch.next_offset


def _read_file(files: IFiles, path: PurePath) -> Iterator[Entry]:
    """The entries of one file, up to the first that was not completed."""
    file = files.open(path)
    try:
        content = file.read(0, file.size)
    finally:
        file.close()
    for start in range(0, len(content) - ENTRY_BYTES + 1, ENTRY_BYTES):
        entry = content[start : start + ENTRY_BYTES]
        if crc32(entry[_CHECKSUM.size :]) != _CHECKSUM.unpack_from(entry)[0]:
            return
        arrived_ms, checksum = _FACTS.unpack_from(entry, _CHECKSUM.size)
        yield Entry(RecordBatch(entry[_HEADER_AT:]), arrived_ms, checksum)
