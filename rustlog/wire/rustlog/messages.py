"""
The messages of the RustLog protocol, as values.

On the wire each is a JSON object with one key, the name of the variant::

    {"Produce": {"topic": "orders", "partition": 0, "records": [[98, 121], [116]]}}

Bytes are arrays of numbers there (or base64, if the request says so), and C{bytes} here.  A field that is
C{None} is not sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Union, get_args

from attrs import define, field, frozen

# Plain types, with a word by which their rules are found in L{rustlog.wire.rustlog.fields}.
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]
Payloads = Annotated[list[bytes | None], "payloads"]
Keys = Annotated[list[bytes | None], "keys"]
Timestamps = Annotated[list[int | None], "timestamps"]
Header = tuple[str, bytes | None]
HeaderLists = Annotated[list[tuple[Header, ...]], "headers"]
Settings = Annotated[dict[str, object], "settings"]
Changes = Annotated[dict[str, object], "changes"]
Include = Annotated[frozenset[str], "include"]
Position = Annotated[Union[str, int], "position"]
Encoding = Literal["json", "base64", "binary"]
"""How bytes are written: as arrays of numbers, as text, or, with everything else, in binary."""
OffsetReset = Literal["error", "earliest", "latest"]

ENCODINGS: tuple[str, ...] = get_args(Encoding)

FRAME_BYTES_MAX = 10_485_760

MESSAGE_MAX = 2000
"""Characters of an error message; what clients made up and we repeat may be as large as a frame."""

INCLUDABLE = ("key", "headers", "timestamp")
"""What a Fetch may ask for besides offsets and payloads."""

POSITIONS = ("earliest", "latest", "max_timestamp")
"""What L{ListOffsetsRequest} finds besides times."""

# -- requests ----------------------------------------------------------------------


@frozen
class Request:
    """What a client may ask for."""


@frozen
class ProduceRequest(Request):
    """
    Append records to a partition.  What else is given has one entry for each record, in their order; a
    record may be C{None} (a tombstone) where there are keys.
    """

    topic: str
    partition: U32
    records: Payloads
    keys: Keys | None = None
    headers: HeaderLists | None = None
    timestamps: Timestamps | None = None
    encoding: Encoding | None = None


@frozen
class FetchRequest(Request):
    """
    Read records.  With a group, from where that has got to, if this is further on.

    C{max_bytes} is of payloads, and soft for the first record; C{min_bytes} is of what the log has
    stored, and waited for as long as C{max_wait_ms}.
    """

    topic: str
    partition: U32
    offset: U64
    max_bytes: U64
    group_id: str | None = None
    max_wait_ms: U64 | None = None
    min_bytes: U64 | None = None
    include: Include | None = None
    encoding: Encoding | None = None
    auto_commit: bool | None = None
    offset_reset: OffsetReset | None = None


@frozen
class OffsetCommitRequest(Request):
    """Remember how far a group has come."""

    topic: str
    partition: U32
    group_id: str
    offset: U64


@frozen
class OffsetFetchRequest(Request):
    """Ask how far a group has come."""

    topic: str
    partition: U32
    group_id: str


@frozen
class CreateTopicRequest(Request):
    """Make a topic; what is not said is the broker's default."""

    topic: str
    partitions: U32 | None = None
    config: Settings | None = None


@frozen
class DeleteTopicRequest(Request):
    """Remove a topic, and what groups have committed in it."""

    topic: str


@frozen
class ListTopicsRequest(Request):
    """Ask for the names of all topics."""


@frozen
class DescribeTopicRequest(Request):
    """Ask for everything about a topic."""

    topic: str


@frozen
class AlterTopicRequest(Request):
    """Add partitions, change settings; a setting that becomes C{None} is the broker's default again."""

    topic: str
    partitions: U32 | None = None
    config: Changes | None = None


@frozen
class ListGroupsRequest(Request):
    """Ask for the names of all groups."""


@frozen
class DescribeGroupRequest(Request):
    """Ask how far a group has come everywhere, and how far it has to go."""

    group_id: str


@frozen
class DeleteGroupRequest(Request):
    """Forget a group; or only what it has committed in one topic, or in one partition of that."""

    group_id: str
    topic: str | None = None
    partition: U32 | None = None


@frozen
class ListOffsetsRequest(Request):
    """Find an offset: one of L{POSITIONS}, or by time, in milliseconds."""

    topic: str
    partition: U32
    at: Position


@frozen
class DeleteRecordsRequest(Request):
    """Let a log begin at an offset."""

    topic: str
    partition: U32
    before: U64


@frozen
class PingRequest(Request):
    """Ask whether somebody is there."""


@frozen
class ApiVersionsRequest(Request):
    """Ask what the broker can do."""


@frozen
class DescribePartitionRequest(Request):
    """Ask where a partition ends.  Only in the binary encoding."""

    topic: str
    partition: U32


@frozen
class MetricsFetchRequest(Request):
    """Ask for all measurements.  Only in the binary encoding."""


