"""Tests for L{rustlog.storage.segments.files}."""

from __future__ import annotations

from pathlib import PurePath

from twisted.trial.unittest import SynchronousTestCase

from rustlog.storage.segments.files import INDEX_SUFFIX, LOG_SUFFIX, base_offsets, segment_path


class NameTests(SynchronousTestCase):
    """Names on disk."""

    def test_segment_path(self) -> None:
        """A segment is named by its base offset, without leading zeros."""
        directory = PurePath("/data/logs/orders/0")
        self.assertEqual(segment_path(directory, 15000, LOG_SUFFIX), directory / "15000.log")
        self.assertEqual(segment_path(directory, 0, INDEX_SUFFIX), directory / "0.index")

    def test_base_offsets(self) -> None:
        """Segments are sorted as numbers."""
        names = ["0.log", "10.log", "9.log", "9223372036854775807.log", "100.log"]
        self.assertEqual(base_offsets(names), [0, 9, 10, 100, 2**63 - 1])
        self.assertEqual(base_offsets([]), [])

    def test_other_names(self) -> None:
        """Whatever else lies in the directory is no segment, least of all one of another name."""
        names = ["0.index", "0.timeindex", "0.log~", ".log", "-1.log", "+1.log", "x.log", "1_0.log", "٣.log"]
        names += ["007.log", "00000000000000000000.log", " 1.log", "1.log.bak", "1"]
        self.assertEqual(base_offsets(names), [])
