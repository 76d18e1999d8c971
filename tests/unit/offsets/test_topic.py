"""Tests for L{rustlog.offsets.topic}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import succeed
from twisted.logger import formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import PartitionFenced, StartupError
from rustlog.log import records
from rustlog.log.batch import RecordBatch, split_batches
from rustlog.model import (
    CONSUMER_OFFSETS,
    Appended,
    Committed,
    Isolation,
    Record,
    TopicPartition,
)
from rustlog.offsets import journaled, topic
from rustlog.results import deferred
from rustlog.testing.contracts import OffsetStoreContract
from rustlog.testing.environment import memory_environment
from tests.unit.offsets.stores import (
    DATA_DIR,
    TopicStores,
    open_late_log,
    open_memory_log,
    open_plain_log,
)

ORDERS_0 = TopicPartition("orders", 0)


class TopicOffsetsContractTests(OffsetStoreContract, SynchronousTestCase):
    """Over the C{segments} store, it does what every offset store must do."""

    def setUp(self) -> None:
        self.stores = TopicStores()

    def open_store(self, environment: Any) -> Any:
        return self.stores.open(environment)


class LateLogContractTests(TopicOffsetsContractTests):
    """The same over a log store whose answers are late and overtake each other."""

    def setUp(self) -> None:
        self.stores = TopicStores(open_late_log)


class MemoryLogContractTests(TopicOffsetsContractTests):
    """The same over a log store that answers at once."""

    def setUp(self) -> None:
        self.stores = TopicStores(open_memory_log)


class PlainLogContractTests(TopicOffsetsContractTests):
    """The same over a log store that holds neither headers nor null values."""

    headers = False

    def setUp(self) -> None:
        self.stores = TopicStores(open_plain_log)


class TopicOffsetsTestCase(SynchronousTestCase):
    """A log store, and offsets in it."""

    def setUp(self) -> None:
        self.environment = memory_environment()
        self.stores = TopicStores()
        self.offsets: Any = None

    def finish(self, result: Any) -> Any:
        """The value of an answer."""
        outcomes: list[Any] = []
        deferred(result).addBoth(outcomes.append)
        self.environment.clock.pump([0.001] * 200)
        (outcome,) = outcomes
        if isinstance(outcome, Failure):
            outcome.raiseException()
        return outcome

    def open(self) -> None:
        """Open the offset store, and the log store first if need be."""
        self.offsets = self.finish(self.stores.open(self.environment))

    def reopen(self) -> None:
        """Close both, and open them again."""
        self.finish(self.offsets.close())
        self.open()

    def open_log(self) -> None:
        """Open the log store alone."""
        log = self.finish(self.stores.open_log(self.environment, "always"))
        self.stores.logs[self.environment] = log

    @property
    def log(self) -> Any:
        return self.stores.logs[self.environment]

    def commit(self, group: str, offset: int, generation: int | None = None) -> None:
        committed = {ORDERS_0: Committed(offset, commit_time=17)}
        self.finish(self.offsets.commit(group, committed, generation))

    def produce(self, *content: Record, partition: int = 0) -> None:
        """Put records into the topic, as others would."""
        batch = records.build(content, now_ms=1)
        (answer,) = self.finish(self.log.append([(self.log.partition(CONSUMER_OFFSETS, partition), batch)]))
        self.assertIsInstance(answer, Appended)

    def written(self) -> list[RecordBatch]:
        """The batches in the topic."""
        partition = self.log.partition(CONSUMER_OFFSETS, 0)
        wants = [(partition, partition.log_start_offset, 10**6)]
        (answer,) = self.finish(self.log.read(wants, 10**6, Isolation.READ_UNCOMMITTED))
        content = b"".join(each.buffer() for each in answer.slices)
        answer.release()
        return list(split_batches(content))


class TopicTests(TopicOffsetsTestCase):
    """The topic itself."""

    def test_topic(self) -> None:
        """It is internal, has one partition, is not subject to retention, and frees space in small pieces."""
        self.open()
        info = self.log.catalog.get(CONSUMER_OFFSETS)
        self.assertEqual((info.internal, info.partitions), (True, 1))
        self.assertEqual(info.config["retention.ms"], "-1")
        self.assertEqual(info.config["retention.bytes"], "-1")
        self.assertLess(int(info.config["segment.bytes"]), journaled.SNAPSHOT_BYTES_MIN)

    def test_settings_are_restored(self) -> None:
        """A topic that has other settings gets those that it needs."""
        self.open_log()
        config = {"retention.ms": "1000", "index.interval.bytes": "100"}
        self.finish(self.log.catalog.create(CONSUMER_OFFSETS, 1, config, internal=True))
        self.open()
        info = self.log.catalog.get(CONSUMER_OFFSETS)
        self.assertEqual(info.config, {**config, **topic.TOPIC_CONFIG})

    def test_created_meanwhile(self) -> None:
        """Another broker may have created it just now."""
        self.open()
        catalog = self.log.catalog
        answers = [None, catalog.get(CONSUMER_OFFSETS)]
        self.patch(catalog, "refresh", lambda name: succeed(answers.pop(0)))
        settings = topic.TopicOffsetsSettings()
        self.finish(topic.open_store(settings, self.environment, self.log))
        self.assertEqual(answers, [])

    def test_one_commit_is_one_batch(self) -> None:
        """All partitions of a commit, and a new generation, are written together."""
        self.open()
        offsets = {TopicPartition("orders", each): Committed(each) for each in range(3)}
        self.finish(self.offsets.commit("g", offsets, 4))
        self.finish(self.offsets.commit("g", offsets, 4))
        keys = [[each.key for each in records.decode(batch)] for batch in self.written()]
        committed = [b"g:orders:0", b"g:orders:1", b"g:orders:2"]
        self.assertEqual(keys, [[*committed, b"g:generation"], committed])

    def test_closing_leaves_the_log_open(self) -> None:
        """The log store is someone else's."""
        self.open()
        self.finish(self.offsets.close())
        self.produce(Record(b"1", b"g:orders:0"))

    def test_fenced(self) -> None:
        """When the log takes nothing more, nor do the offsets; what was acknowledged is still known."""
        self.open()
        self.commit("g", 5)
        self.environment.files.fail_call(1, operation="sync")
        for _ in range(2):
            with self.assertRaises(PartitionFenced):
                self.commit("g", 6)
        self.assertEqual(self.finish(self.offsets.fetch("g"))[ORDERS_0].offset, 5)
        with self.assertRaises(PartitionFenced):
            self.finish(self.offsets.delete("nobody"))


