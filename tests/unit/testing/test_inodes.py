"""Tests for L{rustlog.testing.inodes}: what a loss of power leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.testing.inodes import SECTOR_BYTES, DirectoryNode, FileNode, Namespace

SEEDS = range(300)


def leftovers(make: Callable[[], FileNode]) -> set[bytes]:
    """Everything that a loss of power was seen to leave of a file."""
    found = set()
    for seed in SEEDS:
        node = make()
        node.lose_power(Random(seed))
        found.add(node.read(0, node.size))
    return found


class FileNodeTests(SynchronousTestCase):
    """Content."""

    def test_synced_stays(self) -> None:
        """What was synced is there, and nothing else."""

        def make() -> FileNode:
            node = FileNode()
            node.write(0, b"a" * 2000)
            node.sync()
            return node

        self.assertEqual(leftovers(make), {b"a" * 2000})

    def test_unsynced_tail(self) -> None:
        """Of an unsynced tail anything is left: nothing, all of it, a part, zeros instead of it."""

        def make() -> FileNode:
            node = FileNode.synced(b"a" * 100)
            node.write(100, b"b" * 900)
            return node

        found = leftovers(make)
        self.assertTrue(all(each.startswith(b"a" * 100) for each in found))
        self.assertLessEqual({len(each) for each in found}, set(range(100, 1001)))
        self.assertIn(b"a" * 100, found)
        self.assertIn(b"a" * 100 + b"b" * 900, found)
        self.assertIn(b"a" * 100 + bytes(900), found)
        self.assertIn(b"a" * 100 + bytes(412) + b"b" * 488, found)
        self.assertTrue(any(100 < len(each) < 1000 for each in found))

    def test_sectors_are_whole(self) -> None:
        """A sector is there or not, never half of it."""

        def make() -> FileNode:
            node = FileNode.synced(b"")
            node.write(0, b"b" * 5 * SECTOR_BYTES)
            return node

        for each in leftovers(make):
            sectors = [each[at : at + SECTOR_BYTES] for at in range(0, len(each), SECTOR_BYTES)]
            self.assertTrue(all(len(set(sector)) == 1 for sector in sectors))

    def test_unsynced_truncation(self) -> None:
        """A truncation that was not synced may be undone, also when something was written after it."""

        def make() -> FileNode:
            node = FileNode.synced(b"a" * 1000)
            node.truncate(500)
            node.write(500, b"b" * 100)
            return node

        found = leftovers(make)
        self.assertIn(b"a" * 1000, found)
        self.assertIn(b"a" * 500, found)
        self.assertIn(b"a" * 500 + b"b" * 100, found)
        self.assertTrue(all(each.startswith(b"a" * 500) for each in found))
        self.assertLessEqual(max(map(len, found)), 1000)

    def test_truncated_bytes_come_back(self) -> None:
        """What was written and cut off before any sync may be there again."""

        def make() -> FileNode:
            node = FileNode.synced(b"a" * 10)
            node.write(10, b"b" * 10)
            node.truncate(10)
            return node

        found = leftovers(make)
        self.assertIn(b"a" * 10, found)
        self.assertIn(b"a" * 10 + b"b" * 10, found)

    def test_synced_truncation(self) -> None:
        """A truncation that was synced is final."""

        def make() -> FileNode:
            node = FileNode.synced(b"a" * 10)
            node.write(10, b"b" * 10)
            node.truncate(5)
            node.sync()
            return node

        self.assertEqual(leftovers(make), {b"a" * 5})

    def test_failed_sync_is_final(self) -> None:
        """No later sync makes durable what a failed one has lost; what is written later is."""
        lost_all = 0
        for seed in SEEDS:
            node = FileNode.synced(b"a" * 10)
            node.write(10, b"b" * 2000)
            node.fail_sync(Random(seed))
            on_disk = bytes(node.durable).ljust(2010, b"\0")
            node.sync()
            node.write(2010, b"c" * 10)
            node.sync()
            node.lose_power(Random(seed))
            self.assertEqual(node.read(0, 9999), on_disk + b"c" * 10)
            lost_all += b"b" not in on_disk
        self.assertGreater(lost_all, 0)

    def test_failed_sync_as_seen_by_programs(self) -> None:
        """After a failed sync, programs see what they wrote, or what the disk has; the size stays."""
        seen = set()
        for seed in SEEDS:
            node = FileNode.synced(b"a" * 10)
            node.write(10, b"b" * 10)
            node.fail_sync(Random(seed))
            seen.add(node.read(0, 100))
        self.assertIn(b"a" * 10 + b"b" * 10, seen)
        self.assertIn(b"a" * 10 + bytes(10), seen)
        self.assertEqual({len(each) for each in seen}, {20})

    def test_any_history(self) -> None:
        """Whatever was done to a file, it reads as a plain byte string would; what was synced survives."""
        step = st.one_of(
            st.tuples(st.just("append"), st.integers(0, 1500)),
            st.tuples(st.just("truncate"), st.integers(0, 3000)),
            st.tuples(st.just("sync"), st.just(0)),
            st.tuples(st.just("crash"), st.integers(0, 2**32)),
        )

        @settings(deadline=None, max_examples=150)
        @given(st.lists(step, max_size=20))
        def check(steps: list[tuple[str, int]]) -> None:
            node, plain, safe = FileNode(), b"", 0
            for number, (what, argument) in enumerate(steps):
                if what == "append":
                    data = bytes([1 + number]) * argument
                    node.write(node.size, data)
                    plain += data
                elif what == "truncate":
                    size = min(argument, node.size)
                    node.truncate(size)
                    plain, safe = plain[:size], min(safe, size)
                elif what == "sync":
                    node.sync()
                    safe = len(plain)
                else:
                    node.lose_power(Random(argument))
                    found = node.read(0, node.size)
                    self.assertEqual(found[:safe], plain[:safe])
                    plain, safe = found, len(found)
                self.assertEqual(node.read(0, 10**6), plain)

        check()


class NamespaceTests(SynchronousTestCase):
    """Names."""

    def setUp(self) -> None:
        self.root = PurePath("/")

    def survivors(self, script: Callable[[Namespace], None]) -> set[tuple[str, ...]]:
        """Every set of names that a loss of power was seen to leave."""
        found = set()
        for seed in SEEDS:
            names = Namespace()
            script(names)
            names.lose_power(Random(seed))
            found.add(tuple(self.all_names(names, self.root)))
        return found

    def all_names(self, names: Namespace, path: PurePath) -> list[str]:
        """Names of files, each with its content."""
        found: list[str] = []
        for name, node in sorted(names.directory(path).entries.items()):
            if isinstance(node, DirectoryNode):
                found += [f"{name}/", *(f"{name}/{each}" for each in self.all_names(names, path / name))]
            else:
                found.append(f"{name}={node.read(0, 9).decode()}")
        return found

    def create(self, names: Namespace, path: str, content: bytes = b"") -> None:
        names.create(self.root / path, FileNode.synced(content))

    def sync(self, names: Namespace, path: str = "") -> None:
        names.sync(names.directory(self.root / path))

    def test_created(self) -> None:
        """New names survive in any combination, until their directory is synced."""

        def script(names: Namespace) -> None:
            self.create(names, "a")
            self.sync(names)
            self.create(names, "b")
            self.create(names, "c")

        self.assertEqual(self.survivors(script), {("a=",), ("a=", "b="), ("a=", "c="), ("a=", "b=", "c=")})

    def test_removed(self) -> None:
        """A removed file may come back until its directory is synced, with what was in it."""

        def script(names: Namespace) -> None:
            names.put(self.root / "a", FileNode.synced(b"1"))
            names.remove(self.root / "a")

        self.assertEqual(self.survivors(script), {("a=1",), ()})

        def synced(names: Namespace) -> None:
            script(names)
            self.sync(names)

        self.assertEqual(self.survivors(synced), {()})

    def test_replaced(self) -> None:
        """A file that is replaced by a rename is the old one or the new one, never neither."""

        def script(names: Namespace) -> None:
            names.put(self.root / "a", FileNode.synced(b"old"))
            self.create(names, "t", b"new")
            names.rename(self.root / "t", self.root / "a")

        self.assertEqual(self.survivors(script), {("a=old",), ("a=old", "t=new"), ("a=new",)})

    def test_name_used_again(self) -> None:
        """A file is not lost when it is renamed and another one takes its name."""

        def script(names: Namespace) -> None:
            names.put(self.root / "a", FileNode.synced(b"1"))
            names.rename(self.root / "a", self.root / "b")
            self.create(names, "a", b"2")

        self.assertEqual(self.survivors(script), {("a=1",), ("b=1",), ("a=2", "b=1")})

    def test_renamed_to_another_directory(self) -> None:
        """A rename from one directory to another is durable when both are synced, and never half done."""

        def script_with(*synced: str) -> Callable[[Namespace], None]:
            def script(names: Namespace) -> None:
                for each in ("d", "e"):
                    names.create(self.root / each, DirectoryNode())
                self.sync(names)
                names.put(self.root / "d" / "a", FileNode.synced(b"1"))
                names.rename(self.root / "d" / "a", self.root / "e" / "b")
                for each in synced:
                    self.sync(names, each)

            return script

        stayed, moved = ("d/", "d/a=1", "e/"), ("d/", "e/", "e/b=1")
        for synced in ((), ("d",), ("e",)):
            self.assertEqual(self.survivors(script_with(*synced)), {stayed, moved})
        for both in (("d", "e"), ("e", "d")):
            self.assertEqual(self.survivors(script_with(*both)), {moved})

    def test_later_change_takes_the_earlier_one_along(self) -> None:
        """Syncing a removal makes the rename before it durable, though only one directory was synced."""

        def script(names: Namespace) -> None:
            names.create(self.root / "d", DirectoryNode())
            self.sync(names)
            names.put(self.root / "d" / "a", FileNode.synced(b"1"))
            names.rename(self.root / "d" / "a", self.root / "a")
            names.remove(self.root / "a")
            self.sync(names)

        self.assertEqual(self.survivors(script), {("d/",)})

    def test_directory_that_was_not_synced(self) -> None:
        """A file is lost with its directory, when only its own name was made durable."""

        def script(names: Namespace) -> None:
            names.create(self.root / "d", DirectoryNode())
            self.create(names, "d/a")
            self.sync(names, "d")

        self.assertEqual(self.survivors(script), {(), ("d/", "d/a=")})

    def test_emptied_directory(self) -> None:
        """A directory does not go before what was moved out of it."""

        def script(names: Namespace) -> None:
            names.create(self.root / "d", DirectoryNode())
            self.sync(names)
            names.put(self.root / "d" / "a", FileNode.synced(b"1"))
            names.rename(self.root / "d" / "a", self.root / "a")
            names.remove(self.root / "d")

        self.assertEqual(self.survivors(script), {("d/", "d/a=1"), ("a=1", "d/"), ("a=1",)})

    def test_copy(self) -> None:
        """A copy has the same names, durable or not, and goes its own way."""
        names = Namespace()
        self.create(names, "a", b"1")
        self.sync(names)
        self.create(names, "b", b"2")
        names.rename(self.root / "b", self.root / "c")
        names.remove(self.root / "a")
        twin = names.copy()
        names.file(self.root / "c").write(0, b"X")
        self.create(names, "d")
        self.assertEqual(self.all_names(twin, self.root), ["c=2"])
        found = set()
        for seed in SEEDS:
            other = twin.copy()
            other.lose_power(Random(seed))
            found.add(tuple(self.all_names(other, self.root)))
        self.assertEqual(found, {("a=1",), ("a=1", "b=2"), ("a=1", "c=2"), ("b=2",), ("c=2",), ()})
