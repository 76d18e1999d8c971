"""
L{Translations}: what many consumers read is translated once.

To translate a batch takes many times as long as to send it, and those who wait at the end of a partition all
want the same one at the same time.  So while a partition has several streams, what was translated for one of
them is kept for the others, within bounds; what nobody wanted for the longest time goes first.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from uuid import UUID

from attrs import define, field

from rustlog.log.batch import RecordBatch
from rustlog.wire.fluvio.batches import from_log

Place = tuple[UUID, int]
"""A partition: the id of its topic, which is never used twice, and its index."""


@define(eq=False)
class Translations:
    """
    Of all connections of a listener.

    @ivar used: how many bytes are kept.
    """

    _bytes_max: int
    _readers: Counter[Place] = field(factory=Counter, init=False)
    _kept: OrderedDict[tuple[Place, int], list[bytes]] = field(factory=OrderedDict, init=False)
    used: int = field(default=0, init=False)

    def enter(self, place: Place) -> None:
        """A stream begins to read there."""
        self._readers[place] += 1

    def leave(self, place: Place) -> None:
        """It has ended."""
        self._readers[place] -= 1
        if not self._readers[place]:
            del self._readers[place]

    def translate(self, place: Place, batch: RecordBatch) -> list[bytes]:
        """As L{from_log} does."""
        if self._readers[place] < 2:
            return from_log(batch)
        key = place, batch.base_offset
        found = self._kept.get(key)
        if found is None:
            found = from_log(batch)
            self._keep(key, found)
        else:
            self._kept.move_to_end(key)
        return found

    def _keep(self, key: tuple[Place, int], translated: list[bytes]) -> None:
        self._kept[key] = translated
        self.used += _size(translated)
        while self.used > self._bytes_max:
            _, oldest = self._kept.popitem(last=False)
            self.used -= _size(oldest)


def _size(translated: list[bytes]) -> int:
    return sum(map(len, translated))
