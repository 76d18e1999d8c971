"""
L{FilesContract}: what every L{IFiles} must do, the real disk and the simulated one alike.

Crashes are not in it: no test can cut the power of the machine it runs on.
"""

from __future__ import annotations

import errno
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from zope.interface.verify import verifyObject

from rustlog.interfaces import IFile, IFiles

if TYPE_CHECKING:
    from twisted.trial.unittest import SynchronousTestCase as _TestCase
else:
    _TestCase = object

MANY_BUFFERS = 3000
"""More than a system takes in one call (Linux: 1024)."""

MANY_FILES = 40
"""More than are synced one by one."""


class FilesContract(_TestCase):
    """
    Mix this into a C{SynchronousTestCase} whose C{setUp} sets C{files} to the L{IFiles} and
    C{root} to an empty directory on it.
    """

    files: Any
    root: PurePath

    def create(self, name: str, content: bytes = b"") -> Any:
        """An open file, closed after the test."""
        file = self.files.open(self.root / name, create=True)
        self.addCleanup(file.close)
        if content:
            file.append([content])
        return file

    def content(self, name: str) -> bytes:
        """What a fresh handle reads."""
        file = self.files.open(self.root / name)
        self.addCleanup(file.close)
        found = file.read(0, file.size)
        assert isinstance(found, bytes)
        return found

    # -- the interfaces ----------------------------------------------------------

    def test_provides_interfaces(self) -> None:
        """Both objects have every method, with the right arguments."""
        verifyObject(IFiles, self.files)
        verifyObject(IFile, self.create("a"))

    # -- one file ----------------------------------------------------------------

    def test_append_and_read(self) -> None:
        """What is appended can be read at its position."""
        file = self.create("a", b"hello ")
        file.append([b"wor", bytearray(b"ld"), memoryview(b"!")])
        self.assertEqual(file.size, 12)
        self.assertEqual(file.read(0, 12), b"hello world!")
        self.assertEqual(file.read(6, 5), b"world")

    def test_append_nothing(self) -> None:
        """Appending no bytes changes nothing."""
        file = self.create("a", b"x")
        file.append([])
        file.append([b"", b""])
        self.assertEqual((file.size, self.content("a")), (1, b"x"))

    def test_append_takes_an_iterator(self) -> None:
        """Buffers may come from a generator."""
        file = self.create("a")
        file.append(each for each in (b"a", b"b"))
        self.assertEqual(self.content("a"), b"ab")

    def test_append_many_buffers(self) -> None:
        """All buffers arrive in order, even if there are more than one system call takes."""
        pieces = [b"%d," % number for number in range(MANY_BUFFERS)]
        pieces[5] = b""
        file = self.create("a")
        file.append(pieces)
        self.assertEqual(file.size, len(b"".join(pieces)))
        self.assertEqual(self.content("a"), b"".join(pieces))

    def test_read_at_the_end(self) -> None:
        """A read gives less at the end of the file, and nothing beyond it."""
        file = self.create("a", b"abc")
        self.assertEqual(file.read(1, 100), b"bc")
        self.assertEqual(file.read(3, 100), b"")
        self.assertEqual(file.read(1000, 100), b"")
        self.assertEqual(file.read(0, 0), b"")

    def test_read_without_waiting(self) -> None:
        """A read that must not wait gives the same as one that may, or None."""
        file = self.create("a", b"abc" * 1000)
        for position, size in ((0, 3000), (5, 10), (2990, 100), (3000, 10), (5000, 10)):
            found = file.read(position, size, wait=False)
            self.assertIn(found, (None, file.read(position, size)))

    def test_reads_are_bytes(self) -> None:
        """Every read gives an immutable value that later writes do not change."""
        file = self.create("a", b"abc")
        found = [file.read(0, 3), *(file.read(0, 3, wait=False) for _ in range(5))]
        file.truncate(0)
        file.append([b"xyz"])
        self.assertLessEqual(set(found), {None, b"abc"})

    def test_truncate_and_append(self) -> None:
        """After a truncation, appends go to the new end."""
        file = self.create("a", b"0123456789")
        file.truncate(4)
        self.assertEqual((file.size, self.content("a")), (4, b"0123"))
        file.append([b"ab"])
        self.assertEqual((file.size, self.content("a")), (6, b"0123ab"))

    def test_truncate_does_not_lengthen(self) -> None:
        """Truncating to more than there is is a mistake of the caller."""
        file = self.create("a", b"abc")
        self.assertRaises(ValueError, file.truncate, 4)
        self.assertEqual((file.size, self.content("a")), (3, b"abc"))

    def test_sync_changes_nothing_visible(self) -> None:
        """A file reads the same after a sync."""
        file = self.create("a", b"abc")
        file.sync()
        file.truncate(2)
        file.sync()
        self.assertEqual((file.size, file.read(0, 10)), (2, b"ab"))

    def test_closed_file(self) -> None:
        """A closed handle refuses everything, but may be closed again."""
        file = self.create("a", b"abc")
        file.close()
        file.close()
        calls = (
            lambda: file.append([b"x"]),
            lambda: file.read(0, 1),
            lambda: file.read(0, 1, wait=False),
            lambda: file.truncate(1),
            file.sync,
        )
        for call in calls:
            self.assertEqual(self.assertRaises(OSError, call).errno, errno.EBADF)

    def test_open_existing(self) -> None:
        """Opening with create keeps what is in a file."""
        self.create("a", b"abc")
        file = self.create("a")
        self.assertEqual(file.size, 3)
        file.append([b"d"])
        self.assertEqual(self.content("a"), b"abcd")

    def test_open_missing(self) -> None:
        """A missing file, or one in a missing directory, is not opened."""
        self.assertRaises(FileNotFoundError, self.files.open, self.root / "a")
        self.assertRaises(FileNotFoundError, self.files.open, self.root / "b" / "a", True)
        self.assertEqual(self.files.names(self.root), [])

    def test_open_directory(self) -> None:
        """A directory is not opened as a file, nor a file entered as a directory."""
        self.create("a")
        self.assertRaises(IsADirectoryError, self.files.open, self.root)
        self.assertRaises(NotADirectoryError, self.files.open, self.root / "a" / "b", True)

    def test_read_after_unlink(self) -> None:
        """An open file can be used after its name is gone."""
        file = self.create("a", b"abc")
        self.files.unlink(self.root / "a")
        file.append([b"d"])
        file.sync()
        self.assertEqual(file.read(0, 10), b"abcd")

    def test_handle_follows_rename(self) -> None:
        """An open file stays open when it is renamed, or another takes its name."""
        file = self.create("a", b"one")
        self.create("b", b"two")
        self.files.rename(self.root / "a", self.root / "c")
        self.files.rename(self.root / "b", self.root / "a")
        file.append([b"!"])
        self.assertEqual((self.content("c"), self.content("a")), (b"one!", b"two"))

    # -- names -------------------------------------------------------------------

    def test_names(self) -> None:
        """A directory lists files and directories, sorted; a missing one lists nothing."""
        for name in ("b", "a", "10", "9"):
            self.create(name)
        self.files.make_directory(self.root / "c" / "d")
        self.assertEqual(self.files.names(self.root), ["10", "9", "a", "b", "c"])
        self.assertEqual(self.files.names(self.root / "c"), ["d"])
        self.assertEqual(self.files.names(self.root / "missing" / "too"), [])
        self.assertRaises(NotADirectoryError, self.files.names, self.root / "a")

    def test_exists_and_size(self) -> None:
        """Files and directories exist; a file has a size."""
        self.create("a", b"abc")
        self.assertTrue(self.files.exists(self.root / "a"))
        self.assertTrue(self.files.exists(self.root))
        self.assertFalse(self.files.exists(self.root / "b"))
        self.assertFalse(self.files.exists(self.root / "a" / "b"))
        self.assertEqual(self.files.size(self.root / "a"), 3)
        self.assertRaises(FileNotFoundError, self.files.size, self.root / "b")

    def test_make_directory(self) -> None:
        """A directory is made with its parents, and again without an error."""
        path = self.root / "x" / "y" / "z"
        self.files.make_directory(path)
        self.files.make_directory(path)
        self.assertEqual(self.files.names(self.root / "x" / "y"), ["z"])

    def test_make_directory_over_file(self) -> None:
        """A file is not replaced by a directory, nor used as one."""
        self.create("a", b"abc")
        self.assertRaises(FileExistsError, self.files.make_directory, self.root / "a")
        self.assertRaises(NotADirectoryError, self.files.make_directory, self.root / "a" / "b" / "c")
        self.assertEqual(self.content("a"), b"abc")

    def test_rename_replaces(self) -> None:
        """A rename replaces a file, also in another directory."""
        self.files.make_directory(self.root / "d")
        self.create("d/b", b"old")
        self.create("a", b"new")
        self.files.rename(self.root / "a", self.root / "d" / "b")
        self.assertEqual(self.content("d/b"), b"new")
        self.assertEqual(self.files.names(self.root), ["d"])

    def test_rename_to_itself(self) -> None:
        """A rename to the same name does nothing."""
        self.create("a", b"abc")
        self.files.rename(self.root / "a", self.root / "a")
        self.assertEqual(self.content("a"), b"abc")

    def test_rename_directory(self) -> None:
        """A directory is renamed with all that is in it, over an empty one if there is one."""
        self.files.make_directory(self.root / "d" / "e")
        self.files.make_directory(self.root / "empty")
        self.create("d/e/a", b"abc")
        self.files.rename(self.root / "d", self.root / "empty")
        self.assertEqual(self.content("empty/e/a"), b"abc")
        self.assertEqual(self.files.names(self.root), ["empty"])

    def test_rename_refused(self) -> None:
        """A rename that makes no sense is refused, and changes nothing."""
        self.create("a", b"abc")
        self.files.make_directory(self.root / "d" / "e")
        self.files.make_directory(self.root / "f")
        refused = (
            ("missing", "b", FileNotFoundError),
            ("a", "missing/b", FileNotFoundError),
            ("a", "d", IsADirectoryError),
            ("d", "a", NotADirectoryError),
            ("f", "d", OSError),
            ("d", "d/e/d", OSError),
        )
        for old, new, error in refused:
            self.assertRaises(error, self.files.rename, self.root / old, self.root / new)
        self.assertEqual(self.files.names(self.root), ["a", "d", "f"])
        self.assertEqual(self.files.names(self.root / "d"), ["e"])

    def test_unlink(self) -> None:
        """A file is removed once; a directory is not removed like a file."""
        self.create("a")
        self.files.make_directory(self.root / "d")
        self.files.unlink(self.root / "a")
        self.assertRaises(FileNotFoundError, self.files.unlink, self.root / "a")
        self.assertRaises(OSError, self.files.unlink, self.root / "d")
        self.assertEqual(self.files.names(self.root), ["d"])

    def test_remove_directory(self) -> None:
        """Only an empty directory is removed."""
        self.files.make_directory(self.root / "d")
        self.create("d/a")
        refused = self.assertRaises(OSError, self.files.remove_directory, self.root / "d")
        self.assertEqual(refused.errno, errno.ENOTEMPTY)
        self.assertRaises(NotADirectoryError, self.files.remove_directory, self.root / "d" / "a")
        self.files.unlink(self.root / "d" / "a")
        self.files.remove_directory(self.root / "d")
        self.assertRaises(FileNotFoundError, self.files.remove_directory, self.root / "d")
        self.assertEqual(self.files.names(self.root), [])

    # -- lasting -----------------------------------------------------------------

    def test_sync_directory(self) -> None:
        """A directory can be synced; a file or nothing can not be synced as one."""
        self.create("a")
        self.files.sync_directory(self.root)
        self.assertRaises(FileNotFoundError, self.files.sync_directory, self.root / "missing")
        self.assertRaises(NotADirectoryError, self.files.sync_directory, self.root / "a")
        self.assertEqual(self.files.names(self.root), ["a"])

    def test_sync_many(self) -> None:
        """Any number of files is synced, without an error and without a visible change."""
        files = [self.create(f"f{number}", b"%d" % number) for number in range(MANY_FILES)]
        for count in (0, 1, MANY_FILES):
            self.assertEqual(self.files.sync_many(files[:count]), {})
        self.assertEqual(self.content("f39"), b"39")

    def test_sync_many_tells_who_failed(self) -> None:
        """Those files that could not be synced come back with their errors, the others do not."""
        good, bad = self.create("good", b"1"), self.create("bad", b"2")
        bad.close()
        errors = self.files.sync_many([good, bad])
        self.assertEqual(list(errors), [bad])
        self.assertEqual(errors[bad].errno, errno.EBADF)

    def test_lock(self) -> None:
        """A lock is held by one at a time, and is free when closed."""
        path = self.root / "lock"
        held = self.files.lock(path)
        self.assertRaises(BlockingIOError, self.files.lock, path)
        held.close()
        held.close()
        again = self.files.lock(path)
        again.close()

    def test_locks_are_independent(self) -> None:
        """Each file has its own lock."""
        for name in ("a", "b"):
            self.addCleanup(self.files.lock(self.root / name).close)
        self.assertEqual(self.files.names(self.root), ["a", "b"])

    def test_lock_in_missing_directory(self) -> None:
        """A lock in a missing directory is an error, not a lock."""
        self.assertRaises(FileNotFoundError, self.files.lock, self.root / "missing" / "lock")

    def test_limits(self) -> None:
        """There is room for some bytes and some handles; a missing device has none."""
        self.assertGreater(self.files.free_bytes(self.root), 0)
        self.assertGreater(self.files.handles_max(), 0)
        self.assertRaises(FileNotFoundError, self.files.free_bytes, self.root / "missing")
