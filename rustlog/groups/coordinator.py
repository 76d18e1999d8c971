"""
L{GroupCoordinator}: looks after groups, in real time and with a store.

It drives the state machines (L{rustlog.groups.state}): calls them with the time, answers who waits, saves
what must survive a restart, and tells what happened.  Only groups that have members, or are about to, are in
memory; of the others the store knows all that there is to know.

All commits come through here.  It is known here who may: members, and consumers that share with nobody.
Those of the other protocols always may: they overwrite, whoever is a member.
"""

from __future__ import annotations

from collections import Counter as CountOf
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from attrs import evolve
from twisted.internet.defer import Deferred, fail, inlineCallbacks, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from rustlog.errors import (
    CoordinatorNotAvailable,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    GroupReadsTopic,
    NotCoordinator,
    RustlogError,
)
from rustlog.groups import documents
from rustlog.groups.cells import Cell
from rustlog.groups.documents import UnreadableGroup
from rustlog.groups.reasons import Event, reason_name
from rustlog.groups.state import Group
from rustlog.groups.transitions import GroupState
from rustlog.groups.values import (
    GROUP_BYTES,
    Committer,
    GroupLimits,
    GroupMembership,
    Join,
    Joined,
    Leaving,
    Sync,
    Synced,
)
from rustlog.interfaces import IOffsetStore, IRandomSource
from rustlog.model import Committed, TopicPartition
from rustlog.results import Result

MEMORY_BYTES_MAX = 256 * 1024 * 1024
"""What all groups may take together."""

VISITS_AT_ONCE = 100
"""How many groups are looked at before somebody else has a turn."""

T = TypeVar("T")
Steps = Generator["Deferred[Any]", Any, T]

Counter = Callable[[str, str], object]
"""
Is told what happened (C{rebalance}, C{departure}, C{generation}), and the name of its reason, if it has one:
L{RebalanceReason <rustlog.groups.reasons.RebalanceReason>}, L{DepartureReason
<rustlog.groups.reasons.DepartureReason>}.
"""


def _not_counted(kind: str, reason: str) -> None:
    """Nobody wants to know."""


