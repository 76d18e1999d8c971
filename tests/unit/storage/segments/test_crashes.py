"""
What was acknowledged survives: loss of power at any moment, and any call to the disk that fails.
"""

from __future__ import annotations

import contextlib
import errno
from random import Random

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog.errors import DamagedLog, PartitionFenced, RustlogError, StartupError, StorageFull
from rustlog.interfaces import IFencing
from rustlog.model import Appended
from rustlog.testing.disk import SimulatedCrash
from rustlog.testing.environment import memory_environment, simulated_environment
from tests.seeds import seeds
from tests.unit.storage.segments.lives import DATA_DIR, PARTITIONS, TOPIC, Lives, missing

LIVES = 4


class PowerLossTests(SynchronousTestCase):
    """The power fails, in one life after the other."""

    def test_acknowledged_records_survive(self) -> None:
        """Under --sync=always every acknowledged record is at its offset after any number of crashes."""
        for seed in seeds(150):
            self.live_and_die(seed)

    def live_and_die(self, seed: int) -> None:
        chance = Random(seed)
        lives = Lives(simulated_environment(seed))
        for life in range(LIVES):
            if chance.random() < 0.7:
                lives.environment.files.crash_at_call(chance.randint(1, 200))

            with contextlib.suppress(SimulatedCrash):
                lives.open()
                self.assertEqual(missing(lives), [], f"seed {seed}, life {life}")
                self.work(lives, chance)
            lives.die()
        lives.open()
        self.assertEqual(missing(lives), [], f"seed {seed}, in the end")

    def work(self, lives: Lives, chance: Random) -> None:
        """Send without waiting, let time pass, sometimes clean up."""
        for _ in range(chance.randint(1, 25)):
            for _ in range(chance.randint(0, 4)):
                lives.send(chance.randrange(PARTITIONS), chance.randint(1, 3))
            lives.pass_time(chance.choice((0.0, 0.001, 0.01, 40.0)))
            if chance.random() < 0.05:
                partition = lives.partition(0)
                lives.finish(lives.store.delete_records(partition, partition.high_watermark))
                lives.finish(lives.store.maintain())
            if chance.random() < 0.05:
                lives.close()
                lives.open()

    def test_what_was_read_once_reads_the_same(self) -> None:
        """Nobody sees a record under --sync=always that a crash could take back."""
        for seed in seeds(50):
            chance = Random(seed)
            lives = Lives(simulated_environment(seed))
            lives.open()
            for _ in range(20):
                lives.send(0)
                lives.pass_time(chance.choice((0.0, 0.001, 0.004)))
            seen = lives.stored(0)
            lives.die()
            lives.open()
            self.assertEqual({each: lives.stored(0).get(each) for each in seen}, seen, f"seed {seed}")

    def test_without_sync_a_prefix_survives(self) -> None:
        """Under --sync=never a crash may take the end of the log, and what is left has no holes."""
        for seed in seeds(50):
            chance = Random(seed)
            lives = Lives(simulated_environment(seed), sync="never")
            lives.open()
            for _ in range(30):
                lives.send(0, chance.randint(1, 3))
                lives.pass_time(chance.choice((0.0, 0.01, 40.0)))
            sent = dict(lives.acknowledged[0])
            lives.die()
            lives.open()
            stored = lives.stored(0)
            self.assertEqual(sorted(stored), list(range(len(stored))), f"seed {seed}")
            self.assertEqual(stored, {each: sent[each] for each in stored}, f"seed {seed}")
            self.assertEqual(lives.partition(0).leader_epoch, 1)


    def test_deleting_does_not_outrun_the_disk(self) -> None:
        """Whatever --sync says, what lies behind deleted records is on disk before they are gone."""
        for seed in seeds(50):
            for sync in ("never", "250"):
                lives = Lives(simulated_environment(seed), sync=sync)
                lives.open()
                for _ in range(10):
                    lives.finish(lives.send(0))
                lives.finish(lives.store.delete_records(lives.partition(0), 8))
                lives.die()
                lives.open()
                self.assertEqual(sorted(lives.stored(0)), [8, 9], f"seed {seed}, sync {sync}")


