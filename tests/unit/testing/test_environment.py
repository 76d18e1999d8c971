"""Tests for L{rustlog.testing.environment}."""

from __future__ import annotations

from pathlib import PurePath
from random import Random

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog.errors import Closed
from rustlog.interfaces import IFiles, IRandomSource, IWallClock, IWorkers
from rustlog.testing.disk import SimulatedCrash
from rustlog.testing.environment import (
    DELAY_SECONDS_MAX,
    START_OF_TIME_MS,
    InlineWorkers,
    SeededRandom,
    SettableWallClock,
    SimulatedWorkers,
    memory_environment,
    simulated_environment,
)


def crash() -> None:
    raise SimulatedCrash("now")


class SimulatedWorkersTests(SynchronousTestCase):
    """Workers whose calls take time."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.workers = SimulatedWorkers(self.clock, Random(5))

    def test_provides_interface(self) -> None:
        """It has every method, with the right arguments."""
        verifyObject(IWorkers, self.workers)

    def test_result_is_late(self) -> None:
        """A result never comes at once, but soon."""
        results = [self.workers.run(divmod, 7, 2) for _ in range(20)]
        for each in results:
            self.assertNoResult(each)
        self.clock.advance(DELAY_SECONDS_MAX)
        for each in results:
            self.assertEqual(self.successResultOf(each), (3, 1))

    def test_failure(self) -> None:
        """An exception comes back as a failure, be it raised early or late."""
        results = [self.workers.run(divmod, 1, 0) for _ in range(20)]
        self.clock.advance(DELAY_SECONDS_MAX)
        for each in results:
            self.failureResultOf(each, ZeroDivisionError)

    def test_any_order(self) -> None:
        """Results overtake each other."""
        order: list[int] = []
        for number in range(20):
            self.workers.run(int, number).addCallback(order.append)
        self.clock.pump([DELAY_SECONDS_MAX / 1000] * 1001)
        self.assertEqual(sorted(order), list(range(20)))
        self.assertNotEqual(order, list(range(20)))

    def test_early_or_late(self) -> None:
        """What a call does happens before or after what the caller does meanwhile, and only once."""
        effects: list[str] = []
        early = 0
        for _ in range(50):
            effects.clear()
            self.workers.run(effects.append, "worker")
            effects.append("caller")
            self.clock.advance(DELAY_SECONDS_MAX)
            self.assertEqual(sorted(effects), ["caller", "worker"])
            early += effects[0] == "worker"
        self.assertTrue(10 < early < 40, early)

    def test_crash(self) -> None:
        """A crash comes out of the clock, not to the one who waits for the result."""
        for _ in range(20):
            result = self.workers.run(crash)
            self.assertRaises(SimulatedCrash, self.clock.advance, DELAY_SECONDS_MAX)
            self.assertNoResult(result)

    def test_close(self) -> None:
        """Closing waits for all calls; later ones fail and are not made."""
        self.workers.run(int)
        self.workers.run(divmod, 1, 0).addErrback(lambda _: None)
        closed = [self.workers.close(), self.workers.close()]
        self.assertNoResult(closed[0])
        self.failureResultOf(self.workers.run(self.fail), Closed)
        self.clock.advance(DELAY_SECONDS_MAX)
        for waiter in (*closed, self.workers.close()):
            self.assertIsNone(self.successResultOf(waiter))

    def test_same_seed(self) -> None:
        """The same seed leads to the same order."""

        def order(seed: int) -> list[int]:
            clock = Clock()
            found: list[int] = []
            workers = SimulatedWorkers(clock, Random(seed))
            for number in range(10):
                workers.run(int, number).addCallback(found.append)
            clock.advance(DELAY_SECONDS_MAX)
            return found

        self.assertEqual(order(3), order(3))
        self.assertNotEqual(order(3), order(4))


class InlineWorkersTests(SynchronousTestCase):
    """Workers that are done at once."""

    def setUp(self) -> None:
        self.workers = InlineWorkers()

    def test_provides_interface(self) -> None:
        """It has every method, with the right arguments."""
        verifyObject(IWorkers, self.workers)

    def test_run(self) -> None:
        """Results and failures are there at once; a crash is raised."""
        self.assertEqual(self.successResultOf(self.workers.run(divmod, 7, 2)), (3, 1))
        self.failureResultOf(self.workers.run(divmod, 1, 0), ZeroDivisionError)
        self.assertRaises(SimulatedCrash, self.workers.run, crash)

    def test_close(self) -> None:
        """A call after closing fails and is not made."""
        self.assertIsNone(self.successResultOf(self.workers.close()))
        self.failureResultOf(self.workers.run(self.fail), Closed)


class SettableWallClockTests(SynchronousTestCase):
    """The time of day, as a test wants it."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.wall = SettableWallClock(self.clock)

    def test_goes_on(self) -> None:
        """It goes with the other clock."""
        verifyObject(IWallClock, self.wall)
        self.assertEqual(self.wall.now_ms(), START_OF_TIME_MS)
        self.clock.advance(1.5)
        self.assertEqual(self.wall.now_ms(), START_OF_TIME_MS + 1500)

    def test_set(self) -> None:
        """It can be set to any time, and goes on from there."""
        self.clock.advance(10)
        self.wall.set(5000)
        self.assertEqual(self.wall.now_ms(), 5000)
        self.clock.advance(1)
        self.assertEqual(self.wall.now_ms(), 6000)

    def test_jump(self) -> None:
        """It can jump, also back, without the other clock."""
        self.wall.jump(-3_600_000)
        self.assertEqual(self.wall.now_ms(), START_OF_TIME_MS - 3_600_000)
        self.assertEqual(self.clock.seconds(), 0)


