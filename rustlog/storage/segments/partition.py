"""
L{SegmentedPartition}: the write side and the state of one partition.

An append writes to the active segment at once.  What is visible is a second matter: under
C{--sync=always} the high watermark follows the syncs, otherwise the writes.  An
uncertain tail fences the partition: a failed sync is never retried, a failed write is
undone or, where that fails too, fences as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

import attrs
from attrs import define, frozen
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from rustlog.errors import PartitionFenced, RustlogError, TopicNotFound
from rustlog.interfaces import IFiles, IPartition, IWorkers
from rustlog.log.batch import Buffer, RecordBatch
from rustlog.log.epochs import LeaderEpochs
from rustlog.log.producers import ProducerTable
from rustlog.model import Appended, SyncPolicy, TopicInfo, TopicPartition
from rustlog.settings import UNLIMITED, TopicConfig
from rustlog.storage.documentwriter import DocumentWriter
from rustlog.storage.failures import refusal
from rustlog.storage.handles import Handle, Handles
from rustlog.storage.segments.checkpoint import Checkpoint
from rustlog.storage.segments.layout import BATCHES, Layout
from rustlog.storage.segments.segment import RELATIVE_OFFSET_MAX, Segment
from rustlog.storage.sync import SyncRounds, Unsynced
from rustlog.storage.watchers import Watchers

CHECKPOINT_BYTES = 64 * 1024 * 1024
"""So much log at most has to be checked when a partition is recovered."""


@frozen
class Services:
    """What all partitions of a store share."""

    files: IFiles
    workers: IWorkers
    handles: Handles
    rounds: SyncRounds
    writer: DocumentWriter
    watchers: Watchers
    clock: IReactorTime
    sync: SyncPolicy
    unsaved: dict[SegmentedPartition, float]
    """Partitions that were written to since their last checkpoint, and since when."""


@frozen
class Place:
    """A position in the log: an offset, and where in the files it is."""

    offset: int
    segment: Segment | None
    position: int


class Encoded(NamedTuple):
    """A batch as it is written, and the offset, size and highest timestamp of each entry that it becomes."""

    buffers: tuple[Buffer, ...]
    size: int
    entries: Sequence[tuple[int, int, int]]


@define(eq=False)
class PendingAppend:
    """An C{append} call that waits for syncs; fires when its last entry is through."""

    results: list[Appended | RustlogError]
    remaining: int = 0
    deferred: Deferred[list[Appended | RustlogError]] = attrs.field(factory=Deferred)

    def settle(self, slot: int, error: RustlogError | None) -> None:
        """One entry is durable, or never will be."""
        if error is not None:
            self.results[slot] = error
        self.remaining -= 1
        if self.remaining == 0:
            self.deferred.callback(self.results)


@frozen
class Recovered:
    """What recovery found of a partition."""

    segments: list[Segment]
    producers: ProducerTable
    epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    checkpoint: Checkpoint | None
    lost: bool = False
    """Whether something is missing that may have been acknowledged."""
    checked: list[Segment] = attrs.field(factory=list)
    """Those that reach behind the checkpoint; they may not be synced yet."""
    checked_bytes: int = 0
    """How much lay behind it."""


@implementer(IPartition)
class SegmentedPartition:
    """
    One partition of the store.

    @ivar unavailable: why nothing can be appended any more, if that is so.
    @ivar visible: how far readers may go.
    @ivar segments_max: so many of them are kept at most.
    """

    _log = Logger()

    segments_max = UNLIMITED

    def __init__(
        self,
        services: Services,
        topic: TopicInfo,
        index: int,
        config: TopicConfig,
        directory: PurePath,
        checkpoint_path: PurePath,
        recovered: Recovered,
        leader_epoch: int,
        layout: Layout = BATCHES,
    ) -> None:
        self._services = services
        self.layout = layout
        self.topic = topic
        self.index = index
        self.name = TopicPartition(topic.name, index)
        self.config = config
        self.directory = directory
        self._checkpoint_path = checkpoint_path
        self.segments = recovered.segments
        self.producers = recovered.producers
        self.epochs = recovered.epochs
        self.epochs.begin(leader_epoch, recovered.log_end_offset)
        self.leader_epoch = leader_epoch
        self.log_start_offset = self._log_start_promised = recovered.log_start_offset
        self.log_end_offset = recovered.log_end_offset
        self.high_watermark = recovered.log_end_offset
        self.visible = self._end()
        self.unavailable: RustlogError | None = None
        self._before_freeze: RustlogError | None = None
        self._checkpoint = recovered.checkpoint
        self._checkpoint_wanted = False
        self._unsaved_bytes = 0
        self._dirty: dict[Handle, None] = {}
        self._dirty_directories: dict[PurePath, None] = {}
        self._waiting: deque[tuple[int, PendingAppend, int]] = deque()
        self._flushing: list[Deferred[None]] = []

    @property
    def is_deleted(self) -> bool:
        return isinstance(self.unavailable, TopicNotFound)

    @property
    def fenced(self) -> PartitionFenced | None:
        """Why, if it is."""
        return self.unavailable if isinstance(self.unavailable, PartitionFenced) else None

    # -- appending --

    def append(self, batch: RecordBatch, now_ms: int) -> Appended | RustlogError:
        """Write a batch, or find that it was written before; it need not be visible yet."""
        if self.unavailable is not None:
            return self.unavailable
        try:
            original = self.producers.check(batch)
            if original is not None:
                return Appended(original, self.log_start_offset, duplicate=True)
            encoded = self._encode(batch)
        except RustlogError as refusal:
            return refusal
        try:
            segment = self._segment_for(encoded.size, now_ms)
            self._write(segment, batch, encoded, now_ms)
        except OSError as error:
            return self._refuse(error)
        base_offset, interval = self.log_end_offset, self.config.index_interval_bytes
        for offset, size, timestamp in encoded.entries:
            segment.note(offset, size, timestamp, interval)
        self.producers.record(batch, base_offset, now_ms)
        self.log_end_offset = base_offset + batch.last_offset_delta + 1
        self._account(encoded.size)
        return Appended(base_offset, self.log_start_offset)

    def wait_until_visible(self, offset: int, pending: PendingAppend, slot: int) -> None:
        """Settle an entry once the high watermark has reached C{offset}."""
        pending.remaining += 1
        self._waiting.append((offset, pending, slot))

    def _encode(self, batch: RecordBatch) -> Encoded:
        """What to write; raises a C{RustlogError} for what the format can not hold."""
        offset, size = self.log_end_offset, batch.size
        return Encoded(batch.placed(offset, self.leader_epoch), size, ((offset, size, batch.max_timestamp),))

    def _write(self, segment: Segment, batch: RecordBatch, encoded: Encoded, now_ms: int) -> None:
        try:
            segment.append(encoded.buffers, encoded.size)
        except OSError as error:
            self._undo(segment, error)
            raise

    def _undo(self, segment: Segment, cause: OSError) -> None:
        try:
            segment.undo_append()
        except OSError as error:
            self.fence(f"a write failed ({cause}) and could not be undone ({error})")

    def _refuse(self, error: OSError) -> RustlogError:
        if self.unavailable is not None:
            return self.unavailable
        self._log.error("cannot write to {partition}: {error}", partition=str(self.name), error=error)
        return refusal(error)

    def _account(self, size: int) -> None:
        """Decide when what was just written is to be synced, shown and checkpointed."""
        services = self._services
        interval_ms = services.sync.interval_ms
        if interval_ms is not None:
            self._mark_dirty(self.segments[-1].log)
            services.rounds.add(self, interval_ms)
        if interval_ms != 0:
            self._advance(self._end())
        if self not in services.unsaved:
            services.unsaved[self] = services.clock.seconds()
        self._unsaved_bytes += size
        if self._unsaved_bytes >= CHECKPOINT_BYTES:
            self.want_checkpoint()

    # -- segments --

    def _segment_for(self, size: int, now_ms: int) -> Segment:
        """The segment into which the next batch goes, a new one if need be."""
        if self.segments and not self._must_roll(self.segments[-1], size, now_ms):
            return self.segments[-1]
        return self.roll(now_ms)

    def _must_roll(self, active: Segment, size: int, now_ms: int) -> bool:
        if active.size == 0:
            return False
        return (
            active.size + size > self.config.segment_bytes
            or now_ms - active.created_ms >= self.config.segment_ms
            or self.log_end_offset - active.base_offset >= RELATIVE_OFFSET_MAX - size
        )

    def roll(self, now_ms: int) -> Segment:
        """Seal the active segment, which is synced whatever the policy, and begin a new one."""
        services = self._services
        sealed = self.segments[-1] if self.segments else None
        if sealed is not None:
            sealed.seal()
        segment = Segment(
            services.handles, self.directory, self.log_end_offset, layout=self.layout,
            created_ms=now_ms, index_entries=0, time_entries=0,
        )  # fmt: skip
        indexes = segment.offsets.handle.path.parent
        for directory in dict.fromkeys((self.directory, indexes)):
            services.files.make_directory(directory)
            for path in (directory, directory.parent, directory.parent.parent):
                self._dirty_directories[path] = None
        segment.log.create()
        if sealed is not None:
            for handle in (sealed.log, sealed.offsets.handle, sealed.times.handle):
                self._mark_dirty(handle)
            self.want_checkpoint()
        self.segments.append(segment)
        return segment

    def segment_number(self, offset: int) -> int:
        """Which segment holds an offset that is not before the first one."""
        return bisect_right(self.segments, offset, key=lambda each: each.base_offset) - 1

    # -- syncing --

    def take_unsynced(self) -> Unsynced:
        """As L{rustlog.storage.sync.Writer}: the end of the log is captured here."""
        checkpoint = self._capture_checkpoint() if self._checkpoint_wanted else None
        handles, self._dirty = self._dirty, {}
        directories, self._dirty_directories = self._dirty_directories, {}
        flushing, self._flushing = self._flushing, []
        files = tuple(handle.file for handle in handles)
        synced = partial(self._synced, handles, self._end(), checkpoint, flushing)
        return Unsynced(files, tuple(directories), synced)

    def _synced(
        self,
        handles: dict[Handle, None],
        end: Place,
        checkpoint: Checkpoint | None,
        flushing: list[Deferred[None]],
        error: Exception | None,
    ) -> None:
        for handle in handles:
            handle.release()
        if error is not None:
            self.fence(f"a sync failed: {error}")
        for each in flushing:
            each.callback(None if self.unavailable is None else Failure(self.unavailable))
        if self.unavailable is not None:
            return
        if self._services.sync.always:
            self._advance(end)
        if checkpoint is not None:
            self._checkpoint = checkpoint
            self._save().addErrback(self._checkpoint_failed)

    def flush(self) -> Deferred[None]:
        """Fires once all that has been written is on disk, whatever the policy."""
        if self.unavailable is not None:
            return fail(self.unavailable)
        if self.segments:
            self._mark_dirty(self.segments[-1].log)
        self._services.rounds.add(self)
        flushed: Deferred[None] = Deferred()
        self._flushing.append(flushed)
        return flushed

    def _mark_dirty(self, handle: Handle) -> None:
        if handle not in self._dirty:
            handle.lease()
            self._dirty[handle] = None

    def _advance(self, end: Place) -> None:
        """Readers may go up to C{end}; whoever waited for that hears it, in order."""
        self.visible = end
        self.high_watermark = end.offset
        waiting = self._waiting
        while waiting and waiting[0][0] <= end.offset:
            _, pending, slot = waiting.popleft()
            pending.settle(slot, None)
        self._services.watchers.announce(self)

    def _end(self) -> Place:
        if not self.segments:
            return Place(self.log_end_offset, None, 0)
        active = self.segments[-1]
        return Place(self.log_end_offset, active, active.size)

    # -- checkpoints --

    def want_checkpoint(self) -> None:
        """Have one made by the next sync round."""
        self._checkpoint_wanted = True
        self._services.rounds.add(self)

    def _capture_checkpoint(self) -> Checkpoint | None:
        self._checkpoint_wanted = False
        self._unsaved_bytes = 0
        self._services.unsaved.pop(self, None)
        if self.unavailable is not None or not self.segments:
            return None
        active = self.segments[-1]
        self._dirty_directories[active.offsets.handle.path.parent] = None  # The indexes may be new.
        try:
            active.flush_indexes()
            for handle in (active.log, active.offsets.handle, active.times.handle):
                self._mark_dirty(handle)
        except OSError as error:
            # The log itself is sound; recovery will just have more to read.
            self._log.warn("no checkpoint of {partition}: {error}", partition=str(self.name), error=error)
            return None
        return make_checkpoint(
            active, self.log_end_offset, self._log_start_promised, self.epochs, self.producers
        )

    def _save(self) -> Deferred[None]:
        """Write the latest checkpoint down, with the log start that was promised last."""
        latest = self._checkpoint
        if latest is None:
            first = self.segments[0].base_offset if self.segments else self.log_end_offset
            latest = Checkpoint(segment=first, position=0, next_offset=first, log_start_offset=first)
        latest = attrs.evolve(latest, log_start_offset=self._log_start_promised)
        return self._services.writer.write(self._checkpoint_path, latest.to_document())

    def _checkpoint_failed(self, failure: Failure) -> None:
        self._log.warn(
            "no checkpoint of {partition}: {error}", partition=str(self.name), error=failure.value
        )

    # -- the start of the log --

    def advance_start(self, offset: int) -> Deferred[int]:
        """Give up what lies before C{offset}; fires with the log start once that is durable."""
        self._log_start_promised = max(self._log_start_promised, offset)

        def started(_: None) -> int:
            self.log_start_offset = max(self.log_start_offset, offset)
            self.epochs.drop_before(self.log_start_offset)
            return self.log_start_offset

        return self._save().addCallback(started)

    def take_dead_segments(self) -> list[PurePath]:
        """Let go of the segments that lie wholly before the log start; the files to remove."""
        paths: list[PurePath] = []
        while len(self.segments) > 1 and self.segments[1].base_offset <= self.log_start_offset:
            paths += self.segments.pop(0).retire()
        return paths

    # -- ends --

    def fence(self, reason: str) -> None:
        """The tail is uncertain: accept nothing more; what is visible stays so."""
        if self.unavailable is None:
            self._log.critical("{partition} is fenced: {reason}", partition=str(self.name), reason=reason)
            self._fail(PartitionFenced(self.name, reason))

    def freeze(self) -> None:
        """The topic is being deleted."""
        self._before_freeze = self.unavailable
        self._fail(TopicNotFound(self.topic.name))

    def thaw(self) -> None:
        """It was not deleted after all."""
        self.unavailable = self._before_freeze

    def discard(self) -> None:
        """The files are gone: let go of them."""
        self._services.unsaved.pop(self, None)
        for segment in self.segments:
            segment.retire()

    def _fail(self, error: RustlogError) -> None:
        self.unavailable = error
        waiting, self._waiting = self._waiting, deque()
        for _, pending, slot in waiting:
            pending.settle(slot, error)
        self._services.watchers.announce(self)

    def __repr__(self) -> str:
        return f"<partition {self.name}: {self.log_start_offset}..{self.high_watermark}>"


def make_checkpoint(
    active: Segment,
    next_offset: int,
    log_start_offset: int,
    epochs: LeaderEpochs,
    producers: ProducerTable,
) -> Checkpoint:
    """What is to be remembered of a partition whose indexes have just been flushed."""
    highest = active.max_timestamp_entry
    return Checkpoint(
        segment=active.base_offset,
        position=active.size,
        next_offset=next_offset,
        log_start_offset=log_start_offset,
        created_ms=active.created_ms,
        index_entries=active.offsets.flushed,
        time_entries=active.times.flushed,
        max_timestamp=highest[0] if highest else None,
        max_timestamp_offset=highest[1] if highest else 0,
        epochs=epochs.snapshot(),
        producers=producers.snapshot(),
    )
