"""
L{Group}: the state machine of one group, with Kafka's rules for the classic protocol.

It knows no reactor, no store and no clock: the time, in seconds, is an argument of each call.  A request
that is refused raises an error.  One that has to wait has a ticket, under which its answer comes out later.
What is to be done for the group comes out of C{take_effects} after each call: answers, documents to be saved,
events to be told.  And L{Group.expire} wants to be called at C{wake_at}.

The states, and what leads from one to another, are a table: L{rustlog.groups.transitions}.
How one generation follows another is in L{rustlog.groups.generations}; here are the requests.
"""

from __future__ import annotations

from math import inf

from attrs import evolve

from rustlog.errors import (
    CoordinatorNotAvailable,
    FencedInstance,
    GroupFull,
    GroupNotEmpty,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    RustlogError,
    StaleGeneration,
    UnknownMember,
)
from rustlog.groups.generations import Generations
from rustlog.groups.members import Member
from rustlog.groups.reasons import DepartureReason, MemberDeparted, RebalanceReason, short
from rustlog.groups.subscriptions import CONSUMER, topics_of
from rustlog.groups.transitions import Cause, GroupState
from rustlog.groups.values import (
    NEW_MEMBER_TIMEOUT_MS,
    NOBODY,
    Committer,
    GroupLimits,
    GroupMembership,
    Join,
    Leaving,
    Remembered,
    RememberedMember,
    Sync,
)


