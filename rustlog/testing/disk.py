"""
L{SimulatedDisk}: a disk in memory that fails on purpose.

It is an L{IFiles} that behaves as the real one does (the same suite,
L{rustlog.testing.files.FilesContract}, runs against both), until a test asks for trouble:

- L{crash <SimulatedDisk.crash>} cuts the power.  What was synced stays, of the rest anything
  may be gone; L{rustlog.testing.inodes} says what "anything" is.
- L{crash_at_call <SimulatedDisk.crash_at_call>} cuts it in the middle of a call.
- L{fail_call <SimulatedDisk.fail_call>} makes a call fail.
- C{capacity_bytes} lets the disk fill up.
- L{flip_bit <SimulatedDisk.flip_bit>} and L{put <SimulatedDisk.put>} damage what is stored.

Everything that looks like chance comes from the random generator that it is given: the same seed
and the same calls lead to the same disk.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable
from pathlib import PurePath
from random import Random  # noqa: TID251 - always a seeded one
from typing import Union

from attrs import define, field
from zope.interface import implementer

from rustlog.interfaces import IFile, IFiles
from rustlog.testing.inodes import DirectoryNode, FileNode, Namespace, os_error

Buffer = Union[bytes, bytearray, memoryview]

COLD_PROBABILITY = 0.1
"""How often a read that must not wait finds nothing in memory."""

PAGE_BYTES = 4096
"""Memory is filled and freed in pieces of this size."""

EVICTION_PROBABILITY = 0.1
"""How often a read that waits finds the memory full, so that all other parts of the file make room."""

UNLIMITED_BYTES = 2**50
"""What is free on a disk that does not fill up."""

HANDLES_MAX = 1000


class SimulatedCrash(BaseException):
    """
    The power is gone, and with it the process that made the call.

    It is no C{Exception}, so that no error handling of that process takes it for an error.
    A Deferred catches it all the same; but whatever the dead process tries then
    raises it again, until the test calls L{SimulatedDisk.crash}.
    """


@define
class _Fault:
    """Something that will happen at a call; C{error} is C{None} for a crash."""

    remaining: int
    operation: str | None
    error: int | None

    def is_due(self, operation: str) -> bool:
        """Count the call, if it is one of those that count."""
        if self.operation in (None, operation):
            self.remaining -= 1
        return self.remaining == 0


@define(eq=False)
class _Handle:
    """Something that a process holds until it closes it or dies."""

    _disk: SimulatedDisk
    _node: FileNode
    path: PurePath
    _boot: int

    def close(self) -> None:
        """Give it back; a second call does nothing."""
        self._disk.forget(self)

    def _begin(self, operation: str) -> _Fault | None:
        if self._boot != self._disk.boots:
            raise SimulatedCrash(f"{self.path} was opened before the power failed")
        if not self._disk.holds(self):
            raise os_error(errno.EBADF, self.path)
        return self._disk.begin(operation)


class _SimulatedLock(_Handle):
    """A lock that is held."""

    def close(self) -> None:
        if self._disk.holds(self):
            self._node.locked = False
        super().close()


@implementer(IFile)
@define(eq=False)
class SimulatedFile(_Handle):
    """An open file.  As in the real one, a failed append leaves C{size}, and perhaps bytes behind it."""

    size: int

    def append(self, buffers: Iterable[Buffer]) -> None:
        """See L{IFile.append}; torn at a random byte when it fails."""
        fault = self._begin("append")
        data = b"".join(buffers)
        if fault is not None:
            self._node.write(self.size, data[: self._disk.random.randint(0, len(data))])
            raise self._disk.failure(fault, self.path)
        lacking = self._disk.lacking_bytes(self.size + len(data) - self._node.size)
        if lacking > 0:
            self._node.write(self.size, data[: max(0, len(data) - lacking)])
            raise os_error(errno.ENOSPC, self.path)
        self._node.write(self.size, data)
        self.size += len(data)

    def read(self, position: int, size: int, wait: bool = True) -> bytes | None:
        """See L{IFile.read}."""
        self._disk.raise_if(self._begin("read"), self.path)
        if wait:
            self._disk.warm(self._node, position, size)
        elif self._disk.is_cold(self._node, position, size):
            return None
        return self._node.read(position, size)

    def truncate(self, size: int) -> None:
        """See L{IFile.truncate}."""
        if size > self.size:
            raise ValueError(f"truncating to {size} would lengthen a file of {self.size} bytes")
        self._disk.raise_if(self._begin("truncate"), self.path)
        self._node.truncate(size)
        self.size = size

    def sync(self) -> None:
        """See L{IFile.sync}; when it fails, no later sync makes up for it."""
        fault = self._begin("sync")
        if fault is None:
            self._node.sync()
            return
        if fault.error is not None:
            self._node.fail_sync(self._disk.random)
        raise self._disk.failure(fault, self.path)

    def fileno(self) -> None:
        """See L{IFile.fileno}; there is none."""


@implementer(IFiles)
@define(eq=False)
class SimulatedDisk:
    """
    The disk.

    @ivar random: where chance comes from.
    @ivar cold_probability: how often C{read(wait=False)} gives C{None} for what was not read with
        C{wait=True} before; what was, stays in memory for a while.
    @ivar capacity_bytes: what fits; appends beyond it fail with C{ENOSPC} after a short write.
    @ivar calls: how many calls have been made that a real disk could have failed.
    @ivar crashed: whether the power is gone, and L{crash} was not called yet.
    @ivar boots: how often the power has failed.
    """

    random: Random
    cold_probability: float = COLD_PROBABILITY
    capacity_bytes: int | None = None
    calls: int = field(default=0, init=False)
    crashed: bool = field(default=False, init=False)
    boots: int = field(default=0, init=False)
    _names: Namespace = field(factory=Namespace, init=False)
    _faults: list[_Fault] = field(factory=list, init=False)
    # A dict for its order: what depends on it must not depend on addresses.
    _handles: dict[_Handle, None] = field(factory=dict, init=False)

    # -- IFiles ----------------------------------------------------------------

    def open(self, path: PurePath, create: bool = False) -> SimulatedFile:
        """See L{IFiles.open}."""
        self._enter("open", path)
        node = self._file(path, create)
        handle = SimulatedFile(self, node, path, self.boots, node.size)
        self._handles[handle] = None
        return handle

    def exists(self, path: PurePath) -> bool:
        """See L{IFiles.exists}."""
        self._enter("exists", path)
        return self._exists(path)

    def names(self, path: PurePath) -> list[str]:
        """See L{IFiles.names}."""
        self._enter("names", path)
        try:
            return sorted(self._names.directory(path).entries)
        except FileNotFoundError:
            return []

    def size(self, path: PurePath) -> int:
        """See L{IFiles.size}."""
        self._enter("size", path)
        return self._names.file(path).size

    def make_directory(self, path: PurePath) -> None:
        """See L{IFiles.make_directory}."""
        self._enter("make_directory", path)
        for each in (*reversed(path.parents), path):
            if not self._exists(each):
                self._names.create(each, DirectoryNode())
        if not isinstance(self._names.node(path), DirectoryNode):
            raise os_error(errno.EEXIST, path)

    def rename(self, old: PurePath, new: PurePath) -> None:
        """See L{IFiles.rename}."""
        self._enter("rename", old)
        self._names.rename(old, new)

    def unlink(self, path: PurePath) -> None:
        """See L{IFiles.unlink}."""
        self._enter("unlink", path)
        self._names.file(path)
        self._names.remove(path)

    def remove_directory(self, path: PurePath) -> None:
        """See L{IFiles.remove_directory}."""
        self._enter("remove_directory", path)
        if self._names.directory(path).entries:
            raise os_error(errno.ENOTEMPTY, path)
        self._names.remove(path)

    def sync_directory(self, path: PurePath) -> None:
        """See L{IFiles.sync_directory}."""
        self._enter("sync_directory", path)
        self._names.sync(self._names.directory(path))

    def sync_many(self, files: Collection[SimulatedFile]) -> dict[SimulatedFile, OSError]:
        """See L{IFiles.sync_many}; counts as one C{sync} for each file."""
        errors = {}
        for each in files:
            try:
                each.sync()
            except OSError as error:
                errors[each] = error
        return errors

    def lock(self, path: PurePath) -> _SimulatedLock:
        """See L{IFiles.lock}."""
        self._enter("lock", path)
        node = self._file(path, create=True)
        if node.locked:
            raise os_error(errno.EAGAIN, path)
        node.locked = True
        handle = _SimulatedLock(self, node, path, self.boots)
        self._handles[handle] = None
        return handle

    def free_bytes(self, path: PurePath) -> int:
        """See L{IFiles.free_bytes}."""
        self._enter("free_bytes", path)
        self._names.node(path)
        if self.capacity_bytes is None:
            return UNLIMITED_BYTES
        return max(0, self.capacity_bytes - self._used_bytes())

    def handles_max(self) -> int:
        """See L{IFiles.handles_max}."""
        return HANDLES_MAX

    # -- trouble ---------------------------------------------------------------

    def fail_call(self, n: int, error: int = errno.EIO, operation: str | None = None) -> None:
        """
        Let the C{n}-th call from now fail, 1 being the next one.

        An append that fails may leave a part of its bytes behind; a sync that fails loses
        what was to be written, and no later one makes up for it.

        @param error: a number from the C{errno} module.
        @param operation: count only calls of this method (C{"append"}, C{"sync"}, C{"rename"}...).
            L{sync_many} is one C{"sync"} for each file.
        """
        self._arm(_Fault(n, operation, error))

    def crash_at_call(self, n: int, operation: str | None = None) -> None:
        """
        Let the power fail during the C{n}-th call from now: it raises L{SimulatedCrash}, and so does
        every later one until L{crash} is called.  An append is torn at a random byte.
        """
        self._arm(_Fault(n, operation, None))

    def crash(self) -> None:
        """
        Cut the power, and switch it on again.

        Handles from before raise L{SimulatedCrash}, locks are free, and what was to happen
        at a later call is called off.
        """
        self.boots += 1
        self.crashed = False
        self._faults.clear()
        self._handles.clear()
        self._names.lose_power(self.random)

    def flip_bit(self, path: PurePath, position: int, bit: int = 0) -> None:
        """Damage one bit of a byte, for running programs and for good."""
        node = self._names.file(path)
        node.image[position] ^= 1 << bit
        if position < len(node.durable):
            node.durable[position] ^= 1 << bit

    def put(self, path: PurePath, content: bytes) -> None:
        """Let there be a file with this content, durable, in a directory that exists."""
        self._names.put(path, FileNode.synced(content))

    # -- looking without touching ------------------------------------------------

    def content(self, path: PurePath) -> bytes:
        """What a program would read from a file now."""
        node = self._names.file(path)
        return node.read(0, node.size)

    @property
    def open_handles(self) -> int:
        """How many files and locks are held."""
        return len(self._handles)

    @property
    def open_paths(self) -> list[PurePath]:
        """Which ones, to tell who leaks."""
        return sorted(each.path for each in self._handles)

    def clone(self, random: Random | None = None) -> SimulatedDisk:
        """
        An independent disk with the same content, durable or not, that nobody has opened.

        @param random: where its chance comes from; that of the original, continued on its own, if
            not given.
        """
        if random is None:
            random = Random()
            random.setstate(self.random.getstate())
        twin = SimulatedDisk(random, self.cold_probability, self.capacity_bytes)
        twin._names = self._names.copy()
        return twin

    # -- for handles -------------------------------------------------------------

    def begin(self, operation: str) -> _Fault | None:
        """Count a call; what is to go wrong with it, if anything."""
        if self.crashed:
            raise SimulatedCrash(f"{operation} after the power failed")
        self.calls += 1
        if not self._faults:
            return None
        due = [each for each in self._faults if each.is_due(operation)]
        self._faults = [each for each in self._faults if each.remaining > 0]
        return due[0] if due else None

    def failure(self, fault: _Fault, path: PurePath) -> BaseException:
        """The exception to raise for a fault."""
        if fault.error is not None:
            return os_error(fault.error, path)
        self.crashed = True
        return SimulatedCrash(f"the power failed at call {self.calls}, at {path}")

    def raise_if(self, fault: _Fault | None, path: PurePath) -> None:
        """For calls that either happen or do not."""
        if fault is not None:
            raise self.failure(fault, path)

    def lacking_bytes(self, growth: int) -> int:
        """How many bytes are missing for a file to grow by so many."""
        if self.capacity_bytes is None or growth <= 0:
            return 0
        return self._used_bytes() + growth - self.capacity_bytes

    def holds(self, handle: _Handle) -> bool:
        """Whether a handle is open."""
        return handle in self._handles

    def forget(self, handle: _Handle) -> None:
        """A handle was closed."""
        self._handles.pop(handle, None)

    def warm(self, node: FileNode, position: int, size: int) -> None:
        """A part of a file was read by someone who can wait."""
        if self.cold_probability:
            if self.random.random() < EVICTION_PROBABILITY:
                node.warm.clear()
            node.warm.update(_pages(node, position, size))

    def is_cold(self, node: FileNode, position: int, size: int) -> bool:
        """Whether the disk would have to be asked for a part of a file."""
        if not self.cold_probability or node.warm.issuperset(_pages(node, position, size)):
            return False
        return self.random.random() < self.cold_probability

    # -- helpers -----------------------------------------------------------------

    def _enter(self, operation: str, path: PurePath) -> None:
        self.raise_if(self.begin(operation), path)

    def _arm(self, fault: _Fault) -> None:
        if fault.remaining < 1:
            raise ValueError("the next call is number 1")
        self._faults.append(fault)

    def _exists(self, path: PurePath) -> bool:
        try:
            self._names.node(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _file(self, path: PurePath, create: bool) -> FileNode:
        try:
            return self._names.file(path)
        except FileNotFoundError:
            if not create:
                raise
        node = FileNode()
        self._names.create(path, node)
        return node

    def _used_bytes(self) -> int:
        """What all files take, also those that are open but have no name any more."""
        nodes = {*self._names.files(), *(each._node for each in self._handles)}
        return sum(node.size for node in nodes)


def _pages(node: FileNode, position: int, size: int) -> range:
    """The numbers of the pages that a part of a file lies in."""
    end = min(position + size, node.size)
    return range(position // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1)
