"""Tests for L{rustlog.environment.clocks}."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from twisted.internet.base import ReactorBase
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

import rustlog
from rustlog.environment.clocks import SystemWallClock, make_monotonic
from rustlog.interfaces import IWallClock


class StillReactor(ReactorBase):
    """Twisted's own timers, without anything to wait on."""

    def installWaker(self) -> None:
        """There is nothing to wake."""


class Times:
    """The two clocks of a machine, in the hands of a test."""

    wall = 1_000_000.0
    monotonic = 50.0

    def pass_seconds(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


class MakeMonotonicTests(SynchronousTestCase):
    """A reactor that does not believe the wall clock."""

    def setUp(self) -> None:
        self.times = Times()
        self.patch(time, "monotonic", lambda: self.times.monotonic)
        self.reactor: Any = StillReactor()
        self.reactor.seconds = lambda: self.times.wall
        self.called: list[str] = []

    def due(self) -> list[str]:
        """What has been called by now."""
        self.reactor.runUntilCurrent()
        return self.called

    def test_clock_set_back(self) -> None:
        """A timer comes when it is due, though the wall clock was set back by an hour."""
        make_monotonic(self.reactor)
        self.reactor.callLater(10, self.called.append, "timer")
        self.times.wall -= 3600
        self.times.pass_seconds(9)
        self.assertEqual(self.due(), [])
        self.times.pass_seconds(1)
        self.assertEqual(self.due(), ["timer"])

    def test_clock_set_forward(self) -> None:
        """A timer does not come early because the wall clock was set forward."""
        make_monotonic(self.reactor)
        self.reactor.callLater(10, self.called.append, "timer")
        self.times.wall += 3600
        self.assertEqual(self.due(), [])
        self.assertEqual(self.reactor.timeout(), 10)

    def test_waiting_timers(self) -> None:
        """Timers that were set before come when they are due."""
        self.reactor.callLater(10, self.called.append, "old")
        self.times.pass_seconds(5)
        make_monotonic(self.reactor)
        self.times.wall -= 3600
        self.times.pass_seconds(4)
        self.assertEqual(self.due(), [])
        self.times.pass_seconds(1)
        self.assertEqual(self.due(), ["old"])

    def test_waiting_timer_is_reset(self) -> None:
        """A timer that was set before can be put off after the wall clock has jumped."""
        call = self.reactor.callLater(10, self.called.append, "old")
        make_monotonic(self.reactor)
        self.times.wall += 3600
        call.reset(20)
        self.times.pass_seconds(19)
        self.assertEqual(self.due(), [])
        self.times.pass_seconds(1)
        self.assertEqual(self.due(), ["old"])

    def test_goes_on_from_the_old_clock(self) -> None:
        """The new clock shows what the old one did, so that times can be compared."""
        make_monotonic(self.reactor)
        self.assertEqual(self.reactor.seconds(), 1_000_000.0)
        self.times.pass_seconds(2.5)
        self.assertEqual(self.reactor.seconds(), 1_000_002.5)

    def test_twice(self) -> None:
        """Doing it again changes nothing."""
        make_monotonic(self.reactor)
        clock = self.reactor.seconds
        self.times.wall -= 3600
        make_monotonic(self.reactor)
        self.assertIs(self.reactor.seconds, clock)


PROGRAM = """
import sys, time
from importlib import import_module
import_module("twisted.internet." + sys.argv[1]).install()
from twisted.internet import reactor
from rustlog.environment.clocks import make_monotonic

reactor.callLater(0.001, print, "old", flush=True)
make_monotonic(reactor)
time.time = lambda: 0.0
reactor.callLater(0.002, print, "new", flush=True)
reactor.callLater(0.003, reactor.stop)
reactor.run()
"""


class RealReactorTests(SynchronousTestCase):
    """The same with the reactors that people use, each in a process of its own."""

    def check(self, reactor_name: str) -> None:
        command = [sys.executable, "-c", PROGRAM, reactor_name]
        # Test runners change the directory: say where the package is.
        environment = {**os.environ, "PYTHONPATH": str(Path(rustlog.__file__).parents[1])}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=environment
        )
        self.assertEqual((done.stdout, done.stderr), ("old\nnew\n", ""))

    def test_select(self) -> None:
        """The select reactor runs its timers in order."""
        self.check("selectreactor")

    def test_default(self) -> None:
        """The platform's default reactor runs its timers in order."""
        self.check("default")

    def test_asyncio(self) -> None:
        """The asyncio reactor runs its timers in order."""
        self.check("asyncioreactor")


class SystemWallClockTests(SynchronousTestCase):
    """The time of day."""

    def test_milliseconds(self) -> None:
        """It is told in whole milliseconds since the epoch."""
        self.patch(time, "time_ns", lambda: 1_700_000_000_123_999_999)
        clock = SystemWallClock()
        verifyObject(IWallClock, clock)
        self.assertEqual(clock.now_ms(), 1_700_000_000_123)
