"""
What was acknowledged survives, and what was sent again is there once: loss of power at any moment, and any
call to the disk that fails.
"""

from __future__ import annotations

import contextlib
import errno
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import DamagedLog, PartitionFenced, RustlogError, StartupError, StorageFull
from rustlog.model import Appended
from rustlog.testing.disk import SimulatedCrash
from rustlog.testing.environment import memory_environment, simulated_environment
from tests.seeds import seeds
from tests.unit.storage.minikafka.lives import MiniKafkaLives, Producer
from tests.unit.storage.segments.lives import DATA_DIR, PARTITIONS, TOPIC, Lives, missing

LIVES = 4
BATCHES = 3


def work(lives: Lives, chance: Random) -> None:
    """Send without waiting, let time pass, sometimes clean up or close."""
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


class PowerLossTests(SynchronousTestCase):
    """The power fails, in one life after the other."""

    def test_acknowledged_records_survive(self) -> None:
        """Under --sync=always every acknowledged record is at its offset after any number of crashes."""
        for seed in seeds(20):
            chance = Random(seed)
            lives = MiniKafkaLives(simulated_environment(seed))
            for life in range(LIVES):
                if chance.random() < 0.7:
                    lives.environment.files.crash_at_call(chance.randint(1, 250))
                with contextlib.suppress(SimulatedCrash):
                    lives.open()
                    self.assertEqual(missing(lives), [], f"seed {seed}, life {life}")
                    work(lives, chance)
                lives.die()
            lives.open()
            self.assertEqual(missing(lives), [], f"seed {seed}, in the end")

    def test_sent_again_is_there_once(self) -> None:
        """Whenever the power fails, who sends again what was not answered has each record once."""
        for seed in seeds(20):
            chance = Random(seed)
            lives = MiniKafkaLives(simulated_environment(seed))
            producers = [Producer(lives, 7, 0), Producer(lives, 8, 0)]
            for _ in range(LIVES):
                if chance.random() < 0.7:
                    lives.environment.files.crash_at_call(chance.randint(20, 250))
                with contextlib.suppress(SimulatedCrash):
                    lives.open()
                    self.produce(lives, producers, chance)
                lives.die()
            lives.open()
            for producer in producers:
                producer.send_again()
            lives.pass_time(1)
            lives.pass_time(1)
            stored = list(lives.stored(0).values())
            for producer in producers:
                self.assertTrue(producer.is_done, f"seed {seed}")
                found = [value for value in stored if value in set(producer.sent)]
                self.assertEqual(found, producer.sent, f"seed {seed}")

    def produce(self, lives: Lives, producers: list[Producer], chance: Random) -> None:
        for producer in producers:
            producer.send_again()
        for _ in range(chance.randint(1, 25)):
            chance.choice(producers).send(chance.randint(1, 4))
            if chance.random() < 0.3:
                lives.send(0)
            lives.pass_time(chance.choice((0.0, 0.001, 0.01, 40.0)))

    def test_what_was_read_once_reads_the_same(self) -> None:
        """Nobody sees a record under --sync=always that a crash could take back."""
        for seed in seeds(10):
            chance = Random(seed)
            lives = MiniKafkaLives(simulated_environment(seed))
            lives.open()
            for _ in range(20):
                lives.send(0, chance.randint(1, 3))
                lives.pass_time(chance.choice((0.0, 0.001, 0.004)))
            seen = lives.stored(0)
            lives.die()
            lives.open()
            self.assertEqual({each: lives.stored(0).get(each) for each in seen}, seen, f"seed {seed}")

    def test_without_sync_a_prefix_survives(self) -> None:
        """Under --sync=never a crash may take the end of the log, and what is left has no holes."""
        for seed in seeds(10):
            chance = Random(seed)
            lives = MiniKafkaLives(simulated_environment(seed), sync="never")
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
        lives = MiniKafkaLives(memory_environment())
        files = lives.environment.files
        files.fail_call(call, error)
        try:
            lives.open()
            for _ in range(3):
                lives.outcomes([lives.send(index, 2) for index in range(PARTITIONS)])
            store, catalog = lives.store, lives.store.catalog
            lives.outcomes([store.delete_records(lives.partition(0), 3), store.maintain()])
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
        self.lives = MiniKafkaLives(memory_environment(), segment_bytes=100_000)
        self.lives.open()
        self.lives.finish(self.lives.send(0))
        self.files = self.lives.environment.files

    def test_failed_sync_fences(self) -> None:
        """After a failed sync the partition takes nothing more, but what was promised stays readable."""
        self.files.fail_call(1, operation="sync")
        for answer in self.lives.outcomes([self.lives.send(0), self.lives.send(0)]):
            self.assertIsInstance(answer, PartitionFenced)
        self.assertIsInstance(self.lives.finish(self.lives.send(0)), PartitionFenced)
        self.assertEqual(self.lives.stored(0), {0: b"value 0"})
        self.assertIsInstance(self.lives.finish(self.lives.send(1)), Appended, "others go on")

    def test_full_disk(self) -> None:
        """However little room is left, a full disk is told, leaves no trace, and is over at some time."""
        for capacity in range(1, 140, 7):
            self.setUp()
            self.files.capacity_bytes = capacity
            answer = self.lives.finish(self.lives.send(0))
            self.assertIsInstance(answer, (StorageFull, Appended), f"{capacity} bytes")
            self.files.capacity_bytes = None
            expected = 2 if isinstance(answer, Appended) else 1
            self.assertEqual(self.lives.finish(self.lives.send(0)).base_offset, expected)
            self.lives.die()
            self.lives.open()
            self.assertEqual(missing(self.lives), [], f"{capacity} bytes")
            self.assertEqual(self.lives.partition(0).high_watermark, expected + 1)

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
        before = self.files.calls
        self.lives.outcomes([first, *others])
        self.assertEqual(self.files.calls - before, 2, "the log and the journal, once each")
        self.assertEqual(len(self.lives.acknowledged[0]), 52)


