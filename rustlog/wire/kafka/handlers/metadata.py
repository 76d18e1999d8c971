"""
Metadata: where the broker is, and which topics there are.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from rustlog.errors import InvalidTopicName, RustlogError
from rustlog.judging import is_internal
from rustlog.model import TopicInfo, TopicPartition
from rustlog.results import Result, then
from rustlog.wire.kafka.autocreation import Found, find_topics
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import ErrorCode, code_for
from rustlog.wire.kafka.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, UNSAID_OPERATIONS
from rustlog.wire.kafka.schema import Entity

METADATA = 3


def metadata(call: Call) -> Result[Entity]:
    """The broker, and the topics that were asked for, or all of them."""
    request = call.request
    topics = request.topics
    if topics is None or (call.version == 0 and not topics):
        everything = [_described(call, info) for info in call.services.broker.topics(call.context)]
        return _respond(call, everything)
    # Older versions can not say that they do not want topics to be created.
    may_create = getattr(request, "allow_auto_topic_creation", True)
    # Beside an id, the name does not count: it may be null, or empty.
    names = [each.name for each in topics if each.name is not None and _id(each) is None]
    by_id = [_by_id(call, _id(each)) for each in topics if each.name is None or _id(each) is not None]
    return then(find_topics(call, names, may_create=may_create), partial(_all_found, call, by_id))


def _id(topic: Any) -> UUID | None:
    return getattr(topic, "topic_id", None)


def _all_found(call: Call, by_id: list[dict[str, Any]], found: Found) -> Entity:
    return _respond(call, [*(_found(call, name, each) for name, each in found.items()), *by_id])


def _found(call: Call, name: str, found: TopicInfo | RustlogError) -> dict[str, Any]:
    if isinstance(found, TopicInfo):
        return _described(call, found)
    told = name if not isinstance(found, InvalidTopicName) else name[:249]
    return {"error_code": code_for(found), "name": told, "topic_id": None, "partitions": []}


def _by_id(call: Call, topic_id: UUID | None) -> dict[str, Any]:
    info = None if topic_id is None else call.services.broker.topic_by_id(call.context, topic_id)
    if info is not None:
        return _described(call, info)
    code = ErrorCode.invalid_topic_exception if topic_id is None else ErrorCode.unknown_topic_id
    name = None if call.version >= 12 else ""
    return {"error_code": code, "name": name, "topic_id": topic_id, "partitions": []}


def _described(call: Call, info: TopicInfo) -> dict[str, Any]:
    wants_operations = getattr(call.request, "include_topic_authorized_operations", False)
    return {
        "name": info.name,
        "topic_id": info.id,
        "is_internal": is_internal(info),
        "partitions": [_partition(call, info.name, index) for index in range(info.partitions)],
        "topic_authorized_operations": TOPIC_OPERATIONS if wants_operations else UNSAID_OPERATIONS,
    }


def _partition(call: Call, topic: str, index: int) -> dict[str, Any]:
    node = call.services.node_id
    return {
        "partition_index": index,
        "leader_id": node,
        "leader_epoch": call.services.broker.leader_epoch(call.context, TopicPartition(topic, index)),
        "replica_nodes": [node],
        "isr_nodes": [node],
        "offline_replicas": [],
    }


def _respond(call: Call, topics: list[dict[str, Any]]) -> Entity:
    services = call.services
    host, port = services.advertised
    wants_operations = getattr(call.request, "include_cluster_authorized_operations", False)
    return call.respond(
        brokers=[{"node_id": services.node_id, "host": host, "port": port}],
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if wants_operations else UNSAID_OPERATIONS,
    )


APIS = (Api(METADATA, "Metadata", 0, 13, metadata),)
