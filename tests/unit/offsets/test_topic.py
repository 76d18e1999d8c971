"""Tests for L{rustlog.offsets.topic}."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.testing.contracts import OffsetStoreContract
from tests.unit.offsets.stores import (
    TopicStores,
    open_late_log,
    open_memory_log,
    open_plain_log,
)


class TopicOffsetsContractTests(OffsetStoreContract, SynchronousTestCase):
    """Over the C{segments} store, it does what every offset store must do."""

    def setUp(self) -> None:
        self.stores = TopicStores()

    def open_store(self, environment: Any) -> Any:
        return self.stores.open(environment)


class LateLogContractTests(TopicOffsetsContractTests):
    """The same over a log store whose answers are late and overtake each other."""

    def setUp(self) -> None:
        self.stores = TopicStores(open_late_log)


class MemoryLogContractTests(TopicOffsetsContractTests):
    """The same over a log store that answers at once."""

    def setUp(self) -> None:
        self.stores = TopicStores(open_memory_log)


class PlainLogContractTests(TopicOffsetsContractTests):
    """The same over a log store that holds neither headers nor null values."""

    def setUp(self) -> None:
        self.stores = TopicStores(open_plain_log)