class Group(Generations):
    """
    One group.  Errors are those of L{rustlog.errors}.

    @ivar state: where it stands.
    """

    @classmethod
    def recalled(cls, name: str, limits: GroupLimits, remembered: Remembered, now: float) -> Group:
        """
        The group as it was saved.  Its members have a session's time to be heard of; if there are
        more than allowed now, they have to join again.
        """
        group = cls(name, limits)
        group._is_saved = True
        group.generation = remembered.generation
        group.protocol_type = remembered.protocol_type
        group.protocol_name = remembered.protocol_name
        for each in remembered.members:
            member = Member.recalled(each)
            group.members.add(member)
            member.heard_of(now)
            group._wake(member.deadline)
        if len(group.members):
            group.members.leader_id = remembered.leader_id
            group.state = GroupState.STABLE
        if len(group.members) > limits.members_max:
            group._begin_rebalance(now, RebalanceReason.TOO_MANY_MEMBERS)
        return group

    # -- joining --

    def join(self, now: float, ticket: int, join: Join) -> None:
        """
        A client wants to be, or to stay, a member; answered by C{Joined}.

        Raises C{InvalidSessionTimeout}, C{CoordinatorNotAvailable}, C{GroupFull}, C{InconsistentProtocol},
        C{UnknownMember}, C{FencedInstance}; and C{MemberIdRequired}, with an id, to be joined with.
        """
        self.limits.check_session_timeout(join.session_timeout_ms)
        self._check_alive()
        self._check_room(now, join)
        if not self._understands(join):
            raise InconsistentProtocol(self.name)
        if join.member_id == NOBODY:
            self._join_first(now, ticket, join)
        else:
            self._join_again(now, ticket, join)
        self._complete_join_if_possible(now)

    def _check_room(self, now: float, join: Join) -> None:
        member = self.members.get(join.member_id)
        known_bytes = 0 if member is None else member.size_bytes - len(member.assignment)
        if self._has_place_for(member) and self._has_pending_place_for(join):
            if self.size_bytes - known_bytes + join.size_bytes <= self.limits.bytes_max:
                return
            raise GroupFull(self.name, f"its members have more than {self.limits.bytes_max} bytes to say")
        if member is not None:
            self._remove(now, member, DepartureReason.GROUP_FULL)
        raise GroupFull(self.name, f"it has {self.limits.members_max} members")

    def _has_place_for(self, member: Member | None) -> bool:
        if self.state is GroupState.EMPTY:
            return True
        if self.state is GroupState.PREPARING_REBALANCE:
            # Who comes last has to go, if there are too many.
            is_here = member is not None and member.join_ticket is not None
            return is_here or self.members.joining < self.limits.members_max
        return member is not None or len(self.members) < self.limits.members_max

    def _has_pending_place_for(self, join: Join) -> bool:
        return join.member_id != NOBODY or len(self.pending) < self.limits.members_max

    def _understands(self, join: Join) -> bool:
        """Whether the others and it have a protocol in common."""
        if self.state is GroupState.EMPTY or not len(self.members):
            return bool(join.protocol_type and join.protocols)
        return join.protocol_type == self.protocol_type and self.members.can_agree_with(join.protocols)

    def _join_first(self, now: float, ticket: int, join: Join) -> None:
        if join.instance_id is not None:
            known = self.members.static(join.instance_id)
            if known is None:
                self._add(now, ticket, join.new_member_id, join)
            else:
                self._take_place(now, ticket, known, join)
        elif join.requires_known_id:
            deadline = now + join.session_timeout_ms / 1000
            self.pending[join.new_member_id] = deadline
            self._wake(deadline)
            raise MemberIdRequired(self.name, join.new_member_id)
        else:
            self._add(now, ticket, join.new_member_id, join)

    def _add(self, now: float, ticket: int, member_id: str, join: Join) -> None:
        self.pending.pop(member_id, None)
        if not len(self.members):
            self.protocol_type = join.protocol_type
        member = Member.joining(member_id, join)
        member.deadline = now + NEW_MEMBER_TIMEOUT_MS / 1000
        self._wake(member.deadline)
        self.members.add(member)
        self._wait_for_generation(member, ticket)
        if self.state is GroupState.PREPARING_REBALANCE and self.generation == 0:
            self._has_grown = True
        self._begin_rebalance(now, RebalanceReason.MEMBER_JOINED, member_id, join.reason)

    def _join_again(self, now: float, ticket: int, join: Join) -> None:
        if join.member_id in self.pending and join.instance_id is None:
            self._add(now, ticket, join.member_id, join)
            return
        member = self._member(join.member_id, join.instance_id)
        leads = self.members.leader_id == member.member_id
        if member.protocols != join.protocols:
            reason = RebalanceReason.MEMBER_CHANGED
        elif self.state is GroupState.STABLE and leads:
            # It has its reasons: a topic may have more partitions now.
            reason = RebalanceReason.LEADER_REJOINED
        elif self.state is GroupState.PREPARING_REBALANCE:
            reason = RebalanceReason.MEMBER_JOINED
        else:
            # It may not have heard the answer the first time.
            member.heard_of(now)
            self._dismiss(member, RebalanceInProgress(self.name))
            self._answer(ticket, self._place_of(member))
            return
        self._update(member, ticket, join)
        self._begin_rebalance(now, reason, member.member_id, join.reason)

    def _update(self, member: Member, ticket: int, join: Join) -> None:
        self.members.update(member, join.protocols, join.session_timeout_ms, join.rebalance_timeout_ms)
        self._wait_for_generation(member, ticket)

    # -- static members --

    def _take_place(self, now: float, ticket: int, member: Member, join: Join) -> None:
        """A static member is back, as a client without an id; whoever had the old id is fenced."""
        assert join.instance_id is not None
        before, old_leader_id = member.remember(member.assignment), self.members.leader_id
        self._dismiss(member, FencedInstance(self.name, join.instance_id))
        self._tell_departure(member, DepartureReason.REPLACED, short(join.instance_id))
        self._rename(member, join.new_member_id)
        member.client_id, member.client_host = join.client_id, join.client_host
        self._update(member, ticket, join)
        if self.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id just now.
            reason = RebalanceReason.STATIC_MEMBER_RETURNED
        elif self.state is GroupState.STABLE and self.members.choose_protocol() != self.protocol_name:
            reason = RebalanceReason.PROTOCOL_CHANGED
        else:
            if self.state is GroupState.STABLE:
                self._save_replacement(ticket, member, before, old_leader_id, join.may_skip_assignment)
            return
        self._begin_rebalance(now, reason, member.member_id, join.reason)

    def _rename(self, member: Member, member_id: str) -> None:
        if member.member_id in self._unsynced:
            self._unsynced.remove(member.member_id)
            self._unsynced.add(member_id)
        self.members.rename(member, member_id)

    def _save_replacement(
        self, ticket: int, member: Member, before: RememberedMember, old_leader_id: str, may_skip: bool
    ) -> None:
        """Nothing has changed but an id: there is no rebalance, but it must be saved."""

        def saved(now: float, error: RustlogError | None) -> None:
            if self.state is not GroupState.STABLE or member.join_ticket != ticket:
                return  # It has become a part of something else.
            member.heard_of(now)
            self._wake(member.deadline)
            if error is not None:
                self._rename(member, before.member_id)
                self.members.update(
                    member, before.protocols, before.session_timeout_ms, before.rebalance_timeout_ms
                )
                self._answer_join(member, CoordinatorNotAvailable(self.name, str(error)))
            elif may_skip:
                leads = self.members.leader_id == member.member_id
                self._answer_join(member, self._place_of(member, skip_assignment=leads))
            else:
                # Told that it leads, it would assign, which nobody wants now: name the leader that was.
                place = evolve(self._place_of(member), leader_id=old_leader_id, members=())
                self._answer_join(member, place)

        self._save(self._remember({each.member_id: each.assignment for each in self.members}), saved)

    # -- what members do --

    def sync(self, now: float, ticket: int, sync: Sync) -> None:
        """
        A member asks what it owns; the leader says it.  Answered by C{Synced}.

        Raises C{CoordinatorNotAvailable}, C{UnknownMember}, C{FencedInstance}, C{StaleGeneration},
        C{InconsistentProtocol}, C{RebalanceInProgress}, C{GroupFull}.
        """
        member = self._member(sync.member_id, sync.instance_id, sync.generation)
        expected = (sync.protocol_type, sync.protocol_name)
        actual = (self.protocol_type, self.protocol_name)
        if any(mine not in (None, ours) for mine, ours in zip(expected, actual, strict=True)):
            raise InconsistentProtocol(self.name)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(self.name)
        self._has_synced(member)
        if self.state is GroupState.STABLE:
            member.heard_of(now)
            self._answer(ticket, self._share_of(member))
            return
        leads = self.members.leader_id == member.member_id
        if leads and not self._is_assigning:
            self._check_assignments(sync)
        self._answer_sync(member, RebalanceInProgress(self.name))
        member.sync_ticket, member.deadline = ticket, inf
        self._waiting[ticket] = member
        if leads and not self._is_assigning:
            self._assign(dict(sync.assignments))

    def _check_assignments(self, sync: Sync) -> None:
        if self.size_bytes - self.members.assigned_bytes + sync.size_bytes > self.limits.bytes_max:
            raise GroupFull(self.name, f"the assignment and its members exceed {self.limits.bytes_max} bytes")

    def heartbeat(self, now: float, member_id: str, instance_id: str | None, generation: int) -> None:
        """
        A member lives.

        Raises C{CoordinatorNotAvailable}, C{UnknownMember}, C{FencedInstance}, C{StaleGeneration};
        and C{RebalanceInProgress} when it has to join again.
        """
        self._member(member_id, instance_id, generation).heard_of(now)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(self.name)

    def check_commit(self, now: float, committer: Committer) -> None:
        """
        Whether somebody may commit: a member of this generation; anybody, if there are no members.

        Raises C{CoordinatorNotAvailable}, C{UnknownMember}, C{FencedInstance}, C{StaleGeneration}; and
        C{RebalanceInProgress} when the member does not know yet what it owns.
        """
        if not committer.is_member:
            self._check_alive()
            if self.state is not GroupState.EMPTY:
                raise UnknownMember(self.name, committer.member_id)
            return
        if self.state is GroupState.EMPTY and self.generation == 0:
            raise StaleGeneration(self.name, committer.generation)
        self._member(committer.member_id, committer.instance_id, committer.generation).heard_of(now)
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress(self.name)

    def leave(self, now: float, leaving: Leaving) -> None:
        """
        A member goes, or is sent away by who knows its instance id.

        Raises C{CoordinatorNotAvailable}, C{UnknownMember}, C{FencedInstance}.
        """
        self._check_alive()
        if leaving.member_id == NOBODY:
            member = self.members.static(leaving.instance_id or "")
            if member is None:
                raise UnknownMember(self.name, leaving.member_id)
            self._remove(now, member, DepartureReason.REMOVED, words=leaving.reason)
        elif leaving.member_id in self.pending:
            self._forget_pending(now, leaving.member_id, DepartureReason.LEFT)
        else:
            member = self._member(leaving.member_id, leaving.instance_id)
            self._remove(now, member, DepartureReason.LEFT, words=leaving.reason)

    def _member(self, member_id: str, instance_id: str | None, generation: int | None = None) -> Member:
        """The one who asks, if it is who it says."""
        self._check_alive()
        if instance_id is not None:
            static = self.members.static(instance_id)
            if static is not None and static.member_id != member_id:
                raise FencedInstance(self.name, instance_id)
            if static is None:
                raise UnknownMember(self.name, member_id)
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(self.name, member_id)
        if generation is not None and generation != self.generation:
            raise StaleGeneration(self.name, generation)
        return member

    def _check_alive(self) -> None:
        if self.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(self.name, "it is being deleted")

    # -- time and accidents --

    def expire(self, now: float) -> None:
        """Give up whatever is overdue; find out when to look again."""
        for member_id in [each for each, deadline in self.pending.items() if deadline <= now]:
            self._forget_pending(now, member_id, DepartureReason.NEVER_JOINED)
        for member in self.members:
            if member.deadline <= now and member.member_id in self.members:
                self._session_is_over(now, member)
        if self._sync_deadline <= now:
            self._sync_time_is_up(now)
        if self._join_deadline <= now:
            self._join_time_is_up(now)
        sessions = min((each.deadline for each in self.members), default=inf)
        pending = min(self.pending.values(), default=inf)
        self.wake_at = min(sessions, pending, self._sync_deadline, self._join_deadline)

    def _session_is_over(self, now: float, member: Member) -> None:
        if member.is_new:
            self._remove(now, member, DepartureReason.JOIN_TOOK_TOO_LONG, f"{NEW_MEMBER_TIMEOUT_MS} ms")
        else:
            self._remove(now, member, DepartureReason.SESSION_EXPIRED, f"{member.session_timeout_ms} ms")

    def _forget_pending(self, now: float, member_id: str, reason: DepartureReason) -> None:
        del self.pending[member_id]
        self._tell(MemberDeparted(group=self.name, member_id=member_id, reason=reason))
        self._complete_join_if_possible(now)

    def hang_up(self, now: float, ticket: int) -> None:
        """
        The client that waits under this ticket is gone.

        If it was about to join for the first time, it owns nothing, and nobody shall wait for it.  Otherwise
        it has as long as its session lasts to come back.
        """
        member = self._waiting.pop(ticket, None)
        if member is None:
            return
        if member.join_ticket == ticket:
            self.members.set_join_ticket(member, None)
        else:
            member.sync_ticket = None
        if member.is_new:
            self._remove(now, member, DepartureReason.CONNECTION_LOST)
        else:
            member.heard_of(now)
            self._wake(member.deadline)

    def abandon(self, error: RustlogError) -> None:
        """Somebody else is responsible for the group from now on: tell all who wait."""
        for member in self.members:
            self._dismiss(member, error)

    def delete(self) -> None:
        """The end; raises C{GroupNotEmpty} while there are members, or they are about to join."""
        self._check_alive()
        if self.state is not GroupState.EMPTY:
            raise GroupNotEmpty(self.name)
        self.pending.clear()
        self._move(Cause.DELETED)

    # -- looking --

    def describe(self) -> GroupMembership:
        """For people and tools."""
        protocol_name = self.protocol_name if self.state is GroupState.STABLE else None
        members = tuple(each.describe(protocol_name) for each in self.members)
        return GroupMembership(self.name, self.state, self.protocol_type, protocol_name or "", members)

    @property
    def has_consumers(self) -> bool:
        """Whether its members read topics, and say so to each other."""
        return self.protocol_type == CONSUMER

    def reads(self, topic: str) -> bool:
        """Whether a consumer among its members reads that topic, or may do so."""
        subscriptions = (topics_of(each.metadata(self.protocol_name)) for each in self.members)
        return any(topics is None or topic in topics for topics in subscriptions)
