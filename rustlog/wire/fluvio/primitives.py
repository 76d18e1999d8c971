"""
How the Fluvio protocol writes numbers, texts and collections; all of it is big-endian.

    ===========  ======================================================================================
    what         bytes
    ===========  ======================================================================================
    bool         1 byte, 0 or 1 and nothing else
    String       u16 size and UTF-8; who reads takes the size for an i16, and one below 0 for 0
    Option       1 byte as bool; 1 is followed by the value
    Vec          i32 count and the items; less than 0 is none.  C{Vec<u8>} is a count and bytes
    map          B{u16} count and pairs of key and value
    Duration     u64 seconds and u32 nanoseconds
    ===========  ======================================================================================

A structure is its fields, one after the other, without a frame: a field that came with version I{n} is not
there in the bytes of earlier ones.

Counts are believed only as far as there are bytes: an item has one at least.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, TypeVar

from rustlog.log.batch import Buffer
from rustlog.wire.answers import Answer, Part, Parts

K = TypeVar("K")
T = TypeVar("T")

ITEMS_MAX = 1_000_000
"""Of all collections of one message: an item of six bytes takes fifty times that in memory."""

STRING_BYTES_MAX = 2**15 - 1

U8, U16, U32, U64 = Struct(">B"), Struct(">H"), Struct(">I"), Struct(">Q")
I16, I32, I64 = Struct(">h"), Struct(">i"), Struct(">q")
_DURATION = Struct(">QI")


class Unreadable(Exception):
    """Bytes are not the message that they should be."""


class Reader:
    """Takes values from a buffer, one after the other.  Underflow is C{struct.error} or L{Unreadable}."""

    __slots__ = ("_items_left", "data", "position", "view")

    def __init__(self, data: Buffer, position: int = 0) -> None:
        self._items_left = ITEMS_MAX
        self.data = data
        self.view = memoryview(data)
        self.position = position

    @property
    def left(self) -> int:
        """How many bytes there are still."""
        return len(self.view) - self.position

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Fields of fixed size, in one go."""
        values = layout.unpack_from(self.data, self.position)
        self.position += layout.size
        return values

    def number(self, layout: Struct) -> int:
        """One number."""
        value: int = layout.unpack_from(self.data, self.position)[0]
        self.position += layout.size
        return value

    def take(self, size: int) -> memoryview:
        """So many bytes."""
        start = self.position
        end = start + size
        if size < 0 or end > len(self.view):
            raise Unreadable(f"{size} bytes are wanted where {len(self.view) - start} are left")
        self.position = end
        return self.view[start:end]

    def rest(self) -> memoryview:
        """All bytes that are left."""
        return self.take(self.left)

    def boolean(self) -> bool:
        """Yes or no."""
        value = self.number(U8)
        if value > 1:
            raise Unreadable(f"{value} is neither yes nor no")
        return value == 1

    def string(self) -> str:
        """Text in UTF-8."""
        return str(self.take(max(0, self.number(I16))), "utf-8")

    def blob(self) -> bytes:
        """A C{Vec<u8>}."""
        return bytes(self.take(max(0, self.number(I32))))

    def option(self, read: Callable[[], T]) -> T | None:
        """What C{read} reads, if it is there."""
        return read() if self.boolean() else None

    def vector(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Each item as C{read} reads it."""
        return tuple([read() for _ in range(self._believed(self.number(I32)))])

    def mapping(self, read_key: Callable[[], K], read_value: Callable[[], T]) -> tuple[tuple[K, T], ...]:
        """Pairs, in the order in which they stand."""
        return tuple([(read_key(), read_value()) for _ in range(self._believed(self.number(U16)))])

    def duration(self) -> tuple[int, int]:
        """Seconds and nanoseconds."""
        seconds, nanoseconds = self.unpack(_DURATION)
        return seconds, nanoseconds

    def strings(self) -> tuple[str, ...]:
        """A C{Vec<String>}."""
        return self.vector(self.string)

    def numbers(self, layout: Struct) -> tuple[int, ...]:
        """A C{Vec} of numbers."""
        count = self._believed(self.number(I32))
        return tuple([each[0] for each in layout.iter_unpack(self.take(count * layout.size))])

    def finish(self) -> None:
        """There must be nothing more."""
        if self.left:
            raise Unreadable(f"{self.left} bytes are left over")

    def _believed(self, count: int) -> int:
        if count > self.left:
            raise Unreadable(f"{count} items are claimed where {self.left} bytes are left")
        self._items_left -= count
        if self._items_left < 0:
            raise Unreadable(f"there are more than {ITEMS_MAX} items")
        return count


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

    def raw(self, data: Buffer) -> None:
        """Bytes as they are."""
        self._out += data

    def boolean(self, value: bool) -> None:
        """Yes or no."""
        self._out.append(1 if value else 0)

    def string(self, text: str) -> None:
        """Text, which must not be longer than L{STRING_BYTES_MAX}."""
        data = text.encode()
        if len(data) > STRING_BYTES_MAX:
            raise ValueError(f"a text of {len(data)} bytes")
        self._out += U16.pack(len(data))
        self._out += data

    def blob(self, data: Buffer) -> None:
        """A C{Vec<u8>}."""
        self._out += U32.pack(len(data))
        self._out += data

    def option(self, value: T | None, write: Callable[[T], object]) -> None:
        """What may be there or not."""
        self.boolean(value is not None)
        if value is not None:
            write(value)

    def vector(self, values: Sequence[T], write: Callable[[T], object]) -> None:
        """Items, each as C{write} writes it."""
        self._out += I32.pack(len(values))
        for each in values:
            write(each)

    def mapping(
        self,
        pairs: Sequence[tuple[K, T]],
        write_key: Callable[[K], object],
        write_value: Callable[[T], object],
    ) -> None:
        """Pairs."""
        self._out += U16.pack(len(pairs))
        for key, value in pairs:
            write_key(key)
            write_value(value)

    def duration(self, value: tuple[int, int]) -> None:
        """Seconds and nanoseconds."""
        self._out += _DURATION.pack(*value)

    def strings(self, texts: Sequence[str]) -> None:
        """A C{Vec<String>}."""
        self.vector(texts, self.string)

    def numbers(self, layout: Struct, values: Sequence[int]) -> None:
        """A C{Vec} of numbers."""
        self._out += I32.pack(len(values))
        for each in values:
            self._out += layout.pack(each)

    def batches(self, buffers: Iterable[Buffer]) -> None:
        """Their size in all, and then they themselves, which are not copied."""
        parts = [each for each in buffers if len(each)]
        size = sum(map(len, parts))
        self._out += I32.pack(size)
        if parts:
            self._flush()
            self._done += parts
            self._size += size

    def finish(self) -> Answer:
        """All of it."""
        if not self._done:
            return bytes(self._out)
        if self._out:
            self._flush()
        return Parts(self._done, self._size)

    def whole(self) -> bytes:
        """All of it, where there are no batches."""
        assert not self._done
        return bytes(self._out)

    def _flush(self) -> None:
        self._size += len(self._out)
        self._done.append(bytes(self._out))
        self._out.clear()
