"""Tests for L{rustlog.broker}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, fail
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rustlog.broker import Broker
from rustlog.errors import (
    Closed,
    InvalidGroup,
    InvalidPartitionCount,
    InvalidRecord,
    InvalidSetting,
    InvalidTopicName,
    OffsetOutOfRange,
    OutOfOrderSequence,
    PartitionNotFound,
    RecordTooLarge,
    TopicExists,
    TopicIsInternal,
    TopicNotFound,
)
from rustlog.judging import GROUP_BYTES_MAX, PARTITIONS_MAX
from rustlog.log import records
from rustlog.log.batch import (
    CONTROL_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    RecordBatch,
    build_batch,
    split_batches,
)
from rustlog.log.topics import NO_ID
from rustlog.model import (
    MAX_OFFSET,
    Appended,
    Committed,
    Fetched,
    FetchWant,
    FoundOffset,
    OffsetSpec,
    Record,
    RequestContext,
    TopicPartition,
)
from rustlog.offsets.memory import MemoryOffsets
from rustlog.results import deferred
from rustlog.settings import BrokerConfig, TopicConfig
from rustlog.storage import memorylog
from rustlog.storage.memory import MemorySettings, MemoryStore
from rustlog.testing.delayed import DelayedLogStore, DelayedOffsetStore
from rustlog.testing.environment import memory_environment

CONTEXT = RequestContext(protocol="rustlog", listener="rustlog", client="127.0.0.1:5")
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
PLENTY = 1_000_000
DEFAULT_PARTITIONS = 2


class LeasedSlice(memorylog.MemorySlice):
    """A slice that is missed until it is released, exactly once."""

    held: dict[int, LeasedSlice] = {}

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.held[id(self)] = self

    def release(self) -> None:
        del self.held[id(self)]


class BrokerTestCase(SynchronousTestCase):
    """A broker over memory stores."""

    late_answers = False

    def setUp(self) -> None:
        self.environment = memory_environment()
        clock, random = self.environment.clock, self.environment.random
        topic_defaults = TopicConfig(max_message_bytes=1000)
        self.store: Any = MemoryStore(MemorySettings(topic_defaults), self.environment)
        self.offsets: Any = MemoryOffsets()
        if self.late_answers:
            self.store = DelayedLogStore(self.store, clock, random)
            self.offsets = DelayedOffsetStore(self.offsets, clock, random)
        self.broker = Broker(
            self.store,
            self.offsets,
            clock,
            self.environment.wall,
            topic_defaults=topic_defaults,
            config=BrokerConfig(fetch_max_wait_ms=20_000),
            default_partitions=DEFAULT_PARTITIONS,
        )
        self.patch(memorylog, "MemorySlice", LeasedSlice)
        self.patch(LeasedSlice, "held", {})

    def tearDown(self) -> None:
        self.environment.clock.advance(1)
        self.assertEqual(LeasedSlice.held, {}, "a slice was not released")
        self.assertEqual(self.environment.clock.getDelayedCalls(), [], "a timer is left")

    def finish(self, result: Any) -> Any:
        """The value of an answer, or its error."""
        outcomes: list[Any] = []
        deferred(result).addBoth(outcomes.append)
        for _ in range(100):
            if not outcomes:
                self.environment.clock.advance(0.01)
        if isinstance(outcomes[0], Failure):
            outcomes[0].raiseException()
        return outcomes[0]

    def assert_fails(self, error: type[Exception], result: Any) -> Any:
        """The error that an answer must be."""
        with self.assertRaises(error) as caught:
            self.finish(result)
        return caught.exception

    def create(self, name: str = "orders", partitions: int | None = None, **config: object) -> Any:
        """Make a topic."""
        named = {key.replace("_", "."): value for key, value in config.items()}
        return self.finish(self.broker.create_topic(CONTEXT, name, partitions, named))

    def batch(self, *values: bytes, **how: Any) -> RecordBatch:
        """A batch of records with a timestamp of 1."""
        return records.build([Record(each, timestamp=1) for each in values], now_ms=0, **how)

    def produce(self, *entries: tuple[TopicPartition, RecordBatch]) -> Any:
        """What becomes of batches."""
        return self.finish(self.broker.produce(CONTEXT, list(entries)))

    def send(self, *values: bytes, to: TopicPartition = ORDERS_0) -> None:
        """Append a batch, which must be accepted."""
        (answer,) = self.produce((to, self.batch(*values)))
        self.assertIsInstance(answer, Appended)

    def begin_fetch(self, *wants: FetchWant, **how: Any) -> Any:
        """Fetch, not waiting for the answer."""
        how.setdefault("max_bytes", PLENTY)
        return self.broker.fetch(CONTEXT, list(wants), **how)

    def fetch(self, *wants: FetchWant, **how: Any) -> Any:
        """What a fetch finds: errors, and instead of slices the values."""
        return self.take(self.finish(self.begin_fetch(*wants, **how)))

    def take(self, answers: list[Any]) -> list[Any]:
        """Instead of slices, values; the slices are given back."""
        return [self.values(each) if isinstance(each, Fetched) else each for each in answers]

    def values(self, fetched: Fetched) -> list[bytes | None]:
        """The values in what was found, which is given back."""
        batches = [batch for each in fetched.slices for batch in split_batches(bytes(each.buffer()))]
        fetched.release()
        return [record.value for batch in batches for record in records.decode(batch)]


def want(name: TopicPartition = ORDERS_0, offset: int = 0, max_bytes: int = PLENTY) -> FetchWant:
    """What to fetch."""
    return FetchWant(name.topic, name.partition, offset, max_bytes)


class TopicTests(BrokerTestCase):
    """Topics through the broker."""

    def test_create(self) -> None:
        """A topic has what was asked for; its settings are kept in one form."""
        info = self.create("orders", 5, retention_ms=1000, segment_bytes="2000")
        self.assertEqual((info.name, info.partitions), ("orders", 5))
        self.assertEqual(dict(info.config), {"retention.ms": "1000", "segment.bytes": "2000"})
        self.assertEqual(self.broker.topic(CONTEXT, "orders"), info)
        self.assertEqual(self.broker.topic_by_id(CONTEXT, info.id), info)
        self.assertEqual(self.broker.topics(CONTEXT), (info,))

    def test_default_partitions(self) -> None:
        """Who does not say how many partitions gets the broker's default."""
        self.assertEqual(self.create().partitions, DEFAULT_PARTITIONS)

    def test_create_existing(self) -> None:
        """A topic can not be created twice."""
        self.create()
        self.assert_fails(TopicExists, self.broker.create_topic(CONTEXT, "orders"))

    def test_bad_names(self) -> None:
        """A name that breaks Kafka's rule is refused with the reason."""
        for name in ("", ".", "..", "a/b", "a b", "größe", "x" * 250):
            error = self.assert_fails(InvalidTopicName, self.broker.create_topic(CONTEXT, name))
            self.assertEqual(error.topic, name)
        self.assertEqual(self.broker.topics(CONTEXT), ())

    def test_bad_counts(self) -> None:
        """A topic has at least one partition, and not more than it may."""
        for count in (0, -1, PARTITIONS_MAX + 1):
            self.assert_fails(InvalidPartitionCount, self.broker.create_topic(CONTEXT, "orders", count))
        self.create("orders", PARTITIONS_MAX)
        self.assert_fails(
            InvalidPartitionCount, self.broker.grow_topic(CONTEXT, "orders", PARTITIONS_MAX + 1)
        )

    def test_bad_settings(self) -> None:
        """Unknown settings and bad values are refused, and nothing is created."""
        for config in ({"retention": "1"}, {"retention.ms": "soon"}, {"segment.bytes": "1"}):
            self.assert_fails(InvalidSetting, self.broker.create_topic(CONTEXT, "orders", 1, config))
        self.assertEqual(self.broker.topics(CONTEXT), ())

    def test_no_such_topic(self) -> None:
        """What does not exist can neither be shown nor changed."""
        self.assertRaises(TopicNotFound, self.broker.topic, CONTEXT, "orders")
        self.assertIsNone(self.broker.topic_by_id(CONTEXT, NO_ID))
        self.assert_fails(TopicNotFound, self.broker.delete_topic(CONTEXT, "orders"))
        self.assert_fails(TopicNotFound, self.broker.grow_topic(CONTEXT, "orders", 9))
        self.assert_fails(TopicNotFound, self.broker.configure_topic(CONTEXT, "orders", {}))

    def test_grow(self) -> None:
        """A topic gets more partitions."""
        self.create("orders", 1)
        self.assertEqual(self.finish(self.broker.grow_topic(CONTEXT, "orders", 2)).partitions, 2)
        self.send(b"a", to=ORDERS_1)
        self.assert_fails(InvalidPartitionCount, self.broker.grow_topic(CONTEXT, "orders", 2))

    def test_configure(self) -> None:
        """Settings are changed and removed, and judged before."""
        self.create("orders", 1, retention_ms=1, segment_ms=1)
        changes = {"retention.ms": 5, "segment.ms": None, "retention.bytes": None}
        info = self.finish(self.broker.configure_topic(CONTEXT, "orders", changes))
        self.assertEqual(dict(info.config), {"retention.ms": "5"})
        for bad in ({"nonsense": None}, {"nonsense": "1"}, {"retention.ms": "x", "segment.ms": None}):
            self.assert_fails(InvalidSetting, self.broker.configure_topic(CONTEXT, "orders", bad))
        self.assertEqual(self.broker.topic(CONTEXT, "orders"), info)

    def test_validate_only(self) -> None:
        """Who only asks is told what would be, or why it would not; nothing changes."""
        config = {"retention.ms": 5}
        plan = self.finish(self.broker.create_topic(CONTEXT, "new", 3, config, validate_only=True))
        self.assertEqual((plan.name, plan.partitions, dict(plan.config)), ("new", 3, {"retention.ms": "5"}))
        self.assertEqual(self.broker.topics(CONTEXT), ())
        info = self.create("orders", 1, retention_ms=1)
        self.assert_fails(TopicExists, self.broker.create_topic(CONTEXT, "orders", validate_only=True))
        grown = self.finish(self.broker.grow_topic(CONTEXT, "orders", 2, validate_only=True))
        self.assertEqual(grown.partitions, 2)
        self.assert_fails(
            InvalidPartitionCount, self.broker.grow_topic(CONTEXT, "orders", 1, validate_only=True)
        )
        changes = {"retention.ms": None, "segment.ms": 7}
        changed = self.finish(self.broker.configure_topic(CONTEXT, "orders", changes, validate_only=True))
        self.assertEqual(dict(changed.config), {"segment.ms": "7"})
        self.assert_fails(TopicNotFound, self.broker.grow_topic(CONTEXT, "no", 2, validate_only=True))
        self.assert_fails(TopicNotFound, self.broker.configure_topic(CONTEXT, "no", {}, validate_only=True))
        self.assertEqual(self.broker.topics(CONTEXT), (info,))

    def test_internal_topics(self) -> None:
        """What the broker keeps for itself is neither deleted nor made larger."""
        self.finish(self.store.catalog.create("__own", 1, {}, internal=True))
        self.assert_fails(TopicIsInternal, self.broker.delete_topic(CONTEXT, "__own"))
        for validate_only in (False, True):
            self.assert_fails(TopicIsInternal, self.broker.grow_topic(CONTEXT, "__own", 2, validate_only))
        self.assert_fails(TopicIsInternal, self.broker.alter_topic(CONTEXT, "__own", 2))
        self.assertEqual(self.broker.topic(CONTEXT, "__own").partitions, 1)

    def test_topic_config(self) -> None:
        """The settings of a topic are its own and, where it has none, the defaults; as they are now."""
        info = self.create("orders", 1, retention_ms=7)
        config = self.broker.topic_config(info)
        self.assertEqual((config.retention_ms, config.max_message_bytes), (7, 1000))
        self.assertIs(self.broker.topic_config(info), config)
        changed = self.finish(self.broker.configure_topic(CONTEXT, "orders", {"retention.ms": 8}))
        self.assertEqual(self.broker.topic_config(changed).retention_ms, 8)
        self.assertEqual(self.broker.topic_config(info).retention_ms, 7)
        self.assertEqual(self.broker.topic_config(changed).retention_ms, 8)

    def test_delete(self) -> None:
        """A deleted topic is gone, with what groups have committed in it and nowhere else."""
        self.create()
        self.create("kept")
        kept = TopicPartition("kept", 0)
        for group in ("billing", "shipping"):
            self.finish(
                self.broker.commit_offsets(CONTEXT, group, {ORDERS_1: Committed(5), kept: Committed(6)})
            )
        self.finish(self.broker.commit_offsets(CONTEXT, "other", {kept: Committed(7)}))
        self.finish(self.broker.delete_topic(CONTEXT, "orders"))
        self.assertEqual([info.name for info in self.broker.topics(CONTEXT)], ["kept"])
        for group in ("billing", "shipping", "other"):
            found = self.finish(self.broker.fetch_offsets(CONTEXT, group))
            self.assertEqual(list(found), [kept])

    def test_watch_topics(self) -> None:
        """Who wants to know hears of each change, until he does not want to any more."""
        heard: list[Any] = []
        cancel = self.broker.watch_topics(CONTEXT, lambda *change: heard.append(change))
        made = self.create("orders", 1)
        grown = self.finish(self.broker.grow_topic(CONTEXT, "orders", 2))
        self.finish(self.broker.delete_topic(CONTEXT, "orders"))
        cancel()
        self.create("later")
        self.assertEqual(heard, [(None, made), (made, grown), (grown, None)])


