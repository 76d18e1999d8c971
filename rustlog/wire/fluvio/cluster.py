"""
The broker as a cluster of Fluvio: topics, partitions and the one unit that has them all, as objects.

What there is besides rustlog's topics is the topic C{consumer-offset}, where Fluvio keeps what
consumers have read.  It is always there, because clients look for its partition before they ask for
such offsets, and wait for a minute where they find no partition at all; but there is nothing in it.
rustlog's own topic for that purpose is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from attrs import frozen

from rustlog.broker import Broker
from rustlog.errors import InvalidTopicName, PartitionNotFound, TopicNotFound
from rustlog.judging import is_internal
from rustlog.log.topics import NO_ID
from rustlog.model import RequestContext, TopicInfo, TopicPartition
from rustlog.wire.fluvio.objects import PARTITION, SPU, TOPIC, Metadata
from rustlog.wire.fluvio.partitions import PartitionSpec, PartitionStatus, ReplicaStatus, partition_name
from rustlog.wire.fluvio.replicas import Storage
from rustlog.wire.fluvio.spus import Endpoint, Ingress, PublicEndpoint, SpuSpec, SpuStatus
from rustlog.wire.fluvio.topics import ComputedReplicas, TopicSpec, TopicStatus

SPU_ID = 5001
"""Of the only unit; the number that Fluvio gives to the first one."""

SPU_NAME = f"custom-spu-{SPU_ID}"

SYSTEM_TOPIC = "consumer-offset"

NAME_LENGTH_MAX = 63

OBJECT_BYTES = 512
"""What a partition takes at most in an answer, or a topic for each of its partitions."""

_LEGAL_NAME = re.compile("[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_U32_MAX = 2**32 - 1
_SYSTEM = TopicInfo(NO_ID, SYSTEM_TOPIC, 1)


def check_topic_name(name: str) -> None:
    """Raise C{InvalidTopicName} if it breaks Fluvio's rule, which is stricter than Kafka's."""
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidTopicName(name, f"it is longer than {NAME_LENGTH_MAX} characters")
    if not _LEGAL_NAME.fullmatch(name):
        raise InvalidTopicName(name, "only a-z, 0-9 and, not at its ends, '-' are allowed")


def is_system(name: str) -> bool:
    """Whether a topic is hidden from those who do not ask for such."""
    return name == SYSTEM_TOPIC


@frozen
class Cluster:
    """
    What one client sees.

    @ivar address: host and port where it finds the unit.
    """

    broker: Broker
    context: RequestContext
    address: tuple[str, int]

    # -- topics --

    def topics(self) -> tuple[TopicInfo, ...]:
        """All that are shown, sorted by name."""
        shown = {each.name: each for each in self.broker.topics(self.context) if not is_internal(each)}
        shown.setdefault(SYSTEM_TOPIC, _SYSTEM)
        return tuple(shown[name] for name in sorted(shown))

    def topic(self, name: str) -> TopicInfo | None:
        """One of them, if there is one of that name."""
        try:
            found = self.broker.topic(self.context, name)
        except TopicNotFound:
            return _SYSTEM if is_system(name) else None
        return None if is_internal(found) else found

    # -- objects --

    def objects(self, label: str, topics: Iterable[TopicInfo]) -> Iterator[Metadata]:
        """Those of a label: topics, their partitions, or the unit; none of labels that there are not here."""
        if label == SPU:
            yield self._unit()
        elif label == TOPIC:
            yield from map(_topic, topics)
        elif label == PARTITION:
            for info in topics:
                yield from self.partitions(info)

    def partitions(self, info: TopicInfo) -> Iterator[Metadata]:
        """Those of a topic."""
        for index in range(info.partitions):
            start, end = self._bounds(TopicPartition(info.name, index))
            replica = ReplicaStatus(SPU_ID, end, end)
            yield Metadata(
                partition_name(info.name, index),
                PartitionSpec(SPU_ID, (SPU_ID,), *_kept(info), system=is_system(info.name)),
                PartitionStatus(replica, size=-1, base_offset=start),
            )

    def _bounds(self, name: TopicPartition) -> tuple[int, int]:
        try:
            return self.broker.bounds(self.context, name)
        except PartitionNotFound:
            return 0, 0  # the one that is always there; or it was deleted a moment ago

    def _unit(self) -> Metadata:
        host, port = self.address
        place = f"[{host}]" if ":" in host else host
        spec = SpuSpec(SPU_ID, PublicEndpoint(port, (Ingress(place),)), Endpoint(port, place))
        return Metadata(SPU_NAME, spec, SpuStatus())


def answer_bytes_max(topics: Iterable[TopicInfo]) -> int:
    """How much memory an answer takes at most that has all objects of one label."""
    return sum(each.partitions * OBJECT_BYTES for each in topics) + OBJECT_BYTES


def gone(label: str, name: str) -> Metadata:
    """An object that is no more, of which but the name is known."""
    if label == TOPIC:
        return Metadata(name, TopicSpec(ComputedReplicas(0)), TopicStatus())
    return Metadata(name, PartitionSpec(SPU_ID), PartitionStatus(ReplicaStatus(SPU_ID)))


def _topic(info: TopicInfo) -> Metadata:
    replicas = ComputedReplicas(info.partitions)
    placed = tuple((index, (SPU_ID,)) for index in range(info.partitions))
    spec = TopicSpec(replicas, *_kept(info), system=is_system(info.name))
    return Metadata(info.name, spec, TopicStatus(replica_map=placed))


def _kept(info: TopicInfo) -> tuple[int | None, Storage | None]:
    """How long, and how much, as far as that is said for this topic and Fluvio has a word for it."""
    retention_ms = int(info.config.get("retention.ms", -1))
    segment_bytes = info.config.get("segment.bytes")
    retention_bytes = int(info.config.get("retention.bytes", -1))
    storage = Storage(
        None if segment_bytes is None else int(segment_bytes),
        None if retention_bytes < 0 else retention_bytes,
    )
    seconds = None if retention_ms < 0 else min(retention_ms // 1000, _U32_MAX)
    return seconds, None if storage == Storage() else storage
