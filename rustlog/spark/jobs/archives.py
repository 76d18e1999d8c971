"""
L{Archive}: a directory of Parquet files that grows by whole commits.

    <archive>/_rustlog/archive.json                what it is: format, kind, an id
    <archive>/_rustlog/LOCK                        held by the process that writes
    <archive>/_rustlog/commits/<number>.json       manifests, one for each commit
    <archive>/_rustlog/staging/<run>/…             files that belong to no commit yet
    <archive>/topic=<topic>/date=<date>/…          the data, where everybody looks for it
    <archive>/_delta_log/                          of Delta, if that is its kind

A commit takes three steps:

 1. The files are complete and synced, in the staging directory, which nobody reads.
 2. The manifest is written under a temporary name, synced and renamed.  B{This is the commit}: the offsets
    that it names are archived from now on, and nothing is archived that no manifest names.
 3. The files are moved to where they belong, and Delta, if there is one, hears of them in one transaction.

A crash before the second step leaves files that the next run removes.  One behind it leaves files that the
next run moves before it does anything else, so only the last commit can be incomplete, and never for longer
than until then.  Both moves and Delta's transaction (it bears the number of the commit) can be repeated
without harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from attrs import define, field

from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.manifests import Manifest, from_document, to_document
from rustlog.storage.datadir import make_durable
from rustlog.storage.documents import DamagedDocument, read_document, write_documents

if TYPE_CHECKING:
    from rustlog.interfaces import IFiles

PARQUET = "parquet"
DELTA = "delta"
KINDS = (PARQUET, DELTA)

FORMAT = "rustlog-archive"
VERSION = 1

PRIVATE = "_rustlog"
"""Spark, Delta and others pass over names that begin like this."""

_MARKER = PurePath(PRIVATE, "archive.json")
_LOCK = PurePath(PRIVATE, "LOCK")
_COMMITS = PurePath(PRIVATE, "commits")
STAGING = PurePath(PRIVATE, "staging")
_SUFFIX = ".json"

Announce = Callable[[PurePath, Manifest], None]
"""Tells a table format, in the archive's directory, of the files of a commit; once is enough."""


@define(eq=False)
class Archive:
    """
    An archive that exists.

    @ivar id: made when it was; who has copied from it remembers this.
    @ivar last: the newest commit.
    """

    root: PurePath
    kind: str
    id: str
    last: Manifest | None
    _files: IFiles
    _lock: Any = field(default=None, repr=False)

    def manifests(self) -> Iterator[Manifest]:
        """All commits, oldest first."""
        for number in _numbers(self._files, self.root):
            yield _read(self._files, self.root, number)

    def close(self) -> None:
        """Let others write."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # -- writing --

    def staging(self, run: str) -> PurePath:
        """The directory, made if need be, in which a run prepares its files."""
        path = self.root / STAGING / run
        make_durable(self._files, path)
        return path

    def commit(self, manifest: Manifest, announce: Announce) -> None:
        """Let the files of a manifest, all synced, belong to the archive.  Durable when this returns."""
        expected = self.last.number + 1 if self.last else 1
        assert manifest.number == expected, f"commit {manifest.number} follows {expected - 1}"
        path = self.root / _COMMITS / f"{manifest.number}{_SUFFIX}"
        self._files.sync_directory(self.root / STAGING / manifest.run)
        write_documents(self._files, {path: to_document(manifest)})
        self.last = manifest
        self._publish(manifest, announce)

    def recover(self, announce: Announce) -> None:
        """Finish what a crash has left undone, and remove what it has left behind."""
        if self.last is not None:
            self._publish(self.last, announce)
        for run in self._files.names(self.root / STAGING):
            _remove_flat(self._files, self.root / STAGING / run)

    def forget(self, run: str) -> None:
        """Remove what a run has staged and not committed."""
        path = self.root / STAGING / run
        if self._files.exists(path):
            _remove_flat(self._files, path)

    def _publish(self, manifest: Manifest, announce: Announce) -> None:
        files, directories = self._files, set()
        for each in manifest.files:
            staged, final = self.root / STAGING / manifest.run / each.staged, self.root / each.path
            if files.exists(staged):
                make_durable(files, final.parent)
                files.rename(staged, final)
                directories.add(final.parent)
            elif not files.exists(final):
                raise JobFailed(f"{final} of commit {manifest.number} is missing; restore it from a backup")
        for directory in sorted(directories):
            files.sync_directory(directory)
        announce(self.root, manifest)


def silently(root: PurePath, manifest: Manifest) -> None:
    """For plain Parquet: nobody has to be told."""


# -- opening ---------------------------------------------------------------------------


def is_archive(files: IFiles, root: PurePath) -> bool:
    """Whether there is one."""
    return files.exists(root / _MARKER)


def open_archive(files: IFiles, root: PurePath) -> Archive:
    """
    One to read from; somebody may be writing it.

    @raise JobFailed: there is none.
    """
    marker = _document(files, root / _MARKER)
    if marker is None:
        raise JobFailed(f"{root} is not an archive: there is no {_MARKER} in it")
    if marker.get("format") != FORMAT or marker.get("version") != VERSION:
        raise JobFailed(f"{root / _MARKER} is of another version; use the rustlog that has written it")
    numbers = _numbers(files, root)
    last = _read(files, root, numbers[-1]) if numbers else None
    return Archive(root, str(marker["kind"]), str(marker["id"]), last, files)


def begin_archive(files: IFiles, root: PurePath, kind: str, new_id: str) -> Archive:
    """
    One to write to, made if need be.

    @param new_id: for one that is new.
    @raise JobFailed: somebody else is writing, it is of another kind, or it is something else.
    """
    _refuse_strangers(files, root)
    make_durable(files, root / PRIVATE)
    try:
        lock = files.lock(root / _LOCK)
    except BlockingIOError:
        raise JobFailed(f"another process is writing the archive {root}") from None
    try:
        if not files.exists(root / _MARKER):
            marker = {"format": FORMAT, "version": VERSION, "kind": kind, "id": new_id}
            write_documents(files, {root / _MARKER: marker})
        archive = open_archive(files, root)
        if archive.kind != kind:
            raise JobFailed(f"{root} is an archive of the kind {archive.kind}, not {kind}")
    except BaseException:
        lock.close()
        raise
    archive._lock = lock
    return archive


def _refuse_strangers(files: IFiles, root: PurePath) -> None:
    if files.exists(root) and not files.exists(root / PRIVATE) and files.names(root):
        raise JobFailed(f"{root} has something else in it; name an archive, or a directory that is empty")


# -- files -----------------------------------------------------------------------------


def _numbers(files: IFiles, root: PurePath) -> list[int]:
    stems = [name.removesuffix(_SUFFIX) for name in files.names(root / _COMMITS) if name.endswith(_SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def _read(files: IFiles, root: PurePath, number: int) -> Manifest:
    path = root / _COMMITS / f"{number}{_SUFFIX}"
    try:
        return from_document(_document(files, path) or {})
    except ValueError as problem:
        raise JobFailed(f"{path}: {problem}; restore it from a backup") from None


def _document(files: IFiles, path: PurePath) -> dict[str, Any] | None:
    try:
        return read_document(files, path)
    except DamagedDocument as damage:
        raise JobFailed(f"{damage}; restore it from a backup") from None


def _remove_flat(files: IFiles, directory: PurePath) -> None:
    for name in files.names(directory):
        files.unlink(directory / name)
    files.remove_directory(directory)
