"""
A world for groups: processes that join, consume, commit, die and come back, over connections that are slow
and break, with a broker that loses power.  All of it from one seed.

What the world checks while it turns:

- in one generation of a group, a partition belongs to one member (or to the processes that have been the
  same static member, one after the other);
- a commit that was accepted came from a member of the newest generation, for a partition that it owns, in
  its own group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping
from random import Random
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks, succeed
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock, deferLater
from twisted.python.failure import Failure
from zope.interface import implementer

from rustlog.errors import (
    FencedInstance,
    MemberIdRequired,
    RustlogError,
    StaleGeneration,
    TryAgain,
    UnknownMember,
)
from rustlog.groups.coordinator import GroupCoordinator
from rustlog.groups.values import Committer, GroupLimits, Join, Joined, Leaving, Sync
from rustlog.interfaces import IOffsetStore
from rustlog.model import Committed, TopicPartition
from rustlog.offsets.memory import MemoryOffsets
from rustlog.testing.environment import SeededRandom, simulated_environment

PARTITIONS = 4
TOPIC = "orders"
HEARTBEAT_SECONDS = 3.0
LIMITS = GroupLimits(initial_delay_ms=1_000)

Steps = Generator[Deferred[Any], Any, None]


@implementer(IOffsetStore)
class LosingStore:
    """
    A store whose writes take a while.  When the power fails, those under way have happened or not; what was
    answered has.
    """

    def __init__(self, store: MemoryOffsets, clock: Clock, chance: Random) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._pending: list[Callable[[], None]] = []
        self._is_dead = False

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], generation: int | None = None
    ) -> Deferred[None]:
        return self._later(lambda: self._store.commit(group, offsets, generation))

    def save(self, group: str, version: int, document: bytes) -> Deferred[int]:
        return self._later(lambda: self._store.save(group, version, document))

    def delete(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Deferred[None]:
        return self._later(lambda: self._store.delete(group, partitions))

    def fetch(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Deferred[Any]:
        return self._answer(self._store.fetch(group, partitions))

    def load(self, group: str) -> Deferred[tuple[int, bytes]]:
        return self._answer(self._store.load(group))

    def groups(self) -> Deferred[tuple[str, ...]]:
        return self._answer(self._store.groups())

    def close(self) -> Deferred[None]:
        raise NotImplementedError("it never ends in order")

    def lose_power(self) -> MemoryOffsets:
        """What is left: of the writes under way, a beginning."""
        self._is_dead = True
        for write in self._pending[: self._chance.randint(0, len(self._pending))]:
            write()
        return self._store

    def _later(self, write: Callable[[], Deferred[Any]]) -> Deferred[Any]:
        """Write in order, some time later; answer after that."""
        result: Deferred[Any] = Deferred()
        outcomes: list[Deferred[Any]] = []
        self._pending.append(lambda: outcomes.append(write()))

        def happen() -> None:
            if self._is_dead:
                return
            while not outcomes:
                self._pending.pop(0)()
            self._answer(outcomes[0]).addBoth(result.callback)

        # Disks are fast, mostly.
        slowest = 3.0 if self._chance.random() < 0.1 else 0.05
        self._clock.callLater(self._chance.uniform(0, slowest), happen)
        return result

    def _answer(self, outcome: Deferred[Any]) -> Deferred[Any]:
        late: Deferred[Any] = Deferred()

        def deliver(value: Any) -> None:
            delay = self._chance.uniform(0, 0.02)
            self._clock.callLater(delay, lambda: None if self._is_dead else late.callback(value))

        outcome.addBoth(deliver)
        return late


class Machine:
    """Where the broker runs: a store whose writes are under way when the power fails."""

    def __init__(self, world: World) -> None:
        self.clock = world.clock
        self._chance = world.chance
        self._disk = MemoryOffsets()

    def start(self) -> Any:
        """The store, opened."""
        self._store = LosingStore(self._disk, self.clock, self._chance)
        return self._store

    def lose_power(self) -> None:
        """All is lost but what is on the disk."""
        self._disk = self._store.lose_power()

    def turn(self, seconds: float) -> None:
        """Time passes; here, it is that of the world."""

    def look(self, question: str, *arguments: Any) -> Any:
        """What the disk knows."""
        return self.finish(getattr(self._disk, question)(*arguments))

    def finish(self, result: Deferred[Any]) -> Any:
        outcomes: list[Any] = []
        result.addCallback(outcomes.append)
        while not outcomes:
            self.turn(0.002)
        return outcomes[0]


class DiskMachine(Machine):
    """The same with a real store, on a simulated disk, behind a clock of its own that ends with the power."""

    def __init__(self, world: World, seed: int, stores: Any) -> None:
        super().__init__(world)
        self._environment = simulated_environment(seed)
        self._stores = stores
        self.clock = self._environment.clock

    def start(self) -> Any:
        self._store = self.finish(self._stores.open(self._environment))
        return self._store

    def lose_power(self) -> None:
        self._environment = self._environment.after_crash()
        self.clock = self._environment.clock

    def turn(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def look(self, question: str, *arguments: Any) -> Any:
        return self.finish(getattr(self._store, question)(*arguments))


class World:
    """
    @ivar is_faulty: whether connections break, processes die and power fails.
    @ivar owners: what members were told, by group and generation.
    """

    def __init__(self, seed: int, groups: int, processes: int, stores: Any = None) -> None:
        self.chance = Random(seed)
        self.clock = Clock()
        self.is_faulty = True
        self.owners: dict[tuple[str, int], dict[int, str]] = {}
        self.newest: dict[str, int] = {}
        self.problems: list[str] = []
        self.life = 0
        self.connections: dict[Connection, None] = {}
        self.accepted = 0
        self.rejected = 0
        self._machine = Machine(self) if stores is None else DiskMachine(self, seed, stores)
        self._start()
        names = [f"group {number}" for number in range(groups)]
        self.processes = [
            Process(self, name, f"instance-{number}" if self.chance.random() < 0.3 else None)
            for name in names
            for number in range(processes)
        ]
        for each in self.processes:
            each.start(self.chance.uniform(0, 3))

    def _start(self) -> None:
        store = self._machine.start()
        self.coordinator = GroupCoordinator(store, self._machine.clock, SeededRandom(self.chance), LIMITS)
        self.coordinator.start()

    def lose_power(self) -> None:
        """The broker is gone, and is back at once; all connections are lost."""
        self._machine.lose_power()
        self.life += 1
        waiting, self.connections = self.connections, {}
        for each in waiting:
            each.cut()
        self.coordinator.stop()
        self._start()

    def turn(self, seconds: float) -> None:
        """Let time pass, and accidents happen."""
        end = self.clock.seconds() + seconds
        while self.clock.seconds() < end:
            self.clock.advance(0.25)
            self._machine.turn(0.25)
            if self.is_faulty:
                self._have_accidents()

    def _have_accidents(self) -> None:
        if self.chance.random() < 0.01:
            self.lose_power()
        if self.chance.random() < 0.03:
            self.chance.choice(self.processes).die()

    def heal(self) -> None:
        """No more accidents; who is dead stays so, but for static members, which are started again."""
        self.is_faulty = False

    # -- checks --

    def told(self, group: str, generation: int, who: str, partitions: list[int]) -> None:
        """A member is told what it owns."""
        self.newest[group] = max(generation, self.newest.get(group, 0))
        owners = self.owners.setdefault((group, generation), {})
        for each in partitions:
            if owners.setdefault(each, who) != who:
                self.problems.append(
                    f"{group}, generation {generation}: {each} belongs to {owners[each]} and to {who}"
                )

    def committed(self, group: str, generation: int, who: str, partition: int, newest: int) -> None:
        """A commit was accepted; C{newest} is the generation when it was asked for."""
        self.accepted += 1
        if generation < newest:
            self.problems.append(f"{group}: a commit of generation {generation} was accepted in {newest}")
        if self.owners.get((group, generation), {}).get(partition) != who:
            self.problems.append(f"{group}: {who} has committed {partition}, which it does not own")

    def check_disk(self) -> None:
        """Nobody's commit is in another group."""
        for group in self._machine.look("groups"):
            for committed in self._machine.look("fetch", group).values():
                if json.loads(committed.metadata)["group"] != group:
                    self.problems.append(f"{group} has {committed.metadata}")

    def is_settled(self) -> bool:
        """Whether in each group that has processes, all of them own all partitions, in one generation."""
        for group in {each.group for each in self.processes}:
            alive = [each for each in self.processes if each.group == group and each.is_alive]
            owned = sorted(partition for each in alive for partition in each.owned)
            if alive and (owned != list(range(PARTITIONS)) or len({each.generation for each in alive}) != 1):
                return False
        return True