class FailingCallTests(SynchronousTestCase):
    """The disk refuses one call."""

    def test_every_call(self) -> None:
        """Whichever call fails, requests are answered, and after a restart nothing promised is missing."""
        call = 1
        while self.fail_one(call, errno.EIO):
            call += 1
        self.assertGreater(call, 50, "the scenario does not touch the disk")

    def test_every_call_on_a_full_disk(self) -> None:
        """The same when the reason is that the disk is full."""
        call = 1
        while self.fail_one(call, errno.ENOSPC):
            call += 1

    def fail_one(self, call: int, error: int) -> bool:
        """Whether the scenario makes that many calls."""
        lives = Lives(memory_environment())
        files = lives.environment.files
        files.fail_call(call, error)
        try:
            lives.open()
            for _ in range(6):
                lives.outcomes([lives.send(index, 2) for index in range(PARTITIONS)])
            store, catalog = lives.store, lives.store.catalog
            lives.outcomes([store.delete_records(lives.partition(0), 5), store.maintain()])
            lives.outcomes([catalog.create("other", 1, {}), catalog.delete("other")])
            lives.outcomes([store.allocate_producer_ids(1), store.maintain(), store.close()])
        except (StartupError, RustlogError):
            pass  # The first thing that was asked for was refused.
        reached = files.calls >= call
        lives.die()
        lives.open()
        self.assertEqual(missing(lives), [], f"call {call}")
        lives.finish(lives.send(0))
        self.assertEqual(missing(lives), [], f"call {call}")
        return reached


class FailureTests(SynchronousTestCase):
    """What clients hear when the disk is at fault."""

    def setUp(self) -> None:
        self.lives = Lives(memory_environment(), segment_bytes=100_000)
        self.lives.open()
        self.lives.finish(self.lives.send(0))
        self.files = self.lives.environment.files

    def test_failed_sync_fences(self) -> None:
        """After a failed sync the partition takes nothing more, but what was promised stays readable."""
        self.files.fail_call(1, operation="sync")
        waiting = [self.lives.send(0), self.lives.send(0)]
        for answer in self.lives.outcomes(waiting):
            self.assertIsInstance(answer, PartitionFenced)
        self.assertIsInstance(self.lives.finish(self.lives.send(0)), PartitionFenced)
        self.assertEqual(self.lives.stored(0), {0: b"value 0"})
        self.assertIsInstance(self.lives.finish(self.lives.send(1)), Appended, "others go on")

    def test_fenced_partitions_are_named(self) -> None:
        """The store tells which partitions are fenced, and why, until it is opened again."""
        store = self.lives.store
        assert store is not None
        verifyObject(IFencing, store)
        self.assertEqual(store.fenced(), [])
        self.files.fail_call(1, operation="sync")
        self.lives.outcomes([self.lives.send(0)])
        (fenced,) = store.fenced()
        self.assertEqual(fenced.partition.partition, 0)
        self.assertIn("sync failed", fenced.reason)
        self.lives.die()
        self.lives.open()
        assert self.lives.store is not None
        self.assertEqual(self.lives.store.fenced(), [])

    def test_full_disk(self) -> None:
        """A full disk is told, leaves no trace, and is over when there is room again."""
        self.files.capacity_bytes = 1
        self.assertIsInstance(self.lives.finish(self.lives.send(0)), StorageFull)
        self.files.capacity_bytes = None
        answer = self.lives.finish(self.lives.send(0))
        self.assertEqual(answer.base_offset, 1)
        self.assertEqual(missing(self.lives), [])

    def test_undo_fails(self) -> None:
        """A short write that cannot be undone fences the partition."""
        self.files.capacity_bytes = 1
        self.files.fail_call(1, operation="truncate")
        self.assertIsInstance(self.lives.finish(self.lives.send(0)), PartitionFenced)
        self.assertEqual(self.lives.stored(0), {0: b"value 0"})

    def test_waiting_appends_share_a_sync(self) -> None:
        """However many requests are waiting, one sync answers them all."""
        first = self.lives.send(0)
        others = [self.lives.send(0) for _ in range(50)]
        self.assertIsInstance(first, Deferred)
        self.assertNoResult(first)
        before = self.files.calls
        self.lives.outcomes([first, *others])
        self.assertEqual(self.files.calls - before, 1)
        self.assertEqual(len(self.lives.acknowledged[0]), 52)


    def test_deleting_frees_space(self) -> None:
        """Segments that lie wholly before the start of the log are gone when their deletion is answered."""
        lives = Lives(memory_environment(), segment_bytes=100)
        lives.open()
        for _ in range(10):
            lives.finish(lives.send(0))
        lives.finish(lives.store.delete_records(lives.partition(0), 8))
        names = lives.environment.files.names(DATA_DIR / "logs" / TOPIC / "0")
        self.assertEqual([each for each in names if each.endswith(".log")], ["8.log", "9.log"])

    def test_space_that_is_not_freed(self) -> None:
        """When a file can not be removed the records are deleted all the same; the next start removes it."""
        lives = Lives(memory_environment(), segment_bytes=100)
        lives.open()
        for _ in range(5):
            lives.finish(lives.send(0))
        lives.environment.files.fail_call(1, operation="unlink")
        self.assertEqual(lives.finish(lives.store.delete_records(lives.partition(0), 4)), 4)
        lives.close()
        lives.open()
        self.assertEqual(list(lives.stored(0)), [4])
        names = lives.environment.files.names(DATA_DIR / "logs" / TOPIC / "0")
        self.assertEqual([each for each in names if each.endswith(".log")], ["4.log"])

    def test_deleting_after_a_failed_sync(self) -> None:
        """Without certainty of what follows, nothing is deleted."""
        lives = Lives(memory_environment(), sync="never", segment_bytes=100)
        lives.open()
        for _ in range(5):
            lives.finish(lives.send(0))
        lives.environment.files.fail_call(1, operation="sync")
        (answer,) = lives.outcomes([lives.store.delete_records(lives.partition(0), 4)])
        self.assertIsInstance(answer, PartitionFenced)
        self.assertEqual(lives.partition(0).log_start_offset, 0)


