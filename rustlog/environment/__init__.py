"""
What the world is made of: disk, threads, time, chance.

Everything that rustlog does to the outside goes through an L{Environment}, so that a
whole broker runs inside one test over a simulated one (L{rustlog.testing}).  The modules
of this package are the only ones that may use C{os}, C{time}, C{random} and C{uuid4}.

Clients without a reactor use some of these modules.  So nothing of Twisted is imported here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

    from rustlog.interfaces import IFiles, IRandomSource, IStoreObserver, IWallClock, IWorkers


def _unobserved() -> IStoreObserver:
    from rustlog.environment.unobserved import Unobserved

    return Unobserved()


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
    observer: IStoreObserver = field(factory=_unobserved, kw_only=True)