class ProduceTests(BrokerTestCase):
    """Producing through the broker."""

    def test_produce(self) -> None:
        """Batches go where they are sent to."""
        self.create()
        answers = self.produce((ORDERS_0, self.batch(b"a", b"b")), (ORDERS_1, self.batch(b"c")))
        self.assertEqual(answers, [Appended(0, 0), Appended(0, 0)])
        self.assertEqual(self.fetch(want(ORDERS_0), want(ORDERS_1)), [[b"a", b"b"], [b"c"]])

    def test_nothing(self) -> None:
        """Who produces nothing gets no answers."""
        self.assertEqual(self.produce(), [])

    def test_refusals_in_their_places(self) -> None:
        """What can not be appended is told where its answer would stand; the rest is appended."""
        self.create(max_message_bytes=200)
        numbered = {"producer_id": 7, "producer_epoch": 0}
        answers = self.produce(
            (TopicPartition("nowhere", 0), self.batch(b"x")),
            (ORDERS_0, self.batch(b"a")),
            (TopicPartition("orders", 99), self.batch(b"x")),
            (ORDERS_0, self.batch(b"x" * 200)),
            (ORDERS_0, self.batch(b"b", base_sequence=0, **numbered)),
            (ORDERS_0, self.batch(b"x", base_sequence=5, **numbered)),
        )
        kinds = [
            PartitionNotFound, Appended, PartitionNotFound, RecordTooLarge, Appended, OutOfOrderSequence
        ]  # fmt: skip
        self.assertEqual([type(each) for each in answers], kinds)
        self.assertEqual([answers[1].base_offset, answers[4].base_offset], [0, 1])
        self.assertEqual(str(answers[2]), "partition not found: topic=orders, partition=99")
        self.assertEqual(self.fetch(want()), [[b"a", b"b"]])

    def test_all_refused(self) -> None:
        """When nothing is acceptable, the store is not even asked."""
        self.finish(self.store.close())
        answers = self.produce((ORDERS_0, self.batch(b"a")))
        self.assertEqual([type(each) for each in answers], [PartitionNotFound])

    def test_size_limit(self) -> None:
        """A batch may be as large as max.message.bytes says, and no byte more; the limit can be changed."""
        largest = self.batch(b"x" * 500)
        self.create(max_message_bytes=largest.size)
        accepted, refused = self.produce((ORDERS_0, largest), (ORDERS_0, self.batch(b"x" * 501)))
        self.assertIsInstance(accepted, Appended)
        self.assertEqual((refused.size, refused.limit), (largest.size + 1, largest.size))
        self.finish(self.broker.configure_topic(CONTEXT, "orders", {"max.message.bytes": None}))
        self.send(b"x" * 501)

    def test_not_for_clients(self) -> None:
        """Attributes that only a broker may set are refused, and so is a batch without records."""
        self.create()
        payload = self.batch(b"a").payload
        facts = {"base_timestamp": 1, "max_timestamp": 1}
        batches = [
            build_batch(payload, record_count=1, attributes=attributes, **facts)
            for attributes in (CONTROL_BIT, TRANSACTIONAL_BIT, TIMESTAMP_TYPE_BIT)
        ]
        batches.append(build_batch(b"", record_count=0, **facts))
        answers = self.produce(*[(ORDERS_0, each) for each in batches])
        self.assertEqual([type(each) for each in answers], [InvalidRecord] * 4)
        self.assertEqual(self.broker.bounds(CONTEXT, ORDERS_0), (0, 0))

    def test_create_time(self) -> None:
        """Normally records keep the time that their producer gave them."""
        self.create()
        (answer,) = self.produce((ORDERS_0, self.batch(b"a")))
        self.assertEqual(answer.append_time, -1)
        self.assertEqual(self.finish(self.broker.list_offset(CONTEXT, ORDERS_0, 1)).timestamp, 1)

    def test_log_append_time(self) -> None:
        """Where the topic wants it, they get that of their arrival, which the answer tells."""
        self.create(message_timestamp_type="LogAppendTime")
        now_ms = self.environment.wall.now_ms()
        (answer,) = self.produce((ORDERS_0, self.batch(b"a", b"b")))
        self.assertEqual((answer.base_offset, answer.append_time), (0, now_ms))
        found = self.finish(self.broker.list_offset(CONTEXT, ORDERS_0, 2))
        self.assertEqual((found.offset, found.timestamp), (0, now_ms))
        self.assertEqual(self.fetch(want()), [[b"a", b"b"]])

    def test_log_append_time_of_a_duplicate(self) -> None:
        """Of a duplicate the time is not known: it is not that of the repetition."""
        self.create(message_timestamp_type="LogAppendTime")
        batch = self.batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        self.produce((ORDERS_0, batch))
        (again,) = self.produce((ORDERS_0, batch))
        self.assertEqual((again.duplicate, again.base_offset, again.append_time), (True, 0, -1))

    def test_log_append_time_among_others(self) -> None:
        """Topics of both kinds may be produced to at once, with refusals between them."""
        self.create()
        self.create("stamped", message_timestamp_type="LogAppendTime")
        now_ms = self.environment.wall.now_ms()
        names = (ORDERS_0, TopicPartition("nowhere", 0), TopicPartition("stamped", 0))
        plain, missing, stamped = self.produce(*[(name, self.batch(b"a")) for name in names])
        self.assertEqual((plain.append_time, stamped.append_time), (-1, now_ms))
        self.assertIsInstance(missing, PartitionNotFound)

    def test_closed_store(self) -> None:
        """A store that is closed says so for each batch."""
        self.create()
        self.finish(self.store.close())
        answers = self.produce((ORDERS_0, self.batch(b"a")), (ORDERS_1, self.batch(b"b")))
        self.assertEqual([type(each) for each in answers], [Closed, Closed])


