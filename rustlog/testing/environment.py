"""
A world for tests: simulated disk, threads, time and chance, all from one seed.

    >>> from rustlog.testing.environment import simulated_environment
    >>> environment = simulated_environment(seed=7)
    >>> environment.clock.advance(1)

L{simulated_environment} is the harsh one: cold reads, late results, in any order.
L{memory_environment} is the mild one for tests that are about something else: every result is there
at once.  After a loss of power, L{SimulatedEnvironment.after_crash} gives the same disk to a
new process.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random  # noqa: TID251 - always a seeded one
from typing import Any, TypeVar, Union
from uuid import UUID

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from rustlog.environment import Environment
from rustlog.errors import Closed
from rustlog.interfaces import IRandomSource, IWallClock, IWorkers
from rustlog.testing.disk import SimulatedCrash, SimulatedDisk

DELAY_SECONDS_MAX = 0.01
"""The longest that a simulated worker takes."""

START_OF_TIME_MS = 1_700_000_000_000
"""What the wall clock shows at first: some day in November 2023."""

T = TypeVar("T")


@implementer(IWorkers)
@define(eq=False)
class SimulatedWorkers:
    """
    Workers whose calls take a random time, and overtake each other.

    What a function does happens at once or at the end of that time (a sync may come before or
    after what is written meanwhile); its result always comes at the end, from
    C{clock.advance}.  So does a L{SimulatedCrash}: nobody who waits for the result
    hears of it, C{advance} raises it.
    """

    _clock: IReactorTime
    _random: Random
    _delay_seconds_max: float = DELAY_SECONDS_MAX
    _outstanding: int = field(default=0, init=False)
    _closed: bool = field(default=False, init=False)
    _closing: list[Deferred[None]] = field(factory=list, init=False)

    def run(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        """See L{IWorkers.run}; fails with C{Closed} after L{close}."""
        if self._closed:
            return fail(Closed())
        self._outstanding += 1
        call = _Call(function, arguments)
        if self._random.random() < 0.5:
            call.outcome()
        delay = self._random.uniform(0, self._delay_seconds_max)
        self._clock.callLater(delay, self._finish, call)
        return call.deferred

    def close(self) -> Deferred[None]:
        """See L{IWorkers.close}."""
        self._closed = True
        if not self._outstanding:
            return succeed(None)
        waiter: Deferred[None] = Deferred()
        self._closing.append(waiter)
        return waiter

    def _finish(self, call: _Call) -> None:
        outcome = call.outcome()
        if isinstance(outcome, SimulatedCrash):
            raise outcome
        self._outstanding -= 1
        call.deferred.callback(outcome)
        if self._closed and not self._outstanding:
            closing, self._closing = self._closing, []
            for waiter in closing:
                waiter.callback(None)


@define(eq=False)
class _Call:
    """A call that happens once, whenever its outcome is first asked for."""

    _function: Callable[..., Any]
    _arguments: tuple[Any, ...]
    deferred: Deferred[Any] = field(factory=Deferred, init=False)
    _outcomes: list[Union[Any, Failure, SimulatedCrash]] = field(factory=list, init=False)

    def outcome(self) -> Any:
        """What it returns; a L{Failure} or L{SimulatedCrash} when it raises."""
        if not self._outcomes:
            self._outcomes.append(self._happen())
        return self._outcomes[0]

    def _happen(self) -> Any:
        try:
            return self._function(*self._arguments)
        except SimulatedCrash as crash:
            return crash
        except Exception:
            # As a thread would: it belongs to the one who asked.
            return Failure()


@implementer(IWorkers)
@define(eq=False)
class InlineWorkers:
    """Workers that are done before anybody can wait for them."""

    _closed: bool = field(default=False, init=False)

    def run(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        """See L{IWorkers.run}."""
        if self._closed:
            return fail(Closed())
        call = _Call(function, arguments)
        outcome = call.outcome()
        if isinstance(outcome, SimulatedCrash):
            raise outcome
        call.deferred.callback(outcome)
        return call.deferred

    def close(self) -> Deferred[None]:
        """See L{IWorkers.close}."""
        self._closed = True
        return succeed(None)


@implementer(IWallClock)
@define(eq=False)
class SettableWallClock:
    """A wall clock that goes with another clock, and can be set, as people do."""

    _clock: IReactorTime
    _origin_ms: int = START_OF_TIME_MS

    def now_ms(self) -> int:
        """See L{IWallClock.now_ms}."""
        return self._origin_ms + self._passed_ms()

    def set(self, now_ms: int) -> None:
        """Let it show a given time, and go on from there."""
        self._origin_ms = now_ms - self._passed_ms()

    def jump(self, milliseconds: int) -> None:
        """Set it forward, or back."""
        self._origin_ms += milliseconds

    def _passed_ms(self) -> int:
        return int(self._clock.seconds() * 1000)


@implementer(IRandomSource)
@frozen(eq=False)
class SeededRandom:
    """Values that are different each time, and the same in each run."""

    _random: Random

    def uuid(self) -> UUID:
        """See L{IRandomSource.uuid}."""
        return UUID(int=self._random.getrandbits(128), version=4)

    def uniform(self, low: float, high: float) -> float:
        """See L{IRandomSource.uniform}."""
        return self._random.uniform(low, high)


@frozen(eq=False)
class SimulatedEnvironment(Environment):
    """An L{Environment} whose parts are known to be simulated ones."""

    files: SimulatedDisk
    workers: SimulatedWorkers | InlineWorkers
    clock: Clock
    wall: SettableWallClock
    random: SeededRandom

    def after_crash(self) -> SimulatedEnvironment:
        """
        Cut the power, and give what is left of the disk to a new process.

        The wall clock goes on; timers and workers are new, so that nothing of the dead process
        is ever called again.
        """
        self.files.crash()
        clock = Clock()
        workers: SimulatedWorkers | InlineWorkers = InlineWorkers()
        if isinstance(self.workers, SimulatedWorkers):
            workers = SimulatedWorkers(clock, self.files.random)
        wall = SettableWallClock(clock, self.wall.now_ms())
        return SimulatedEnvironment(self.files, workers, clock, wall, self.random)


def simulated_environment(seed: int) -> SimulatedEnvironment:
    """A harsh world, the same one for the same seed."""
    random, clock = Random(seed), Clock()
    return SimulatedEnvironment(
        files=SimulatedDisk(random),
        workers=SimulatedWorkers(clock, random),
        clock=clock,
        wall=SettableWallClock(clock),
        random=SeededRandom(random),
    )


def memory_environment() -> SimulatedEnvironment:
    """A mild world, where nothing is cold and nothing takes time; always the same one."""
    random, clock = Random(0), Clock()
    return SimulatedEnvironment(
        files=SimulatedDisk(random, cold_probability=0.0),
        workers=InlineWorkers(),
        clock=clock,
        wall=SettableWallClock(clock),
        random=SeededRandom(random),
    )
