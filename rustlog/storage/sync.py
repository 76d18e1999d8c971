"""
Group commit: one sync for everything that was written meanwhile.

Writers append at once and report themselves as dirty.  One round at a time takes all
that is dirty, syncs it off the reactor thread, and tells each writer how far it is durable
now.  What becomes dirty during a round goes into the next one.  A failed sync is never
retried: the kernel may have dropped the dirty pages and would call the
next attempt a success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any, Protocol

from attrs import frozen
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from rustlog.interfaces import IFile, IFiles, IStoreObserver, IWorkers


@frozen
class Unsynced:
    """
    What a writer has written since it was last asked.

    C{synced} is called on the reactor thread with C{None} or with the error.
    """

    files: tuple[IFile, ...]
    directories: tuple[PurePath, ...]
    synced: Callable[[Exception | None], None]


class Writer(Protocol):
    """Whoever writes and wants it durable."""

    def take_unsynced(self) -> Unsynced:
        """Everything written up to now; called at the beginning of a round."""


class SyncRounds:
    """
    The rounds of one store.

    @ivar count: how many rounds have been made.
    """

    def __init__(
        self,
        files: IFiles,
        workers: IWorkers,
        clock: IReactorTime,
        observer: IStoreObserver | None = None,
    ) -> None:
        self._files = files
        self._workers = workers
        self._clock = clock
        self._observer = observer
        self._began = 0.0
        self._dirty: dict[Writer, None] = {}
        self._due = 0.0
        self._running = False
        self._timer: IDelayedCall | None = None
        self._idle: list[Deferred[None]] = []
        self.count = 0

    def add(self, writer: Writer, delay_ms: int = 0) -> None:
        """
        Include C{writer} in the next round, which begins at the latest after C{delay_ms}.

        Even without delay the round begins after the present turn of the
        reactor, so that all requests that came in together share it.
        """
        due = self._clock.seconds() + delay_ms / 1000
        if not self._dirty or due < self._due:
            self._due = due
        self._dirty[writer] = None
        if not self._running:
            self._schedule()

    def idle(self) -> Deferred[None]:
        """Fires when nothing is dirty and no round is running; begins one if need be."""
        if not self._dirty and not self._running:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._idle.append(done)
        if not self._running:
            self._schedule()
        return done

    def _schedule(self) -> None:
        now = self._clock.seconds()
        due = now if self._idle else max(now, self._due)
        if self._timer is not None:
            if self._timer.getTime() <= due:
                return
            self._timer.cancel()
        self._timer = self._clock.callLater(due - now, self._begin)

    def _begin(self) -> None:
        self._timer = None
        dirty, self._dirty = self._dirty, {}
        taken = [writer.take_unsynced() for writer in dirty]
        self._running = True
        self._began = self._clock.seconds()
        self.count += 1
        running = self._workers.run(_sync_all, self._files, taken)
        running.addCallbacks(self._end, self._fail, callbackArgs=(taken,), errbackArgs=(taken,))

    def _fail(self, failure: Failure, taken: list[Unsynced]) -> None:
        error = failure.value if isinstance(failure.value, Exception) else RuntimeError(str(failure))
        self._end([error] * len(taken), taken)

    def _end(self, outcome: list[Any], taken: list[Unsynced]) -> None:
        self._running = False
        self._tell(outcome, taken)
        for each, error in zip(taken, outcome, strict=True):
            each.synced(error)
        if self._dirty:
            self._schedule()
        else:
            idle, self._idle = self._idle, []
            for waiting in idle:
                waiting.callback(None)

    def _tell(self, outcome: list[Any], taken: list[Unsynced]) -> None:
        if self._observer is not None:
            files = sum(len(each.files) for each in taken)
            failed = any(error is not None for error in outcome)
            self._observer.synced(files, self._clock.seconds() - self._began, failed)


def _sync_all(files: IFiles, taken: list[Unsynced]) -> list[Exception | None]:
    """In a worker: make everything durable, and say what failed for whom."""
    failed = files.sync_many([file for each in taken for file in each.files])
    broken = _sync_directories(files, (path for each in taken for path in each.directories))
    return [_first_error(each, failed, broken) for each in taken]


def _sync_directories(files: IFiles, paths: Iterable[PurePath]) -> dict[PurePath, Exception]:
    broken: dict[PurePath, Exception] = {}
    for path in dict.fromkeys(paths):
        try:
            files.sync_directory(path)
        except OSError as error:
            broken[path] = error
    return broken


def _first_error(
    taken: Unsynced, failed: dict[IFile, Exception], broken: dict[PurePath, Exception]
) -> Exception | None:
    errors = [failed[file] for file in taken.files if file in failed]
    errors += [broken[path] for path in taken.directories if path in broken]
    return errors[0] if errors else None
