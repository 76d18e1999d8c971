"""Tests for L{rustlog.storage.sync}."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import PurePath
from random import Random

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from rustlog.errors import Closed
from rustlog.interfaces import IStoreObserver
from rustlog.storage.sync import SyncRounds, Unsynced
from rustlog.testing.disk import SimulatedDisk
from tests.unit.storage.manual import ManualWorkers

ROOT = PurePath("/data")


class FileWriter:
    """Writes to one file, and remembers what it was told."""

    def __init__(self, disk: SimulatedDisk, name: str) -> None:
        self.path = ROOT / name
        self.file = disk.open(self.path, create=True)
        self.directories: tuple[PurePath, ...] = (ROOT,)
        self.end = 0
        self.durable = 0
        self.errors: list[Exception | None] = []
        self.when_told: Callable[[], object] = lambda: None

    def write(self, content: bytes = b"x") -> None:
        self.file.append([content])
        self.end += len(content)

    def take_unsynced(self) -> Unsynced:
        end = self.end

        def synced(error: Exception | None) -> None:
            self.errors.append(error)
            if error is None:
                self.durable = end
            self.when_told()

        return Unsynced((self.file,), self.directories, synced)


class SyncCase(SynchronousTestCase):
    """Has two writers, and rounds that go step by step."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk(Random(0))
        self.disk.make_directory(ROOT)
        self.clock = Clock()
        self.workers = ManualWorkers()
        self.rounds = SyncRounds(self.disk, self.workers, self.clock)
        self.a, self.b = FileWriter(self.disk, "a"), FileWriter(self.disk, "b")

    def write(self, *writers: FileWriter, delay_ms: int = 0) -> None:
        for each in writers:
            each.write()
            self.rounds.add(each, delay_ms)

    def run_round(self) -> None:
        self.clock.advance(0)
        self.workers.finish()


class GroupCommitTests(SyncCase):
    """One sync for everything that was written meanwhile."""

    def test_one(self) -> None:
        """A writer is told when what it wrote is durable, with its name."""
        self.write(self.a)
        self.assertEqual((self.rounds.count, self.workers.waiting), (0, 0))
        self.clock.advance(0)
        self.assertEqual((self.rounds.count, self.workers.waiting, self.a.errors), (1, 1, []))
        self.workers.finish()
        self.assertEqual(self.a.errors, [None])
        self.disk.crash()
        self.assertEqual(self.disk.content(self.a.path), b"x")

    def test_one_turn_shares_a_round(self) -> None:
        """All that is written in one turn of the reactor is synced together."""
        for _ in range(5):
            self.write(self.a, self.b)
        self.run_round()
        self.assertEqual((self.rounds.count, self.a.errors, self.b.errors), (1, [None], [None]))
        self.assertEqual((self.a.durable, self.b.durable), (5, 5))

    def test_one_round_at_a_time(self) -> None:
        """What is written during a round goes into the next one, which begins when that has ended."""
        self.write(self.a)
        self.clock.advance(0)
        self.write(self.a, self.b)
        self.clock.advance(5)
        self.assertEqual((self.rounds.count, self.workers.waiting), (1, 1))
        self.workers.finish()
        self.assertEqual((self.a.durable, self.b.durable), (1, 0))
        self.run_round()
        self.assertEqual((self.a.durable, self.b.durable), (2, 1))
        self.assertEqual((self.rounds.count, self.clock.getDelayedCalls()), (2, []))

    def test_end_is_captured_at_the_beginning(self) -> None:
        """What is written after a round has begun is not taken for durable when it ends."""
        self.write(self.a)
        self.clock.advance(0)
        self.a.write()
        self.workers.finish()
        self.assertEqual((self.a.end, self.a.durable), (2, 1))

    def test_write_when_told(self) -> None:
        """Who hears that a round has ended may write again at once."""
        self.a.when_told = lambda: self.write(self.a, self.b)
        self.write(self.a)
        for number in (1, 2, 3):
            self.run_round()
            self.assertEqual((self.a.durable, self.b.durable), (number, number - 1))
        self.a.when_told = lambda: None
        self.run_round()
        self.assertEqual((self.a.durable, self.b.durable, self.clock.getDelayedCalls()), (4, 3, []))


