"""
L{Consumer}: the at-least-once loop, as an iterator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Protocol, TypeVar

from rustlog.client.consuming import Batch, ConsumerLogic, Ended, Pause, Steps, Subscription
from rustlog.client.errors import ClientError
from rustlog.client.exchange import Call
from rustlog.model import Record

T = TypeVar("T")


class Caller(Protocol):
    """What is needed of a client."""

    def do(self, call: Call[T]) -> T: ...


class Consumer:
    """
    Records, one by one.

    A record counts as processed when the next one is asked for.  What is processed is committed after each
    batch that the broker has sent, and by L{close}, which the end of a C{with} block calls.  So the record
    at which a loop was left comes again the next time; call L{commit} before C{break} if it was processed.
    """

    def __init__(self, caller: Caller, subscription: Subscription, sleep: Callable[[float], object]) -> None:
        self._caller = caller
        self._logic = ConsumerLogic(subscription)
        self._sleep = sleep
        self._is_open = False
        self._batch: Batch | None = None
        self._given = 0  # how many records of the batch have been handed out
        self._committed = 0  # how many of them are known to be processed, and remembered as such

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        if self._batch is None or self._given == len(self._batch.records):
            self._commit_first(self._given)
            self._batch = self.poll()
            self._given = self._committed = 0
            if self._batch is None:
                raise StopIteration
        self._given += 1
        return self._batch.records[self._given - 1]

    def poll(self) -> Batch | None:
        """
        The next records of some partition; waits for them.  C{None} at the end, where that is not waited at.
        Commit the batch yourself, with L{commit_batch}, when it has been processed.
        """
        if not self._is_open:
            self._run(self._logic.open())
            self._is_open = True
        while True:
            found = self._run(self._logic.poll())
            if isinstance(found, Batch):
                return found
            if isinstance(found, Ended):
                return None
            assert isinstance(found, Pause)
            self._sleep(found.seconds)

    def commit_batch(self, batch: Batch) -> None:
        """Everything in the batch has been processed."""
        self._run(self._logic.commit(batch.partition, batch.next_offset))

    def commit(self) -> None:
        """Everything that was handed out has been processed, the last record too."""
        self._commit_first(self._given)

    def close(self) -> None:
        """Commit what has been processed, and be done."""
        self._commit_first(self._given - 1)
        self._batch, self._given = None, 0

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        try:
            self.close()
        except ClientError:
            if kind is None:
                raise
            # What led here is the more interesting error; what is not committed comes again.

    def _commit_first(self, count: int) -> None:
        """So many records of the batch have been processed."""
        batch = self._batch
        if batch is None or count <= self._committed:
            return
        is_whole = count == len(batch.records)
        offset = batch.next_offset if is_whole else batch.records[count].offset
        assert offset is not None
        self._run(self._logic.commit(batch.partition, offset))
        self._committed = count

    def _run(self, steps: Steps[T]) -> T:
        try:
            call = next(steps)
            while True:
                call = steps.send(self._caller.do(call))
        except StopIteration as end:
            result: T = end.value
            return result
