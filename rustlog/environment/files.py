"""
The disk, through POSIX calls: L{RealFiles} and L{RealFile}.

B{What each sync promises.}

- L{RealFile.sync} is C{fdatasync}: when it returns, the bytes of that file, and the size
  that is needed to read them, survive a loss of power.  It says nothing about the name of
  the file.  Where there is C{F_FULLFSYNC} (macOS), that is used: C{fsync} alone
  leaves the data in the drive's cache there.
- L{RealFiles.sync_directory} is C{fsync} of the directory: the names in it (creations,
  renames, removals) survive, the content of the files need not.
- L{RealFiles.sync_many} promises the same as L{RealFile.sync} of each file.  For
  many files it asks for one C{syncfs} of their filesystem, which writes B{everything} that is
  dirty there, also what belongs to other programs.

B{A failed sync is final.}  Linux reports a failed write-back once for each open file, then
forgets the pages: a second C{fdatasync} of that handle would succeed without having written
anything.  So nothing here tries one again.  C{syncfs} is different: its failure may
concern a file of somebody else, and it does not use up the error that a file of ours
would report.  The files are therefore asked one by one after it, each for the first time.

B{When C{syncfs} is trusted.}  It reports failed write-backs since Linux 5.8, and
only those since its descriptor was opened.  So one directory of each filesystem is held open, from before
the first byte was written through a L{RealFiles}.  Filesystems that do not pass it on to their
storage (FUSE, some overlays) are not known here and get C{fdatasync}s.

A file has one writer; a handle must not be closed while another thread uses it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePath
from typing import Union

from attrs import define, field
from zope.interface import implementer

from rustlog.interfaces import IFile, IFiles

Buffer = Union[bytes, bytearray, memoryview]

SYNCFS_FROM_FILES = 8
"""
From how many dirty files on C{syncfs} is used.  On ext4 over a virtual disk it is as fast as a single
C{fdatasync} already for two (0.2 ms; 8 files: 0.4 against 1.5 ms, 128 files: 1.8 against 22 ms), but
it pays for what others have written: with 16 MiB of theirs it takes 4 ms, as do about 20 C{fdatasync}s.
"""

HANDLES_SHARE = 2
"""Files may use one part in so many of the process's descriptors; sockets need the rest."""

HANDLES_WANTED_MAX = 1_048_576
"""Where the hard limit is "infinite": Linux's own default for the largest possible one."""

_BUFFERS_MAX = os.sysconf("SC_IOV_MAX")
_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_CANNOT_TELL = frozenset({errno.EOPNOTSUPP, errno.ENOSYS})
# Where bytes go that are read only to see that they can be.  Nobody looks at them, so threads may share
# it; a fresh buffer for each read would cost more, in page faults, than reading twice.
_SCRATCH = memoryview(bytearray(256 * 1024))
_SMALL_BYTES = 4096
"""Reads up to this size are tried and done in one; for a larger one, a buffer might be made in vain."""
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)

_SYNCFS_KERNEL = (5, 8)
_SYNCFS_FILESYSTEMS = frozenset({0xEF53, 0x58465342, 0x9123683E})  # ext2/3/4, XFS, Btrfs


