"""
L{Consumer}: the at-least-once loop, for programs that run a reactor.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeVar, Union

from twisted.internet.defer import CancelledError, Deferred, succeed

from rustlog.client.consuming import Batch, ConsumerLogic, Ended, Pause, Steps, Subscription
from rustlog.client.twisted_client import Client
from rustlog.model import Record

T = TypeVar("T")

Process = Callable[[Record], Union[Awaitable[object], object]]


class Consumer:
    """
    Hands records to a function, one after the other, and commits after each batch of them.

    @param process: takes a record; may return something to wait for.  When it fails, what came before is
        committed, and
        the consumer ends with its error.
    """

    def __init__(self, client: Client, process: Process, subscription: Subscription) -> None:
        self._client = client
        self._process = process
        self._logic = ConsumerLogic(subscription)
        self._is_stopping = False
        self._polling: Deferred[Any] | None = None
        self._done: Deferred[None] | None = None
        self._stopped: list[Deferred[None]] = []

    def run(self) -> Deferred[None]:
        """
        Begin; to be called once.

        @return: fires after L{stop}, or at the end where that is not waited at; fails with what the
            processing, or the
            broker, failed with.
        """
        done = self._done = Deferred.fromCoroutine(self._loop())
        return done.addBoth(self._end)

    def stop(self) -> Deferred[None]:
        """
        Stop: the record at hand is processed, what was processed is committed, and no more is fetched.

        @return: fires when all of that is done.
        """
        self._is_stopping = True
        if self._done is None:
            return succeed(None)
        stopped: Deferred[None] = Deferred()
        self._stopped.append(stopped)
        if self._polling is not None:
            self._polling.cancel()
        return stopped

    def _end(self, outcome: T) -> T:
        self._done = None
        stopped, self._stopped = self._stopped, []
        for each in stopped:
            each.callback(None)
        return outcome

    async def _loop(self) -> None:
        try:
            await self._wait_for(self._run(self._logic.open()))
            while not self._is_stopping:
                found = await self._wait_for(self._run(self._logic.poll()))
                if isinstance(found, Ended):
                    return
                if isinstance(found, Pause):
                    await self._wait_for(self._client.pause(found.seconds))
                else:
                    await self._take(found)
        except CancelledError:
            if not self._is_stopping:
                raise

    async def _take(self, batch: Batch) -> None:
        """Process the records of a batch, and commit what was processed, whatever happens."""
        done = 0
        try:
            for record in batch.records:
                result = self._process(record)
                if isawaitable(result):
                    await result
                done += 1
                if self._is_stopping:
                    break
        finally:
            if done:
                is_whole = done == len(batch.records)
                offset = batch.next_offset if is_whole else batch.records[done].offset
                assert offset is not None
                await self._run(self._logic.commit(batch.partition, offset))

    async def _wait_for(self, waiting: Any) -> Any:
        """Wait for something that L{stop} may interrupt."""
        self._polling = Deferred.fromCoroutine(waiting) if not isinstance(waiting, Deferred) else waiting
        try:
            return await self._polling
        finally:
            self._polling = None

    async def _run(self, steps: Steps[T]) -> T:
        try:
            call = next(steps)
            while True:
                call = steps.send(await self._client.do(call))
        except StopIteration as end:
            result: T = end.value
            return result