class DelayTests(SyncCase):
    """Rounds that begin after a while."""

    def test_delay(self) -> None:
        """A round begins so long after the first write that waits for it, not after the last."""
        self.write(self.a, delay_ms=100)
        self.clock.advance(0.06)
        self.write(self.b, delay_ms=100)
        self.clock.advance(0.03)
        self.assertEqual(self.workers.waiting, 0)
        self.clock.advance(0.011)
        self.workers.finish()
        self.assertEqual((self.a.durable, self.b.durable, self.rounds.count), (1, 1, 1))

    def test_hurry(self) -> None:
        """Who does not want to wait takes those along who would have."""
        self.write(self.a, delay_ms=1000)
        self.write(self.b)
        self.run_round()
        self.assertEqual((self.a.durable, self.b.durable), (1, 1))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_patience(self) -> None:
        """A later write with a longer delay does not put off an earlier one."""
        self.write(self.a, delay_ms=10)
        self.write(self.b, delay_ms=1000)
        self.clock.advance(0.011)
        self.assertEqual(self.workers.waiting, 1)

    def test_delay_after_a_long_round(self) -> None:
        """The delay counts from the write, also when the round before takes long."""
        self.write(self.a)
        self.clock.advance(0)
        self.write(self.b, delay_ms=100)
        self.clock.advance(0.07)
        self.workers.finish()
        self.clock.advance(0.02)
        self.assertEqual(self.workers.waiting, 0)
        self.clock.advance(0.011)
        self.assertEqual(self.workers.waiting, 1)
        self.write(self.a, delay_ms=100)
        self.clock.advance(5)
        self.workers.finish()
        self.clock.advance(0)
        self.assertEqual(self.workers.waiting, 1)


class FailureTests(SyncCase):
    """Syncs that fail."""

    def test_who_is_told(self) -> None:
        """A failed sync is told to the one whose file it is; the others are durable."""
        self.write(self.a, self.b)
        self.disk.fail_call(1, operation="sync")
        self.run_round()
        error = self.a.errors[0]
        assert isinstance(error, OSError)
        self.assertEqual((error.errno, self.b.errors), (errno.EIO, [None]))

    def test_never_retried(self) -> None:
        """A failed sync is not tried again by itself."""
        self.write(self.a)
        self.disk.fail_call(1, operation="sync")
        self.run_round()
        calls = self.disk.calls
        self.clock.advance(1000)
        self.assertEqual((self.disk.calls, self.workers.waiting, len(self.a.errors)), (calls, 0, 1))

    def test_directory(self) -> None:
        """A directory that could not be synced fails everyone who has a new name in it."""
        self.disk.make_directory(ROOT / "c")
        c = FileWriter(self.disk, "c/c")
        c.directories = (ROOT / "c",)
        self.write(self.a, self.b, c)
        self.disk.fail_call(1, operation="sync_directory")
        self.run_round()
        self.assertIsInstance(self.a.errors[0], OSError)
        self.assertIs(self.a.errors[0], self.b.errors[0])
        self.assertEqual(c.errors, [None])

    def test_directories_are_synced_once(self) -> None:
        """A directory in which many have new names is synced once."""
        self.write(self.a, self.b)
        self.disk.fail_call(2, operation="sync_directory")
        self.run_round()
        self.assertEqual((self.a.errors, self.b.errors), ([None], [None]))

    def test_broken_round(self) -> None:
        """When a whole round goes wrong, everyone in it is told, and the next one is made."""
        broken = [True]
        sync_many = self.disk.sync_many

        class Files:
            def sync_many(self, files: list[object]) -> object:
                return 1 // 0 if broken.pop() else sync_many(files)

            sync_directory = self.disk.sync_directory

        self.rounds = SyncRounds(Files(), self.workers, self.clock)
        self.write(self.a, self.b)
        self.run_round()
        self.assertIsInstance(self.a.errors[0], ZeroDivisionError)
        self.assertIsInstance(self.b.errors[0], ZeroDivisionError)
        broken.append(False)
        self.write(self.a)
        self.run_round()
        self.assertEqual(self.a.errors[1:], [None])

    def test_closed_workers(self) -> None:
        """Without workers nothing becomes durable, and everyone is told."""
        self.workers.close()
        self.write(self.a, self.b)
        self.clock.advance(0)
        self.assertIsInstance(self.a.errors[0], Closed)
        self.assertIsInstance(self.b.errors[0], Closed)
        self.successResultOf(self.rounds.idle())