def _fdatasync(descriptor: int) -> None:
    """The strongest promise for the content of one file that the platform has."""
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def _write(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
    """One system call; returns how many bytes it took."""
    if hasattr(os, "pwritev"):
        return os.pwritev(descriptor, buffers, position)
    return os.pwrite(descriptor, b"".join(buffers), position)


@implementer(IFile)
@define(eq=False)
class RealFile:
    """
    An open file.

    C{size} is where the next append goes: a failed append leaves it, but may leave bytes
    behind it, which L{truncate} to C{size} removes.
    """

    _descriptor: int
    size: int
    device: int
    _can_tell: bool = _NO_WAIT is not None

    def append(self, buffers: Iterable[Buffer]) -> None:
        """See L{IFile.append}; one system call unless there are very many buffers."""
        rest = list(buffers)
        end = self.size + sum(map(len, rest))
        position = self.size
        while position < end:
            written = _write(self._descriptor, rest[:_BUFFERS_MAX], position)
            position += written
            if position < end:
                rest = _without(rest, written)
        self.size = end

    def read(self, position: int, size: int, wait: bool = True) -> bytes | None:
        """See L{IFile.read}."""
        if not wait and self._can_tell:
            if size <= _SMALL_BYTES:
                return self._read_if_warm(position, size)
            if not self._is_warm(position, size):
                return None
        data = os.pread(self._descriptor, size, position)
        if len(data) < size and position + len(data) < self.size:
            return self._read_on(position, size, data)
        return data

    def _read_on(self, position: int, size: int, data: bytes) -> bytes:
        """Tell a short read from the end of the file: an unreadable sector must raise, not end it."""
        parts = [data]
        found = len(data)
        while found < size and parts[-1]:
            parts.append(os.pread(self._descriptor, size - found, position + found))
            found += len(parts[-1])
        return b"".join(parts)

    def _read_if_warm(self, position: int, size: int) -> bytes | None:
        data = bytearray(max(0, min(size, self.size - position)))
        if not self._is_read_at_once(data, position):
            return None
        return bytes(data) if self._can_tell else self.read(position, size)

    def _is_warm(self, position: int, size: int) -> bool:
        """Whether all of it is in the page cache, as far as the filesystem can tell."""
        end = min(position + size, self.size)
        while position < end and self._can_tell:
            part = _SCRATCH[: end - position]
            if not self._is_read_at_once(part, position):
                return False
            position += len(part)
        return True

    def _is_read_at_once(self, buffer: bytearray | memoryview, position: int) -> bool:
        """Fill a buffer from the page cache; False if not all is there, True where nobody can tell."""
        assert _NO_WAIT is not None
        try:
            return os.preadv(self._descriptor, [buffer], position, _NO_WAIT) == len(buffer)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _CANNOT_TELL:
                raise
            self._can_tell = False
            return True

    def truncate(self, size: int) -> None:
        """See L{IFile.truncate}."""
        if size > self.size:
            raise ValueError(f"truncating to {size} would lengthen a file of {self.size} bytes")
        os.ftruncate(self._descriptor, size)
        self.size = size

    def sync(self) -> None:
        """See L{IFile.sync}; never call it again on a handle for which it has failed."""
        if self._descriptor < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))  # Python would say ValueError
        _fdatasync(self._descriptor)

    def close(self) -> None:
        """See L{IFile.close}; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def fileno(self) -> int:
        """See L{IFile.fileno}."""
        return self._descriptor


def _without(buffers: list[Buffer], written: int) -> list[Buffer]:
    """What is left of buffers when the first C{written} bytes are gone."""
    for index, each in enumerate(buffers):
        if written < len(each):
            return [memoryview(each)[written:], *buffers[index + 1 :]]
        written -= len(each)
    return []


@define
class _Lock:
    """A lock that is held; the kernel lets go of it when the process ends."""

    _descriptor: int

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


@implementer(IFiles)
@define(eq=False)
class RealFiles:
    """
    The disk.

    One object serves a whole process, until its end; L{close} is for those who make
    several.  C{_anchors} has a directory of every filesystem that was written to, or
    C{None} where C{syncfs} can not be trusted.
    """

    _anchors: dict[int, int | None] = field(factory=dict, init=False)

    def open(self, path: PurePath, create: bool = False) -> RealFile:
        """See L{IFiles.open}."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        descriptor = os.open(path, flags, 0o666)
        try:
            facts = os.fstat(descriptor)
            if facts.st_dev not in self._anchors:
                self._anchors[facts.st_dev] = _open_anchor(path.parent, facts.st_dev)
        except BaseException:
            os.close(descriptor)
            raise
        return RealFile(descriptor, facts.st_size, facts.st_dev)

    def exists(self, path: PurePath) -> bool:
        """See L{IFiles.exists}; unlike C{os.path.exists} it does not take every error for a no."""
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def names(self, path: PurePath) -> list[str]:
        """See L{IFiles.names}."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def size(self, path: PurePath) -> int:
        """See L{IFiles.size}."""
        return os.stat(path).st_size

    def make_directory(self, path: PurePath) -> None:
        """See L{IFiles.make_directory}."""
        os.makedirs(path, exist_ok=True)

    def rename(self, old: PurePath, new: PurePath) -> None:
        """See L{IFiles.rename}."""
        os.rename(old, new)

    def unlink(self, path: PurePath) -> None:
        """See L{IFiles.unlink}."""
        os.unlink(path)

    def remove_directory(self, path: PurePath) -> None:
        """See L{IFiles.remove_directory}."""
        os.rmdir(path)

    def sync_directory(self, path: PurePath) -> None:
        """See L{IFiles.sync_directory}."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # Some network filesystems have no such call, because names are durable at once there.
            if error.errno != errno.EINVAL:
                raise
        finally:
            os.close(descriptor)

    def sync_many(self, files: Collection[RealFile]) -> dict[RealFile, OSError]:
        """See L{IFiles.sync_many}, and above for when it does what."""
        by_device: dict[int, list[RealFile]] = {}
        for each in files:
            by_device.setdefault(each.device, []).append(each)
        errors: dict[RealFile, OSError] = {}
        for device, group in by_device.items():
            if len(group) < SYNCFS_FROM_FILES or not _syncfs(self._anchors.get(device)):
                errors.update(_sync_each(group))
        return errors

    def lock(self, path: PurePath) -> _Lock:
        """See L{IFiles.lock}; the file is made when missing, and stays."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        return _Lock(descriptor)

    def free_bytes(self, path: PurePath) -> int:
        """See L{IFiles.free_bytes}; without what is reserved for root."""
        facts = os.statvfs(path)
        return facts.f_bavail * facts.f_frsize

    def handles_max(self) -> int:
        """
        See L{IFiles.handles_max}.  On Linux the soft limit is raised to the hard one; elsewhere
        the reactor may be C{select}, which can not watch descriptors above 1024.
        """
        if sys.platform == "linux":
            _raise_handle_limit()
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            soft = HANDLES_WANTED_MAX
        return soft // HANDLES_SHARE

    def close(self) -> None:
        """Give back what is held for C{syncfs}; files that are still open stay so."""
        for descriptor in self._anchors.values():
            if descriptor is not None:
                os.close(descriptor)
        self._anchors.clear()


def _sync_each(files: Iterable[RealFile]) -> dict[RealFile, OSError]:
    errors = {}
    for each in files:
        try:
            each.sync()
        except OSError as error:
            errors[each] = error
    return errors


def _raise_handle_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = HANDLES_WANTED_MAX if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        # A container may forbid it; the soft limit is then what there is.
        return


# -- syncfs, which Python's os module does not have -----------------------------------

_libc = ctypes.CDLL(None, use_errno=True)


def _kernel_reports_errors() -> bool:
    """Whether C{syncfs} exists and tells of failed write-backs."""
    if sys.platform != "linux" or not hasattr(_libc, "syncfs"):
        return False
    major, minor = os.uname().release.split(".")[:2]
    digits = "".join(each for each in minor if each.isdigit())
    return (int(major), int(digits or 0)) >= _SYNCFS_KERNEL


def _filesystem_type(descriptor: int) -> int | None:
    """The magic number of a filesystem: C{f_type}, the first word of C{struct statfs}."""
    facts = (ctypes.c_long * 64)()  # the struct has at most 120 bytes
    if _libc.fstatfs(descriptor, facts) != 0:
        return None
    return int(facts[0]) & 0xFFFFFFFF


def _open_anchor(directory: PurePath, device: int) -> int | None:
    """A descriptor through which C{syncfs} can be trusted for a device, if there is one."""
    if not _kernel_reports_errors():
        return None
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None  # we may enter the directory, but not read it
    if os.fstat(descriptor).st_dev == device and _filesystem_type(descriptor) in _SYNCFS_FILESYSTEMS:
        return descriptor
    os.close(descriptor)  # a symbolic link to elsewhere, or a filesystem that is not known
    return None


def _syncfs(anchor: int | None) -> bool:
    """Whether all that was written to the filesystem is durable now."""
    return anchor is not None and _libc.syncfs(anchor) == 0
