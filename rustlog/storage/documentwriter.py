"""
L{DocumentWriter}: documents that are written while the broker goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from twisted.internet.defer import Deferred, succeed

from rustlog.interfaces import IFiles, IWorkers
from rustlog.storage.documents import write_documents


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
