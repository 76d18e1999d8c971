"""Tests for L{rustlog.environment.workers}."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from rustlog.environment.workers import THREADS_MAX, ThreadWorkers
from rustlog.errors import Closed
from rustlog.interfaces import IWorkers

PATIENCE_SECONDS = 30
"""Far more than any of this takes; only a broken test waits so long."""


@implementer(IReactorFromThreads)
class WaitingReactor:
    """Collects what threads ask for, until the test's thread does it."""

    def __init__(self) -> None:
        self._calls: Queue[tuple[Callable[..., Any], tuple[Any, ...]]] = Queue()

    def callFromThread(self, callable: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self._calls.put((callable, args))

    def do_next(self) -> None:
        """Wait for one call, and make it."""
        function, arguments = self._calls.get(timeout=PATIENCE_SECONDS)
        function(*arguments)


class ThreadWorkersTests(SynchronousTestCase):
    """Calls that are made on other threads."""

    def setUp(self) -> None:
        self.reactor = WaitingReactor()
        self.workers = ThreadWorkers(self.reactor)
        self.gate = threading.Event()
        self.addCleanup(self.workers.close)
        self.addCleanup(self.gate.set)

    def wait_at_gate(self) -> None:
        if not self.gate.wait(PATIENCE_SECONDS):
            raise AssertionError("nobody opened the gate")

    def test_provides_interface(self) -> None:
        """It has every method, with the right arguments."""
        verifyObject(IWorkers, self.workers)

    def test_result(self) -> None:
        """The result of a call comes back on the reactor thread."""
        result = self.workers.run(divmod, 7, 2)
        self.assertNoResult(result)
        self.reactor.do_next()
        self.assertEqual(self.successResultOf(result), (3, 1))

    def test_other_thread(self) -> None:
        """A call is made on a thread of its own kind, which does not keep the process from ending."""
        result = self.workers.run(threading.current_thread)
        self.reactor.do_next()
        thread = self.successResultOf(result)
        self.assertIsNot(thread, threading.current_thread())
        self.assertTrue(thread.daemon)

    def test_failure(self) -> None:
        """An exception comes back as a failure, and the thread goes on working."""
        bad, good = self.workers.run(divmod, 1, 0), self.workers.run(divmod, 1, 1)
        self.reactor.do_next()
        self.reactor.do_next()
        self.failureResultOf(bad, ZeroDivisionError)
        self.assertEqual(self.successResultOf(good), (1, 0))

    def test_exit_is_a_failure_too(self) -> None:
        """Even a call that tries to end the thread gives a result."""

        def leave() -> None:
            raise SystemExit(3)

        result = self.workers.run(leave)
        self.reactor.do_next()
        self.failureResultOf(result, SystemExit)

    def test_several_at_once(self) -> None:
        """A slow call does not hold up the others."""
        slow, quick = self.workers.run(self.wait_at_gate), self.workers.run(int, "7")
        self.reactor.do_next()
        self.assertEqual(self.successResultOf(quick), 7)
        self.assertNoResult(slow)
        self.gate.set()
        self.reactor.do_next()
        self.successResultOf(slow)

    def test_threads_are_few(self) -> None:
        """However many calls are waiting, there are only so many threads; all calls are made."""
        results = [self.workers.run(self.wait_at_gate) for _ in range(THREADS_MAX * 3)]
        self.assertEqual(len(self.workers._threads), THREADS_MAX)
        self.gate.set()
        for _ in results:
            self.reactor.do_next()
        for each in results:
            self.successResultOf(each)

    def test_threads_start_when_needed(self) -> None:
        """Calls that come one after the other need one thread."""
        self.assertEqual(self.workers._threads, [])
        for _ in range(5):
            self.workers.run(int)
            self.reactor.do_next()
        self.assertEqual(len(self.workers._threads), 1)

    def test_close_waits(self) -> None:
        """Closing waits for running and queued calls, then ends the threads."""
        results = [self.workers.run(self.wait_at_gate) for _ in range(THREADS_MAX + 1)]
        threads = list(self.workers._threads)
        closed = [self.workers.close(), self.workers.close()]
        self.gate.set()
        for _ in results:
            self.assertNoResult(closed[0])
            self.reactor.do_next()
        for waiter in closed:
            self.assertIsNone(self.successResultOf(waiter))
        for each in results:
            self.successResultOf(each)
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
            self.assertFalse(thread.is_alive())

    def test_close_when_idle(self) -> None:
        """Closing is done at once when nothing is running."""
        self.assertIsNone(self.successResultOf(self.workers.close()))

    def test_run_after_close(self) -> None:
        """A call after closing fails and is not made."""
        self.workers.close()
        self.failureResultOf(self.workers.run(self.fail), Closed)

    def test_close_from_a_result(self) -> None:
        """The one who gets the last result may close."""
        closed: list[Deferred[None]] = []
        result = self.workers.run(int)
        result.addCallback(lambda _: closed.append(self.workers.close()))
        self.reactor.do_next()
        self.successResultOf(closed[0])
