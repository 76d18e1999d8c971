"""
What the disk complains about, in the words of L{rustlog.errors}.
"""

from __future__ import annotations

import errno
from typing import NoReturn

from twisted.python.failure import Failure

from rustlog.errors import RustlogError, StorageFailed, StorageFull

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def refusal(error: OSError) -> RustlogError:
    """What to tell a client whose write failed, and left no trace."""
    return StorageFull() if error.errno in _FULL else StorageFailed(f"the write failed: {error}")


def refuse_for(failure: Failure) -> NoReturn:
    """The same as an errback; other errors go on as they are."""
    error = failure.value
    if isinstance(error, OSError):
        raise refusal(error) from error
    failure.raiseException()
