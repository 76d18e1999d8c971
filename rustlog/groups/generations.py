"""
L{Generations}: how a group gets from one generation to the next.

This is the lower half of the state machine of a group (L{rustlog.groups.state} is the upper one, the
requests).  A rebalance begins; members join again, until all have, or time is up; there is a new
generation; its leader assigns; that is saved; members are told, and the group is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from rustlog.errors import CoordinatorNotAvailable, RebalanceInProgress, RustlogError, UnknownMember
from rustlog.groups.members import Member, Members
from rustlog.groups.reasons import (
    DepartureReason,
    Event,
    GenerationBegan,
    MemberDeparted,
    RebalanceBegan,
    RebalanceReason,
)
from rustlog.groups.transitions import TRANSITIONS, Cause, GroupState
from rustlog.groups.values import (
    PENDING_MEMBER_BYTES,
    Answer,
    Effect,
    GroupLimits,
    Joined,
    Remembered,
    Save,
    Synced,
    Tell,
)

SaveListener = Callable[[float, RustlogError | None], None]


class Generations:
    """
    @ivar generation: of the members that there are; 0 before the first.
    @ivar protocol_type: what kind of members these are (C{consumer}); empty if there never was one.
    @ivar protocol_name: the protocol in which this generation was assigned.
    @ivar pending: ids that were given out, and with which nobody has joined so far; and until when.
    @ivar wake_at: when something becomes due, or earlier.
    """

    def __init__(self, name: str, limits: GroupLimits) -> None:
        self.name = name
        self.limits = limits
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol_name = ""
        self.members = Members()
        self.pending: dict[str, float] = {}
        self.wake_at = inf
        self._waiting: dict[int, Member] = {}  # by ticket
        self._unsynced: set[str] = set()
        self._join_deadline = inf
        self._sync_deadline = inf
        self._delay_left_ms: int | None = None  # None: this is not the first rebalance after a rest.
        self._has_grown = False
        self._is_assigning = False
        self._is_saved = False
        self._saves: dict[int, SaveListener] = {}
        self._last_save = 0
        self._effects: list[Effect] = []

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, roughly."""
        return self.members.size_bytes + PENDING_MEMBER_BYTES * len(self.pending)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost when it is forgotten: what matters is saved."""
        resting = self.state in (GroupState.EMPTY, GroupState.DEAD)
        return resting and not (self.pending or self._saves or self._effects)

    def take_effects(self) -> list[Effect]:
        """What is to be done, in this order."""
        effects, self._effects = self._effects, []
        return effects

    # -- saving --

    def saved(self, now: float, number: int, error: RustlogError | None) -> None:
        """A document is durable now; or is not."""
        self._saves.pop(number)(now, error)

    def _save(self, remembered: Remembered, listener: SaveListener) -> None:
        self._is_saved = True
        self._last_save += 1
        self._saves[self._last_save] = listener
        self._effects.append(Save(self._last_save, remembered))

    def _remember(self, assignments: Mapping[str, bytes]) -> Remembered:
        return Remembered(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.members.leader_id,
            members=tuple(each.remember(assignments[each.member_id]) for each in self.members),
        )

    # -- a rebalance begins --

    def _begin_rebalance(
        self, now: float, reason: RebalanceReason, member_id: str = "", words: str = ""
    ) -> None:
        """Have everybody join again, if that is not under way already."""
        if self.state is GroupState.PREPARING_REBALANCE:
            return
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._answer_syncs(now, RebalanceInProgress(self.name))
        self._sync_deadline = inf
        timeout_ms = self.members.rebalance_timeout_ms
        self._delay_left_ms = None
        if self.state is GroupState.EMPTY:
            # Members tend to start together: one rebalance for all of them, not one for each.
            delay_ms = self.limits.initial_delay_ms
            self._delay_left_ms, timeout_ms = max(timeout_ms - delay_ms, 0), delay_ms
        self._set_join_deadline(now + timeout_ms / 1000)
        self._move(Cause.REBALANCE)
        self._tell(
            RebalanceBegan(
                group=self.name, generation=self.generation, reason=reason, member_id=member_id, words=words
            )
        )

    def _set_join_deadline(self, deadline: float) -> None:
        self._join_deadline = deadline
        self._wake(deadline)

    # -- members join --

    def _wait_for_generation(self, member: Member, ticket: int) -> None:
        """The member has joined."""
        self._dismiss(member, RebalanceInProgress(self.name))
        self.members.set_join_ticket(member, ticket)
        self._waiting[ticket] = member
        if not member.is_new:
            member.deadline = inf

    def _complete_join_if_possible(self, now: float) -> None:
        """Do not wait any longer, if all are here that are expected."""
        is_delayed = self._delay_left_ms is not None
        if self.state is not GroupState.PREPARING_REBALANCE or is_delayed or self.pending:
            return
        if self.members.have_all_joined:
            self._complete_join(now)

    def _join_time_is_up(self, now: float) -> None:
        if self._delay_left_ms and self._has_grown:
            self._has_grown = False
            delay_ms = min(self.limits.initial_delay_ms, self._delay_left_ms)
            self._delay_left_ms -= delay_ms
            self._set_join_deadline(now + delay_ms / 1000)
        else:
            self._complete_join(now)

    def _complete_join(self, now: float) -> None:
        for each in self.members:
            # Static members may stay away for as long as their session lasts.
            if each.join_ticket is None and each.instance_id is None:
                self._forget(each, DepartureReason.NOT_REJOINED, f"{each.rebalance_timeout_ms} ms")
        if len(self.members) and not self.members.elect_leader():
            # Only static members are left, and none is here: their sessions decide.
            self._delay_left_ms = None
            self._set_join_deadline(now + self.members.rebalance_timeout_ms / 1000)
            return
        self._join_deadline = inf
        self._delay_left_ms, self._has_grown, self._is_assigning = None, False, False
        self.generation += 1
        self._unsynced = {each.member_id for each in self.members}
        if len(self.members):
            self._begin_generation(now)
        else:
            self._become_empty()

    def _begin_generation(self, now: float) -> None:
        self.protocol_name = self.members.choose_protocol()
        self._move(Cause.ALL_JOINED)
        for each in self.members:
            each.is_new = False
            each.heard_of(now)
            self._wake(each.deadline)
            self._answer_join(each, self._place_of(each))
        self._sync_deadline = now + self.members.rebalance_timeout_ms / 1000
        self._wake(self._sync_deadline)

    def _become_empty(self) -> None:
        self.protocol_name = ""
        self._move(Cause.NOBODY_LEFT)
        self._tell(GenerationBegan(group=self.name, generation=self.generation, members=0))
        if self._is_saved:
            # If that fails, members who are gone are remembered, and expire again after a restart.
            self._save(self._remember({}), lambda now, error: None)

    def _place_of(self, member: Member, skip_assignment: bool = False) -> Joined:
        """What a member is told that has joined this generation."""
        leads = self.members.leader_id == member.member_id
        return Joined(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.members.leader_id,
            members=self.members.introduce(self.protocol_name) if leads else (),
            skip_assignment=skip_assignment,
        )

    # -- the leader assigns --

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        """Save what the leader says; members that it forgot own nothing."""
        self._is_assigning = True
        generation = self.generation
        chosen = {each.member_id: assignments.get(each.member_id, b"") for each in self.members}

        def saved(now: float, error: RustlogError | None) -> None:
            # If somebody has joined meanwhile, that was in vain.
            if self.state is GroupState.COMPLETING_REBALANCE and self.generation == generation:
                self._assigned(now, chosen, error)

        self._save(self._remember(chosen), saved)

    def _assigned(self, now: float, chosen: Mapping[str, bytes], error: RustlogError | None) -> None:
        if error is not None:
            self._answer_syncs(now, CoordinatorNotAvailable(self.name, str(error)))
            self._begin_rebalance(now, RebalanceReason.SAVE_FAILED, words=str(error))
            return
        for each in self.members:
            self.members.assign(each, chosen[each.member_id])
        self._move(Cause.ASSIGNED)
        self._tell(
            GenerationBegan(
                group=self.name,
                generation=self.generation,
                members=len(self.members),
                protocol_name=self.protocol_name,
                leader_id=self.members.leader_id,
            )
        )
        self._answer_syncs(now, None)

    def _answer_syncs(self, now: float, error: RustlogError | None) -> None:
        """Tell all who wait for it what they own, or that this generation comes to nothing."""
        for each in self.members:
            if error is not None:
                self.members.assign(each, b"")
            if each.sync_ticket is not None:
                self._answer_sync(each, error or self._share_of(each))
                each.heard_of(now)
                self._wake(each.deadline)

    def _share_of(self, member: Member) -> Synced:
        return Synced(self.protocol_type, self.protocol_name, member.assignment)

    def _has_synced(self, member: Member) -> None:
        self._unsynced.discard(member.member_id)
        if not self._unsynced:
            self._sync_deadline = inf

    def _sync_time_is_up(self, now: float) -> None:
        for member_id in sorted(self._unsynced):
            member = self.members.get(member_id)
            if member is not None:
                self._forget(member, DepartureReason.NOT_SYNCED, f"{member.rebalance_timeout_ms} ms")
        self._unsynced = set()
        self._begin_rebalance(now, RebalanceReason.SYNC_MISSING)

    # -- members go --

    def _remove(
        self, now: float, member: Member, reason: DepartureReason, detail: str = "", words: str = ""
    ) -> None:
        """A member is gone, and the others have to share what it owned."""
        self._forget(member, reason, detail, words)
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._begin_rebalance(now, RebalanceReason.MEMBER_LEFT, member.member_id)
        self._complete_join_if_possible(now)

    def _forget(
        self, member: Member, reason: DepartureReason, detail: str = "", words: str = ""
    ) -> None:
        self._dismiss(member, UnknownMember(self.name, member.member_id))
        self.members.remove(member)
        self._unsynced.discard(member.member_id)
        self._tell_departure(member, reason, detail, words)

    # -- answers --

    def _dismiss(self, member: Member, error: RustlogError) -> None:
        """Whatever it waits for, it will not come."""
        self._answer_join(member, error)
        self._answer_sync(member, error)

    def _answer_join(self, member: Member, outcome: Joined | RustlogError) -> None:
        ticket = member.join_ticket
        if ticket is not None:
            self.members.set_join_ticket(member, None)
            self._answer(ticket, outcome)

    def _answer_sync(self, member: Member, outcome: Synced | RustlogError) -> None:
        ticket, member.sync_ticket = member.sync_ticket, None
        if ticket is not None:
            self._answer(ticket, outcome)

    def _answer(self, ticket: int, outcome: Joined | Synced | RustlogError) -> None:
        self._waiting.pop(ticket, None)
        self._effects.append(Answer(ticket, outcome))

    # -- the rest --

    def _move(self, cause: Cause) -> None:
        self.state = TRANSITIONS[self.state, cause]

    def _wake(self, deadline: float) -> None:
        self.wake_at = min(self.wake_at, deadline)

    def _tell(self, event: Event) -> None:
        self._effects.append(Tell(event))

    def _tell_departure(
        self, member: Member, reason: DepartureReason, detail: str = "", words: str = ""
    ) -> None:
        self._tell(
            MemberDeparted(
                group=self.name,
                member_id=member.member_id,
                reason=reason,
                client_id=member.client_id,
                client_host=member.client_host,
                detail=detail,
                words=words,
            )
        )
