"""
Why a member left, why a rebalance began: values with words.

Nothing puzzles users of consumer groups more than a rebalance that nobody asked for.  So each is
logged, in one line, with its reason, and counted by it.
"""

from __future__ import annotations

from enum import Enum
from typing import Union

from attrs import frozen

WORDS_MAX = 300
"""How much is shown of what a client made up."""


class RebalanceReason(Enum):
    """Why members have to join again."""

    MEMBER_JOINED = "a member joined"
    MEMBER_LEFT = "a member left"
    MEMBER_CHANGED = "a member changed its subscription"
    LEADER_REJOINED = "the leader joined again"
    STATIC_MEMBER_RETURNED = "a static member came back during a rebalance"
    PROTOCOL_CHANGED = "a static member came back and another protocol is preferred now"
    SYNC_MISSING = "members did not ask for their assignment in time"
    SAVE_FAILED = "the assignment could not be saved"
    TOO_MANY_MEMBERS = "it was loaded with more members than group.max.size allows"


class DepartureReason(Enum):
    """Why somebody is not a member any more."""

    LEFT = "it said so"
    REMOVED = "it was removed by its group.instance.id"
    REPLACED = "another client with its group.instance.id took its place"
    SESSION_EXPIRED = "nothing was heard of it within its session timeout"
    NEVER_JOINED = "it did not join with the id that it was given within its session timeout"
    NOT_REJOINED = "it did not join again within the rebalance timeout"
    NOT_SYNCED = "it did not ask for its assignment within the rebalance timeout"
    JOIN_TOOK_TOO_LONG = "its first rebalance took too long"
    CONNECTION_LOST = "its connection was lost while it was joining for the first time"
    GROUP_FULL = "the group has reached its limits"


@frozen(kw_only=True)
class RebalanceBegan:
    """
    @ivar generation: the one that ends.
    @ivar member_id: who caused it, if it was one.
    @ivar words: what the client said about it.
    """

    group: str
    generation: int
    reason: RebalanceReason
    member_id: str = ""
    words: str = ""

    kind = "rebalance"

    def __str__(self) -> str:
        return (
            f"group {short(self.group)}: generation {self.generation} ends with a rebalance: "
            f"{self.reason.value}{_said_by(self.member_id, self.words)}"
        )


@frozen(kw_only=True)
class MemberDeparted:
    """@ivar words: what the client said about it."""

    group: str
    member_id: str
    reason: DepartureReason
    client_id: str = ""
    client_host: str = ""
    detail: str = ""
    words: str = ""

    kind = "departure"

    def __str__(self) -> str:
        host = f" at {self.client_host}" if self.client_host else ""
        detail = f" ({self.detail})" if self.detail else ""
        words = f"; it says: {short(self.words)}" if self.words else ""
        return (
            f"group {short(self.group)}: member {short(self.member_id)}{host} is gone: "
            f"{self.reason.value}{detail}{words}"
        )


@frozen(kw_only=True)
class GenerationBegan:
    """All members know what they own; or there is none."""

    group: str
    generation: int
    members: int
    protocol_name: str = ""
    leader_id: str = ""

    kind = "generation"

    def __str__(self) -> str:
        if not self.members:
            return f"group {short(self.group)}: nobody is left in generation {self.generation}"
        members = "1 member" if self.members == 1 else f"{self.members} members"
        return (
            f"group {short(self.group)}: generation {self.generation} is stable with {members}, "
            f"assigned by {short(self.leader_id)} ({short(self.protocol_name)})"
        )


Event = Union[RebalanceBegan, MemberDeparted, GenerationBegan]


def short(text: str) -> str:
    """What a client made up, as far as it is worth showing."""
    return repr(text[:WORDS_MAX])


def reason_name(event: Event) -> str:
    """For counters; empty if there is nothing to tell apart."""
    return "" if isinstance(event, GenerationBegan) else event.reason.name.lower()


def _said_by(member_id: str, words: str) -> str:
    if not member_id:
        return ""
    said = f", it says: {short(words)}" if words else ""
    return f" ({short(member_id)}{said})"
