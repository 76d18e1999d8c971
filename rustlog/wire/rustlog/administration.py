"""
What the requests of the RustLog protocol do that are about topics and groups, not about records.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.python.failure import Failure

from rustlog.broker import Broker
from rustlog.errors import PartitionNotFound, TopicNotFound
from rustlog.model import FoundOffset, GroupProgress, OffsetSpec, RequestContext, TopicInfo, TopicPartition
from rustlog.wire.rustlog.messages import (
    AlterTopicRequest,
    AlterTopicResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteGroupRequest,
    DeleteGroupResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    DescribedOffset,
    DescribedPartition,
    DescribeGroupRequest,
    DescribeGroupResponse,
    DescribePartitionRequest,
    DescribePartitionResponse,
    DescribeTopicRequest,
    DescribeTopicResponse,
    ListedGroup,
    ListedTopic,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTopicsRequest,
    ListTopicsResponse,
    Request,
)

_SPECS = {
    "earliest": OffsetSpec.EARLIEST,
    "latest": OffsetSpec.LATEST,
    "max_timestamp": OffsetSpec.MAX_TIMESTAMP,
}

Later = Generator[Deferred[Any], Any, Any]

# -- topics ------------------------------------------------------------------------


def create_topic(
    broker: Broker, context: RequestContext, request: CreateTopicRequest
) -> Deferred[CreateTopicResponse]:
    created = broker.create_topic(context, request.topic, request.partitions, request.config or {})
    return created.addCallback(lambda it: CreateTopicResponse(it.name, it.partitions, dict(it.config)))


def delete_topic(
    broker: Broker, context: RequestContext, request: DeleteTopicRequest
) -> Deferred[DeleteTopicResponse]:
    deleted: Deferred[None] = broker.delete_topic(context, request.topic)
    return deleted.addCallback(lambda _: DeleteTopicResponse(request.topic))


def alter_topic(
    broker: Broker, context: RequestContext, request: AlterTopicRequest
) -> Deferred[AlterTopicResponse]:
    altered: Deferred[TopicInfo] = broker.alter_topic(
        context, request.topic, request.partitions, request.config or {}
    )
    return altered.addCallback(lambda it: AlterTopicResponse(it.name, it.partitions, dict(it.config)))


def list_topics(broker: Broker, context: RequestContext, request: ListTopicsRequest) -> ListTopicsResponse:
    topics = broker.topics(context)
    return ListTopicsResponse([ListedTopic(each.name, each.partitions, each.internal) for each in topics])


@inlineCallbacks
def describe_topic(broker: Broker, context: RequestContext, request: DescribeTopicRequest) -> Later:
    info = broker.topic(context, request.topic)
    partitions: list[DescribedPartition] = []
    try:
        while len(partitions) < info.partitions:
            name = TopicPartition(info.name, len(partitions))
            partitions.append((yield _describe(broker, context, name)))
    except PartitionNotFound:
        raise TopicNotFound(info.name) from None  # It has been deleted meanwhile.
    return DescribeTopicResponse(
        info.name,
        str(info.id),
        info.internal,
        partitions,
        dict(info.config),
        {each.setting.name: each.value for each in broker.administration.settings_of(info)},
    )


@inlineCallbacks
def _describe(broker: Broker, context: RequestContext, partition: TopicPartition) -> Later:
    # First the sizes: that may take a while, and the rest is known at once.
    sizes = yield broker.administration.describe_partition(context, partition)
    start, end = broker.bounds(context, partition)
    epoch = broker.leader_epoch(context, partition)
    return DescribedPartition(partition.partition, start, end, epoch, sizes.size, len(sizes.segments))


# -- partitions --------------------------------------------------------------------


def describe_partition(
    broker: Broker, context: RequestContext, request: DescribePartitionRequest
) -> DescribePartitionResponse:
    partition = TopicPartition(request.topic, request.partition)
    _, high_watermark = broker.bounds(context, partition)
    return DescribePartitionResponse(request.topic, request.partition, high_watermark)


def list_offsets(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> Deferred[ListOffsetsResponse]:
    partition = TopicPartition(request.topic, request.partition)
    spec = request.at if isinstance(request.at, int) else _SPECS[request.at]
    found = broker.list_offset(context, partition, spec)
    return found.addCallbacks(_found, _as_told, errbackArgs=(partition,))


def _found(found: FoundOffset) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        None if found.offset == -1 else found.offset, None if found.timestamp == -1 else found.timestamp
    )


def delete_records(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> Deferred[DeleteRecordsResponse]:
    partition = TopicPartition(request.topic, request.partition)
    deleted = broker.administration.delete_records(context, partition, request.before)
    return deleted.addCallbacks(DeleteRecordsResponse, _as_told, errbackArgs=(partition,))


def _as_told(failure: Failure, partition: TopicPartition) -> Any:
    """For who asks for a partition, a topic that has just been deleted is one that is not there."""
    if failure.check(TopicNotFound) is not None:
        raise PartitionNotFound(partition.topic, partition.partition)
    return failure


# -- groups ------------------------------------------------------------------------


def list_groups(
    broker: Broker, context: RequestContext, request: ListGroupsRequest
) -> Deferred[ListGroupsResponse]:
    return broker.groups(context).addCallback(lambda names: ListGroupsResponse(list(map(ListedGroup, names))))


@inlineCallbacks
def describe_group(broker: Broker, context: RequestContext, request: DescribeGroupRequest) -> Later:
    description = yield broker.describe_group(context, request.group_id)
    return DescribeGroupResponse(description.group, list(map(_progress, description.offsets)))


def _progress(progress: GroupProgress) -> DescribedOffset:
    return DescribedOffset(
        progress.partition.topic,
        progress.partition.partition,
        progress.committed.offset,
        progress.log_start_offset,
        progress.high_watermark,
        progress.lag,
        progress.committed.metadata,
        progress.committed.commit_time,
    )


@inlineCallbacks
def delete_group(broker: Broker, context: RequestContext, request: DeleteGroupRequest) -> Later:
    group, topic = request.group_id, request.topic
    if topic is None:
        yield broker.delete_group(context, group)
        return DeleteGroupResponse(group)
    if request.partition is not None:
        partitions = [TopicPartition(topic, request.partition)]
    else:
        partitions = [each for each in (yield broker.fetch_offsets(context, group)) if each.topic == topic]
    refused = yield broker.delete_offsets(context, group, partitions)
    for error in filter(None, refused.values()):
        # It is about the topic, so that it is the same for all of them.
        raise error
    return DeleteGroupResponse(group)


METHODS: dict[type[Request], Any] = {
    CreateTopicRequest: create_topic,
    DeleteTopicRequest: delete_topic,
    ListTopicsRequest: list_topics,
    DescribeTopicRequest: describe_topic,
    AlterTopicRequest: alter_topic,
    DescribePartitionRequest: describe_partition,
    ListOffsetsRequest: list_offsets,
    DeleteRecordsRequest: delete_records,
    ListGroupsRequest: list_groups,
    DescribeGroupRequest: describe_group,
    DeleteGroupRequest: delete_group,
}
"""Each is given the broker, the context and the request; returns and fails as L{Handlers.handle
<rustlog.wire.rustlog.handlers.Handlers.handle>} does."""