class GroupCoordinator:
    """Looks after all groups.  Errors are those of L{rustlog.errors}."""

    _log = Logger()

    def __init__(
        self,
        store: IOffsetStore,
        clock: IReactorTime,
        random: IRandomSource,
        limits: GroupLimits,
        *,
        count: Counter = _not_counted,
        memory_bytes_max: int = MEMORY_BYTES_MAX,
    ) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._limits = limits
        self._count = count
        self._memory_bytes_max = memory_bytes_max
        self._memory_bytes = 0
        self._cells: dict[str, Cell] = {}
        self._sizes: dict[str, int] = {}
        self._loading: dict[str, list[Deferred[Cell]]] = {}
        self._commits: CountOf[str] = CountOf()  # under way, by group
        self._forgetting: set[str] = set()
        self._has_looked_around = False
        self._is_stopping = False

    # -- its life --

    @inlineCallbacks
    def start(self) -> Steps[None]:
        """
        Take over the groups that have members, so that those expire who do not come back.  Groups are
        served from the beginning, too.
        """
        yield self._visit((yield self._store.groups()), lambda group: None)
        self._has_looked_around = True

    def stop(self) -> None:
        """Let nobody wait any longer, and nobody's time run out."""
        self._is_stopping = True
        for cell in list(self._cells.values()):
            cell.retire(NotCoordinator(cell.group.name))

    def is_active(self, name: str) -> bool:
        """Whether a group has members, or may have some; then what it has committed is in use."""
        return name in self._cells or name in self._loading or not self._has_looked_around

    # -- members --

    def join(self, name: str, join: Join) -> Deferred[Joined]:
        """
        Become a member, or stay one; waits for the others.  To be cancelled when the client is gone.
        Fails as L{Group.join} does.
        """
        if self._is_stopping:
            return fail(NotCoordinator(name))
        prefix = join.client_id if join.instance_id is None else join.instance_id
        join = evolve(join, new_member_id=f"{prefix}-{self._random.uuid()}")

        def begin(cell: Cell) -> Deferred[Joined]:
            known = cell.group.members.get(join.member_id)
            self._check_memory(name, join.size_bytes - (known.size_bytes if known is not None else 0))
            return cell.ask(partial(cell.group.join, join=join))

        return self._use(name, begin)

    def sync(self, name: str, sync: Sync) -> Deferred[Synced]:
        """
        Ask, or say, who owns what; waits for the leader.  To be cancelled when the client is gone.
        Fails as L{Group.sync} does.
        """
        if self._is_stopping:
            return fail(NotCoordinator(name))

        def begin(cell: Cell) -> Deferred[Synced]:
            if sync.assignments:
                self._check_memory(name, sync.size_bytes - cell.group.members.assigned_bytes)
            return cell.ask(partial(cell.group.sync, sync=sync))

        return self._use(name, begin)

    def _check_memory(self, name: str, growth: int) -> None:
        """Raise C{GroupFull} if a group can not grow; whoever does not want more is always welcome."""
        if growth > 0 and self._memory_bytes + growth > self._memory_bytes_max:
            raise GroupFull(name, f"all groups together have more than {self._memory_bytes_max} bytes")

    def heartbeat(
        self, name: str, member_id: str, instance_id: str | None, generation: int
    ) -> Deferred[None]:
        """Say that a member lives.  Fails as L{Group.heartbeat} does."""
        return self._act(
            name, lambda group, now: group.heartbeat(now, member_id, instance_id, generation)
        )

    def leave(self, name: str, leaving: Iterable[Leaving]) -> Deferred[list[RustlogError | None]]:
        """Let members go; for each what is wrong with it, if something is."""

        def leave(group: Group, now: float, each: Leaving) -> RustlogError | None:
            try:
                group.leave(now, each)
            except RustlogError as error:
                return error
            return None

        return self._act(name, lambda group, now: [leave(group, now, each) for each in leaving])

    # -- offsets --

    @inlineCallbacks
    def commit(
        self, name: str, committer: Committer, offsets: Mapping[TopicPartition, Committed]
    ) -> Steps[None]:
        """
        Remember how far a group has come, if the one who says so may.  Fails as L{Group.check_commit} does,
        and as the store does.
        """
        yield self._act(name, lambda group, now: group.check_commit(now, committer))
        yield self.commit_freely(name, offsets, committer.generation if committer.is_member else None)

    def commit_freely(
        self, name: str, offsets: Mapping[TopicPartition, Committed], generation: int | None = None
    ) -> Deferred[None]:
        """The same, without asking who it is: what the other protocols do.  Fails as the store does."""
        self._forgetting.discard(name)
        self._commits[name] += 1
        committing: Deferred[None] = maybeDeferred(self._store.commit, name, offsets, generation)
        return committing.addBoth(self._committed, name)

    def _committed(self, outcome: T, name: str) -> T:
        self._commits[name] -= 1
        if not self._commits[name]:
            del self._commits[name]
        return outcome

    @inlineCallbacks
    def delete_offsets(
        self, name: str, partitions: Iterable[TopicPartition]
    ) -> Steps[dict[TopicPartition, RustlogError | None]]:
        """
        Forget what was committed in some partitions; for each, why that was refused.  Fails with
        C{GroupNotFound}, and with C{GroupNotEmpty} if there are members that are no consumers.
        """
        cell = yield self._hold_existing(name)
        try:
            answers = judge_deletions(cell.group, partitions)
            yield self._store.delete(name, [each for each, error in answers.items() if error is None])
        finally:
            self._let_go(cell)
        return answers

    # -- groups --

    @inlineCallbacks
    def delete(self, name: str) -> Steps[None]:
        """
        Forget a group, and all that it has committed.  Fails with C{GroupNotFound}, C{GroupNotEmpty}.
        """
        try:
            cell = yield self._hold_existing(name)
        except UnreadableGroup:
            yield self._store.delete(name)
            return
        try:
            yield cell.saves_done()
            yield self._delete(cell)
        finally:
            self._let_go(cell)

    @inlineCallbacks
    def _delete(self, cell: Cell) -> Steps[None]:
        cell.group.delete()
        try:
            yield self._store.delete(cell.group.name)
        finally:
            cell.drop(CoordinatorNotAvailable(cell.group.name, "it has been deleted"))

    @inlineCallbacks
    def forget_unused(self, name: str) -> Steps[None]:
        """Forget a group that has neither members nor committed anything; leave any other alone."""
        try:
            cell: Cell = yield self._hold(name)
        except CoordinatorNotAvailable:
            return  # The log says why.
        try:
            if name not in self._commits:
                self._forgetting.add(name)
                offsets = yield self._store.fetch(name)
                # If somebody has committed something meanwhile, that stays.
                is_unused = not offsets and cell.version and cell.group.is_idle and name in self._forgetting
                if is_unused:
                    yield self._delete(cell)
        finally:
            self._forgetting.discard(name)
            self._let_go(cell)

    @inlineCallbacks
    def describe(self, name: str) -> Steps[GroupMembership]:
        """One group.  Fails with C{GroupNotFound}."""
        cell = yield self._hold_existing(name)
        description = cell.group.describe()
        self._let_go(cell)
        return description

    @inlineCallbacks
    def describe_all(self) -> Steps[list[GroupMembership]]:
        """All groups, by name; those that can not be read are left out."""
        names = {*(yield self._store.groups()), *self._cells}
        return (yield self._visit(sorted(names), Group.describe))

    @inlineCallbacks
    def _visit(self, names: Iterable[str], look: Callable[[Group], T]) -> Steps[list[T]]:
        """Look at groups, one after the other; with many of them, clients have their turn in between."""
        found = []
        for number, name in enumerate(names, 1):
            try:
                found.append((yield self._act(name, lambda group, now: look(group))))
            except CoordinatorNotAvailable:
                continue  # The log says why.
            if number % VISITS_AT_ONCE == 0:
                yield deferLater(self._clock, 0)
        return found

    # -- finding a group --

    def _act(self, name: str, action: Callable[[Group, float], T]) -> Deferred[T]:
        """Do something with a group that takes no time."""

        def act(cell: Cell) -> T:
            with cell.acting() as now:
                return action(cell.group, now)

        return self._use(name, act)

    def _use(self, name: str, action: Callable[[Cell], Result[T]]) -> Deferred[T]:
        """Do something with a group, which may have to be loaded, and may be one that nobody knows."""

        def use(cell: Cell) -> Result[T]:
            try:
                return action(cell)
            finally:
                self._let_go(cell)

        return self._hold(name).addCallback(use)

    @inlineCallbacks
    def _hold_existing(self, name: str) -> Steps[Cell]:
        """The same as L{_hold}; fails with C{GroupNotFound} if nobody knows the group."""
        cell: Cell = yield self._hold(name)
        try:
            if not cell.version and cell.group.is_idle and not (yield self._store.fetch(name)):
                raise GroupNotFound(name)
        except Exception:
            self._let_go(cell)
            raise
        return cell

    def _let_go(self, cell: Cell) -> None:
        cell.users -= 1
        cell.settle()

    def _hold(self, name: str) -> Deferred[Cell]:
        """A group, loaded if need be, that stays in memory until L{_let_go}."""
        cell = self._cells.get(name)
        if cell is not None:
            cell.users += 1
            return succeed(cell)
        waiting: Deferred[Cell] = Deferred()
        if name in self._loading:
            self._loading[name].append(waiting)
        else:
            self._loading[name] = [waiting]
            loading: Deferred[Any] = maybeDeferred(self._store.load, name)
            loading.addCallback(self._recall, name)
            loading.addCallbacks(self._loaded, self._not_loaded, callbackArgs=(name,), errbackArgs=(name,))
        return waiting

    def _recall(self, saved: tuple[int, bytes], name: str) -> Cell:
        version, document = saved
        if document:
            remembered = documents.decode(name, document)
            group = Group.recalled(name, self._limits, remembered, self._clock.seconds())
        else:
            group = Group(name, self._limits)
        return Cell(
            group, version, store=self._store, clock=self._clock, tell=self._tell, settled=self._settled
        )

    def _loaded(self, cell: Cell, name: str) -> None:
        self._cells[name] = cell
        waiting = [each for each in self._loading.pop(name) if not each.called]
        cell.users = len(waiting)
        for each in waiting:
            each.callback(cell)
        cell.settle()

    def _not_loaded(self, failure: Failure, name: str) -> None:
        error = failure.value
        if isinstance(error, RustlogError):
            self._log.error("group {group!r} was not loaded: {error}", group=name, error=error)
        else:
            self._log.failure("group {group!r} was not loaded", failure, group=name)
        if not isinstance(error, CoordinatorNotAvailable):
            error = CoordinatorNotAvailable(name, "it could not be loaded")
        for each in self._loading.pop(name):
            each.errback(error)

    # -- looking after them --

    def _settled(self, cell: Cell) -> None:
        """Something has changed: count its memory; forget it, if it is in the store as it is."""
        name = cell.group.name
        if self._cells.get(name) is not cell:
            return
        if cell.is_dropped or cell.is_idle:
            cell.stop_timer()
            del self._cells[name]
            self._memory_bytes -= self._sizes.pop(name, 0)
        else:
            size = GROUP_BYTES + cell.group.size_bytes
            self._memory_bytes += size - self._sizes.get(name, 0)
            self._sizes[name] = size

    def _tell(self, event: Event) -> None:
        reason = reason_name(event)
        self._log.info("{words}", words=str(event), group=event.group, kind=event.kind, reason=reason)
        self._count(event.kind, reason)


def judge_deletions(
    group: Group, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, RustlogError | None]:
    """For each partition why what was committed there can not be forgotten, if so."""
    if group.state is GroupState.DEAD:
        raise GroupNotFound(group.name)
    if group.state is not GroupState.EMPTY and not group.has_consumers:
        raise GroupNotEmpty(group.name)
    return {
        each: GroupReadsTopic(group.name, each.topic) if group.reads(each.topic) else None
        for each in partitions
    }
