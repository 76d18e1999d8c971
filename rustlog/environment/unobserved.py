"""What stores tell when nobody wants to know."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from rustlog.interfaces import IStoreObserver


@implementer(IStoreObserver)
@frozen
class Unobserved:
    """Forgets all of it."""

    def synced(self, files: int, seconds: float, failed: bool) -> None:
        """See L{IStoreObserver.synced}."""
