"""Tests for L{rustlog.environment.files}."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sys
import tempfile
from pathlib import Path, PurePath
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from rustlog.environment import files
from rustlog.environment.files import SYNCFS_FROM_FILES, RealFile, RealFiles
from rustlog.testing.files import FilesContract


class RealFilesCase(SynchronousTestCase):
    """Gives each test a directory of its own."""

    def setUp(self) -> None:
        self.files = RealFiles()
        self.addCleanup(self.files.close)
        self.root = PurePath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)

    def make(self, name: str, content: bytes = b"") -> RealFile:
        file = self.files.open(self.root / name, create=True)
        self.addCleanup(file.close)
        file.append([content])
        return file


class RealFilesContractTests(FilesContract, RealFilesCase):
    """The real disk does what every disk must do."""


class AppendTests(RealFilesCase):
    """Writing, when the system does not do all at once."""

    def test_short_writes(self) -> None:
        """An append goes on where a short write has stopped, wherever that was."""
        real = os.pwritev
        sizes: list[int] = []

        def short(descriptor: int, buffers: list[bytes], position: int) -> int:
            sizes.append(real(descriptor, [b"".join(buffers)[:3]], position))
            return sizes[-1]

        file = self.make("a", b"--")
        self.patch(os, "pwritev", short)
        file.append([b"ab", b"", b"cdefg", b"h", memoryview(b"ij")])
        self.assertEqual(sizes, [3, 3, 3, 1])
        self.assertEqual((file.size, file.read(0, 100)), (12, b"--abcdefghij"))

    def test_failed_append_leaves_size(self) -> None:
        """After a failed append the file is as it was, once truncated to its size."""
        real = os.pwritev

        def full(descriptor: int, buffers: list[bytes], position: int) -> int:
            if position > 3:
                raise OSError(errno.ENOSPC, "full")
            return real(descriptor, [buffers[0][:2]], position)

        file = self.make("a", b"abc")
        with patch.object(os, "pwritev", full):
            self.assertRaises(OSError, file.append, [b"defg"])
        self.assertEqual((file.size, file.read(0, 100)), (3, b"abcde"))
        file.truncate(file.size)
        file.append([b"!"])
        self.assertEqual(file.read(0, 100), b"abc!")

    def test_without_pwritev(self) -> None:
        """A system that lacks the call is served by a simpler one."""
        self.patch(os, "pwritev", None)
        del os.pwritev
        file = self.make("a", b"abc")
        file.append([b"d", b"ef"])
        self.assertEqual(file.read(0, 100), b"abcdef")


class ReadTests(RealFilesCase):
    """Reading, when not everything is in memory."""

    def setUp(self) -> None:
        super().setUp()
        self.file = self.make("a", b"0123456789")

    def answer(self, outcome: int | OSError) -> None:
        """Let reads that must not wait end in a given way."""

        def preadv(descriptor: int, buffers: list[bytearray], position: int, flags: int) -> int:
            if isinstance(outcome, OSError):
                raise outcome
            buffers[0][:outcome] = os.pread(descriptor, outcome, position)
            return outcome

        self.patch(os, "preadv", preadv)
        self.patch(files, "_NO_WAIT", 8)
        self.file._can_tell = True

    def test_cold(self) -> None:
        """Nothing is read when the disk would have to be asked."""
        self.answer(BlockingIOError(errno.EAGAIN, "cold"))
        self.assertIsNone(self.file.read(0, 10, wait=False))
        self.assertEqual(self.file.read(0, 10), b"0123456789")

    def test_half_cold(self) -> None:
        """Nothing is read when only the first part is in memory."""
        self.answer(4)
        self.assertIsNone(self.file.read(0, 10, wait=False))
        self.assertEqual(self.file.read(0, 4, wait=False), b"0123")
        self.assertEqual(self.file.read(6, 100, wait=False), b"6789")

    def test_small_reads_are_one_call(self) -> None:
        """What is small and in memory is read by the call that finds that out."""

        def preadv(descriptor: int, buffers: list[bytearray], position: int, flags: int) -> int:
            buffers[0][:] = b"0123456789"[position : position + len(buffers[0])]
            return len(buffers[0])

        self.answer(0)
        self.patch(os, "preadv", preadv)
        self.patch(os, "pread", self.fail)
        content = self.file.read(2, 4, wait=False)
        self.assertEqual(content, b"2345")
        self.assertIsInstance(content, bytes)

    def test_system_that_can_not_tell(self) -> None:
        """A filesystem that does not know what is in memory is simply read, and not asked again."""
        self.answer(OSError(errno.EOPNOTSUPP, "unknown"))
        self.assertEqual(self.file.read(0, 10, wait=False), b"0123456789")
        self.patch(os, "preadv", self.fail)
        self.assertEqual(self.file.read(3, 2, wait=False), b"34")

    def test_larger_than_the_scratch_buffer(self) -> None:
        """A large read is warm or cold as a whole, wherever in it the cold part is."""
        content = bytes(range(256)) * 4000
        large = self.make("large", content)
        real, cold_from = os.pread, len(content)

        def preadv(descriptor: int, buffers: list[memoryview], position: int, flags: int) -> int:
            warm = max(0, min(len(buffers[0]), cold_from - position))
            if not warm:
                raise BlockingIOError(errno.EAGAIN, "cold")
            buffers[0][:warm] = real(descriptor, warm, position)
            return warm

        self.patch(os, "preadv", preadv)
        self.patch(files, "_NO_WAIT", 8)
        large._can_tell = True
        self.assertEqual(large.read(0, len(content), wait=False), content)
        self.assertEqual(large.read(7, 2**30, wait=False), content[7:])
        for cold_from in (len(content) - 1, 512 * 1024, 300_000, 1, 0):  # noqa: B007 - preadv looks at it
            self.assertIsNone(large.read(0, len(content), wait=False))

    def test_unreadable(self) -> None:
        """An error of the disk is an error, not a cold read."""
        self.answer(OSError(errno.EIO, "broken"))
        error = self.assertRaises(OSError, self.file.read, 0, 10, False)
        self.assertEqual(error.errno, errno.EIO)

    def test_short_read_is_not_the_end(self) -> None:
        """A read that the system cuts short goes on, so that a bad sector is not taken for the end."""
        real = os.pread
        self.patch(os, "pread", lambda descriptor, size, position: real(descriptor, min(size, 4), position))
        self.assertEqual(self.file.read(1, 9), b"123456789")
        self.assertEqual(self.file.read(1, 100), b"123456789")

    def test_bad_sector(self) -> None:
        """A sector that can not be read raises, although those before it were read."""
        real = os.pread

        def pread(descriptor: int, size: int, position: int) -> bytes:
            if position >= 4:
                raise OSError(errno.EIO, "bad sector")
            return real(descriptor, 4 - position, position)

        self.patch(os, "pread", pread)
        self.assertRaises(OSError, self.file.read, 0, 10)


class SyncTests(RealFilesCase):
    """Which system calls make content durable, and what their errors mean."""

    def setUp(self) -> None:
        super().setUp()
        self.synced: list[int] = []
        self.broken: set[int] = set()
        self.syncfs_calls: list[int] = []
        self.syncfs_result = 0
        self.patch(files, "_fdatasync", self.fdatasync)
        self.patch(files, "_libc", self)
        self.patch(files, "_kernel_reports_errors", lambda: True)
        self.patch(files, "_filesystem_type", lambda descriptor: 0xEF53)

    def fdatasync(self, descriptor: int) -> None:
        self.synced.append(descriptor)
        if descriptor in self.broken:
            raise OSError(errno.EIO, "broken")

    def syncfs(self, descriptor: int) -> int:
        self.syncfs_calls.append(descriptor)
        return self.syncfs_result

    def make_many(self, count: int) -> list[RealFile]:
        return [self.make(str(number), b"x") for number in range(count)]

    def test_few(self) -> None:
        """A few files are synced one by one."""
        few = self.make_many(SYNCFS_FROM_FILES - 1)
        self.assertEqual(self.files.sync_many(few), {})
        self.assertEqual(self.synced, [each.fileno() for each in few])
        self.assertEqual(self.syncfs_calls, [])

    def test_many(self) -> None:
        """Many files are synced by one call for their filesystem."""
        self.assertEqual(self.files.sync_many(self.make_many(SYNCFS_FROM_FILES)), {})
        self.assertEqual((len(self.syncfs_calls), self.synced), (1, []))

    def test_same_descriptor_every_time(self) -> None:
        """The filesystem is always asked through the same handle: a new one would not know of old errors."""
        many = self.make_many(SYNCFS_FROM_FILES)
        self.files.sync_many(many)
        self.files.sync_many(many)
        self.assertEqual(len(self.syncfs_calls), 2)
        self.assertEqual(len(set(self.syncfs_calls)), 1)
        self.assertNotIn(self.syncfs_calls[0], [each.fileno() for each in many])

    def test_filesystem_fails(self) -> None:
        """When the filesystem reports an error, each file is asked, and only the guilty ones fail."""
        many = self.make_many(SYNCFS_FROM_FILES)
        self.syncfs_result = -1
        self.broken.add(many[2].fileno())
        errors = self.files.sync_many(many)
        self.assertEqual(list(errors), [many[2]])
        self.assertEqual(errors[many[2]].errno, errno.EIO)
        self.assertEqual(self.synced, [each.fileno() for each in many])

    def test_few_fail(self) -> None:
        """One file's error does not keep the others from being synced."""
        few = self.make_many(3)
        self.broken.add(few[0].fileno())
        self.assertEqual(list(self.files.sync_many(few)), [few[0]])
        self.assertEqual(len(self.synced), 3)

    def test_unknown_filesystem(self) -> None:
        """On a filesystem of which nothing is known, every file is synced on its own."""
        self.patch(files, "_filesystem_type", lambda descriptor: 0x65735546)
        self.files.sync_many(self.make_many(SYNCFS_FROM_FILES))
        self.assertEqual((self.syncfs_calls, len(self.synced)), ([], SYNCFS_FROM_FILES))

    def test_old_kernel(self) -> None:
        """A kernel that would not report errors is not relied on."""
        self.patch(files, "_kernel_reports_errors", lambda: False)
        self.files.sync_many(self.make_many(SYNCFS_FROM_FILES))
        self.assertEqual((self.syncfs_calls, len(self.synced)), ([], SYNCFS_FROM_FILES))

    def test_unreadable_directory(self) -> None:
        """A directory that may be entered but not read only costs the faster way."""
        real = os.open

        def denied(path: PurePath, flags: int, *rest: int) -> int:
            if flags & os.O_DIRECTORY:
                raise PermissionError(errno.EACCES, "denied")
            return real(path, flags, *rest)

        self.patch(os, "open", denied)
        self.files.sync_many(self.make_many(SYNCFS_FROM_FILES))
        self.assertEqual((self.syncfs_calls, len(self.synced)), ([], SYNCFS_FROM_FILES))