class Process:
    """
    A consumer, as clients are built: it joins, assigns if it leads, sends heartbeats and commits, and joins
    again when it is told to.  When it dies, another process is started in its place, sometimes.
    """

    def __init__(self, world: World, group: str, instance_id: str | None) -> None:
        self.world = world
        self.group = group
        self.instance_id = instance_id
        self.is_alive = True
        self.run_number = 0
        self._forget()

    def _forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.owned: list[int] = []

    @property
    def who(self) -> str:
        return self.instance_id or self.member_id

    def start(self, delay: float) -> None:
        self.world.clock.callLater(delay, self._run, self.run_number)

    def die(self) -> None:
        """Without a word, or with one; perhaps somebody else takes over."""
        chance = self.world.chance
        if self.is_alive and self.member_id and chance.random() < 0.3:
            leaving = [Leaving(member_id=self.member_id, instance_id=self.instance_id)]
            self._call(lambda: self.world.coordinator.leave(self.group, leaving)).addErrback(lambda _: None)
        self.is_alive = chance.random() < 0.7
        self.run_number += 1
        self._forget()
        if self.is_alive:
            self.start(chance.uniform(0, 15))

    @inlineCallbacks
    def _run(self, run: int) -> Steps:
        while run == self.run_number:
            try:
                yield self._join(run)
                while run == self.run_number:
                    yield self._sleep(HEARTBEAT_SECONDS)
                    if run != self.run_number:
                        return
                    yield self._heartbeat()
                    yield self._commit()
            except (ConnectionLost, TryAgain):
                yield self._sleep(self.world.chance.uniform(0.1, 1))
            except (UnknownMember, FencedInstance, StaleGeneration) as error:
                if run == self.run_number:
                    self.owned = []
                    if not isinstance(error, StaleGeneration):
                        self.member_id = ""

    @inlineCallbacks
    def _join(self, run: int) -> Steps:
        self.owned = []
        try:
            joined: Joined = yield self._ask_to_join()
        except MemberIdRequired as error:
            if run != self.run_number:
                return
            self.member_id = error.member_id
            joined = yield self._ask_to_join()
        if run != self.run_number:
            return
        self.member_id, self.generation = joined.member_id, joined.generation
        yield self._sync(run, joined)

    def _ask_to_join(self) -> Deferred[Joined]:
        join = Join(
            member_id=self.member_id,
            instance_id=self.instance_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=15_000,
            protocol_type="consumer",
            protocols=(("range", b""),),
            requires_known_id=self.instance_id is None,
            may_skip_assignment=True,
        )
        return self._call(lambda: self.world.coordinator.join(self.group, join))

    @inlineCallbacks
    def _sync(self, run: int, joined: Joined) -> Steps:
        assignments = () if joined.skip_assignment else assign(joined)
        asked = Sync(
            member_id=joined.member_id,
            generation=joined.generation,
            instance_id=self.instance_id,
            assignments=assignments,
        )
        who = self.instance_id or joined.member_id
        synced = yield self._call(
            lambda: self._told(who, joined.generation, self.world.coordinator.sync(self.group, asked))
        )
        if run == self.run_number:
            self.owned = json.loads(synced.assignment or b"[]")

    def _told(self, who: str, generation: int, syncing: Deferred[Any]) -> Deferred[Any]:
        """What a member may have heard counts, even if the answer is lost."""

        def note(synced: Any) -> Any:
            self.world.told(self.group, generation, who, json.loads(synced.assignment or b"[]"))
            return synced

        return syncing.addCallback(note)

    def _heartbeat(self) -> Deferred[None]:
        return self._call(
            lambda: self.world.coordinator.heartbeat(
                self.group, self.member_id, self.instance_id, self.generation
            )
        )

    def _commit(self) -> Deferred[None]:
        """Say how far it has come; sometimes that takes very long, and is not waited for."""
        if not self.owned:
            return succeed(None)
        partition, generation, who = self.world.chance.choice(self.owned), self.generation, self.who
        metadata = json.dumps({"group": self.group})
        offsets = {TopicPartition(TOPIC, partition): Committed(generation, metadata=metadata)}
        committer = Committer(member_id=self.member_id, instance_id=self.instance_id, generation=generation)

        def commit() -> Deferred[None]:
            return self._accepted(who, partition, committer, offsets)

        if self.world.chance.random() < 0.8:
            return self._call(commit)
        late = self.world.chance.uniform(0, 20)
        self.world.clock.callLater(late, lambda: self._call(commit).addErrback(lambda _: None))
        return succeed(None)

    def _accepted(
        self, who: str, partition: int, committer: Committer, offsets: Mapping[TopicPartition, Committed]
    ) -> Deferred[None]:
        newest = self.world.newest.get(self.group, 0)

        def note(_: None) -> None:
            self.world.committed(self.group, committer.generation, who, partition, newest)

        def rejected(failure: Failure) -> Failure:
            self.world.rejected += 1
            return failure

        return self.world.coordinator.commit(self.group, committer, offsets).addCallbacks(note, rejected)

    def _sleep(self, seconds: float) -> Deferred[None]:
        return deferLater(self.world.clock, seconds, lambda: None)

    def _call(self, ask: Callable[[], Deferred[Any]]) -> Deferred[Any]:
        return Connection(self.world).call(ask)