class FetchTests(BrokerTestCase):
    """Fetching through the broker."""

    def setUp(self) -> None:
        super().setUp()
        self.create()

    def advance(self, seconds: float) -> None:
        """Let time pass, in small steps."""
        for _ in range(int(seconds * 20)):
            self.environment.clock.advance(0.05)

    def test_fetch(self) -> None:
        """What was produced is found, each partition's in its place."""
        self.send(b"a", b"b")
        self.send(b"c", to=ORDERS_1)
        self.assertEqual(self.fetch(want(ORDERS_1), want(ORDERS_0)), [[b"c"], [b"a", b"b"]])

    def test_bounds_come_with_it(self) -> None:
        """The answer tells the bounds of the partition, even at the end of the log."""
        self.send(b"a", b"b")
        (fetched,) = self.finish(self.begin_fetch(want(offset=2)))
        self.assertEqual((fetched.size, fetched.high_watermark, fetched.log_start_offset), (0, 2, 0))

    def test_max_bytes(self) -> None:
        """Limits are passed on; the first batch comes all the same."""
        for value in (b"a", b"b", b"c"):
            self.send(value)
        self.assertEqual(self.fetch(want(max_bytes=1)), [[b"a"]])
        self.assertEqual(self.fetch(want(offset=1), want(), max_bytes=1), [[b"b"], []])

    def test_errors_in_their_places(self) -> None:
        """What can not be found is told where its answer would stand."""
        self.send(b"a")
        answers = self.fetch(
            want(TopicPartition("nowhere", 0)), want(), want(offset=9), want(TopicPartition("orders", 9))
        )
        self.assertEqual(answers[1], [b"a"])
        kinds = [PartitionNotFound, list, OffsetOutOfRange, PartitionNotFound]
        self.assertEqual([type(each) for each in answers], kinds)
        self.assertEqual(str(answers[3]), "partition not found: topic=orders, partition=9")

    def test_nothing_wanted(self) -> None:
        """Who wants nothing gets no answers, and does not wait for them."""
        self.assertEqual(self.fetch(max_wait_ms=10_000), [])
        answers = self.fetch(want(TopicPartition("x", 0)), max_wait_ms=10_000)
        self.assertEqual([type(each) for each in answers], [PartitionNotFound])

    def test_no_wait(self) -> None:
        """Without time to wait, nothing is an answer."""
        self.assertEqual(self.fetch(want(), max_wait_ms=0), [[]])

    def test_long_poll(self) -> None:
        """Who waits gets what is produced meanwhile."""
        waiting = self.begin_fetch(want(), max_wait_ms=10_000)
        self.advance(1)
        self.assertNoResult(waiting)
        self.send(b"a")
        self.assertEqual(self.take(self.finish(waiting)), [[b"a"]])

    def test_long_poll_on_several(self) -> None:
        """Data in any of the partitions will do."""
        waiting = self.begin_fetch(want(ORDERS_0), want(ORDERS_1), max_wait_ms=10_000)
        self.advance(1)
        self.send(b"a", to=ORDERS_1)
        self.assertEqual(self.take(self.finish(waiting)), [[], [b"a"]])

    def test_one_partition_twice(self) -> None:
        """One partition may be wanted twice."""
        waiting = self.begin_fetch(want(), want(), max_wait_ms=10_000)
        self.send(b"a")
        self.assertEqual(self.take(self.finish(waiting)), [[b"a"], [b"a"]])

    def test_wait_is_over(self) -> None:
        """After the time is over, the answer is what there is."""
        self.send(b"a")
        waiting = self.begin_fetch(want(), min_bytes=PLENTY, max_wait_ms=5_000)
        self.advance(4)
        self.assertNoResult(waiting)
        self.advance(2)
        self.assertEqual(self.take(self.successResultOf(waiting)), [[b"a"]])

    def test_wait_is_capped(self) -> None:
        """Nobody waits longer than fetch.max.wait.ms, whatever he asks for."""
        waiting = self.begin_fetch(want(), max_wait_ms=2**31)
        self.advance(19)
        self.assertNoResult(waiting)
        self.advance(2)
        self.assertEqual(self.take(self.successResultOf(waiting)), [[]])

    def test_min_bytes(self) -> None:
        """Who wants more waits for more."""
        self.send(b"a" * 100)
        waiting = self.begin_fetch(want(), min_bytes=300, max_wait_ms=10_000)
        self.advance(1)
        self.assertNoResult(waiting)
        self.send(b"b" * 200)
        self.assertEqual(self.take(self.finish(waiting)), [[b"a" * 100, b"b" * 200]])

    def test_errors_do_not_wait(self) -> None:
        """An error is told at once, though other partitions could still get data."""
        missing, empty = self.fetch(want(TopicPartition("orders", 9)), want(), max_wait_ms=10_000)
        self.assertIsInstance(missing, PartitionNotFound)
        self.assertEqual(empty, [])
        (error, _) = self.fetch(want(offset=5), want(), max_wait_ms=10_000)
        self.assertIsInstance(error, OffsetOutOfRange)

    def test_topic_is_deleted_meanwhile(self) -> None:
        """Who waits for a topic that is deleted is told."""
        waiting = self.begin_fetch(want(), max_wait_ms=10_000)
        self.advance(1)
        self.finish(self.broker.delete_topic(CONTEXT, "orders"))
        (answer,) = self.finish(waiting)
        self.assertIsInstance(answer, TopicNotFound)

    def test_store_is_closed_meanwhile(self) -> None:
        """Who waits when the store is closed is told."""
        waiting = self.begin_fetch(want(), max_wait_ms=10_000)
        self.advance(1)
        self.finish(self.store.close())
        (answer,) = self.finish(waiting)
        self.assertIsInstance(answer, Closed)

    def test_cancel(self) -> None:
        """Who goes away while he waits leaves nothing behind."""
        self.send(b"a")
        for delay in (0.0, 1.0):
            waiting = self.begin_fetch(want(), min_bytes=PLENTY, max_wait_ms=10_000)
            self.advance(delay)
            waiting.cancel()
            self.failureResultOf(waiting, CancelledError)

    def test_watch(self) -> None:
        """Who watches a partition hears when there is more to read, and when it is gone."""
        heard: list[None] = []
        cancel = self.broker.watch(CONTEXT, ORDERS_0, lambda: heard.append(None))
        self.send(b"a", to=ORDERS_1)
        self.advance(1)
        self.assertEqual(len(heard), 0)
        self.send(b"a")
        self.advance(1)
        self.assertEqual(len(heard), 1)
        self.finish(self.broker.delete_topic(CONTEXT, "orders"))
        self.advance(1)
        self.assertEqual(len(heard), 2)
        cancel()
        with self.assertRaises(PartitionNotFound):
            self.broker.watch(CONTEXT, ORDERS_0, list)


