"""
L{Broker}: every use case, in domain terms.

Each wire protocol calls this facade and nothing below it.  It knows no wire and no file: it
judges what clients ask for, finds the partitions, and hands on to the stores.  Every method
takes a L{RequestContext <rustlog.model.RequestContext>} first: who asks, and through which door.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, TypeVar, Union
from uuid import UUID

from attrs import evolve
from twisted.internet.defer import Deferred, fail, inlineCallbacks, succeed
from twisted.internet.interfaces import IReactorTime

from rustlog.administration import Administration
from rustlog.errors import (
    InvalidRecord,
    PartitionNotFound,
    RecordTooLarge,
    RustlogError,
    TopicIsInternal,
    TopicNotFound,
)
from rustlog.groups.coordinator import GroupCoordinator
from rustlog.interfaces import ILogStore, IOffsetStore, IPartition, IWallClock
from rustlog.judging import (
    check_growth,
    check_partition_count,
    check_topic_name,
    is_internal,
    parse_topic_changes,
    refuse_internal,
    refuse_reserved,
)
from rustlog.log.batch import CONTROL_BIT, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, RecordBatch
from rustlog.log.topics import configure, grow, plan
from rustlog.longpoll import Answers, LongPoll, Wants, is_enough
from rustlog.model import (
    Appended,
    FetchWant,
    FoundOffset,
    Isolation,
    OffsetSpec,
    RequestContext,
    TopicInfo,
    TopicPartition,
)
from rustlog.observability.tallies import Traffic
from rustlog.producerids import ProducerIds
from rustlog.progress import Progress
from rustlog.results import Result, then
from rustlog.settings import BrokerConfig, TopicConfig, parse_topic_overrides, with_overrides

_NOT_FOR_CLIENTS = CONTROL_BIT | TRANSACTIONAL_BIT | TIMESTAMP_TYPE_BIT

Appends = list[Union[Appended, RustlogError]]
T = TypeVar("T")


class Broker(Progress):
    """The facade.  Errors are those of L{rustlog.errors}."""

    def __init__(
        self,
        store: ILogStore,
        offsets: IOffsetStore,
        clock: IReactorTime,
        wall: IWallClock,
        *,
        topic_defaults: TopicConfig,
        config: BrokerConfig,
        default_partitions: int,
        traffic: Traffic | None = None,
        coordinator: GroupCoordinator | None = None,
    ) -> None:
        super().__init__(store, offsets, wall, coordinator)
        self._clock = clock
        self._topic_defaults = topic_defaults
        self._config = config
        self._default_partitions = default_partitions
        self.traffic = Traffic() if traffic is None else traffic
        self._topic_configs: dict[str, tuple[TopicInfo, TopicConfig]] = {}
        self._producer_ids = ProducerIds(store)
        self.administration = Administration(store, topic_defaults, config, default_partitions)
        store.catalog.subscribe(self._topic_changed)

    # -- topics --

    def topics(self, context: RequestContext) -> tuple[TopicInfo, ...]:
        """All of them, sorted by name."""
        topics: tuple[TopicInfo, ...] = self._store.catalog.all()
        return topics

    def topic(self, context: RequestContext, name: str) -> TopicInfo:
        """
        One of them.

        @raise TopicNotFound: there is none of that name.
        """
        info: TopicInfo | None = self._store.catalog.get(name)
        if info is None:
            raise TopicNotFound(name)
        return info

    def topic_by_id(self, context: RequestContext, topic_id: UUID) -> TopicInfo | None:
        """One of them, if there is one of that id."""
        info: TopicInfo | None = self._store.catalog.get_by_id(topic_id)
        return info

    def topic_config(self, info: TopicInfo) -> TopicConfig:
        """All settings of a topic: its own, and the defaults."""
        known = self._topic_configs.get(info.name)
        if known is not None and known[0] is info:
            return known[1]
        config = with_overrides(self._topic_defaults, info.config)
        if self._store.catalog.get(info.name) is info:
            self._topic_configs[info.name] = (info, config)
        return config

    def message_bytes_max(self, context: RequestContext, name: str) -> int:
        """How large a batch may be in a topic, or would be allowed to be if there were such a topic."""
        info: TopicInfo | None = self._store.catalog.get(name)
        return (self._topic_defaults if info is None else self.topic_config(info)).max_message_bytes

    def create_topic(
        self,
        context: RequestContext,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, object] = {},
        validate_only: bool = False,
    ) -> Deferred[TopicInfo]:
        """
        Make a topic; fires once it is durable.  Fails with C{InvalidTopicName},
        C{InvalidPartitionCount}, C{InvalidSetting}, C{TopicExists}, C{TopicIsInternal}.

        @param validate_only: make nothing; the answer is what would be made, but for its id.
        """
        count = self._default_partitions if partitions is None else partitions
        try:
            check_topic_name(name)
            refuse_reserved(name)
            check_partition_count(count)
            overrides = parse_topic_overrides(config)
            if validate_only:
                return succeed(plan(self._store.catalog.get(name), name, count, overrides))
        except RustlogError as error:
            return fail(error)
        created: Deferred[TopicInfo] = self._store.catalog.create(name, count, overrides)
        return created

    @inlineCallbacks
    def delete_topic(self, context: RequestContext, name: str) -> Generator[Deferred[Any], Any, None]:
        """
        Remove a topic, and what groups have committed in it: a later topic of the same
        name begins at 0 again.  Fires once durable; fails with C{TopicNotFound}, C{TopicIsInternal}.
        """
        refuse_internal(self._store.catalog.get(name))
        yield self._store.catalog.delete(name)
        for group in (yield self._offsets.groups()):
            committed = yield self._offsets.fetch(group)
            orphans = [each for each in committed if each.topic == name]
            if orphans:
                yield self._offsets.delete(group, orphans)

    def grow_topic(
        self, context: RequestContext, name: str, partitions: int, validate_only: bool = False
    ) -> Deferred[TopicInfo]:
        """
        Add partitions.  Fails with C{TopicNotFound}, C{TopicIsInternal}, C{InvalidPartitionCount}.

        @param validate_only: add nothing; the answer is what the topic would be.
        """
        try:
            check_partition_count(partitions)
            refuse_internal(self._store.catalog.get(name))
            if validate_only:
                return succeed(grow(self.topic(context, name), partitions))
        except RustlogError as error:
            return fail(error)
        grown: Deferred[TopicInfo] = self._store.catalog.grow(name, partitions)
        return grown

    def configure_topic(
        self,
        context: RequestContext,
        name: str,
        changes: Mapping[str, object],
        validate_only: bool = False,
    ) -> Deferred[TopicInfo]:
        """
        Change settings; C{None} removes an override.  Fails with C{TopicNotFound},
        C{TopicIsInternal}, C{InvalidSetting}.

        @param validate_only: change nothing; the answer is what the topic would be.
        """
        try:
            refuse_internal(self._store.catalog.get(name))
            judged = parse_topic_changes(changes)
            if validate_only:
                return succeed(configure(self.topic(context, name), judged))
        except RustlogError as error:
            return fail(error)
        configured: Deferred[TopicInfo] = self._store.catalog.configure(name, judged)
        return configured

    @inlineCallbacks
    def alter_topic(
        self,
        context: RequestContext,
        name: str,
        partitions: int | None = None,
        changes: Mapping[str, object] = {},
    ) -> Generator[Deferred[Any], Any, TopicInfo]:
        """
        Add partitions, change settings, or both; all of it is judged before anything is changed.
        Fails as L{grow_topic} and L{configure_topic} do.
        """
        info = self.topic(context, name)
        refuse_internal(info)
        if partitions is not None:
            check_growth(info, partitions)
        judged = parse_topic_changes(changes)
        if partitions is not None:
            info = yield self._store.catalog.grow(name, partitions)
        if judged:
            info = yield self._store.catalog.configure(name, judged)
        return info

    def watch_topics(
        self, context: RequestContext, listener: Callable[[TopicInfo | None, TopicInfo | None], object]
    ) -> Callable[[], object]:
        """
        Call C{listener(old, new)} after each change of a topic, in order; either may be C{None}.

        @return: a callable that cancels.
        """
        cancel: Callable[[], object] = self._store.catalog.subscribe(listener)
        return cancel

    def _topic_changed(self, old: TopicInfo | None, new: TopicInfo | None) -> None:
        if old is not None:
            self._topic_configs.pop(old.name, None)

    # -- writing --

    def produce(
        self, context: RequestContext, entries: list[tuple[TopicPartition, RecordBatch]]
    ) -> Result[Appends]:
        """
        Append batches whose checksum has been verified.

        @return: for each entry where it went, or why it did not: C{PartitionNotFound}, C{TopicIsInternal},
            C{RecordTooLarge}, C{InvalidRecord}, or what the store refuses.  One's error is not the others'.
        """
        judged: list[Any] = [self._admit(name, batch) for name, batch in entries]
        accepted = [each for each in judged if type(each) is tuple]
        if not accepted:
            return judged
        appended: Result[Appends] = self._store.append(accepted)
        flow = self.traffic[context.protocol]
        if type(appended) is Deferred:
            appended.addCallback(flow.appended, accepted)
        else:
            flow.appended(appended, accepted)  # type: ignore[type-var]
        if len(accepted) == len(judged) and not any(batch.is_log_append_time for _, batch in accepted):
            return appended
        return then(appended, partial(_append_answers, judged))

    def _admit(
        self, name: TopicPartition, batch: RecordBatch
    ) -> tuple[IPartition, RecordBatch] | RustlogError:
        """What the store shall append: stamped, if the topic wants that; or why it shall not."""
        partition: IPartition | None = self._store.partition(name.topic, name.partition)
        if partition is None:
            return PartitionNotFound(name.topic, name.partition)
        if is_internal(partition.topic):
            return TopicIsInternal(name.topic)
        config = self.topic_config(partition.topic)
        if batch.size > config.max_message_bytes:
            return RecordTooLarge(batch.size, config.max_message_bytes)
        if batch.record_count < 1:
            return InvalidRecord("the batch has no records")
        if batch.attributes & _NOT_FOR_CLIENTS:
            return InvalidRecord("it is transactional, a control batch, or claims LogAppendTime")
        if config.message_timestamp_type == "LogAppendTime":
            batch = batch.with_append_time(self._wall.now_ms())
        return partition, batch

    def new_producer_id(self, context: RequestContext) -> Deferred[int]:
        """One that nobody has had before, for an idempotent producer."""
        return self._producer_ids.take()

    # -- reading --

    def fetch(
        self,
        context: RequestContext,
        wants: list[FetchWant],
        *,
        max_bytes: int,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> Result[Answers]:
        """
        Read, and wait for data if there is less than C{min_bytes}.

        An error, or a batch that no longer fits, ends the wait.  A Deferred may be cancelled.

        @param max_bytes: for the whole answer; the first batch is given even if it is larger.
        @param max_wait_ms: capped by C{fetch.max.wait.ms}.
        @return: for each want what was found, to be released by the caller, or why there is
            nothing: C{PartitionNotFound}, or what the store says.
        """
        found: Wants = []
        missing: dict[int, RustlogError] = {}
        for index, want in enumerate(wants):
            partition = self._store.partition(want.topic, want.partition)
            if partition is None:
                missing[index] = PartitionNotFound(want.topic, want.partition)
            else:
                found.append((partition, want.offset, want.max_bytes))
        wait_ms = 0 if missing else max_wait_ms
        answers = self._read(found, max_bytes, min_bytes, wait_ms, isolation)
        counted = then(answers, self.traffic[context.protocol].read)
        return then(counted, partial(_insert, missing)) if missing else counted

    def _read(
        self, wants: Wants, max_bytes: int, min_bytes: int, max_wait_ms: int, isolation: Isolation
    ) -> Result[Answers]:
        read = partial(self._store.read, wants, max_bytes, isolation)
        suffices = partial(is_enough, wants=wants, min_bytes=min_bytes, isolation=isolation)
        wait_ms = min(max_wait_ms, self._config.fetch_max_wait_ms)
        first: Result[Answers] = read()
        if not isinstance(first, Deferred) and (wait_ms <= 0 or suffices(first)):
            return first
        poll = LongPoll(read, suffices)
        if wait_ms <= 0:
            return poll.start(first)
        partitions = dict.fromkeys(partition for partition, _, _ in wants)
        return poll.wait(first, self._clock, wait_ms / 1000, self._store.watch, partitions)

    def watch(
        self, context: RequestContext, name: TopicPartition, listener: Callable[[], object]
    ) -> Callable[[], object]:
        """
        Call C{listener} after something became readable in a partition, or it died; perhaps without need.

        @return: a callable that cancels.
        @raise PartitionNotFound: there is no such partition.
        """
        cancel: Callable[[], object] = self._store.watch(self._partition(name), lambda _: listener())
        return cancel

    def list_offset(
        self, context: RequestContext, name: TopicPartition, spec: OffsetSpec | int
    ) -> Deferred[FoundOffset]:
        """Find a position.  Fails with C{PartitionNotFound}."""
        return self._with_partition(name, self._store.offset_for, spec)

    def end_of_epoch(
        self, context: RequestContext, name: TopicPartition, epoch: int
    ) -> Deferred[tuple[int, int]]:
        """
        Which leader epoch, of those not above C{epoch}, was the last, and where it ended; (-1, -1) for one
        that was never reached.  Fails with C{PartitionNotFound}.
        """
        return self._with_partition(name, self._store.epoch_end, epoch)

    def bounds(self, context: RequestContext, name: TopicPartition) -> tuple[int, int]:
        """
        Log start offset and high watermark, as far as is known at once.

        @raise PartitionNotFound: there is no such partition.
        """
        partition = self._partition(name)
        return partition.log_start_offset, partition.high_watermark

    def leader_epoch(self, context: RequestContext, name: TopicPartition) -> int:
        """
        It is raised when an acknowledged tail may have been lost.

        @raise PartitionNotFound: there is no such partition.
        """
        epoch: int = self._partition(name).leader_epoch
        return epoch

    def _partition(self, name: TopicPartition) -> IPartition:
        partition: IPartition | None = self._store.partition(name.topic, name.partition)
        if partition is None:
            raise PartitionNotFound(name.topic, name.partition)
        return partition

    def _with_partition(
        self, name: TopicPartition, act: Callable[..., Deferred[T]], *arguments: object
    ) -> Deferred[T]:
        try:
            partition = self._partition(name)
        except PartitionNotFound as error:
            return fail(error)
        return act(partition, *arguments)


# -- putting answers in their places ---------------------------------------------------


def _append_answers(judged: list[Any], appended: Appends) -> Appends:
    """The store's answers, with the time of arrival, among the refusals."""
    answers = iter(appended)
    return [_with_time(next(answers), each[1]) if type(each) is tuple else each for each in judged]


def _with_time(answer: Appended | RustlogError, batch: RecordBatch) -> Appended | RustlogError:
    # Of a duplicate, the time is that of its original, which is not known here.
    if batch.is_log_append_time and isinstance(answer, Appended) and not answer.duplicate:
        return evolve(answer, append_time=batch.max_timestamp)
    return answer


def _insert(missing: dict[int, RustlogError], found: Answers) -> Answers:
    answers = iter(found)
    count = len(missing) + len(found)
    return [missing[index] if index in missing else next(answers) for index in range(count)]
