"""
Leader epochs: which stretch of a partition was written under which leadership.

An epoch is raised when the tail of the log may have been lost.  A consumer that remembers
the epoch of the last record it saw can then ask where that epoch ended here, and so learns
whether what it saw still is what is stored.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter

NO_EPOCH = -1
"""Kafka's word for "unknown", for epochs and for the offsets where they end."""

_epoch = itemgetter(0)
_start_offset = itemgetter(1)


class LeaderEpochs:
    """
    The history of one partition: (epoch, start offset), both strictly ascending.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: list[tuple[int, int]] = []
        for epoch, start_offset in entries:
            self.begin(epoch, start_offset)

    @property
    def current(self) -> int:
        """The latest epoch, or L{NO_EPOCH}."""
        return self._entries[-1][0] if self._entries else NO_EPOCH

    def begin(self, epoch: int, start_offset: int) -> bool:
        """
        From C{start_offset} on, records are written under C{epoch}.  What the history said
        of that offset and beyond, or of that epoch and later ones, gives way.

        @return: whether the history has changed; it has not when the epoch is the latest
            already and began no later.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} can not begin at offset {start_offset}")
        entries = self._entries
        if entries and entries[-1][0] == epoch and entries[-1][1] <= start_offset:
            return False
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start_offset):
            entries.pop()
        entries.append((epoch, start_offset))
        return True

    def at(self, offset: int) -> int:
        """The epoch under which C{offset} was, or would be, written; L{NO_EPOCH} before the first."""
        index = bisect_right(self._entries, offset, key=_start_offset)
        return self._entries[index - 1][0] if index else NO_EPOCH

    def end_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """
        Where C{epoch} ended, as OffsetForLeaderEpoch asks.

        @return: the largest known epoch not above C{epoch}, and the offset at which the next
            one began, or C{log_end_offset} if it is the latest.  When all known epochs are
            later (retention has removed the older ones): C{epoch} itself, and where the first known one
            began, so that a consumer which had come that far goes on undisturbed.  When
            C{epoch} was never reached, or nothing is known: L{NO_EPOCH} twice.
        """
        if epoch < 0 or epoch > self.current:
            return NO_EPOCH, NO_EPOCH
        index = bisect_right(self._entries, epoch, key=_epoch)
        known = self._entries[index - 1][0] if index else epoch
        end_offset = self._entries[index][1] if index < len(self._entries) else log_end_offset
        return known, end_offset

    def truncate_from(self, offset: int) -> None:
        """Forget the epochs that began at C{offset} or later: their records are gone."""
        del self._entries[bisect_left(self._entries, offset, key=_start_offset) :]

    def drop_before(self, log_start_offset: int) -> None:
        """
        Forget the epochs that ended before the log starts.  The one that was in force
        there stays, and now begins there.
        """
        index = bisect_right(self._entries, log_start_offset, key=_start_offset)
        if index:
            self._entries[:index] = [(self._entries[index - 1][0], log_start_offset)]

    def snapshot(self) -> list[list[int]]:
        """The history as plain lists, for JSON."""
        return [list(entry) for entry in self._entries]

    @classmethod
    def restore(cls, rows: Iterable[Iterable[int]]) -> LeaderEpochs:
        """
        The history that a L{snapshot} tells.

        @raise ValueError: it tells none.
        """
        history = cls()
        try:
            for epoch, start_offset in rows:
                history.begin(int(epoch), int(start_offset))
        except TypeError as error:
            raise ValueError(f"not a history of leader epochs: {error}") from None
        return history
