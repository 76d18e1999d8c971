"""
Fluvio's codes for what goes wrong.

A code is an i16 and, for some, facts behind it: to leave them out would shift all that follows.  This is the
one table of the codes, and the one table from L{rustlog.errors} to them.  What only this protocol refuses is
a L{Refused} with its code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, frozen

from rustlog import errors
from rustlog.errors import RequestRefused, RustlogError, StorageFailed, TryAgain
from rustlog.wire.fluvio.primitives import I16, I64, U8, U32, U64, Reader, Unreadable, Writer

Facts = tuple[Any, ...]

MESSAGE_CHARACTERS_MAX = 2000
"""Of a sentence: it may repeat what the client sent."""


@frozen
class ErrorCode:
    """A code with its facts, if it has any; there are constants and functions for all of them below."""

    number: int
    facts: Facts = ()

    @property
    def name(self) -> str:
        """What Fluvio calls it."""
        return NAMES[self.number]


NAMES = {
    -1: "UnknownServerError",
    0: "None",
    1: "OffsetOutOfRange",
    2: "Other",
    6: "NotLeaderForPartition",
    7: "RequestTimedOut",
    10: "MessageTooLarge",
    13: "PermissionDenied",
    56: "StorageError",
    60: "InvalidCreateRequest",
    61: "InvalidDeleteRequest",
    71: "OffsetEvicted",
    72: "PartitionFull",
    73: "PartitionShortCircuited",
    1000: "SpuError",
    1002: "SpuOffline",
    1003: "SpuNotFound",
    2000: "TopicError",
    2001: "TopicNotFound",
    2002: "TopicAlreadyExists",
    2003: "TopicPendingInitialization",
    2004: "TopicInvalidConfiguration",
    2005: "TopicNotProvisioned",
    2006: "TopicInvalidName",
    2007: "TopicDeleted",
    2008: "TopicInvalidReplicaType",
    3000: "PartitionPendingInitialization",
    3001: "PartitionNotLeader",
    3002: "FetchSessionNotFound",
    3003: "OffsetFlushRequestError",
    3004: "OffsetManagementDisabled",
    6001: "SmartModuleNotFound",
    9000: "CompressionError",
    12001: "SystemSpecDeletionAttempt",
}

_TEXT = "text"
_FACTS: dict[int, tuple[Any, ...]] = {
    2: (_TEXT,),  # a sentence
    7: (U64, U8),  # milliseconds, kind
    71: (I64, I64),  # the offset, the next that is there
    72: (_TEXT, U32),  # topic, partition
    3003: (_TEXT,),  # a sentence
    6001: (_TEXT,),  # its name
    12001: (_TEXT, _TEXT),  # the kind of object, its name
}

UNKNOWN_SERVER_ERROR = ErrorCode(-1)
NONE = ErrorCode(0)
OFFSET_OUT_OF_RANGE = ErrorCode(1)
NOT_LEADER_FOR_PARTITION = ErrorCode(6)
MESSAGE_TOO_LARGE = ErrorCode(10)
PERMISSION_DENIED = ErrorCode(13)
STORAGE_ERROR = ErrorCode(56)
INVALID_CREATE_REQUEST = ErrorCode(60)
INVALID_DELETE_REQUEST = ErrorCode(61)
TOPIC_NOT_FOUND = ErrorCode(2001)
TOPIC_ALREADY_EXISTS = ErrorCode(2002)
TOPIC_INVALID_CONFIGURATION = ErrorCode(2004)
TOPIC_INVALID_NAME = ErrorCode(2006)
TOPIC_DELETED = ErrorCode(2007)
TOPIC_INVALID_REPLICA_TYPE = ErrorCode(2008)
FETCH_SESSION_NOT_FOUND = ErrorCode(3002)
OFFSET_MANAGEMENT_DISABLED = ErrorCode(3004)
COMPRESSION_ERROR = ErrorCode(9000)


def other(sentence: str) -> ErrorCode:
    """For what Fluvio has no code for."""
    return ErrorCode(2, (_short(sentence),))


def request_timed_out(timeout_ms: int) -> ErrorCode:
    return ErrorCode(7, (timeout_ms, 0))


def offset_evicted(offset: int, next_available: int) -> ErrorCode:
    return ErrorCode(71, (offset, next_available))


def partition_full(topic: str, partition: int) -> ErrorCode:
    return ErrorCode(72, (topic, partition))


def offset_flush_request_error(sentence: str) -> ErrorCode:
    return ErrorCode(3003, (_short(sentence),))


def smart_module_not_found(name: str) -> ErrorCode:
    return ErrorCode(6001, (name,))


def system_spec_deletion_attempt(kind: str, name: str) -> ErrorCode:
    return ErrorCode(12001, (kind, name))


def _short(sentence: str) -> str:
    return sentence[:MESSAGE_CHARACTERS_MAX]


# -- bytes -----------------------------------------------------------------------------


def read_error(reader: Reader) -> ErrorCode:
    """A code and its facts."""
    number = reader.number(I16)
    if number not in NAMES:
        raise Unreadable(f"{number} is not an error code")
    layouts = _FACTS.get(number, ())
    return ErrorCode(number, tuple([_read_fact(reader, each) for each in layouts]))


def _read_fact(reader: Reader, layout: Any) -> Any:
    return reader.string() if layout is _TEXT else reader.number(layout)


def write_error(writer: Writer, error: ErrorCode) -> None:
    """A code and its facts."""
    writer.pack(I16, error.number)
    for layout, fact in zip(_FACTS.get(error.number, ()), error.facts, strict=True):
        if layout is _TEXT:
            writer.string(fact)
        else:
            writer.pack(layout, fact)


# -- what went wrong inside --------------------------------------------------------------


@define(eq=False)
class Refused(RequestRefused):
    """Something that the Fluvio protocol forbids, or that is not offered."""

    code: ErrorCode
    reason: str

    def __str__(self) -> str:
        return self.reason


def _offset_out_of_range(error: errors.OffsetOutOfRange) -> ErrorCode:
    """Fluvio tells what is gone already from what is not there yet."""
    if error.requested < error.log_start_offset:
        return offset_evicted(error.requested, error.log_start_offset)
    return OFFSET_OUT_OF_RANGE


def _sentence(error: RustlogError) -> ErrorCode:
    return other(str(error))


_CODES: dict[type[RustlogError], ErrorCode | Callable[[Any], ErrorCode]] = {
    # What a unit of Fluvio says of a topic or partition that it does not have.
    errors.PartitionNotFound: NOT_LEADER_FOR_PARTITION,
    errors.TopicNotFound: TOPIC_NOT_FOUND,
    errors.TopicExists: TOPIC_ALREADY_EXISTS,
    errors.TopicIsInternal: PERMISSION_DENIED,
    errors.InvalidTopicName: TOPIC_INVALID_NAME,
    errors.InvalidPartitionCount: TOPIC_INVALID_CONFIGURATION,
    errors.InvalidSetting: TOPIC_INVALID_CONFIGURATION,
    errors.InvalidGroup: lambda error: offset_flush_request_error(str(error)),
    errors.GroupNotFound: _sentence,
    errors.OffsetOutOfRange: _offset_out_of_range,
    errors.RecordTooLarge: MESSAGE_TOO_LARGE,
    errors.InvalidRecord: _sentence,
    errors.CorruptBatch: _sentence,
    errors.OutOfOrderSequence: _sentence,
    errors.StaleProducerEpoch: _sentence,
    errors.StaleGeneration: _sentence,
    errors.UnknownMember: _sentence,
    errors.MemberIdRequired: _sentence,
    errors.FencedInstance: _sentence,
    errors.InconsistentProtocol: _sentence,
    errors.InvalidSessionTimeout: _sentence,
    errors.GroupFull: _sentence,
    errors.GroupNotEmpty: _sentence,
    errors.GroupReadsTopic: _sentence,
    errors.CommitMetadataTooLarge: lambda error: offset_flush_request_error(str(error)),
    errors.RebalanceInProgress: _sentence,
    errors.NotCoordinator: _sentence,
    errors.CoordinatorNotAvailable: _sentence,
    errors.VersionConflict: _sentence,
    errors.NotHeldByStore: _sentence,
    errors.StorageFull: STORAGE_ERROR,
    errors.PartitionFenced: STORAGE_ERROR,
    errors.DamagedLog: STORAGE_ERROR,
    errors.Closed: NOT_LEADER_FOR_PARTITION,
}

_GROUPS: dict[type[RustlogError], ErrorCode | Callable[[Any], ErrorCode]] = {
    RequestRefused: _sentence,
    TryAgain: STORAGE_ERROR,
    StorageFailed: STORAGE_ERROR,
}
"""For errors that a plugin has added."""


def code_for(error: BaseException) -> ErrorCode:
    """What a client is told."""
    if isinstance(error, Refused):
        return error.code
    for each in type(error).__mro__:
        code = _CODES.get(each) or _GROUPS.get(each)
        if code is not None:
            return code(error) if callable(code) else code
    return UNKNOWN_SERVER_ERROR


def message_for(error: BaseException) -> str:
    """The sentence that goes with it, where an answer has a place for one."""
    return _short(str(error)) if isinstance(error, RustlogError) else "internal error"
