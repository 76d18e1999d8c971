"""Tests for L{rustlog.storage.segments.index}."""

from __future__ import annotations

import errno
import struct
from bisect import bisect_right
from pathlib import PurePath
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from rustlog.storage.handles import Handles
from rustlog.storage.segments.index import OFFSET_ENTRY, TIME_ENTRY, IndexDamaged, SparseIndex
from rustlog.storage.segments.reading import Cold, insist
from rustlog.testing.disk import SimulatedDisk

PATH = PurePath("/0.index")


class IndexCase(SynchronousTestCase):
    """Has an index of which nothing is on disk yet."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk(Random(0), cold_probability=0.0)
        self.handles = Handles(self.disk, 10)
        self.index = self.open(0)

    def open(self, flushed: int | None, entry: struct.Struct = OFFSET_ENTRY) -> SparseIndex:
        return SparseIndex(self.handles.handle(PATH), entry, flushed)

    def fill(self, count: int) -> list[tuple[int, int]]:
        """Add entries: keys and values grow, each at its own pace."""
        entries = [(number * 10, number * 4096) for number in range(count)]
        for entry in entries:
            self.index.add(*entry)
        return entries


class SearchTests(IndexCase):
    """Finding the neighbourhood of a key."""

    def test_empty(self) -> None:
        """An index without entries finds nothing, and needs no file for that."""
        self.assertIsNone(self.index.floor(5))
        self.assertIsNone(self.index.last())
        self.assertEqual(self.index.flushed, 0)
        self.assertFalse(self.disk.exists(PATH))

    def assert_finds(self, entries: list[tuple[int, int]]) -> None:
        keys = [key for key, _ in entries]
        for key in [each + step for each in keys[:: max(1, len(keys) // 3)] for step in (-1, 0, 1, 9)]:
            at = bisect_right(keys, key)
            self.assertEqual(self.index.floor(key), entries[at - 1] if at else None)
        for _, value in (entries[0], entries[len(entries) // 2], entries[-1]):
            self.assertEqual(self.index.floor(value, field=1), entries[value // 4096])
            self.assertEqual(self.index.floor(value + 4095, field=1), entries[value // 4096])
        self.assertEqual(self.index.last(), entries[-1])

    def test_in_memory(self) -> None:
        """Entries that are not written yet are found."""
        self.assert_finds(self.fill(5))
        self.assertFalse(self.disk.exists(PATH))

    def test_in_the_file(self) -> None:
        """Entries are found in the file, few or many."""
        for count in (1, 2, 255, 256, 257, 5000):
            self.setUp()
            entries = self.fill(count)
            self.index.flush()
            self.assert_finds(entries)
            self.index = self.open(None)
            self.assert_finds(entries)

    def test_in_both(self) -> None:
        """The older entries are in the file and the younger ones in memory, and all are found."""
        entries = [(number * 10, number * 4096) for number in range(700)]
        for number, entry in enumerate(entries):
            self.index.add(*entry)
            if number == 600:
                self.index.flush()
        self.assertEqual(self.index.flushed, 601)
        for key in (-1, 0, 3005, 5999, 6000, 6005, 6009, 6010, 6999, 10_000):
            expected = entries[min(key // 10, 699)] if key >= 0 else None
            self.assertEqual(self.index.floor(key), expected)

    def test_equal_keys(self) -> None:
        """Of entries with the same key the last one is found, in memory and in the file."""
        for entry in ((5, 0), (5, 1), (5, 2), (7, 3)):
            self.index.add(*entry)
        self.assertEqual((self.index.floor(5), self.index.floor(6)), ((5, 2), (5, 2)))
        self.index.flush()
        self.assertEqual((self.index.floor(5), self.index.floor(6)), ((5, 2), (5, 2)))

    def test_few_reads(self) -> None:
        """A search in a large file reads a few entries of it, not all."""
        self.fill(100_000)
        self.index.flush()
        calls = self.disk.calls
        self.index.floor(654_321)
        self.assertLess(self.disk.calls - calls, 12)

    def test_cold(self) -> None:
        """A search that would have to wait for the disk says so, and succeeds when it may wait."""
        entries = self.fill(1000)
        self.index.flush()
        self.disk.cold_probability = 1.0
        self.assertRaises(Cold, self.index.floor, 5000)
        self.assertEqual(insist(lambda: self.index.floor(5000)), entries[500])


class FileTests(IndexCase):
    """What is on disk."""

    def test_offset_entries(self) -> None:
        """An entry of the offset index is two unsigned numbers of 32 bits."""
        self.index.add(1, 2)
        self.index.add(2**32 - 1, 2**32 - 2)
        self.index.flush()
        self.assertEqual(self.disk.content(PATH), bytes.fromhex("00000001 00000002 ffffffff fffffffe"))
        self.assertEqual(self.open(None).last(), (2**32 - 1, 2**32 - 2))

    def test_time_entries(self) -> None:
        """An entry of the time index is a timestamp of 64 bits, which may be negative, and an offset."""
        self.index = self.open(0, TIME_ENTRY)
        self.index.add(-1, 0)
        self.index.add(2**40, 7)
        self.index.flush()
        self.assertEqual(
            self.disk.content(PATH), bytes.fromhex("ffffffffffffffff 00000000 0000010000000000 00000007")
        )
        self.assertEqual(self.index.floor(0), (-1, 0))

    def test_flush_adds(self) -> None:
        """Each flush adds what is new; without anything new the file is not touched."""
        self.fill(3)
        self.index.flush()
        calls = self.disk.calls
        self.index.flush()
        self.assertEqual(self.disk.calls, calls)
        self.index.add(1000, 50_000)
        self.index.flush()
        self.assertEqual((self.index.flushed, self.disk.size(PATH)), (4, 32))

    def test_flush_makes_the_file(self) -> None:
        """After a flush there is a file, even if it is empty."""
        self.index.flush()
        self.assertEqual((self.disk.content(PATH), self.index.flushed), (b"", 0))

    def test_entries_behind_a_checkpoint(self) -> None:
        """Entries that a crash left behind the checkpoint are not believed, and written over."""
        self.fill(5)
        self.index.flush()
        self.index = self.open(2)
        self.assertEqual(self.index.floor(1000), (10, 4096))
        self.index.add(15, 5000)
        self.index.flush()
        found = [self.open(None).floor(key) for key in (0, 12, 99)]
        self.assertEqual(found, [(0, 0), (10, 4096), (15, 5000)])
        self.assertEqual(self.disk.size(PATH), 24)

    def test_half_an_entry(self) -> None:
        """Half an entry at the end of the file is overlooked, and written over."""
        self.fill(2)
        self.index.flush()
        self.disk.put(PATH, self.disk.content(PATH) + b"\0\0\0")
        self.handles.close()
        self.index = self.open(None)
        self.assertEqual(self.index.last(), (10, 4096))
        self.index.add(30, 5000)
        self.index.flush()
        self.assertEqual((self.disk.size(PATH), self.open(None).last()), (24, (30, 5000)))

    def test_failed_flush(self) -> None:
        """When a flush fails, all entries are still found, and the next flush writes them."""
        entries = self.fill(300)
        self.disk.fail_call(1, errno.ENOSPC, "append")
        self.assertRaises(OSError, self.index.flush)
        self.assertEqual(self.index.floor(1500), entries[150])
        self.handles.close()
        self.index.flush()
        self.assertEqual(self.open(None).flushed, 300)
        self.assertEqual(self.index.floor(1500), entries[150])

    def test_clear(self) -> None:
        """To begin anew forgets the file as well."""
        self.fill(5)
        self.index.flush()
        self.index.add(99, 99)
        self.index.clear()
        self.assertIsNone(self.index.floor(1000))
        self.index.add(1, 2)
        self.index.flush()
        self.assertEqual(self.disk.content(PATH), bytes.fromhex("00000001 00000002"))


class DamageTests(IndexCase):
    """Files that are not right."""

    def test_missing(self) -> None:
        """A missing file is damage, whether its size is known or not."""
        for flushed in (None, 5):
            self.assertRaises(IndexDamaged, self.open(flushed).floor, 5)
            self.assertRaises(IndexDamaged, self.open(flushed).last)

    def test_too_short(self) -> None:
        """A file with less than what was counted on is damage."""
        self.fill(5)
        self.index.flush()
        for index in (self.open(6), self.open(1000)):
            self.assertIn("too short", str(self.assertRaises(IndexDamaged, index.floor, 5)))
            self.assertRaises(IndexDamaged, index.last)

    def test_garbage(self) -> None:
        """Garbage may be found, but nothing behind the key that was asked for."""
        random = Random(1)
        for _ in range(50):
            self.disk.put(PATH, random.randbytes(8 * random.randint(1, 600)))
            self.handles.close()
            index = self.open(None)
            for field in (0, 1):
                key = random.getrandbits(32)
                found = index.floor(key, field)
                self.assertTrue(found is None or found[field] <= key)

    def test_unreadable(self) -> None:
        """A disk that fails is not a damaged index: it may be sound tomorrow."""
        self.fill(5)
        self.index.flush()
        self.disk.fail_call(1, operation="read")
        self.assertRaises(OSError, self.index.floor, 5)
        self.assertEqual(self.index.floor(5), (0, 0))
