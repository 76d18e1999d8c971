"""
DescribeTopicPartitions: topics and their partitions, a page at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import define, field

from rustlog.errors import RustlogError
from rustlog.judging import check_topic_name
from rustlog.model import TopicInfo, TopicPartition
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import code_for
from rustlog.wire.kafka.handlers.gathering import Fields
from rustlog.wire.kafka.operations import TOPIC_OPERATIONS
from rustlog.wire.kafka.schema import Entity

DESCRIBE_TOPIC_PARTITIONS = 75

PAGE_PARTITIONS_MAX = 2000
"""How many are described in one response, whatever is asked for."""


def describe_topic_partitions(call: Call) -> Entity:
    """Partitions in their order, beginning at the cursor; where more follow, the response has a new one."""
    start, index = _position(call.request.cursor)
    limit = min(max(call.request.response_partition_limit, 1), PAGE_PARTITIONS_MAX)
    page = _Page(call, limit)
    for name in _names(call):
        if name >= start:
            page.add(name, index if name == start else 0)
        if page.next_cursor is not None:
            break
    return call.respond(topics=page.topics, next_cursor=page.next_cursor)


def _position(cursor: Any) -> tuple[str, int]:
    return ("", 0) if cursor is None else (cursor.topic_name, max(cursor.partition_index, 0))


def _names(call: Call) -> Iterable[str]:
    """Of the topics that are asked for, or of all."""
    asked = sorted({each.name for each in call.request.topics})
    return asked or [each.name for each in call.services.broker.topics(call.context)]


@define
class _Page:
    """
    What goes into one response.

    @ivar next_cursor: where the next one begins, if this one is full.
    """

    _call: Call
    _room: int
    topics: list[Fields] = field(factory=list)
    next_cursor: Fields | None = None

    def add(self, name: str, first: int) -> None:
        """Describe a topic, from one of its partitions on, as far as there is room."""
        if self._room < 1:
            self.next_cursor = {"topic_name": name, "partition_index": first}
            return
        try:
            check_topic_name(name)
            info = self._call.services.broker.topic(self._call.context, name)
        except RustlogError as error:
            self._room -= 1
            self.topics.append({"name": name, "error_code": code_for(error), "partitions": ()})
            return
        end = min(info.partitions, first + self._room)
        self._room -= max(end - first, 1)
        self.topics.append(self._topic(info, range(first, end)))
        if end < info.partitions:
            self.next_cursor = {"topic_name": name, "partition_index": end}

    def _topic(self, info: TopicInfo, indexes: range) -> Fields:
        return {
            "name": info.name,
            "topic_id": info.id,
            "is_internal": info.internal,
            "partitions": [self._partition(TopicPartition(info.name, each)) for each in indexes],
            "topic_authorized_operations": TOPIC_OPERATIONS,
        }

    def _partition(self, name: TopicPartition) -> Fields:
        services = self._call.services
        return {
            "partition_index": name.partition,
            "leader_id": services.node_id,
            "leader_epoch": services.broker.leader_epoch(self._call.context, name),
            "replica_nodes": (services.node_id,),
            "isr_nodes": (services.node_id,),
            "eligible_leader_replicas": (),
            "last_known_elr": (),
        }


APIS = (Api(DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, describe_topic_partitions),)
