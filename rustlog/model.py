"""
The values that layers hand to each other: frozen, plain, without behaviour that
touches a clock, a file or a socket.

L{RecordBatch <rustlog.log.batch.RecordBatch>}, the unit of appending and reading,
has a module of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING
from uuid import UUID

from attrs import define, field, frozen

if TYPE_CHECKING:
    from rustlog.interfaces import ISlice

MAX_OFFSET = 2**63 - 1
"""The largest offset there can be: Kafka's are signed 64-bit integers."""

TOPIC_NAME_LENGTH_MAX = 249
"""Kafka's limit; it leaves room for a suffix in a 255-byte file name."""

CONSUMER_OFFSETS = "__consumer_offsets"
"""The topic in which groups' offsets are kept; reserved for that, whoever keeps them."""

_LEGAL_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@frozen(order=True)
class TopicPartition:
    """Names one partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@define(unsafe_hash=True)
class Record:
    """
    One record.  C{offset} is C{None} until a store has assigned it;
    C{timestamp} is milliseconds since the epoch, C{-1} for none.

    Treat it as frozen like the rest.  It is not declared so because records are made by
    the thousand, and making a frozen one takes three times as long.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = -1
    offset: int | None = None


@frozen
class TopicInfo:
    """
    A topic as the catalogue knows it.  C{config} holds only what was set for this
    topic, as text, under Kafka's names; defaults are added by whoever needs them.
    """

    id: UUID
    name: str
    partitions: int
    config: Mapping[str, str] = field(factory=dict)
    internal: bool = False


@frozen
class Appended:
    """
    Where a batch went.  C{append_time} is -1 unless the topic uses LogAppendTime;
    a C{duplicate} tells the offset that its original got.
    """

    base_offset: int
    log_start_offset: int
    append_time: int = -1
    duplicate: bool = False


@frozen
class FetchWant:
    """What a fetch wants of one partition: from which offset on, and how much at most."""

    topic: str
    partition: int
    offset: int
    max_bytes: int


@frozen
class Fetched:
    """
    What a read found: whole verified batches, as slices that B{must be released}
    exactly once each, and the bounds of the partition at that moment.
    """

    slices: tuple[ISlice, ...]
    size: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] = ()

    def release(self) -> None:
        """Give every slice back."""
        for each in self.slices:
            each.release()


class Isolation(Enum):
    """How far a read may go."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetSpec(Enum):
    """Positions that are found rather than named; a plain int is a timestamp in ms."""

    EARLIEST = "earliest"
    LATEST = "latest"
    MAX_TIMESTAMP = "max-timestamp"


@frozen
class FoundOffset:
    """An answer to an L{OffsetSpec}; C{offset} is -1 when no record matches a timestamp."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


@frozen
class Committed:
    """A group's progress in one partition: the next offset that it will read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_time: int = -1


@frozen
class GroupProgress:
    """
    How far a group has come in one partition.  The bounds, and with them the lag, are C{None} when the
    partition is gone.
    """

    partition: TopicPartition
    committed: Committed
    log_start_offset: int | None = None
    high_watermark: int | None = None

    @property
    def lag(self) -> int | None:
        """How many offsets the group has to go."""
        if self.high_watermark is None:
            return None
        return max(0, self.high_watermark - self.committed.offset)


@frozen
class GroupDescription:
    """A group, and how far it has come in each partition, in their order."""

    group: str
    offsets: tuple[GroupProgress, ...]


@frozen
class SegmentDescription:
    """One file of a partition, for tools."""

    base_offset: int
    size: int


@frozen
class PartitionDescription:
    """Sizes, for tools."""

    size: int
    segments: tuple[SegmentDescription, ...]


@frozen
class ProducerDescription:
    """What a partition remembers of an idempotent producer, for tools; times are those of arrival."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_append_ms: int


@frozen
class StorageDescription:
    """Where a store keeps the log, in words or as a path; C{free_bytes} is -1 where nobody knows."""

    place: str
    free_bytes: int = -1


@frozen
class StoreLimits:
    """What a store's format can hold.  All true unless its author says otherwise."""

    durable: bool = True
    headers: bool = True
    null_keys: bool = True
    null_values: bool = True
    compression: bool = True
    producer_state: bool = True
    timestamp_types: bool = True


@frozen
class SyncPolicy:
    """
    What an acknowledgement means: C{interval_ms} 0 is "on disk", a number is "on disk
    after so many milliseconds", C{None} is "when the kernel likes".
    """

    interval_ms: int | None = 0

    @property
    def always(self) -> bool:
        return self.interval_ms == 0

    @classmethod
    def parse(cls, text: str) -> SyncPolicy:
        """Read C{always}, C{never} or a number of milliseconds; raises C{ValueError}."""
        if text == "always":
            return cls(0)
        if text == "never":
            return cls(None)
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise ValueError(f"{text!r} is neither always, never nor a number of milliseconds")
        return cls(int(text))

    def __str__(self) -> str:
        return {0: "always", None: "never"}.get(self.interval_ms, str(self.interval_ms))


@frozen
class RequestContext:
    """Who asks, and through which door.  Every use case of the broker takes one."""

    protocol: str
    listener: str
    client: str
    client_id: str = ""
    principal: str = "anonymous"


def topic_name_problem(name: str) -> str | None:
    """Say in what way C{name} breaks Kafka's rule for topic names, if it does."""
    if not name:
        return "it is empty"
    if name in (".", ".."):
        return "'.' and '..' are not allowed"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"it is longer than {TOPIC_NAME_LENGTH_MAX} characters"
    if not _LEGAL_TOPIC_NAME.fullmatch(name):
        return "only ASCII letters, digits, '.', '_' and '-' are allowed"
    return None
