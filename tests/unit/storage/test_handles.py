"""Tests for L{rustlog.storage.handles}."""

from __future__ import annotations

import errno
from pathlib import PurePath
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.storage.handles import Handle, Handles
from rustlog.testing.disk import SimulatedDisk

ROOT = PurePath("/data")


class HandlesTests(SynchronousTestCase):
    """A limited number of files is kept open."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk(Random(0))
        self.disk.make_directory(ROOT)
        self.handles = Handles(self.disk, limit=3)

    def make(self, count: int) -> list[Handle]:
        """Handles on files that exist."""
        for number in range(count):
            self.disk.put(ROOT / str(number), b"%d" % number)
        return [self.handles.handle(ROOT / str(number)) for number in range(count)]

    def assert_open(self, *numbers: int) -> None:
        self.assertEqual([path.name for path in self.disk.open_paths], [str(each) for each in numbers])
        self.assertEqual(self.handles.open_count, len(numbers))

    def test_opened_when_used(self) -> None:
        """A handle opens its file when that is needed, and once."""
        (handle,) = self.make(1)
        self.assert_open()
        self.assertIs(handle.file, handle.file)
        self.assertEqual(handle.file.read(0, 10), b"0")
        self.assert_open(0)

    def test_create(self) -> None:
        """A file is made only by who wants to."""
        handle = self.handles.handle(ROOT / "new")
        self.assertRaises(FileNotFoundError, lambda: handle.file)
        self.assertRaises(FileNotFoundError, handle.lease)
        self.assertEqual((handle.leases, self.handles.open_count), (0, 0))
        file = handle.create()
        self.assertIs(handle.file, file)
        self.assertIs(handle.create(), file)

    def test_limit(self) -> None:
        """The file that was not used for the longest time makes room for another."""
        handles = self.make(5)
        for handle in handles[:3]:
            handle.file.read(0, 1)
        handles[0].file.read(0, 1)
        handles[3].file.read(0, 1)
        self.assert_open(0, 2, 3)
        handles[1].file.read(0, 1)
        self.assert_open(0, 1, 3)

    def test_opened_again(self) -> None:
        """A file that had to make room is opened again when it is used."""
        handles = self.make(5)
        for handle in handles * 3:
            self.assertEqual(handle.file.read(0, 10), handle.path.name.encode())
            self.assertLessEqual(self.disk.open_handles, 3)

    def test_lease(self) -> None:
        """What is leased stays open; others make room for it."""
        handles = self.make(5)
        file = handles[0].lease()
        for handle in handles[1:]:
            handle.file.read(0, 1)
        self.assert_open(0, 3, 4)
        self.assertEqual(file.read(0, 10), b"0")
        handles[0].release()
        handles[1].file.read(0, 1)
        self.assert_open(1, 3, 4)

    def test_leases_above_the_limit(self) -> None:
        """With more leases than the limit, the limit is exceeded; afterwards it holds again."""
        handles = self.make(7)
        files = [handle.lease() for handle in handles[:6]]
        self.assertEqual([file.read(0, 1) for file in files], [b"0", b"1", b"2", b"3", b"4", b"5"])
        self.assertEqual(self.handles.open_count, 6)
        handles[6].file.read(0, 1)
        for handle in handles[:6]:
            handle.release()
        handles[6].file.read(0, 1)
        self.handles.handle(ROOT / "x").create()
        self.assertEqual(self.handles.open_count, 3)

    def test_several_leases(self) -> None:
        """A file may be leased several times; each lease counts."""
        handles = self.make(5)
        handles[0].lease()
        handles[0].lease()
        handles[0].release()
        for handle in handles[1:]:
            handle.file.read(0, 1)
        self.assert_open(0, 3, 4)

    def test_limit_of_one(self) -> None:
        """The file that is just being opened is never the one that makes room."""
        self.handles = Handles(self.disk, limit=1)
        for handle in self.make(3):
            self.assertEqual(handle.file.read(0, 10), handle.path.name.encode())
            self.assertEqual(self.handles.open_count, 1)

    def test_retire(self) -> None:
        """A file that goes away is closed at once, or when its last lease ends."""
        handles = self.make(3)
        handles[0].file.read(0, 1)
        file = handles[1].lease()
        handles[1].lease()
        for handle in handles:
            handle.retire()
        self.assert_open(1)
        self.disk.unlink(ROOT / "1")
        handles[1].release()
        self.assertEqual(file.read(0, 10), b"1")
        handles[1].release()
        self.assert_open()

    def test_close(self) -> None:
        """At the end every file is closed, leased or not; late releases do no harm."""
        handles = self.make(2)
        handles[0].lease()
        handles[1].file.read(0, 1)
        handles[0].retire()
        self.handles.close()
        self.assert_open()
        handles[0].release()
        self.assert_open()

    def test_failed_open(self) -> None:
        """A file that can not be opened is not counted as open."""
        (handle,) = self.make(1)
        self.disk.fail_call(1, errno.EMFILE, "open")
        self.assertRaises(OSError, handle.lease)
        self.assertEqual((handle.leases, self.handles.open_count), (0, 0))
        self.assertEqual(handle.file.read(0, 1), b"0")

    def test_any_use(self) -> None:
        """Whatever is done, nothing leased is closed, and no more is open than the limit and the leases."""
        step = st.tuples(st.sampled_from(["use", "lease", "release"]), st.integers(0, 7))

        @settings(deadline=None, max_examples=60)
        @given(st.lists(step, max_size=60))
        def holds(steps: list[tuple[str, int]]) -> None:
            self.setUp()
            handles = self.make(8)
            leased = []
            for what, number in steps:
                if what == "use":
                    was_open = handles[number].opened is not None
                    handles[number].file.read(0, 1)
                    # Room is made when a file is opened; the one that is opened can not make it.
                    if not was_open:
                        self.assertLessEqual(self.handles.open_count, max(3, len(set(leased)) + 1))
                elif what == "lease":
                    handles[number].lease()
                    leased.append(number)
                elif leased:
                    handles[leased.pop(number % len(leased))].release()
                for each in leased:
                    self.assertIsNotNone(handles[each].opened)
                self.assertEqual(self.disk.open_handles, self.handles.open_count)
            while leased:
                handles[leased.pop()].release()
            self.handles.handle(ROOT / "new").create()
            self.assertLessEqual(self.handles.open_count, 3)

        holds()
