"""
Clients of the RustLog protocol.

Here is what programs with a reactor need.  Scripts use L{rustlog.client.blocking}, which has the same
methods and imports nothing of Twisted; lest it be imported all the same, the names below are looked up
when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rustlog.client.calls import FetchedRecords as FetchedRecords
    from rustlog.client.consumer import Consumer as Consumer
    from rustlog.client.consuming import Subscription as Subscription
    from rustlog.client.partitioning import partition_for as partition_for
    from rustlog.client.retrying import ClientSettings as ClientSettings
    from rustlog.client.twisted_client import Client as Client
    from rustlog.client.twisted_client import connect as connect
    from rustlog.model import Record as Record

_PLACES = {
    "Client": "rustlog.client.twisted_client",
    "ClientSettings": "rustlog.client.retrying",
    "Consumer": "rustlog.client.consumer",
    "FetchedRecords": "rustlog.client.calls",
    "Record": "rustlog.model",
    "Subscription": "rustlog.client.consuming",
    "connect": "rustlog.client.twisted_client",
    "partition_for": "rustlog.client.partitioning",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
