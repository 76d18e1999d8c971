"""
What every store must do, as tests: L{LogStoreContract} and L{OffsetStoreContract}.

The author of a store, in this project or in another, mixes them into a test case and
says how the store is opened::

    class AcmeStoreTests(LogStoreContract, SynchronousTestCase):
        def open_store(self, environment):
            return open_store(AcmeSettings(data_dir=PurePath("/data")), environment)

The tests know nothing of the kind of store.  Every one of them is run through several courses of
events (L{Course}): in a world where nothing takes time, in one where disk and workers are slow, and with
L{late answers <rustlog.testing.delayed>} on top.  What the store does not claim to hold
(L{StoreLimits <rustlog.model.StoreLimits>}) is skipped, and the reason says so.
"""

from __future__ import annotations

from rustlog.testing.contracts.appending import AppendContract
from rustlog.testing.contracts.closing import CloseContract
from rustlog.testing.contracts.finding import FindContract
from rustlog.testing.contracts.harness import Course
from rustlog.testing.contracts.offsets import OffsetStoreContract
from rustlog.testing.contracts.producers import ProducerContract
from rustlog.testing.contracts.reading import ReadContract
from rustlog.testing.contracts.removing import RemoveContract
from rustlog.testing.contracts.reopening import ReopenContract
from rustlog.testing.contracts.topics import TopicContract
from rustlog.testing.contracts.walking import WalkContract
from rustlog.testing.contracts.watching import WatchContract

__all__ = ["Course", "LogStoreContract", "OffsetStoreContract", "VolatileLogStoreContract"]


class VolatileLogStoreContract(
    TopicContract,
    AppendContract,
    ProducerContract,
    ReadContract,
    WatchContract,
    FindContract,
    RemoveContract,
    CloseContract,
    WalkContract,
):
    """
    What L{ILogStore <rustlog.interfaces.ILogStore>} promises while the store is open: for stores
    that forget everything when they are closed (C{StoreLimits.durable} is false).

    Mix it into a C{SynchronousTestCase} and define C{open_store}, which is described at
    L{LogStoreHarness.open_store <rustlog.testing.contracts.harness.LogStoreHarness.open_store>}.
    """


class LogStoreContract(VolatileLogStoreContract, ReopenContract):
    """Everything that L{ILogStore <rustlog.interfaces.ILogStore>} promises."""
