"""
How far groups have come: OffsetCommit, OffsetFetch, OffsetDelete.

Old versions name topics, the newest ones have their ids.  Whatever was sent is sent back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Union

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks

from rustlog.errors import CommitMetadataTooLarge, InvalidGroup, RustlogError, TopicNotFound
from rustlog.groups.values import Committer
from rustlog.model import Committed, TopicPartition
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import ErrorCode, Refused
from rustlog.wire.kafka.handlers.grouping import Answer, Steps, answered, group_code_for
from rustlog.wire.kafka.schema import Entity

TOPIC_IDS_SINCE = 10
"""The version of OffsetCommit and OffsetFetch in which topics have ids and no names."""

GROUPS_SINCE = 8
"""The version of OffsetFetch that asks for many groups at once."""

NOTHING = Committed(-1)
"""What was committed where nothing was."""

Outcome = Union[Committed, RustlogError]


@frozen
class Topic:
    """A topic of a request: C{name} is C{None} if no topic has its id."""

    name: str | None
    label: Mapping[str, Any]
    partitions: tuple[Any, ...]


def _topics(call: Call, topics: Iterable[Entity], partitions: str) -> list[Topic]:
    return [_topic(call, each, getattr(each, partitions)) for each in topics]


def _topic(call: Call, topic: Entity, partitions: tuple[Any, ...]) -> Topic:
    topic_id = getattr(topic, "topic_id", None)
    if call.version < TOPIC_IDS_SINCE:
        return Topic(topic.name, {"name": topic.name}, partitions)
    info = None if topic_id is None else call.services.broker.topic_by_id(call.context, topic_id)
    return Topic(None if info is None else info.name, {"topic_id": topic_id}, partitions)


def _unknown_id() -> RustlogError:
    return Refused(ErrorCode.unknown_topic_id, "no topic has that id")


# -- committing ------------------------------------------------------------------------


def offset_commit(call: Call) -> Answer:
    """
    Remember how far a group has come.  What is wrong with one partition is told in its place; who may not
    commit is told so for all of them.
    """
    request = call.request
    topics = _topics(call, request.topics, "partitions")
    refused, offsets = _judge_commits(call, topics)
    committer = Committer(
        member_id=request.member_id,
        instance_id=getattr(request, "group_instance_id", None),
        generation=request.generation_id_or_member_epoch,
    )

    def respond(errors: Mapping[TopicPartition, RustlogError | None]) -> Entity:
        return call.respond(topics=[_committed(topic, {**errors, **refused}) for topic in topics])

    return answered(
        lambda: call.services.broker.commit_as_member(call.context, request.group_id, committer, offsets),
        respond,
        lambda error: respond(dict.fromkeys(offsets, error)),
    )


def _judge_commits(
    call: Call, topics: list[Topic]
) -> tuple[dict[TopicPartition, RustlogError], dict[TopicPartition, Committed]]:
    """What the protocol refuses, and the rest."""
    refused: dict[TopicPartition, RustlogError] = {}
    offsets: dict[TopicPartition, Committed] = {}
    limit = call.services.config.offset_metadata_max_bytes
    for topic in topics:
        for each in topic.partitions if topic.name is not None else ():
            assert topic.name is not None
            name = TopicPartition(topic.name, each.partition_index)
            metadata = each.committed_metadata or ""
            size = len(metadata.encode())
            if size > limit:
                refused[name] = CommitMetadataTooLarge(size, limit)
            else:
                epoch = getattr(each, "committed_leader_epoch", -1)
                offsets[name] = Committed(each.committed_offset, epoch, metadata)
    return refused, offsets


def _committed(topic: Topic, errors: Mapping[TopicPartition, RustlogError | None]) -> dict[str, Any]:
    partitions = []
    for each in topic.partitions:
        error = _error_in(topic, each.partition_index, errors)
        code = ErrorCode.none if error is None else group_code_for(error)
        partitions.append({"partition_index": each.partition_index, "error_code": code})
    return {**topic.label, "partitions": partitions}


def _error_in(
    topic: Topic, partition: int, errors: Mapping[TopicPartition, RustlogError | None]
) -> RustlogError | None:
    if topic.name is None:
        return _unknown_id()
    return errors.get(TopicPartition(topic.name, partition))


# -- fetching --------------------------------------------------------------------------


@inlineCallbacks
def offset_fetch(call: Call) -> Steps:
    """
    What groups have committed.  (There are no transactions, so all that was committed is stable.)
    """
    request = call.request
    if call.version < GROUPS_SINCE:
        return call.respond(**(yield _fetch(call, request)))
    groups = []
    for each in request.groups:
        fetched = yield _fetch(call, each)
        groups.append({"group_id": each.group_id, **fetched})
    return call.respond(groups=groups)


def _fetch(call: Call, group: Entity) -> Deferred[dict[str, Any]]:
    """The part of the response that is about one group."""
    topics = None if group.topics is None else _topics(call, group.topics, "partition_indexes")
    names = None
    if topics is not None:
        names = [
            TopicPartition(topic.name, index)
            for topic in topics
            if topic.name is not None
            for index in topic.partitions
        ]

    def fetch() -> Deferred[dict[TopicPartition, Committed]]:
        call.services.broker.coordinator_for(call.context, group.group_id)
        return call.services.broker.fetch_offsets(call.context, group.group_id, names)

    def respond(found: dict[TopicPartition, Committed]) -> dict[str, Any]:
        wanted = _all_topics(call, found) if topics is None else topics
        return {"topics": [_fetched(topic, found) for topic in wanted]}

    def refuse(error: RustlogError) -> dict[str, Any]:
        code = group_code_for(error)
        failed = dict.fromkeys(names or (), error)
        return {"topics": [_fetched(topic, failed) for topic in topics or ()], "error_code": code}

    return answered(fetch, respond, refuse)


def _all_topics(call: Call, found: Iterable[TopicPartition]) -> list[Topic]:
    """The topics in which something was committed, as if they had been asked for."""
    partitions: dict[str, list[int]] = {}
    for each in sorted(found):
        partitions.setdefault(each.topic, []).append(each.partition)
    topics = []
    for name, indexes in partitions.items():
        label: dict[str, Any] = {"name": name}
        if call.version >= TOPIC_IDS_SINCE:
            try:
                label = {"topic_id": call.services.broker.topic(call.context, name).id}
            except TopicNotFound:
                continue  # It has no id any more.
        topics.append(Topic(name, label, tuple(indexes)))
    return topics


def _fetched(topic: Topic, found: Mapping[TopicPartition, Outcome]) -> dict[str, Any]:
    return {
        **topic.label,
        "partitions": [_fetched_partition(topic, index, found) for index in topic.partitions],
    }


def _fetched_partition(
    topic: Topic, index: int, found: Mapping[TopicPartition, Outcome]
) -> dict[str, Any]:
    outcome: Outcome = _unknown_id()
    if topic.name is not None:
        outcome = found.get(TopicPartition(topic.name, index), NOTHING)
    committed = outcome if isinstance(outcome, Committed) else NOTHING
    code = ErrorCode.none if isinstance(outcome, Committed) else group_code_for(outcome)
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": code,
    }


# -- deleting --------------------------------------------------------------------------


def offset_delete(call: Call) -> Answer:
    """Forget what a group has committed in some partitions that its members do not read."""
    request = call.request
    topics = [
        Topic(each.name, {"name": each.name}, each.partitions) for each in request.topics
    ]
    refused: dict[TopicPartition, RustlogError] = {}
    wanted = []
    for topic in topics:
        for each in topic.partitions:
            name = TopicPartition(topic.label["name"], each.partition_index)
            try:
                call.services.broker.bounds(call.context, name)
                wanted.append(name)
            except RustlogError as error:
                refused[name] = error

    def respond(errors: Mapping[TopicPartition, RustlogError | None]) -> Entity:
        return call.respond(topics=[_committed(topic, {**errors, **refused}) for topic in topics])

    def delete() -> Deferred[Any]:
        if not request.group_id:
            raise InvalidGroup("it is empty")
        return call.services.broker.delete_offsets(call.context, request.group_id, wanted)

    return answered(
        delete, respond, lambda error: call.respond(error_code=group_code_for(error), topics=())
    )


APIS = (
    Api(8, "OffsetCommit", 2, 10, offset_commit),
    Api(9, "OffsetFetch", 1, 10, offset_fetch),
    Api(47, "OffsetDelete", 0, 0, offset_delete),
)
