"""
Kafka's clients in other languages: what they need is fetched and compiled, once, by the tools of their world.

    python -m tests.integration.toolchains

does so for all of them, and names those that are missing; the tests do it by themselves, too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from tests.integration.daemon import ROOT

CACHE = ROOT / ".cache" / "clients"
JAVA = ROOT / "tests" / "integration" / "java"
NODE = ROOT / "tests" / "integration" / "node"
FETCHING_SECONDS = 540


class Missing(Exception):
    """A client can not be run here; says why, and what would help."""


@cache
def java() -> tuple[str, ...]:
    """
    How to run a Java program of the tests.

    @raise Missing: there is no JDK, no Maven, or the libraries can not be had.
    """
    _need("javac", "a JDK 17 or later (Debian, Ubuntu: apt install default-jdk-headless)")
    _need("mvn", "Maven (Debian, Ubuntu: apt install maven)")
    jars, classes = CACHE / "java" / "jars", CACHE / "java" / "classes"
    pom = JAVA / "pom.xml"
    fetch = ["mvn", "-B", "-q", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
    _once(jars, [pom], lambda: _run("Maven", fetch))
    path = os.pathsep.join((f"{jars}/*", str(classes)))
    sources = sorted(JAVA.glob("*.java"))
    build = ["javac", "-Xlint:all,-processing", "-Werror", "-cp", path, "-d", str(classes)]
    _once(classes, [pom, *sources], lambda: _run("javac", [*build, *map(str, sources)]))
    # Short runs: no time for the second compiler.
    return ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", path)


@cache
def node() -> tuple[str, ...]:
    """
    How to run a JavaScript program of the tests.

    @raise Missing: there is no Node.js, no npm, or the packages can not be had.
    """
    _need("node", "Node.js 20 or later (Debian, Ubuntu: apt install nodejs)")
    _need("npm", "npm (Debian, Ubuntu: apt install npm)")
    fetch = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    wanted = [NODE / "package.json", NODE / "package-lock.json"]
    _once(NODE / "node_modules", wanted, lambda: _run("npm", fetch, NODE))
    return ("node",)


def kcat() -> tuple[str, ...]:
    """
    How to run kcat.

    @raise Missing: it is not installed.
    """
    _need("kcat", "kcat (Debian, Ubuntu: apt install kcat)")
    return ("kcat",)


TOOLCHAINS: tuple[Callable[[], tuple[str, ...]], ...] = (java, node, kcat)


def _need(tool: str, what: str) -> None:
    if shutil.which(tool) is None:
        raise Missing(f"{tool} is not installed; it takes {what}")


def _once(directory: Path, sources: Sequence[Path], make: Callable[[], None]) -> None:
    """Make what is in a directory, unless it was made from just these sources."""
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()
    stamp = directory / ".made-from"
    if stamp.exists() and stamp.read_text() == digest:
        return
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    make()
    stamp.write_text(digest)


def _run(name: str, command: list[str], directory: Path = ROOT) -> None:
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, timeout=FETCHING_SECONDS, check=False, text=True
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{name} was not done within {FETCHING_SECONDS} s: {' '.join(command)}") from None
    if done.returncode != 0:
        raise Missing(f"{name} failed: {' '.join(command)}: {(done.stdout + done.stderr)[-1000:]}")


def main() -> None:
    """Prepare all that can be."""
    for each in TOOLCHAINS:
        try:
            each()
        except Missing as reason:
            print(f"the tests of {each.__name__} will be skipped: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
