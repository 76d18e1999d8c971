"""
What a client is sent.

Most answers are bytes.  Those that carry what is stored are L{Parts}: buffers, and slices of the
log that need not pass through this process at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Union, cast

from rustlog.log.batch import Buffer

if TYPE_CHECKING:
    from rustlog.interfaces import ISlice

Part = Union[Buffer, "ISlice"]


class Parts:
    """
    An answer in pieces, the first of which is bytes.

    Its slices are released exactly once: by who has sent them, or by L{release}.
    """

    __slots__ = ("parts", "size")

    def __init__(self, parts: Sequence[Part], size: int) -> None:
        self.parts = parts
        self.size = size

    def release(self) -> None:
        """It will not be sent."""
        for part in self.parts:
            if is_slice(part):
                cast("ISlice", part).release()


Answer = Union[bytes, Parts]

NO_ANSWER = Parts((), 0)
"""The client does not want to hear anything, not even an empty frame."""


def is_slice(part: Part) -> bool:
    """Whether it is not just a buffer."""
    return not isinstance(part, (bytes, bytearray, memoryview))


def part_size(part: Part) -> int:
    """Its bytes."""
    return cast("ISlice", part).size if is_slice(part) else len(cast(Buffer, part))


def part_content(part: Part) -> Buffer:
    """
    The same as a buffer.

    @raise OSError: it can not be read.
    """
    return cast("ISlice", part).buffer() if is_slice(part) else cast(Buffer, part)


def release(answer: Answer) -> None:
    """It will not be sent."""
    if type(answer) is Parts:
        answer.release()
