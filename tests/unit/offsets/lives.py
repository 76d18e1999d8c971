"""
An offset store that dies and comes back, and what its users remember of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import define, field
from twisted.python.failure import Failure

from rustlog.errors import RustlogError
from rustlog.model import Committed, TopicPartition
from rustlog.testing.disk import SimulatedCrash
from rustlog.testing.environment import SimulatedEnvironment
from tests.unit.patience import Patience

GROUPS = ("billing", "a:b", "shipping")
PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
"""Every commit is of both, so that half of one would be noticed."""


@define
class Memory:
    """
    What the users of a group remember.

    @ivar asked: what it was to be at, commit by commit; C{None} for nothing.
    @ivar promised: up to which of these everything has been acknowledged; -1 for none.
    @ivar version: of the last document that was acknowledged.
    """

    asked: list[int | None] = field(factory=list)
    promised: int = -1
    version: int = 0

    def may_be_at(self) -> list[int | None]:
        """Where the group may be after a crash: at the last promise, or at what was asked for later."""
        if self.promised < 0:
            return [None, *self.asked]
        return self.asked[self.promised :]


class Lives(Patience):
    """One disk, and a store on it that is opened again after each death."""

    def __init__(self, environment: SimulatedEnvironment, stores: Any) -> None:
        self.environment = environment
        self.stores = stores
        self.memories = {group: Memory() for group in GROUPS}
        self.sent = 0
        self.store: Any = None

    # -- life and death --

    def open(self) -> None:
        """Begin a life."""
        self.store = self.finish(self.stores.open(self.environment))

    def die(self) -> None:
        """Lose the power."""
        self.environment = self.environment.after_crash()
        self.store = None

    def close(self) -> None:
        """Stop in good order."""
        self.finish(self.store.close())

    # -- work --

    def commit(self, group: str) -> Any:
        """Commit without waiting; a Deferred that never fails."""
        self.sent += 1
        offsets = dict.fromkeys(PARTITIONS, Committed(self.sent, metadata=f"number {self.sent}"))
        return self._ask(group, self.sent, self.store.commit(group, offsets))

    def delete(self, group: str) -> Any:
        """Delete a group without waiting; a Deferred that never fails."""
        self.memories[group].version = 0
        return self._ask(group, None, self.store.delete(group))

    def save(self, group: str) -> None:
        """Save a document, and wait."""
        version, _ = self.finish(self.store.load(group))
        saved = self.finish(self.store.save(group, version, b"version %d" % (version + 1)))
        self.memories[group].version = saved

    def _ask(self, group: str, offset: int | None, result: Any) -> Any:
        memory = self.memories[group]
        number = len(memory.asked)
        memory.asked.append(offset)

        def answered(outcome: Any) -> Any:
            if isinstance(outcome, Failure):
                outcome.trap(RustlogError, SimulatedCrash)
                return outcome.value
            if memory.promised > number:
                raise AssertionError("an earlier commit is answered after a later one")
            memory.promised = number
            return None

        return result.addBoth(answered)

    # -- looking --

    def problems(self) -> list[str]:
        """What is not as it was promised.  What is seen now is as good as promised."""
        found = []
        for group, memory in self.memories.items():
            committed = self.finish(self.store.fetch(group))
            offsets = {committed[each].offset if each in committed else None for each in PARTITIONS}
            (offset,) = offsets if len(offsets) == 1 else (f"half of a commit: {offsets}",)
            if offset not in memory.may_be_at():
                found.append(f"{group} is at {offset}, not at one of {memory.may_be_at()}")
            elif offset is not None or memory.promised >= 0:
                memory.promised = len(memory.asked) - 1 - memory.asked[::-1].index(offset)  # type: ignore[arg-type]
            if offset is not None and committed[PARTITIONS[0]].metadata != f"number {offset}":
                found.append(f"{group} has lost its metadata: {committed}")
            found += self._document_problems(group, memory)
        return found

    def _document_problems(self, group: str, memory: Memory) -> list[str]:
        version, document = self.finish(self.store.load(group))
        if version < memory.version:
            return [f"{group} has version {version} of its document, not {memory.version}"]
        if version and document != b"version %d" % version:
            return [f"{group} has {document!r} as version {version}"]
        return []

    # -- time --

    def finish_all(self, results: Iterable[Any]) -> list[Any]:
        """What becomes of each."""
        return [self.finish(each) for each in list(results)]
