"""Tests for L{rustlog.environment.memory}."""

from __future__ import annotations

import ctypes
import platform

from twisted.trial.unittest import SynchronousTestCase

from rustlog.environment.memory import keep_freed_memory


class KeepTests(SynchronousTestCase):
    def test_where_it_can_be_done(self) -> None:
        """The GNU C library is told to keep memory."""
        if platform.libc_ver()[0] != "glibc":
            self.skipTest("this is not the GNU C library")
        self.assertTrue(keep_freed_memory())

    def test_where_it_can_not(self) -> None:
        """Others go on as they are."""
        self.patch(ctypes, "CDLL", lambda name: object())
        self.assertFalse(keep_freed_memory())
