"""Tests for L{rustlog.storage.documents}."""

from __future__ import annotations

import errno
from pathlib import PurePath
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import Closed
from rustlog.storage.documents import (
    TEMPORARY_SUFFIX,
    DamagedDocument,
    read_document,
    write_documents,
)
from rustlog.storage.documentwriter import DocumentWriter
from rustlog.testing.disk import SimulatedCrash, SimulatedDisk
from rustlog.testing.environment import InlineWorkers
from tests.unit.storage.manual import ManualWorkers

ROOT = PurePath("/data")
ONE, TWO = ROOT / "one.json", ROOT / "parts" / "two.json"
OLD = {"version": 1, "text": "älter", "nested": {"list": [1, None, True, 1.5, "x" * 2000]}}
NEW = {"version": 2, "text": "neuer", "nested": {}}


def make_disk(seed: int = 0) -> SimulatedDisk:
    disk = SimulatedDisk(Random(seed))
    disk.make_directory(ROOT)
    disk.sync_directory(ROOT.parent)
    return disk


class ReadWriteTests(SynchronousTestCase):
    """Documents on a disk that works."""

    def setUp(self) -> None:
        self.disk = make_disk()

    def test_round_trip(self) -> None:
        """What is written is read, in directories that are made as needed."""
        write_documents(self.disk, {ONE: OLD, TWO: NEW})
        self.assertEqual(read_document(self.disk, ONE), OLD)
        self.assertEqual(read_document(self.disk, TWO), NEW)
        self.assertEqual(self.disk.open_handles, 0)

    def test_never_written(self) -> None:
        """A document that does not exist is nothing, not an error."""
        self.assertIsNone(read_document(self.disk, TWO))

    def test_replace(self) -> None:
        """A shorter document replaces a longer one, and no temporary file stays."""
        write_documents(self.disk, {ONE: OLD})
        write_documents(self.disk, {ONE: NEW})
        self.assertEqual(read_document(self.disk, ONE), NEW)
        self.assertEqual(self.disk.names(ROOT), ["one.json"])

    def test_leftovers(self) -> None:
        """What an interrupted writer left under the temporary name does not matter."""
        self.disk.put(ONE.with_name("one.json" + TEMPORARY_SUFFIX), b"x" * 10_000)
        write_documents(self.disk, {ONE: NEW})
        self.assertEqual(read_document(self.disk, ONE), NEW)

    def test_nothing_to_write(self) -> None:
        """To write no documents is no work."""
        calls = self.disk.calls
        write_documents(self.disk, {})
        self.assertEqual(self.disk.calls, calls)

    def test_readable(self) -> None:
        """People can read a document: it is indented JSON and ends with a line feed."""
        write_documents(self.disk, {ONE: NEW})
        lines = self.disk.content(ONE).decode().splitlines(keepends=True)
        self.assertEqual(lines[1], '  "version": 2,\n')
        self.assertEqual(lines[-1], "}\n")

    def test_durable(self) -> None:
        """What was written survives a loss of power at once after."""
        for seed in range(20):
            disk = make_disk(seed)
            write_documents(disk, {ONE: OLD, TWO: OLD})
            write_documents(disk, {TWO: NEW})
            disk.crash()
            self.assertEqual((read_document(disk, ONE), read_document(disk, TWO)), (OLD, NEW))


class DamageTests(SynchronousTestCase):
    """Documents that are not what was written."""

    def setUp(self) -> None:
        self.disk = make_disk()

    def test_any_bit(self) -> None:
        """A flipped bit is found, wherever it is."""
        write_documents(self.disk, {ONE: NEW})
        for position in range(self.disk.size(ONE)):
            for bit in range(8):
                self.disk.flip_bit(ONE, position, bit)
                try:
                    self.assertEqual(read_document(self.disk, ONE), NEW)  # in white space, perhaps
                except DamagedDocument as damage:
                    self.assertIn(str(ONE), str(damage))
                self.disk.flip_bit(ONE, position, bit)

    def test_cut_anywhere(self) -> None:
        """A document that is not whole is found."""
        write_documents(self.disk, {ONE: NEW})
        content = self.disk.content(ONE)
        for end in range(len(content) - 1):
            self.disk.put(ONE, content[:end])
            self.assertRaises(DamagedDocument, read_document, self.disk, ONE)

    def test_other_files(self) -> None:
        """Whatever else is in a file of that name, it is no document."""
        for content in (b"", b"\0" * 100, b"[]", b"5", b"null", b'"crc32c"', b"{}", b'{"a": 1}', b"\xff\xfe",
                        b'{"a": 1, "crc32c": null}', b'{"a": 1, "crc32c": "1"}', b"[" * 100_000):  # fmt: skip
            self.disk.put(ONE, content)
            self.assertRaises(DamagedDocument, read_document, self.disk, ONE)

    def test_handles_are_closed(self) -> None:
        """A damaged or unreadable document leaves no open handle behind."""
        self.disk.put(ONE, b"garbage")
        self.assertRaises(DamagedDocument, read_document, self.disk, ONE)
        self.disk.fail_call(1, operation="read")
        self.assertRaises(OSError, read_document, self.disk, ONE)
        self.assertEqual(self.disk.open_handles, 0)


