"""The C{shelf} offset store: an SQLite database in the data directory, beside any log store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from sqlite3 import Connection

from attrs import astuple, frozen
from twisted.internet.defer import Deferred
from zope.interface import implementer

from rustlog.environment import Environment
from rustlog.errors import StaleGeneration, VersionConflict
from rustlog.interfaces import ILogStore, IOffsetExpiry, IOffsetStore
from rustlog.model import Committed, TopicPartition
from rustlog_shelf.database import Database, open_database

VERSION = 1
SCHEMA = """
CREATE TABLE groups (name TEXT PRIMARY KEY, generation INTEGER, version INTEGER, document BLOB);
CREATE TABLE offsets (
    name TEXT, topic TEXT, partition INTEGER,
    offset INTEGER, leader_epoch INTEGER, metadata TEXT, commit_time INTEGER,
    PRIMARY KEY (name, topic, partition)
);
"""

NO_GROUP = (-1, 0, b"")


@frozen
class ShelfOffsetsSettings:
    data_dir: PurePath


def open_store(
    settings: ShelfOffsetsSettings, environment: Environment, log_store: ILogStore
) -> Deferred[ShelfOffsets]:
    """What C{--offsets=shelf} calls."""
    path = settings.data_dir / "shelf-offsets.db"
    return open_database(path, SCHEMA, VERSION, environment.workers).addCallback(ShelfOffsets)


@implementer(IOffsetStore, IOffsetExpiry)
class ShelfOffsets:
    """What the caller hands in is copied at once: the worker comes later."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], generation: int | None = None
    ) -> Deferred[None]:
        rows = [
            (group, *astuple(name), each.offset, each.leader_epoch, each.metadata, each.commit_time)
            for name, each in offsets.items()
        ]
        return self._database.run(_commit, group, rows, generation)

    def fetch(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Deferred[dict[TopicPartition, Committed]]:
        return self._database.run(_fetch, group, None if partitions is None else list(partitions))

    def groups(self) -> Deferred[tuple[str, ...]]:
        return self._database.run(_groups)

    def delete(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Deferred[None]:
        return self._database.run(_delete, group, None if partitions is None else list(partitions))

    def expire(self, group: str, before_ms: int) -> Deferred[int]:
        return self._database.run(_expire, group, before_ms)

    def load(self, group: str) -> Deferred[tuple[int, bytes]]:
        return self._database.run(_group, group).addCallback(lambda found: found[1:])

    def save(self, group: str, version: int, document: bytes) -> Deferred[int]:
        return self._database.run(_save, group, version, bytes(document))

    def close(self) -> Deferred[None]:
        return self._database.close()


# -- by a worker, within a transaction --


def _commit(db: Connection, group: str, rows: list[tuple[object, ...]], generation: int | None) -> None:
    current, version, document = _group(db, group)
    if generation is not None and generation < current:
        raise StaleGeneration(group, generation)
    generation = current if generation is None else generation
    db.execute("INSERT OR REPLACE INTO groups VALUES (?, ?, ?, ?)", [group, generation, version, document])
    db.executemany("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def _group(db: Connection, group: str) -> tuple[int, int, bytes]:
    """Generation, version and document of a group."""
    found = db.execute("SELECT generation, version, document FROM groups WHERE name = ?", [group]).fetchone()
    return NO_GROUP if found is None else found


def _fetch(
    db: Connection, group: str, partitions: list[TopicPartition] | None
) -> dict[TopicPartition, Committed]:
    rows = db.execute(
        "SELECT topic, partition, offset, leader_epoch, metadata, commit_time FROM offsets WHERE name = ?",
        [group],
    )
    found = {TopicPartition(topic, partition): Committed(*rest) for topic, partition, *rest in rows}
    if partitions is None:
        return found
    return {each: found[each] for each in partitions if each in found}


def _groups(db: Connection) -> tuple[str, ...]:
    rows = db.execute("SELECT name FROM offsets UNION SELECT name FROM groups WHERE version > 0")
    return tuple(sorted(name for (name,) in rows))


def _delete(db: Connection, group: str, partitions: list[TopicPartition] | None) -> None:
    if partitions is None:
        db.execute("DELETE FROM offsets WHERE name = ?", [group])
        db.execute("DELETE FROM groups WHERE name = ?", [group])
        return
    db.executemany(
        "DELETE FROM offsets WHERE name = ? AND topic = ? AND partition = ?",
        [(group, each.topic, each.partition) for each in partitions],
    )


def _expire(db: Connection, group: str, before_ms: int) -> int:
    old = "DELETE FROM offsets WHERE name = ? AND commit_time != -1 AND commit_time < ?"
    expired = db.execute(old, [group, before_ms]).rowcount
    if expired and group not in _groups(db):
        _delete(db, group, None)  # Nothing of it is left, so it may begin anew.
    return expired


def _save(db: Connection, group: str, version: int, document: bytes) -> int:
    generation, current, _ = _group(db, group)
    if version != current:
        raise VersionConflict(group, version, current)
    row = (group, generation, version + 1, document)
    db.execute("INSERT OR REPLACE INTO groups VALUES (?, ?, ?, ?)", row)
    return version + 1
