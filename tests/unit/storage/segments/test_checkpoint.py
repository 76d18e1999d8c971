"""Tests for L{rustlog.storage.segments.checkpoint}."""

from __future__ import annotations

from pathlib import PurePath
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from rustlog.storage.documents import read_document, write_documents
from rustlog.storage.segments.checkpoint import Checkpoint
from rustlog.testing.disk import SimulatedDisk

FULL = Checkpoint(
    segment=100,
    position=2**40,
    next_offset=2**62,
    log_start_offset=50,
    created_ms=1_700_000_000_000,
    index_entries=7,
    time_entries=8,
    max_timestamp=1_700_000_000_001,
    max_timestamp_offset=33,
    epochs=[[0, 0], [3, 80]],
    producers=[[2**60, 1_700_000_000_002, [[0, 0, 4, 90]]]],
)
SMALLEST = Checkpoint(segment=0, position=0, next_offset=0, log_start_offset=0)


class CheckpointTests(SynchronousTestCase):
    """Writing down where recovery may begin."""

    def test_round_trip(self) -> None:
        """A checkpoint that was written to a disk is the same when it is read."""
        disk, path = SimulatedDisk(Random(0)), PurePath("/0.json")
        for checkpoint in (FULL, SMALLEST):
            write_documents(disk, {path: checkpoint.to_document()})
            members = read_document(disk, path)
            assert members is not None
            self.assertEqual(Checkpoint.from_document(members), checkpoint)

    def test_other_members(self) -> None:
        """A document with other members is not taken for a checkpoint."""
        members = FULL.to_document()
        self.assertRaises(TypeError, Checkpoint.from_document, {**members, "more": 1})
        del members["segment"]
        self.assertRaises(TypeError, Checkpoint.from_document, members)

    def test_lists_are_not_shared(self) -> None:
        """Each checkpoint has lists of its own."""
        other = Checkpoint(segment=0, position=0, next_offset=0, log_start_offset=0)
        self.assertIsNot(other.epochs, SMALLEST.epochs)
        self.assertIsNot(other.producers, SMALLEST.producers)
