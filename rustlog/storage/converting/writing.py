"""
The side to which a conversion writes: a directory that is nobody's until it is finished.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from attrs import frozen

from rustlog.errors import StartupError
from rustlog.interfaces import IFile, IFiles
from rustlog.log.batch import Buffer
from rustlog.model import Record
from rustlog.settings import TopicConfig
from rustlog.storage.datadir import FORMAT, LOCK, MINIKAFKA, UNFINISHED, read_format
from rustlog.storage.documents import DamagedDocument, read_document, write_documents
from rustlog.storage.minikafka.format import encode, make_batch
from rustlog.storage.minikafka.layout import RecordLayout
from rustlog.storage.minikafka.opening import SEGMENT_BYTES
from rustlog.storage.segments.files import LOG_SUFFIX, base_offsets, segment_path
from rustlog.storage.segments.layout import BATCHES, Layout
from rustlog.storage.segments.reading import Damage

CONVERSION = "CONVERSION"
"""The document that says from where a directory was converted."""

_WRITE_BYTES = 1024 * 1024
LEADER_EPOCH = 0


@frozen
class Format:
    """
    How records are written in a format.

    @ivar rolls_before: whether a segment ends before the write that would make it too large, or after it.
    """

    encode: Callable[[list[Record]], Buffer]
    layout: Layout
    segment_bytes: int
    rolls_before: bool


def _encode_records(run: list[Record]) -> bytes:
    return b"".join(
        encode(each.value or b"", each.key or b"", each.timestamp, each.offset or 0) for each in run
    )


def format_of(name: str, segment_bytes: int | None) -> Format:
    """
    The format that a store writes.

    @param segment_bytes: what is set for the topic.
    """
    size = segment_bytes or TopicConfig().segment_bytes
    if name == MINIKAFKA:
        size = min(size, SEGMENT_BYTES)
        return Format(_encode_records, RecordLayout(PurePath(), 0), size, rolls_before=False)
    return Format(lambda run: make_batch(run, LEADER_EPOCH).buffer, BATCHES, size, rolls_before=True)


def claim(files: IFiles, root: PurePath, facts: dict[str, Any]) -> dict[str, Any] | None:
    """
    Make a directory the target of a conversion, new or to be continued.

    @param facts: from where, and what to what.
    @return: what was said at the end of this conversion, if it is finished.
    @raise StartupError: it belongs to someone else.
    """
    found = read_format(files, root)
    if found is None:
        foreign = [name for name in files.names(root) if name not in (LOCK, f"{FORMAT}~")]
        if foreign:
            raise StartupError(f"{root} is not empty ({foreign[0]} is in it); choose another directory")
        write_documents(files, {root / FORMAT: {"format": UNFINISHED, "version": 1, **facts}})
        return None
    if found.get("format") == UNFINISHED:
        said = {name: found.get(name) for name in facts}
        if said != facts:
            raise StartupError(
                f"{root} is the unfinished conversion of {found.get('source')} "
                f"from {found.get('from')} to {found.get('to')}; choose another directory"
            )
        return None
    finished = read_conversion(files, root)
    if finished is None or {name: finished.get(name) for name in facts} != facts:
        raise StartupError(f"{root} is a directory of the store {found.get('format')!r}; choose another one")
    return finished


def read_conversion(files: IFiles, root: PurePath) -> dict[str, Any] | None:
    """What was said at the end of a conversion."""
    try:
        return read_document(files, root / CONVERSION)
    except DamagedDocument as damage:
        raise StartupError(str(damage)) from None


class PartitionWriter:
    """
    Writes the segments of one partition, going on where an earlier attempt ended.

    @ivar next_offset: of the record that is wanted next.
    """

    def __init__(self, files: IFiles, directory: PurePath, form: Format, start: int) -> None:
        self._files = files
        self._directory = directory
        self._format = form
        self._file: IFile | None = None
        self._buffers: list[Buffer] = []
        self._buffered = 0
        self._size = 0
        self.next_offset = start
        bases = base_offsets(files.names(directory))
        if bases:
            self._go_on(bases[-1])

    def _go_on(self, base: int) -> None:
        """Keep what is whole of the last segment; those before it were synced."""
        self._file = self._files.open(segment_path(self._directory, base, LOG_SUFFIX))
        self.next_offset, end = base, 0
        try:
            for position, size, batch in self._format.layout.checked(
                self._file.read, 0, self._file.size, base
            ):
                end = position + size
                self.next_offset = batch.next_offset
        except Damage as damage:
            end = damage.position
        self._file.truncate(end)
        self._size = end

    def write(self, run: list[Record]) -> None:
        """Append records, which continue those before."""
        content = self._format.encode(run)
        if self._file is None or self._is_full(len(content)):
            self._roll()
        self._buffers.append(content)
        self._buffered += len(content)
        self._size += len(content)
        self.next_offset += len(run)
        if self._buffered >= _WRITE_BYTES:
            self._flush()

    def _is_full(self, size: int) -> bool:
        if self._size == 0:
            return False
        limit = self._format.segment_bytes
        return self._size + size > limit if self._format.rolls_before else self._size >= limit

    def _roll(self) -> None:
        self.close()
        self._files.make_directory(self._directory)
        path = segment_path(self._directory, self.next_offset, LOG_SUFFIX)
        self._file = self._files.open(path, create=True)
        self._files.sync_directory(self._directory)
        self._size = 0

    def _flush(self) -> None:
        if self._buffers and self._file is not None:
            self._file.append(self._buffers)
            self._buffers, self._buffered = [], 0

    def close(self) -> None:
        """Everything is durable when this returns."""
        self._flush()
        if self._file is not None:
            self._file.sync()
            self._file.close()
            self._file = None
