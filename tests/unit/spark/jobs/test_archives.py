"""Tests for L{rustlog.spark.jobs.manifests} and L{rustlog.spark.jobs.archives}."""

from __future__ import annotations

from pathlib import PurePath
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from rustlog.spark.jobs.archives import (
    DELTA,
    PARQUET,
    STAGING,
    Archive,
    begin_archive,
    is_archive,
    open_archive,
    silently,
)
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.manifests import (
    ArchivedFile,
    Chunk,
    GapBetweenParts,
    Manifest,
    Part,
    combine,
    from_document,
    to_document,
)
from rustlog.testing.disk import SimulatedCrash, SimulatedDisk

ROOT = PurePath("/archive")


def part(start: int, end: int, partition: int = 0, staged: str = "0-0.parquet") -> Part:
    """What a task has archived: one file with all offsets between two."""
    file = ArchivedFile(
        staged, staged, "orders", partition, "2026-11-18", end - start, 100, start, end - 1
    )
    chunk = Chunk("orders", partition, start, end - 1, end - start, ((staged, 0),))
    return Part("orders", partition, start, end, (file,), (chunk,))


def commit_of(before: Manifest | None, *parts: Part, run: str = "run") -> Manifest:
    return combine(before, run, 1000, {"orders": 2}, parts)


class ManifestTests(SynchronousTestCase):
    """What a commit says."""

    def test_first(self) -> None:
        """The first one may begin anywhere; files are named by topic, date, partition and offset."""
        manifest = commit_of(None, part(5, 8, 1, "b"), part(0, 3, 0, "a"))
        self.assertEqual(manifest.number, 1)
        self.assertEqual(manifest.next_offsets, {"orders": {0: 3, 1: 8}})
        self.assertEqual(
            [each.path for each in manifest.files],
            [
                "topic=orders/date=2026-11-18/orders-0-00000000000000000000-1.zstd.parquet",
                "topic=orders/date=2026-11-18/orders-1-00000000000000000005-1.zstd.parquet",
            ],
        )
        self.assertEqual([each.parts for each in manifest.chunks], [((f.path, 0),) for f in manifest.files])
        self.assertEqual((manifest.records, manifest.size), (6, 200))

    def test_next(self) -> None:
        """A later one goes on where the one before it ended, and keeps what it does not touch."""
        first = commit_of(None, part(0, 3), part(0, 4, 1, "b"))
        second = commit_of(first, part(6, 9, 0, "d"), part(3, 6, 0, "c"))
        self.assertEqual(second.number, 2)
        self.assertEqual(second.next_offsets, {"orders": {0: 9, 1: 4}})
        self.assertEqual([each.first_offset for each in second.chunks], [3, 6])

    def test_gap(self) -> None:
        """What would leave something out, or have it twice, is not committed."""
        first = commit_of(None, part(0, 3))
        for wrong in (part(4, 5), part(2, 5)):
            self.assertRaises(GapBetweenParts, commit_of, first, wrong)
        self.assertRaises(GapBetweenParts, commit_of, first, part(3, 5), part(6, 7, 0, "b"))

    def test_document(self) -> None:
        """What was written down is read again."""
        manifest = commit_of(None, part(0, 3), part(0, 4, 1, "b"))
        self.assertEqual(from_document(to_document(manifest)), manifest)

    def test_not_a_document(self) -> None:
        """Anything else is refused with a sentence."""
        self.assertRaises(ValueError, from_document, {"number": "x"})
        self.assertRaises(ValueError, from_document, {})


