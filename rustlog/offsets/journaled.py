"""
L{JournaledOffsets}: an offset store that writes every change down before it counts.

It keeps all groups in memory and a journal of changes on disk, which is replayed at the start.  A
change is judged and written in the order of the calls; changes overlap, so that many share a
sync.  It is visible once the journal has it, in the same order, and answered then: nobody
reads an offset that a loss of power could take back.

B{The journal stays small.}  When it has grown enough, all that is known is written to its end, group by
group, and everything before is given up.  Commits go on meanwhile: each piece of it is written
while nothing else is under way, so that it repeats what is in the journal, and nothing that
may fail yet.  Replaying an old and a new copy of the same group does no harm, so a crash at any
moment leaves a journal that tells the truth.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Set
from functools import partial
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.defer import Deferred, fail, inlineCallbacks, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from rustlog.environment import Environment
from rustlog.errors import Closed
from rustlog.interfaces import IOffsetExpiry, IOffsetStore
from rustlog.log import records
from rustlog.log.batch import RecordBatch
from rustlog.model import Committed, Record, StoreLimits, TopicPartition
from rustlog.offsets.entries import Writer
from rustlog.offsets.state import Groups, check_generation, check_version
from rustlog.results import Result, deferred

SNAPSHOT_BYTES_MIN = 512 * 1024
"""
So much journal at least lies between two snapshots: about 5,000 commits, which are replayed in a tenth of
a second.
"""

SNAPSHOT_RATIO = 2
"""And so many times the size of the last snapshot: writing them costs half of what commits cost."""

PIECE_RECORDS = 500
PIECE_BYTES = 256 * 1024
"""A piece of a snapshot ends with the group that reaches either."""


_RECORD_OVERHEAD_BYTES = 40
"""The rest of a record: lengths, and the time of a commit."""


class Journal(Protocol):
    """Where changes are written down."""

    @property
    def limits(self) -> StoreLimits:
        """What it can hold."""

    def append(self, batch: RecordBatch) -> Result[None]:
        """
        Write a batch, all or nothing, in the order of the calls; calls overlap.  Done when it
        is as durable as C{--sync} promises.  Raises, or fails with, a C{RustlogError}.
        """

    def mark(self) -> int:
        """A place with everything up to now before it, and everything from now on behind it."""

    def forget_before(self, mark: int) -> Deferred[None]:
        """Give up what is before a mark, once all that is behind it is on disk, whatever C{--sync} says."""

    def close(self) -> Deferred[None]:
        """Let go of it."""


Effect = Callable[[], Any]
"""Makes a change visible, and says what to answer."""

Plan = Callable[[], "tuple[list[Record], Effect]"]
"""Judges a change when it is its turn: what is to be written, and what happens then.  Raises to refuse."""


@define(eq=False)
class _Change:
    """
    A change on its way.

    @ivar is_alone: whether it is made while nothing else is under way.
    @ivar outcome: what the journal said; C{None} until then.
    """

    group: str | None
    plan: Plan
    is_alone: bool
    answer: Deferred[Any] = field(factory=Deferred)
    effect: Effect = field(default=lambda: None)
    outcome: Any = None
    is_written: bool = False


@define
class _Promised:
    """What a group will be at when all that is under way succeeds."""

    generation: int
    version: int
    changes: int = 0


@implementer(IOffsetStore, IOffsetExpiry)
class JournaledOffsets:
    """
    The groups of one journal.

    @ivar journal_bytes: how much has been written to the journal since the last snapshot began.
    """

    _log = Logger()

    def __init__(
        self, environment: Environment, journal: Journal, groups: Groups, journal_bytes: int
    ) -> None:
        self._clock = environment.clock
        self._wall = environment.wall
        self._journal = journal
        self._groups = groups
        self._writer = Writer(journal.limits)
        self._waiting: deque[_Change] = deque()
        self._under_way: deque[_Change] = deque()
        self._promised: dict[str, _Promised] = {}
        self._is_alone = self._is_going_on = False
        self._snapshot: Deferred[None] | None = None
        self._snapshot_bytes = 0
        self._closed: Deferred[None] | None = None
        self.journal_bytes = journal_bytes

    # -- questions --

    def fetch(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Deferred[dict[TopicPartition, Committed]]:
        if self._closed is not None:
            return fail(Closed())
        return succeed(self._groups.offsets(group, partitions))

    def groups(self) -> Deferred[tuple[str, ...]]:
        if self._closed is not None:
            return fail(Closed())
        return succeed(self._groups.names())

    def load(self, group: str) -> Deferred[tuple[int, bytes]]:
        if self._closed is not None:
            return fail(Closed())
        known = self._groups.get(group)
        return succeed((known.version, known.document))

    # -- changes --

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], generation: int | None = None
    ) -> Deferred[None]:
        return self._change(group, partial(self._plan_commit, group, dict(offsets), generation))

    def save(self, group: str, version: int, document: bytes) -> Deferred[int]:
        return self._change(group, partial(self._plan_save, group, version, bytes(document)))

    def delete(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Deferred[None]:
        if partitions is None:
            return self._change(None, partial(self._plan_forget, group))
        return self._change(None, partial(self._plan_delete, group, frozenset(partitions)))

    def expire(self, group: str, before_ms: int) -> Deferred[int]:
        if self._closed is None and not self._groups.get(group).older_than(before_ms):
            return succeed(0)  # As always; nobody has to stand aside for that.
        return self._change(None, partial(self._plan_expire, group, before_ms))

    def _plan_commit(
        self, group: str, offsets: dict[TopicPartition, Committed], generation: int | None
    ) -> tuple[list[Record], Effect]:
        promised, known = self._promise(group), self._groups.get(group)
        check_generation(group, generation, promised.generation)
        is_new = generation is not None and generation > known.generation
        if generation is not None:
            promised.generation = generation
        written = self._writer.commit(group, offsets, generation if is_new else None)
        return written, partial(self._groups.commit, group, offsets, generation)

    def _plan_save(self, group: str, version: int, document: bytes) -> tuple[list[Record], Effect]:
        promised = self._promise(group)
        check_version(group, version, promised.version)
        promised.version = version + 1

        def effect() -> int:
            self._groups.save(group, version + 1, document)
            return version + 1

        return self._writer.save(group, version + 1, document), effect

    def _plan_forget(self, group: str) -> tuple[list[Record], Effect]:
        written = self._writer.forget(group, self._groups.get(group))
        return written, partial(self._groups.forget, group)

    def _plan_delete(self, group: str, partitions: Set[TopicPartition]) -> tuple[list[Record], Effect]:
        known = self._groups.get(group)
        if known.offsets.keys() <= partitions and not known.version:
            return self._plan_forget(group)
        return self._writer.delete(group, partitions), partial(self._groups.delete, group, partitions)

    def _plan_expire(self, group: str, before_ms: int) -> tuple[list[Record], Effect]:
        old = frozenset(self._groups.get(group).older_than(before_ms))
        written, effect = self._plan_delete(group, old)

        def count() -> int:
            effect()
            return len(old)

        return written, count

    # -- one after the other --

    def _change(self, group: str | None, plan: Plan) -> Deferred[Any]:
        """
        Make a change when it is its turn.

        @param group: the one that it concerns; C{None} has it made while nothing else is under way.
        """
        if self._closed is not None:
            return fail(Closed())
        return self._enqueue(_Change(group, plan, is_alone=group is None))

    def _enqueue(self, change: _Change) -> Deferred[Any]:
        self._waiting.append(change)
        self._go_on()
        return change.answer

    def _go_on(self) -> None:
        """Write what can be written now; never within itself, which would turn the order around."""
        if self._is_going_on:
            return
        self._is_going_on = True
        while self._waiting and not self._is_alone:
            if self._waiting[0].is_alone:
                if self._under_way:
                    break
                self._is_alone = True
            self._write(self._waiting.popleft())
        self._is_going_on = False

    def _write(self, change: _Change) -> None:
        self._under_way.append(change)
        if change.group is not None:
            self._promise(change.group).changes += 1
        try:
            written, change.effect = change.plan()
            done = self._append(written) if written else None
        except Exception:  # Whatever it was belongs to who asked; the others have their turn.
            done = fail()
        deferred(done).addBoth(self._written, change).addErrback(self._report_defect)

    def _append(self, written: list[Record]) -> Result[None]:
        batch = records.build(written, now_ms=self._wall.now_ms())
        self.journal_bytes += batch.size
        return self._journal.append(batch)

    def _written(self, outcome: Any, change: _Change) -> None:
        """Whoever comes first in the journal is seen and answered first, whatever is heard first."""
        change.outcome, change.is_written = outcome, True
        while self._under_way and self._under_way[0].is_written:
            self._settle(self._under_way.popleft())
        self._go_on()
        self._snapshot_if_due()
        self._close_if_idle()

    def _report_defect(self, failure: Failure) -> None:
        self._log.failure("offsets could not be brought up to date", failure)

    def _settle(self, change: _Change) -> None:
        if change.is_alone:
            self._is_alone = False
        if change.group is not None:
            self._keep_promise(change.group)
        if isinstance(change.outcome, Failure):
            change.answer.errback(change.outcome)
        else:
            change.answer.callback(change.effect())

    def _promise(self, group: str) -> _Promised:
        promised = self._promised.get(group)
        if promised is None:
            known = self._groups.get(group)
            promised = self._promised[group] = _Promised(known.generation, known.version)
        return promised

    def _keep_promise(self, group: str) -> None:
        self._promised[group].changes -= 1
        if not self._promised[group].changes:
            del self._promised[group]

    # -- keeping the journal small --

    def _snapshot_if_due(self) -> None:
        due = max(SNAPSHOT_BYTES_MIN, SNAPSHOT_RATIO * self._snapshot_bytes)
        if self.journal_bytes >= due and self._snapshot is None and self._closed is None:
            self.snapshot()

    def snapshot(self) -> Deferred[None]:
        """Write everything to the end of the journal, and give up what is before.  Never fails."""
        done: Deferred[None] = Deferred()
        running = self._snapshot
        if running is None:
            running = self._snapshot = Deferred()
            self._write_snapshot().addBoth(self._snapshot_ended, running)
        running.addCallback(lambda _: done.callback(None))
        return done

    @inlineCallbacks
    def _write_snapshot(self) -> Generator[Deferred[Any], Any, None]:
        mark = yield self._alone(self._begin_snapshot)
        left, size = deque(self._groups.everyone()), 0
        while left:
            size += yield self._alone(partial(self._plan_piece, left))
            yield deferLater(self._clock, 0)  # Clients have their turn.
        yield self._journal.forget_before(mark)
        self._snapshot_bytes = size

    def _alone(self, plan: Plan) -> Deferred[Any]:
        if self._closed is not None:
            return fail(Closed())
        return self._enqueue(_Change(None, plan, is_alone=True))

    def _begin_snapshot(self) -> tuple[list[Record], Effect]:
        mark = self._journal.mark()
        self.journal_bytes = 0
        return [], lambda: mark

    def _plan_piece(self, left: deque[str]) -> tuple[list[Record], Effect]:
        piece: list[Record] = []
        size = 0
        while left and len(piece) < PIECE_RECORDS and size < PIECE_BYTES:
            name = left.popleft()
            added = self._writer.everything(name, self._groups.get(name))
            size += sum(map(_about_bytes, added))
            piece += added
        return piece, lambda: size

    def _snapshot_ended(self, outcome: Any, ended: Deferred[None]) -> None:
        self._snapshot = None
        if isinstance(outcome, Failure) and not outcome.check(Closed):
            # What was there is there; it is tried again when as much has been written once more.
            self.journal_bytes = 0
            self._log.error("the journal of offsets is not shortened: {error}", error=outcome.value)
        ended.callback(None)
        self._close_if_idle()

    # -- the end --

    def close(self) -> Deferred[None]:
        if self._closed is None:
            self._closed = Deferred()
            self._close_if_idle()
        done: Deferred[None] = Deferred()
        self._closed.addBoth(_pass_on, done)
        return done

    def _close_if_idle(self) -> None:
        is_idle = not self._waiting and not self._under_way and self._snapshot is None
        if self._closed is not None and is_idle and not self._closed.called:
            self._journal.close().chainDeferred(self._closed)


def _about_bytes(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD_BYTES


def _pass_on(outcome: Any, waiting: Deferred[Any]) -> Any:
    waiting.callback(outcome)
    return None if isinstance(outcome, Failure) else outcome
