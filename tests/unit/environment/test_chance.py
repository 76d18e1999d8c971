"""Tests for L{rustlog.environment.chance}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog.environment.chance import SystemRandom
from rustlog.interfaces import IRandomSource


class SystemRandomTests(SynchronousTestCase):
    """Values that nobody can foretell."""

    def setUp(self) -> None:
        self.random = SystemRandom()

    def test_provides_interface(self) -> None:
        """It has every method, with the right arguments."""
        verifyObject(IRandomSource, self.random)

    def test_uuid(self) -> None:
        """Every identifier is a fresh one, marked as random."""
        found = {self.random.uuid() for _ in range(100)}
        self.assertEqual(len(found), 100)
        self.assertEqual({each.version for each in found}, {4})

    def test_uniform(self) -> None:
        """Numbers lie between the bounds, and differ."""
        found = {self.random.uniform(2.0, 3.0) for _ in range(100)}
        self.assertGreater(len(found), 1)
        self.assertTrue(all(2.0 <= each <= 3.0 for each in found))
