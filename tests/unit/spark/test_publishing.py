"""Tests for L{rustlog.spark.publishing} and L{rustlog.spark.staging}: every row once, whatever dies."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.records import build
from rustlog.model import Record, TopicPartition
from rustlog.spark import publishing, staging
from rustlog.spark.publishing import OtherQuery, OutcomeUnknown, Publisher
from rustlog.spark.staging import StagedBatch, Staging, StagingLost, State
from tests.unit.spark.brokers import FakeBroker, FakeClient

APPLICATION = "orders/1"
BOTH = {publishing.__file__, staging.__file__}


class Crash(BaseException):
    """The driver dies."""


class Death:
    """
    Kills whoever is about to execute the n-th line of some files; 0 for nobody.

    @ivar lines: how many have been executed.
    """

    def __init__(self, at: int, files: set[str]) -> None:
        self.at = at
        self.lines = 0
        self._files = files
        self._lock = threading.Lock()

    def trace(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line":
            with self._lock:
                self.lines += 1
                is_now = self.lines == self.at
            if is_now:
                raise Crash
        return self.trace


@contextmanager
def death(at: int = 0, files: set[str] = BOTH) -> Iterator[Death]:
    """Within the block, somebody may die."""
    dying = Death(at, files)
    before = sys.gettrace()
    sys.settrace(dying.trace)
    threading.settrace(dying.trace)
    try:
        yield dying
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]


def encoded(*values: bytes) -> bytes:
    """One record batch."""
    return bytes(build([Record(each) for each in values], now_ms=1).buffer)


ROWS = {0: [b"a", b"b", b"c"], 1: [b"d", b"e"]}
"""What a batch has, by partition."""


class PublishingTests(SynchronousTestCase):
    def setUp(self) -> None:
        # Only a machine that loses its power tells the difference, and there are thousands of them here.
        self.patch(os, "fsync", lambda handle: None)
        self.broker = FakeBroker(orders=2)
        self.location = self.mktemp()

    def staging(self) -> Staging:
        return Staging(self.location, APPLICATION)

    def publisher(self, connect: Callable[[], FakeClient] | None = None) -> Publisher:
        return Publisher(self.staging(), connect or self.broker.connect, APPLICATION)  # type: ignore[arg-type]

    def stage(self, batch: int, rows: dict[int, list[bytes]], size: int = 1) -> list[StagedBatch]:
        """Two tasks write rows, in batches of so many."""
        staged = []
        for task, (partition, values) in enumerate(rows.items()):
            with self.staging().new_file(str(batch), f"{task}") as file:
                for index in range(0, len(values), size):
                    some = values[index : index + size]
                    file.add(TopicPartition("orders", partition), encoded(*some), len(some))
            staged += file.batches
        return staged

    def replay(self, batch: int) -> list[StagedBatch]:
        """The same rows again, but cut in another way, and the other way round."""
        return self.stage(batch, {1: [b"e", b"d"], 0: [b"c", b"a", b"b"]}, size=2)

    def test_publishes(self) -> None:
        """Staged rows are appended in order, each partition by itself, and nothing is left of them."""
        self.assertTrue(self.publisher().publish(0, self.stage(0, ROWS), "q"))
        self.assertEqual(self.broker.values("orders"), ROWS)
        self.assertEqual(self.staging().state(), State(0, "q"))
        self.assertIsNone(self.staging().plan("0"))

    def test_again(self) -> None:
        """A batch that was published is not published again."""
        self.publisher().publish(0, self.stage(0, ROWS), "q")
        self.assertFalse(self.publisher().publish(0, self.replay(0), "q"))
        self.assertEqual(self.broker.values("orders"), ROWS)

    def test_next(self) -> None:
        """The next batch comes behind it."""
        self.publisher().publish(0, self.stage(0, ROWS), "q")
        self.publisher().publish(1, self.stage(1, {0: [b"f"]}), "q")
        self.assertEqual(self.broker.values("orders"), {0: [b"a", b"b", b"c", b"f"], 1: [b"d", b"e"]})

    def test_nothing(self) -> None:
        """A batch without rows is done, too."""
        self.assertTrue(self.publisher().publish(3, [], "q"))
        self.assertEqual(self.staging().state(), State(3, "q"))

    def test_death_at_every_line(self) -> None:
        """Whatever line the driver dies at, replaying the batch leaves every row exactly once."""
        with death() as counted:
            self.publisher().publish(0, self.stage(0, ROWS), "q")
        self.assertGreater(counted.lines, 150)
        for line in range(1, counted.lines + 1):
            self.setUp()
            with death(line) as dying:
                self.assertRaises(Crash, lambda: self.publisher().publish(0, self.stage(0, ROWS), "q"))
            self.assertGreaterEqual(dying.lines, line)
            self.check_repaired(line)

    def check_repaired(self, line: int) -> None:
        self.publisher().publish(0, self.replay(0), "q")
        found = {index: sorted(values) for index, values in self.broker.values("orders").items()}
        self.assertEqual(found, ROWS, f"after death at line {line}")
        self.publisher().publish(1, self.stage(1, {1: [b"z"]}), "q")
        self.assertEqual(self.broker.values("orders")[1][-1], b"z")

    def test_death_twice(self) -> None:
        """The driver that repairs may die as well, at every line, and the next one repairs it."""
        with death() as counted:
            self.publisher().publish(0, self.stage(0, ROWS), "q")
        for line in range(counted.lines // 3, counted.lines, 37):
            second = 0
            while second < 2 * counted.lines:
                second += 23
                self.setUp()
                with death(line):
                    self.assertRaises(Crash, lambda: self.publisher().publish(0, self.stage(0, ROWS), "q"))
                with death(second):
                    try:
                        self.publisher().publish(0, self.replay(0), "q")
                    except Crash:
                        pass
                    else:
                        break
                self.check_repaired(line)

    def test_late_request(self) -> None:
        """A request of a dead driver that arrives whenever it likes does no harm."""
        for late in range(5):
            for arrives in range(5):
                self.setUp()
                self.check_late(late, arrives)

    def check_late(self, late: int, arrives: int) -> None:
        held: list[tuple[TopicPartition, bytes]] = []

        class Dying(FakeClient):
            def produce(self, partition: TopicPartition, data: bytes, *, acks: int = -1) -> int:
                sent.append(data)
                if len(sent) == late + 1:
                    held.append((partition, data))
                    raise Crash
                return super().produce(partition, data)

        class Repairing(FakeClient):
            def produce(self, partition: TopicPartition, data: bytes, *, acks: int = -1) -> int:
                deliver(len(sent) == arrives)
                sent.append(data)
                return super().produce(partition, data)

        def deliver(now: bool) -> None:
            while now and held:
                self.broker.append(*held.pop())

        sent: list[bytes] = []
        publisher = self.publisher(lambda: Dying(self.broker))
        self.assertRaises(Crash, publisher.publish, 0, self.stage(0, ROWS), "q")
        sent.clear()
        self.publisher(lambda: Repairing(self.broker)).publish(0, self.replay(0), "q")
        deliver(True)
        self.assertEqual(self.broker.values("orders"), ROWS)

    def test_many_batches(self) -> None:
        """More batches than a broker remembers of a producer are gone on with in the right place."""
        rows = {0: [b"%d" % index for index in range(40)]}

        class Dying(FakeClient):
            def produce(self, partition: TopicPartition, data: bytes, *, acks: int = -1) -> int:
                if self.broker.end(partition) == 20:
                    raise Crash
                return super().produce(partition, data)

        publisher = self.publisher(lambda: Dying(self.broker))
        self.assertRaises(Crash, publisher.publish, 0, self.stage(0, rows), "q")
        self.broker.append(TopicPartition("orders", 0), encoded(b"somebody else's"))
        self.publisher().publish(0, self.stage(0, {0: rows[0][::-1]}), "q")
        self.assertEqual(
            self.broker.values("orders")[0], [*rows[0][:20], b"somebody else's", *rows[0][20:]]
        )

    def test_two_at_once(self) -> None:
        """Two drivers with the same batch carry out one plan, not two."""
        first, second = self.stage(0, ROWS), self.replay(0)
        other = self.publisher()

        class Overtaken(FakeClient):
            def produce(self, partition: TopicPartition, data: bytes, *, acks: int = -1) -> int:
                if not overtaken:
                    overtaken.append(True)
                    other.append("0", second)
                return super().produce(partition, data)

        overtaken: list[bool] = []
        self.publisher(lambda: Overtaken(self.broker)).publish(0, first, "q")
        self.assertEqual(self.broker.values("orders"), ROWS)

    def test_other_query(self) -> None:
        """An application id with a new checkpoint is an error, not a silent loss of its first batches."""
        self.publisher().publish(5, self.stage(5, ROWS), "q")
        error = self.assertRaises(OtherQuery, self.publisher().publish, 0, self.stage(0, ROWS), "r")
        self.assertIn("another applicationId", str(error))

    def test_log_was_cut(self) -> None:
        """When the log has lost what would tell how far a plan was carried out, that is said, not guessed."""
        with death() as counted:
            self.publisher().publish(0, self.stage(0, ROWS), "q")
        self.setUp()
        with death(counted.lines // 2):
            self.assertRaises(Crash, lambda: self.publisher().publish(0, self.stage(0, ROWS), "q"))
        self.assertIsNotNone(self.staging().plan("0"))
        for index in range(2):
            partition = TopicPartition("orders", index)
            for _ in range(5):
                self.broker.append(partition, encoded(b"somebody else's"))
            self.broker.delete_before(partition, self.broker.end(partition))
        error = self.assertRaises(OutcomeUnknown, self.publisher().publish, 0, self.replay(0), "q")
        self.assertIn("plan.json", str(error))

    def test_files_not_shared(self) -> None:
        """Files that the driver does not see are an error, and leave no plan that nobody could carry out."""
        staged = self.stage(0, ROWS)
        self.staging().discard("0", {each.file for each in staged})
        error = self.assertRaises(StagingLost, self.publisher().publish, 0, staged, "q")
        self.assertIn("stagingLocation", str(error))
        self.publisher().publish(0, self.replay(0), "q")
        self.assertEqual(sorted(self.broker.values("orders")[0]), ROWS[0])

    def test_abort_keeps_what_is_planned(self) -> None:
        """What may have been published in part is not thrown away by an abort."""
        staged = self.stage(0, ROWS)
        refusing = self.publisher(lambda: Refusing(self.broker))
        self.assertRaises(Crash, refusing.publish, 0, staged, "q")
        self.staging().discard("0", {each.file for each in staged})
        self.publisher().publish(0, self.replay(0), "q")
        self.assertEqual(self.broker.values("orders"), ROWS)


class Refusing(FakeClient):
    """Appends nothing."""

    def produce(self, partition: TopicPartition, data: bytes, *, acks: int = -1) -> int:
        raise Crash
