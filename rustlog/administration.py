"""
L{Administration}: what operators' tools ask a broker, in domain terms.

Which settings there are, what holds, and where that comes from; what is stored where; who
writes.  It is a part of L{Broker <rustlog.broker.Broker>}.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from attrs import evolve, frozen
from twisted.internet.defer import Deferred, fail

from rustlog.errors import (
    OffsetOutOfRange,
    PartitionFenced,
    PartitionNotFound,
    RustlogError,
    TopicNotFound,
)
from rustlog.interfaces import IFencing, ILogStore, IPartition
from rustlog.judging import refuse_internal
from rustlog.model import (
    PartitionDescription,
    ProducerDescription,
    RequestContext,
    StorageDescription,
    TopicInfo,
    TopicPartition,
)
from rustlog.settings import BrokerConfig, Setting, TopicConfig, vocabulary

REPLICATION_FACTOR = 1
"""Of every topic: there is one broker."""


class SettingSource(Enum):
    """Who said what a setting is."""

    TOPIC = "topic"
    BROKER = "broker"
    DEFAULT = "default"


@frozen
class DescribedSetting:
    """
    A setting, and what has been said about it.

    @ivar said: pairs of L{SettingSource} and value, the one that holds first, then those that it hides.
    """

    setting: Setting
    said: tuple[tuple[SettingSource, str], ...]
    is_read_only: bool

    @property
    def source(self) -> SettingSource:
        return self.said[0][0]

    @property
    def value(self) -> str:
        return self.said[0][1]


class Administration:
    """Questions about the broker as a whole, and the few changes that are for operators only."""

    def __init__(
        self, store: ILogStore, topic_defaults: TopicConfig, config: BrokerConfig, default_partitions: int
    ) -> None:
        self._store = store
        self._of_topics = {
            each.setting.name: each for each in _described(topic_defaults, is_read_only=False)
        }
        of_broker = [*_described(config), *_described(topic_defaults), *_facts(default_partitions)]
        self._of_broker = tuple(sorted(of_broker, key=lambda each: each.setting.name))

    # -- settings --

    def topic_settings(self, context: RequestContext, name: str) -> tuple[DescribedSetting, ...]:
        """
        All settings of a topic, its own and the defaults.

        @raise TopicNotFound: there is none of that name.
        """
        info: TopicInfo | None = self._store.catalog.get(name)
        if info is None:
            raise TopicNotFound(name)
        return self.settings_of(info)

    def settings_of(self, info: TopicInfo) -> tuple[DescribedSetting, ...]:
        """The same of a topic that may not even exist yet.  Those of the broker's own can not be changed."""
        settings = tuple(
            _overridden(each, info.config[name]) if name in info.config else each
            for name, each in self._of_topics.items()
        )
        return tuple(evolve(each, is_read_only=True) for each in settings) if info.internal else settings

    def broker_settings(self, context: RequestContext) -> tuple[DescribedSetting, ...]:
        """All settings of the broker, the defaults of topics included; none can be changed while it runs."""
        return self._of_broker

    # -- partitions --

    def delete_records(
        self, context: RequestContext, name: TopicPartition, before: int | None = None
    ) -> Deferred[int]:
        """
        Forget the records before an offset, or all that there are; fires with the new log start offset
        once that is durable.  Fails with C{PartitionNotFound}, C{TopicIsInternal}, C{OffsetOutOfRange}.
        """
        try:
            partition = self._partition(name)
            refuse_internal(partition.topic)
            end = partition.high_watermark
            if before is not None and before < 0:
                raise OffsetOutOfRange(before, partition.log_start_offset, end)
        except RustlogError as error:
            return fail(error)
        start: Deferred[int] = self._store.delete_records(partition, end if before is None else before)
        return start

    def describe_partition(
        self, context: RequestContext, name: TopicPartition
    ) -> Deferred[PartitionDescription]:
        """What it takes on disk.  Fails with C{PartitionNotFound}."""
        return self._ask(name, self._store.describe)

    def fenced(self, context: RequestContext) -> list[PartitionFenced]:
        """The partitions that accept nothing until the broker restarts, and why; of stores that know."""
        store: IFencing | None = IFencing(self._store, None)
        return [] if store is None else store.fenced()

    def producers(
        self, context: RequestContext, name: TopicPartition
    ) -> Deferred[tuple[ProducerDescription, ...]]:
        """The idempotent producers that it remembers.  Fails with C{PartitionNotFound}."""
        return self._ask(name, self._store.producers)

    def storage(self, context: RequestContext) -> Deferred[StorageDescription]:
        """Where the log is kept, and how much room there is."""
        found: Deferred[StorageDescription] = self._store.describe_storage()
        return found

    def _ask(self, name: TopicPartition, question: Any) -> Deferred[Any]:
        try:
            answer: Deferred[Any] = question(self._partition(name))
        except PartitionNotFound as error:
            return fail(error)
        return answer

    def _partition(self, name: TopicPartition) -> IPartition:
        partition: IPartition | None = self._store.partition(name.topic, name.partition)
        if partition is None:
            raise PartitionNotFound(name.topic, name.partition)
        return partition


# -- where values come from ------------------------------------------------------------


def _described(config: TopicConfig | BrokerConfig, is_read_only: bool = True) -> Iterable[DescribedSetting]:
    for setting in vocabulary(type(config)):
        yield _describe(setting, getattr(config, setting.name.replace(".", "_")), is_read_only)


def _describe(setting: Setting, value: object, is_read_only: bool = True) -> DescribedSetting:
    default = (SettingSource.DEFAULT, setting.text(setting.default))
    if value == setting.default:
        return DescribedSetting(setting, (default,), is_read_only)
    return DescribedSetting(setting, ((SettingSource.BROKER, setting.text(value)), default), is_read_only)


def _overridden(described: DescribedSetting, value: str) -> DescribedSetting:
    return evolve(described, said=((SettingSource.TOPIC, value), *described.said))


def _facts(default_partitions: int) -> Iterable[DescribedSetting]:
    """What Kafka's tools look for, though it is not set with C{--set}."""
    partitions = "How many partitions a topic gets when nobody says it; --partitions."
    yield _describe(Setting("num.partitions", int, 1, partitions, 1), default_partitions)
    replicas = "Each partition has one replica."
    yield _describe(Setting("default.replication.factor", int, REPLICATION_FACTOR, replicas, 1), 1)
    yield _describe(Setting("delete.topic.enable", bool, True, "Topics can be deleted."), True)
