"""
The messages of the RustLog protocol, as values.

On the wire each is a JSON object with one key, the name of the variant::

    {"Produce": {"topic": "orders", "partition": 0, "records": [[98, 121], [116]]}}

Payloads are arrays of numbers there, and C{bytes} here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NewType, Union

from attrs import field, frozen

U32 = NewType("U32", int)
U64 = NewType("U64", int)
Payloads = NewType("Payloads", list[bytes])
Settings = NewType("Settings", dict[str, object])

FRAME_BYTES_MAX = 10_485_760

# -- requests ----------------------------------------------------------------------


@frozen
class ProduceRequest:
    """Append records to a partition."""

    topic: str
    partition: U32
    records: Payloads


@frozen
class FetchRequest:
    """
    Read records.  With a group, from where that has got to, if this is further on.

    C{max_bytes} is of payloads, and soft for the first record.
    """

    topic: str
    partition: U32
    offset: U64
    max_bytes: U64
    group_id: str | None = None


@frozen
class OffsetCommitRequest:
    """Remember how far a group has come."""

    topic: str
    partition: U32
    group_id: str
    offset: U64


@frozen
class OffsetFetchRequest:
    """Ask how far a group has come."""

    topic: str
    partition: U32
    group_id: str


@frozen
class CreateTopicRequest:
    """Make a topic; what is not said is the broker's default."""

    topic: str
    partitions: U32 | None = None
    config: Settings | None = None


Request = Union[ProduceRequest, FetchRequest, OffsetCommitRequest, OffsetFetchRequest, CreateTopicRequest]

REQUESTS: dict[str, type[Request]] = {
    "Produce": ProduceRequest,
    "Fetch": FetchRequest,
    "OffsetCommit": OffsetCommitRequest,
    "OffsetFetch": OffsetFetchRequest,
    "CreateTopic": CreateTopicRequest,
}

# -- responses ---------------------------------------------------------------------


@frozen
class ProduceResponse:
    """The offsets of the records, in their order."""

    offsets: Sequence[int]


@frozen
class FetchedRecord:
    """One record."""

    offset: int
    payload: bytes


@frozen
class FetchResponse:
    """Records, and the offset to fetch from next."""

    records: list[FetchedRecord]
    next_offset: int


@frozen
class OffsetCommitResponse:
    """Whether the offset was remembered."""

    success: bool


@frozen
class OffsetFetchResponse:
    """What the group has committed, if it has."""

    offset: int | None


@frozen
class CreateTopicResponse:
    """The topic as it is now; C{config} is what was set for it."""

    topic: str
    partitions: int
    config: Mapping[str, str] = field(factory=dict)


@frozen
class ErrorResponse:
    """Why there is no other answer."""

    message: str


Response = Union[
    ProduceResponse,
    FetchResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    CreateTopicResponse,
    ErrorResponse,
]

RESPONSES: dict[type[Response], str] = {
    ProduceResponse: "Produce",
    FetchResponse: "Fetch",
    OffsetCommitResponse: "OffsetCommit",
    OffsetFetchResponse: "OffsetFetch",
    CreateTopicResponse: "CreateTopic",
    ErrorResponse: "Error",
}
