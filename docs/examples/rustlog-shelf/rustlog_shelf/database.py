"""
One SQLite file, used from a Twisted program.

SQLite blocks, and a sync takes milliseconds, so every call is made by a worker; one worker at a time.  Calls
that come while one is at work wait, and then share one transaction: a hundred appends cost one sync.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from rustlog.errors import Closed, RustlogError, StartupError, StorageFailed, StorageFull
from rustlog.interfaces import IWorkers


class Database:
    """All methods are to be called on the reactor thread."""

    def __init__(self, connection: sqlite3.Connection, workers: IWorkers) -> None:
        self._connection = connection
        self._workers = workers
        self._waiting: list[tuple[Callable[[], Any], Deferred[Any]]] = []
        self._closing: list[Deferred[None]] = []
        self._refusal: RustlogError | None = None
        self._is_busy = False

    def run(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """
        Deferred result of C{function(connection, *arguments)}, when its changes are on the disk; all of them
        are undone when it raises.  Calls happen in the order in which they come.
        """
        if self._refusal is not None:
            return fail(self._refusal)
        done: Deferred[Any] = Deferred()
        self._waiting.append((partial(function, self._connection, *arguments), done))
        self._go_on()
        return done

    def close(self) -> Deferred[None]:
        """Deferred C{None}, when all that was asked before is done."""
        self._refusal = Closed()
        done: Deferred[None] = Deferred()
        self._closing.append(done)
        self._go_on()
        return done

    def _go_on(self) -> None:
        if self._is_busy:
            return
        if self._waiting:
            self._is_busy = True
            waiting, self._waiting = self._waiting, []
            outcomes = self._workers.run(_transaction, self._connection, [call for call, _ in waiting])
            outcomes.addBoth(self._ended, [done for _, done in waiting])
        elif self._closing:
            closing, self._closing = self._closing, []
            for done in closing:
                self._workers.run(self._connection.close).chainDeferred(done)

    def _ended(self, outcomes: list[Any] | Failure, waiting: list[Deferred[Any]]) -> None:
        if isinstance(outcomes, Failure):
            outcomes = self._failed(outcomes, len(waiting))
        for done, outcome in zip(waiting, outcomes, strict=True):
            done.callback(outcome)
        self._is_busy = False  # Only now: answers come in the order of the calls.
        self._go_on()

    def _failed(self, failure: Failure, count: int) -> list[Any]:
        """
        The transaction as a whole was undone.  When the disk is full, the next one may succeed.  Otherwise
        nobody knows what the disk has: nothing more is done until the broker starts again.
        """
        error = _in_our_terms(failure.value)
        if self._refusal is None and not isinstance(error, StorageFull):
            self._refusal = error
        return [Failure(error) for _ in range(count)]


def _transaction(connection: sqlite3.Connection, calls: list[Callable[[], Any]]) -> list[Any]:
    """Make calls; what each returned, or the Failure that it was.  By a worker."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        outcomes = [_attempt(connection, call) for call in calls]
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return outcomes


def _attempt(connection: sqlite3.Connection, call: Callable[[], Any]) -> Any:
    connection.execute("SAVEPOINT attempt")
    try:
        outcome = call()
    except Exception as error:  # Whatever it is belongs to the one who asked.
        if not connection.in_transaction:
            raise  # SQLite has undone everything, not only this call.
        connection.execute("ROLLBACK TO attempt")
        outcome = Failure(_in_our_terms(error))
    connection.execute("RELEASE attempt")
    return outcome


def _in_our_terms(error: BaseException | None) -> Any:
    if not isinstance(error, sqlite3.Error):
        return error
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return StorageFull()
    return StorageFailed(f"the database failed: {error}")


def open_database(path: PurePath, schema: str, version: int, workers: IWorkers) -> Deferred[Database]:
    """Open a file, making it if need be.  Fails with C{StartupError}."""
    return workers.run(_connect, path, schema, version).addCallback(Database, workers)


def _connect(path: PurePath, schema: str, version: int) -> sqlite3.Connection:
    try:
        Path(path.parent).mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise StartupError(f"cannot open {path}: {error}") from error
    try:
        _prepare(connection, path, schema, version)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise StartupError(f"cannot open {path}: {error}") from error
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: PurePath, schema: str, version: int) -> None:
    # One process at a time, which keeps the lock while it lives; each commit is synced.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found == 0:
        connection.executescript(f"BEGIN IMMEDIATE; {schema} PRAGMA user_version = {version}; COMMIT;")
    elif found != version:
        raise StartupError(f"{path} has format version {found}, not {version}; choose another --data-dir")