class CutTests(SynchronousTestCase):
    """A file that was cut off, or changed, while nobody looked."""

    def setUp(self) -> None:
        self.lives = Lives(memory_environment(), segment_bytes=100_000)
        self.lives.open()
        for _ in range(4):
            self.lives.finish(self.lives.send(0, 2))
        self.path = DATA_DIR / "logs" / TOPIC / "0" / "0.log"
        self.content = self.lives.environment.files.content(self.path)
        self.ends = [len(self.content) // 4 * each for each in range(1, 5)]

    def test_cut_at_every_byte(self) -> None:
        """Wherever a crash ends the file, the whole batches are there and writing goes on behind them."""
        for size in range(len(self.content) + 1):
            self.lives.die()
            self.lives.environment.files.put(self.path, self.content[:size])
            self.lives.open()
            whole = sum(end <= size for end in self.ends)
            self.assertEqual(list(self.lives.stored(0)), list(range(2 * whole)), f"cut at {size}")
            answer = self.lives.finish(self.lives.send(0))
            self.assertEqual(answer.base_offset, 2 * whole, f"cut at {size}")
            self.assertEqual(self.lives.environment.files.names(DATA_DIR / "damaged"), [])

    def test_damage_at_every_byte(self) -> None:
        """A changed byte behind the checkpoint is never served, and what stood there is put aside."""
        for position in range(self.ends[2]):
            self.setUp()
            self.lives.die()
            files = self.lives.environment.files
            damaged = bytearray(self.content)
            damaged[position] ^= 0x55
            files.put(self.path, bytes(damaged))
            self.lives.open()
            damaged_batch = position // self.ends[0]
            self.assertEqual(list(self.lives.stored(0)), list(range(2 * damaged_batch)), f"at {position}")
            self.assertEqual(self.lives.partition(0).leader_epoch, 1)
            (name,) = files.names(DATA_DIR / "damaged")
            aside = DATA_DIR / "damaged" / name
            self.assertEqual(files.content(aside), damaged[damaged_batch * self.ends[0] :])

    def test_damage_before_the_checkpoint(self) -> None:
        """Damage in what was long on disk is told to who reads it; the rest can be read."""
        self.lives.close()
        self.lives.environment.files.flip_bit(self.path, self.ends[0] + 70)
        self.lives.open()
        with self.assertRaises(DamagedLog) as caught:
            self.lives.stored(0)
        self.assertEqual(caught.exception.offset, 2)
        self.assertEqual(self.lives.partition(0).high_watermark, 8)
        self.assertEqual(self.lives.finish(self.lives.send(0)).base_offset, 8)

    def test_foreign_files(self) -> None:
        """Files beside the segments that the store did not make are left alone."""
        foreign = self.path.with_name("notes.log")
        self.lives.environment.files.put(foreign, b"mine")
        self.lives.die()
        self.lives.open()
        self.assertEqual(self.lives.environment.files.content(foreign), b"mine")

    def test_interrupted_retention(self) -> None:
        """Segments that retention had begun to remove are removed, and nothing behind them is touched."""
        lives = Lives(memory_environment(), segment_bytes=100)
        lives.open()
        for _ in range(5):
            lives.finish(lives.send(0))
        files, directory = lives.environment.files, self.path.parent
        second = files.content(directory / "1.log")
        lives.finish(lives.store.delete_records(lives.partition(0), 4))
        lives.finish(lives.store.maintain())
        lives.close()
        files.put(directory / "1.log", second)
        lives.open()
        self.assertEqual(list(lives.stored(0)), [4])
        self.assertNotIn("1.log", files.names(directory))