class IdleTests(SyncCase):
    """Waiting for the end of it all."""

    def test_nothing_to_do(self) -> None:
        """When nothing is dirty, there is nothing to wait for."""
        self.successResultOf(self.rounds.idle())
        self.assertEqual((self.rounds.count, self.clock.getDelayedCalls()), (0, []))

    def test_delayed_round_is_hurried(self) -> None:
        """Who waits for the end does not wait for a delay."""
        self.write(self.a, delay_ms=1_000_000)
        idle = self.rounds.idle()
        self.run_round()
        self.successResultOf(idle)
        self.assertEqual((self.a.durable, self.clock.getDelayedCalls()), (1, []))

    def test_running_round(self) -> None:
        """A round that is running is waited for, and the one that must follow it."""
        self.write(self.a)
        self.clock.advance(0)
        idle = self.rounds.idle()
        self.write(self.b, delay_ms=1_000_000)
        self.workers.finish()
        self.assertNoResult(idle)
        self.run_round()
        self.successResultOf(idle)
        self.assertEqual((self.a.durable, self.b.durable), (1, 1))

    def test_several(self) -> None:
        """Any number may wait, also when the sync fails."""
        self.write(self.a)
        waiting = [self.rounds.idle(), self.rounds.idle()]
        self.disk.fail_call(1, operation="sync")
        self.run_round()
        for each in waiting:
            self.successResultOf(each)
        self.successResultOf(self.rounds.idle())

    def test_afterwards(self) -> None:
        """Later writes have their delay again."""
        self.write(self.a)
        idle = self.rounds.idle()
        self.run_round()
        self.successResultOf(idle)
        self.write(self.a, delay_ms=100)
        self.clock.advance(0.05)
        self.assertEqual(self.workers.waiting, 0)


@implementer(IStoreObserver)
class RecordingObserver:
    """Remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, float, bool]] = []

    def synced(self, files: int, seconds: float, failed: bool) -> None:
        self.heard.append((files, seconds, failed))


class ObserverTests(SyncCase):
    """Whoever wants to know hears of each round."""

    def setUp(self) -> None:
        super().setUp()
        self.observer = RecordingObserver()
        self.rounds = SyncRounds(self.disk, self.workers, self.clock, self.observer)

    def test_round(self) -> None:
        """How many files it was for, and how long it took."""
        self.write(self.a, self.b)
        self.clock.advance(0)
        self.clock.advance(0.25)
        self.assertEqual(self.observer.heard, [])
        self.workers.finish()
        self.assertEqual(self.observer.heard, [(2, 0.25, False)])

    def test_failed_round(self) -> None:
        """When one of them failed, that is told."""
        self.disk.fail_call(1, operation="sync")
        self.write(self.a, self.b)
        self.run_round()
        self.assertEqual(self.observer.heard, [(2, 0.0, True)])

    def test_closed_workers(self) -> None:
        """So is a round that could not even begin."""
        self.workers.close()
        self.write(self.a)
        self.clock.advance(0)
        self.assertEqual(self.observer.heard, [(1, 0.0, True)])
