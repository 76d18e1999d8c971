"""Tests for L{rustlog.spark.java} and L{rustlog.spark.session}: a Java for Spark."""

from __future__ import annotations

import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from rustlog.spark.errors import BadOption
from rustlog.spark.java import Java, NoJava, cache_directory, find_java, java_home
from rustlog.spark.session import parse_conf

_FAKE = """#!/bin/sh
if [ "$1" = -version ]; then
    echo 'openjdk version "{version}" 2025-04-15' >&2
else
    for argument do echo "$argument"; done
fi
"""


class JavaTests(SynchronousTestCase):
    def fake(self, version: str) -> Path:
        """A home of Java."""
        home = Path(self.mktemp()).absolute()
        (home / "bin").mkdir(parents=True)
        java = home / "bin" / "java"
        java.write_text(_FAKE.format(version=version))
        java.chmod(0o755)
        return home

    def found(self, home: Path | None, path: Path | None, bundled: Path | None) -> Java:
        environment = {}
        if home is not None:
            environment["JAVA_HOME"] = str(home)
        if path is not None:
            environment["PATH"] = str(path / "bin")
        return find_java(environment, lambda: bundled / "bin" / "java" if bundled is not None else None)

    def test_order(self) -> None:
        """JAVA_HOME comes first, then PATH, then the package."""
        one, two, three = self.fake("17.0.15"), self.fake("21"), self.fake("25.0.2")
        self.assertEqual(self.found(one, two, three), Java(one / "bin" / "java", 17))
        self.assertEqual(self.found(None, two, three), Java(two / "bin" / "java", 21))
        self.assertEqual(self.found(None, None, three), Java(three / "bin" / "java", 25))

    def test_too_old(self) -> None:
        """One that is too old, or is not there, is passed over."""
        old, good = self.fake("1.8.0_392"), self.fake("17")
        self.assertEqual(self.found(old, good, None).path, good / "bin" / "java")
        self.assertEqual(self.found(Path("/nowhere"), good, None).path, good / "bin" / "java")

    def test_none(self) -> None:
        """Without any, one line says what to do."""
        error = self.assertRaises(NoJava, self.found, self.fake("1.8.0"), None, None)
        self.assertIn("pip install rustlog[spark]", str(error))
        self.assertIn("is Java 8", str(error))
        self.assertNotIn("\n", str(error))

    def test_script(self) -> None:
        """Java is started with all arguments but those that it would not understand."""
        java = self.found(self.fake("17"), None, None)
        home = java_home(java, Path(self.mktemp()))
        arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx=it's", "", "*"]
        said = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout.splitlines(), ["-cp", "a b", "-Dx=it's", "", "*"])

    def test_script_of_a_young_one(self) -> None:
        """A package that is gone since Java 24 is not named to it, but to older ones."""
        opens = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
        for version, passed in (("21", [opens, "x"]), ("25", ["x"])):
            home = java_home(self.found(self.fake(version), None, None), Path(self.mktemp()))
            command = [home / "bin" / "java", opens, "x"]
            said = subprocess.run(command, capture_output=True, text=True, check=True)
            self.assertEqual(said.stdout.splitlines(), passed)

    def test_script_is_made_once(self) -> None:
        """The same Java has the same home."""
        java, cache = self.found(self.fake("17"), None, None), Path(self.mktemp())
        first = java_home(java, cache)
        written = (first / "bin" / "java").stat().st_mtime_ns
        self.assertEqual(java_home(java, cache), first)
        self.assertEqual((first / "bin" / "java").stat().st_mtime_ns, written)

    def test_cache(self) -> None:
        """Small files are kept where the user's are; elsewhere, if that is not possible."""
        place = Path(self.mktemp()).absolute()
        self.assertEqual(cache_directory({"XDG_CACHE_HOME": str(place)}), place / "rustlog")
        blocked = Path(self.mktemp())
        blocked.write_text("not a directory")
        self.assertTrue(cache_directory({"XDG_CACHE_HOME": str(blocked)}).is_dir())


class ConfTests(SynchronousTestCase):
    def test_parse(self) -> None:
        """Settings of Spark are given as to spark-submit."""
        self.assertEqual(parse_conf(["spark.a=b=c", "spark.d="]), {"spark.a": "b=c", "spark.d": ""})
        for wrong in ("spark.a", "a=b"):
            self.assertIn("spark.KEY=VALUE", str(self.assertRaises(BadOption, parse_conf, [wrong])))
