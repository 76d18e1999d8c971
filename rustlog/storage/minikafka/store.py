"""
Opens the C{minikafka} store, and says in what it differs from L{segments <rustlog.storage.segments.store>}.
"""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred

from rustlog.environment import Environment
from rustlog.errors import RustlogError
from rustlog.model import Fetched, Isolation, TopicInfo
from rustlog.results import Result
from rustlog.settings import TopicConfig
from rustlog.storage.minikafka.limits import LIMITS
from rustlog.storage.minikafka.opening import MiniKafkaSettings, open_directory
from rustlog.storage.minikafka.partition import MiniKafkaPartition
from rustlog.storage.minikafka.reading import ANSWER_BYTES_MAX, find
from rustlog.storage.segments import retention
from rustlog.storage.segments.lookup import Find
from rustlog.storage.segments.partition import Recovered, SegmentedPartition
from rustlog.storage.segments.store import SegmentStore

__all__ = ["MiniKafkaSettings", "MiniKafkaStore", "open_store"]


def open_store(settings: MiniKafkaSettings, environment: Environment) -> Deferred[MiniKafkaStore]:
    """What C{--storage=minikafka} calls."""
    opening = environment.workers.run(open_directory, settings, environment)
    return opening.addCallback(lambda opened: MiniKafkaStore(settings, environment, opened))


class MiniKafkaStore(SegmentStore[MiniKafkaSettings]):
    """An open data directory of MiniKafka's."""

    limits = LIMITS

    _find: Find = staticmethod(find)

    def _config_of(self, topic: TopicInfo) -> TopicConfig:
        """Segments end at C{segment.bytes} or at C{minikafka.segment.bytes}, whichever is less."""
        config = super()._config_of(topic)
        segment_bytes = min(config.segment_bytes, self._settings.segment_bytes)
        return attrs.evolve(config, segment_bytes=segment_bytes)

    def _make_partition(
        self, topic: TopicInfo, index: int, config: TopicConfig, recovered: Recovered
    ) -> SegmentedPartition:
        return MiniKafkaPartition(
            self._services,
            topic,
            index,
            config,
            self._topic_files.partition_directory(topic.name, index),
            self._topic_files.checkpoint_path(topic.id, index),
            recovered,
            self._state.leader_epoch,
            self._settings.segments_kept,
            self._has_rolled,
        )

    def _has_rolled(self, partition: MiniKafkaPartition) -> None:
        """When there is one segment too many, that does not wait for the next maintenance."""
        if retention.is_one_too_many(partition, len(partition.segments)):
            self._services.clock.callLater(0, self._retain, partition)

    def read(
        self, wants: list[tuple[SegmentedPartition, int, int]], max_bytes: int, isolation: Isolation
    ) -> Result[list[Fetched | RustlogError]]:
        return super().read(wants, min(max_bytes, ANSWER_BYTES_MAX), isolation)
