"""
The C{file} offset store: groups are kept in files of their own in the data directory.

    <data-dir>/offsets/LOCK       held by the process that has them open
    <data-dir>/offsets/<n>.log    record batches, back to back, as in a segment

What the records look like is described in L{rustlog.offsets.entries}; a commit is one batch.  The
files are read in the order of their numbers.  A snapshot begins a new one, and when it is on disk the
older ones are removed, oldest first, so that what one has deleted never comes back from one before.
"""

from __future__ import annotations

from functools import partial
from pathlib import PurePath
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from rustlog.environment import Environment
from rustlog.errors import StartupError, StorageFailed
from rustlog.interfaces import IFile, IFiles, ILogStore, IWorkers
from rustlog.log.batch import HEADER_SIZE, MAGIC, RecordBatch, batch_size
from rustlog.model import StoreLimits, SyncPolicy
from rustlog.offsets.entries import replay
from rustlog.offsets.journaled import JournaledOffsets
from rustlog.offsets.state import Groups
from rustlog.results import Result
from rustlog.storage.datadir import LOCK
from rustlog.storage.failures import refusal, refuse_for
from rustlog.storage.sync import SyncRounds, Unsynced

DIRECTORY = "offsets"
SUFFIX = ".log"

_log = Logger()


@frozen
class FileOffsetsSettings:
    """What the broker tells this store."""

    data_dir: PurePath
    sync: SyncPolicy = field(factory=SyncPolicy)


def open_store(
    settings: FileOffsetsSettings, environment: Environment, log_store: ILogStore
) -> Deferred[JournaledOffsets]:
    """What C{--offsets=file} calls."""

    def opened(found: Found) -> JournaledOffsets:
        rounds = SyncRounds(environment.files, environment.workers, environment.clock)
        journal = FileJournal(environment.files, environment.workers, rounds, settings.sync, found)
        return JournaledOffsets(environment, journal, found.groups, found.size)

    directory = settings.data_dir / DIRECTORY
    return environment.workers.run(open_directory, environment.files, directory).addCallback(opened)


# -- opening -----------------------------------------------------------------------------


@define
class Found:
    """
    What is in the directory.

    @ivar opened: the files by their numbers; the last one is written to.
    @ivar size: how many bytes they have.
    """

    directory: PurePath
    lock: Any
    groups: Groups = field(factory=Groups)
    opened: dict[int, IFile] = field(factory=dict)
    size: int = 0

    def close(self) -> None:
        """Let go of all of it."""
        for file in self.opened.values():
            file.close()
        self.lock.close()


def open_directory(files: IFiles, directory: PurePath) -> Found:
    """
    Lock it, and replay what is there.  Blocks.

    @raise StartupError: with one sentence that says why not.
    """
    try:
        files.make_directory(directory)
        try:
            lock = files.lock(directory / LOCK)
        except BlockingIOError:
            raise StartupError(f"the offsets in {directory} are in use by another process") from None
        found = Found(directory, lock)
        try:
            _read(files, found)
        except BaseException:
            found.close()
            raise
        return found
    except OSError as error:
        raise StartupError(f"cannot open the offsets in {directory}: {error}") from error


def _read(files: IFiles, found: Found) -> None:
    for number in _numbers(files, found.directory) or [0]:
        file = found.opened[number] = files.open(_path(found.directory, number), create=True)
        _replay(file, _path(found.directory, number), found)
    # Written, but perhaps never synced, it will be shown to clients from now on.
    for error in files.sync_many(list(found.opened.values())).values():
        raise error
    for path in (found.directory, found.directory.parent, found.directory.parent.parent):
        files.sync_directory(path)


def _numbers(files: IFiles, directory: PurePath) -> list[int]:
    names = (name.removesuffix(SUFFIX) for name in files.names(directory) if name.endswith(SUFFIX))
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def _path(directory: PurePath, number: int) -> PurePath:
    return directory / f"{number}{SUFFIX}"


def _replay(file: IFile, path: PurePath, found: Found) -> None:
    """Do what the file says up to where it is whole, and cut off the rest, which a crash has torn."""
    content, position, strange = file.read(0, file.size), 0, 0
    while (batch := _batch_at(content, position)) is not None:
        strange += replay(found.groups, batch)
        position += batch.size
    found.size += position
    if strange:
        _log.warn("passed over {count} records in {path}", count=strange, path=str(path))
    if position < file.size:
        _log.warn(
            "{path} is not whole behind position {position}: {size} bytes are cut off",
            path=str(path), position=position, size=file.size - position,
        )  # fmt: skip
        file.truncate(position)


