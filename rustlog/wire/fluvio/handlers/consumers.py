"""
What consumers have read: UpdateConsumerOffset, DeleteConsumerOffset and FetchConsumerOffsets.

A consumer of Fluvio is a group of ours.  It speaks of the last record that it has read, and a group's
progress is the one that it will read next: so what is kept is one more than what it says, and what it
hears one less.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks

from rustlog.errors import GroupNotFound, RustlogError
from rustlog.model import Committed, TopicPartition
from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.calls import Call
from rustlog.wire.fluvio.consumers import (
    ConsumerOffset,
    DeleteConsumerOffsetRequest,
    DeleteConsumerOffsetResponse,
    FetchConsumerOffsetsRequest,
    FetchConsumerOffsetsResponse,
    UpdateConsumerOffsetRequest,
    UpdateConsumerOffsetResponse,
)
from rustlog.wire.fluvio.errors import (
    FETCH_SESSION_NOT_FOUND,
    NONE,
    OFFSET_MANAGEMENT_DISABLED,
    Refused,
)

Steps = Generator["Deferred[Any]", Any, Any]


@inlineCallbacks
def update_consumer_offset(call: Call) -> Steps:
    """Remember how far a consumer has come in what one of its streams reads."""
    request: UpdateConsumerOffsetRequest = call.request
    stream = call.services.streams.find(request.stream_id)
    if stream is None:
        raise Refused(FETCH_SESSION_NOT_FOUND, f"there is no stream {request.stream_id}")
    call.work.topic, call.work.partition = stream.name.topic, stream.name.partition
    if stream.consumer_id is None:
        sentence = f"stream {request.stream_id} was opened without a consumer id"
        raise Refused(OFFSET_MANAGEMENT_DISABLED, sentence)
    progress = {stream.name: Committed(request.offset + 1)}
    yield call.services.broker.commit_offsets(call.context, stream.consumer_id, progress)
    return UpdateConsumerOffsetResponse(request.offset, NONE)


@inlineCallbacks
def delete_consumer_offset(call: Call) -> Steps:
    """Forget how far a consumer has come in a partition; nothing is wrong if that was not known."""
    request: DeleteConsumerOffsetRequest = call.request
    name = request.partition
    call.work.topic, call.work.partition = name.topic, name.partition
    try:
        answers = yield call.services.broker.delete_offsets(call.context, request.consumer_id, [name])
    except GroupNotFound:
        return DeleteConsumerOffsetResponse()
    if isinstance(answers[name], RustlogError):
        raise answers[name]
    return DeleteConsumerOffsetResponse()


@inlineCallbacks
def fetch_consumer_offsets(call: Call) -> Steps:
    """How far consumers have come; of one, or in one partition, if only that is wanted."""
    request: FetchConsumerOffsetsRequest = call.request
    broker, context = call.services.broker, call.context
    partitions = None if request.partition is None else [request.partition]
    consumers = [request.consumer_id] if request.consumer_id is not None else (yield broker.groups(context))
    found: list[ConsumerOffset] = []
    for each in consumers:
        found += _shown(each, (yield broker.fetch_offsets(context, each, partitions)))
    return FetchConsumerOffsetsResponse(tuple(found))


def _shown(consumer: str, progress: Mapping[TopicPartition, Committed]) -> Iterator[ConsumerOffset]:
    for name, committed in sorted(progress.items()):
        seconds = max(0, committed.commit_time // 1000)
        yield ConsumerOffset(consumer, name, committed.offset - 1, seconds)


HANDLERS = {
    apis.UPDATE_CONSUMER_OFFSET: update_consumer_offset,
    apis.DELETE_CONSUMER_OFFSET: delete_consumer_offset,
    apis.FETCH_CONSUMER_OFFSETS: fetch_consumer_offsets,
}