class KernelTests(SynchronousTestCase):
    """Which kernels are trusted to report a failed write-back."""

    def verdict(self, platform: str, release: str) -> bool:
        class Libc:
            syncfs = None

        self.patch(files, "_libc", Libc)
        self.patch(sys, "platform", platform)
        self.patch(os, "uname", lambda: os.uname_result(("", "", release, "", "")))
        return files._kernel_reports_errors()

    def test_releases(self) -> None:
        """Linux from 5.8 on is, however its release is written."""
        self.assertTrue(self.verdict("linux", "5.8.0-1-amd64"))
        self.assertTrue(self.verdict("linux", "6.18.44"))
        self.assertTrue(self.verdict("linux", "6.1-rc2"))
        self.assertFalse(self.verdict("linux", "5.7.19"))
        self.assertFalse(self.verdict("linux", "4.18.0-553.el8.x86_64"))
        self.assertFalse(self.verdict("darwin", "23.1.0"))


class DirectoryTests(RealFilesCase):
    """Syncing directories."""

    def fail_with(self, code: int) -> None:
        def fsync(descriptor: int) -> None:
            raise OSError(code, "no")

        self.patch(os, "fsync", fsync)

    def test_filesystem_without_directory_sync(self) -> None:
        """A filesystem that has no such call makes names durable by itself."""
        self.fail_with(errno.EINVAL)
        self.files.sync_directory(self.root)

    def test_failure(self) -> None:
        """Any other error is told."""
        self.fail_with(errno.EIO)
        self.assertRaises(OSError, self.files.sync_directory, self.root)


