"""
What was committed survives: loss of power at any moment, and any call to the disk that fails.
"""

from __future__ import annotations

import contextlib
import errno
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import RustlogError, StartupError, StorageFailed, StorageFull
from rustlog.model import Committed
from rustlog.offsets import journaled, topic
from rustlog.testing.disk import SimulatedCrash
from rustlog.testing.environment import memory_environment, simulated_environment
from tests.seeds import seeds
from tests.unit.offsets.lives import GROUPS, PARTITIONS, Lives
from tests.unit.offsets.stores import DATA_DIR, FileStores, TopicStores

LIVES = 3
SNAPSHOT_BYTES = 1500
"""A snapshot for every ten commits or so: crashes come in the middle of many."""


class CrashTestCase(SynchronousTestCase):
    """Small journals."""

    def setUp(self) -> None:
        self.patch(journaled, "SNAPSHOT_BYTES_MIN", SNAPSHOT_BYTES)
        self.patch(journaled, "PIECE_RECORDS", 3)
        self.patch(topic, "TOPIC_CONFIG", {**topic.TOPIC_CONFIG, "segment.bytes": "400"})


class PowerLoss:
    """The power fails, in one life after the other."""

    patch: Any
    assertEqual: Any
    flushLoggedErrors: Any

    def stores(self, sync: str = "always") -> Any:
        """What opens the store."""
        raise NotImplementedError

    def test_acknowledged_commits_survive(self) -> None:
        """Under --sync=always each group is at its last acknowledged commit, or at one asked for later."""
        for seed in seeds(60):
            self.live_and_die(seed)

    def live_and_die(self, seed: int) -> None:
        chance = Random(seed)
        lives = Lives(simulated_environment(seed), self.stores())
        for life in range(LIVES):
            if chance.random() < 0.8:
                lives.environment.files.crash_at_call(chance.randint(1, 250))
            with contextlib.suppress(SimulatedCrash):
                lives.open()
                self.assertEqual(lives.problems(), [], f"seed {seed}, life {life}")
                self.work(lives, chance)
            # A request that was under way may have taken the crash for an error of its own.
            self.flushLoggedErrors(SimulatedCrash)
            lives.die()
        lives.open()
        self.assertEqual(lives.problems(), [], f"seed {seed}, in the end")

    def work(self, lives: Lives, chance: Random) -> None:
        """Commit without waiting, let time pass; sometimes look, delete, save or start anew."""
        for _ in range(chance.randint(1, 30)):
            for _ in range(chance.randint(0, 4)):
                lives.commit(chance.choice(GROUPS))
            lives.pass_time(chance.choice((0.0, 0.001, 0.01, 40.0)))
            if chance.random() < 0.05:
                lives.finish(lives.delete(chance.choice(GROUPS)))
            if chance.random() < 0.1:
                lives.save(chance.choice(GROUPS))
            if chance.random() < 0.1:
                self.assertEqual(lives.problems(), [])
            if chance.random() < 0.05:
                lives.close()
                lives.open()

    def test_old_commits_survive_without_sync(self) -> None:
        """Under --sync=never a crash may take the latest commits, but never what was copied by a snapshot."""
        for seed in seeds(40):
            lives = Lives(simulated_environment(seed), self.stores("never"))
            lives.open()
            lives.finish(lives.commit("billing"))
            for _ in range(Random(seed).randint(40, 80)):
                lives.finish(lives.commit("shipping"))
                lives.pass_time(0.01)
            lives.die()
            lives.open()
            found = lives.finish(lives.store.fetch("billing", PARTITIONS))
            self.assertEqual([each.offset for each in found.values()], [1, 1], f"seed {seed}")