class ArchiveCase(SynchronousTestCase):
    """An archive on a disk that can lose its power."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.disk.make_directory(ROOT.parent)

    def stage(self, archive: Archive, run: str, name: str, content: bytes) -> None:
        """What a worker does."""
        file = self.disk.open(archive.staging(run) / name, create=True)
        file.append([content])
        file.sync()
        file.close()

    def add(self, archive: Archive, run: str, start: int, end: int) -> Manifest:
        self.stage(archive, run, f"{start}", b"%d to %d" % (start, end))
        manifest = commit_of(archive.last, part(start, end, staged=f"{start}"), run=run)
        archive.commit(manifest, silently)
        return manifest

    def begin(self, kind: str = PARQUET) -> Archive:
        archive = begin_archive(self.disk, ROOT, kind, "new-id")
        archive.recover(silently)
        return archive

    def check(self, archive: Archive) -> int:
        """Everything that was committed is there, and nothing else; how far it goes."""
        reached = 0
        paths = set()
        for manifest in archive.manifests():
            for chunk in manifest.chunks:
                self.assertEqual(chunk.first_offset, reached)
                reached = chunk.last_offset + 1
                ((path, _),) = chunk.parts
                paths.add(path)
                expected = b"%d to %d" % (chunk.first_offset, reached)
                self.assertEqual(self.disk.content(ROOT / path), expected)
        self.assertEqual(self.visible(), paths)
        self.assertEqual(self.disk.names(ROOT / STAGING), [])
        return reached

    def visible(self) -> set[str]:
        """All files that a reader of the directory would see."""
        return {
            f"{topic}/{date}/{name}"
            for topic in self.disk.names(ROOT)
            if not topic.startswith("_")
            for date in self.disk.names(ROOT / topic)
            for name in self.disk.names(ROOT / topic / date)
        }


class ArchiveTests(ArchiveCase):
    """While nothing goes wrong."""

    def test_commits(self) -> None:
        """Commits follow each other, also after it was closed."""
        archive = self.begin()
        self.add(archive, "a", 0, 3)
        self.add(archive, "a", 3, 7)
        archive.close()
        archive = self.begin()
        self.add(archive, "b", 7, 8)
        self.assertEqual(open_archive(self.disk, ROOT).last, archive.last)
        archive.forget("b")
        self.assertEqual(self.check(archive), 8)

    def test_staged_is_not_seen(self) -> None:
        """What is not committed is not in the archive, and is removed."""
        archive = self.begin()
        self.stage(archive, "a", "x", b"half")
        self.assertEqual(self.visible(), set())
        archive.close()
        self.assertEqual(self.check(self.begin()), 0)

    def test_one_writer(self) -> None:
        """Two processes do not write at the same time; reading is always possible."""
        self.begin()
        error = self.assertRaises(JobFailed, self.begin)
        self.assertIn("another process is writing", str(error))
        self.assertIsNone(open_archive(self.disk, ROOT).last)

    def test_other_kind(self) -> None:
        """An archive keeps its kind."""
        self.begin().close()
        error = self.assertRaises(JobFailed, self.begin, DELTA)
        self.assertIn("of the kind parquet, not delta", str(error))
        self.begin().close()  # Nobody holds the lock.

    def test_something_else(self) -> None:
        """A directory with other things in it is left alone."""
        self.disk.make_directory(ROOT)
        self.disk.put(ROOT / "thesis.tex", b"")
        error = self.assertRaises(JobFailed, self.begin)
        self.assertIn("has something else in it", str(error))
        self.assertFalse(is_archive(self.disk, ROOT))
        error = self.assertRaises(JobFailed, open_archive, self.disk, ROOT)
        self.assertIn("is not an archive", str(error))

    def test_damaged_manifest(self) -> None:
        """A manifest that is not what was written is named."""
        archive = self.begin()
        self.add(archive, "a", 0, 3)
        archive.close()
        self.disk.flip_bit(ROOT / "_rustlog" / "commits" / "1.json", 20)
        error = self.assertRaises(JobFailed, self.begin)
        self.assertIn("1.json", str(error))
        self.assertIn("restore it from a backup", str(error))

    def test_missing_file(self) -> None:
        """A file that somebody has removed is missed."""
        archive = self.begin()
        manifest = self.add(archive, "a", 0, 3)
        archive.close()
        self.disk.unlink(ROOT / manifest.files[0].path)
        error = self.assertRaises(JobFailed, self.begin)
        self.assertIn(manifest.files[0].path, str(error))

    def test_announced_until_it_succeeds(self) -> None:
        """A table format that could not be told of a commit is told by the next run."""
        archive = self.begin()
        self.stage(archive, "a", "0", b"0 to 3")
        manifest = commit_of(None, part(0, 3, staged="0"), run="a")

        def fail(root: PurePath, manifest: Manifest) -> None:
            raise JobFailed("it is on strike")

        self.assertRaises(JobFailed, archive.commit, manifest, fail)
        archive.close()
        told = []
        archive = begin_archive(self.disk, ROOT, PARQUET, "new-id")
        archive.recover(lambda root, manifest: told.append(manifest.number))
        self.assertEqual(told, [1])
        self.assertEqual(self.check(archive), 3)


class CrashTests(ArchiveCase):
    """The power goes, at every call in turn."""

    def test_every_call(self) -> None:
        """Whatever was committed is there afterwards, nothing is there twice, and it goes on."""
        calls = outcomes = 0
        reached_before: set[int] = set()
        while True:
            calls += 1
            self.disk = SimulatedDisk(Random(calls))
            self.disk.make_directory(ROOT.parent)
            committed, crashed = self.live_until(calls)
            self.disk.crash()
            archive = self.begin()
            reached = self.check(archive)
            self.assertGreaterEqual(reached, committed)
            reached_before.add(reached)
            self.add(archive, "later", reached, reached + 5)
            archive.forget("later")
            self.assertEqual(self.check(archive), reached + 5)
            archive.close()
            outcomes += 1
            if not crashed:
                break
        self.assertGreater(outcomes, 60)
        self.assertEqual(reached_before, {0, 3, 7})

    def live_until(self, call: int) -> tuple[int, bool]:
        """Write two commits, but die at some call; how far it was certainly, and whether it died."""
        committed = 0
        self.disk.crash_at_call(call)
        try:
            archive = self.begin()
            for start, end in ((0, 3), (3, 7)):
                self.add(archive, "first", start, end)
                committed = end
            archive.forget("first")
            archive.close()
        except SimulatedCrash:
            return committed, True
        return committed, False
