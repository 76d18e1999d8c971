"""
What goes into the state machine of a group, and what comes out: frozen values.
"""

from __future__ import annotations

from typing import Union

from attrs import field, frozen

from rustlog.errors import InvalidSessionTimeout, RustlogError
from rustlog.groups.reasons import Event
from rustlog.groups.transitions import GroupState
from rustlog.settings import BrokerConfig

NOBODY = ""
"""The id of a member that has none yet."""

NO_GENERATION = -1
"""The generation of who is no member."""

NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000
"""
How long a member may wait for its first generation: it sends no heartbeats, and would otherwise
be remembered for ever.
"""

GROUP_BYTES_MAX = 8 * 1024 * 1024
"""What members say, and are assigned, in one group; all of it is saved as one document."""

GROUP_BYTES = 4096
"""What a group takes in memory, without its members."""

MEMBER_BYTES = 1024
"""What a member takes beside that."""

PENDING_MEMBER_BYTES = 256
"""What an id takes that was given out, and with which nobody has joined so far."""

Protocols = tuple[tuple[str, bytes], ...]
"""Names of assignment protocols, best first, each with what the member says to the leader in it."""


@frozen
class GroupLimits:
    """What the settings allow a group."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    members_max: int = 10_000
    initial_delay_ms: int = 3_000
    bytes_max: int = GROUP_BYTES_MAX

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupLimits:
        """Those of a broker."""
        return cls(
            config.group_min_session_timeout_ms,
            config.group_max_session_timeout_ms,
            config.group_max_size,
            config.group_initial_rebalance_delay_ms,
        )

    def check_session_timeout(self, milliseconds: int) -> None:
        """Raise C{InvalidSessionTimeout} if it is not allowed."""
        if not self.session_timeout_ms_min <= milliseconds <= self.session_timeout_ms_max:
            raise InvalidSessionTimeout(
                milliseconds, self.session_timeout_ms_min, self.session_timeout_ms_max
            )


# -- requests --------------------------------------------------------------------------


@frozen(kw_only=True)
class Join:
    """
    A wish to be, or to stay, a member.

    @ivar member_id: L{NOBODY} at first.
    @ivar instance_id: the C{group.instance.id} of a static member.
    @ivar requires_known_id: whether the client expects to be given an id first, with which it
        joins then; so that one that gives up in between leaves nothing behind.
    @ivar may_skip_assignment: whether it understands that, leader or not, it shall not assign.
    @ivar new_member_id: the id that it gets if it has none.
    @ivar reason: why it joins, in its own words.
    """

    member_id: str = NOBODY
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_known_id: bool = False
    may_skip_assignment: bool = False
    new_member_id: str = NOBODY
    reason: str = ""

    @property
    def size_bytes(self) -> int:
        """What it takes to remember it."""
        return MEMBER_BYTES + protocols_bytes(self.protocols)


@frozen(kw_only=True)
class Sync:
    """
    A member's question what it owns; from the leader, also the answer to that for everybody.

    @ivar protocol_type: checked, as is C{protocol_name}, if it is not C{None}.
    """

    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()

    @property
    def size_bytes(self) -> int:
        """What the assignments take."""
        return sum(len(assignment) for _, assignment in self.assignments)


@frozen(kw_only=True)
class Leaving:
    """A member that is to go; if it has no id, that of a static one is known by its instance id."""

    member_id: str
    instance_id: str | None = None
    reason: str = ""


@frozen(kw_only=True)
class Committer:
    """Who commits: a member of a generation; or somebody who shares with nobody, and is none."""

    member_id: str = NOBODY
    instance_id: str | None = None
    generation: int = NO_GENERATION

    @property
    def is_member(self) -> bool:
        """Whether it says that it is one."""
        return self.generation >= 0 or self.member_id != NOBODY or self.instance_id is not None


# -- answers ---------------------------------------------------------------------------


@frozen
class JoinedMember:
    """What the leader is told of each member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@frozen(kw_only=True)
class Joined:
    """
    A member's place in a generation.

    @ivar members: all of them, for the leader; empty for the others.
    @ivar skip_assignment: the leader need not assign: everybody has something.
    """

    member_id: str
    generation: int
    protocol_type: str
    protocol_name: str
    leader_id: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@frozen
class Synced:
    """What a member owns."""

    protocol_type: str
    protocol_name: str
    assignment: bytes


@frozen
class MemberDescription:
    """A member, for people and tools; the last two are empty unless the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@frozen
class GroupMembership:
    """A group, for people and tools; C{protocol_name} is empty unless it is stable."""

    name: str
    state: GroupState
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[MemberDescription, ...] = ()


# -- what is saved ---------------------------------------------------------------------


@frozen(kw_only=True)
class RememberedMember:
    """A member, as far as it survives a restart."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes


@frozen(kw_only=True)
class Remembered:
    """A group as it survives a restart: stable if it has members, otherwise empty."""

    generation: int
    protocol_type: str = ""
    protocol_name: str = ""
    leader_id: str = ""
    members: tuple[RememberedMember, ...] = field(default=())


# -- effects ---------------------------------------------------------------------------


@frozen
class Answer:
    """The request of that ticket is answered, or refused."""

    ticket: int
    outcome: Union[Joined, Synced, RustlogError]


@frozen
class Save:
    """To be made durable; the state machine is to be told of the outcome, by number."""

    number: int
    remembered: Remembered


@frozen
class Tell:
    """To be logged and counted."""

    event: Event


Effect = Union[Answer, Save, Tell]


def protocols_bytes(protocols: Protocols) -> int:
    """What they take."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)
