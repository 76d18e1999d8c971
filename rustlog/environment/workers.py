"""
L{ThreadWorkers}: a few threads for calls that block.

A call goes out through a C{SimpleQueue} and its result comes back with
C{callFromThread}: that is cheaper than C{deferToThread}, which goes through a team of
workers, and a sync waits for this hop every time.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar, Union

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorFromThreads
from twisted.python.failure import Failure
from zope.interface import implementer

from rustlog.errors import Closed
from rustlog.interfaces import IWorkers

THREADS_MAX = 4
"""One sync round, one cold read, one recovery or deletion, and one to spare."""

T = TypeVar("T")

_Call = tuple["Deferred[Any]", Callable[..., Any], tuple[Any, ...]]
_Queue = SimpleQueue[Union[_Call, None]]


@implementer(IWorkers)
@define(eq=False)
class ThreadWorkers:
    """
    Threads that are started when there is something to do for them.

    They are daemon threads, so that a process which fails while it starts can end; an
    orderly stop calls L{close}, which waits for what is running.  All methods are to be called
    on the reactor thread.
    """

    _reactor: IReactorFromThreads
    _threads_max: int = THREADS_MAX
    _calls: _Queue = field(factory=SimpleQueue, init=False)
    _threads: list[Thread] = field(factory=list, init=False)
    _outstanding: int = field(default=0, init=False)
    _closed: bool = field(default=False, init=False)
    _closing: list[Deferred[None]] = field(factory=list, init=False)

    def run(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        """See L{IWorkers.run}; fails with C{Closed} after L{close}."""
        if self._closed:
            return fail(Closed())
        self._outstanding += 1
        if len(self._threads) < min(self._outstanding, self._threads_max):
            self._start_thread()
        result: Deferred[T] = Deferred()
        self._calls.put((result, function, arguments))
        return result

    def close(self) -> Deferred[None]:
        """See L{IWorkers.close}; queued calls are done, too."""
        self._closed = True
        if not self._outstanding:
            self._stop_threads()
            return succeed(None)
        waiter: Deferred[None] = Deferred()
        self._closing.append(waiter)
        return waiter

    def _start_thread(self) -> None:
        name = f"rustlog-worker-{len(self._threads)}"
        thread = Thread(target=self._work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _stop_threads(self) -> None:
        for _ in self._threads:
            self._calls.put(None)
        self._threads.clear()

    def _work(self) -> None:
        """The life of a thread."""
        while (call := self._calls.get()) is not None:
            deferred, function, arguments = call
            try:
                result = function(*arguments)
            except BaseException:
                # Whatever it was belongs to the one who asked; the thread is needed further on.
                result = Failure()
            self._reactor.callFromThread(self._finish, deferred, result)
            # An idle thread must not keep the last call's data alive.
            del call, deferred, function, arguments, result

    def _finish(self, deferred: Deferred[Any], result: Any) -> None:
        self._outstanding -= 1
        deferred.callback(result)
        if self._closed and not self._outstanding:
            self._stop_threads()
            closing, self._closing = self._closing, []
            for waiter in closing:
                waiter.callback(None)
