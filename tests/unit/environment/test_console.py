"""Tests for L{rustlog.environment.console} and L{rustlog.environment.pace}."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from datetime import datetime
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.environment.console import Console, real_console
from rustlog.environment.pace import SystemPace


class Stream:
    """A text stream over a file descriptor."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.buffer = io.BytesIO(b"input")

    def fileno(self) -> int:
        return int(self._file.fileno())

    def isatty(self) -> bool:
        return False


class ConsoleTests(SynchronousTestCase):
    """What a command is started with."""

    def setUp(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.addCleanup(self.file.close)
        for name in ("stdin", "stdout"):
            self.patch(sys, name, Stream(self.file))
        self.console = real_console()

    def test_streams(self) -> None:
        """What is written is written as a whole, whatever Python was told about buffers."""
        self.assertIsInstance(self.console.stdout, io.BufferedWriter)
        self.console.stdout.write(b"output")
        self.console.stdout.flush()
        self.file.seek(0)
        self.assertEqual(self.file.read(), b"output")
        self.assertEqual(self.console.stdin.read(), b"input")
        self.assertFalse(self.console.can_ask)

    def test_silence(self) -> None:
        """After that, what is written goes nowhere."""
        self.console.silence()
        self.console.stdout.write(b"output")
        self.console.stdout.flush()
        self.assertTrue(os.path.samestat(os.fstat(self.file.fileno()), os.stat(os.devnull)))

    def test_others(self) -> None:
        """Variables, times and files are those of the machine."""
        self.assertIs(self.console.variables, os.environ)
        self.assertIsNotNone(self.console.local_time(datetime(2026, 1, 1)).tzinfo)  # noqa: DTZ001
        with self.console.open(__file__) as file:
            self.assertIn(b"class ConsoleTests", file.read())
        self.assertRaises(FileNotFoundError, Console.open, self.console, "/nowhere/at/all")


class PaceTests(SynchronousTestCase):
    """Time and chance."""

    def test_pace(self) -> None:
        """Time goes forward; chance stays within its limits."""
        pace = SystemPace()
        before = pace.monotonic()
        pace.sleep(0)
        self.assertGreaterEqual(pace.monotonic(), before)
        values = [pace.uniform(1, 2) for _ in range(10)]
        self.assertTrue(all(1 <= each <= 2 for each in values))
        self.assertGreater(len(set(values)), 1)