class HandleTests(RealFilesCase):
    """Descriptors: how many there may be, and that none is lost."""

    def setUp(self) -> None:
        super().setUp()
        self.limits = (100, 1000)
        self.patch(resource, "getrlimit", lambda which: self.limits)
        self.patch(resource, "setrlimit", self.set_limits)
        self.patch(sys, "platform", "linux")

    def set_limits(self, which: int, limits: tuple[int, int]) -> None:
        self.limits = limits

    def test_limit_is_raised(self) -> None:
        """The soft limit is raised to the hard one, and half of it is for files."""
        self.assertEqual(self.files.handles_max(), 500)
        self.assertEqual(self.limits, (1000, 1000))

    def test_no_limit(self) -> None:
        """Without a hard limit, a large number is asked for."""
        self.limits = (100, resource.RLIM_INFINITY)
        self.assertEqual(self.files.handles_max(), 524_288)
        self.limits = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        self.assertEqual(self.files.handles_max(), 524_288)

    def test_refused(self) -> None:
        """Where the limit may not be raised, half of it is what there is."""

        def refuse(which: int, limits: tuple[int, int]) -> None:
            raise ValueError("not allowed to raise maximum limit")

        self.patch(resource, "setrlimit", refuse)
        self.assertEqual(self.files.handles_max(), 50)

    def test_other_systems(self) -> None:
        """Elsewhere the limit stays: the reactor may not be able to watch large descriptors."""
        self.patch(sys, "platform", "darwin")
        self.assertEqual((self.files.handles_max(), self.limits), (50, (100, 1000)))

    def test_descriptors_are_not_inherited(self) -> None:
        """Programs that the process starts do not get its files and locks."""
        file, lock = self.make("a"), self.files.lock(self.root / "lock")
        self.addCleanup(lock.close)
        self.assertFalse(os.get_inheritable(file.fileno()))
        self.assertFalse(os.get_inheritable(lock._descriptor))

    def test_failed_calls_leak_nothing(self) -> None:
        """Whatever fails, no descriptor stays behind."""
        held = self.files.lock(self.root / "lock")
        self.addCleanup(held.close)
        self.make("a")
        before = self.next_descriptor()
        self.assertRaises(BlockingIOError, self.files.lock, self.root / "lock")
        self.assertRaises(OSError, self.files.open, self.root)
        self.assertRaises(OSError, self.files.open, self.root / "missing")
        self.assertRaises(OSError, self.files.sync_directory, self.root / "missing")
        with patch.object(os, "fstat", lambda descriptor: 1 // 0):
            self.assertRaises(ZeroDivisionError, self.files.open, self.root / "a")
        self.assertEqual(self.next_descriptor(), before)

    def next_descriptor(self) -> int:
        """The number that the next open will get: the smallest that is free."""
        descriptor = os.open(self.root, os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    def test_file_mode(self) -> None:
        """A new file is not executable; who may read it is up to the umask."""
        self.make("a")
        self.assertEqual(Path(self.root / "a").stat().st_mode & 0o111, 0)
