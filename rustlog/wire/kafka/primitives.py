"""
How the Kafka protocol writes numbers, strings and arrays: in an old way, and in a compact one.

    ===========  ===============================  ==========================================
    what         old ("legacy")                   compact ("flexible" versions)
    ===========  ===============================  ==========================================
    string       i16 length, -1 for null          unsigned varint of length + 1, 0 for null
    records      i32 length, -1 for null          the same varint
    array        i32 count, -1 for null           the same varint
    tags         none                             varint count, then (varint tag, varint size,
                                                  content) each, behind every structure
    ===========  ===============================  ==========================================

Only what the hand-written codecs need is here.  Records are never copied: who reads gets views, who
writes puts the parts of an answer beside each other.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from rustlog.log.batch import Buffer
from rustlog.wire.answers import Part, Parts, is_slice

if TYPE_CHECKING:
    from rustlog.interfaces import ISlice

T = TypeVar("T")

I16, I32 = Struct(">h"), Struct(">i")

ITEMS_MAX = 1_000_000
"""Of all arrays of one message: an item of two bytes takes a hundred times that in memory."""

_VARINT_BYTES_MAX = 5
_NO_ID = UUID(int=0)


class Unreadable(Exception):
    """Bytes are not the message that they should be."""


_NO_TAGS: list[tuple[int, memoryview]] = []


class Reader:
    """Takes values from a buffer, one after the other.  Underflow is C{struct.error} or L{Unreadable}."""

    __slots__ = ("_items_left", "data", "position", "view")

    def __init__(self, data: Buffer, position: int) -> None:
        self._items_left = ITEMS_MAX
        self.data = data
        self.view = memoryview(data)
        self.position = position

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Fields of fixed size, in one go."""
        values = layout.unpack_from(self.data, self.position)
        self.position += layout.size
        return values

    def take(self, size: int) -> memoryview:
        """So many bytes."""
        start = self.position
        end = start + size
        if size < 0 or end > len(self.view):
            raise Unreadable(f"{size} bytes are wanted where {len(self.view) - start} are left")
        self.position = end
        return self.view[start:end]

    def uuid(self) -> UUID:
        """A topic id."""
        return UUID(bytes=bytes(self.take(16)))

    def string(self) -> str:
        """One that must not be null."""
        text = self.nullable_string()
        if text is None:
            raise Unreadable("a string is null")
        return text

    def nullable_string(self) -> str | None:
        """Text in UTF-8."""
        size = self._string_length()
        return None if size < 0 else str(self.take(size), "utf-8")

    def records(self) -> memoryview | None:
        """Bytes that nobody looks into."""
        size = self._length()
        return None if size < 0 else self.take(size)

    def count(self) -> int:
        """Of the items of an array; -1 is null."""
        count = self._length()
        self._limit(count)
        return count

    def _limit(self, count: int) -> None:
        self._items_left -= count
        if self._items_left < 0:
            raise Unreadable(f"there are more than {ITEMS_MAX} items")

    def array(self) -> range:
        """To be iterated over for the items; a null array has none."""
        return range(self.count())

    def topic(self, *, by_id: bool) -> tuple[str, UUID | None]:
        """Its name, or its id and no name."""
        return ("", self.uuid()) if by_id else (self.string(), None)

    def finish(self) -> None:
        """There must be nothing more."""
        if self.position != len(self.view):
            raise Unreadable(f"{len(self.view) - self.position} bytes are left over")

    def tags(self) -> list[tuple[int, memoryview]]:
        """The tagged fields, where the version has any; not many care for them."""
        return _NO_TAGS

    def _string_length(self) -> int:
        return int(self.unpack(I16)[0])

    def _length(self) -> int:
        return int(self.unpack(I32)[0])


class FlexibleReader(Reader):
    """The compact way."""

    __slots__ = ()

    def tags(self) -> list[tuple[int, memoryview]]:
        count = self._varint()
        if not count:
            return _NO_TAGS
        self._limit(count)
        return [(self._varint(), self.take(self._varint())) for _ in range(count)]

    def _string_length(self) -> int:
        return self._varint() - 1

    def _length(self) -> int:
        return self._varint() - 1

    def _varint(self) -> int:
        view, position = self.view, self.position
        if position < len(view) and view[position] < 0x80:
            self.position = position + 1  # Most are small.
            return view[position]
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
            if position >= len(view):
                raise Unreadable("the data ends in a number")
            byte = view[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = position
                return value
        raise Unreadable("a number has too many digits")


def read_whole(reader: Reader, read: Callable[[Reader], T]) -> T:
    """
    What C{read} makes of everything that is left.

    @raise Unreadable: that is too little, too much, or not what it should be.
    """
    value = read_beginning(reader, read)
    reader.finish()
    return value


def read_beginning(reader: Reader, read: Callable[[Reader], T]) -> T:
    """
    What C{read} makes of the beginning of what is left.

    @raise Unreadable: that is too little, or not what it should be.
    """
    try:
        return read(reader)
    except (struct.error, ValueError, OverflowError) as error:
        raise Unreadable(str(error)) from None


class Writer:
    """Puts values behind each other."""

    __slots__ = ("_done", "_out", "_size")

    def __init__(self, head: bytes = b"") -> None:
        self._out = bytearray(head)
        self._done: list[Part] = []
        self._size = 0

    def pack(self, layout: Struct, *values: object) -> None:
        """Fields of fixed size, in one go."""
        self._out += layout.pack(*values)

    def uuid(self, value: UUID | None) -> None:
        """A topic id."""
        self._out += (value or _NO_ID).bytes

    def string(self, text: str | None) -> None:
        """Text, or null."""
        data = None if text is None else text.encode()
        self._string_length(-1 if data is None else len(data))
        self._out += data or b""

    def records(self, parts: Sequence[Part] | None, size: int) -> None:
        """Batches, as they are: C{size} bytes in all."""
        if parts is None:
            self._length(-1)
            return
        self._length(size)
        if parts:
            self._flush()
            self._done += parts
            self._size += size

    def array(self, count: int) -> None:
        """That many items follow; -1 is null."""
        self._length(count)

    def topic(self, name: str, topic_id: UUID | None, *, by_id: bool) -> None:
        """Its name, or its id."""
        if by_id:
            self.uuid(topic_id)
        else:
            self.string(name)

    def tags(self) -> None:
        """No tagged fields, where the version has any."""

    def finish(self) -> bytes | Parts:
        """All of it."""
        if not self._done:
            return bytes(self._out)
        if self._out:
            self._flush()
        return Parts(self._done, self._size)

    def _flush(self) -> None:
        self._size += len(self._out)
        self._done.append(bytes(self._out))
        self._out.clear()

    def _string_length(self, length: int) -> None:
        self._out += I16.pack(length)

    def _length(self, length: int) -> None:
        self._out += I32.pack(length)


class FlexibleWriter(Writer):
    """The compact way."""

    __slots__ = ()

    def tags(self) -> None:
        self._out.append(0)

    def _string_length(self, length: int) -> None:
        self._length(length)

    def _length(self, length: int) -> None:
        value = length + 1
        while value >= 0x80:
            self._out.append(value & 0x7F | 0x80)
            value >>= 7
        self._out.append(value)


def joined(answer: bytes | Parts) -> bytes:
    """An answer as one piece, for who wants it in memory."""
    if isinstance(answer, bytes):
        return answer
    return b"".join(
        cast("ISlice", part).buffer() if is_slice(part) else cast(Buffer, part) for part in answer.parts
    )