class OffsetTests(BrokerTestCase):
    """Positions through the broker."""

    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.send(b"a", b"b")

    def test_list_offset(self) -> None:
        """Earliest, latest, and by time."""
        expected = {
            OffsetSpec.EARLIEST: FoundOffset(0, -1, 0),
            OffsetSpec.LATEST: FoundOffset(2, -1, 0),
            OffsetSpec.MAX_TIMESTAMP: FoundOffset(0, 1, 0),
            1: FoundOffset(0, 1, 0),
            2: FoundOffset(-1),
        }
        for spec, found in expected.items():
            self.assertEqual(self.finish(self.broker.list_offset(CONTEXT, ORDERS_0, spec)), found)

    def test_list_offset_of_nothing(self) -> None:
        """What does not exist has no offsets."""
        nowhere = TopicPartition("orders", 9)
        self.assert_fails(PartitionNotFound, self.broker.list_offset(CONTEXT, nowhere, OffsetSpec.LATEST))

    def test_epochs(self) -> None:
        """A partition knows its leader epoch, and where it ends."""
        _, end = self.broker.bounds(CONTEXT, ORDERS_0)
        self.assertEqual(self.broker.leader_epoch(CONTEXT, ORDERS_0), 0)
        self.assertEqual(self.finish(self.broker.end_of_epoch(CONTEXT, ORDERS_0, 0)), (0, end))
        self.assertEqual(self.finish(self.broker.end_of_epoch(CONTEXT, ORDERS_0, 1)), (-1, -1))
        nowhere = TopicPartition("orders", 9)
        self.assertRaises(PartitionNotFound, self.broker.leader_epoch, CONTEXT, nowhere)
        self.assert_fails(PartitionNotFound, self.broker.end_of_epoch(CONTEXT, nowhere, 0))

    def test_producer_ids(self) -> None:
        """Every idempotent producer gets an id of its own."""
        ids = {self.finish(self.broker.new_producer_id(CONTEXT)) for _ in range(5)}
        self.assertEqual(len(ids), 5)

    def test_bounds(self) -> None:
        """The bounds of a partition are known at once."""
        self.assertEqual(self.broker.bounds(CONTEXT, ORDERS_0), (0, 2))
        self.assertRaises(PartitionNotFound, self.broker.bounds, CONTEXT, TopicPartition("orders", -1))


