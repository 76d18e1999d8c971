"""Tests for L{rustlog.environment.real}."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog.environment.clocks import MonotonicSeconds
from rustlog.environment.real import real_environment
from rustlog.interfaces import IFiles, IRandomSource, IWallClock, IWorkers


class RealEnvironmentTests(SynchronousTestCase):
    """The parts, joined."""

    def test_parts(self) -> None:
        """Every part is there and does what its interface says; the reactor's clock is monotonic."""
        reactor = Clock()
        environment = real_environment(reactor)
        verifyObject(IFiles, environment.files)
        verifyObject(IWorkers, environment.workers)
        verifyObject(IWallClock, environment.wall)
        verifyObject(IRandomSource, environment.random)
        self.assertIs(environment.clock, reactor)
        self.assertIsInstance(reactor.seconds, MonotonicSeconds)
