"""
L{MiniKafkaPartition}: a partition whose log has records instead of batches, and a journal beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from twisted.internet.defer import Deferred

from rustlog.log.batch import RecordBatch
from rustlog.model import CONSUMER_OFFSETS, TopicInfo
from rustlog.settings import UNLIMITED, TopicConfig
from rustlog.storage.minikafka.format import encode_batch
from rustlog.storage.minikafka.journal import Entry, Journal
from rustlog.storage.minikafka.layout import RecordLayout
from rustlog.storage.segments.checkpoint import Checkpoint
from rustlog.storage.segments.partition import Encoded, Recovered, SegmentedPartition, Services
from rustlog.storage.segments.segment import RELATIVE_OFFSET_MAX, Segment


class MiniKafkaPartition(SegmentedPartition):
    """
    One partition of the store.

    @param segments_max: so many segments are kept; all of them, if the topic is one of the broker's own:
        what it keeps there lives until the broker itself gives it up.
    @param rolled: called when a new segment has been begun.
    """

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
        segments_max: int,
        rolled: Callable[[MiniKafkaPartition], object],
    ) -> None:
        self._aside = checkpoint_path.parent
        layout = RecordLayout(self._aside, index)
        super().__init__(
            services, topic, index, config, directory, checkpoint_path, recovered, leader_epoch, layout
        )
        is_internal = topic.internal or topic.name == CONSUMER_OFFSETS
        self.segments_max = UNLIMITED if is_internal else segments_max
        self._rolled = rolled
        self._journal = self._new_journal()
        self._old_journals: list[tuple[int, PurePath]] = []

    def _new_journal(self) -> Journal:
        return Journal(self._services.handles, self._aside, self.index, self.log_end_offset)

    # -- appending --

    def _encode(self, batch: RecordBatch) -> Encoded:
        return encode_batch(batch, self.log_end_offset)

    def _write(self, segment: Segment, batch: RecordBatch, encoded: Encoded, now_ms: int) -> None:
        entry = Entry.of(batch, self.log_end_offset, self.leader_epoch, now_ms, encoded.buffers[0])
        if self._journal.is_empty:
            self._prepare_journal()
        is_journaled = False
        try:
            self._journal.append(entry)
            is_journaled = True
            super()._write(segment, batch, encoded, now_ms)
        except OSError as error:
            self._undo_journal(is_journaled, error)
            raise
        if self._services.sync.interval_ms is not None:
            self._mark_dirty(self._journal.handle)

    def _prepare_journal(self) -> None:
        """It is going to be a new file."""
        self._services.files.make_directory(self._aside)
        for path in (self._aside, self._aside.parent, self._aside.parent.parent):
            self._dirty_directories[path] = None

    def _undo_journal(self, is_journaled: bool, cause: OSError) -> None:
        try:
            self._journal.undo(is_journaled)
        except OSError as error:
            self.fence(f"a write failed ({cause}) and could not be undone ({error})")

    def flush(self) -> Deferred[None]:
        if self.unavailable is None and not self._journal.is_empty:
            self._mark_dirty(self._journal.handle)
        return super().flush()

    # -- segments --

    def _must_roll(self, active: Segment, size: int, now_ms: int) -> bool:
        """A segment ends with the write that reaches its size, as MiniKafka's do."""
        if active.size == 0:
            return False
        return (
            active.size >= self.config.segment_bytes
            or now_ms - active.created_ms >= self.config.segment_ms
            or self.log_end_offset - active.base_offset >= RELATIVE_OFFSET_MAX - size
        )

    def roll(self, now_ms: int) -> Segment:
        segment = super().roll(now_ms)
        self._rolled(self)
        return segment

    # -- checkpoints --

    def _capture_checkpoint(self) -> Checkpoint | None:
        checkpoint = super()._capture_checkpoint()
        if checkpoint is not None and not self._journal.is_empty:
            self._old_journals.append((checkpoint.next_offset, self._journal.handle.path))
            self._journal.handle.retire()
            self._journal = self._new_journal()
        return checkpoint

    def _save(self) -> Deferred[None]:
        covered = self._checkpoint.next_offset if self._checkpoint is not None else 0
        return super()._save().addCallback(lambda _: self._remove_journals(covered))

    def _remove_journals(self, covered: int) -> None:
        """What is in them is in a durable checkpoint, too."""
        paths = [path for end, path in self._old_journals if end <= covered]
        self._old_journals = [each for each in self._old_journals if each[0] > covered]
        if paths and self.unavailable is None:
            self._services.workers.run(self._unlink, paths).addErrback(lambda _: None)

    def _unlink(self, paths: list[PurePath]) -> None:
        for path in paths:
            try:
                self._services.files.unlink(path)
            except OSError as error:
                # It does no harm, and the next start removes it.
                self._log.debug("{path} is still there: {error}", path=str(path), error=error)

    def discard(self) -> None:
        super().discard()
        self._journal.handle.retire()
