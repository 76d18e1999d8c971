"""
The C{segments} store: each partition is a row of segment files in the data directory.

This module joins the parts: L{opening} brings the directory into memory, partitions write
(L{rustlog.storage.segments.partition}), L{lookup} reads.  Whatever may have to wait for the disk
is done by a worker; everything else happens on the reactor thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from pathlib import PurePath
from typing import Any, Generic, Protocol, TypeVar

import attrs
from attrs import define
from twisted.internet.defer import Deferred, fail, inlineCallbacks
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from rustlog.environment import Environment
from rustlog.errors import Closed, OffsetOutOfRange, RustlogError, StorageFailed, TopicNotFound
from rustlog.interfaces import IFencing, ILogStore
from rustlog.log.batch import RecordBatch
from rustlog.log.epochs import LeaderEpochs
from rustlog.log.producers import ProducerTable
from rustlog.model import (
    Appended,
    Fetched,
    FoundOffset,
    Isolation,
    OffsetSpec,
    PartitionDescription,
    ProducerDescription,
    SegmentDescription,
    StorageDescription,
    StoreLimits,
    SyncPolicy,
    TopicInfo,
)
from rustlog.results import Result
from rustlog.settings import TopicConfig, with_overrides
from rustlog.storage.catalog import Catalog
from rustlog.storage.datadir import STATE
from rustlog.storage.documentwriter import DocumentWriter
from rustlog.storage.failures import refuse_for
from rustlog.storage.handles import Handle
from rustlog.storage.segments import lookup, retention
from rustlog.storage.segments.opening import Opened, SegmentsSettings, open_directory
from rustlog.storage.segments.partition import PendingAppend, Recovered, SegmentedPartition, Services
from rustlog.storage.segments.reading import Cold, warm
from rustlog.storage.sync import SyncRounds
from rustlog.storage.topicfiles import DeletionUncertain, TopicFiles
from rustlog.storage.watchers import Listener, Watchers

CHECKPOINT_SECONDS = 30
"""How long what was written may stay without a checkpoint."""

_CHECKPOINT_LOOK_SECONDS = 5
_READ_ATTEMPTS_MAX = 50
"""So often at most a region is read from the disk that is gone from memory before it can be used."""

_MEMORY_TOO_SHORT = "what is read from the disk does not stay in memory"

PARTITIONS_PER_STEP = 256
"""How many partitions one call of C{maintain} looks over."""

FILES_PER_STEP = 256
"""How many files of deleted topics one call of C{maintain} removes."""

T = TypeVar("T")
S = TypeVar("S", bound="StoreSettings")


class StoreSettings(Protocol):
    """What the settings of every such store have."""

    @property
    def data_dir(self) -> PurePath: ...
    @property
    def sync(self) -> SyncPolicy: ...
    @property
    def topic_defaults(self) -> TopicConfig: ...
    @property
    def producer_id_expiration_ms(self) -> int: ...


__all__ = ["SegmentStore", "SegmentsSettings", "open_store"]


def open_store(
    settings: SegmentsSettings, environment: Environment
) -> Deferred[SegmentStore[SegmentsSettings]]:
    """What C{--storage=segments} calls."""
    opening = environment.workers.run(open_directory, settings, environment)
    return opening.addCallback(lambda opened: SegmentStore[SegmentsSettings](settings, environment, opened))


@implementer(ILogStore, IFencing)
class SegmentStore(Generic[S]):
    """An open data directory; stores with another layout of their files are made of this one."""

    limits = StoreLimits()

    _log = Logger()
    _find: lookup.Find = staticmethod(lookup.find_in_files)

    def __init__(self, settings: S, environment: Environment, opened: Opened) -> None:
        self._settings = settings
        self._environment = environment
        self._directory = opened.directory
        self._state = opened.state
        self._handles = opened.handles
        files, workers, clock = environment.files, environment.workers, environment.clock
        self._services = Services(
            files=files,
            workers=workers,
            handles=opened.handles,
            rounds=SyncRounds(files, workers, clock, environment.observer),
            writer=DocumentWriter(files, workers),
            watchers=Watchers(clock),
            clock=clock,
            sync=settings.sync,
            unsaved={},
        )
        self._topic_files = TopicFiles(files, workers, self._services.writer, settings.data_dir)
        self._partitions: dict[str, list[SegmentedPartition]] = {}
        for topic in opened.topics:
            self._add_partitions(topic, opened.recovered[topic.name])
        journal = _Journal(self._topic_files, self._partitions)
        self._to_maintain: list[SegmentedPartition] = []
        self._closing: Deferred[None] | None = None
        self.catalog = Catalog(environment.random, journal, opened.topics)
        self.catalog.subscribe(self._topic_changed)
        self._checkpoint_look: IDelayedCall = clock.callLater(
            _CHECKPOINT_LOOK_SECONDS, self._look_for_checkpoints
        )

    # -- topics --

    def partition(self, topic: str, index: int) -> SegmentedPartition | None:
        partitions = self._partitions.get(topic)
        if partitions is None or not 0 <= index < len(partitions):
            return None
        return partitions[index]

    def _topic_changed(self, old: TopicInfo | None, new: TopicInfo | None) -> None:
        if new is None:
            assert old is not None
            for partition in self._partitions.pop(old.name):
                partition.discard()
            return
        partitions = self._partitions.setdefault(new.name, [])
        config = self._config_of(new)
        for partition in partitions:
            partition.topic = new
            partition.config = config
        self._add_partitions(new, [_nothing() for _ in range(new.partitions - len(partitions))])

    def _add_partitions(self, topic: TopicInfo, recovered: list[Recovered]) -> None:
        partitions = self._partitions.setdefault(topic.name, [])
        config = self._config_of(topic)
        for each in recovered:
            partition = self._make_partition(topic, len(partitions), config, each)
            partitions.append(partition)
            if each.checked_bytes or each.lost:
                self._services.unsaved[partition] = self._services.clock.seconds()

    def _config_of(self, topic: TopicInfo) -> TopicConfig:
        return with_overrides(self._settings.topic_defaults, topic.config)

    def _make_partition(
        self, topic: TopicInfo, index: int, config: TopicConfig, recovered: Recovered
    ) -> SegmentedPartition:
        return SegmentedPartition(
            self._services,
            topic,
            index,
            config,
            self._topic_files.partition_directory(topic.name, index),
            self._topic_files.checkpoint_path(topic.id, index),
            recovered,
            self._state.leader_epoch,
        )

    # -- writing --

    def append(
        self, entries: list[tuple[SegmentedPartition, RecordBatch]]
    ) -> Result[list[Appended | RustlogError]]:
        if self._closing is not None:
            return [Closed() for _ in entries]
        now_ms = self._environment.wall.now_ms()
        results = [partition.append(batch, now_ms) for partition, batch in entries]
        pending: PendingAppend | None = None
        for slot, (partition, batch) in enumerate(entries):
            result = results[slot]
            if type(result) is Appended:
                end = result.base_offset + batch.last_offset_delta + 1
                if end > partition.high_watermark:
                    pending = pending or PendingAppend(results)
                    partition.wait_until_visible(end, pending, slot)
        return results if pending is None else pending.deferred

    # -- reading --

    def read(
        self, wants: list[tuple[SegmentedPartition, int, int]], max_bytes: int, isolation: Isolation
    ) -> Result[list[Fetched | RustlogError]]:
        answers: list[Fetched | RustlogError] = []
        try:
            self._read_on(wants, max_bytes, answers)
        except Cold as cold:
            return self._read_from_disk(wants, max_bytes, answers, cold)
        return answers

    def _read_on(
        self,
        wants: list[tuple[SegmentedPartition, int, int]],
        max_bytes: int,
        answers: list[Fetched | RustlogError],
        shift: int = 0,
    ) -> None:
        """
        Answer the wants that have no answer yet.

        @param shift: by how many bits to reduce the size of the next one.
        """
        left = max_bytes - sum(each.size for each in answers if type(each) is Fetched)
        for want in wants[len(answers) :]:
            answer = self._read_one(want, min(want[2] >> shift, left), left == max_bytes)
            if type(answer) is Fetched:
                left -= answer.size
            answers.append(answer)

    def _read_one(
        self, want: tuple[SegmentedPartition, int, int], size_max: int, at_least_one: bool
    ) -> Fetched | RustlogError:
        partition, offset, _ = want
        if self._closing is not None:
            return Closed()
        try:
            return lookup.read(partition, offset, size_max, at_least_one, self._find)
        except RustlogError as error:
            return error
        except OSError as error:
            return self._read_failed(partition, error)

    @inlineCallbacks
    def _read_from_disk(
        self,
        wants: list[tuple[SegmentedPartition, int, int]],
        max_bytes: int,
        answers: list[Fetched | RustlogError],
        cold: Cold,
    ) -> Generator[Deferred[Any], Any, list[Fetched | RustlogError]]:
        attempts, answered = 0, len(answers)
        try:
            while True:
                try:
                    yield self._warm(cold)
                    # Where memory is short, less is asked for each time.
                    self._read_on(wants, max_bytes, answers, shift=max(0, attempts - 3))
                    return answers
                except OSError as error:
                    answers.append(self._read_failed(wants[len(answers)][0], error))
                except Cold as still_cold:
                    cold = still_cold
                attempts = attempts + 1 if len(answers) == answered else 0
                answered = len(answers)
                if attempts > _READ_ATTEMPTS_MAX:
                    answers.append(StorageFailed(_MEMORY_TOO_SHORT))
        except BaseException:  # Cancelled, perhaps.  Nobody else can release what was found.
            for answer in answers:
                if isinstance(answer, Fetched):
                    answer.release()
            raise

    def _warm(self, cold: Cold) -> Deferred[None]:
        """Bring a region of a file into memory."""
        file = cold.handle.lease()

        def warmed(outcome: Any) -> Any:
            cold.handle.release()
            return outcome

        return self._environment.workers.run(warm, file, cold.position, cold.size).addBoth(warmed)

    def _read_failed(self, partition: SegmentedPartition, error: OSError) -> RustlogError:
        if partition.is_deleted:
            return TopicNotFound(partition.topic.name)
        self._log.error("cannot read from {partition}: {error}", partition=str(partition.name), error=error)
        return StorageFailed(f"cannot read from {partition.name}: {error}")

    def watch(self, partition: SegmentedPartition, listener: Listener) -> Callable[[], None]:
        return self._services.watchers.watch(partition, listener)

    # -- questions --

    def offset_for(self, partition: SegmentedPartition, spec: OffsetSpec | int) -> Deferred[FoundOffset]:
        return self._ask(partition, lookup.find_offset, partition, spec)

    def epoch_end(self, partition: SegmentedPartition, epoch: int) -> Deferred[tuple[int, int]]:
        return self._ask(partition, lambda: partition.epochs.end_of(epoch, partition.high_watermark))

    def describe(self, partition: SegmentedPartition) -> Deferred[PartitionDescription]:
        def description() -> PartitionDescription:
            segments = tuple(SegmentDescription(each.base_offset, each.size) for each in partition.segments)
            return PartitionDescription(sum(each.size for each in segments), segments)

        return self._ask(partition, description)

    def producers(self, partition: SegmentedPartition) -> Deferred[tuple[ProducerDescription, ...]]:
        return self._ask(partition, partition.producers.describe)

    def delete_records(self, partition: SegmentedPartition, before: int) -> Deferred[int]:
        return self._ask(partition, self._delete_records, partition, before)

    @inlineCallbacks
    def _delete_records(
        self, partition: SegmentedPartition, before: int
    ) -> Generator[Deferred[Any], Any, int]:
        if before > partition.high_watermark:
            raise OffsetOutOfRange(before, partition.log_start_offset, partition.high_watermark)
        if before > partition.log_start_offset:
            if not self._settings.sync.always:
                yield partition.flush()
            yield partition.advance_start(before).addErrback(refuse_for)
            if self._closing is None:
                yield self._remove_dead_segments(partition)
        return partition.log_start_offset

    @inlineCallbacks
    def _ask(
        self, partition: SegmentedPartition, function: Callable[..., Result[T]], *arguments: Any
    ) -> Generator[Deferred[Any], Any, T]:
        """What C{function} says, after the disk has been asked for all that it found cold."""
        attempts: Counter[tuple[Handle, int]] = Counter()
        while True:
            if self._closing is not None:
                raise Closed()
            if partition.is_deleted:
                raise TopicNotFound(partition.topic.name)
            try:
                try:
                    answer: T = yield function(*arguments)  # type: ignore[misc]
                    return answer
                except Cold as cold:
                    yield self._warm(cold)
                    attempts[cold.handle, cold.position] += 1
                    if attempts[cold.handle, cold.position] > _READ_ATTEMPTS_MAX:
                        raise StorageFailed(_MEMORY_TOO_SHORT) from None
            except OSError as error:
                raise self._read_failed(partition, error) from error

    # -- the store as a whole --

    def fenced(self) -> list[RustlogError]:
        fences = (each.fenced for group in self._partitions.values() for each in group)
        return [each for each in fences if each is not None]

    def describe_storage(self) -> Deferred[StorageDescription]:
        if self._closing is not None:
            return fail(Closed())
        place = self._settings.data_dir
        free = self._environment.workers.run(self._environment.files.free_bytes, place)
        return free.addCallbacks(lambda free_bytes: StorageDescription(str(place), free_bytes), refuse_for)

    def allocate_producer_ids(self, count: int) -> Deferred[int]:
        if self._closing is not None:
            return fail(Closed())
        first = self._state.next_producer_id
        self._state = attrs.evolve(self._state, next_producer_id=first + count)
        return self._save_state().addCallbacks(lambda _: first, refuse_for)

    def _save_state(self) -> Deferred[None]:
        return self._services.writer.write(self._settings.data_dir / STATE, attrs.asdict(self._state))

    def maintain(self) -> Deferred[bool]:
        if self._closing is not None:
            return fail(Closed())
        return self._maintain()

    @inlineCallbacks
    def _maintain(self) -> Generator[Deferred[Any], Any, bool]:
        trash_left = yield self._empty_trash()
        if not self._to_maintain:
            self._to_maintain = [each for group in self._partitions.values() for each in group]
        step = self._to_maintain[-PARTITIONS_PER_STEP:]
        del self._to_maintain[-PARTITIONS_PER_STEP:]
        for partition in step:
            if self._closing is not None:
                return False
            yield self._retain(partition)
        return bool(self._to_maintain or trash_left)

    @inlineCallbacks
    def _empty_trash(self) -> Generator[Deferred[Any], Any, bool]:
        try:
            return (yield self._environment.workers.run(self._topic_files.empty_trash, FILES_PER_STEP))
        except OSError as error:
            self._log.error("removing deleted topics failed: {error}", error=error)
            return False

    @inlineCallbacks
    def _retain(self, partition: SegmentedPartition) -> Generator[Deferred[Any], Any, None]:
        """Apply retention to one partition."""
        now_ms = self._environment.wall.now_ms()
        partition.producers.expire(now_ms, self._settings.producer_id_expiration_ms)
        if partition.unavailable is not None or not partition.segments:
            return
        try:
            start = yield self._ask(partition, retention.new_start, partition, now_ms)
            if start > partition.log_start_offset:
                yield partition.advance_start(start)
            if retention.active_is_dead(partition):
                partition.roll(now_ms)
            yield self._remove_dead_segments(partition)
        except (TopicNotFound, Closed):
            return  # It went away meanwhile.
        except (OSError, RustlogError) as error:
            self._log.error(
                "retention of {partition} failed: {error}", partition=str(partition.name), error=error
            )

    def _remove_dead_segments(self, partition: SegmentedPartition) -> Deferred[None]:
        """Free what lies wholly before the start of the log."""
        removed = self._environment.workers.run(self._unlink, partition.take_dead_segments())
        return removed.addErrback(self._not_removed, partition)

    def _not_removed(self, failure: Failure, partition: SegmentedPartition) -> None:
        """They are dead all the same; the next start removes them."""
        failure.trap(OSError)
        self._log.error(
            "removing segments of {partition} failed: {error}",
            partition=str(partition.name), error=failure.value,
        )  # fmt: skip

    def _unlink(self, paths: list[Any]) -> None:
        for path in paths:
            try:
                self._environment.files.unlink(path)
            except FileNotFoundError:  # An index that was never written.
                continue

    def _look_for_checkpoints(self) -> None:
        clock = self._services.clock
        due = clock.seconds() - CHECKPOINT_SECONDS
        for partition in [each for each, since in self._services.unsaved.items() if since <= due]:
            partition.want_checkpoint()
        self._checkpoint_look = clock.callLater(_CHECKPOINT_LOOK_SECONDS, self._look_for_checkpoints)

    # -- the end --

    def close(self) -> Deferred[None]:
        if self._closing is None:
            self._closing = Deferred()
            self._close().chainDeferred(self._closing)
        done: Deferred[None] = Deferred()
        self._closing.addBoth(_pass_on, done)
        return done

    @inlineCallbacks
    def _close(self) -> Generator[Deferred[Any], Any, None]:
        services = self._services
        self._checkpoint_look.cancel()
        services.watchers.announce_all()
        try:
            yield self.catalog.close()
            for partition in list(services.unsaved):
                partition.want_checkpoint()
            yield services.rounds.idle()
            yield services.writer.idle()
            if not self._has_fenced_partitions():
                self._state = attrs.evolve(self._state, clean=True)
            yield self._save_state()
        except OSError as error:
            # What was acknowledged is safe; the next start will have more to do.
            self._log.error("closing {path} failed: {error}", path=str(self._settings.data_dir), error=error)
        finally:
            self._handles.close()
            self._directory.release()

    def _has_fenced_partitions(self) -> bool:
        return any(each.unavailable for group in self._partitions.values() for each in group)


@define(eq=False)
class _Journal:
    """Writes the catalogue down, and keeps appends out of topics that are being deleted."""

    _topic_files: TopicFiles
    _partitions: dict[str, list[SegmentedPartition]]

    def save(self, info: TopicInfo) -> Deferred[None]:
        return self._topic_files.save(info).addErrback(refuse_for)

    def remove(self, info: TopicInfo) -> Deferred[None]:
        partitions = self._partitions[info.name]
        for partition in partitions:
            partition.freeze()

        def thaw(failure: Failure) -> Failure:
            for partition in partitions:
                partition.thaw()
                if failure.check(DeletionUncertain):
                    partition.fence(str(failure.value))
            return failure

        return self._topic_files.remove(info).addErrback(refuse_for).addErrback(thaw)


def _nothing() -> Recovered:
    """A partition that is new."""
    return Recovered([], ProducerTable(), LeaderEpochs(), 0, 0, None)


def _pass_on(outcome: Any, waiting: Deferred[Any]) -> Any:
    waiting.callback(outcome)
    return None if isinstance(outcome, Failure) else outcome
