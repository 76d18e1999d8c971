"""
Everything that rustlog refuses or fails to do, in domain terms.

The classes say what happened and carry the facts as fields; ``str()`` of one is
a sentence for people.  They are grouped by what the caller may do about it:

- L{RequestRefused}: the request is at fault; change it.
- L{TryAgain}: the same request may succeed later.
- L{StorageFailed}: the store is at fault; an operator has to look.

Wire codes are not here: each protocol maps these classes in a table of its own.
"""

from __future__ import annotations

from attrs import define

from rustlog.model import TopicPartition


class RustlogError(Exception):
    """The root of the tree."""


class RequestRefused(RustlogError):
    """The request can not be served as it is; the same one will fail again."""


class TryAgain(RustlogError):
    """Not now; the same request may succeed later."""


class StorageFailed(RustlogError):
    """The store can not do what was asked, and retrying will not help."""


class StartupError(RustlogError):
    """Something cannot be opened; the message is the one line the operator sees."""


# -- requests at fault ---------------------------------------------------------


@define(eq=False)
class PartitionNotFound(RequestRefused):
    """The topic, or that partition of it, does not exist."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"partition not found: topic={self.topic}, partition={self.partition}"


@define(eq=False)
class TopicNotFound(RequestRefused):
    """There is no such topic (or it was deleted meanwhile)."""

    topic: str

    def __str__(self) -> str:
        return f"topic not found: {self.topic}"


@define(eq=False)
class TopicExists(RequestRefused):
    """A topic of that name exists already."""

    topic: str

    def __str__(self) -> str:
        return f"topic exists already: {self.topic}"


@define(eq=False)
class TopicIsInternal(RequestRefused):
    """The broker keeps something of its own in it."""

    topic: str

    def __str__(self) -> str:
        return f"topic is internal: {self.topic}"


@define(eq=False)
class InvalidTopicName(RequestRefused):
    """The name breaks Kafka's rule for topic names."""

    topic: str
    reason: str

    def __str__(self) -> str:
        return f"invalid topic name {self.topic[:300]!r}: {self.reason}"


@define(eq=False)
class InvalidPartitionCount(RequestRefused):
    """A topic can not have that many partitions."""

    reason: str

    def __str__(self) -> str:
        return f"invalid partition count: {self.reason}"


