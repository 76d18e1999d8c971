"""
FetchOffsets, StreamFetch and UpdateOffsets.
"""

from __future__ import annotations

from rustlog.errors import RustlogError
from rustlog.model import TopicPartition
from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.calls import Call, module_refusal
from rustlog.wire.fluvio.errors import (
    FETCH_SESSION_NOT_FOUND,
    NONE,
    ErrorCode,
    code_for,
    message_for,
)
from rustlog.wire.fluvio.fetching import (
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    PartitionOffsets,
    StreamFetchRequest,
    StreamFetchResponse,
    StreamPosition,
    UpdateOffsetsRequest,
    UpdateOffsetsResponse,
)
from rustlog.wire.fluvio.turns import Origin


def fetch_offsets(call: Call) -> FetchOffsetsResponse:
    """The bounds of partitions."""
    request: FetchOffsetsRequest = call.request
    return FetchOffsetsResponse(
        tuple(
            (topic, tuple([_bounds(call, topic, each) for each in indexes]))
            for topic, indexes in request.topics
        )
    )


def _bounds(call: Call, topic: str, index: int) -> PartitionOffsets:
    call.work.topic, call.work.partition = topic, index
    try:
        start, end = call.services.broker.bounds(call.context, TopicPartition(topic, index))
    except RustlogError as error:
        return PartitionOffsets(index, _told(call, error))
    return PartitionOffsets(index, NONE, start, end)


def stream_fetch(call: Call) -> StreamFetchResponse | None:
    """Open a stream: its answers come by themselves.  What can not be opened has but one, which says why."""
    request: StreamFetchRequest = call.request
    call.work.topic, call.work.partition = request.topic, request.partition
    try:
        refused = module_refusal(request.smart_modules)
        if refused is not None:
            raise refused
        origin = Origin(call.api, call.version, call.correlation_id)
        call.services.streams.open(call.context, origin, request)
    except RustlogError as error:
        return StreamFetchResponse(request.topic, 0, request.partition, _told(call, error))
    return None


def update_offsets(call: Call) -> UpdateOffsetsResponse:
    """The client has read so far of its streams, and can take more."""
    request: UpdateOffsetsRequest = call.request
    return UpdateOffsetsResponse(
        tuple([(each.stream_id, _acknowledge(call, each)) for each in request.positions])
    )


def _acknowledge(call: Call, position: StreamPosition) -> ErrorCode:
    is_there = call.services.streams.acknowledge(position.stream_id, position.offset)
    return NONE if is_there else FETCH_SESSION_NOT_FOUND


def _told(call: Call, error: RustlogError) -> ErrorCode:
    code = code_for(error)
    call.work.outcome, call.work.error = message_for(error), code.name
    return code


HANDLERS = {
    apis.FETCH_OFFSETS: fetch_offsets,
    apis.STREAM_FETCH: stream_fetch,
    apis.UPDATE_OFFSETS: update_offsets,
}
