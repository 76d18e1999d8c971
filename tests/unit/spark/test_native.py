"""Tests for L{rustlog.spark.native}: that it decodes rightly, those of the decoder see."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from rustlog.spark import native
from tests.unit.spark.harness import compiled

ROOT = Path(__file__).parents[3]


class NativeTests(SynchronousTestCase):
    """The C decoder is there for those who compiled it."""

    def setUp(self) -> None:
        self.cache = self.mktemp()
        self.patch(os, "environ", {**os.environ, "XDG_CACHE_HOME": self.cache})
        os.environ.pop(native.VARIABLE, None)
        native.load.cache_clear()
        self.addCleanup(native.load.cache_clear)

    def compile(self) -> Path:
        if compiled() is None:
            raise SkipTest("there is no C compiler")
        return native.compile_library()

    def test_found(self) -> None:
        """Once it is compiled it is found, until the source is another one."""
        self.assertIsNone(native.load())
        path = self.compile()
        self.assertEqual(path.parent.parent, Path(self.cache))
        self.assertIsNotNone(native.load())

    def test_turned_off(self) -> None:
        """It can be turned off, and be somewhere else."""
        path = self.compile()
        os.environ[native.VARIABLE] = native.OFF
        native.load.cache_clear()
        self.assertIsNone(native.load())
        os.environ[native.VARIABLE] = str(path.rename(path.with_name("other.so")))
        native.load.cache_clear()
        self.assertIsNotNone(native.load())
        os.environ[native.VARIABLE] = "/nowhere.so"
        native.load.cache_clear()
        self.assertRaises(OSError, native.load)

    def test_no_compiler(self) -> None:
        """Without a compiler, or with one that fails, one sentence says so."""
        for compiler in ("/nowhere/cc", "false"):
            os.environ["CC"] = compiler
            self.assertIn(compiler, str(self.assertRaises(native.NotCompiled, native.compile_library)))
        self.assertIsNone(native.load())


class ImportTests(SynchronousTestCase):
    """This is a client."""

    def test_no_twisted(self) -> None:
        """A worker of Spark's that imports all this imports nothing of Twisted, and no broker."""
        modules = ("files", "kafka", "native", "partitioning", "ranges", "reading")
        imports = "".join(f"import rustlog.spark.{each}; " for each in modules)
        command = [sys.executable, "-c", f"import sys; {imports}print(*sys.modules)"]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        imported = found.stdout.split()
        self.assertIn("rustlog.spark.files", imported)
        tops = {name.split(".")[0] for name in imported}
        self.assertEqual(tops & {"twisted", "zope", "pyspark"}, set())
        self.assertNotIn("rustlog.broker", imported)
