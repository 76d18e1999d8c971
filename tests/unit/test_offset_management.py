"""
Offset management as the RustLog protocol promises it: rules, tables and the four patterns of consumers,
from the bytes of a client to the disk, with each offset store and with restarts in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.broker import Broker
from rustlog.offsets.memory import MemoryOffsets
from rustlog.settings import BrokerConfig, TopicConfig
from rustlog.testing.environment import SimulatedEnvironment, memory_environment
from rustlog.wire.listener import Capacity, Listener
from rustlog.wire.rustlog.protocol import make_factory
from tests.unit.offsets.stores import FileStores, TopicStores, open_segments_log
from tests.unit.wire.harness import Client

ORDERS = {"topic": "orders", "partition": 0}
MAX_BYTES = 1_048_576


class Daemon:
    """A broker over C{segments} on a simulated disk; it can be killed and started again."""

    def __init__(self, offsets: str) -> None:
        self.environment: SimulatedEnvironment = memory_environment()
        self._offsets = offsets
        self.start()

    def start(self) -> None:
        """Open the stores and the door."""
        environment, config = self.environment, BrokerConfig()
        topics = TopicStores()
        offsets: Any
        if self._offsets == "topic":
            offsets = self.finish(topics.open(environment))
            self.log = topics.logs[environment]
        else:
            self.log = self.finish(open_segments_log(environment, "always"))
            offsets = (
                MemoryOffsets() if self._offsets == "memory" else self.finish(FileStores().open(environment))
            )
        broker = Broker(
            self.log, offsets, environment.clock, environment.wall,
            topic_defaults=TopicConfig(), config=config, default_partitions=1,
        )  # fmt: skip
        capacity = Capacity(config, environment.clock)
        listener = Listener("door", broker, config, capacity, environment.clock, environment.wall)
        self._client = Client(make_factory(listener))

    def kill(self) -> None:
        """Cut the power, and start again."""
        self.environment = self.environment.after_crash()
        self.start()

    def finish(self, result: Any) -> Any:
        outcomes: list[Any] = []
        result.addCallback(outcomes.append)
        self.environment.clock.pump([0.001] * 50)
        (outcome,) = outcomes
        return outcome

    def call(self, name: str, **fields: Any) -> Any:
        """The answer to a request."""
        self._client.send({name: fields})
        self.environment.clock.pump([0.001] * 5)
        (answer,) = self._client.received()
        return answer

    def remove_before(self, offset: int) -> None:
        """Let old records go, as retention does."""
        self.finish(self.log.delete_records(self.log.partition("orders", 0), offset))


class Consumer:
    """What a program that consumes has: fetch, commit, and what it did with the records."""

    def __init__(self, daemon: Daemon, group: str | None, partition: int = 0) -> None:
        self.daemon = daemon
        self.place = {"topic": "orders", "partition": partition}
        self.group = group
        self.processed: list[int] = []

    def fetch(self, offset: int, max_bytes: int = MAX_BYTES) -> Any:
        answer = self.daemon.call(
            "Fetch", **self.place, offset=offset, max_bytes=max_bytes, group_id=self.group
        )
        return answer.get("Fetch", answer)

    def commit(self, offset: int) -> Any:
        return self.daemon.call("OffsetCommit", **self.place, group_id=self.group, offset=offset)

    def committed(self) -> Any:
        answer = self.daemon.call("OffsetFetch", **self.place, group_id=self.group)
        return answer["OffsetFetch"]["offset"]

    def process(self, records: list[Any]) -> None:
        self.processed += [each["offset"] for each in records]


class OffsetManagementCase(SynchronousTestCase):
    """With offsets in a topic; see below for the others."""

    OFFSETS = "topic"

    def setUp(self) -> None:
        self.daemon = Daemon(self.OFFSETS)
        self.daemon.call("CreateTopic", topic="orders", partitions=3)

    def produce(self, count: int, partition: int = 0) -> None:
        records = [[number % 256] for number in range(count)]
        self.daemon.call("Produce", topic="orders", partition=partition, records=records)

    def consumer(self, group: str | None = "order-processor", partition: int = 0) -> Consumer:
        return Consumer(self.daemon, group, partition)


class RulesTests(OffsetManagementCase):
    """What a commit is."""

    def test_nothing_committed(self) -> None:
        """A group that has committed nothing is at null; it begins wherever it asks to."""
        self.produce(10)
        consumer = self.consumer("new-group")
        self.assertIsNone(consumer.committed())
        self.assertEqual([each["offset"] for each in consumer.fetch(0)["records"]], list(range(10)))
        self.assertEqual([each["offset"] for each in consumer.fetch(7)["records"]], [7, 8, 9])

    def test_higher_of_committed_and_requested(self) -> None:
        """The table: where a fetch begins, by what was requested and what was committed."""
        self.produce(300)
        for requested, committed, used in ((100, None, 100), (100, 150, 150), (200, 150, 200)):
            consumer = self.consumer(f"group at {committed}")
            if committed is not None:
                self.assertEqual(consumer.commit(committed), {"OffsetCommit": {"success": True}})
            self.assertEqual(consumer.fetch(requested)["records"][0]["offset"], used)

    def test_fetching_does_not_commit(self) -> None:
        """Nothing is committed unless the consumer does so."""
        self.produce(10)
        consumer = self.consumer()
        consumer.fetch(0)
        self.assertIsNone(consumer.committed())
        self.assertEqual(len(consumer.fetch(0)["records"]), 10)

    def test_exclusive(self) -> None:
        """A committed offset is the next one to be read: what was processed is not read again."""
        self.produce(120)
        consumer = self.consumer()
        found = consumer.fetch(100, max_bytes=5)
        self.assertEqual([each["offset"] for each in found["records"]], [100, 101, 102, 103, 104])
        self.assertEqual(found["next_offset"], 105)
        consumer.commit(105)
        self.assertEqual(self.consumer().fetch(0)["records"][0]["offset"], 105)

    def test_overwrite(self) -> None:
        """The last commit counts, be it higher or lower, the same, or beyond the end of the log."""
        self.produce(10)
        consumer = self.consumer()
        for offset in (5, 9, 2, 2, 5_000, 0):
            self.assertEqual(consumer.commit(offset), {"OffsetCommit": {"success": True}})
            self.assertEqual(consumer.committed(), offset)

    def test_beyond_the_end(self) -> None:
        """A group ahead of the log gets nothing, and hears where the log ends."""
        self.produce(10)
        consumer = self.consumer()
        consumer.commit(5_000)
        self.assertEqual(consumer.fetch(0), {"records": [], "next_offset": 10})

    def test_unknown_partition(self) -> None:
        """A commit to what does not exist is not made."""
        for topic, partition in (("orders", 7), ("payments", 0)):
            place = {"topic": topic, "partition": partition, "group_id": "g"}
            answer = self.daemon.call("OffsetCommit", **place, offset=1)
            self.assertEqual(answer, {"OffsetCommit": {"success": False}})
            self.assertEqual(self.daemon.call("OffsetFetch", **place), {"OffsetFetch": {"offset": None}})


class UseCaseTests(OffsetManagementCase):
    """Groups and partitions."""

    def test_restart_of_a_consumer(self) -> None:
        """Another consumer of the group goes on where the first has committed, whatever it asks for."""
        self.produce(200)
        first = self.consumer("processors")
        first.fetch(100)
        first.commit(150)
        self.assertEqual(self.consumer("processors").fetch(0)["records"][0]["offset"], 150)

    def test_partitions_are_independent(self) -> None:
        """One group has a place of its own in each partition."""
        for partition, offset in enumerate((100, 200, 300)):
            self.consumer("processors", partition).commit(offset)
        found = [self.consumer("processors", partition).committed() for partition in range(3)]
        self.assertEqual(found, [100, 200, 300])

    def test_groups_are_independent(self) -> None:
        """Groups read the same partition at rates of their own."""
        self.produce(1100)
        places = {"processors": 1000, "analytics": 500, "backup": 0}
        for group, offset in places.items():
            self.consumer(group).commit(offset)
        for group, offset in places.items():
            self.assertEqual(self.consumer(group).committed(), offset)
            self.assertEqual(self.consumer(group).fetch(0)["records"][0]["offset"], offset)


class PatternTests(OffsetManagementCase):
    """The four ways to consume, as small programs."""

    COUNT = 23

    def setUp(self) -> None:
        super().setUp()
        self.produce(self.COUNT)

    def at_least_once(self, consumer: Consumer, batches_max: int, crash_before_commit: bool) -> None:
        """Fetch, process, then commit; until there is no more, or a crash."""
        offset = 0
        for number in range(batches_max):
            found = consumer.fetch(offset, max_bytes=5)
            if not found["records"]:
                return
            consumer.process(found["records"])
            if crash_before_commit and number == batches_max - 1:
                return
            consumer.commit(found["next_offset"])
            offset = found["next_offset"]

    def test_at_least_once(self) -> None:
        """Pattern 1: a crash before the commit repeats records, one after it does not; none is missed."""
        before, after, last = self.consumer(), self.consumer(), self.consumer()
        self.at_least_once(before, 2, crash_before_commit=True)
        self.at_least_once(after, 2, crash_before_commit=False)
        self.at_least_once(last, 100, crash_before_commit=False)
        self.assertEqual(before.processed, list(range(10)))
        self.assertEqual(after.processed, list(range(5, 15)), "the second batch was not committed")
        self.assertEqual(last.processed, list(range(15, self.COUNT)), "the fourth one was")

    def test_batches(self) -> None:
        """Pattern 2: many records, one commit; after a crash the whole batch is repeated."""
        crashed, finished = self.consumer(), self.consumer()
        for consumer, commits in ((crashed, False), (finished, True)):
            batch: list[Any] = []
            offset = 0
            while len(batch) < 12:
                found = consumer.fetch(offset, max_bytes=5)
                batch += found["records"]
                offset = found["next_offset"]
            consumer.process(batch)
            if commits:
                consumer.commit(offset)
        self.assertEqual(crashed.processed, finished.processed)
        self.assertEqual(self.consumer().committed(), 15)
        self.assertEqual(self.consumer().fetch(0)["records"][0]["offset"], 15)

    def test_no_group(self) -> None:
        """Pattern 3: who names no group reads what he asks for, whatever groups have committed."""
        self.consumer().commit(20)
        for _ in range(2):
            reader = self.consumer(None)
            reader.process(reader.fetch(3)["records"])
            self.assertEqual(reader.processed, list(range(3, self.COUNT)))
        self.assertEqual(self.consumer().committed(), 20)

    def test_offsets_elsewhere(self) -> None:
        """Pattern 4: an application that keeps offset and results together processes each record once."""
        database: dict[str, Any] = {"offset": 0, "results": []}
        crashes: Iterator[bool] = iter((True, False, True, True, False, False, False, False, False, False))
        while database["offset"] < self.COUNT:
            reader = self.consumer(None)
            found = reader.fetch(database["offset"], max_bytes=5)
            reader.process(found["records"])
            transaction = {"offset": found["next_offset"], "results": database["results"] + reader.processed}
            if not next(crashes):
                database = transaction
        self.assertEqual(database["results"], list(range(self.COUNT)))
        self.assertIsNone(self.consumer("any").committed())


class StaleCommitTests(OffsetManagementCase):
    """Retention has removed what a group wants to read next."""

    def setUp(self) -> None:
        super().setUp()
        self.produce(110)
        self.stale = self.consumer("old-group")
        self.stale.commit(50)
        self.daemon.remove_before(100)

    def assert_out_of_range(self, answer: Any, offset: int) -> None:
        message = f"offset out of range: {offset} is not within 100..110"
        self.assertEqual(answer, {"Error": {"message": message}})

    def test_requested(self) -> None:
        """Without a group, too, an offset before the start of the log is an error."""
        self.assert_out_of_range(self.consumer(None).fetch(0), 0)

    def test_committed(self) -> None:
        """The error is told, again and again: nothing is reset by itself."""
        for _ in range(2):
            self.assert_out_of_range(self.stale.fetch(0), 50)
            self.assertEqual(self.stale.committed(), 50)

    def test_requested_ahead(self) -> None:
        """Who asks for more than he has committed is served."""
        self.assertEqual(self.stale.fetch(100)["records"][0]["offset"], 100)

    def test_client_resets(self) -> None:
        """The client decides where to go on, and commits that."""
        self.stale.commit(100)
        self.assertEqual([each["offset"] for each in self.stale.fetch(0)["records"]], list(range(100, 110)))
        self.stale.commit(110)
        self.assertEqual(self.stale.fetch(0), {"records": [], "next_offset": 110})

    def test_after_a_restart(self) -> None:
        """A restart changes nothing about that, whether the commit is remembered or not."""
        self.daemon.kill()
        offset = 50 if self.OFFSETS != "memory" else 0
        self.assert_out_of_range(self.stale.fetch(0), offset)


class RestartTests(OffsetManagementCase):
    """The power fails."""

    def test_last_commit_is_there(self) -> None:
        """A group is where its last commit said, whatever the value, in every partition."""
        self.produce(20)
        for offset in (5, 19, 7):
            self.consumer().commit(offset)
        self.consumer(partition=1).commit(3)
        self.consumer("a:b:c").commit(11)
        self.daemon.kill()
        self.assertEqual(self.consumer().committed(), 7)
        self.assertEqual(self.consumer(partition=1).committed(), 3)
        self.assertEqual(self.consumer("a:b:c").committed(), 11)
        self.assertEqual(self.consumer().fetch(0)["records"][0]["offset"], 7)


class FileRulesTests(RulesTests):
    OFFSETS = "file"


class FileUseCaseTests(UseCaseTests):
    OFFSETS = "file"


class FilePatternTests(PatternTests):
    OFFSETS = "file"


class FileStaleCommitTests(StaleCommitTests):
    OFFSETS = "file"


class FileRestartTests(RestartTests):
    OFFSETS = "file"


class MemoryRulesTests(RulesTests):
    OFFSETS = "memory"


class MemoryUseCaseTests(UseCaseTests):
    OFFSETS = "memory"


class MemoryPatternTests(PatternTests):
    OFFSETS = "memory"


class MemoryStaleCommitTests(StaleCommitTests):
    OFFSETS = "memory"