class TroubleTests(SynchronousTestCase):
    """Replacing documents when the disk fails or the power goes."""

    def calls_needed(self) -> int:
        disk = make_disk()
        write_documents(disk, {ONE: OLD, TWO: OLD})
        before = disk.calls
        write_documents(disk, {ONE: NEW, TWO: NEW})
        return disk.calls - before

    def assert_whole(self, disk: SimulatedDisk) -> None:
        for path in (ONE, TWO):
            self.assertIn(read_document(disk, path), (OLD, NEW))

    def test_crash_at_every_call(self) -> None:
        """Wherever the power fails, each document is the old one or the new one, whole."""
        for number in range(1, self.calls_needed() + 1):
            for seed in range(10):
                disk = make_disk(seed)
                write_documents(disk, {ONE: OLD, TWO: OLD})
                disk.crash_at_call(number)
                self.assertRaises(SimulatedCrash, write_documents, disk, {ONE: NEW, TWO: NEW})
                disk.crash()
                self.assert_whole(disk)
                write_documents(disk, {ONE: NEW, TWO: NEW})
                disk.crash()
                self.assertEqual((read_document(disk, ONE), read_document(disk, TWO)), (NEW, NEW))

    def test_crash_at_the_first_version(self) -> None:
        """A document that was never completed is absent, or there as a whole."""
        for number in range(1, 20):
            disk = make_disk(number)
            disk.crash_at_call(number)
            try:
                write_documents(disk, {TWO: NEW})
            except SimulatedCrash:
                disk.crash()
                self.assertIn(read_document(disk, TWO), (None, NEW))
            else:
                self.assertGreater(number, 5)
                return
        self.fail("it never got through")

    def test_failure_at_every_call(self) -> None:
        """Whichever call fails, the writer hears of it, no handle is lost, and the next try succeeds."""
        for code in (errno.EIO, errno.ENOSPC):
            for number in range(1, self.calls_needed() + 1):
                disk = make_disk(number)
                write_documents(disk, {ONE: OLD, TWO: OLD})
                disk.fail_call(number, code)
                self.assertRaises(OSError, write_documents, disk, {ONE: NEW, TWO: NEW})
                self.assertEqual(disk.open_handles, 0)
                self.assert_whole(disk)
                write_documents(disk, {ONE: NEW, TWO: NEW})
                disk.crash()
                self.assertEqual((read_document(disk, ONE), read_document(disk, TWO)), (NEW, NEW))


