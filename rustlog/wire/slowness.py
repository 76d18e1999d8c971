"""
Cutting off clients that hold memory and do nothing.

A client holds memory while a frame of it has begun to arrive, and while an answer waits for it to
be read.  One that has neither sent nor read a byte for a while loses its connection;
when others wait for memory, that while is a tenth of what it is otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime

LOOKS_PER_TIMEOUT = 30
"""How often, within the time that is allowed, clients are looked over."""

HURRY = 10
"""How much shorter that time is when others wait for memory."""


class Holder(Protocol):
    """A client that holds memory."""

    last_progress: float
    """When it last sent or read something."""

    def cut_off(self, reason: str) -> None:
        """Let it go, now."""


class SlowClients:
    """Those who hold memory; nothing ticks while there are none."""

    def __init__(self, clock: IReactorTime, timeout_ms: int, is_contended: Callable[[], bool]) -> None:
        self._clock = clock
        self._timeout_seconds = timeout_ms / 1000
        self._is_contended = is_contended
        self._holders: set[Holder] = set()
        self._look: IDelayedCall | None = None

    def watch(self, holder: Holder) -> None:
        """It holds memory from now on."""
        self._holders.add(holder)
        if self._look is None:
            self._look_later()

    def unwatch(self, holder: Holder) -> None:
        """It no longer does, or is gone."""
        self._holders.discard(holder)
        if not self._holders and self._look is not None:
            self._look.cancel()
            self._look = None

    def _look_later(self) -> None:
        self._look = self._clock.callLater(self._timeout_seconds / LOOKS_PER_TIMEOUT, self._look_now)

    def _look_now(self) -> None:
        self._look_later()
        allowed = self._timeout_seconds
        if self._is_contended():
            allowed /= HURRY
        now = self._clock.seconds()
        for each in [each for each in self._holders if now - each.last_progress >= allowed]:
            each.cut_off(f"it neither sent nor read anything for {now - each.last_progress:.1f} s")
