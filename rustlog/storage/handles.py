"""
Open files are scarce: a limited number is kept open, least recently used first to go.

A L{Handle} stands for a file whether it is open or not.  While someone holds a lease
on it (an unsynced write, a slice on its way to a socket) it stays open; the limit
is exceeded rather than broken into.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from pathlib import PurePath

from rustlog.interfaces import IFile, IFiles


class Handles:
    """All handles of one store."""

    def __init__(self, files: IFiles, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._open: OrderedDict[Handle, None] = OrderedDict()

    @property
    def open_count(self) -> int:
        return len(self._open)

    def handle(self, path: PurePath) -> Handle:
        """A handle on a file; nothing is opened yet."""
        return Handle(self, path)

    def close(self) -> None:
        """Close every file, leased or not."""
        for handle in list(self._open):
            self._close(handle)

    def _use(self, handle: Handle, create: bool) -> IFile:
        file = handle.opened
        if file is None:
            file = handle.opened = self._files.open(handle.path, create)
            self._open[handle] = None
            if len(self._open) > self._limit:
                self._make_room()
        else:
            self._open.move_to_end(handle)
        return file

    def _make_room(self) -> None:
        excess = len(self._open) - self._limit
        newest = next(reversed(self._open))
        idle = (each for each in self._open if each.leases == 0 and each is not newest)
        for handle in list(islice(idle, excess)):
            self._close(handle)

    def _close(self, handle: Handle) -> None:
        file, handle.opened = handle.opened, None
        self._open.pop(handle, None)
        if file is not None:
            file.close()


class Handle:
    """One file that may be open."""

    __slots__ = ("_handles", "_retired", "leases", "opened", "path")

    def __init__(self, handles: Handles, path: PurePath) -> None:
        self._handles = handles
        self._retired = False
        self.path = path
        self.leases = 0
        self.opened: IFile | None = None

    @property
    def file(self) -> IFile:
        """The open file; opened now if need be."""
        return self._handles._use(self, False)

    def create(self) -> IFile:
        """The open file; created if it does not exist."""
        return self._handles._use(self, True)

    def lease(self) -> IFile:
        """Keep it open until L{release}."""
        file = self.file
        self.leases += 1
        return file

    def release(self) -> None:
        """Give a lease back."""
        self.leases -= 1
        if self._retired and self.leases == 0:
            self._handles._close(self)

    def retire(self) -> None:
        """Close it as soon as nobody holds a lease: the file is going away."""
        self._retired = True
        if self.leases == 0:
            self._handles._close(self)
