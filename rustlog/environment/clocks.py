"""
Time: the wall clock, and a reactor whose timers do not believe it.

C{reactor.seconds} is C{time.time} in Twisted.  When somebody sets the clock back by an hour,
every timer is an hour late.  L{make_monotonic} cures that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from attrs import define, frozen
from zope.interface import implementer

from rustlog.interfaces import IWallClock


@implementer(IWallClock)
@frozen
class SystemWallClock:
    """The time of day, as the machine knows it."""

    def now_ms(self) -> int:
        """See L{IWallClock.now_ms}."""
        return time.time_ns() // 1_000_000


@define(eq=False)
class MonotonicSeconds:
    """
    A replacement for C{reactor.seconds}: it goes on from what that said, but never jumps.
    """

    _origin: float

    def __call__(self) -> float:
        return self._origin + time.monotonic()


def make_monotonic(reactor: Any) -> None:
    """
    Make C{callLater} of a reactor independent of the wall clock, from now on.

    Every reactor of Twisted that derives from C{ReactorBase} (epoll, poll, select, kqueue,
    asyncio) computes with C{self.seconds()} alone.  The new clock begins at the time that the old one
    shows, so calls that are already waiting come when they are due; they are told of the
    new clock because C{reset} asks it.  A second call does nothing.
    """
    if isinstance(reactor.seconds, MonotonicSeconds):
        return
    old: Callable[[], float] = reactor.seconds
    new = MonotonicSeconds(old() - time.monotonic())
    reactor.seconds = new
    for call in reactor.getDelayedCalls():
        call.seconds = new