REQUESTS: dict[str, type[Request]] = {
    each.__name__.removesuffix("Request"): each
    for each in (
        ProduceRequest,
        FetchRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        CreateTopicRequest,
        DeleteTopicRequest,
        ListTopicsRequest,
        DescribeTopicRequest,
        AlterTopicRequest,
        ListGroupsRequest,
        DescribeGroupRequest,
        DeleteGroupRequest,
        ListOffsetsRequest,
        DeleteRecordsRequest,
        PingRequest,
        ApiVersionsRequest,
    )
}
"""Those that JSON knows."""

# -- responses ---------------------------------------------------------------------


@frozen
class Response:
    """What it may be told."""


@frozen
class ProduceResponse(Response):
    """The offsets of the records, in their order."""

    offsets: list[int]


@define
class FetchedRecord:
    """
    One record.  All but offset and payload is C{None} unless it was asked for; the payload is C{None}
    only for a tombstone, and only where keys were asked for.  (Not frozen: they are made by the thousand.)
    """

    offset: int
    payload: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] | None = None
    timestamp: int | None = None


@frozen
class FetchResponse(Response):
    """
    Records, and the offset to fetch from next.

    @ivar include: which optional fields of the records are written.
    @ivar encoding: how their bytes are.
    """

    records: list[FetchedRecord]
    next_offset: int
    include: frozenset[str] = field(default=frozenset(), eq=False, kw_only=True)
    encoding: Encoding = field(default="json", eq=False, kw_only=True)


@frozen
class OffsetCommitResponse(Response):
    """Whether the offset was remembered."""

    success: bool


@frozen
class OffsetFetchResponse(Response):
    """What the group has committed, if it has."""

    offset: int | None


@frozen
class CreateTopicResponse(Response):
    """The topic as it is now; C{config} is what was set for it."""

    topic: str
    partitions: int
    config: Mapping[str, str] = field(factory=dict)


@frozen
class DeleteTopicResponse(Response):
    """It is gone."""

    topic: str


@frozen
class ListedTopic:
    """One topic."""

    topic: str
    partitions: int
    internal: bool


@frozen
class ListTopicsResponse(Response):
    """All topics, sorted by name."""

    topics: list[ListedTopic]


@frozen
class DescribedPartition:
    """One partition; C{size} is in bytes, C{segments} how many there are."""

    partition: int
    log_start_offset: int
    high_watermark: int
    leader_epoch: int
    size: int
    segments: int


@frozen
class DescribeTopicResponse(Response):
    """A topic: C{config} is what was set for it, C{settings} all that holds for it."""

    topic: str
    id: str
    internal: bool
    partitions: list[DescribedPartition]
    config: Mapping[str, str]
    settings: Mapping[str, str]


@frozen
class AlterTopicResponse(Response):
    """The topic as it is now; C{config} is what was set for it."""

    topic: str
    partitions: int
    config: Mapping[str, str]


@frozen
class ListedGroup:
    """One group."""

    group_id: str


@frozen
class ListGroupsResponse(Response):
    """All groups, sorted by name."""

    groups: list[ListedGroup]


@frozen
class DescribedOffset:
    """How far a group has come in one partition; if that is gone, its bounds and the lag are C{None}."""

    topic: str
    partition: int
    offset: int
    log_start_offset: int | None
    high_watermark: int | None
    lag: int | None
    metadata: str
    commit_time: int


@frozen
class DescribeGroupResponse(Response):
    """How far a group has come, sorted by topic and partition."""

    group_id: str
    offsets: list[DescribedOffset]


@frozen
class DeleteGroupResponse(Response):
    """It is gone, or what was to be forgotten of it."""

    group_id: str


@frozen
class ListOffsetsResponse(Response):
    """What was found; C{None} where there is no such record, or it has no time."""

    offset: int | None
    timestamp: int | None


@frozen
class DeleteRecordsResponse(Response):
    """Where the log begins now."""

    log_start_offset: int


@frozen
class PingResponse(Response):
    """Somebody is there."""


@frozen
class ApiVersionsResponse(Response):
    """What the broker can do."""

    version: str
    requests: list[str]
    encodings: list[str]
    max_frame_bytes: int


@frozen
class DescribePartitionResponse(Response):
    """Where a partition ends.  Only in the binary encoding."""

    topic: str
    partition: int
    high_watermark: int


@frozen
class MetricsFetchResponse(Response):
    """All measurements, as Prometheus reads them.  Only in the binary encoding."""

    text: bytes


def _shortened(message: str) -> str:
    return message if len(message) <= MESSAGE_MAX else f"{message[:MESSAGE_MAX]}…"


@frozen
class ErrorResponse(Response):
    """Why there is no other answer, shortened if it is very long.  C{code} is shown in binary only."""

    message: str = field(converter=_shortened)
    code: int = field(default=500, eq=False)


RESPONSES: dict[str, type[Response]] = {
    each.__name__.removesuffix("Response"): each
    for each in (
        ProduceResponse,
        FetchResponse,
        OffsetCommitResponse,
        OffsetFetchResponse,
        CreateTopicResponse,
        DeleteTopicResponse,
        ListTopicsResponse,
        DescribeTopicResponse,
        AlterTopicResponse,
        ListGroupsResponse,
        DescribeGroupResponse,
        DeleteGroupResponse,
        ListOffsetsResponse,
        DeleteRecordsResponse,
        PingResponse,
        ApiVersionsResponse,
        ErrorResponse,
    )
}
"""Those that JSON knows."""
