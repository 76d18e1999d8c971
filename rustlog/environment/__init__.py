"""
What the world is made of: disk, threads, time, chance.

Everything that rustlog does to the outside goes through an L{Environment}, so that a
whole broker runs inside one test over a simulated one (L{rustlog.testing}).  The modules
of this package are the only ones that may use C{os}, C{time}, C{random} and C{uuid4}.
"""

from __future__ import annotations

from attrs import field, frozen
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from rustlog.interfaces import IFiles, IRandomSource, IStoreObserver, IWallClock, IWorkers


@implementer(IStoreObserver)
@frozen
class Unobserved:
    """For when nobody wants to know."""

    def synced(self, files: int, seconds: float, failed: bool) -> None:
        """See L{IStoreObserver.synced}."""


@frozen
class Environment:
    """
    The parts, to be handed down.

    C{clock} must be monotonic; what people call the time comes from C{wall}.  Stores tell
    C{observer} what they do.
    """

    files: IFiles
    workers: IWorkers
    clock: IReactorTime
    wall: IWallClock
    random: IRandomSource
    observer: IStoreObserver = field(factory=Unobserved, kw_only=True)
