"""
Reading without blocking the reactor, and without threads in the logic.

Everything is tried on the reactor thread with reads that do not wait for the disk.  Where
the disk would have to be asked, L{Cold} is raised; whoever began the operation lets a
worker read that region, so that it is in the page cache, and starts the operation over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import define, frozen

from rustlog.interfaces import IFile
from rustlog.storage.handles import Handle

T = TypeVar("T")

WARM_PROBE_BYTES = 128 * 1024
"""How far apart a region is probed: the kernel's usual read-ahead."""

_PIECE_BYTES = 1024 * 1024


@frozen
class Cold(Exception):
    """A region of a file that is not in memory."""

    handle: Handle
    position: int
    size: int


@define(eq=False)
class Damage(Exception):
    """Bytes in a segment that are not what was written there."""

    position: int
    reason: str

    def __str__(self) -> str:
        return self.reason


def read_warm(handle: Handle, position: int, size: int) -> bytes:
    """
    Bytes that are in memory.

    @raise Cold: they are not.
    """
    content: bytes | None = handle.file.read(position, size, wait=False)
    if content is None:
        raise Cold(handle, position, size)
    return content


def read_waiting(handle: Handle, position: int, size: int) -> bytes:
    """Bytes from memory or from the disk.  Blocks."""
    content: bytes = handle.file.read(position, size)
    return content


def probe(handle: Handle, start: int, end: int) -> None:
    """
    Look whether a region can be sent without waiting for the disk.

    @raise Cold: a part of it is not in memory.
    """
    for position in (*range(start, end, WARM_PROBE_BYTES), max(start, end - 1)):
        if handle.file.read(position, 1, wait=False) is None:
            raise Cold(handle, start, end - start)


def warm(file: IFile, position: int, size: int) -> None:
    """Bring a region into memory.  Blocks."""
    for start in range(position, position + size, _PIECE_BYTES):
        file.read(start, min(_PIECE_BYTES, position + size - start))


def insist(function: Callable[[], T]) -> T:
    """Call it, reading from the disk whatever it finds cold.  Blocks."""
    while True:
        try:
            return function()
        except Cold as cold:
            warm(cold.handle.file, cold.position, cold.size)
