"""
Kafka's numbers for what goes wrong.

This is the one table from L{rustlog.errors} to codes.  What only this protocol refuses is a L{Refused} with
its code.
"""

from __future__ import annotations

from attrs import define
from kio.schema.errors import ErrorCode

from rustlog import errors
from rustlog.errors import RequestRefused, RustlogError, StorageFailed, TryAgain

__all__ = ["ErrorCode", "Refused", "code_for", "message_for"]


@define(eq=False)
class Refused(RequestRefused):
    """Something that the Kafka protocol forbids, or that is not offered."""

    code: ErrorCode
    reason: str

    def __str__(self) -> str:
        return self.reason


MESSAGE_CHARACTERS_MAX = 2000
"""Of a sentence: it may repeat what the client sent, and older versions have no room for much."""

_CODES: dict[type[RustlogError], ErrorCode] = {
    errors.PartitionNotFound: ErrorCode.unknown_topic_or_partition,
    errors.TopicNotFound: ErrorCode.unknown_topic_or_partition,
    errors.TopicExists: ErrorCode.topic_already_exists,
    errors.TopicIsInternal: ErrorCode.invalid_topic_exception,
    errors.InvalidTopicName: ErrorCode.invalid_topic_exception,
    errors.InvalidPartitionCount: ErrorCode.invalid_partitions,
    errors.InvalidSetting: ErrorCode.invalid_config,
    errors.InvalidGroup: ErrorCode.invalid_group_id,
    errors.GroupNotFound: ErrorCode.group_id_not_found,
    errors.OffsetOutOfRange: ErrorCode.offset_out_of_range,
    errors.RecordTooLarge: ErrorCode.message_too_large,
    errors.InvalidRecord: ErrorCode.invalid_record,
    errors.CorruptBatch: ErrorCode.corrupt_message,
    errors.OutOfOrderSequence: ErrorCode.out_of_order_sequence_number,
    errors.StaleProducerEpoch: ErrorCode.invalid_producer_epoch,
    errors.StaleGeneration: ErrorCode.illegal_generation,
    errors.UnknownMember: ErrorCode.unknown_member_id,
    errors.MemberIdRequired: ErrorCode.member_id_required,
    errors.FencedInstance: ErrorCode.fenced_instance_id,
    errors.InconsistentProtocol: ErrorCode.inconsistent_group_protocol,
    errors.InvalidSessionTimeout: ErrorCode.invalid_session_timeout,
    errors.GroupFull: ErrorCode.group_max_size_reached,
    errors.GroupNotEmpty: ErrorCode.non_empty_group,
    errors.GroupReadsTopic: ErrorCode.group_subscribed_to_topic,
    errors.CommitMetadataTooLarge: ErrorCode.offset_metadata_too_large,
    errors.RebalanceInProgress: ErrorCode.rebalance_in_progress,
    errors.NotCoordinator: ErrorCode.not_coordinator,
    errors.CoordinatorNotAvailable: ErrorCode.coordinator_not_available,
    # Another coordinator took the group over: the client shall ask which one.
    errors.VersionConflict: ErrorCode.not_coordinator,
    errors.NotHeldByStore: ErrorCode.invalid_record,
    errors.StorageFull: ErrorCode.kafka_storage_error,
    errors.PartitionFenced: ErrorCode.kafka_storage_error,
    # Not a storage error: consumers would ask for it again and again, without a word.
    errors.DamagedLog: ErrorCode.corrupt_message,
    # Clients look for the partition elsewhere, and find us when we are back.
    errors.Closed: ErrorCode.not_leader_or_follower,
}

_GROUPS: dict[type[RustlogError], ErrorCode] = {
    RequestRefused: ErrorCode.invalid_request,
    TryAgain: ErrorCode.kafka_storage_error,
    StorageFailed: ErrorCode.kafka_storage_error,
}
"""For errors that a plugin has added."""


def code_for(error: BaseException) -> ErrorCode:
    """What a client is told."""
    if isinstance(error, Refused):
        return error.code
    for each in type(error).__mro__:
        code = _CODES.get(each) or _GROUPS.get(each)
        if code is not None:
            return code
    return ErrorCode.unknown_server_error


def message_for(error: BaseException) -> str:
    """The sentence that goes with it, where a response has a place for one."""
    return str(error)[:MESSAGE_CHARACTERS_MAX] if isinstance(error, RustlogError) else "internal error"
