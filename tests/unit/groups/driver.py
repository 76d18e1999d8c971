"""Drives the state machine of a group with few words, and keeps what comes out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rustlog.errors import RustlogError
from rustlog.groups.reasons import Event
from rustlog.groups.state import Group
from rustlog.groups.values import (
    Answer,
    Committer,
    GroupLimits,
    Join,
    Joined,
    Leaving,
    Remembered,
    Save,
    Sync,
    Synced,
)

RANGE = (("range", b"topics"),)
SESSION_MS = 10_000
REBALANCE_MS = 60_000
LIMITS = GroupLimits(initial_delay_ms=3_000)


def a_join(member_id: str = "", new: str = "", **more: Any) -> Join:
    """A wish to join, as a modern consumer would send it; C{new} is the id that it may get."""
    given: dict[str, Any] = {
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": RANGE,
        **more,
    }
    return Join(member_id=member_id, new_member_id=new, **given)


class Driver:
    """
    A group, and all that came out of it.

    @ivar now: the time, to be set.
    @ivar answers: by ticket.
    @ivar saves: what was not yet said to be durable.
    """

    def __init__(self, limits: GroupLimits = LIMITS, group: Group | None = None) -> None:
        self.group = group or Group("orders", limits)
        self.now = 0.0
        self.answers: dict[int, Any] = {}
        self.saves: list[Save] = []
        self.events: list[Event] = []
        self.tickets = 0

    # -- requests --

    def join(self, member_id: str = "", new: str = "", **more: Any) -> int:
        """Join; the ticket, or the refusal under it."""
        return self._ask(lambda ticket: self.group.join(self.now, ticket, a_join(member_id, new, **more)))

    def sync(self, member_id: str, generation: int, **more: Any) -> int:
        """Sync; the same."""
        sync = Sync(member_id=member_id, generation=generation, **more)
        return self._ask(lambda ticket: self.group.sync(self.now, ticket, sync))

    def heartbeat(
        self, member_id: str, generation: int, instance_id: str | None = None
    ) -> RustlogError | None:
        """A heartbeat; why it is refused."""
        return self._try(lambda: self.group.heartbeat(self.now, member_id, instance_id, generation))

    def commit(
        self, member_id: str = "", generation: int = -1, instance_id: str | None = None
    ) -> RustlogError | None:
        """A commit; why it is refused."""
        committer = Committer(member_id=member_id, instance_id=instance_id, generation=generation)
        return self._try(lambda: self.group.check_commit(self.now, committer))

    def leave(self, member_id: str = "", instance_id: str | None = None) -> RustlogError | None:
        """A member leaves; why that is refused."""
        leaving = Leaving(member_id=member_id, instance_id=instance_id)
        return self._try(lambda: self.group.leave(self.now, leaving))

    def hang_up(self, ticket: int) -> None:
        """The connection of a waiting client is lost."""
        self.group.hang_up(self.now, ticket)
        self._take()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and what becomes due happen when it does."""
        end = self.now + seconds
        while self.group.wake_at <= end:
            self.now = max(self.now, self.group.wake_at)
            self.group.expire(self.now)
            self._take()
        self.now = end

    def save(self, error: RustlogError | None = None) -> Remembered:
        """The oldest document is durable; or is not."""
        save = self.saves.pop(0)
        self.group.saved(self.now, save.number, error)
        self._take()
        return save.remembered

    # -- whole scenes --

    def settle(self, *member_ids: str, assignments: dict[str, bytes] | None = None, **more: Any) -> int:
        """New members make a stable group of these; the generation."""
        tickets = {each: self.join("", each, **more) for each in member_ids}
        # Once for the first, and once more because others came.
        self.pass_time(2 * self.group.limits.initial_delay_ms / 1000)
        return self.finish(tickets, assignments)

    def finish(self, tickets: dict[str, int], assignments: dict[str, bytes] | None = None) -> int:
        """All have joined: have them sync, each to its own name unless told otherwise."""
        generation = 0
        for member_id, ticket in tickets.items():
            joined = self.answers[ticket]
            assert isinstance(joined, Joined), joined
            generation = joined.generation
            shares = assignments or {each.member_id: each.member_id.encode() for each in joined.members}
            self.sync(member_id, generation, assignments=tuple(shares.items()))
        self.save()
        return generation

    def synced(self, ticket: int) -> bytes:
        """What a member was told that it owns."""
        answer = self.answers[ticket]
        assert isinstance(answer, Synced), answer
        return answer.assignment

    # -- the inside --

    def _ask(self, begin: Callable[[int], None]) -> int:
        self.tickets += 1
        ticket = self.tickets
        error = self._try(lambda: begin(ticket))
        if error is not None:
            self.answers[ticket] = error
        return ticket

    def _try(self, action: Callable[[], None]) -> RustlogError | None:
        try:
            action()
        except RustlogError as error:
            return error
        finally:
            self._take()
        return None

    def _take(self) -> None:
        for each in self.group.take_effects():
            if isinstance(each, Answer):
                assert each.ticket not in self.answers, "it was answered already"
                self.answers[each.ticket] = each.outcome
            elif isinstance(each, Save):
                self.saves.append(each)
            else:
                self.events.append(each.event)
