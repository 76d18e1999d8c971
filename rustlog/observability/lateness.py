"""
L{Lateness}: how late timers are, which is how long everybody else has to wait.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime

INTERVAL_SECONDS = 1.0
"""Between two looks: seldom enough to cost nothing, often enough to see what hurts."""


@define(eq=False)
class Lateness:
    """
    Sets itself a timer again and again.

    It is no C{LoopingCall}: that skips what it missed, and forgets how late it was.

    @ivar _observe: told of each timer, in seconds.
    """

    _clock: IReactorTime
    _observe: Callable[[float], object]
    _timer: IDelayedCall | None = field(default=None, init=False)

    def start(self) -> None:
        """Measure from now on."""
        self._timer = self._clock.callLater(
            INTERVAL_SECONDS, self._look, self._clock.seconds() + INTERVAL_SECONDS
        )

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, due: float) -> None:
        self._observe(max(0.0, self._clock.seconds() - due))
        self.start()
