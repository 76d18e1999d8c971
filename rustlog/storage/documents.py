"""
Small JSON documents that are replaced as a whole and never seen half written.

A document is written under a temporary name, synced, renamed, and its directory
synced: after a crash either the old or the new one is there.  The member C{crc32c}
covers all the others, so that a damaged one is told from a right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import orjson
from crc32c import crc32c
from twisted.internet.defer import Deferred, succeed

from rustlog.interfaces import IFiles, IWorkers

TEMPORARY_SUFFIX = "~"
_CHECKSUM = "crc32c"


class DamagedDocument(ValueError):
    """The file is not the document that was written."""


def write_documents(files: IFiles, documents: Mapping[PurePath, Mapping[str, Any]]) -> None:
    """Replace all of them; when this returns they are durable.  Blocks."""
    opened = []
    try:
        for path, members in documents.items():
            files.make_directory(path.parent)
            file = files.open(_temporary(path), create=True)
            opened.append(file)
            file.truncate(0)
            file.append([_encode(members)])
        for error in files.sync_many(opened).values():
            raise error
    finally:
        for file in opened:
            file.close()
    for path in documents:
        files.rename(_temporary(path), path)
    for directory in {path.parent for path in documents}:
        # The entry of the directory itself may be new as well.
        files.sync_directory(directory)
        files.sync_directory(directory.parent)


def read_document(files: IFiles, path: PurePath) -> dict[str, Any] | None:
    """
    What was written, or C{None} when nothing ever was.

    @raise DamagedDocument: it does not parse, or its checksum is wrong.
    """
    if not files.exists(path):
        return None
    file = files.open(path)
    try:
        content = file.read(0, file.size)
    finally:
        file.close()
    return _decode(path, content)


def _temporary(path: PurePath) -> PurePath:
    return path.with_name(path.name + TEMPORARY_SUFFIX)


def _encode(members: Mapping[str, Any]) -> bytes:
    checksum = crc32c(orjson.dumps(members))
    return orjson.dumps({**members, _CHECKSUM: checksum}, option=orjson.OPT_INDENT_2) + b"\n"


def _decode(path: PurePath, content: bytes) -> dict[str, Any]:
    try:
        members = orjson.loads(content)
        checksum = members.pop(_CHECKSUM)
    except (ValueError, AttributeError, KeyError, TypeError) as problem:
        raise DamagedDocument(f"{path} is not a document of this store: {problem}") from None
    if crc32c(orjson.dumps(members)) != checksum:
        raise DamagedDocument(f"{path} is damaged: its checksum does not match")
    return dict(members)


class DocumentWriter:
    """
    Writes documents off the reactor thread, one round at a time: what is handed in
    during a round goes into the next one, where a later version replaces an earlier one.
    """

    def __init__(self, files: IFiles, workers: IWorkers) -> None:
        self._files = files
        self._workers = workers
        self._pending: dict[PurePath, Mapping[str, Any]] = {}
        self._waiting: list[Deferred[None]] = []
        self._running = False

    def write(self, path: PurePath, members: Mapping[str, Any]) -> Deferred[None]:
        """Fires once this version, or a later one, is durable."""
        self._pending[path] = members
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        if not self._running:
            self._begin_round()
        return waiting

    def forget(self, directory: PurePath) -> None:
        """Do not write what is still pending below C{directory}: it is going away."""
        for path in [path for path in self._pending if directory in path.parents]:
            del self._pending[path]

    def idle(self) -> Deferred[None]:
        """Fires once everything handed in has been dealt with."""
        if not self._running:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        return done.addErrback(lambda _: None)

    def _begin_round(self) -> None:
        documents, self._pending = self._pending, {}
        waiting, self._waiting = self._waiting, []
        self._running = True
        writing = self._workers.run(write_documents, self._files, documents)
        writing.addBoth(self._end_round, waiting)

    def _end_round(self, outcome: Any, waiting: list[Deferred[None]]) -> None:
        self._running = False
        if self._pending or self._waiting:
            self._begin_round()
        for each in waiting:
            each.callback(outcome)
