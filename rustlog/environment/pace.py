"""
Time and chance for programs without a reactor.  Nothing of Twisted is imported here.
"""

from __future__ import annotations

import random
import time
from typing import Protocol

from attrs import field, frozen


class Pace(Protocol):
    """Time and chance."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...

    def uniform(self, low: float, high: float) -> float: ...


@frozen
class SystemPace:
    """The clock and the chance of this machine."""

    _jitter: random.Random = field(factory=random.Random, init=False)

    def monotonic(self) -> float:
        """Seconds, from some moment on."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def uniform(self, low: float, high: float) -> float:
        """A float between the two."""
        return self._jitter.uniform(low, high)