class WriterTests(SynchronousTestCase):
    """Writing off the reactor thread."""

    def setUp(self) -> None:
        self.disk = make_disk()
        self.workers = ManualWorkers()
        self.writer = DocumentWriter(self.disk, self.workers)

    def written(self, path: PurePath) -> Any:
        return (read_document(self.disk, path) or {}).get("version")

    def write(self, path: PurePath, version: int) -> Deferred[None]:
        return self.writer.write(path, {"version": version})

    def test_one(self) -> None:
        """Whoever writes hears of it when the document is durable, and not before."""
        done = self.write(ONE, 1)
        self.assertNoResult(done)
        self.workers.finish()
        self.successResultOf(done)
        self.disk.crash()
        self.assertEqual(self.written(ONE), 1)
        self.assertEqual(self.workers.waiting, 0)

    def test_one_round_at_a_time(self) -> None:
        """What comes during a round goes into the next one, all of it together."""
        first = self.write(ONE, 1)
        later = [self.write(ONE, 2), self.write(TWO, 3)]
        self.assertEqual(self.workers.waiting, 1)
        self.workers.finish()
        self.successResultOf(first)
        self.assertEqual((self.written(ONE), self.written(TWO)), (1, None))
        self.assertEqual(self.workers.waiting, 1)
        for each in later:
            self.assertNoResult(each)
        self.workers.finish()
        for each in later:
            self.successResultOf(each)
        self.assertEqual((self.written(ONE), self.written(TWO), self.workers.waiting), (2, 3, 0))

    def test_later_version_wins(self) -> None:
        """Of several versions that wait for the same round, only the last is written."""
        self.write(TWO, 0)
        waiting = [self.write(ONE, version) for version in (1, 2, 3)]
        self.workers.finish()
        renames = self.disk.calls
        self.workers.finish()
        for each in waiting:
            self.successResultOf(each)
        self.assertEqual(self.written(ONE), 3)
        self.assertLess(self.disk.calls - renames, 15)

    def test_failure(self) -> None:
        """A failed round is told to everyone who waits for it, and only to them."""
        self.write(TWO, 0)
        failing = [self.write(ONE, 1), self.write(TWO, 1)]
        self.workers.finish()
        afterwards = self.write(ONE, 2)
        self.disk.fail_call(1, operation="sync")
        self.workers.finish()
        for each in failing:
            self.failureResultOf(each, OSError)
        self.workers.finish()
        self.successResultOf(afterwards)
        self.assertEqual(self.written(ONE), 2)

    def test_forget(self) -> None:
        """What waits below a directory that goes away is not written, the rest is."""
        first = self.write(TWO, 1)
        waiting = [self.write(ROOT / "parts" / "deep" / "three.json", 2), self.write(ONE, 2)]
        self.writer.forget(ROOT / "parts")
        self.workers.finish()
        self.successResultOf(first)
        self.workers.finish()
        for each in waiting:
            self.successResultOf(each)
        self.assertEqual(self.written(ONE), 2)
        self.assertEqual(self.disk.names(ROOT / "parts"), ["two.json"])

    def test_forget_everything(self) -> None:
        """When nothing is left to write, nobody waits for ever."""
        self.write(ONE, 1)
        waiting = self.write(TWO, 1)
        self.writer.forget(TWO.parent)
        self.workers.finish()
        self.workers.finish()
        self.successResultOf(waiting)
        self.assertIsNone(self.written(TWO))

    def test_idle(self) -> None:
        """One can wait until all that was handed in has been dealt with, however it ended."""
        self.successResultOf(self.writer.idle())
        self.write(ONE, 1)
        failing = self.write(TWO, 1)
        idle = self.writer.idle()
        self.workers.finish()
        self.assertNoResult(idle)
        self.disk.fail_call(1)
        self.workers.finish()
        self.successResultOf(idle)
        self.failureResultOf(failing, OSError)
        self.successResultOf(self.writer.idle())

    def test_cancelled(self) -> None:
        """Who stops waiting does not stop the writing."""
        done = self.write(ONE, 1)
        done.cancel()
        self.failureResultOf(done)
        self.workers.finish()
        self.assertEqual(self.written(ONE), 1)

    def test_write_from_a_callback(self) -> None:
        """Who hears that a version is durable may hand in the next at once."""
        self.writer = DocumentWriter(self.disk, InlineWorkers())
        outcome = self.write(ONE, 1).addCallback(lambda _: self.write(ONE, 2))
        self.successResultOf(outcome)
        self.assertEqual(self.written(ONE), 2)

    def test_order(self) -> None:
        """Those who wait hear of it in the order in which they came."""
        heard: list[int] = []
        for number in range(4):
            self.write(ONE, number).addCallback(lambda _, number=number: heard.append(number))
        self.workers.finish()
        self.workers.finish()
        self.assertEqual(heard, [0, 1, 2, 3])

    def test_closed_workers(self) -> None:
        """When there are no workers any more, the writer hears that."""
        self.write(ONE, 1)
        waiting = self.write(ONE, 2)
        self.workers.close()
        self.workers.finish()
        self.failureResultOf(waiting, Closed)
        self.failureResultOf(self.write(ONE, 3), Closed)
