"""Tests of L{rustlog.environment.process}."""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from attrs import define, field
from twisted.internet.error import ReactorNotRunning
from twisted.trial.unittest import SynchronousTestCase

from rustlog.environment import process as module
from rustlog.environment.process import STATUS_BYTES_MAX, Process


@define
class FakeReactor:
    """Runs when told so."""

    running: bool = False
    stops: int = 0
    waiting: list[Callable[[], object]] = field(factory=list)

    def callWhenRunning(self, callable: Callable[[], object]) -> None:
        if self.running:
            callable()
        else:
            self.waiting.append(callable)

    def callFromThread(self, callable: Callable[[], object]) -> None:
        callable()

    def stop(self) -> None:
        if not self.running or self.stops:
            raise ReactorNotRunning()
        self.stops += 1

    def run(self) -> None:
        self.running = True
        for each in self.waiting:
            each()


class ProcessTestCase(SynchronousTestCase):
    """Keeps the signals and the exit of the test's own process out of this."""

    def setUp(self) -> None:
        self.reactor = FakeReactor()
        self.handlers: dict[int, Any] = {}
        self.at_exit: list[Callable[[], object]] = []
        self.stderr = io.StringIO()
        self.patch(signal, "signal", self.handlers.__setitem__)
        self.patch(signal, "getsignal", lambda number: self.handlers.get(number, signal.SIG_DFL))
        self.patch(atexit, "register", self.at_exit.append)
        self.patch(sys, "__stderr__", self.stderr)

    def send(self, number: int) -> None:
        """The signal arrives."""
        handler: Callable[[int, FrameType | None], object] = self.handlers[number]
        handler(number, None)


class SignalTests(ProcessTestCase):
    def test_stop(self) -> None:
        """Either signal stops the reactor."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self.reactor = FakeReactor()
            Process(self.reactor).on_stop_signals(lambda: self.fail("it was the first one"))
            self.reactor.run()
            self.send(number)
            self.assertEqual(self.reactor.stops, 1)

    def test_again(self) -> None:
        """Each further signal is told to whoever can hurry."""
        hurries: list[int] = []
        Process(self.reactor).on_stop_signals(lambda: hurries.append(1))
        self.reactor.run()
        self.send(signal.SIGTERM)
        self.send(signal.SIGINT)
        self.send(signal.SIGTERM)
        self.assertEqual((self.reactor.stops, len(hurries)), (1, 2))

    def test_after_the_reactor(self) -> None:
        """The handlers come after those of the reactor, which are installed when it starts."""
        Process(self.reactor).on_stop_signals(lambda: None)
        self.assertEqual(self.handlers, {})

    def test_rotate(self) -> None:
        """SIGUSR1 rotates the log file."""
        rotations: list[int] = []
        Process(self.reactor).on_rotate_signal(lambda: rotations.append(1))
        self.send(signal.SIGUSR1)
        self.assertEqual(rotations, [1])

    def test_rotate_is_taken(self) -> None:
        """A handler that somebody else installed stays."""
        taken = object()
        self.handlers[signal.SIGUSR1] = taken
        Process(self.reactor).on_rotate_signal(lambda: None)
        self.assertIs(self.handlers[signal.SIGUSR1], taken)


class FailTests(ProcessTestCase):
    def test_one_line(self) -> None:
        """The reason is one line on stderr."""
        Process(self.reactor).fail("the port is taken")
        self.assertEqual(self.stderr.getvalue(), "rustlog: the port is taken\n")

    def test_before_running(self) -> None:
        """A failure before the reactor runs stops it as soon as it does."""
        Process(self.reactor).fail("no")
        self.assertEqual(self.reactor.stops, 0)
        self.reactor.run()
        self.assertEqual(self.reactor.stops, 1)

    def test_while_running(self) -> None:
        """A failure later on stops it at once."""
        self.reactor.run()
        Process(self.reactor).fail("no")
        self.assertEqual(self.reactor.stops, 1)

    def test_while_stopping(self) -> None:
        """A failure in the course of a stop does not stop it again."""
        self.reactor.run()
        self.reactor.stop()
        Process(self.reactor).fail("no")
        self.assertEqual(self.reactor.stops, 1)

    def test_status(self) -> None:
        """The process ends with status 1, once for all failures, and what it has said is written."""
        statuses: list[int] = []
        self.patch(os, "_exit", statuses.append)
        self.patch(sys, "__stdout__", None)
        process = Process(self.reactor)
        process.fail("one thing")
        process.fail("another")
        (end,) = self.at_exit
        end()
        self.assertEqual(statuses, [1])
        self.assertEqual(self.stderr.getvalue(), "rustlog: one thing\nrustlog: another\n")

    def test_no_stderr(self) -> None:
        """A process without stderr fails all the same."""
        self.patch(sys, "__stderr__", None)
        Process(self.reactor).fail("no")
        self.assertEqual(self.at_exit, [module._exit_with_failure])


class DaemonTests(ProcessTestCase):
    """C{twistd} waits for its daemon to say how the start went."""

    def setUp(self) -> None:
        super().setUp()
        self.reader, writer = os.pipe()
        self.addCleanup(os.close, self.reader)
        self.options: dict[str, Any] = {"statusPipe": writer}
        self.process = Process(self.reactor, self.options)
        self.process.start(lambda: None)

    def told(self) -> bytes:
        """All that was said; the other end has been closed."""
        return b"".join(iter(lambda: os.read(self.reader, 1000), b""))

    def test_takes_over(self) -> None:
        """Twisted no longer says that all is well before it is."""
        self.assertIsNone(self.options["statusPipe"])
        self.process.ready()

    def test_ready(self) -> None:
        """Success is what C{twistd} expects for it, once."""
        self.process.ready()
        self.process.ready()
        self.assertEqual(self.told(), b"0")

    def test_failure(self) -> None:
        """A failure is told with its reason, as far as there is room."""
        self.process.fail("the port is tåken " + "x" * 100)
        told = self.told()
        self.assertTrue(told.startswith(b"1 the port is t\\xe5ken xxx"), told)
        self.assertEqual(len(told), STATUS_BYTES_MAX)

    def test_failure_after_success(self) -> None:
        """What fails later is no business of whoever started us."""
        self.process.ready()
        self.process.fail("no")
        self.assertEqual(self.told(), b"0")

    def test_nobody_waits(self) -> None:
        """It does not matter if whoever started us is gone."""
        reader, writer = os.pipe()
        os.close(reader)
        process = Process(self.reactor, {"statusPipe": writer})
        process.start(lambda: None)
        process.ready()
        self.assertRaises(OSError, os.fstat, writer)
        self.process.ready()

    def test_begins_when_running(self) -> None:
        """What is to be started begins when the reactor runs, not before."""
        begun: list[int] = []
        self.process.start(lambda: begun.append(1))
        self.assertEqual(begun, [])
        self.reactor.run()
        self.assertEqual(begun, [1])

    def test_not_a_daemon(self) -> None:
        """In the foreground, and with C{twist}, there is nobody to tell."""
        process = Process(self.reactor, {})
        process.start(lambda: None)
        process.ready()
        self.process.ready()
        self.assertEqual(self.told(), b"0")
