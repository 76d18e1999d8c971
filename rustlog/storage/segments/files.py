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

_BASE_OFFSET = re.compile("0|[1-9][0-9]*")


def segment_path(directory: PurePath, base_offset: int, suffix: str) -> PurePath:
    """Where a file of the segment that begins at C{base_offset} lies."""
    return directory / f"{base_offset}{suffix}"


def base_offsets(names: list[str]) -> list[int]:
    """
    The segments among the names of a partition's directory, in the order of the log.  Names
    that this store would not have given (C{007.log}) are none of its segments.
    """
    stems = (name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX))
    return sorted(int(stem) for stem in stems if _BASE_OFFSET.fullmatch(stem))
