"""Tests for L{rustlog.environment.readonly}."""

from __future__ import annotations

import errno

from zope.interface.verify import verifyObject

from rustlog.environment.readonly import ReadOnlyFiles
from rustlog.interfaces import IFiles
from tests.unit.environment.test_files import RealFilesCase


class ReadOnlyFilesTests(RealFilesCase):
    """Looking without touching."""

    def setUp(self) -> None:
        super().setUp()
        self.make("a", b"content").close()
        self.only = ReadOnlyFiles()

    def test_reads(self) -> None:
        """Files and directories can be looked at."""
        verifyObject(IFiles, self.only)
        file = self.only.open(self.root / "a")
        self.addCleanup(file.close)
        self.assertEqual(file.read(3, 100), b"tent")
        self.assertEqual(self.only.names(self.root), ["a"])
        self.assertEqual(self.only.size(self.root / "a"), 7)

    def test_open_files_can_not_be_written(self) -> None:
        """The system itself refuses."""
        file = self.only.open(self.root / "a")
        self.addCleanup(file.close)
        self.assertRaises(OSError, file.append, [b"more"])
        self.assertRaises(OSError, file.truncate, 1)

    def test_changes_nothing(self) -> None:
        """Whatever would change the disk is refused before it is tried."""
        path = self.root / "a"
        for refused in (
            lambda: self.only.open(self.root / "b", create=True),
            lambda: self.only.unlink(path),
            lambda: self.only.rename(path, self.root / "b"),
            lambda: self.only.make_directory(self.root / "d"),
            lambda: self.only.remove_directory(self.root),
            lambda: self.only.lock(self.root / "LOCK"),
        ):
            self.assertEqual(self.assertRaises(OSError, refused).errno, errno.EROFS)
        self.assertEqual(self.only.names(self.root), ["a"])