class ForeignTopicTests(TopicOffsetsTestCase):
    """The topic may have been written by others."""

    def setUp(self) -> None:
        super().setUp()
        self.logged: list[str] = []
        observer = lambda event: self.logged.append(formatEvent(event))  # noqa: E731
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        self.open_log()
        self.finish(self.log.catalog.create(CONSUMER_OFFSETS, 3, {}))

    def test_strange_records(self) -> None:
        """What is not understood is passed over, with one line in the log."""
        self.produce(Record(b"1", b"g:orders:0"))
        self.produce(Record(b"what", b"ever"), Record(b"is", b"this"))
        self.produce(Record(b"7", b"g:orders:1"), Record(b"not", b"an:offset:0"))
        self.open()
        found = self.finish(self.offsets.fetch("g"))
        self.assertEqual({name.partition: each.offset for name, each in found.items()}, {0: 1, 1: 7})
        complaints = [each for each in self.logged if "passed over" in each]
        expected = (
            "passed over 3 records that say nothing of offsets, the first in __consumer_offsets-0 at offset 1"
        )
        self.assertEqual(complaints, [expected])

    def test_several_partitions(self) -> None:
        """Groups that were spread over partitions move to the first, where later commits win."""
        self.produce(Record(b"1", b"first:orders:0"), partition=0)
        self.produce(Record(b"2", b"second:orders:0"), partition=1)
        self.produce(Record(b"3", b"third:orders:0"), partition=2)
        self.open()
        self.commit("third", 9)
        self.reopen()
        found = [
            self.finish(self.offsets.fetch(each))[ORDERS_0].offset
            for each in self.finish(self.offsets.groups())
        ]
        self.assertEqual(found, [1, 2, 9])
        for index in (1, 2):
            partition = self.log.partition(CONSUMER_OFFSETS, index)
            self.assertEqual((partition.log_start_offset, partition.high_watermark), (1, 1))

    def test_damaged(self) -> None:
        """A log that can not be read is a reason not to start, in one sentence."""
        self.produce(Record(b"1", b"g:orders:0"))
        self.finish(self.log.close())
        path = DATA_DIR / "logs" / CONSUMER_OFFSETS / "0" / "0.log"
        self.environment.files.flip_bit(path, 70)
        self.stores.logs.pop(self.environment)
        with self.assertRaises(StartupError) as caught:
            self.open()
        self.assertIn(
            "cannot read the offsets in the topic __consumer_offsets: damaged", str(caught.exception)
        )
