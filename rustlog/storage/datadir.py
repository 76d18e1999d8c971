"""
L{DataDirectory}: a directory that belongs to one process and one format at a time.

    <data-dir>/LOCK      held by the process that has the directory open
    <data-dir>/FORMAT    which store wrote this, and in which version
    <data-dir>/STATE     leader epoch, producer ids, how it was closed
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import attrs
from attrs import define, frozen

from rustlog.errors import StartupError
from rustlog.interfaces import IFiles
from rustlog.model import SyncPolicy
from rustlog.storage.documents import (
    TEMPORARY_SUFFIX,
    DamagedDocument,
    read_document,
    write_documents,
)

LOCK = "LOCK"
FORMAT = "FORMAT"
STATE = "STATE"
LOGS = "logs"


@frozen
class StoreState:
    """
    What a store remembers beside its topics.

    @ivar clean: whether it was closed in an orderly way.
    @ivar sync: what acknowledgements meant since it was opened last.
    """

    leader_epoch: int = 0
    next_producer_id: int = 0
    clean: bool = True
    sync: str = "always"

    @property
    def may_have_lost_a_tail(self) -> bool:
        """Whether something acknowledged may be gone without a trace."""
        return not self.clean and self.sync != str(SyncPolicy())


@define(eq=False)
class DataDirectory:
    """A directory that this process holds the lock of."""

    root: PurePath
    _files: IFiles
    _lock: Any

    @classmethod
    def claim(cls, files: IFiles, root: PurePath, format_name: str, version: int) -> DataDirectory:
        """
        Lock a directory, making it if need be, and mark it.  Blocks.

        @raise StartupError: someone else uses it, or it is of another format.
        @raise OSError: the disk does not want to.
        """
        _make_durable(files, root)
        try:
            lock = files.lock(root / LOCK)
        except BlockingIOError:
            raise StartupError(f"the data directory {root} is in use by another process") from None
        try:
            _check_format(files, root, format_name, version)
        except BaseException:
            lock.close()
            raise
        return cls(root, files, lock)

    def read_state(self, is_empty: bool) -> StoreState:
        """
        What was written last.  Blocks.

        @param is_empty: there is no topic yet, so there need not be a state either.
        @raise StartupError: there is none.
        """
        members = self.read(self.root / STATE)
        if members is not None:
            return StoreState(**members)
        if not is_empty:
            # Without it nobody knows which leader epochs and producer ids have been used.
            raise StartupError(f"{self.root / STATE} is missing; restore it from a backup")
        return StoreState()

    def write_state(self, state: StoreState) -> None:
        """Durable when it returns.  Blocks."""
        write_documents(self._files, {self.root / STATE: attrs.asdict(state)})

    def read(self, path: PurePath) -> dict[str, Any] | None:
        """
        A document of which there must be no doubt.  Blocks.

        @raise StartupError: it is damaged.
        """
        try:
            return read_document(self._files, path)
        except DamagedDocument as damage:
            raise StartupError(f"{damage}; restore it from a backup") from None

    def release(self) -> None:
        """Let others have it."""
        self._lock.close()


def remove_temporaries(files: IFiles, directory: PurePath) -> None:
    """Remove documents that a crash left half written.  Blocks."""
    for name in files.names(directory):
        if name.endswith(TEMPORARY_SUFFIX):
            files.unlink(directory / name)


def _make_durable(files: IFiles, directory: PurePath) -> None:
    missing = [path for path in (directory, *directory.parents) if not files.exists(path)]
    files.make_directory(directory)
    for path in missing:
        files.sync_directory(path.parent)


def _check_format(files: IFiles, root: PurePath, format_name: str, version: int) -> None:
    remove_temporaries(files, root)
    ours = {"format": format_name, "version": version}
    try:
        found = read_document(files, root / FORMAT)
    except DamagedDocument as damage:
        raise StartupError(f"{damage}; restore it from a backup") from None
    if found is None:
        if files.exists(root / LOGS):
            raise StartupError(
                f"{root} has a directory {LOGS}/ but no file {FORMAT}: it was not written by the store "
                f"{format_name!r}; choose another --data-dir"
            )
        write_documents(files, {root / FORMAT: ours})
    elif found != ours:
        theirs = f"{found.get('format')!r} (version {found.get('version')})"
        raise StartupError(
            f"{root} was written by the store {theirs}, not by {format_name!r} (version {version}); "
            f"choose that --storage or another --data-dir"
        )
