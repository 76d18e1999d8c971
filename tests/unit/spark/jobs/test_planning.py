"""Tests for L{rustlog.spark.jobs.planning}, and what jobs plan."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from rustlog.model import TopicPartition
from rustlog.spark.errors import DataLost
from rustlog.spark.jobs.archive import ArchiveOptions, plan_archive
from rustlog.spark.jobs.copying import as_it_was, plan_copy
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.planning import rounds, total_records
from rustlog.spark.jobs.sources import Extent, Piece, Starts
from rustlog.spark.ranges import Range
from rustlog.spark.settings import ClientSettings

SETTINGS = ClientSettings(bootstrap=(("127.0.0.1", 9092),))


def piece(partition: int, start: int, end: int, size: int = 10) -> Piece:
    return Piece("orders", partition, start, end, size, SETTINGS)


class RoundsTests(SynchronousTestCase):
    """What is done before each commit."""

    def test_in_turn(self) -> None:
        """Partitions have their turns, and each keeps its order."""
        pieces = [piece(1, 0, 5), piece(0, 5, 9), piece(0, 0, 5), piece(0, 9, 12)]
        made = rounds(pieces, 20)
        names = [[(each.partition, each.start) for each in one] for one in made]
        self.assertEqual(names, [[(0, 0), (1, 0)], [(0, 5), (0, 9)]])

    def test_large_piece(self) -> None:
        """A piece that is larger than a round is a round."""
        made = rounds([piece(0, 0, 5, 100), piece(0, 5, 6, 1)], 20)
        self.assertEqual([len(each) for each in made], [1, 1])

    def test_nothing(self) -> None:
        """Nothing to do is no round."""
        self.assertEqual(rounds([], 20), [])
        self.assertEqual(total_records([]), 0)


class FakeSource:
    """A topic C{orders} whose pieces have two offsets each."""

    def __init__(self, *bounds: tuple[int, int]) -> None:
        self.bounds = bounds

    def __str__(self) -> str:
        return "here"

    def topics(self) -> dict[str, int]:
        return {"orders": len(self.bounds), "__consumer_offsets": 1}

    def extents(self, topic: str) -> list[Extent]:
        return [Extent(TopicPartition(topic, each), *pair) for each, pair in enumerate(self.bounds)]

    def pieces(self, topic: str, starts: Starts, piece_bytes: int = 0) -> list[Piece]:
        found = []
        for extent in self.extents(topic):
            start = starts.get(extent.name, extent.start)
            if not extent.start <= start <= extent.end:
                raise DataLost(topic, extent.name.partition, start, extent.start, extent.end)
            index = extent.name.partition
            found += [piece(index, each, min(each + 2, extent.end)) for each in range(start, extent.end, 2)]
        return found


class ArchivePlanTests(SynchronousTestCase):
    """What is left to archive."""

    def plan(
        self, source: FakeSource, done: dict[int, int], **options: bool
    ) -> Sequence[tuple[int, int, int]]:
        wanted = ArchiveOptions(target="x", **options)  # type: ignore[arg-type]
        made = plan_archive(source, wanted, {"orders": done} if done else {})
        return [(each.partition, each.start, each.end) for each in made.pieces]

    def test_everything(self) -> None:
        """At first, all of all topics but the broker's own."""
        self.assertEqual(self.plan(FakeSource((3, 6), (0, 0)), {}), [(0, 3, 5), (0, 5, 6)])

    def test_rest(self) -> None:
        """Later, what has come since; also of a partition that is new."""
        self.assertEqual(self.plan(FakeSource((0, 4), (0, 1)), {0: 3}), [(0, 3, 4), (1, 0, 1)])
        self.assertEqual(self.plan(FakeSource((0, 4)), {0: 4}), [])

    def test_gone(self) -> None:
        """Records that were deleted before they were archived are missed, unless that is allowed."""
        source = FakeSource((5, 8))
        error = self.assertRaises(JobFailed, self.plan, source, {0: 3})
        self.assertIn("offsets 3 to 4 of orders-0 are gone", str(error))
        self.assertIn("--allow-gaps", str(error))
        self.assertEqual(self.plan(source, {0: 3}, allows_gaps=True), [(0, 5, 7), (0, 7, 8)])

    def test_another_topic(self) -> None:
        """A topic that is shorter than what was archived of it is another one."""
        error = self.assertRaises(JobFailed, self.plan, FakeSource((0, 2)), {0: 3})
        self.assertIn("another topic of the same name", str(error))

    def test_unknown_topic(self) -> None:
        """A topic that does not exist is named, with those that do."""
        options = ArchiveOptions(target="x", topics=["ordres"])
        error = self.assertRaises(JobFailed, plan_archive, FakeSource((0, 1)), options, {})
        self.assertEqual(str(error), "there is no topic ordres at here; there are: orders")


class CopyPlanTests(SynchronousTestCase):
    """What is copied is what was there when the job began."""

    def test_later_records_wait(self) -> None:
        """What has come since is not copied."""
        plan = plan_copy(FakeSource((0, 5), (0, 3)), "orders", "copy", None)
        self.assertEqual(plan.partitions, 2)
        kept = as_it_was(plan, [[0, 3]])
        self.assertEqual([(each.partition, each.start, each.end) for each in kept], [(0, 0, 2), (0, 2, 3)])

    def test_files_are_cut(self) -> None:
        """So it is with pieces of files."""
        place = Range("orders", 0, "segments", "/x", 0, 100, 0, 9)
        plan = plan_copy(FakeSource((0, 2)), "orders", "copy", 7)
        plan = evolve(plan, pieces=[evolve(piece(0, 0, 9), place=place)])
        (kept,) = as_it_was(plan, [[0, 4]])
        self.assertEqual((kept.end, kept.place), (4, evolve(place, to_offset=4)))

    def test_gone(self) -> None:
        """What is not there any more can not be copied the same way again."""
        plan = plan_copy(FakeSource((3, 5)), "orders", "copy", None)
        error = self.assertRaises(JobFailed, as_it_was, plan, [[0, 5]])
        self.assertIn("offsets 0 to 2 of orders-0 are gone", str(error))

    def test_itself(self) -> None:
        """A topic is not copied into itself."""
        error = self.assertRaises(JobFailed, plan_copy, FakeSource((0, 1)), "orders", "orders", None)
        self.assertIn("into itself", str(error))
