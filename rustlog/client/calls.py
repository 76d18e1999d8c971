"""
Every request of the RustLog protocol, as a function that makes a L{Call} of it.

Both clients have a method for each of these, of the same name and with the same arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, Literal, TypeVar, Union

from attrs import frozen

from rustlog.client.errors import CommitRefused
from rustlog.client.exchange import Call
from rustlog.model import Record
from rustlog.wire.rustlog import messages as m

MAX_BYTES = 1024 * 1024
"""How much a fetch returns, unless it is told otherwise."""

Value = Union[bytes, Record]
At = Union[Literal["earliest", "latest", "max_timestamp"], int]
OffsetReset = Literal["error", "earliest", "latest"]

R = TypeVar("R", bound=m.Response)

_INCLUDED = m.Include(frozenset(m.INCLUDABLE))


@frozen
class FetchedRecords:
    """What a fetch has found, and the offset to fetch from next."""

    records: list[Record]
    next_offset: int


# -- topics --


def create_topic(
    topic: str, partitions: int | None = None, config: Mapping[str, object] | None = None
) -> Call[m.CreateTopicResponse]:
    """Make a topic; what is not said is the broker's default.  Raises L{AlreadyExists}."""
    settings = None if config is None else m.Settings(dict(config))
    return Call(m.CreateTopicRequest(topic, _u32(partitions), settings), _itself)


def delete_topic(topic: str) -> Call[None]:
    """Remove a topic with all its records, and what groups have committed in it."""
    return Call(m.DeleteTopicRequest(topic), _nothing)


def list_topics() -> Call[list[m.ListedTopic]]:
    """All topics, internal ones too."""
    return Call(m.ListTopicsRequest(), attrgetter("topics"), may_repeat=True)


def describe_topic(topic: str) -> Call[m.DescribeTopicResponse]:
    """All about a topic: its partitions, from where to where they go, and its settings."""
    return Call(m.DescribeTopicRequest(topic), _itself, may_repeat=True)


def alter_topic(
    topic: str, partitions: int | None = None, config: Mapping[str, object] | None = None
) -> Call[m.AlterTopicResponse]:
    """Add partitions; change settings.  A setting that is C{None} is the broker's default again."""
    changes = None if config is None else m.Changes(dict(config))
    return Call(m.AlterTopicRequest(topic, _u32(partitions), changes), _itself)


# -- records --


def produce(
    topic: str, records: Iterable[Value], partition: int = 0, *, at_least_once: bool = False
) -> Call[list[int]]:
    """
    Append records, all or none of them; their offsets.

    @param records: values, or L{Record}s where they have more than that.
    @param at_least_once: go on trying when the connection breaks before the answer is there.  The records may
        then be written twice.  Otherwise L{ConnectionLost <rustlog.client.errors.ConnectionLost>} is
        raised, and it is yours to find out whether they were written.
    """
    given = [each if isinstance(each, Record) else Record(each) for each in records]
    has_keys = any(each.key is not None or each.value is None for each in given)
    request = m.ProduceRequest(
        topic,
        m.U32(partition),
        m.Payloads([each.value for each in given]),
        keys=m.Payloads([each.key for each in given]) if has_keys else None,
        headers=m.HeaderLists([each.headers for each in given])
        if any(each.headers for each in given)
        else None,
        timestamps=_timestamps(given),
        encoding="base64",
    )
    return Call(request, _offsets, may_repeat=at_least_once)


def fetch(
    topic: str,
    partition: int,
    offset: int,
    *,
    max_bytes: int = MAX_BYTES,
    group_id: str | None = None,
    max_wait_ms: int = 0,
    min_bytes: int | None = None,
    auto_commit: bool = False,
    offset_reset: OffsetReset = "error",
) -> Call[FetchedRecords]:
    """
    Read records from an offset on.

    @param max_bytes: of values; the first record comes even if it is larger.
    @param group_id: begin where that group has got to, if this is further on.
    @param max_wait_ms: how long to wait while there is nothing to read.
    @param auto_commit: let the broker remember, before it answers, that the group has these records.
        What is lost on the way then is never seen.
    @param offset_reset: where to go on when the offset is no longer, or not yet, in the log.
    """
    request = m.FetchRequest(
        topic,
        m.U32(partition),
        m.U64(offset),
        m.U64(max_bytes),
        group_id,
        max_wait_ms=m.U64(max_wait_ms) if max_wait_ms else None,
        min_bytes=None if min_bytes is None else m.U64(min_bytes),
        include=_INCLUDED,
        encoding="base64",
        auto_commit=True if auto_commit else None,
        offset_reset=None if offset_reset == "error" else offset_reset,
    )
    return Call(request, _fetched, may_repeat=not auto_commit, waits_ms=max_wait_ms)


