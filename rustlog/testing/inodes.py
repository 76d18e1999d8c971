"""
What a disk remembers: the model beneath L{rustlog.testing.disk}.

It is deliberately harsher than any one filesystem, and no harsher than what POSIX allows:

B{Content.}  A L{FileNode} has an image, which is what running programs see, and durable
bytes, which is what was synced.  When the power fails, every 512-byte sector that was written since
the last sync is there or not, each on its own: what it held before, or zeros, takes its place.  The
size is anything between the smallest and the largest that the file had since then.

B{Names.}  Creating, renaming and removing change what running programs see; the change is durable
once the directory (both of them, for a rename from one to another) has been synced.
When the power fails, any of the waiting changes may have been made.  Each is made as a
whole, and after those earlier ones that concern the same name or the same file: no
filesystem loses a file because it was renamed and its old name was used again.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import PurePath
from random import Random  # noqa: TID251 - always a seeded one
from typing import Union

from attrs import define, field

SECTOR_BYTES = 512


def os_error(code: int, path: object) -> OSError:
    """The error that a system call gives; Python chooses the class by the code."""
    return OSError(code, errno.errorcode[code], str(path))


@define(eq=False)
class FileNode:
    """
    One file.

    C{image} may be longer than C{size}: the bytes that a truncation removed can still
    come back when the power fails before the next sync.  Up to C{clean_until}
    nothing waits to be written.  C{warm} has the numbers of the pages that are known to
    be in memory.
    """

    durable: bytearray = field(factory=bytearray)
    image: bytearray = field(factory=bytearray)
    size: int = 0
    clean_until: int = 0
    locked: bool = False
    warm: set[int] = field(factory=set, init=False)

    @classmethod
    def synced(cls, content: bytes) -> FileNode:
        """A file that holds C{content} for good."""
        return cls(bytearray(content), bytearray(content), len(content), len(content))

    def read(self, position: int, size: int) -> bytes:
        return bytes(self.image[position : min(position + size, self.size)])

    def write(self, position: int, data: bytes) -> None:
        if position > self.size:
            self.image[self.size : position] = bytes(position - self.size)
        end = position + len(data)
        self.image[position:end] = data
        self.clean_until = min(self.clean_until, self.size, position)
        self.size = max(self.size, end)

    def truncate(self, size: int) -> None:
        if size > self.size:
            self.write(size, b"")
        self.size = size
        self.clean_until = min(self.clean_until, size)

    def sync(self) -> None:
        """
        Write what is waiting.  What an earlier failed sync has lost is not waiting any more:
        it stays lost.
        """
        waiting = self.image[self.clean_until : self.size]
        self.durable = _of_size(self.durable, self.clean_until) + waiting
        self._nothing_waits()

    def fail_sync(self, random: Random) -> None:
        """
        Fail to write, as Linux does: some sectors were written, and all count as
        clean from now on.  What programs see may fall back to what the disk has.
        """
        lost_from = self.clean_until
        self.durable = self._survivors(random)
        if random.random() < 0.5:
            self.image[lost_from : self.size] = _of_size(self.durable, self.size)[lost_from:]
        self._nothing_waits()

    def lose_power(self, random: Random) -> None:
        """Keep what is durable and a part of what was waiting; forget the rest."""
        self.durable = self._survivors(random)
        self.image = bytearray(self.durable)
        self.size = len(self.image)
        self.locked = False
        self.warm.clear()
        self._nothing_waits()

    def _nothing_waits(self) -> None:
        del self.image[self.size :]
        self.clean_until = self.size

    def _survivors(self, random: Random) -> bytearray:
        """What is on the platter when writing stops at a random moment."""
        clean_until, image = self.clean_until, self.image
        shortest = min(clean_until, len(self.durable))
        longest = max(len(self.durable), len(image))
        if shortest == longest:
            return self.durable
        anything = random.randint(shortest, longest)
        size = random.choice((shortest, len(self.durable), self.size, longest, anything))
        result = _of_size(self.durable, size)
        # All, none or half of the sectors are as likely as any other share of them.
        share = random.choice((0.0, 0.5, 1.0, random.random()))
        for sector in range(clean_until - clean_until % SECTOR_BYTES, size, SECTOR_BYTES):
            if random.random() < share:
                start = max(sector, clean_until)
                end = min(sector + SECTOR_BYTES, size, len(image))
                result[start:end] = image[start:end]
        return result

    def copy(self) -> FileNode:
        return FileNode(bytearray(self.durable), bytearray(self.image), self.size, self.clean_until)


def _of_size(content: bytearray, size: int) -> bytearray:
    """A copy that is cut off, or filled up with zeros."""
    return content[:size].ljust(size, b"\0")


@define(eq=False)
class DirectoryNode:
    """One directory: the names that programs see, and those that are durable."""

    entries: dict[str, Node] = field(factory=dict)
    durable: dict[str, Node] = field(factory=dict)


Node = Union[FileNode, DirectoryNode]
Place = tuple[DirectoryNode, str]


@define(eq=False)
class _Change:
    """
    A node goes from one place to another.  It is created when there is no source,
    removed when there is no target.
    """

    node: Node
    source: Place | None
    target: Place | None
    unsynced: set[DirectoryNode]
    done: bool = False

    def places(self) -> list[Place]:
        return [each for each in (self.source, self.target) if each is not None]

    def needs(self, earlier: _Change) -> bool:
        """Whether a filesystem would have to make that one first."""
        if earlier.node is self.node:
            return True
        if self.target is None and any(place[0] is self.node for place in earlier.places()):
            return True  # a directory is empty before it goes
        return any(place in self.places() for place in earlier.places())

    def make_durable(self) -> None:
        self.done = True
        if self.source is not None:
            self.source[0].durable.pop(self.source[1], None)
        if self.target is not None:
            self.target[0].durable[self.target[1]] = self.node


@define(eq=False)
class Namespace:
    """The tree of all names, with the changes that wait for a sync."""

    _root: DirectoryNode = field(factory=DirectoryNode)
    _waiting: list[_Change] = field(factory=list)

    # -- looking ---------------------------------------------------------------

    def node(self, path: PurePath) -> Node:
        """What is there."""
        found: Node = self._root
        for name in _names(path):
            if not isinstance(found, DirectoryNode):
                raise os_error(errno.ENOTDIR, path)
            if name not in found.entries:
                raise os_error(errno.ENOENT, path)
            found = found.entries[name]
        return found

    def file(self, path: PurePath) -> FileNode:
        """The file of that name."""
        found = self.node(path)
        if not isinstance(found, FileNode):
            raise os_error(errno.EISDIR, path)
        return found

    def directory(self, path: PurePath) -> DirectoryNode:
        """The directory of that name."""
        found = self.node(path)
        if not isinstance(found, DirectoryNode):
            raise os_error(errno.ENOTDIR, path)
        return found

    def files(self) -> Iterator[FileNode]:
        """All files that have a name."""
        remaining: list[Node] = [self._root]
        while remaining:
            each = remaining.pop()
            if isinstance(each, FileNode):
                yield each
            else:
                remaining.extend(each.entries.values())

    # -- changing --------------------------------------------------------------

    def create(self, path: PurePath, node: Node) -> None:
        """Give a new node its name."""
        place = self._place(path)
        place[0].entries[place[1]] = node
        self._wait(node, None, place)

    def remove(self, path: PurePath) -> None:
        """Take a name away."""
        directory, name = place = self._place(path)
        self._wait(directory.entries.pop(name), place, None)

    def rename(self, old: PurePath, new: PurePath) -> None:
        """Move a node, over another one if there is one."""
        node, source, target = self.node(old), self._place(old), self._place(new)
        if source == target:
            return
        if old in new.parents:
            raise os_error(errno.EINVAL, new)
        if target[1] in target[0].entries:
            _check_replaceable(node, target[0].entries[target[1]], new)
        del source[0].entries[source[1]]
        target[0].entries[target[1]] = node
        self._wait(node, source, target)

    def put(self, path: PurePath, node: FileNode) -> None:
        """Place a file there for good, as if it had always been there."""
        directory, name = self._place(path)
        directory.entries[name] = directory.durable[name] = node

    def _place(self, path: PurePath) -> Place:
        return self.directory(path.parent), path.name

    def _wait(self, node: Node, source: Place | None, target: Place | None) -> None:
        change = _Change(node, source, target, set())
        change.unsynced.update(directory for directory, _ in change.places())
        self._waiting.append(change)

    # -- lasting ---------------------------------------------------------------

    def sync(self, directory: DirectoryNode) -> None:
        """Make the names in a directory durable."""
        for each in self._waiting:
            each.unsynced.discard(directory)
        for each in list(self._waiting):
            if not each.unsynced:
                self._make_durable(each)

    def lose_power(self, random: Random) -> None:
        """Keep what is durable and a part of what was waiting; forget the rest."""
        share = random.choice((0.0, 0.5, 1.0, random.random()))
        for change in list(self._waiting):
            if random.random() < share:
                self._make_durable(change)
        self._waiting.clear()
        remaining: list[Node] = [self._root]
        while remaining:
            each = remaining.pop()
            if isinstance(each, FileNode):
                each.lose_power(random)
            else:
                each.entries = dict(each.durable)
                remaining.extend(each.entries.values())

    def _make_durable(self, change: _Change) -> None:
        """Make a change, after the earlier ones that it needs."""
        if change.done:
            return
        for earlier in self._waiting[: self._waiting.index(change)]:
            if not earlier.done and change.needs(earlier):
                self._make_durable(earlier)
        change.make_durable()
        self._waiting.remove(change)

    # -- copying ---------------------------------------------------------------

    def copy(self) -> Namespace:
        """An independent twin."""
        twins: dict[Node, Node] = {}
        waiting = [
            _Change(
                _copy(each.node, twins),
                _copy_place(each.source, twins),
                _copy_place(each.target, twins),
                {_copy_directory(directory, twins) for directory in each.unsynced},
            )
            for each in self._waiting
        ]
        return Namespace(_copy_directory(self._root, twins), waiting)


def _names(path: PurePath) -> tuple[str, ...]:
    return path.parts[1:] if path.anchor else path.parts


def _check_replaceable(node: Node, replaced: Node, path: PurePath) -> None:
    """Complain as C{rename} does about what is in the way."""
    if isinstance(replaced, FileNode):
        if isinstance(node, DirectoryNode):
            raise os_error(errno.ENOTDIR, path)
    elif isinstance(node, FileNode):
        raise os_error(errno.EISDIR, path)
    elif replaced.entries:
        raise os_error(errno.ENOTEMPTY, path)


def _copy(node: Node, twins: dict[Node, Node]) -> Node:
    if isinstance(node, DirectoryNode):
        return _copy_directory(node, twins)
    if node not in twins:
        twins[node] = node.copy()
    return twins[node]


def _copy_directory(node: DirectoryNode, twins: dict[Node, Node]) -> DirectoryNode:
    twin = twins.get(node)
    if twin is None:
        twin = twins[node] = DirectoryNode()
        twin.entries.update((name, _copy(each, twins)) for name, each in node.entries.items())
        twin.durable.update((name, _copy(each, twins)) for name, each in node.durable.items())
    assert isinstance(twin, DirectoryNode)
    return twin


def _copy_place(place: Place | None, twins: dict[Node, Node]) -> Place | None:
    return None if place is None else (_copy_directory(place[0], twins), place[1])
