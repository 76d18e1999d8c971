"""Tests for L{rustlog.storage.memory}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rustlog.environment import Environment
from rustlog.storage.memory import MemorySettings, MemoryStore, open_store
from rustlog.testing.contracts import LogStoreContract


class MemoryStoreContractTests(LogStoreContract, SynchronousTestCase):
    """The memory store does what every log store must do."""

    def open_store(self, environment: Environment) -> MemoryStore:
        return open_store(MemorySettings(), environment)
