"""
How the C library deals with memory that is not needed any more.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
KEPT_BYTES_MAX = 64 * 1024 * 1024
LARGE_BYTES = 32 * 1024 * 1024


def keep_freed_memory() -> bool:
    """
    Keep some of it, instead of giving it back to the kernel at once.

    Requests of a megabyte are received into buffers that live for a millisecond.  When the memory
    of each is given back and asked for anew, the kernel clears it page by page, which takes longer than all
    else that is done for the request.  At most C{KEPT_BYTES_MAX} are kept, and what has
    C{LARGE_BYTES} or more is given back as before.

    @return: whether the C library can do that: GNU's can.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES_MAX) and mallopt(_MMAP_THRESHOLD, LARGE_BYTES))
