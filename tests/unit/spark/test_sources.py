"""Tests for L{rustlog.spark.sources} and L{rustlog.spark.readers}: what a reader plans, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from attrs import evolve
from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThanOrEqual, Not
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.records import build
from rustlog.model import Record, TopicPartition
from rustlog.spark.errors import DataLost, TopicNotFound
from rustlog.spark.logs import NoSuchPartition
from rustlog.spark.narrowing import Narrowing
from rustlog.spark.options import ReadOptions, read_options
from rustlog.spark.planning import OffsetRange
from rustlog.spark.readers import NarrowingBatchReader, StreamReader
from rustlog.spark.sources import Source, TopicGone
from rustlog.spark.vocabulary import READ, READ_STREAM
from tests.unit.spark.brokers import FakeBroker

A, B, C = (TopicPartition("orders", index) for index in range(3))


def options(method: str = READ, **given: str) -> ReadOptions:
    if not {"subscribePattern", "assign"} & given.keys():
        given = {"subscribe": "orders", **given}
    return read_options({"kafka.bootstrap.servers": "127.0.0.1:1", **given}, method)


def filled(**topics: int) -> FakeBroker:
    """A broker whose partitions have 10, 20, 30, … records."""
    broker = FakeBroker(**topics)
    for topic, count in topics.items():
        for index in range(count):
            fill(broker, TopicPartition(topic, index), 10 * (index + 1))
    return broker


def fill(broker: FakeBroker, partition: TopicPartition, count: int) -> None:
    broker.append(partition, bytes(build([Record(b"x")] * count, now_ms=1).buffer))


class SourceCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = filled(orders=2)

    def source(self, wanted: ReadOptions) -> Source:
        return Source.open(wanted, self.broker.connect)  # type: ignore[arg-type]


class BatchTests(SourceCase):
    def test_everything(self) -> None:
        """Without more ado, all of a topic is read, one task for each partition."""
        self.assertEqual(
            self.source(options()).everything(), [OffsetRange(A, 0, 10), OffsetRange(B, 0, 20)]
        )

    def test_part(self) -> None:
        """Offsets say from where to where, for each partition."""
        wanted = options(
            startingOffsets='{"orders":{"0":3,"1":-2}}', endingOffsets='{"orders":{"0":-1,"1":5}}'
        )
        self.assertEqual(self.source(wanted).everything(), [OffsetRange(A, 3, 10), OffsetRange(B, 0, 5)])

    def test_pattern(self) -> None:
        """A pattern has to match the whole name."""
        self.broker = filled(orders=1, orders2=1, reorders=1)
        found = self.source(options(subscribePattern="orders.?")).partitions()
        self.assertEqual({each.topic for each in found}, {"orders", "orders2"})

    def test_unknown(self) -> None:
        """What is not there is an error that names what is."""
        misspelt = self.source(options(subscribe="order"))
        error: Exception = self.assertRaises(TopicNotFound, misspelt.partitions)
        self.assertIn("did you mean orders?", str(error))
        assigned = self.source(options(assign='{"orders":[0,7]}'))
        error = self.assertRaises(NoSuchPartition, assigned.partitions)
        self.assertIn("partition 7 of orders, which has 2", str(error))


class FilterTests(SourceCase):
    def everything(self, wanted: ReadOptions, *filters: object) -> list[object]:
        reader = NarrowingBatchReader(wanted, ("offset",))
        kept = list(reader.pushFilters(list(filters)))  # type: ignore[arg-type]
        self.assertEqual(kept, list(filters))
        return list(self.source(wanted).everything(reader._narrowing))

    def test_partition_and_offset(self) -> None:
        """What Spark would filter out is not read."""
        found = self.everything(
            options(),
            EqualTo(("partition",), 1),
            GreaterThan(("offset",), 4),
            LessThanOrEqual(("offset",), 9),
        )
        self.assertEqual(found, [OffsetRange(B, 5, 10)])

    def test_topic(self) -> None:
        """Topics likewise."""
        self.assertEqual(self.everything(options(), In(("topic",), ("a", "b"))), [])
        self.assertEqual(len(self.everything(options(), In(("topic",), ("orders", "b")))), 2)

    def test_time(self) -> None:
        """A time says where to begin: nothing before the first record that is not older is wanted."""
        self.broker.times = {A: {4: 1000, 7: 900, 8: 1000}, B: {}}
        since = datetime.fromtimestamp(1, UTC)
        found = self.everything(options(), GreaterThan(("timestamp",), since))
        self.assertEqual(found, [OffsetRange(A, 4, 10)])

    def test_others(self) -> None:
        """Other filters change nothing."""
        found = self.everything(
            options(),
            Not(EqualTo(("partition",), 1)),
            EqualTo(("value",), b"x"),
            EqualTo(("headers", "key"), "x"),
            EqualTo(("offset",), None),
        )
        self.assertEqual(len(found), 2)

    def test_offsets_by_partition(self) -> None:
        """A filter does not make options wrong that name all partitions."""
        wanted = options(startingOffsets='{"orders":{"0":3,"1":4}}')
        self.assertEqual(self.everything(wanted, EqualTo(("partition",), 1)), [OffsetRange(B, 4, 20)])

    def test_narrowing_twice(self) -> None:
        """Filters add up."""
        both = Narrowing().by("In", "partition", (1, 2)).by("EqualTo", "partition", 2)
        self.assertEqual(both.partitions, frozenset([2]))
        offsets = Narrowing().by("In", "offset", (7, 3))
        self.assertEqual(offsets, evolve(Narrowing(), from_offset=3, to_offset=8))


class StreamTests(SourceCase):
    def reader(self, now: Callable[[], float] = lambda: 0.0, **given: str) -> StreamReader:
        wanted = options(READ_STREAM, **given)
        reader = StreamReader(wanted, ("offset",), now)
        reader._source = self.source(wanted)
        return reader

    def test_beginning(self) -> None:
        """A stream begins at the end, or where it is told to."""
        self.assertEqual(self.reader().initialOffset(), {"orders": {"0": 10, "1": 20}})
        earliest = self.reader(startingOffsets="earliest")
        self.assertEqual(earliest.initialOffset(), {"orders": {"0": 0, "1": 0}})

    def test_limit(self) -> None:
        """A micro-batch takes what it may, from each partition its share."""
        reader = self.reader(maxOffsetsPerTrigger="6")
        limit = reader.getDefaultReadLimit()
        self.assertEqual(limit, ReadMaxRows(6))
        start = {"orders": {"0": 0, "1": 0}}
        self.assertEqual(reader.latestOffset(start, limit), {"orders": {"0": 2, "1": 4}})
        self.assertEqual(reader.latestOffset(start, ReadAllAvailable()), {"orders": {"0": 10, "1": 20}})

    def test_new_partition(self) -> None:
        """A partition that comes later is read from its beginning."""
        reader = self.reader()
        start = reader.initialOffset()
        self.broker.topics["orders"] = 3
        fill(self.broker, C, 5)
        end = reader.latestOffset(start, ReadAllAvailable())
        self.assertEqual(end, {"orders": {"0": 10, "1": 20, "2": 5}})
        (part,) = reader.partitions(start, end)
        self.assertEqual(part.value, OffsetRange(C, 0, 5))

    def test_available_now(self) -> None:
        """A query that is to end reads what there was when it began, in as many micro-batches as it takes."""
        reader = self.reader(maxOffsetsPerTrigger="20")
        reader.prepareForTriggerAvailableNow()
        fill(self.broker, A, 100)
        self.broker.topics["orders"] = 3
        fill(self.broker, C, 5)
        offset, seen = {"orders": {"0": 0, "1": 0}}, []
        while True:
            following = reader.latestOffset(offset, reader.getDefaultReadLimit())
            if following == offset:
                break
            seen.append(offset := following)
        self.assertEqual(len(seen), 2)
        self.assertEqual(offset, {"orders": {"0": 10, "1": 20}})

    def test_waits_for_more(self) -> None:
        """A micro-batch waits until there is enough, but not for ever."""
        clock = [0.0]
        reader = self.reader(lambda: clock[0], minOffsetsPerTrigger="5", maxTriggerDelay="60s")
        start = reader.initialOffset()
        fill(self.broker, A, 4)
        self.assertEqual(reader.latestOffset(start, ReadAllAvailable()), start)
        clock[0] = 60.0
        end = reader.latestOffset(start, ReadAllAvailable())
        self.assertEqual(end, {"orders": {"0": 14, "1": 20}})
        fill(self.broker, A, 5)
        clock[0] = 61.0
        self.assertEqual(reader.latestOffset(end, ReadAllAvailable()), {"orders": {"0": 19, "1": 20}})

    def test_reports(self) -> None:
        """How far one could go is told, for the progress of the query."""
        self.assertEqual(self.reader().reportLatestOffset(), {"orders": {"0": 10, "1": 20}})

    def test_topic_gone(self) -> None:
        """A topic that was deleted is an error, or nothing to read."""
        start = self.reader().initialOffset()
        self.broker.topics = {"others": 1}
        error = self.assertRaises(TopicGone, self.reader().latestOffset, start, ReadAllAvailable())
        self.assertIn("orders-0, orders-1 can not be read any more", str(error))
        lenient = self.reader(failOnDataLoss="false")
        self.assertEqual(lenient.latestOffset(start, ReadAllAvailable()), {})
        self.assertEqual(lenient.partitions(start, {}), [])

    def test_log_is_shorter(self) -> None:
        """A log that ends before where we are has lost something: an error, or gone on with from its end."""
        start = {"orders": {"0": 10, "1": 25}}
        self.assertRaises(DataLost, self.reader().latestOffset, start, ReadAllAvailable())
        lenient = self.reader(failOnDataLoss="false")
        end = lenient.latestOffset(start, ReadAllAvailable())
        self.assertEqual(end, {"orders": {"0": 10, "1": 20}})
        self.assertEqual(lenient.partitions(start, end), [])

    def test_new_partition_without_beginning(self) -> None:
        """A new partition whose first records are deleted already has lost something."""
        reader = self.reader()
        start = reader.initialOffset()
        self.broker.topics["orders"] = 3
        fill(self.broker, C, 5)
        self.broker.delete_before(C, 5)
        self.assertRaises(DataLost, reader.latestOffset, start, ReadAllAvailable())