class GroupTests(BrokerTestCase):
    """The progress of groups through the broker."""

    def setUp(self) -> None:
        super().setUp()
        self.create()

    def commit(self, group: str, offsets: dict[TopicPartition, Committed]) -> Any:
        """Commit."""
        return self.broker.commit_offsets(CONTEXT, group, offsets)

    def test_commit(self) -> None:
        """What is committed is fetched, with the time at which it came; the last commit wins."""
        now_ms = self.environment.wall.now_ms()
        self.finish(self.commit("billing", {ORDERS_0: Committed(9), ORDERS_1: Committed(5, 1, "x", 77)}))
        found = self.finish(self.broker.fetch_offsets(CONTEXT, "billing"))
        self.assertEqual(found, {ORDERS_0: Committed(9, -1, "", now_ms), ORDERS_1: Committed(5, 1, "x", 77)})
        self.finish(self.commit("billing", {ORDERS_0: Committed(3)}))
        some = self.finish(self.broker.fetch_offsets(CONTEXT, "billing", [ORDERS_0]))
        self.assertEqual({name: each.offset for name, each in some.items()}, {ORDERS_0: 3})

    def test_never_committed(self) -> None:
        """A group that never committed has no offsets."""
        self.assertEqual(self.finish(self.broker.fetch_offsets(CONTEXT, "billing")), {})

    def test_any_offset_that_can_be(self) -> None:
        """An offset need not exist to be committed, but it must be possible."""
        self.finish(self.commit("billing", {ORDERS_0: Committed(MAX_OFFSET)}))
        for offset in (-1, MAX_OFFSET + 1):
            error = self.assert_fails(OffsetOutOfRange, self.commit("billing", {ORDERS_0: Committed(offset)}))
            self.assertEqual(error.requested, offset)

    def test_all_or_nothing(self) -> None:
        """When one partition does not exist, nothing is committed."""
        offsets = {ORDERS_0: Committed(1), TopicPartition("orders", 9): Committed(1)}
        self.assert_fails(PartitionNotFound, self.commit("billing", offsets))
        self.assertEqual(self.finish(self.broker.fetch_offsets(CONTEXT, "billing")), {})

    def test_group_names(self) -> None:
        """A group may have any name that can be written down, up to a size."""
        for group in ("", "a:b", "größe", "x" * GROUP_BYTES_MAX):
            self.finish(self.commit(group, {ORDERS_0: Committed(1)}))
            self.assertEqual(len(self.finish(self.broker.fetch_offsets(CONTEXT, group))), 1)
        for group in ("x" * (GROUP_BYTES_MAX + 1), "ö" * (GROUP_BYTES_MAX // 2 + 1), "\ud800"):
            self.assert_fails(InvalidGroup, self.commit(group, {ORDERS_0: Committed(1)}))
            self.assert_fails(InvalidGroup, self.broker.fetch_offsets(CONTEXT, group))

    def test_offsets_can_not_be_deleted(self) -> None:
        """When what groups committed can not be removed, whoever deletes the topic hears of it."""
        self.finish(self.commit("billing", {ORDERS_0: Committed(1)}))
        self.patch(self.offsets, "delete", lambda group, partitions=None: fail(Closed()))
        self.assert_fails(Closed, self.broker.delete_topic(CONTEXT, "orders"))


class LateTopicTests(TopicTests):
    """The same with stores that answer late."""

    late_answers = True


class LateProduceTests(ProduceTests):
    """The same with stores that answer late."""

    late_answers = True


class LateFetchTests(FetchTests):
    """The same with stores that answer late."""

    late_answers = True


class LateOffsetTests(OffsetTests):
    """The same with stores that answer late."""

    late_answers = True


class LateGroupTests(GroupTests):
    """The same with stores that answer late."""

    late_answers = True
