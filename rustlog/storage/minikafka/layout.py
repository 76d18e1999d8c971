"""
L{RecordLayout}: MiniKafka's files, for what deals with segments.

    <data-dir>/logs/<topic>/<n>/<base offset>.log                 records, back to back
    <data-dir>/checkpoints/<topic id>/<n>-<base offset>.index     finds offsets
    <data-dir>/checkpoints/<topic id>/<n>-<base offset>.timeindex finds timestamps
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath

from attrs import frozen

from rustlog.model import Record
from rustlog.storage.minikafka import format
from rustlog.storage.segments.files import LOG_SUFFIX, segment_path
from rustlog.storage.segments.layout import Checked, EntryHeader
from rustlog.storage.segments.reading import Damage
from rustlog.storage.segments.walking import Read


@frozen
class RecordLayout:
    """
    The layout of one partition.

    @ivar aside: the directory of what does not belong to MiniKafka.
    """

    aside: PurePath
    index: int

    header_bytes = format.HEADER_BYTES
    offset_at = format.OFFSET_AT

    def path(self, directory: PurePath, base_offset: int, suffix: str) -> PurePath:
        if suffix == LOG_SUFFIX:
            return segment_path(directory, base_offset, suffix)
        return self.aside / f"{self.index}-{base_offset}{suffix}"

    def header(self, content: bytes, at: int, position: int) -> EntryHeader | None:
        length, _, offset, timestamp, key_size = format.HEADER.unpack_from(content, at)
        if not 0 <= key_size <= length - format.LENGTH_MIN:
            return None
        return EntryHeader(position, length + 4, offset, offset, timestamp)

    def verified(self, content: memoryview) -> tuple[int, str]:
        end, problem = 0, "the file ends within a record"
        try:
            for following, _, is_right in format.split(bytes(content), 0, None):
                if not is_right:
                    return end, format.WRONG_CHECKSUM
                end = following
        except Damage as damage:
            problem = damage.reason
        return end, problem

    def records(self, content: bytes, header: EntryHeader, from_offset: int) -> Iterable[Record]:
        if header.last_offset < from_offset:
            return []
        return [record for _, record, _ in format.split(content, 0, header.base_offset)]

    def checked(self, read: Read, start: int, end: int, expected: int) -> Iterator[Checked]:
        for position, size, record, is_right in format.walk(read, start, end, expected):
            if not is_right:
                raise Damage(position, format.WRONG_CHECKSUM)
            yield position, size, format.make_batch([record], 0)

    def another_follows(self, content: bytes, expected: int) -> bool:
        return format.another_follows(content, expected)
