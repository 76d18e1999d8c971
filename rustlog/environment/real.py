"""Joins the real parts of the environment."""

from __future__ import annotations

from typing import Any

from rustlog.environment import Environment
from rustlog.environment.chance import SystemRandom
from rustlog.environment.clocks import SystemWallClock, make_monotonic
from rustlog.environment.files import RealFiles
from rustlog.environment.workers import ThreadWorkers


def real_environment(reactor: Any) -> Environment:
    """
    The machine that we run on.  The reactor's clock is made monotonic by this.

    @param reactor: provides C{IReactorTime} and C{IReactorFromThreads}.
    """
    make_monotonic(reactor)
    return Environment(
        files=RealFiles(),
        workers=ThreadWorkers(reactor),
        clock=reactor,
        wall=SystemWallClock(),
        random=SystemRandom(),
    )
