"""
The disk, for tools that look and must not touch.
"""

from __future__ import annotations

import errno
import os
from pathlib import PurePath
from typing import Any, NoReturn, cast

from zope.interface import implementer

from rustlog.environment.files import RealFile, RealFiles
from rustlog.interfaces import IFiles


@implementer(IFiles)
class ReadOnlyFiles(RealFiles):
    """
    Opens files for reading only, so it works without the right to write, and refuses to change
    anything.
    """

    def open(self, path: PurePath, create: bool = False) -> RealFile:
        """See L{IFiles.open}; appending to the file fails."""
        if create:
            self._refuse(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        facts = os.fstat(descriptor)
        return RealFile(descriptor, facts.st_size, facts.st_dev)

    def _refuse(self, *paths: Any) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(paths[0]))

    make_directory = rename = unlink = remove_directory = sync_directory = lock = cast(Any, _refuse)
