"""
L{Cell}: one group in memory, with its timer, those who wait for it, and its saves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from rustlog.errors import CoordinatorNotAvailable, NotCoordinator, RustlogError, VersionConflict
from rustlog.groups import documents
from rustlog.groups.reasons import Event
from rustlog.groups.state import Group
from rustlog.groups.values import Answer, Effect, Joined, Save, Synced
from rustlog.interfaces import IOffsetStore


class Cell:
    """
    Does what a group's state machine wants to have done.

    @ivar version: of the document in the store; 0 if there is none.
    @ivar users: how many are about to do something with it, and must not lose it.
    @ivar is_dropped: it is not looked after any more.
    """

    _log = Logger()

    def __init__(
        self,
        group: Group,
        version: int,
        *,
        store: IOffsetStore,
        clock: IReactorTime,
        tell: Callable[[Event], object],
        settled: Callable[[Cell], object],
    ) -> None:
        self.group = group
        self.version = version
        self.users = 0
        self.is_dropped = False
        self._store = store
        self._clock = clock
        self._tell = tell
        self._settled = settled
        self._last_ticket = 0
        self._waiting: dict[int, Deferred[Any]] = {}
        self._saves: deque[Save] = deque()
        self._is_saving = False
        self._saves_done: list[Deferred[None]] = []
        self._is_settling = False
        self._is_retired = False
        self._timer: IDelayedCall | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it can be forgotten, and found in the store again."""
        return self.group.is_idle and not self.users and not self._is_saving

    # -- requests --

    @contextmanager
    def acting(self) -> Iterator[float]:
        """Something is done with the group, now; what follows from it is done at the end."""
        try:
            yield self._clock.seconds()
        finally:
            self.settle()

    def ask(self, begin: Callable[[float, int], None]) -> Deferred[Any]:
        """
        Something is asked of the group that may take long.

        @param begin: called with the time and a ticket.
        @return: the answer; to be cancelled if nobody waits for it any more.
        """
        self._last_ticket += 1
        ticket = self._last_ticket
        waiting: Deferred[Any] = Deferred(lambda _: self._hang_up(ticket))
        self._waiting[ticket] = waiting
        try:
            with self.acting() as now:
                begin(now, ticket)
        except RustlogError as error:
            del self._waiting[ticket]
            return fail(error)
        return waiting

    def _hang_up(self, ticket: int) -> None:
        self._waiting.pop(ticket, None)
        with self.acting() as now:
            self.group.hang_up(now, ticket)

    def retire(self, error: RustlogError) -> None:
        """Let nobody wait any longer, and nobody's time run out."""
        self._is_retired = True
        self.stop_timer()
        with self.acting():
            self.group.abandon(error)

    def drop(self, error: RustlogError) -> None:
        """The same, and look after the group no more."""
        self.is_dropped = True
        self._saves.clear()
        self.retire(error)

    # -- effects --

    def settle(self) -> None:
        """
        Do what is to be done.  Not from within itself: an answer leads to the client's next request,
        perhaps at once.
        """
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while effects := self.group.take_effects():
                for each in effects:
                    self._carry_out(each)
        finally:
            self._is_settling = False
        self._set_timer()
        self._settled(self)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Answer):
            waiting = self._waiting.pop(effect.ticket, None)
            if waiting is not None:
                _fire(waiting, effect.outcome)
        elif isinstance(effect, Save):
            if not self.is_dropped:
                self._saves.append(effect)
                self._save_next()
        else:
            self._tell(effect.event)

    # -- time --

    def _set_timer(self) -> None:
        """Wake up when it is time; that may be too early, but not too late."""
        at = self.group.wake_at
        if self._is_retired or (self._timer is not None and self._timer.getTime() <= at):
            return
        self.stop_timer()
        if at < inf:
            self._timer = self._clock.callLater(max(at - self._clock.seconds(), 0), self._wake_up)

    def _wake_up(self) -> None:
        self._timer = None
        with self.acting() as now:
            self.group.expire(now)

    def stop_timer(self) -> None:
        """Nothing becomes due any more."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    # -- saving --

    def saves_done(self) -> Deferred[None]:
        """Fires once no document is on its way to the store."""
        if not self._is_saving:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._saves_done.append(done)
        return done

    def _save_next(self) -> None:
        """One at a time: each has to know the version that the one before has got."""
        if self._is_saving or not self._saves:
            return
        self._is_saving = True
        save = self._saves.popleft()
        document = documents.encode(save.remembered)
        saving = maybeDeferred(self._store.save, self.group.name, self.version, document)
        saving.addCallbacks(self._saved, self._not_saved, callbackArgs=(save,), errbackArgs=(save,))

    def _saved(self, version: int, save: Save) -> None:
        self.version = version
        self._end_save(save, None)

    def _not_saved(self, failure: Failure, save: Save) -> None:
        error = failure.value
        if not isinstance(error, RustlogError):
            self._log.failure("group {group!r} was not saved", failure, group=self.group.name)
            error = CoordinatorNotAvailable(self.group.name, "it could not be saved")
        else:
            self._log.error("group {group!r} was not saved: {error}", group=self.group.name, error=error)
        self._end_save(save, error)

    def _end_save(self, save: Save, error: RustlogError | None) -> None:
        self._is_saving = False
        if isinstance(error, VersionConflict):
            # Somebody else has saved it: it is not ours.
            self.drop(NotCoordinator(self.group.name))
        else:
            with self.acting() as now:
                self.group.saved(now, save.number, error)
        self._save_next()
        if not self._is_saving:
            done, self._saves_done = self._saves_done, []
            for each in done:
                each.callback(None)
            self._settled(self)


def _fire(waiting: Deferred[Any], outcome: Joined | Synced | RustlogError) -> None:
    if isinstance(outcome, RustlogError):
        waiting.errback(outcome)
    else:
        waiting.callback(outcome)
