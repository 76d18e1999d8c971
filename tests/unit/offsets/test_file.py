"""Tests for L{rustlog.offsets.file}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import StartupError
from rustlog.log import records
from rustlog.model import Committed, StoreLimits, TopicPartition
from rustlog.offsets.entries import Writer
from rustlog.testing.contracts import OffsetStoreContract
from rustlog.testing.environment import memory_environment, simulated_environment
from tests.unit.offsets.stores import DATA_DIR, FileStores

ORDERS_0 = TopicPartition("orders", 0)


class FileOffsetsContractTests(OffsetStoreContract, SynchronousTestCase):
    """The file offset store does what every offset store must do."""

    def open_store(self, environment: Any) -> Any:
        return FileStores().open(environment)


class FileOffsetsTests(SynchronousTestCase):
    """What is special about the files."""

    def setUp(self) -> None:
        self.environment = memory_environment()
        self.files = self.environment.files

    def finish(self, result: Deferred[Any]) -> Any:
        """The value of an answer."""
        outcomes: list[Any] = []
        result.addBoth(outcomes.append)
        self.environment.clock.pump([0.001] * 20)
        (outcome,) = outcomes
        if isinstance(outcome, Failure):
            outcome.raiseException()
        return outcome

    def open(self, sync: str = "always") -> Any:
        return self.finish(FileStores(sync).open(self.environment))

    def refusal(self) -> str:
        """Why it can not be opened."""
        with self.assertRaises(StartupError) as caught:
            self.open()
        return str(caught.exception)

    def test_in_use(self) -> None:
        """Two processes do not share them."""
        self.open()
        self.assertEqual(self.refusal(), "the offsets in /data/offsets are in use by another process")

    def test_released(self) -> None:
        """A closed store leaves no file open, and can be opened again."""
        self.finish(self.open().close())
        self.assertEqual(self.files.open_handles, 0)
        self.open()

    def test_can_not_be_opened(self) -> None:
        """A disk that does not want to is a reason not to start, and nothing stays open or locked."""
        for operation in ("make_directory", "lock", "open", "read", "sync", "sync_directory"):
            self.files.fail_call(1, operation=operation)
            self.assertIn("cannot open the offsets in /data/offsets: ", self.refusal(), operation)
            self.assertEqual(self.files.open_handles, 0, operation)
        self.open()

    def test_foreign_files(self) -> None:
        """Files that are called otherwise are left alone."""
        self.finish(self.open().close())
        for name in ("notes.log", "7.txt", "-1.log"):
            self.files.put(DATA_DIR / "offsets" / name, b"mine")
        store = self.open()
        self.finish(store.commit("g", {ORDERS_0: Committed(5)}))
        self.finish(store.snapshot())
        names = self.files.names(DATA_DIR / "offsets")
        self.assertEqual(set(names), {"LOCK", "1.log", "notes.log", "7.txt", "-1.log"})

    def test_many_files(self) -> None:
        """Files are read in the order of their numbers, which is not that of their names."""
        self.finish(self.open().close())
        writer = Writer(StoreLimits())
        for number in range(12):
            batch = records.build(writer.commit("g", {ORDERS_0: Committed(number)}, None), now_ms=1)
            self.files.put(DATA_DIR / "offsets" / f"{number}.log", bytes(batch.buffer))
        store = self.open()
        self.assertEqual(self.finish(store.fetch("g"))[ORDERS_0].offset, 11)
        self.finish(store.snapshot())
        self.assertEqual(self.files.names(DATA_DIR / "offsets"), ["12.log", "LOCK"])

    def test_interval(self) -> None:
        """Under --sync=MS a commit is answered when it is written, and on disk that much later."""
        store = self.open("250")
        done = store.commit("g", {ORDERS_0: Committed(5)})
        self.successResultOf(done)
        calls = self.files.calls
        self.environment.clock.advance(0.2)
        self.assertEqual(self.files.calls, calls)
        self.environment.clock.advance(0.05)
        self.environment = self.environment.after_crash()
        self.assertEqual(self.finish(self.open().fetch("g"))[ORDERS_0].offset, 5)

    def test_never(self) -> None:
        """Under --sync=never an orderly stop syncs all the same."""
        store = self.open("never")
        self.successResultOf(store.commit("g", {ORDERS_0: Committed(5)}))
        self.environment.clock.advance(100)
        self.finish(store.close())
        self.environment = self.environment.after_crash()
        self.assertEqual(self.finish(self.open().fetch("g"))[ORDERS_0].offset, 5)

    def test_snapshot_during_a_sync(self) -> None:
        """Old files are not closed while a worker may be syncing them."""
        for seed in range(20):
            self.environment = simulated_environment(seed)
            store = self.finish(FileStores("1").open(self.environment))
            for number in range(50):
                store.commit("g", {ORDERS_0: Committed(number)})
                self.environment.clock.advance(0.0015)
                if number % 10 == 0:
                    store.snapshot()
            self.environment.clock.pump([0.01] * 10)
            self.finish(store.close())
            self.assertEqual(self.environment.files.open_handles, 0)
