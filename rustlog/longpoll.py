"""
L{LongPoll}: one fetch that waits until there is enough to answer.

It reads; if that is too little it watches the partitions, and reads again each time that
one of them has moved, until there is enough, something is wrong, or the time is over.
Nothing is held while it waits: what was too little is released at once and read again
when the time is over.  One that is cancelled, even in the middle of a read, leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Union

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from rustlog.errors import RustlogError
from rustlog.interfaces import IPartition
from rustlog.log.batch import split_batches
from rustlog.model import Fetched, Isolation
from rustlog.results import Result, deferred

Answers = list[Union[Fetched, RustlogError]]
Wants = list[tuple[IPartition, int, int]]
"""What L{ILogStore.read <rustlog.interfaces.ILogStore.read>} takes."""

Watch = Callable[[IPartition, Callable[[IPartition], object]], Callable[[], object]]


def is_enough(answers: Answers, wants: Wants, min_bytes: int, isolation: Isolation) -> bool:
    """
    Whether there is no reason to wait: enough bytes, an error, nothing that could come; or
    there is more, but whole batches of it do not fit, so that waiting would not help.
    """
    size = 0
    for answer in answers:
        if not isinstance(answer, Fetched):
            return True
        size += answer.size
    if size >= min_bytes or not answers:
        return True
    return size > 0 and any(
        _reached(answer, offset) < _end(answer, isolation)
        for answer, (_, offset, _) in zip(answers, wants, strict=True)
        if isinstance(answer, Fetched)
    )


def _reached(fetched: Fetched, offset: int) -> int:
    """The offset that follows what was read."""
    if fetched.slices:
        for batch in split_batches(fetched.slices[-1].buffer()):
            offset = batch.next_offset
    return offset


def _end(fetched: Fetched, isolation: Isolation) -> int:
    if isolation is Isolation.READ_COMMITTED:
        return fetched.last_stable_offset
    return fetched.high_watermark


def release(answers: Answers) -> None:
    """Give back what will not be used."""
    for answer in answers:
        if isinstance(answer, Fetched):
            answer.release()


class LongPoll:
    """
    A fetch under way.  It never cancels a read of the store: one that comes too late is
    awaited and released.
    """

    def __init__(
        self, read: Callable[[], Result[Answers]], suffices: Callable[[Answers], bool]
    ) -> None:
        self._read = read
        self._suffices = suffices
        self._answer: Deferred[Answers] = Deferred(lambda _: self._stop())
        self._stopped = False
        self._reading = False
        self._moved_while_reading = False
        self._last_try = True
        self._timer: IDelayedCall | None = None
        self._unwatch: list[Callable[[], object]] = []

    def start(self, first: Result[Answers]) -> Deferred[Answers]:
        """Answer with what the first read, just begun, finds."""
        self._await(deferred(first))
        return self._answer

    def wait(
        self,
        first: Result[Answers],
        clock: IReactorTime,
        seconds: float,
        watch: Watch,
        partitions: Iterable[IPartition],
    ) -> Deferred[Answers]:
        """
        Answer when there is enough, or after C{seconds}.

        To be called in the same turn of the reactor as the first read, so that no
        change can pass between reading and watching.
        """
        self._last_try = False
        self._timer = clock.callLater(seconds, self._time_is_over)
        self._unwatch = [watch(each, self._moved) for each in partitions]
        return self.start(first)

    # -- events --

    def _moved(self, partition: IPartition) -> None:
        if self._reading:
            self._moved_while_reading = True
        elif not self._stopped:
            self._read_again()

    def _time_is_over(self) -> None:
        self._timer = None
        self._last_try = True
        if not self._reading:
            self._read_again()

    def _read_again(self) -> None:
        self._moved_while_reading = False
        self._await(maybeDeferred(lambda: deferred(self._read())))

    def _await(self, reading: Deferred[Answers]) -> None:
        self._reading = True
        reading.addCallbacks(self._found, self._failed)

    def _found(self, answers: Answers) -> None:
        self._reading = False
        if self._stopped:
            release(answers)
        elif self._last_try or self._suffices(answers):
            self._stop()
            self._answer.callback(answers)
        else:
            release(answers)
            if self._moved_while_reading:
                self._read_again()

    def _failed(self, failure: Failure) -> None:
        self._reading = False
        if not self._stopped:
            self._stop()
            self._answer.errback(failure)

    def _stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for unwatch in self._unwatch:
            unwatch()
        self._unwatch = []
