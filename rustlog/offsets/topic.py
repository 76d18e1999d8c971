"""
The C{topic} offset store: groups are kept in the internal topic C{__consumer_offsets} of the log store.

So they are as durable as records are, are backed up with them, and need no files of their own.  What the
records look like is described in L{rustlog.offsets.entries}; a commit is one batch.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from attrs import define, frozen
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.logger import Logger

from rustlog.environment import Environment
from rustlog.errors import RustlogError, StartupError, TopicExists
from rustlog.interfaces import ILogStore, IPartition
from rustlog.log.batch import RecordBatch, split_batches
from rustlog.model import (
    CONSUMER_OFFSETS,
    Appended,
    Fetched,
    Isolation,
    OffsetSpec,
    StoreLimits,
    TopicInfo,
)
from rustlog.offsets.entries import replay
from rustlog.offsets.journaled import JournaledOffsets
from rustlog.offsets.state import Groups
from rustlog.results import Result, deferred, then
from rustlog.settings import UNLIMITED

READ_BYTES = 1024 * 1024

TOPIC_CONFIG = {
    "cleanup.policy": "delete",
    # What is old need not be outdated: the store itself gives up what it has copied.
    "retention.bytes": str(UNLIMITED),
    "retention.ms": str(UNLIMITED),
    # Half of what lies between two snapshots: space is freed by whole segments.
    "segment.bytes": str(256 * 1024),
}

_log = Logger()


@frozen
class TopicOffsetsSettings:
    """There is nothing to set."""


@inlineCallbacks
def open_store(
    settings: TopicOffsetsSettings, environment: Environment, log_store: ILogStore
) -> Generator[Deferred[Any], Any, JournaledOffsets]:
    """What C{--offsets=topic} calls."""
    try:
        topic = yield _find_topic(log_store)
        partitions = [log_store.partition(topic.name, index) for index in range(topic.partitions)]
        reader = _Reader(log_store, Groups())
        # The first one last: it is the only one that is written to here.
        for partition in reversed(partitions):
            yield reader.read(partition)
        reader.report()
        journal = TopicJournal(log_store, partitions[0])
        offsets = JournaledOffsets(environment, journal, reader.groups, reader.size)
        yield _move_strangers(log_store, offsets, partitions[1:])
        return offsets
    except RustlogError as error:
        raise StartupError(f"cannot read the offsets in the topic {CONSUMER_OFFSETS}: {error}") from error


@inlineCallbacks
def _find_topic(log_store: ILogStore) -> Generator[Deferred[Any], Any, TopicInfo]:
    """The topic, made if need be, and with the settings that it needs."""
    catalog = log_store.catalog
    topic: TopicInfo | None = yield catalog.refresh(CONSUMER_OFFSETS)
    if topic is None:
        try:
            return (yield catalog.create(CONSUMER_OFFSETS, 1, TOPIC_CONFIG, internal=True))
        except TopicExists:  # Another broker was faster.
            topic = yield catalog.refresh(CONSUMER_OFFSETS)
            assert topic is not None
    if any(topic.config.get(name) != value for name, value in TOPIC_CONFIG.items()):
        topic = yield catalog.configure(CONSUMER_OFFSETS, TOPIC_CONFIG)
    return topic


@inlineCallbacks
def _move_strangers(
    log_store: ILogStore, offsets: JournaledOffsets, partitions: list[IPartition]
) -> Generator[Deferred[Any], Any, None]:
    """
    Where others have spread groups over several partitions, have everything in the first: of two
    partitions, nobody could tell later which one has the last word.
    """
    used = [each for each in partitions if each.log_start_offset < each.high_watermark]
    if used:
        yield offsets.snapshot()
    for partition in used:
        yield log_store.delete_records(partition, partition.high_watermark)


@define
class _Reader:
    """
    Replays partitions.

    @ivar size: how many bytes they have.
    """

    _store: ILogStore
    groups: Groups
    size: int = 0
    _strange: int = 0
    _first_strange: str = ""

    @inlineCallbacks
    def read(self, partition: IPartition) -> Generator[Deferred[Any], Any, None]:
        """Everything, from the start of the log to its end."""
        offset = (yield self._store.offset_for(partition, OffsetSpec.EARLIEST)).offset
        while True:
            wants = [(partition, offset, READ_BYTES)]
            (answer,) = yield deferred(self._store.read(wants, READ_BYTES, Isolation.READ_UNCOMMITTED))
            if not isinstance(answer, Fetched):
                raise answer
            if not answer.slices:
                return
            try:
                for each in answer.slices:
                    offset = self._take(partition, each.buffer())
            finally:
                answer.release()

    def _take(self, partition: IPartition, content: bytes) -> int:
        self.size += len(content)
        for batch in split_batches(content):
            strange = replay(self.groups, batch)
            if strange and not self._strange:
                self._first_strange = f"{partition.name} at offset {batch.base_offset}"
            self._strange += strange
        return batch.next_offset

    def report(self) -> None:
        """Say so, if there was anything strange."""
        if self._strange:
            _log.warn(
                "passed over {count} records that say nothing of offsets, the first in {place}",
                count=self._strange, place=self._first_strange,
            )  # fmt: skip


@define(eq=False)
class TopicJournal:
    """A partition as a L{Journal <rustlog.offsets.journaled.Journal>}."""

    _store: ILogStore
    _partition: IPartition

    @property
    def limits(self) -> StoreLimits:
        limits: StoreLimits = self._store.limits
        return limits

    def append(self, batch: RecordBatch) -> Result[None]:
        return then(self._store.append([(self._partition, batch)]), _raise_error)

    def mark(self) -> int:
        # With nothing under way, that is the end of what is ours.
        mark: int = self._partition.high_watermark
        return mark

    def forget_before(self, mark: int) -> Deferred[None]:
        deleted: Deferred[int] = self._store.delete_records(self._partition, mark)
        return deleted.addCallback(lambda _: None)

    def close(self) -> Deferred[None]:
        return deferred(None)  # The log store belongs to someone else.


def _raise_error(answers: list[Appended | RustlogError]) -> None:
    (answer,) = answers
    if isinstance(answer, RustlogError):
        raise answer
