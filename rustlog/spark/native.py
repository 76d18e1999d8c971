"""
The inner loops of decoding, in C, where somebody has compiled them.

    python -m rustlog.spark.native

does that, with the C compiler of the machine (C{cc}, or what C{CC} says), and puts the library into the
user's cache directory, where it is found from then on by every process of that user.  Without it everything
works the same, more slowly.

The environment variable C{RUSTLOG_NATIVE} says otherwise: C{off}, or the path of a library that was compiled
elsewhere from the same source.
"""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa

from rustlog.spark.fields import NOT_READ, Depth, Fields
from rustlog.spark.varints import Bytes, Numbers

VARIABLE = "RUSTLOG_NATIVE"
OFF = "off"

_SOURCE = Path(__file__).with_name("native.c")
_NUMBERS = np.ctypeslib.ndpointer(np.int64, flags="C_CONTIGUOUS")
_BYTES = ctypes.c_void_p


class NotCompiled(Exception):
    """There is no compiler, or it failed; the message says which."""


class Native:
    """
    The compiled functions.

    @raise OSError: this is no such library.
    """

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        self._locate = library.rustlog_locate
        self._locate.restype = ctypes.c_int64
        self._locate.argtypes = [_BYTES, ctypes.c_int64, *[_NUMBERS] * 3, ctypes.c_int64, *[_NUMBERS] * 8]
        self._gather = library.rustlog_gather
        self._gather.restype = None
        self._gather.argtypes = [_BYTES, ctypes.c_int64, _NUMBERS, _NUMBERS, _BYTES, _BYTES]

    def locate(
        self, data: Bytes, begins: Numbers, ends: Numbers, counts: Numbers, depth: Depth
    ) -> Fields | int:
        """The fields of all records of some batches; or the number of the batch that is not right."""
        rows = int(counts.sum())
        stops, timestamps, offsets = (np.empty(rows, np.int64) for _ in range(3))
        is_deep = depth >= Depth.CONTENT
        key_at, key_sizes, value_at, value_sizes, headers_at = (
            np.empty(rows, np.int64) if is_deep else NOT_READ for _ in range(5)
        )
        wrong = self._locate(
            data.ctypes.data, len(counts), begins, ends, counts, is_deep, stops, timestamps, offsets,
            key_at, key_sizes, value_at, value_sizes, headers_at,
        )  # fmt: skip
        if wrong >= 0:
            return int(wrong)
        return Fields(timestamps, offsets, key_at, key_sizes, value_at, value_sizes, headers_at, stops)

    def gather(self, data: Bytes, at: Numbers, sizes: Numbers) -> tuple[pa.Buffer, pa.Buffer]:
        """The offsets and the content of a column of these pieces of C{data}."""
        count, total = len(at), int(np.maximum(sizes, 0).sum())
        offsets, content = pa.allocate_buffer(4 * (count + 1)), pa.allocate_buffer(total)
        at, sizes = np.ascontiguousarray(at), np.ascontiguousarray(sizes)
        self._gather(data.ctypes.data, count, at, sizes, offsets.address, content.address)
        return offsets, content


@cache
def load() -> Native | None:
    """What was compiled; C{None}: nothing was, or it is not wanted."""
    wish = os.environ.get(VARIABLE, "")
    if wish == OFF:
        return None
    try:
        return Native(Path(wish) if wish else library_path())
    except OSError:
        if wish:
            raise
        return None


def library_path() -> Path:
    """Where the library is, once it has been compiled: another source has another name."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    return Path(base) / "rustlog" / f"native-{digest}-{platform.machine()}.so"


def compile_library(path: Path | None = None) -> Path:
    """
    Compile it; where it is then.

    @raise NotCompiled: that can not be done here.
    """
    path = path or library_path()
    compiler = os.environ.get("CC", "cc")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=path.parent) as place:
            made = Path(place) / "native.so"
            command = [compiler, "-O3", "-std=c11", "-shared", "-fPIC", "-o", str(made), str(_SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise NotCompiled(f"{compiler} failed: {done.stderr.strip()}")
            made.replace(path)  # Never seen half written.
    except OSError as error:
        raise NotCompiled(f"{error.filename or compiler}: {error.strerror}") from None
    load.cache_clear()
    return path


def main() -> int:
    """Compile it, and say so."""
    try:
        path = compile_library()
    except NotCompiled as problem:
        sys.stderr.write(f"the decoder can not be compiled: {problem}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
