"""
The log as tables.  Every function takes a connection, is called by a worker within a transaction,
and knows nothing of Twisted.

The tables are the only truth: nothing that is decided here depends on what a process remembers, so an undone
transaction leaves nothing to be put right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from sqlite3 import Connection
from typing import Any
from uuid import UUID

from attrs import define
from zope.interface import implementer

from rustlog.errors import DamagedLog, OffsetOutOfRange, RustlogError, TopicNotFound
from rustlog.interfaces import IPartition
from rustlog.log import records
from rustlog.log.batch import RecordBatch
from rustlog.log.producers import PRODUCERS_MAX, ProducerTable
from rustlog.model import (
    Appended,
    Fetched,
    FoundOffset,
    OffsetSpec,
    PartitionDescription,
    ProducerDescription,
    SegmentDescription,
    TopicInfo,
    TopicPartition,
)
from rustlog.settings import UNLIMITED, TopicConfig
from rustlog.storage.slices import MemorySlice

VERSION = 1
SCHEMA = """
CREATE TABLE topics (id TEXT PRIMARY KEY, name TEXT, partitions INTEGER, config TEXT, internal INTEGER);
CREATE TABLE partitions (key TEXT PRIMARY KEY, topic TEXT, log_start_offset INTEGER, next_offset INTEGER);
CREATE INDEX partitions_of_topic ON partitions (topic);
CREATE TABLE batches (
    partition TEXT, next_offset INTEGER, max_timestamp INTEGER, appended_ms INTEGER, content BLOB,
    PRIMARY KEY (partition, next_offset)
);
CREATE TABLE producers (
    partition TEXT, id INTEGER, last_append_ms INTEGER, batches TEXT, PRIMARY KEY (partition, id)
);
CREATE INDEX silent_producers ON producers (last_append_ms);
CREATE TABLE producer_ids (next INTEGER);
INSERT INTO producer_ids VALUES (0);
"""

LEADER_EPOCH = 0
"""Every acknowledged record is on the disk, so no tail is ever lost, and the epoch never raised."""

STEP_BATCHES = 1000
"""How many batches one step of maintenance removes from a partition."""


@implementer(IPartition)
@define(eq=False)
class ShelfPartition:
    """A handle.  Its offsets are hints: those in the tables count."""

    topic: TopicInfo
    index: int
    log_start_offset: int = 0
    high_watermark: int = 0
    leader_epoch = LEADER_EPOCH

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic.name, self.index)

    @property
    def key(self) -> str:
        """Topics that follow each other under one name have different ids, and so different keys."""
        return f"{self.topic.id}/{self.index}"


# -- topics --


def load_topics(db: Connection) -> list[TopicInfo]:
    rows = db.execute("SELECT id, name, partitions, config, internal FROM topics")
    return [
        TopicInfo(UUID(id), name, partitions, json.loads(config), bool(internal))
        for id, name, partitions, config, internal in rows
    ]


def load_bounds(db: Connection) -> dict[str, tuple[int, int]]:
    rows = db.execute("SELECT key, log_start_offset, next_offset FROM partitions")
    return {key: (start, end) for key, start, end in rows}


def save_topic(db: Connection, info: TopicInfo) -> None:
    topic = (str(info.id), info.name, info.partitions, json.dumps(dict(info.config)), info.internal)
    db.execute("INSERT OR REPLACE INTO topics VALUES (?, ?, ?, ?, ?)", topic)
    db.executemany(
        "INSERT OR IGNORE INTO partitions VALUES (?, ?, 0, 0)",
        [(ShelfPartition(info, index).key, str(info.id)) for index in range(info.partitions)],
    )


def remove_topic(db: Connection, info: TopicInfo) -> None:
    """Its partitions belong to nobody from now on; L{sweep} removes them bit by bit."""
    db.execute("DELETE FROM topics WHERE id = ?", [str(info.id)])
    db.execute("UPDATE partitions SET topic = NULL WHERE topic = ?", [str(info.id)])


# -- writing --


def append(db: Connection, entries: list[tuple[ShelfPartition, RecordBatch]], now_ms: int) -> list[object]:
    return [_answer(_append_one, db, partition, batch, now_ms) for partition, batch in entries]


def _answer(function: Callable[..., Any], *arguments: Any) -> Any:
    """A refusal is an answer too, and leaves the others as they are."""
    try:
        return function(*arguments)
    except RustlogError as error:
        return error


def _append_one(db: Connection, partition: ShelfPartition, batch: RecordBatch, now_ms: int) -> Appended:
    start, end = bounds(db, partition)
    producers = _load_producer(db, partition, batch.producer_id)
    original = producers.check(batch)
    if original is not None:
        return Appended(original, start, duplicate=True)
    next_offset = end + batch.last_offset_delta + 1
    content = batch.at(end, LEADER_EPOCH).buffer
    row = (partition.key, next_offset, batch.max_timestamp, now_ms, content)
    db.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?)", row)
    db.execute("UPDATE partitions SET next_offset = ? WHERE key = ?", [next_offset, partition.key])
    producers.record(batch, end, now_ms)
    _save_producers(db, partition, producers)
    return Appended(end, start)


def bounds(db: Connection, partition: ShelfPartition) -> tuple[int, int]:
    """Log start offset and high watermark."""
    found = db.execute(
        "SELECT log_start_offset, next_offset FROM partitions WHERE key = ? AND topic IS NOT NULL",
        [partition.key],
    ).fetchone()
    if found is None:
        raise TopicNotFound(partition.name.topic)
    start, end = found
    return start, end


def _load_producer(db: Connection, partition: ShelfPartition, producer_id: int) -> ProducerTable:
    """What is known of one producer: a table of one row, or of none."""
    rows = db.execute(
        "SELECT id, last_append_ms, batches FROM producers WHERE partition = ? AND id = ?",
        [partition.key, producer_id],
    )
    return _producer_table(rows)


def _producer_table(rows: Iterable[tuple[int, int, str]]) -> ProducerTable:
    return ProducerTable.restore((id, ms, json.loads(batches)) for id, ms, batches in rows)


def _save_producers(db: Connection, partition: ShelfPartition, producers: ProducerTable) -> None:
    for id, last_append_ms, batches in producers.snapshot():
        row = (partition.key, id, last_append_ms, json.dumps(batches))
        db.execute("INSERT OR REPLACE INTO producers VALUES (?, ?, ?, ?)", row)


def allocate_producer_ids(db: Connection, count: int) -> int:
    (first,) = db.execute("SELECT next FROM producer_ids").fetchone()
    db.execute("UPDATE producer_ids SET next = next + ?", [count])
    return int(first)


# -- reading --


def read(db: Connection, wants: list[tuple[ShelfPartition, int, int]], max_bytes: int) -> list[object]:
    answers: list[object] = []
    left = max_bytes
    for partition, offset, size_max in wants:
        found = _answer(_read_one, db, partition, offset, min(size_max, left), left == max_bytes)
        answers.append(found)
        left -= found.size if isinstance(found, Fetched) else 0
    return answers


def _read_one(
    db: Connection, partition: ShelfPartition, offset: int, size_max: int, at_least_one: bool
) -> Fetched:
    start, end = bounds(db, partition)
    if not start <= offset <= end:
        raise OffsetOutOfRange(offset, start, end)
    found: list[bytes] = []
    for content in _contents(db, partition, offset):
        size_max -= len(content)
        if size_max < 0 and (found or not at_least_one):
            break
        found.append(_verified(partition, content))
    joined = b"".join(found)
    return Fetched((MemorySlice(joined),) if joined else (), len(joined), end, end, start)


def _contents(
    db: Connection, partition: ShelfPartition, offset: int, since_ms: int = -1
) -> Iterator[bytes]:
    """The batches from the one that contains the offset on, if they have a record that is not older."""
    rows = db.execute(
        "SELECT content FROM batches WHERE partition = ? AND next_offset > ? AND max_timestamp >= ?"
        " ORDER BY next_offset",
        [partition.key, offset, since_ms],
    )
    return (content for (content,) in rows)


def _verified(partition: ShelfPartition, content: bytes) -> bytes:
    batch = RecordBatch(content)
    if not batch.has_valid_crc():
        raise DamagedLog(partition.name, batch.base_offset, "checksum does not match")
    return content


def offset_for(db: Connection, partition: ShelfPartition, spec: OffsetSpec | int) -> FoundOffset:
    start, end = bounds(db, partition)
    if spec is OffsetSpec.EARLIEST:
        return FoundOffset(start, leader_epoch=LEADER_EPOCH)
    if spec is OffsetSpec.LATEST:
        return FoundOffset(end, leader_epoch=LEADER_EPOCH)
    if spec is OffsetSpec.MAX_TIMESTAMP:
        spec = _newest(db, partition, start)
        if spec < 0:
            return FoundOffset(-1)
    for content in _contents(db, partition, start, spec):
        record = records.first_at_or_after(RecordBatch(content), spec, from_offset=start)
        if record is not None and record.offset is not None:
            return FoundOffset(record.offset, record.timestamp, LEADER_EPOCH)
    return FoundOffset(-1)


def _newest(db: Connection, partition: ShelfPartition, start: int) -> int:
    (newest,) = db.execute(
        "SELECT max(max_timestamp) FROM batches WHERE partition = ? AND next_offset > ?",
        [partition.key, start],
    ).fetchone()
    return -1 if newest is None else int(newest)


def producers(db: Connection, partition: ShelfPartition) -> tuple[ProducerDescription, ...]:
    """The longest silent first."""
    bounds(db, partition)  # The topic must be there.
    rows = db.execute(
        "SELECT id, last_append_ms, batches FROM producers WHERE partition = ?"
        " ORDER BY last_append_ms DESC LIMIT ?",
        [partition.key, PRODUCERS_MAX],
    )
    return _producer_table(reversed(rows.fetchall())).describe()


def describe(db: Connection, partition: ShelfPartition) -> PartitionDescription:
    """There are no segments, so all of it is one."""
    start, _ = bounds(db, partition)
    size = _size(db, partition, start)
    segments = (SegmentDescription(start, size),) if size else ()
    return PartitionDescription(size, segments)


def _size(db: Connection, partition: ShelfPartition, start: int) -> int:
    (size,) = db.execute(
        "SELECT coalesce(sum(length(content)), 0) FROM batches WHERE partition = ? AND next_offset > ?",
        [partition.key, start],
    ).fetchone()
    return int(size)


# -- removing --


def delete_records(db: Connection, partition: ShelfPartition, before: int) -> int:
    """Raise the log start offset; the batches before it go with the next maintenance."""
    start, end = bounds(db, partition)
    if before > end:
        raise OffsetOutOfRange(before, start, end)
    if before <= start:
        return start
    _start_at(db, partition, before)
    for content in _contents(db, partition, before):
        batch = RecordBatch(content)
        if batch.base_offset < before:  # What is left of it may be older than all of it was.
            newest = records.max_timestamp_from(batch, before)
            db.execute(
                "UPDATE batches SET max_timestamp = ? WHERE partition = ? AND next_offset = ?",
                [newest, partition.key, batch.next_offset],
            )
        break
    return before


def _start_at(db: Connection, partition: ShelfPartition, offset: int) -> None:
    db.execute("UPDATE partitions SET log_start_offset = ? WHERE key = ?", [offset, partition.key])


def retire(db: Connection, partition: ShelfPartition, config: TopicConfig, now_ms: int) -> tuple[int, bool]:
    """One step of retention; the log start offset, and whether there may be more to do."""
    start, _ = bounds(db, partition)
    limited = config.retention_bytes != UNLIMITED
    size = _size(db, partition, start) if limited else 0
    kept = start
    for next_offset, length, newest in _oldest(db, partition, start):
        size -= length
        is_surplus = limited and size >= config.retention_bytes
        is_old = config.retention_ms != UNLIMITED and now_ms - newest > config.retention_ms
        if not (is_surplus or is_old):
            break
        kept = next_offset
    if kept > start:
        _start_at(db, partition, kept)
    return kept, _remove_before(db, partition.key, kept)


def _oldest(db: Connection, partition: ShelfPartition, start: int) -> list[tuple[int, int, int]]:
    """Of a step's worth of batches next offset, length, and time: that of the write, if they bear none."""
    rows = db.execute(
        "SELECT next_offset, length(content), iif(max_timestamp < 0, appended_ms, max_timestamp) FROM batches"
        " WHERE partition = ? AND next_offset > ? ORDER BY next_offset LIMIT ?",
        [partition.key, start, STEP_BATCHES],
    )
    return rows.fetchall()


def _remove_before(db: Connection, key: str, offset: int) -> bool:
    """Remove a step's worth of batches that nobody can read any more; whether there may be more."""
    removed = db.execute(
        "DELETE FROM batches WHERE partition = ?1 AND next_offset IN (SELECT next_offset FROM batches"
        " WHERE partition = ?1 AND next_offset <= ?2 ORDER BY next_offset LIMIT ?3)",
        [key, offset, STEP_BATCHES],
    )
    return removed.rowcount == STEP_BATCHES


def sweep(db: Connection, silent_since_ms: int) -> bool:
    """Forget silent producers, and a part of a deleted topic; whether there is more of that."""
    db.execute("DELETE FROM producers WHERE last_append_ms <= ?", [silent_since_ms])
    orphan = db.execute("SELECT key, next_offset FROM partitions WHERE topic IS NULL LIMIT 1").fetchone()
    if orphan is None:
        return False
    key, end = orphan
    if not _remove_before(db, key, end):
        db.execute("DELETE FROM producers WHERE partition = ?", [key])
        db.execute("DELETE FROM partitions WHERE key = ?", [key])
    return True
