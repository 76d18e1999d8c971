"""
Names of the files of a partition; L{rustlog.storage.datadir} and L{rustlog.storage.topicfiles} have
those around it.

    <data-dir>/logs/<topic>/<n>/<base offset>.log  record batches, back to back
    <data-dir>/logs/<topic>/<n>/<base offset>.index, .timeindex
"""

from __future__ import annotations

import re
from pathlib import PurePath

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"

_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)

_BASE_OFFSET = re.compile("0|[1-9][0-9]*")


def segment_path(directory: PurePath, base_offset: int, suffix: str) -> PurePath:
    """Where a file of the segment that begins at C{base_offset} lies."""
    return directory / f"{base_offset}{suffix}"


def is_segment_file(name: str) -> bool:
    """Whether a file of that name is one that this store would have made."""
    stem, dot, suffix = name.rpartition(".")
    return dot + suffix in _SUFFIXES and _BASE_OFFSET.fullmatch(stem) is not None


def base_offsets(names: list[str]) -> list[int]:
    """
    The segments among the names of a partition's directory, in the order of the log.  Names
    that this store would not have given (C{007.log}) are none of its segments.
    """
    stems = (name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX))
    return sorted(int(stem) for stem in stems if _BASE_OFFSET.fullmatch(stem))