class SeededRandomTests(SynchronousTestCase):
    """Chance that can be repeated."""

    def test_values(self) -> None:
        """Values differ from each other, are valid, and come again with the same seed."""
        one, two = SeededRandom(Random(1)), SeededRandom(Random(1))
        verifyObject(IRandomSource, one)
        ids = [one.uuid() for _ in range(10)]
        self.assertEqual(len(set(ids)), 10)
        self.assertEqual({each.version for each in ids}, {4})
        self.assertEqual(ids, [two.uuid() for _ in range(10)])
        self.assertEqual(one.uniform(2, 3), two.uniform(2, 3))
        self.assertTrue(2 <= one.uniform(2, 3) <= 3)


class SimulatedEnvironmentTests(SynchronousTestCase):
    """The parts, joined."""

    def test_parts(self) -> None:
        """Every part does what its interface says."""
        for environment in (simulated_environment(1), memory_environment()):
            verifyObject(IFiles, environment.files)
            verifyObject(IWorkers, environment.workers)
            verifyObject(IWallClock, environment.wall)
            verifyObject(IRandomSource, environment.random)

    def test_same_seed(self) -> None:
        """The same seed makes the same world."""
        self.assertEqual(simulated_environment(7).random.uuid(), simulated_environment(7).random.uuid())
        self.assertNotEqual(simulated_environment(7).random.uuid(), simulated_environment(8).random.uuid())

    def test_memory_environment_is_mild(self) -> None:
        """In the mild world every read is warm, and every result is there at once."""
        environment = memory_environment()
        file = environment.files.open(PurePath("/a"), create=True)
        file.append([b"abc"])
        self.assertEqual({file.read(0, 3, wait=False) for _ in range(100)}, {b"abc"})
        self.assertEqual(self.successResultOf(environment.workers.run(int, "7")), 7)

    def test_after_crash(self) -> None:
        """A new process gets the disk; nothing of the old one is called any more, and time goes on."""
        for old in (simulated_environment(1), memory_environment()):
            file = old.files.open(PurePath("/a"), create=True)
            file.append([b"abc"])
            file.sync()
            old.files.sync_directory(PurePath("/"))
            old.clock.callLater(1, self.fail)
            old.clock.advance(0.5)
            new = old.after_crash()
            self.assertIs(new.files, old.files)
            self.assertIs(type(new.workers), type(old.workers))
            self.assertEqual(new.files.content(PurePath("/a")), b"abc")
            self.assertRaises(SimulatedCrash, file.read, 0, 3)
            self.assertEqual(new.wall.now_ms(), START_OF_TIME_MS + 500)
            new.clock.advance(10)
            self.assertEqual(new.wall.now_ms(), START_OF_TIME_MS + 10_500)

    def test_sync_in_a_worker(self) -> None:
        """A sync in a worker saves what was written before it, and perhaps what was written meanwhile."""
        kept = set()
        for seed in range(60):
            environment = simulated_environment(seed)
            file = environment.files.open(PurePath("/a"), create=True)
            environment.files.sync_directory(PurePath("/"))
            file.append([b"before"])
            done: Deferred[object] = environment.workers.run(environment.files.sync_many, [file])
            file.append([b"+"])
            environment.clock.advance(DELAY_SECONDS_MAX)
            self.assertEqual(self.successResultOf(done), {})
            kept.add(environment.after_crash().files.content(PurePath("/a")))
        self.assertEqual(kept, {b"before", b"before+", b"before\0"})
