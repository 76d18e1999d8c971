"""
The members of one group: who they are, who leads, and in which protocols they can agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf

from attrs import define

from rustlog.groups.values import (
    MEMBER_BYTES,
    Join,
    JoinedMember,
    MemberDescription,
    Protocols,
    RememberedMember,
    protocols_bytes,
)


@define(eq=False)
class Member:
    """
    One of them.

    @ivar is_new: it waits for its first generation.
    @ivar deadline: when it is given up, unless it is heard of before; never, while it waits for us.
    @ivar join_ticket: of the JoinGroup that it waits for, if it does; C{sync_ticket} likewise.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = True
    deadline: float = inf
    join_ticket: int | None = None
    sync_ticket: int | None = None

    @property
    def is_waiting(self) -> bool:
        return self.join_ticket is not None or self.sync_ticket is not None

    @property
    def size_bytes(self) -> int:
        return MEMBER_BYTES + protocols_bytes(self.protocols) + len(self.assignment)

    def heard_of(self, now: float) -> None:
        """It lives: its session begins anew."""
        self.deadline = now + self.session_timeout_ms / 1000

    def vote(self, candidates: set[str]) -> str:
        """Which of them it likes best."""
        return next(name for name, _ in self.protocols if name in candidates)

    def metadata(self, protocol_name: str) -> bytes:
        """What it says to the leader in one protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    def describe(self, protocol_name: str | None) -> MemberDescription:
        """For tools; without what is up to the protocol, if none is given."""
        who = (self.member_id, self.instance_id, self.client_id, self.client_host)
        if protocol_name is None:
            return MemberDescription(*who)
        return MemberDescription(*who, self.metadata(protocol_name), self.assignment)

    def remember(self, assignment: bytes) -> RememberedMember:
        """What survives a restart."""
        return RememberedMember(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=self.protocols,
            assignment=assignment,
        )

    @classmethod
    def joining(cls, member_id: str, join: Join) -> Member:
        """A new one."""
        return cls(
            member_id,
            join.instance_id,
            join.client_id,
            join.client_host,
            join.session_timeout_ms,
            join.rebalance_timeout_ms,
            join.protocols,
        )

    @classmethod
    def recalled(cls, remembered: RememberedMember) -> Member:
        """One of before a restart."""
        return cls(
            remembered.member_id,
            remembered.instance_id,
            remembered.client_id,
            remembered.client_host,
            remembered.session_timeout_ms,
            remembered.rebalance_timeout_ms,
            remembered.protocols,
            remembered.assignment,
            is_new=False,
        )


class Members:
    """
    All of them, in the order in which they came.

    @ivar leader_id: the one who assigns; empty as long as there is nobody.
    @ivar size_bytes: what they take.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        self._support: Counter[str] = Counter()
        self._joining = 0
        self.leader_id = ""
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._by_id.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> Member:
        return self._by_id[member_id]

    def get(self, member_id: str) -> Member | None:
        return self._by_id.get(member_id)

    def static(self, instance_id: str) -> Member | None:
        """The one that has this C{group.instance.id}."""
        member_id = self._static.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    @property
    def joining(self) -> int:
        """How many wait for a generation."""
        return self._joining

    @property
    def have_all_joined(self) -> bool:
        return self._joining == len(self._by_id)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that anybody asks for."""
        return max((each.rebalance_timeout_ms for each in self._by_id.values()), default=0)

    @property
    def assigned_bytes(self) -> int:
        """What their assignments take."""
        return sum(len(each.assignment) for each in self._by_id.values())

    # -- changes --

    def add(self, member: Member) -> None:
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self._joining += member.join_ticket is not None
        self._count(member, 1)
        self.leader_id = self.leader_id or member.member_id

    def remove(self, member: Member) -> None:
        del self._by_id[member.member_id]
        if member.instance_id is not None:
            del self._static[member.instance_id]
        self._joining -= member.join_ticket is not None
        self._count(member, -1)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self._by_id), "")

    def rename(self, member: Member, member_id: str) -> None:
        """A static member goes on under another id."""
        assert member.instance_id is not None
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        del self._by_id[member.member_id]
        member.member_id = member_id
        self._by_id[member_id] = member
        self._static[member.instance_id] = member_id

    def update(
        self, member: Member, protocols: Protocols, session_timeout_ms: int, rebalance_timeout_ms: int
    ) -> None:
        """It has joined again, and may have something else to say."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def assign(self, member: Member, assignment: bytes) -> None:
        self.size_bytes += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def set_join_ticket(self, member: Member, ticket: int | None) -> None:
        self._joining += (ticket is not None) - (member.join_ticket is not None)
        member.join_ticket = ticket

    def _count(self, member: Member, sign: int) -> None:
        self.size_bytes += sign * member.size_bytes
        for name in {name for name, _ in member.protocols}:
            self._support[name] += sign
            if not self._support[name]:
                del self._support[name]

    # -- agreement --

    def can_agree_with(self, protocols: Protocols) -> bool:
        """Whether one of these is known to everybody."""
        return any(self._support[name] == len(self._by_id) for name, _ in protocols)

    def choose_protocol(self) -> str:
        """Of those that all know, the one that most like best; if there are several, the first by name."""
        everybody = len(self._by_id)
        candidates = {name for name, count in self._support.items() if count == everybody}
        votes = Counter(each.vote(candidates) for each in self._by_id.values())
        return min(votes, key=lambda name: (-votes[name], name))

    def elect_leader(self) -> bool:
        """Keep the leader if it has joined, else take one who has; whether there is one now."""
        if self.leader_id and self._by_id[self.leader_id].join_ticket is not None:
            return True
        joined = (each.member_id for each in self._by_id.values() if each.join_ticket is not None)
        elected = next(joined, None)
        if elected is None:
            return False
        self.leader_id = elected
        return True

    def introduce(self, protocol_name: str) -> tuple[JoinedMember, ...]:
        """What the leader has to know to assign."""
        return tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata(protocol_name)) for each in self
        )
