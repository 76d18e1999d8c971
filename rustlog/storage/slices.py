"""What a read found, for stores that have it in memory by then."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from rustlog.interfaces import ISlice


@implementer(ISlice)
@frozen
class MemorySlice:
    """Batches that are in memory anyway."""

    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def region(self) -> None:
        return None

    def buffer(self) -> bytes:
        return self.content

    def release(self) -> None:
        """Nothing is held."""
