"""Tests for L{rustlog.spark.options}: what was said in C{.option(…)}."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.codecs import Codec
from rustlog.model import TopicPartition
from rustlog.spark import vocabulary
from rustlog.spark.errors import BadOption
from rustlog.spark.options import (
    Assigned,
    Pattern,
    ReadOptions,
    Topics,
    WriteOptions,
    read_options,
    write_options,
)
from rustlog.spark.positions import EARLIEST, LATEST, AtOffsets, AtTimes
from rustlog.spark.settings import ClientSettings
from rustlog.spark.vocabulary import READ, READ_STREAM, WRITE, WRITE_STREAM

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def reading(method: str = READ, **options: str) -> ReadOptions:
    """Options of a reader of the topic C{orders}; two underscores stand for a dot."""
    given = {name.replace("__", "."): value for name, value in options.items()}
    if not {"subscribe", "subscribePattern", "assign"} & given.keys():
        given["subscribe"] = "orders"
    return read_options({**SERVERS, **given}, method)


def writing(method: str = WRITE, **options: str) -> WriteOptions:
    """Options of a writer."""
    given = {name.replace("__", "."): value for name, value in options.items()}
    return write_options({**SERVERS, "topic": "orders", **given}, method)


class BadOptions(SynchronousTestCase):
    """What the tests here have in common."""

    def check_refused(self, option: str, words: str, understand: Callable[[], object]) -> None:
        error = self.assertRaises(BadOption, understand)
        self.assertEqual(error.option, option)
        self.assertIn(words, str(error))


class ReadOptionsTests(BadOptions):
    def test_defaults(self) -> None:
        """A server and a topic are enough; a batch then reads all there is."""
        options = reading()
        self.assertEqual(options.client, ClientSettings(bootstrap=(("127.0.0.1", 9092),)))
        self.assertEqual(options.subscription, Topics(("orders",)))
        self.assertEqual(options.starting, AtOffsets("startingOffsets", everywhere=EARLIEST))
        self.assertEqual(options.ending, AtOffsets("endingOffsets", everywhere=LATEST))
        self.assertTrue(options.fails_on_data_loss)
        self.assertFalse(options.reads_committed)

    def test_stream_begins_at_the_end(self) -> None:
        """A stream reads what comes, unless told otherwise."""
        self.assertEqual(reading(READ_STREAM).starting, AtOffsets("startingOffsets", everywhere=LATEST))

    def test_case(self) -> None:
        """Names are the same in small letters, as Spark hands them over."""
        given = {"KAFKA.BOOTSTRAP.SERVERS": "a:1", "SUBSCRIBE": "a, b,a", "MinPartitions": "7"}
        options = read_options(given)
        self.assertEqual(options.subscription, Topics(("a", "b")))
        self.assertEqual(options.parts_min, 7)

    def test_subscriptions(self) -> None:
        """Topics can be named, matched, or given by partition."""
        self.assertEqual(reading(subscribePattern="ord.*").subscription, Pattern("ord.*"))
        assigned = Assigned((TopicPartition("a", 0), TopicPartition("a", 2)))
        self.assertEqual(reading(assign='{"a":[2,0]}').subscription, assigned)

    def test_times(self) -> None:
        """A time comes before offsets, as Spark has it; only a starting time may lead nowhere."""
        options = reading(startingTimestamp="7", startingOffsets="earliest", endingTimestamp="9")
        self.assertEqual(options.starting, AtTimes("startingTimestamp", everywhere=7, falls_back=False))
        self.assertEqual(options.ending, AtTimes("endingTimestamp", everywhere=9, falls_back=True))
        lenient = reading(startingTimestamp="7", startingOffsetsByTimestampStrategy="latest")
        self.assertEqual(lenient.starting, AtTimes("startingTimestamp", everywhere=7, falls_back=True))

    def test_times_by_partition(self) -> None:
        """Each partition can have a time of its own."""
        options = reading(startingOffsetsByTimestamp='{"orders":{"0":7}}')
        by_partition = {TopicPartition("orders", 0): 7}
        self.assertEqual(options.starting.by_partition, by_partition)

    def test_client_settings(self) -> None:
        """Settings of a Kafka client that mean something reach the client; others do no harm."""
        options = reading(
            kafka__client__id="me", kafka__request__timeout__ms="1500",
            kafka__isolation__level="read_committed", kafka__fetch__min__bytes="1",
            kafka__group__id="g", groupIdPrefix="p",
        )  # fmt: skip
        assert options.client is not None
        self.assertEqual((options.client.client_id, options.client.request_seconds), ("me", 1.5))
        self.assertTrue(options.reads_committed)

    def test_directory_alone(self) -> None:
        """A data directory can be read without a broker."""
        options = read_options({"path": "/data", "subscribe": "orders"})
        self.assertEqual((options.path, options.client), ("/data", None))

    def test_durations(self) -> None:
        """How long to wait is said with a unit."""
        for text, seconds in {"30s": 30.0, "5m": 300.0, "1h": 3600.0, "250ms": 0.25, "7": 7.0}.items():
            options = reading(READ_STREAM, maxTriggerDelay=text)
            self.assertEqual(options.trigger_delay_seconds_max, seconds)

    def test_refused(self) -> None:
        """What makes no sense is refused, by a sentence that says why."""
        for option, value, words in (
            ("subscribe", " ", "empty"),
            ("subscribe", ",", "names no topic"),
            ("subscribePattern", "(", "regular expression"),
            ("assign", "[1]", 'JSON like {"topic":[0,1]}'),
            ("assign", '{"a":[-1]}', 'JSON like {"topic":[0,1]}'),
            ("assign", "{}", "names no partition"),
            ("startingOffsets", "latest", "leaves nothing to read"),
            ("startingOffsets", "ealiest", 'earliest or JSON like {"topic":{"0":23}}'),
            ("startingOffsets", '{"orders":{"0":-1}}', "-1 is not an offset"),
            ("startingOffsets", '{"orders":{"0":"1"}}', "'0': '1'"),
            ("startingOffsets", '{"orders":[1]}', "JSON like"),
            ("endingOffsets", "earliest", "leaves nothing to read"),
            ("endingOffsets", '{"orders":{"0":-2}}', "-2 is not an offset"),
            ("startingTimestamp", "today", "milliseconds"),
            ("minPartitions", "0", "positive number"),
            ("failOnDataLoss", "maybe", "none of true, false"),
            ("kafka.isolation.level", "read_comitted", "did you mean read_committed?"),
            ("kafka.auto.offset.reset", "earliest", "startingOffsets"),
            ("kafka.fetch.max.byte", "1", "did you mean kafka.fetch.max.bytes?"),
            ("kafka.security.protocol", "SASL_SSL", "not supported"),
            ("startingoffset", "earliest", "no such option; did you mean startingOffsets?"),
            ("maxOffsetsPerTrigger", "5", "means nothing for read, only for readStream"),
            ("topic", "orders", "means nothing for read, only for write and writeStream"),
        ):
            self.check_refused(option, words, lambda: reading(**{option.replace(".", "__"): value}))  # noqa: B023

    def test_contradictions(self) -> None:
        """Options that contradict each other are refused."""
        self.check_refused(
            "subscribe", "together with assign", lambda: reading(subscribe="a", assign='{"a":[0]}')
        )
        self.check_refused("subscribe", "one of subscribe", lambda: read_options(SERVERS))
        self.check_refused(
            "kafka.bootstrap.servers", "nothing to read from", lambda: read_options({"subscribe": "a"})
        )
        self.check_refused(
            "groupId", "without kafka.bootstrap.servers",
            lambda: read_options({"subscribe": "a", "path": "/d", "groupId": "g"}, READ_STREAM),
        )  # fmt: skip
        self.check_refused(
            "minOffsetsPerTrigger", "more than maxOffsetsPerTrigger",
            lambda: reading(READ_STREAM, minOffsetsPerTrigger="9", maxOffsetsPerTrigger="8"),
        )  # fmt: skip


class WriteOptionsTests(BadOptions):
    def test_defaults(self) -> None:
        """A batch goes straight to the brokers; a stream is staged in its checkpoint."""
        options = writing()
        self.assertEqual((options.topic, options.codec, options.staging), ("orders", Codec.NONE, None))
        stream = writing(WRITE_STREAM, checkpointLocation="/ck/")
        self.assertEqual(stream.staging, "/ck/rustlog-staging")

    def test_staging(self) -> None:
        """Another directory can be named, also as Spark's URL of a file."""
        for location in ("/staged", "file:/staged", "file:///staged"):
            options = writing(WRITE_STREAM, checkpointLocation="s3://b/ck", stagingLocation=location)
            self.assertEqual(options.staging, "/staged")

    def test_at_least_once(self) -> None:
        """Who does not need exactly once needs no staging."""
        self.assertIsNone(writing(WRITE_STREAM, delivery="at-least-once").staging)

    def test_compression(self) -> None:
        """It can be said in Spark's way and in Kafka's."""
        self.assertEqual(writing(compression="zstd").codec, Codec.ZSTD)
        self.assertEqual(writing(kafka__compression__type="LZ4").codec, Codec.LZ4)

    def test_one_of_several_batches(self) -> None:
        """A batch of C{foreachBatch} is told by its application and number."""
        options = writing(applicationId="a", batchId="7", stagingLocation="/s")
        self.assertEqual((options.application, options.batch, options.staging), ("a", 7, "/s"))

    def test_refused(self) -> None:
        """What makes no sense is refused, by a sentence that says why."""
        for method, options, option, words in (
            (WRITE, {"compression": "ztsd"}, "compression", "did you mean zstd?"),
            (WRITE, {"compression": "lz4", "kafka__compression__type": "gzip"}, "compression", "together"),
            (WRITE, {"kafka__acks": "1"}, "kafka.acks", "none of all, -1"),
            (WRITE, {"kafka__transactional__id": "t"}, "kafka.transactional.id", "applicationId"),
            (WRITE, {"batchId": "1", "applicationId": "a"}, "batchId", "needs stagingLocation"),
            (WRITE, {"batchId": "one"}, "batchId", "not the number"),
            (WRITE, {"subscribe": "a"}, "subscribe", "means nothing for write"),
            (WRITE_STREAM, {}, "checkpointLocation", "missing"),
            (WRITE_STREAM, {"checkpointLocation": "s3://b/ck"}, "checkpointLocation", "stagingLocation"),
            (
                WRITE_STREAM, {"delivery": "at-least-once", "applicationId": "a"},
                "applicationId", "means nothing with",
            ),
        ):  # fmt: skip
            self.check_refused(option, words, lambda: writing(method, **options))  # noqa: B023

    def test_servers(self) -> None:
        """Without a server there is nowhere to write."""
        self.check_refused("kafka.bootstrap.servers", "nothing to write", lambda: write_options({}, WRITE))


class VocabularyTests(SynchronousTestCase):
    def test_names_are_different(self) -> None:
        """No name stands in two places."""
        names = [each.lower() for each in vocabulary.known_names()]
        self.assertEqual(len(names), len(set(names)))
        refused = {vocabulary.PREFIX + each for each in vocabulary.CLIENT_SETTINGS_REFUSED}
        self.assertEqual(refused & set(names), set())
