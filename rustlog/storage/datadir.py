"""
L{DataDirectory}: a directory that belongs to one process and one format at a time.

    <data-dir>/LOCK      held by the process that has the directory open
    <data-dir>/FORMAT    which store wrote this, and in which version
    <data-dir>/STATE     leader epoch, producer ids, how it was closed
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import attrs
from attrs import define, frozen

from rustlog.errors import StartupError
from rustlog.model import SyncPolicy
from rustlog.storage.documents import (
    TEMPORARY_SUFFIX,
    DamagedDocument,
    read_document,
    write_documents,
)

if TYPE_CHECKING:
    from rustlog.interfaces import IFiles

LOCK = "LOCK"
FORMAT = "FORMAT"
STATE = "STATE"
LOGS = "logs"

SEGMENTS = "segments"
MINIKAFKA = "minikafka"
CONVERTIBLE = (SEGMENTS, MINIKAFKA)
"""The formats between which a directory can be converted."""

UNFINISHED = "unfinished"
"""The format of a directory into which another one is being converted."""


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
    """
    A directory that this process holds the lock of.

    @ivar is_marked: whether it says which store it belongs to.
    """

    root: PurePath
    is_marked: bool
    _files: IFiles
    _lock: Any
    _marker: dict[str, Any]

    @classmethod
    def claim(
        cls,
        files: IFiles,
        root: PurePath,
        format_name: str,
        version: int,
        *,
        accepts_unmarked: bool = False,
    ) -> DataDirectory:
        """
        Lock a directory, making it if need be, and mark it.  Blocks.

        @param accepts_unmarked: whether logs without a mark are welcome.  Then they get theirs from
            L{mark}, once all that belongs to them has been written.
        @raise StartupError: someone else uses it, or it is of another format.
        @raise OSError: the disk does not want to.
        """
        make_durable(files, root)
        try:
            lock = files.lock(root / LOCK)
        except BlockingIOError:
            raise StartupError(f"the data directory {root} is in use by another process") from None
        ours = {"format": format_name, "version": version}
        try:
            is_marked = _check_format(files, root, ours, accepts_unmarked)
        except BaseException:
            lock.close()
            raise
        return cls(root, is_marked, files, lock, ours)

    def mark(self) -> None:
        """Let it say which store it belongs to; durable when this returns.  Blocks."""
        write_documents(self._files, {self.root / FORMAT: self._marker})
        self.is_marked = True

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


def make_durable(files: IFiles, directory: PurePath) -> None:
    """Make a directory, and those above it, so that they survive a loss of power.  Blocks."""
    missing = [path for path in (directory, *directory.parents) if not files.exists(path)]
    files.make_directory(directory)
    for path in missing:
        files.sync_directory(path.parent)


def read_format(files: IFiles, root: PurePath) -> dict[str, Any] | None:
    """
    Which store wrote a directory; C{None} when it does not say.  Blocks.

    @raise StartupError: it can not be read.
    """
    try:
        return read_document(files, root / FORMAT)
    except DamagedDocument as damage:
        raise StartupError(f"{damage}; restore it from a backup") from None


def _check_format(files: IFiles, root: PurePath, ours: dict[str, Any], accepts_unmarked: bool) -> bool:
    """Whether the directory is marked; it is, if it is acceptable and has no logs that need care."""
    remove_temporaries(files, root)
    found = read_format(files, root)
    if found == ours:
        return True
    if found is not None:
        raise StartupError(f"{root} {_of_another_store(found, ours, root)}")
    if files.exists(root / LOGS):
        if accepts_unmarked:
            return False
        raise StartupError(
            f"{root} has a directory {LOGS}/ but no file {FORMAT}: it was not written by the store "
            f"{ours['format']!r}; if it is MiniKafka's, choose --storage={MINIKAFKA} or convert it: "
            f"{convert_command(root, MINIKAFKA, ours['format'])}"
        )
    write_documents(files, {root / FORMAT: ours})
    return True


def _of_another_store(found: dict[str, Any], ours: dict[str, Any], root: PurePath) -> str:
    name, version = found.get("format"), found.get("version")
    if name == UNFINISHED:
        command = convert_command(found.get("source"), found.get("from"), found.get("to"), target=root)
        return f"is not yet converted; finish that: {command}"
    sentence = (
        f"was written by the store {name!r} (version {version}), "
        f"not by {ours['format']!r} (version {ours['version']}); choose that --storage or another --data-dir"
    )
    if {name, ours["format"]} == set(CONVERTIBLE):
        sentence += f", or convert it: {convert_command(root, name, ours['format'])}"
    return sentence


def convert_command(source: object, old: object, new: object, target: object = "NEW-DIRECTORY") -> str:
    """What to say to have a directory in another format."""
    return f"rustlog log convert {source} {target} --from={old} --to={new}"