def _batch_at(content: bytes, position: int) -> RecordBatch | None:
    """The batch that begins there, if it is whole."""
    if len(content) - position < HEADER_SIZE:
        return None
    size = batch_size(content, position)
    if not HEADER_SIZE <= size <= len(content) - position:
        return None
    batch = RecordBatch(content[position : position + size])
    return batch if batch.magic == MAGIC and batch.has_valid_crc() else None


# -- writing -----------------------------------------------------------------------------


class FileJournal:
    """
    The files as a L{Journal <rustlog.offsets.journaled.Journal>}.

    After a failed sync, or a failed write that can not be undone, nobody knows where the file ends:
    nothing more is written until the store is opened again.
    """

    limits = StoreLimits()

    def __init__(
        self, files: IFiles, workers: IWorkers, rounds: SyncRounds, sync: SyncPolicy, found: Found
    ) -> None:
        self._files = files
        self._workers = workers
        self._rounds = rounds
        self._sync = sync
        self._found = found
        self._number = max(found.opened)
        self._dirty: dict[IFile, None] = {}
        self._has_new_file = self._is_syncing = False
        self._waiting: list[Deferred[None]] = []
        self._removed: list[IFile] = []
        self._unavailable: StorageFailed | None = None

    @property
    def _file(self) -> IFile:
        return self._found.opened[self._number]

    def append(self, batch: RecordBatch) -> Result[None]:
        if self._unavailable is not None:
            raise self._unavailable
        self._write(batch)
        interval_ms = self._sync.interval_ms
        if interval_ms is None:
            return None
        self._dirty[self._file] = None
        self._rounds.add(self, interval_ms)
        if interval_ms:
            return None
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        return done

    def _write(self, batch: RecordBatch) -> None:
        file = self._file
        size = file.size
        try:
            file.append([batch.buffer])
        except OSError as error:
            self._undo(file, size, error)
            raise refusal(error) from error

    def _undo(self, file: IFile, size: int, cause: OSError) -> None:
        try:
            file.truncate(size)
        except OSError as error:
            raise self._fence(f"a write failed ({cause}) and could not be undone ({error})") from error

    # -- syncing --

    def take_unsynced(self) -> Unsynced:
        """As L{rustlog.storage.sync.Writer}."""
        files, self._dirty = tuple(self._dirty), {}
        waiting, self._waiting = self._waiting, []
        directories = (self._found.directory,) if self._has_new_file else ()
        self._has_new_file, self._is_syncing = False, True
        return Unsynced(files, directories, partial(self._synced, waiting))

    def _synced(self, waiting: list[Deferred[None]], error: Exception | None) -> None:
        self._is_syncing = False
        self._close_removed()
        if error is not None:
            self._fence(f"a sync failed: {error}")
        for each in waiting:
            if self._unavailable is None:
                each.callback(None)
            else:
                each.errback(self._unavailable)

    def _fence(self, reason: str) -> StorageFailed:
        if self._unavailable is None:
            _log.critical("no more offsets are taken until the next start: {reason}", reason=reason)
            self._unavailable = StorageFailed(f"offsets are not written until the broker restarts: {reason}")
        return self._unavailable

    # -- snapshots --

    def mark(self) -> int:
        number = self._number + 1
        path = _path(self._found.directory, number)
        try:
            self._found.opened[number] = self._files.open(path, create=True)
        except OSError as error:
            raise refusal(error) from error
        self._number = number
        self._has_new_file = True
        return number

    def forget_before(self, mark: int) -> Deferred[None]:
        old = {number: file for number, file in self._found.opened.items() if number < mark}
        done = self._workers.run(_replace, self._files, self._found.directory, old, self._file)

        def forgotten(_: None) -> None:
            for number, file in old.items():
                del self._found.opened[number]
                self._dirty.pop(file, None)
                self._removed.append(file)
            self._close_removed()

        return done.addCallbacks(forgotten, refuse_for)

    def _close_removed(self) -> None:
        """Not while a worker may be syncing one of them."""
        if not self._is_syncing:
            while self._removed:
                self._removed.pop().close()

    def close(self) -> Deferred[None]:
        if self._sync.interval_ms is None and self._unavailable is None:
            # An orderly stop syncs everything.
            self._dirty = dict.fromkeys(self._found.opened.values())
            self._rounds.add(self)
        return self._rounds.idle().addCallback(lambda _: self._found.close())


def _replace(files: IFiles, directory: PurePath, old: dict[int, IFile], new: IFile) -> None:
    """In a worker: remove old files, one after the other, when the new one is there to stay.  Blocks."""
    for error in files.sync_many([new]).values():
        raise error
    files.sync_directory(directory)
    for number in sorted(old):
        if files.exists(_path(directory, number)):
            files.unlink(_path(directory, number))
        files.sync_directory(directory)
