"""
What clients of the RustLog protocol are told when something fails.

Clients look at the beginning of a message, so these sentences are promises, whatever the errors
themselves say to people.  In binary there is a code, too.
"""

from __future__ import annotations

from rustlog import errors
from rustlog.errors import PartitionNotFound, RequestRefused, RustlogError, TopicNotFound
from rustlog.wire.rustlog.messages import (
    DescribePartitionRequest,
    DescribeTopicRequest,
    FetchRequest,
    OffsetCommitRequest,
    Request,
)

INTERNAL_ERROR = "internal error"

_SENTENCES: dict[type[RustlogError], str] = {
    errors.PartitionNotFound: "partition not found: topic={0.topic}, partition={0.partition}",
    errors.TopicNotFound: "topic not found: {0.topic}",
    errors.TopicExists: "topic exists already: {0.topic}",
    errors.TopicIsInternal: "topic is internal: {0.topic}",
    errors.InvalidTopicName: "invalid topic name: {0.reason}",
    errors.InvalidPartitionCount: "invalid partition count: {0.reason}",
    errors.InvalidSetting: "invalid setting {0.name}: {0.reason}",
    errors.InvalidGroup: "invalid group id: {0.reason}",
    errors.GroupNotFound: "group not found: {0.group}",
    errors.OffsetOutOfRange: (
        "offset out of range: {0.requested} is not within {0.log_start_offset}..{0.high_watermark}"
    ),
    errors.RecordTooLarge: "records too large: {0.size} bytes exceed max.message.bytes={0.limit}",
    errors.InvalidRecord: "invalid record: {0.reason}",
    errors.CorruptBatch: "corrupt records: {0.reason}",
    errors.OutOfOrderSequence: "out of order sequence: {0.received} after {0.expected}",
    errors.StaleProducerEpoch: "stale producer epoch: {0.epoch}, current is {0.current_epoch}",
    errors.StaleGeneration: "stale generation {0.generation} of group {0.group}",
    errors.UnknownMember: "unknown member {0.member_id} of group {0.group}",
    errors.MemberIdRequired: "member id required: join again as {0.member_id}",
    errors.FencedInstance: "fenced instance {0.instance_id} of group {0.group}",
    errors.InconsistentProtocol: "inconsistent protocol of group {0.group}",
    errors.InvalidSessionTimeout: (
        "invalid session timeout: {0.session_timeout_ms} ms are not within {0.minimum_ms}..{0.maximum_ms}"
    ),
    errors.GroupFull: "group {0.group} is full: {0.reason}",
    errors.GroupNotEmpty: "group not empty: {0.group}",
    errors.GroupReadsTopic: "topic in use: members of group {0.group} read {0.topic}",
    errors.CommitMetadataTooLarge: "metadata too large: {0.size} bytes exceed {0.limit}",
    errors.RebalanceInProgress: "rebalance in progress: {0.group}",
    errors.NotCoordinator: "not the coordinator of group {0.group}",
    errors.CoordinatorNotAvailable: "coordinator not available: {0.reason}",
    errors.VersionConflict: "group {0.group} was changed by someone else",
    errors.NotHeldByStore: "this store cannot hold {0.what}",
    errors.StorageFull: "storage full: nothing of the request was kept",
    errors.PartitionFenced: "storage failed: {0.partition} accepts nothing until the broker restarts",
    errors.DamagedLog: "damaged log: {0.partition} at offset {0.offset}",
    errors.Closed: "the broker is stopping",
}


def message_for(error: RustlogError) -> str:
    """What a client is told."""
    sentence = _SENTENCES.get(type(error))
    # An error that a plugin has added speaks for itself.
    return str(error) if sentence is None else sentence.format(error)


# -- in binary ---------------------------------------------------------------------

BAD_FRAME = 1
BAD_REQUEST = 2
NOT_FOUND = 10
REFUSED = 400
FAILED = 500

_CODES_OF_REQUESTS: dict[type[Request], int] = {
    FetchRequest: 4,
    OffsetCommitRequest: 5,
    DescribeTopicRequest: 13,
    DescribePartitionRequest: 14,
}
_CODES_OF_ERRORS: dict[type[RustlogError], int] = {
    errors.TopicExists: 11,
    errors.InvalidPartitionCount: 12,
}
_DESCRIBING = (DescribeTopicRequest, DescribePartitionRequest)


def code_for(error: RustlogError, request_class: type[Request]) -> int:
    """By what a client knows it: some kinds of error have a code of their own, and some requests."""
    if isinstance(error, (PartitionNotFound, TopicNotFound)) and request_class not in _DESCRIBING:
        return NOT_FOUND
    if request_class in _CODES_OF_REQUESTS:
        return _CODES_OF_REQUESTS[request_class]
    if type(error) in _CODES_OF_ERRORS:
        return _CODES_OF_ERRORS[type(error)]
    return REFUSED if isinstance(error, RequestRefused) else FAILED
