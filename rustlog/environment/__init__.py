"""
What the world is made of: disk, threads, time, chance.

Everything that rustlog does to the outside goes through an L{Environment}, so that a
whole broker runs inside one test over a simulated one (L{rustlog.testing}).  The modules
of this package are the only ones that may use C{os}, C{time}, C{random} and C{uuid4}.
"""

from __future__ import annotations

from attrs import frozen
from twisted.internet.interfaces import IReactorTime

from rustlog.interfaces import IFiles, IRandomSource, IWallClock, IWorkers


@frozen
class Environment:
    """
    The parts, to be handed down.

    C{clock} must be monotonic; what people call the time comes from C{wall}.
    """

    files: IFiles
    workers: IWorkers
    clock: IReactorTime
    wall: IWallClock
    random: IRandomSource