class FailingCalls:
    """The disk refuses one call."""

    patch: Any
    assertEqual: Any
    assertGreater: Any
    stores: Any

    def test_every_call(self) -> None:
        """Whichever call fails, requests are answered, and after a restart nothing promised is missing."""
        self.patch(journaled, "SNAPSHOT_BYTES_MIN", SNAPSHOT_BYTES // 2)
        call = 1
        while self.fail_one(call, errno.EIO if call % 2 else errno.ENOSPC):
            call += 1
        self.assertGreater(call, 50, "the scenario does not touch the disk")

    def fail_one(self, call: int, error: int) -> bool:
        """Whether the scenario makes that many calls."""
        lives = Lives(memory_environment(), self.stores())
        files = lives.environment.files
        files.fail_call(call, error)
        with contextlib.suppress(StartupError, RustlogError):
            lives.open()
            for number in range(4):
                lives.finish_all([lives.commit(group) for group in GROUPS])
                if number == 2:
                    lives.finish(lives.delete("a:b"))
            lives.save("billing")
            lives.close()
        reached = files.calls >= call
        lives.die()
        lives.open()
        self.assertEqual(lives.problems(), [], f"call {call}")
        lives.finish(lives.commit("billing"))
        self.assertEqual(lives.problems(), [], f"call {call}")
        return reached


class TopicPowerLossTests(PowerLoss, FailingCalls, CrashTestCase):
    """In a topic of the C{segments} store."""

    def stores(self, sync: str = "always") -> TopicStores:
        return TopicStores(sync=sync)


class FilePowerLossTests(PowerLoss, FailingCalls, CrashTestCase):
    """In files of their own."""

    def stores(self, sync: str = "always") -> FileStores:
        return FileStores(sync)


class FileFailureTests(CrashTestCase):
    """What clients hear when the disk is at fault, and what is left of a file that was cut off."""

    def setUp(self) -> None:
        super().setUp()
        self.lives = Lives(memory_environment(), FileStores())
        self.lives.open()
        self.files = self.lives.environment.files
        self.path = DATA_DIR / "offsets" / "0.log"

    def test_waiting_commits_share_a_sync(self) -> None:
        """However many commits are waiting, one sync answers them all."""
        self.patch(journaled, "SNAPSHOT_BYTES_MIN", 10**6)
        waiting = [self.lives.commit("billing") for _ in range(50)]
        for each in waiting:
            self.assertNoResult(each)
        before = self.files.calls
        self.lives.finish_all(waiting)
        self.assertEqual(self.files.calls - before, 1)

    def test_failed_sync(self) -> None:
        """After a failed sync nothing more is taken, and nobody is shown what may be lost."""
        self.lives.finish(self.lives.commit("billing"))
        self.files.fail_call(1, operation="sync")
        answers = self.lives.finish_all([self.lives.commit("billing"), self.lives.commit("shipping")])
        answers.append(self.lives.finish(self.lives.commit("a:b")))
        for answer in answers:
            self.assertIsInstance(answer, StorageFailed)
        found = self.lives.finish(self.lives.store.fetch("billing", PARTITIONS[:1]))
        self.assertEqual(found[PARTITIONS[0]].offset, 1)

    def test_full_disk(self) -> None:
        """A full disk is told, leaves no trace, and is over when there is room again."""
        self.files.capacity_bytes = 1
        self.assertIsInstance(self.lives.finish(self.lives.commit("billing")), StorageFull)
        self.files.capacity_bytes = None
        self.assertIsNone(self.lives.finish(self.lives.commit("shipping")))
        self.lives.die()
        self.lives.open()
        self.assertEqual(self.lives.finish(self.lives.store.groups()), ("shipping",))

    def test_undo_fails(self) -> None:
        """A short write that can not be undone is the last one."""
        self.files.capacity_bytes = 1
        self.files.fail_call(1, operation="truncate")
        for _ in range(2):
            answer = self.lives.finish(self.lives.commit("billing"))
            self.assertIs(type(answer), StorageFailed)

    def test_cut_at_every_byte(self) -> None:
        """Wherever a crash ends the file, the whole commits are there, and others follow them."""
        ends = []
        for _ in range(3):
            self.lives.finish(self.lives.commit("billing"))
            ends.append(len(self.files.content(self.path)))
        content = self.files.content(self.path)
        for size in range(len(content) + 1):
            self.lives.die()
            self.lives.environment.files.put(self.path, content[:size])
            self.lives.open()
            whole = sum(end <= size for end in ends)
            found = self.lives.finish(self.lives.store.fetch("billing", PARTITIONS[:1]))
            self.assertEqual([each.offset for each in found.values()], [whole] if whole else [])
            self.lives.finish(self.lives.store.commit("new", {PARTITIONS[0]: Committed(size)}))
            self.lives.die()
            self.lives.open()
            self.assertIn("new", self.lives.finish(self.lives.store.groups()), f"cut at {size}")

    def test_damage_at_every_byte(self) -> None:
        """What was changed on disk is not believed, nor is what follows."""
        for _ in range(2):
            self.lives.finish(self.lives.commit("billing"))
        content = self.files.content(self.path)
        half = len(content) // 2
        # The first fields of a batch, but for its length, say nothing here.
        for position in (
            each for each in range(len(content)) if each % half in (8, 9, 10, 11, *range(16, half))
        ):
            damaged = bytearray(content)
            damaged[position] ^= 0x55
            self.lives.die()
            self.lives.environment.files.put(self.path, bytes(damaged))
            self.lives.open()
            found = self.lives.finish(self.lives.store.fetch("billing", PARTITIONS[:1]))
            left = [1] if position >= half else []
            self.assertEqual([each.offset for each in found.values()], left, f"{position}")
