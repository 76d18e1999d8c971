"""Tests for L{rustlog.offsets.memory}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rustlog.environment import Environment
from rustlog.model import Committed, TopicPartition
from rustlog.offsets.memory import MemoryOffsets, MemoryOffsetsSettings, open_store
from rustlog.storage.memory import MemorySettings, MemoryStore
from rustlog.testing.contracts import OffsetStoreContract
from rustlog.testing.environment import memory_environment

ORDERS_0 = TopicPartition("orders", 0)


class MemoryOffsetsContractTests(OffsetStoreContract, SynchronousTestCase):
    """The memory offset store does what every offset store must do."""

    durable = False

    def open_store(self, environment: Environment) -> MemoryOffsets:
        return open_store(MemoryOffsetsSettings(), environment, MemoryStore(MemorySettings(), environment))


class MemoryOffsetsTests(SynchronousTestCase):
    """What is special about the memory offset store."""

    def open(self) -> MemoryOffsets:
        """A store of its own."""
        environment = memory_environment()
        return open_store(MemoryOffsetsSettings(), environment, MemoryStore(MemorySettings(), environment))

    def test_forgets(self) -> None:
        """Groups begin anew when the process does."""
        store = self.open()
        self.successResultOf(store.commit("billing", {ORDERS_0: Committed(5)}))
        self.successResultOf(store.close())
        self.assertEqual(self.successResultOf(self.open().groups()), ())

    def test_group_without_anything(self) -> None:
        """A group whose last offset is deleted is not listed any more."""
        store = self.open()
        self.successResultOf(store.commit("billing", {ORDERS_0: Committed(5)}))
        self.successResultOf(store.delete("billing", [ORDERS_0]))
        self.assertEqual(self.successResultOf(store.groups()), ())

    def test_document_is_copied(self) -> None:
        """A document may be saved from a buffer that is used again."""
        store = self.open()
        buffer = bytearray(b"document")
        self.successResultOf(store.save("billing", 0, buffer))
        buffer[:] = b"x" * 8
        self.assertEqual(self.successResultOf(store.load("billing")), (1, b"document"))
