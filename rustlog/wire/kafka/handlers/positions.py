"""
ListOffsets and OffsetForLeaderEpoch: where in a partition something is.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed

from rustlog.model import FoundOffset, OffsetSpec, TopicPartition
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import ErrorCode, Refused, code_for
from rustlog.wire.kafka.handlers.gathering import Fields, answer_partitions, repeated
from rustlog.wire.kafka.schema import Entity

LIST_OFFSETS = 2
OFFSET_FOR_LEADER_EPOCH = 23

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)

SPECS = {
    LATEST: OffsetSpec.LATEST,
    EARLIEST: OffsetSpec.EARLIEST,
    MAX_TIMESTAMP: OffsetSpec.MAX_TIMESTAMP,
    # All of the log is local, and nothing is elsewhere or about to go there.
    EARLIEST_LOCAL: OffsetSpec.EARLIEST,
    LATEST_TIERED: None,
    EARLIEST_PENDING_UPLOAD: None,
}
"""What is meant by timestamps that are none; C{None} is a position that there is not."""

SINCE_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""Which version of ListOffsets brought them."""

NO_EPOCH = -1


# -- ListOffsets -----------------------------------------------------------------------


def list_offsets(call: Call) -> Deferred[Entity]:
    """The offsets of times, or of the ends of the log."""
    topics = call.request.topics
    twice = repeated((topic.name, each.partition_index) for topic in topics for each in topic.partitions)

    def answer(topic: str, partition: Any) -> Deferred[Fields]:
        if (topic, partition.partition_index) in twice:
            raise Refused(ErrorCode.invalid_request, "a partition is asked for more than once")
        return _find(call, TopicPartition(topic, partition.partition_index), partition)

    def refuse(partition: Any, error: Exception) -> Fields:
        return {"partition_index": partition.partition_index, "error_code": code_for(error)}

    found = answer_partitions(topics, answer, refuse)
    return found.addCallback(lambda answers: call.respond(topics=answers))


def _find(call: Call, name: TopicPartition, wanted: Any) -> Deferred[Fields]:
    timestamp = wanted.timestamp
    if timestamp < 0 and (timestamp not in SPECS or call.version < SINCE_VERSION.get(timestamp, 0)):
        raise Refused(ErrorCode.unsupported_version, f"version {call.version} has no timestamp {timestamp}")
    check_leader_epoch(call, name, getattr(wanted, "current_leader_epoch", NO_EPOCH))
    spec = SPECS.get(timestamp, timestamp)
    found = succeed(FoundOffset(-1)) if spec is None else _list_offset(call, name, spec)
    return found.addCallback(_position, wanted.partition_index)


def _list_offset(call: Call, name: TopicPartition, spec: OffsetSpec | int) -> Deferred[FoundOffset]:
    return call.services.broker.list_offset(call.context, name, spec)


def _position(found: FoundOffset, partition_index: int) -> Fields:
    return {
        "partition_index": partition_index,
        "timestamp": found.timestamp,
        "offset": found.offset,
        "leader_epoch": found.leader_epoch,
    }


def check_leader_epoch(call: Call, name: TopicPartition, epoch: int) -> None:
    """
    Refuse a client that has seen another leader epoch than the current one; -1 is none.  A client that is
    behind has to look for what was lost; one that is ahead knows of a broker that was more than this one is.

    @raise PartitionNotFound: there is no such partition.
    """
    current = call.services.broker.leader_epoch(call.context, name)
    if epoch in (NO_EPOCH, current):
        return
    code = ErrorCode.fenced_leader_epoch if epoch < current else ErrorCode.unknown_leader_epoch
    raise Refused(code, f"the leader epoch is {current}, not {epoch}")


# -- OffsetForLeaderEpoch --------------------------------------------------------------


def offset_for_leader_epoch(call: Call) -> Deferred[Entity]:
    """Where a leader epoch ended: what a client has read beyond that was lost."""

    def answer(topic: str, partition: Any) -> Deferred[Fields]:
        name = TopicPartition(topic, partition.partition)
        check_leader_epoch(call, name, partition.current_leader_epoch)
        found = call.services.broker.end_of_epoch(call.context, name, partition.leader_epoch)
        return found.addCallback(_end, partition.partition)

    def refuse(partition: Any, error: Exception) -> Fields:
        return {"partition": partition.partition, "error_code": code_for(error)}

    found = answer_partitions(call.request.topics, answer, refuse, name="topic")
    return found.addCallback(lambda answers: call.respond(topics=answers))


def _end(found: tuple[int, int], partition: int) -> Fields:
    epoch, end_offset = found
    return {"partition": partition, "leader_epoch": epoch, "end_offset": end_offset}


APIS = (
    Api(LIST_OFFSETS, "ListOffsets", 1, 11, list_offsets),
    Api(OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, offset_for_leader_epoch),
)
