"""Chance: unpredictable values from the operating system."""

from __future__ import annotations

import random
import uuid

from attrs import field, frozen
from zope.interface import implementer

from rustlog.interfaces import IRandomSource


@implementer(IRandomSource)
@frozen
class SystemRandom:
    """
    What the operating system offers for identifiers; a generator seeded from it for
    jitter, where speed matters and nobody gains by guessing.
    """

    _jitter: random.Random = field(factory=random.Random, init=False)

    def uuid(self) -> uuid.UUID:
        """See L{IRandomSource.uuid}."""
        return uuid.uuid4()

    def uniform(self, low: float, high: float) -> float:
        """See L{IRandomSource.uniform}."""
        return self._jitter.uniform(low, high)
