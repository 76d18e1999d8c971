"""
L{Cluster}: tasks on Spark, with somebody watching.

A task is a value that can be pickled, and its work is a function of a module, so that workers find it.
What is bulky stays in the workers; what comes back is small.  While tasks run, the main thread only waits:
it is there for Ctrl-C, and tells how far the tasks are.
"""

from __future__ import annotations

import pickle
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from attrs import define, field

from rustlog.spark.errors import PipelineError
from rustlog.spark.jobs.errors import JobFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

Advance = Callable[[int], object]
"""Hears of so much more that is done."""

_LOOK_SECONDS = 0.1
_LOOKS_PER_WATCH = 5
_CANCEL_SECONDS_MAX = 20
_MARK = "rustlog-error:"


class Watch(Protocol):
    """Tells how much is done, of tasks that take long."""

    def __call__(self) -> int: ...

    def close(self) -> None: ...


class Tasks(Protocol):
    """
    Whatever runs tasks; L{Cluster} is one.

    @ivar parallelism: how many run at a time.
    """

    @property
    def parallelism(self) -> int: ...

    def run(
        self,
        name: str,
        tasks: Sequence[T],
        work: Callable[[T], R],
        weight: Callable[[T], int],
        advance: Advance,
        watch: Watch | None = None,
    ) -> list[R]:
        """
        Do all of them.

        @param weight: how much a task counts for C{advance}, when it is done.
        @param watch: asked now and then instead.
        @return: what they return, in the order of the tasks.
        @raise PipelineError: what one of them has raised; the others were cancelled.
        """


class _Told(Exception):
    """Brings an error from a worker to the driver, through a stack trace of Java."""


def _telling(work: Callable[[T], R], done: Any, weighed: tuple[T, int]) -> R:
    """Runs in workers."""
    try:
        result = work(weighed[0])
    except PipelineError as error:
        raise _Told(f"{_MARK}{b64encode(pickle.dumps(error)).decode('ascii')}.") from None
    done.add(weighed[1])
    return result


class Here:
    """Runs tasks in this process, one after the other: for tests, and for what is not worth a cluster."""

    parallelism = 1

    def run(
        self,
        name: str,
        tasks: Sequence[T],
        work: Callable[[T], R],
        weight: Callable[[T], int],
        advance: Advance,
        watch: Watch | None = None,
    ) -> list[R]:
        results = []
        for task in tasks:
            results.append(work(task))
            advance(weight(task))
        return results


@define(eq=False)
class Cluster:
    """
    Spark, started when it is needed for the first time.

    @ivar _start: gives the session.
    """

    _start: Callable[[], SparkSession]
    _session: SparkSession | None = field(default=None, init=False)

    @property
    def session(self) -> SparkSession:
        if self._session is None:
            self._session = _in_thread("start", self._start)
        return self._session

    @property
    def parallelism(self) -> int:
        context = self.session.sparkContext
        return _in_thread("parallelism", lambda: int(context.defaultParallelism))

    @property
    def is_started(self) -> bool:
        return self._session is not None

    def run(
        self,
        name: str,
        tasks: Sequence[T],
        work: Callable[[T], R],
        weight: Callable[[T], int],
        advance: Advance,
        watch: Watch | None = None,
    ) -> list[R]:
        """See L{Tasks.run}."""
        if not tasks:
            return []
        context = self.session.sparkContext
        done = context.accumulator(0)
        weighed = [(task, weight(task)) for task in tasks]

        def collect() -> list[R]:
            found: list[R] = (
                context.parallelize(weighed, len(weighed)).map(partial(_telling, work, done)).collect()
            )
            return found

        results: list[R] = self.wait(name, collect, lambda: done.value, advance, watch)
        return results

    def wait(
        self,
        name: str,
        action: Callable[[], Any],
        measure: Callable[[], int] = lambda: 0,
        advance: Advance = id,
        watch: Watch | None = None,
    ) -> Any:
        """
        Run something that makes Spark work, and watch it.  The main thread must not talk to Java itself:
        interrupted in the midst of that, it would tell everybody.

        @raise JobFailed: Spark could not do it.
        """
        seen = 0
        context = self.session.sparkContext
        running = _Running(name, partial(_in_group, context, name, action))
        try:
            looks = 0
            while not running.is_done(_LOOK_SECONDS):
                looks += 1
                if watch is None:
                    now = measure()
                else:
                    now = _if_possible(watch) if looks % _LOOKS_PER_WATCH == 1 else seen
                if now > seen:
                    advance(now - seen)
                    seen = now
        except KeyboardInterrupt:
            context.cancelJobGroup(name)
            running.is_done(_CANCEL_SECONDS_MAX)
            raise
        finally:
            if watch is not None:
                watch.close()
        advance(max(0, measure() - seen))
        return running.result()


def _if_possible(watch: Watch) -> int:
    """Who only watches must not stop those who work."""
    try:
        return watch()
    except PipelineError:
        return 0


class _Running:
    """An action in a thread of its own."""

    def __init__(self, name: str, action: Callable[[], Any]) -> None:
        self._action = action
        self._done = Event()
        self._result: Any = None
        self._error: Exception | None = None
        Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        try:
            self._result = self._action()
        except Exception as error:
            self._error = error
        finally:
            self._done.set()

    def is_done(self, patience_seconds: float) -> bool:
        return self._done.wait(patience_seconds)

    def result(self) -> Any:
        if self._error is not None:
            raise _explained(self._error) from self._error
        return self._result


def _in_thread(name: str, action: Callable[[], R]) -> R:
    """
    Not in the main thread: started there, Spark would answer Ctrl-C by itself, in the midst of anything.
    """
    running = _Running(name, action)
    while not running.is_done(_LOOK_SECONDS):
        pass  # An interrupt gets here, and not into a thread.
    result: R = running.result()
    return result


def _in_group(context: Any, name: str, action: Callable[[], Any]) -> Any:
    """What can be cancelled by its name."""
    context.setJobGroup(name, name, interruptOnCancel=True)
    return action()


def _explained(error: Exception) -> PipelineError:
    """What the worker said at last, without the stacks of three languages around it."""
    if isinstance(error, PipelineError):
        return error
    told = re.search(f"{_MARK}([A-Za-z0-9+/=]+)\\.", str(error))
    if told is not None:
        original: PipelineError = pickle.loads(b64decode(told[1]))
        return original
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(("at ", "File ", "Driver stacktrace", "..."))]
    causes = [line for line in said if "Error:" in line or "Exception:" in line]
    return JobFailed(f"Spark has failed: {(causes or said or [repr(error)])[-1]}")
