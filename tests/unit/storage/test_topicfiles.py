"""
The topics of a data directory come back as they were, and a deleted one is gone for good or not at all.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import StartupError, StorageFailed
from rustlog.model import TopicInfo
from rustlog.storage.datadir import DataDirectory
from rustlog.storage.documentwriter import DocumentWriter
from rustlog.storage.topicfiles import DeletionUncertain, TopicFiles
from rustlog.testing.environment import memory_environment

ROOT = PurePath("/data")
ORDERS = TopicInfo(UUID(int=1), "orders", 3, {"segment.bytes": "100"})
OTHERS = TopicInfo(UUID(int=2), "others", 1, {}, internal=True)


class TopicFilesTests(SynchronousTestCase):
    """Saving, reading, deleting."""

    def setUp(self) -> None:
        self.environment = memory_environment()
        self.files = self.environment.files
        self.open()

    def open(self) -> None:
        self.directory = DataDirectory.claim(self.files, ROOT, "segments", 1)
        for name in ("logs", "topics", "trash", "checkpoints"):
            self.files.make_directory(ROOT / name)
        self.files.sync_directory(ROOT)
        workers = self.environment.workers
        self.topics = TopicFiles(self.files, workers, DocumentWriter(self.files, workers), ROOT)

    def reopen_after_crash(self) -> list[TopicInfo]:
        self.environment = self.environment.after_crash()
        self.open()
        return self.topics.read(self.directory)

    def done(self, result: Deferred[Any]) -> Any:
        return self.successResultOf(result)

    def write_log(self, topic: TopicInfo) -> PurePath:
        path = self.topics.partition_directory(topic.name, 0) / "0.log"
        self.files.make_directory(path.parent)
        self.files.put(path, b"records")
        for directory in path.parents[:4]:
            self.files.sync_directory(directory)
        return path

    def test_saved(self) -> None:
        """A saved topic has all its properties after a crash."""
        self.done(self.topics.save(ORDERS))
        self.done(self.topics.save(OTHERS))
        self.assertEqual(self.reopen_after_crash(), [ORDERS, OTHERS])

    def test_removed(self) -> None:
        """A deleted topic stays deleted, and its files are out of the way of a new one of that name."""
        self.done(self.topics.save(ORDERS))
        path = self.write_log(ORDERS)
        self.done(self.topics.remove(ORDERS))
        self.assertFalse(self.files.exists(path))
        self.assertEqual(self.reopen_after_crash(), [])
        self.assertFalse(self.files.exists(path))

    def test_trash_is_emptied_step_by_step(self) -> None:
        """Files of deleted topics are removed a few at a time, checkpoints included."""
        self.done(self.topics.save(ORDERS))
        path = self.write_log(ORDERS)
        for number in range(5):
            self.files.put(path.with_name(f"{number + 1}.log"), b"")
        checkpoint = self.topics.checkpoint_path(ORDERS.id, 0)
        self.files.make_directory(checkpoint.parent)
        self.files.put(checkpoint, b"")
        self.done(self.topics.remove(ORDERS))
        steps = 1
        while self.topics.empty_trash(2):
            steps += 1
        self.assertGreater(steps, 2)
        self.assertEqual(self.files.names(ROOT / "trash"), [])
        self.assertEqual(self.files.names(ROOT / "checkpoints"), [])

    def test_crash_at_every_call(self) -> None:
        """Whenever the power fails during a deletion, the topic is there with its log, or neither is."""
        call = 0
        while True:
            call += 1
            self.setUp()
            self.done(self.topics.save(ORDERS))
            path = self.write_log(ORDERS)
            self.files.crash_at_call(call)
            try:
                self.topics.remove(ORDERS)
            except BaseException:
                found = self.reopen_after_crash()
                self.assertEqual(bool(found), self.files.exists(path), f"call {call}")
            else:
                break
        self.assertGreater(call, 5)

    def test_failure_at_every_call(self) -> None:
        """A deletion that fails is undone for good; where that fails too, it says so."""
        call = 0
        while True:
            call += 1
            self.setUp()
            self.done(self.topics.save(ORDERS))
            path = self.write_log(ORDERS)
            self.files.fail_call(call)
            removing = self.topics.remove(ORDERS)
            if removing.called and not hasattr(removing.result, "value"):
                break
            error = self.failureResultOf(removing, StorageFailed).value
            self.assertNotIsInstance(error, DeletionUncertain)
            self.assertEqual(self.reopen_after_crash(), [ORDERS], f"call {call}")
            self.assertTrue(self.files.exists(path), f"call {call}")
        self.assertGreater(call, 5)

    def test_undo_fails(self) -> None:
        """When neither the deletion nor its undoing succeeds, nothing is promised of the topic."""
        self.done(self.topics.save(ORDERS))
        for call in (2, 3):
            self.files.fail_call(call, operation="sync_directory")
        self.failureResultOf(self.topics.remove(ORDERS), DeletionUncertain)

    def test_strangers(self) -> None:
        """Logs that belong to no topic are put aside, not taken for those of the next one of that name."""
        path = self.write_log(ORDERS)
        self.assertEqual(self.topics.read(self.directory), [])
        self.assertFalse(self.files.exists(path))
        self.assertEqual(self.files.content(ROOT / "damaged" / "orders" / "0" / "0.log"), b"records")
        self.flushLoggedErrors()

    def test_damaged_document(self) -> None:
        """A topic whose document is damaged is not silently missing: there is no start."""
        self.done(self.topics.save(ORDERS))
        self.files.flip_bit(ROOT / "topics" / "orders.json", 5)
        with self.assertRaises(StartupError) as caught:
            self.topics.read(self.directory)
        self.assertIn("topics/orders.json", str(caught.exception))
