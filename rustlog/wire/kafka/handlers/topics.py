"""
CreateTopics, DeleteTopics and CreatePartitions.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred

from rustlog.administration import REPLICATION_FACTOR
from rustlog.errors import InvalidSetting
from rustlog.log.topics import NO_ID
from rustlog.model import TopicInfo
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import ErrorCode, Refused, code_for, message_for
from rustlog.wire.kafka.handlers.configs import created_config
from rustlog.wire.kafka.handlers.gathering import Fields, answer_each, repeated
from rustlog.wire.kafka.handlers.replicas import (
    UNSAID,
    check_assignments,
    check_replicas,
    check_replication_factor,
)
from rustlog.wire.kafka.schema import Entity

CREATE_TOPICS = 19
DELETE_TOPICS = 20
CREATE_PARTITIONS = 37


def _refuse_named(item: Any, error: Exception) -> Fields:
    return {"name": item.name, "error_code": code_for(error), "error_message": message_for(error)}


def _duplicate(name: str) -> Refused:
    return Refused(ErrorCode.invalid_request, f"the request names {name!r} more than once")


# -- CreateTopics ----------------------------------------------------------------------


def create_topics(call: Call) -> Deferred[Entity]:
    """Make topics, or say whether they could be made."""
    twice = repeated(each.name for each in call.request.topics)

    def answer(topic: Any) -> Deferred[Fields]:
        if topic.name in twice:
            raise _duplicate(topic.name)
        created = call.services.broker.create_topic(
            call.context,
            topic.name,
            _partition_count(topic, call.services.node_id),
            _own_config(topic.configs),
            call.request.validate_only,
        )
        return created.addCallback(lambda info: _created(call, info))

    def refuse(topic: Any, error: Exception) -> Fields:
        # Clients take the settings for granted, even of a topic that was not made.
        return {**_refuse_named(topic, error), "configs": ()}

    created = answer_each(call.request.topics, answer, refuse)
    return created.addCallback(lambda answers: call.respond(topics=answers))


def _partition_count(topic: Any, node_id: int) -> int | None:
    """How many partitions are wanted, if that is said; replicas are judged on the way."""
    if not topic.assignments:
        check_replication_factor(topic.replication_factor)
        return None if topic.num_partitions == UNSAID else int(topic.num_partitions)
    if topic.num_partitions != UNSAID or topic.replication_factor != UNSAID:
        raise Refused(
            ErrorCode.invalid_request,
            "with an assignment of replicas, the number of partitions and the replication factor must be -1",
        )
    check_assignments(topic.assignments, node_id)
    return len(topic.assignments)


def _own_config(configs: Any) -> dict[str, str]:
    nothing = [each.name for each in configs if each.value is None]
    if nothing:
        raise InvalidSetting(nothing[0], "it has no value")
    return {each.name: each.value for each in configs}


def _created(call: Call, info: TopicInfo) -> Fields:
    settings = call.services.broker.administration.settings_of(info)
    return {
        "name": info.name,
        "topic_id": info.id,
        "num_partitions": info.partitions,
        "replication_factor": REPLICATION_FACTOR,
        "configs": map(created_config, settings),
    }


# -- DeleteTopics ----------------------------------------------------------------------


def delete_topics(call: Call) -> Deferred[Entity]:
    """Remove topics, by name or by id."""
    wanted = _to_delete(call.request)
    known, twice = set(wanted), repeated(wanted)

    def answer(item: tuple[str | None, UUID | None]) -> Deferred[Fields]:
        info = _find(call, *item)
        if item in twice or {(info.name, None), (None, info.id)} <= known:
            raise _duplicate(info.name)
        deleted = call.services.broker.delete_topic(call.context, info.name)
        return deleted.addCallback(lambda _: {"name": info.name, "topic_id": info.id})

    def refuse(item: tuple[str | None, UUID | None], error: Exception) -> Fields:
        name, topic_id = item
        return {
            "name": name,
            "topic_id": topic_id,
            "error_code": code_for(error),
            "error_message": message_for(error),
        }

    deleted = answer_each(wanted, answer, refuse)
    return deleted.addCallback(lambda answers: call.respond(responses=answers))


def _to_delete(request: Entity) -> list[tuple[str | None, UUID | None]]:
    """Name and id of each, of which but one should be there."""
    if hasattr(request, "topic_names"):
        return [(name, None) for name in request.topic_names]
    return [(each.name, None if each.topic_id == NO_ID else each.topic_id) for each in request.topics]


def _find(call: Call, name: str | None, topic_id: UUID | None) -> TopicInfo:
    if (name is None) == (topic_id is None):
        raise Refused(ErrorCode.invalid_request, "a topic is named either by its name or by its id")
    if name is not None:
        return call.services.broker.topic(call.context, name)
    assert topic_id is not None
    info = call.services.broker.topic_by_id(call.context, topic_id)
    if info is None:
        raise Refused(ErrorCode.unknown_topic_id, f"there is no topic with the id {topic_id}")
    return info


# -- CreatePartitions ------------------------------------------------------------------


def create_partitions(call: Call) -> Deferred[Entity]:
    """Add partitions to topics, or say whether that could be done."""
    twice = repeated(each.name for each in call.request.topics)

    def answer(topic: Any) -> Deferred[Fields]:
        if topic.name in twice:
            raise _duplicate(topic.name)
        info = call.services.broker.topic(call.context, topic.name)
        if topic.assignments is not None:
            _check_new_replicas(topic, topic.count - info.partitions, call.services.node_id)
        grown = call.services.broker.grow_topic(
            call.context, topic.name, topic.count, call.request.validate_only
        )
        return grown.addCallback(lambda _: {"name": topic.name})

    grown = answer_each(call.request.topics, answer, _refuse_named)
    return grown.addCallback(lambda answers: call.respond(results=answers))


def _check_new_replicas(topic: Any, more: int, node_id: int) -> None:
    if 0 < more != len(topic.assignments):
        raise Refused(
            ErrorCode.invalid_replica_assignment,
            f"there are {more} new partitions, but {len(topic.assignments)} assignments of replicas",
        )
    for each in topic.assignments:
        check_replicas(each.broker_ids, node_id)


APIS = (
    Api(CREATE_TOPICS, "CreateTopics", 2, 7, create_topics),
    Api(DELETE_TOPICS, "DeleteTopics", 1, 6, delete_topics),
    Api(CREATE_PARTITIONS, "CreatePartitions", 0, 3, create_partitions),
)
