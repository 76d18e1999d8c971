"""Tests for L{rustlog.storage.segments.reading}."""

from __future__ import annotations

from pathlib import PurePath
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from rustlog.storage.handles import Handles
from rustlog.storage.segments.reading import (
    WARM_PROBE_BYTES,
    Cold,
    Damage,
    insist,
    probe,
    read_waiting,
    read_warm,
)
from rustlog.testing.disk import PAGE_BYTES, SimulatedDisk

PATH = PurePath("/data")
CONTENT = bytes(range(256)) * 2048  # 512 KiB


class ReadingTests(SynchronousTestCase):
    """Reading with and without the disk."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk(Random(0), cold_probability=1.0)
        self.disk.put(PATH, CONTENT)
        self.handle = Handles(self.disk, 10).handle(PATH)

    def warm(self, position: int, size: int) -> None:
        read_waiting(self.handle, position, size)

    def test_warm(self) -> None:
        """What is in memory is read at once."""
        self.warm(0, 100)
        self.assertEqual(read_warm(self.handle, 5, 10), CONTENT[5:15])

    def test_cold(self) -> None:
        """What is not is named, so that somebody can fetch it."""
        cold = self.assertRaises(Cold, read_warm, self.handle, 5, 10)
        self.assertEqual((cold.handle, cold.position, cold.size), (self.handle, 5, 10))

    def test_waiting(self) -> None:
        """Who may wait gets it in any case."""
        self.assertEqual(read_waiting(self.handle, 5, 10), CONTENT[5:15])

    def test_probe(self) -> None:
        """A region that is in memory can be sent."""
        self.warm(1000, 400_000)
        calls = self.disk.calls
        probe(self.handle, 1000, 401_000)
        self.assertLess(self.disk.calls - calls, 400_000 // WARM_PROBE_BYTES + 3)

    def test_probe_finds_the_cold_part(self) -> None:
        """A region of which the beginning, the end or a stretch within is on disk only is cold as a whole."""
        for cold_from in (0, WARM_PROBE_BYTES, 3 * WARM_PROBE_BYTES, len(CONTENT) - PAGE_BYTES):
            self.setUp()
            self.warm(0, cold_from)
            self.warm(cold_from + PAGE_BYTES, len(CONTENT))
            cold = self.assertRaises(Cold, probe, self.handle, 0, len(CONTENT))
            self.assertEqual((cold.position, cold.size), (0, len(CONTENT)))

    def test_probe_one_byte(self) -> None:
        """The smallest region is probed, too."""
        self.assertRaises(Cold, probe, self.handle, 7, 8)
        self.warm(7, 1)
        probe(self.handle, 7, 8)

    def test_insist(self) -> None:
        """Whatever is found cold is read from the disk, until the work is done."""

        def work() -> bytes:
            return read_warm(self.handle, 10, 10) + read_warm(self.handle, 300_000, 10)

        self.assertEqual(insist(work), CONTENT[10:20] + CONTENT[300_000:300_010])

    def test_insist_passes_errors_on(self) -> None:
        """An error is not a cold read."""
        self.disk.fail_call(2, operation="read")
        self.assertRaises(OSError, insist, lambda: read_warm(self.handle, 0, 10))
        self.assertRaises(ZeroDivisionError, insist, lambda: 1 // 0)

    def test_damage(self) -> None:
        """Damage says where it is, and what it is."""
        damage = Damage(17, "the checksum does not match")
        self.assertEqual((damage.position, str(damage)), (17, "the checksum does not match"))