def list_offsets(topic: str, partition: int, at: At) -> Call[m.ListOffsetsResponse]:
    """
    Find an offset.

    @param at: C{"earliest"}, C{"latest"} (where the next record will be), C{"max_timestamp"}, or
        milliseconds since
        the epoch: the first record that is not older.
    """
    wanted: Any = at
    return Call(m.ListOffsetsRequest(topic, m.U32(partition), wanted), _itself, may_repeat=True)


def delete_records(topic: str, partition: int, before: int) -> Call[int]:
    """Let a log begin at an offset; where it begins now."""
    request = m.DeleteRecordsRequest(topic, m.U32(partition), m.U64(before))
    return Call(request, attrgetter("log_start_offset"), may_repeat=True)


# -- groups --


def commit(group_id: str, topic: str, partition: int, offset: int) -> Call[None]:
    """
    Remember how far a group has come: C{offset} is the next one that it will read.  The last commit wins.
    Raises L{CommitRefused}.
    """
    request = m.OffsetCommitRequest(topic, m.U32(partition), group_id, m.U64(offset))

    def check(response: m.OffsetCommitResponse) -> None:
        if not response.success:
            raise CommitRefused(
                f"offset {offset} of {topic}-{partition} was not remembered for {group_id}: "
                "there is no such partition, or the offset store failed"
            )

    return Call(request, check, may_repeat=True)


def committed(group_id: str, topic: str, partition: int) -> Call[int | None]:
    """How far a group has come; C{None}: it has not begun."""
    request = m.OffsetFetchRequest(topic, m.U32(partition), group_id)
    return Call(request, attrgetter("offset"), may_repeat=True)


def list_groups() -> Call[list[str]]:
    """The names of all groups."""
    return Call(
        m.ListGroupsRequest(), lambda response: [each.group_id for each in response.groups], may_repeat=True
    )


def describe_group(group_id: str) -> Call[list[m.DescribedOffset]]:
    """How far a group has come everywhere, and how far it has to go.  Raises L{GroupNotFound}."""
    return Call(m.DescribeGroupRequest(group_id), attrgetter("offsets"), may_repeat=True)


def delete_group(group_id: str, topic: str | None = None, partition: int | None = None) -> Call[None]:
    """Forget a group; or only how far it has come in one topic, or one partition of that."""
    return Call(m.DeleteGroupRequest(group_id, topic, _u32(partition)), _nothing)


# -- the broker --


def ping() -> Call[None]:
    """See whether somebody is there."""
    return Call(m.PingRequest(), _nothing, may_repeat=True)


def api_versions() -> Call[m.ApiVersionsResponse]:
    """What the broker can do."""
    return Call(m.ApiVersionsRequest(), _itself, may_repeat=True)


# -- helpers --


def _u32(number: int | None) -> m.U32 | None:
    return None if number is None else m.U32(number)


def _timestamps(records: list[Record]) -> m.Timestamps | None:
    if all(each.timestamp < 0 for each in records):
        return None
    return m.Timestamps([None if each.timestamp < 0 else each.timestamp for each in records])


def _itself(response: R) -> R:
    return response


def _nothing(_: m.Response) -> None:
    return None


def _offsets(response: m.ProduceResponse) -> list[int]:
    return list(response.offsets)


def _fetched(response: m.FetchResponse) -> FetchedRecords:
    return FetchedRecords([_record(each) for each in response.records], response.next_offset)


def _record(found: m.FetchedRecord) -> Record:
    timestamp = -1 if found.timestamp is None else found.timestamp
    return Record(found.payload, found.key, tuple(found.headers or ()), timestamp, found.offset)