class Connection:
    """Carries one request and its answer, perhaps."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._life = world.life
        self._answer: Deferred[Any] = Deferred()
        self._pending: Deferred[Any] | None = None

    def call(self, ask: Callable[[], Deferred[Any]]) -> Deferred[Any]:
        chance = self._world.chance
        self._world.clock.callLater(chance.uniform(0, 0.2), self._deliver, ask)
        if self._world.is_faulty and chance.random() < 0.05:
            self._world.clock.callLater(chance.choice((0.1, 0.3, 2.0)), self._break)
        return self._answer

    def _deliver(self, ask: Callable[[], Deferred[Any]]) -> None:
        if self._answer.called:
            return
        if self._is_cut():
            self._break()
            return
        self._pending = ask()
        self._world.connections[self] = None
        self._pending.addBoth(self._carry_back)

    def cut(self) -> None:
        """The broker is gone, which a client notices after a while."""
        self._world.clock.callLater(self._world.chance.uniform(0, 1), self._break)

    def _carry_back(self, outcome: Any) -> None:
        self._pending = None
        self._world.connections.pop(self, None)
        self._world.clock.callLater(self._world.chance.uniform(0, 0.2), self._arrive, outcome)

    def _arrive(self, outcome: Any) -> None:
        if self._is_cut():
            self._break()
        elif not self._answer.called:
            self._answer.callback(outcome)
        elif isinstance(outcome, Failure):
            outcome.trap(RustlogError, CancelledError)

    def _is_cut(self) -> bool:
        return self._life != self._world.life

    def _break(self) -> None:
        if self._answer.called:
            return
        self._answer.errback(ConnectionLost())
        if self._pending is not None and not self._is_cut():
            self._pending.cancel()


def assign(joined: Joined) -> tuple[tuple[str, bytes], ...]:
    """What a leader assigns; nothing, if it is none."""
    members = sorted(each.member_id for each in joined.members)
    shares: dict[str, list[int]] = {each: [] for each in members}
    for partition in range(PARTITIONS if members else 0):
        shares[members[partition % len(members)]].append(partition)
    return tuple((member, json.dumps(share).encode()) for member, share in shares.items())