@define(eq=False)
class InvalidSetting(RequestRefused):
    """A setting is unknown, or its value is not acceptable."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"invalid setting {self.name}: {self.reason}"


@define(eq=False)
class InvalidGroup(RequestRefused):
    """The group id can not be used."""

    reason: str

    def __str__(self) -> str:
        return f"invalid group id: {self.reason}"


@define(eq=False)
class GroupNotFound(RequestRefused):
    """The group has committed nothing, or was deleted."""

    group: str

    def __str__(self) -> str:
        return f"group not found: {self.group[:300]}"


@define(eq=False)
class OffsetOutOfRange(RequestRefused):
    """The offset lies outside what the partition holds."""

    requested: int
    log_start_offset: int
    high_watermark: int

    def __str__(self) -> str:
        return (
            f"offset out of range: {self.requested} is not within "
            f"{self.log_start_offset}..{self.high_watermark}"
        )


@define(eq=False)
class RecordTooLarge(RequestRefused):
    """A batch is larger than C{max.message.bytes} allows."""

    size: int
    limit: int

    def __str__(self) -> str:
        return f"record batch of {self.size} bytes exceeds max.message.bytes={self.limit}"


@define(eq=False)
class InvalidRecord(RequestRefused):
    """The batch is well framed, but its content breaks a rule."""

    reason: str

    def __str__(self) -> str:
        return f"invalid record: {self.reason}"


@define(eq=False)
class CorruptBatch(RequestRefused):
    """The bytes are not the batch they claim to be."""

    reason: str

    def __str__(self) -> str:
        return f"corrupt record batch: {self.reason}"


@define(eq=False)
class OutOfOrderSequence(RequestRefused):
    """An idempotent producer skipped or repeated sequence numbers."""

    producer_id: int
    expected: int
    received: int

    def __str__(self) -> str:
        return (
            f"out of order sequence: producer {self.producer_id} sent {self.received}, "
            f"expected {self.expected}"
        )


@define(eq=False)
class StaleProducerEpoch(RequestRefused):
    """A newer incarnation of the producer has written already."""

    producer_id: int
    epoch: int
    current_epoch: int

    def __str__(self) -> str:
        return (
            f"stale producer epoch: producer {self.producer_id} sent epoch {self.epoch}, "
            f"current is {self.current_epoch}"
        )


@define(eq=False)
class StaleGeneration(RequestRefused):
    """A commit came from a member of an earlier generation of the group."""

    group: str
    generation: int

    def __str__(self) -> str:
        return f"stale generation {self.generation} of group {self.group}"


@define(eq=False)
class UnknownMember(RequestRefused):
    """The group has no such member, or not any more."""

    group: str
    member_id: str

    def __str__(self) -> str:
        return f"unknown member {self.member_id!r} of group {self.group}"


@define(eq=False)
class MemberIdRequired(RequestRefused):
    """A client that joins for the first time shall join again with this id."""

    group: str
    member_id: str

    def __str__(self) -> str:
        return f"join group {self.group} again, with the member id {self.member_id!r}"


@define(eq=False)
class FencedInstance(RequestRefused):
    """Another client has taken the place of this static member."""

    group: str
    instance_id: str

    def __str__(self) -> str:
        return f"another member of group {self.group} has the group.instance.id {self.instance_id!r} now"


@define(eq=False)
class InconsistentProtocol(RequestRefused):
    """The members of the group and the one who joins have no protocol in common."""

    group: str

    def __str__(self) -> str:
        return f"the members of group {self.group} have another protocol, or none in common"


@define(eq=False)
class InvalidSessionTimeout(RequestRefused):
    """A session timeout is outside of what the settings allow."""

    session_timeout_ms: int
    minimum_ms: int
    maximum_ms: int

    def __str__(self) -> str:
        return (
            f"invalid session timeout: {self.session_timeout_ms} ms are not within "
            f"{self.minimum_ms}..{self.maximum_ms}"
        )


@define(eq=False)
class GroupFull(RequestRefused):
    """A limit of the group, or of all groups together, is reached."""

    group: str
    reason: str

    def __str__(self) -> str:
        return f"group {self.group} is full: {self.reason}"


@define(eq=False)
class GroupNotEmpty(RequestRefused):
    """It can not be done while the group has members."""

    group: str

    def __str__(self) -> str:
        return f"group {self.group} has members"


@define(eq=False)
class GroupReadsTopic(RequestRefused):
    """Members of the group read that topic: what they have committed there can not be deleted."""

    group: str
    topic: str

    def __str__(self) -> str:
        return f"members of group {self.group} read {self.topic}"


@define(eq=False)
class CommitMetadataTooLarge(RequestRefused):
    """What was to be kept with an offset is longer than C{offset.metadata.max.bytes} allows."""

    size: int
    limit: int

    def __str__(self) -> str:
        return f"metadata of {self.size} bytes exceeds offset.metadata.max.bytes={self.limit}"


@define(eq=False)
class VersionConflict(RequestRefused):
    """Someone else saved the group's document first."""

    group: str
    expected: int
    current: int

    def __str__(self) -> str:
        return f"group {self.group} is at version {self.current}, not {self.expected}"


@define(eq=False)
class NotHeldByStore(RequestRefused):
    """The chosen store's format can not hold what was sent."""

    what: str

    def __str__(self) -> str:
        return f"this store cannot hold {self.what}"


# -- later perhaps -------------------------------------------------------------


class StorageFull(TryAgain):
    """No space is left; nothing of the request was kept."""

    def __str__(self) -> str:
        return "no space left on the storage device"


@define(eq=False)
class RebalanceInProgress(TryAgain):
    """The members of the group have to join again first."""

    group: str

    def __str__(self) -> str:
        return f"group {self.group} is rebalancing"


@define(eq=False)
class NotCoordinator(TryAgain):
    """Another broker looks after this group; or this one does not any more."""

    group: str

    def __str__(self) -> str:
        return f"group {self.group} is not looked after here"


@define(eq=False)
class CoordinatorNotAvailable(TryAgain):
    """The group can not be looked after at the moment."""

    group: str
    reason: str

    def __str__(self) -> str:
        return f"group {self.group} is not available: {self.reason}"


# -- the store at fault --------------------------------------------------------


@define(eq=False)
class PartitionFenced(StorageFailed):
    """
    A write or sync failed in a way that leaves the tail uncertain.  Nothing more
    is accepted until the store is reopened; what was acknowledged stays readable.
    """

    partition: TopicPartition
    reason: str

    def __str__(self) -> str:
        return f"partition {self.partition} is fenced: {self.reason}"


@define(eq=False)
class DamagedLog(StorageFailed):
    """Stored bytes fail their checksum; they are never served."""

    partition: TopicPartition
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"damaged log: {self.partition} at offset {self.offset}: {self.reason}"


class Closed(StorageFailed):
    """The store has been closed."""

    def __str__(self) -> str:
        return "the store is closed"
