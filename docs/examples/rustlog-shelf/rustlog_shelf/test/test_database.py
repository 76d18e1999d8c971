"""Tests for L{rustlog_shelf.database}: what happens when things go wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import PurePath
from sqlite3 import Connection, connect
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from rustlog.errors import Closed, DamagedLog, StartupError, StorageFailed, StorageFull
from rustlog.interfaces import IWorkers
from rustlog.log import records
from rustlog.model import Fetched, Isolation, Record
from rustlog.testing.environment import memory_environment, simulated_environment
from rustlog_shelf.database import Database, open_database
from rustlog_shelf.store import ShelfSettings, open_store

SCHEMA = """
CREATE TABLE words (word TEXT PRIMARY KEY);
CREATE TABLE rhymes (word TEXT REFERENCES words (word) DEFERRABLE INITIALLY DEFERRED);
"""


def add(db: Connection, *words: str) -> None:
    for word in words:
        db.execute("INSERT INTO words VALUES (?)", [word])


def all_words(db: Connection) -> list[str]:
    return [word for (word,) in db.execute("SELECT word FROM words ORDER BY word")]


@implementer(IWorkers)
class BusyWorkers:
    """Workers that are busy with the first call until told, and quick from then on."""

    def __init__(self) -> None:
        self._first: Deferred[None] | None = None

    def run(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        if self._first is not None:
            return maybeDeferred(function, *arguments)
        self._first = Deferred()
        return self._first.addCallback(lambda _: function(*arguments))

    def go_on(self) -> None:
        assert self._first is not None
        self._first.callback(None)

    def close(self) -> Deferred[None]:
        return succeed(None)


class DatabaseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.environment: Any = memory_environment()
        self.path = PurePath(self.mktemp()) / "words.db"

    def open(self, version: int = 1) -> Database:
        return self.successResultOf(open_database(self.path, SCHEMA, version, self.environment.workers))

    def words(self, database: Database) -> list[str]:
        found: list[str] = self.successResultOf(database.run(all_words))
        return found

    def test_error_undoes_one_call(self) -> None:
        """A call that fails leaves nothing behind; the calls beside it are not touched."""
        self.environment = simulated_environment(1)
        opening = open_database(self.path, SCHEMA, 1, self.environment.workers)
        self.environment.clock.advance(1)
        database = self.successResultOf(opening)
        calls = [database.run(add, *words) for words in (["a"], ["b"], ["c", "a", "d"], ["e"])]
        self.environment.clock.pump([0.01] * 10)
        self.assertEqual([self.successResultOf(calls[number]) for number in (0, 1, 3)], [None] * 3)
        self.failureResultOf(calls[2], StorageFailed)
        found = database.run(all_words)
        self.environment.clock.advance(1)
        self.assertEqual(self.successResultOf(found), ["a", "b", "e"])

    def test_order(self) -> None:
        """Answers come in the order of the calls, even when one of them leads to another call."""
        database = self.open()
        database._workers = workers = BusyWorkers()
        heard: list[str] = []
        calls = {word: database.run(add, word) for word in ("a", "b", "c")}

        def hear(_: None, word: str) -> None:
            heard.append(word)
            if word == "b":
                database.run(add, "d").addCallback(hear, "d")

        for word, done in calls.items():
            done.addCallback(hear, word)
        workers.go_on()
        self.assertEqual(heard, ["a", "b", "c", "d"])

    def test_disk_full(self) -> None:
        """When the disk is full nothing is kept, and what comes later has another chance."""
        database = self.open()
        self.successResultOf(database.run(lambda db: db.execute("PRAGMA max_page_count = 10")))
        self.failureResultOf(database.run(add, "x" * 100_000), StorageFull)
        self.assertEqual(self.words(database), [])
        self.successResultOf(database.run(add, "small"))
        self.assertEqual(self.words(database), ["small"])

    def test_commit_fails(self) -> None:
        """When a transaction fails as a whole, all of it is told so, and nothing more is accepted."""
        database = self.open()
        self.successResultOf(database.run(add, "kept"))
        # Outside of a transaction, where alone SQLite takes this seriously.
        database._connection.execute("PRAGMA foreign_keys = ON")
        rhyme = "INSERT INTO rhymes VALUES ('of nothing')"
        self.failureResultOf(database.run(lambda db: db.execute(rhyme)), StorageFailed)
        self.failureResultOf(database.run(add, "later"), StorageFailed)
        self.successResultOf(database.close())
        self.assertEqual(self.words(self.open()), ["kept"])

    def test_closed(self) -> None:
        """A database that is closed does nothing more, and can be opened by the next."""
        database = self.open()
        self.successResultOf(database.close())
        self.failureResultOf(database.run(add, "late"), Closed)
        self.assertEqual(self.words(self.open()), [])

    def test_in_use(self) -> None:
        """A file that is in use is not opened again."""
        self.open()
        opening = open_database(self.path, SCHEMA, 1, self.environment.workers)
        refused = self.failureResultOf(opening, StartupError)
        self.assertIn("database is locked", str(refused.value))

    def test_other_version(self) -> None:
        """A file of another version is refused, with a way out."""
        self.successResultOf(self.open().close())
        opening = open_database(self.path, SCHEMA, 2, self.environment.workers)
        refused = self.failureResultOf(opening, StartupError)
        self.assertIn("has format version 1, not 2; choose another --data-dir", str(refused.value))

    def test_impossible_directory(self) -> None:
        """Where no directory can be made, that is said in one sentence."""
        self.successResultOf(self.open().close())
        opening = open_database(self.path / "words.db", SCHEMA, 1, self.environment.workers)
        self.failureResultOf(opening, StartupError)


class DamageTests(SynchronousTestCase):
    def test_damaged_batch(self) -> None:
        """A batch whose bytes have changed on the disk is reported, and never served."""
        environment = memory_environment()
        settings = ShelfSettings(PurePath(self.mktemp()))
        store = self.successResultOf(open_store(settings, environment))
        self.successResultOf(store.catalog.create("orders", 1, {}))
        partition: Any = store.partition("orders", 0)
        for value in (b"one", b"two"):
            self.successResultOf(store.append([(partition, records.build([Record(value)], now_ms=0))]))
        self.successResultOf(store.close())
        self.flip_last_byte(settings.data_dir / "shelf.db", next_offset=2)
        store = self.successResultOf(open_store(settings, environment))
        partition = store.partition("orders", 0)
        answers: list[Any] = []
        for offset in (0, 1):
            reading: Any = store.read([(partition, offset, 1)], 1, Isolation.READ_UNCOMMITTED)
            answers += self.successResultOf(reading)
        self.assertEqual([type(each) for each in answers], [Fetched, DamagedLog])
        self.assertEqual(answers[1].offset, 1)

    def test_damaged_tables(self) -> None:
        """A database that can not be read is refused when the broker starts, in one sentence."""
        environment = memory_environment()
        settings = ShelfSettings(PurePath(self.mktemp()))
        store = self.successResultOf(open_store(settings, environment))
        self.successResultOf(store.close())
        with closing(connect(settings.data_dir / "shelf.db")) as db:
            db.execute("DROP TABLE topics")
        refused = self.failureResultOf(open_store(settings, environment), StartupError)
        self.assertRegex(str(refused.value), "cannot read .*shelf.db: .* no such table: topics")

    def flip_last_byte(self, path: PurePath, next_offset: int) -> None:
        with closing(connect(path, isolation_level=None)) as db:
            row = [next_offset]
            (content,) = db.execute("SELECT content FROM batches WHERE next_offset = ?", row).fetchone()
            changed = content[:-1] + bytes([content[-1] ^ 1])
            db.execute("UPDATE batches SET content = ? WHERE next_offset = ?", [changed, *row])
