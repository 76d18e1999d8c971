"""Tests for L{rustlog.testing.disk}: trouble, made to order."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import PurePath
from random import Random

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.testing.disk import UNLIMITED_BYTES, SimulatedCrash, SimulatedDisk, SimulatedFile

ROOT = PurePath("/data")
LOG = ROOT / "0.log"


def make_disk(seed: int = 0, cold_probability: float = 0.0) -> SimulatedDisk:
    """A disk with a durable directory."""
    disk = SimulatedDisk(Random(seed), cold_probability)
    disk.make_directory(ROOT)
    disk.sync_directory(ROOT.parent)
    return disk


def make_file(disk: SimulatedDisk, content: bytes = b"") -> SimulatedFile:
    """An open file with a durable name and content."""
    file = disk.open(LOG, create=True)
    disk.sync_directory(ROOT)
    file.append([content])
    file.sync()
    return file


class CrashTests(SynchronousTestCase):
    """A loss of power."""

    def test_synced_stays(self) -> None:
        """Whatever the seed, what was synced is there afterwards, under its name."""
        for seed in range(50):
            disk = make_disk(seed)
            file = make_file(disk, b"safe")
            file.append([b"lost, perhaps"])
            disk.crash()
            self.assertEqual(disk.content(LOG)[:4], b"safe")

    def test_sync_many(self) -> None:
        """Syncing many files makes each of them durable."""
        for seed in range(20):
            disk = make_disk(seed)
            paths = [ROOT / str(number) for number in range(10)]
            files = [disk.open(path, create=True) for path in paths]
            for file in files:
                file.append([b"x" * 1000])
            disk.sync_many(files)
            disk.sync_directory(ROOT)
            disk.crash()
            self.assertEqual([disk.content(path) for path in paths], [b"x" * 1000] * 10)

    def test_same_seed(self) -> None:
        """The same seed and the same calls leave the same disk; other seeds leave others."""

        def left(seed: int) -> bytes:
            disk = make_disk(seed)
            make_file(disk).append([b"x" * 5000])
            disk.crash()
            return disk.content(LOG)

        self.assertEqual([left(seed) for seed in range(20)], [left(seed) for seed in range(20)])
        self.assertGreater(len({left(seed) for seed in range(20)}), 5)

    def test_old_handles(self) -> None:
        """Handles from before are of no use, but can be closed; the disk can be used again."""
        disk = make_disk()
        file, lock = make_file(disk, b"abc"), disk.lock(ROOT / "lock")
        disk.crash()
        for call in (
            lambda: file.append([b"x"]),
            lambda: file.read(0, 1),
            lambda: file.truncate(0),
            file.sync,
        ):
            self.assertRaises(SimulatedCrash, call)
        self.assertEqual(disk.open_handles, 0)
        again = disk.lock(ROOT / "lock")
        lock.close()
        file.close()
        self.assertRaises(BlockingIOError, disk.lock, ROOT / "lock")
        again.close()
        self.assertEqual(disk.open(LOG).read(0, 10), b"abc")

    def test_faults_are_called_off(self) -> None:
        """What was to go wrong later does not, after the power has failed."""
        disk = make_disk()
        disk.fail_call(1)
        disk.crash_at_call(2)
        disk.crash()
        self.assertTrue(disk.exists(ROOT))
        self.assertTrue(disk.exists(ROOT))


class CrashAtCallTests(SynchronousTestCase):
    """A loss of power in the middle of a call."""

    def test_append_is_torn(self) -> None:
        """An append is cut off anywhere, and what came before it stays."""
        sizes = set()
        for seed in range(200):
            disk = make_disk(seed)
            file = make_file(disk, b"safe")
            disk.crash_at_call(1)
            self.assertRaises(SimulatedCrash, file.append, [b"0123", b"456789"])
            disk.crash()
            found = disk.content(LOG)
            self.assertEqual(found[:4], b"safe")
            sizes.add(len(found))
        self.assertEqual(sizes, set(range(4, 15)))

    def test_nothing_works_until_restarted(self) -> None:
        """The dead process can not do anything more, even if it has swallowed the crash."""
        disk = make_disk()
        file = make_file(disk, b"abc")
        disk.crash_at_call(2)
        file.append([b"d"])
        self.assertRaises(SimulatedCrash, file.sync)
        self.assertTrue(disk.crashed)
        calls_before = disk.calls
        self.assertRaises(SimulatedCrash, file.read, 0, 1)
        self.assertRaises(SimulatedCrash, disk.names, ROOT)
        self.assertRaises(SimulatedCrash, disk.sync_many, [file])
        file.close()
        self.assertEqual(disk.calls, calls_before)
        disk.crash()
        self.assertFalse(disk.crashed)
        self.assertEqual(disk.names(ROOT), ["0.log"])

    def test_deferreds_catch_it(self) -> None:
        """A Deferred takes it for a failure; the disk stays down all the same."""
        disk = make_disk()
        disk.crash_at_call(1)
        result: Deferred[None] = Deferred()
        result.addCallback(lambda _: disk.names(ROOT))
        result.callback(None)
        self.failureResultOf(result, SimulatedCrash)
        self.assertRaises(SimulatedCrash, disk.names, ROOT)

    def test_is_not_an_exception(self) -> None:
        """Error handling does not catch it."""
        self.assertFalse(issubclass(SimulatedCrash, Exception))

    def test_every_call(self) -> None:
        """A replacement by rename leaves the old or the new content, wherever the power fails."""

        def replace(disk: SimulatedDisk) -> None:
            file = disk.open(ROOT / "new", create=True)
            file.append([b"n" * 2000])
            file.sync()
            file.close()
            disk.rename(ROOT / "new", LOG)
            disk.sync_directory(ROOT)

        seen = set()
        for seed in range(100):
            disk = make_disk(seed)
            make_file(disk, b"old").close()
            disk.crash_at_call(1 + seed % 6)
            try:
                replace(disk)
            except SimulatedCrash:
                self.assertLess(seed % 6, 5)
            else:
                self.assertEqual(seed % 6, 5)
            disk.crash()
            seen.add((disk.content(LOG), seed % 6 == 5))
        self.assertEqual(seen, {(b"old", False), (b"n" * 2000, False), (b"n" * 2000, True)})


class FailCallTests(SynchronousTestCase):
    """Calls that fail."""

    def test_every_call_can_fail(self) -> None:
        """Every call that a real disk could fail fails when told to, changes nothing, and works again."""
        disk = make_disk()
        file = make_file(disk, b"abc")
        disk.make_directory(ROOT / "d")
        calls: list[Callable[[], object]] = [
            lambda: disk.open(ROOT / "new", create=True),
            lambda: disk.exists(LOG),
            lambda: disk.names(ROOT),
            lambda: disk.size(LOG),
            lambda: disk.make_directory(ROOT / "new"),
            lambda: disk.rename(LOG, ROOT / "new"),
            lambda: disk.unlink(LOG),
            lambda: disk.remove_directory(ROOT / "d"),
            lambda: disk.sync_directory(ROOT),
            lambda: disk.lock(ROOT / "new"),
            lambda: disk.free_bytes(ROOT),
            lambda: file.read(0, 1),
            lambda: file.truncate(1),
            file.sync,
        ]
        for call in calls:
            before, handles = disk.calls, disk.open_handles
            disk.fail_call(1)
            self.assertEqual(self.assertRaises(OSError, call).errno, errno.EIO)
            self.assertEqual((disk.calls, disk.open_handles), (before + 1, handles))
        self.assertEqual(disk.names(ROOT), ["0.log", "d"])
        self.assertEqual((file.size, file.read(0, 10)), (3, b"abc"))
        for call in calls[:4]:
            call()

    def test_nth(self) -> None:
        """Exactly the call that was named fails."""
        disk = make_disk()
        disk.fail_call(3, errno.EACCES)
        disk.names(ROOT)
        disk.names(ROOT)
        self.assertRaises(PermissionError, disk.names, ROOT)
        self.assertEqual(disk.names(ROOT), [])

    def test_operation(self) -> None:
        """Only calls of the kind that was named are counted."""
        disk = make_disk()
        file = make_file(disk)
        disk.fail_call(2, operation="sync")
        file.sync()
        file.append([b"x"])
        disk.names(ROOT)
        self.assertRaises(OSError, file.sync)
        file.sync()

    def test_several(self) -> None:
        """Several faults wait for their turn independently."""
        disk = make_disk()
        disk.fail_call(1, errno.EIO)
        disk.fail_call(3, errno.EACCES)
        codes = []
        for _ in range(4):
            try:
                disk.names(ROOT)
                codes.append(0)
            except OSError as error:
                codes.append(error.errno or 0)
        self.assertEqual(codes, [errno.EIO, 0, errno.EACCES, 0])

    def test_number_must_be_positive(self) -> None:
        """The next call is number 1; there is no call number 0."""
        disk = make_disk()
        self.assertRaises(ValueError, disk.fail_call, 0)
        self.assertRaises(ValueError, disk.crash_at_call, -1)

    def test_append(self) -> None:
        """A failed append leaves the size, and any part of the bytes behind it, until truncated."""
        left = set()
        for seed in range(100):
            disk = make_disk(seed)
            file = make_file(disk, b"abc")
            disk.fail_call(1)
            self.assertRaises(OSError, file.append, [b"defg"])
            self.assertEqual(file.size, 3)
            left.add(disk.content(LOG))
            file.truncate(3)
            file.append([b"!"])
            self.assertEqual(disk.content(LOG), b"abc!")
        self.assertEqual(left, {b"abcdefg"[:end] for end in range(3, 8)})

    def test_sync(self) -> None:
        """What a failed sync has lost is not saved by one that succeeds later."""
        lost = 0
        for seed in range(50):
            disk = make_disk(seed)
            file = make_file(disk, b"safe")
            file.append([b"x" * 100])
            disk.fail_call(1)
            self.assertRaises(OSError, file.sync)
            self.assertEqual(disk.sync_many([file]), {})
            disk.crash()
            found = disk.content(LOG)
            self.assertEqual(found[:4], b"safe")
            lost += found != b"safe" + b"x" * 100
        self.assertGreater(lost, 10)

    def test_sync_many(self) -> None:
        """One of many files fails to be synced, the others are durable."""
        disk = make_disk()
        files = [disk.open(ROOT / name, create=True) for name in "abc"]
        disk.sync_directory(ROOT)
        for file in files:
            file.append([b"x"])
        disk.fail_call(2, operation="sync")
        errors = disk.sync_many(files)
        self.assertEqual(list(errors), [files[1]])
        self.assertEqual(errors[files[1]].errno, errno.EIO)
        disk.crash()
        self.assertEqual((disk.content(ROOT / "a"), disk.content(ROOT / "c")), (b"x", b"x"))


class CapacityTests(SynchronousTestCase):
    """A disk that fills up."""

    def setUp(self) -> None:
        self.disk = make_disk()
        self.file = make_file(self.disk, b"x" * 60)
        self.disk.capacity_bytes = 100

    def test_short_write(self) -> None:
        """An append that does not fit fails, and leaves what did fit behind."""
        error = self.assertRaises(OSError, self.file.append, [b"y" * 50])
        self.assertEqual(error.errno, errno.ENOSPC)
        self.assertEqual((self.file.size, self.disk.size(LOG)), (60, 100))
        self.assertEqual(self.disk.free_bytes(ROOT), 0)

    def test_undone(self) -> None:
        """Once the torn bytes are cut off, what fits can be appended."""
        self.assertRaises(OSError, self.file.append, [b"y" * 50])
        self.file.truncate(60)
        self.assertEqual(self.disk.free_bytes(ROOT), 40)
        self.file.append([b"z" * 40])
        self.assertEqual(self.disk.content(LOG), b"x" * 60 + b"z" * 40)

    def test_space_comes_back(self) -> None:
        """A removed file takes space until nobody has it open."""
        self.disk.unlink(LOG)
        self.assertEqual(self.disk.free_bytes(ROOT), 40)
        self.file.close()
        self.assertEqual(self.disk.free_bytes(ROOT), 100)

    def test_overfull(self) -> None:
        """A disk that shrank below its content takes nothing more, and destroys nothing."""
        self.disk.capacity_bytes = 10
        self.assertRaises(OSError, self.file.append, [b"y"])
        self.assertEqual(self.disk.content(LOG), b"x" * 60)
        self.assertEqual(self.disk.free_bytes(ROOT), 0)

    def test_unlimited(self) -> None:
        """Without a capacity there is always room."""
        self.disk.capacity_bytes = None
        self.file.append([b"y" * 1000])
        self.assertEqual(self.disk.free_bytes(ROOT), UNLIMITED_BYTES)


class ColdReadTests(SynchronousTestCase):
    """Reads that would have to ask the disk."""

    def test_probability(self) -> None:
        """About as many reads as wished for are cold; those that may wait never are."""
        disk = make_disk(cold_probability=0.25)
        file = make_file(disk, b"abc")
        cold = [file.read(0, 3, wait=False) for _ in range(1000)].count(None)
        self.assertTrue(150 < cold < 350, cold)
        self.assertEqual({file.read(0, 3) for _ in range(100)}, {b"abc"})

    def test_warmed(self) -> None:
        """What was read with waiting stays in memory, until the power fails or memory gets short."""
        disk = make_disk(cold_probability=1.0)
        file = make_file(disk, b"abc" * 10_000)
        self.assertIsNone(file.read(5, 20_000, wait=False))
        file.read(5, 20_000)
        self.assertEqual(len(file.read(9, 19_000, wait=False)), 19_000)
        self.assertIsNone(file.read(9, 30_000, wait=False))
        for _ in range(100):
            file.read(29_000, 10)
        self.assertIsNone(file.read(9, 10, wait=False))
        self.assertEqual(file.read(29_997, 2**40, wait=False), b"abc")
        disk.crash()
        self.assertIsNone(disk.open(LOG).read(0, 10, wait=False))

    def test_never(self) -> None:
        """A probability of nought makes every read warm."""
        file = make_file(make_disk(), b"abc")
        self.assertEqual({file.read(0, 3, wait=False) for _ in range(100)}, {b"abc"})


class DamageTests(SynchronousTestCase):
    """Stored bytes that change by themselves."""

    def test_flip_bit(self) -> None:
        """One bit is wrong, for those who have the file open and after a crash."""
        disk = make_disk()
        file = make_file(disk, b"abc")
        disk.flip_bit(LOG, 1, bit=3)
        self.assertEqual(file.read(0, 3), b"ajc")
        disk.crash()
        self.assertEqual(disk.content(LOG), b"ajc")

    def test_flip_bit_of_unsynced_byte(self) -> None:
        """A byte that is not durable yet can be damaged, too."""
        disk = make_disk()
        file = make_file(disk, b"a")
        file.append([b"b"])
        disk.flip_bit(LOG, 1)
        file.sync()
        disk.crash()
        self.assertEqual(disk.content(LOG), b"ac")

    def test_flip_bit_beyond_the_end(self) -> None:
        """A byte that is not there can not be damaged."""
        disk = make_disk()
        make_file(disk, b"abc")
        self.assertRaises(IndexError, disk.flip_bit, LOG, 3)

    def test_put(self) -> None:
        """A file can be placed, durable, without a call being counted."""
        disk = make_disk()
        calls_before = disk.calls
        disk.put(LOG, b"abc")
        disk.put(LOG, disk.content(LOG)[:2])
        self.assertEqual(disk.calls, calls_before)
        disk.crash()
        self.assertEqual(disk.content(LOG), b"ab")


class HandleTests(SynchronousTestCase):
    """Handles are counted, to prove that none is lost."""

    def test_counted(self) -> None:
        """Files and locks count until they are closed, each once."""
        disk = make_disk()
        held = [disk.open(LOG, create=True), disk.open(LOG), disk.lock(ROOT / "lock")]
        self.assertEqual(disk.open_paths, [LOG, LOG, ROOT / "lock"])
        for count, each in zip((2, 1, 0), held, strict=True):
            each.close()
            each.close()
            self.assertEqual(disk.open_handles, count)

    def test_no_descriptor(self) -> None:
        """There is nothing that the system could send from."""
        self.assertIsNone(make_file(make_disk()).fileno())


class CloneTests(SynchronousTestCase):
    """Copies of a disk."""

    def test_independent(self) -> None:
        """What happens to one does not happen to the other; nobody has the copy open."""
        disk = make_disk()
        file = make_file(disk, b"abc")
        lock = disk.lock(ROOT / "lock")
        disk.fail_call(1)
        twin = disk.clone()
        self.assertEqual((twin.open_handles, twin.calls), (0, 0))
        twin.lock(ROOT / "lock")
        twin.open(LOG).append([b"d"])
        twin.unlink(LOG)
        self.assertRaises(OSError, file.append, [b"!"])
        file.truncate(3)
        lock.close()
        self.assertEqual(disk.content(LOG), b"abc")
        self.assertEqual(twin.names(ROOT), ["lock"])

    def test_crashes_alike(self) -> None:
        """A copy with the same chance crashes in the same way, one with another chance in another."""
        disk = make_disk()
        make_file(disk, b"safe").append([b"x" * 5000])
        twins = [disk.clone(), disk.clone(), *(disk.clone(Random(seed)) for seed in range(20))]
        for each in (disk, *twins):
            each.crash()
        self.assertEqual(disk.content(LOG), twins[0].content(LOG))
        self.assertEqual(disk.content(LOG), twins[1].content(LOG))
        self.assertGreater(len({each.content(LOG) for each in twins}), 5)

    def test_every_cut(self) -> None:
        """A test can look at a log that was cut at every byte."""
        disk = make_disk()
        make_file(disk, b"0123456789").close()
        content = disk.content(LOG)
        for size in range(len(content) + 1):
            twin = disk.clone()
            twin.put(LOG, content[:size])
            self.assertEqual(twin.open(LOG).read(0, 100), content[:size])
        self.assertEqual(disk.content(LOG), content)