class CutTests(SynchronousTestCase):
    """A file that was cut off, or changed, while nobody looked."""

    def setUp(self) -> None:
        self.lives = MiniKafkaLives(memory_environment(), segment_bytes=100_000)
        self.lives.open()
        for _ in range(BATCHES):
            self.lives.finish(self.lives.send(0, 2))
        self.path = DATA_DIR / "logs" / TOPIC / "0" / "0.log"
        self.content = self.lives.environment.files.content(self.path)
        self.ends = [len(self.content) // BATCHES * each for each in range(1, BATCHES + 1)]

    def test_cut_at_every_byte(self) -> None:
        """Wherever a crash ends the file, the whole batches are there and writing goes on behind them."""
        for size in range(len(self.content) + 1):
            self.setUp()
            self.lives.die()
            self.lives.environment.files.put(self.path, self.content[:size])
            self.lives.open()
            whole = sum(end <= size for end in self.ends)
            self.assertEqual(list(self.lives.stored(0)), list(range(2 * whole)), f"cut at {size}")
            answer = self.lives.finish(self.lives.send(0))
            self.assertEqual(answer.base_offset, 2 * whole, f"cut at {size}")
            self.assertEqual(self.lives.environment.files.names(DATA_DIR / "damaged"), [])

    def test_cut_after_a_clean_stop(self) -> None:
        """What others cut off of a log that was closed is missed; the whole records before it are there."""
        sizes = [each // 2 * half for each in (self.ends[0],) for half in range(2 * BATCHES + 1)]
        for size in range(len(self.content)):
            self.setUp()
            self.lives.close()
            self.lives.environment.files.put(self.path, self.content[:size])
            self.lives.open()
            whole = sum(end <= size for end in sizes[1:])
            self.assertEqual(list(self.lives.stored(0)), list(range(whole)), f"cut at {size}")

    def test_damage_at_every_byte(self) -> None:
        """A changed byte that nobody has synced is never served, and what stood behind it is put aside."""
        for position in range(self.ends[1]):
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
            aside = files.content(DATA_DIR / "damaged" / name)
            self.assertEqual(aside, damaged[damaged_batch * self.ends[0] :])

    def test_damage_before_the_checkpoint(self) -> None:
        """A damaged payload in what was long on disk is told to who reads it; the rest can be read."""
        self.lives.close()
        self.lives.environment.files.flip_bit(self.path, self.ends[0] + 40)
        self.lives.open()
        with self.assertRaises(DamagedLog) as caught:
            self.lives.stored(0)
        self.assertEqual(caught.exception.offset, 2)
        self.assertEqual(self.lives.partition(0).high_watermark, 2 * BATCHES)
        self.assertEqual(self.lives.finish(self.lives.send(0)).base_offset, 2 * BATCHES)

    def test_unknown_records(self) -> None:
        """Whole records that no journal knows, after a crash, are not served, but not destroyed either."""
        self.lives.die()
        files = self.lives.environment.files
        for name in files.names(DATA_DIR / "checkpoints"):
            directory = DATA_DIR / "checkpoints" / name
            for journal in [each for each in files.names(directory) if each.endswith(".journal")]:
                files.put(directory / journal, files.content(directory / journal)[:77])
        self.lives.open()
        self.assertEqual(list(self.lives.stored(0)), [0, 1])
        (name,) = files.names(DATA_DIR / "damaged")
        self.assertEqual(files.content(DATA_DIR / "damaged" / name), self.content[self.ends[0] :])
