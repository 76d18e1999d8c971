"""Tests for L{rustlog.spark.kafka}, over brokers that only exist here."""

from __future__ import annotations

import pickle
from typing import Any

from attrs import define, field
from kio.schema.errors import ErrorCode
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.records import build
from rustlog.model import Record, TopicPartition
from rustlog.spark import connection, errors
from rustlog.spark.connection import Api
from rustlog.spark.kafka import LATEST, KafkaClient
from rustlog.spark.settings import ClientSettings, parse_bootstrap
from rustlog.wire.kafka import schema
from tests.unit.client.harness import ClockPace

ORDERS = TopicPartition("orders", 0)
PLAIN = bytes(build([Record(b"one")], now_ms=1).buffer)
IDEMPOTENT = bytes(build([Record(b"one")], now_ms=1, producer_id=5, producer_epoch=0, base_sequence=0).buffer)


@define
class World:
    """
    Two brokers, the first of which leads C{orders}.

    @ivar answers: what is answered next to a kind of request: an error code, an exception, or fields.
    @ivar asked: (broker, request, its fields).
    """

    leader: int = 1
    answers: dict[str, list[Any]] = field(factory=dict)
    asked: list[tuple[int, str, dict[str, Any]]] = field(factory=list)
    down: set[int] = field(factory=set)
    pace: ClockPace = field(factory=lambda: ClockPace(Clock()))

    def client(self, **more: Any) -> KafkaClient:
        settings = ClientSettings(bootstrap=parse_bootstrap("one:1,two:2"), **more)
        return KafkaClient(settings, pace=self.pace, open_connection=self.open)

    def open(self, host: str, port: int, *_: Any) -> FakeConnection:
        if port in self.down:
            raise errors.ConnectionFailed(f"{host}:{port}", "Connection refused")
        return FakeConnection(self, port)

    def requests(self, name: str) -> list[dict[str, Any]]:
        return [fields for _, request, fields in self.asked if request == name]


@define(eq=False)
class FakeConnection:
    """Stands for L{rustlog.spark.connection.Connection}."""

    world: World
    number: int
    gone: bool = False

    @property
    def address(self) -> str:
        return f"broker {self.number}"

    def version_of(self, api: Api) -> int:
        return api.highest

    def is_gone(self) -> bool:
        return self.gone or self.number in self.world.down

    def close(self) -> None:
        self.gone = True

    def ask(self, api: Api, /, *, waits_ms: int = 0, **fields: Any) -> Any:
        assert not self.gone, "it was closed"
        self.world.asked.append((self.number, api.name, fields))
        for version in range(api.lowest, api.highest + 1):
            schema.encode(schema.make(schema.request_class(api.key, version), **fields))
        waiting = self.world.answers.get(api.name)
        answer = waiting.pop(0) if waiting else ErrorCode.none
        if isinstance(answer, Exception):
            raise answer
        build_answer = getattr(self, f"_{api.name.lower()}")
        return schema.make(schema.response_class(api.key, api.highest), **build_answer(answer))

    def _metadata(self, code: ErrorCode) -> dict[str, Any]:
        partitions = [
            {
                "partition_index": 0, "leader_id": self.world.leader, "replica_nodes": (), "isr_nodes": (),
                "offline_replicas": (), "leader_epoch": 0,
            }
        ]  # fmt: skip
        topic = {"name": "orders", "topic_id": None, "partitions": partitions, "error_code": code}
        brokers = [{"node_id": each, "host": f"host{each}", "port": each, "rack": None} for each in (1, 2)]
        return {"brokers": brokers, "topics": [topic], "controller_id": 2, "cluster_id": None}

    def _produce(self, code: ErrorCode) -> dict[str, Any]:
        answer = {
            "index": 0, "error_code": code, "base_offset": 7, "record_errors": (), "log_append_time": None,
        }  # fmt: skip
        return {"responses": [{"name": "orders", "partition_responses": [answer]}]}

    def _fetch(self, code: ErrorCode) -> dict[str, Any]:
        answer = {
            "partition_index": 0, "error_code": code, "high_watermark": 9, "last_stable_offset": 8,
            "aborted_transactions": [{"producer_id": 3, "first_offset": 4}], "records": b"batches",
            "log_start_offset": 1,
        }  # fmt: skip
        return {"responses": [{"topic": "orders", "partitions": [answer]}]}

    def _listoffsets(self, code: ErrorCode) -> dict[str, Any]:
        answer = {"partition_index": 0, "error_code": code, "offset": 42, "timestamp": 5}
        return {"topics": [{"name": "orders", "partitions": [answer]}]}

    def _createtopics(self, code: ErrorCode) -> dict[str, Any]:
        topic = {"name": "orders", "topic_id": None, "error_code": code, "error_message": "because"}
        return {"topics": [{**topic, "configs": ()}]}

    def _findcoordinator(self, code: ErrorCode) -> dict[str, Any]:
        return {"error_code": code, "node_id": 2, "host": "host2", "port": 2}

    def _offsetcommit(self, code: ErrorCode) -> dict[str, Any]:
        return {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": code}]}]}

    def _offsetfetch(self, code: ErrorCode) -> dict[str, Any]:
        answer = {"partition_index": 0, "committed_offset": 3, "metadata": None, "error_code": code}
        return {"topics": [{"name": "orders", "partitions": [answer]}]}

    def _initproducerid(self, code: ErrorCode) -> dict[str, Any]:
        return {"error_code": code, "producer_id": 5, "producer_epoch": 0}

    def _deleterecords(self, code: ErrorCode) -> dict[str, Any]:
        answer = {"partition_index": 0, "low_watermark": 3, "error_code": code}
        return {"topics": [{"name": "orders", "partitions": [answer]}]}


class RetryingTests(SynchronousTestCase):
    """What is tried again, and what is not."""

    def setUp(self) -> None:
        self.world = World()
        self.client = self.world.client()

    def test_leader_moves(self) -> None:
        """A broker that leads no more sends the client on; metadata are asked for anew."""
        self.client.produce(ORDERS, PLAIN)
        self.world.leader = 2
        self.world.answers["Produce"] = [ErrorCode.not_leader_or_follower]
        self.assertEqual(self.client.produce(ORDERS, PLAIN), 7)
        where = [number for number, request, _ in self.world.asked if request == "Produce"]
        self.assertEqual(where, [1, 1, 2])

    def test_longer_and_longer(self) -> None:
        """Between attempts the client waits longer and longer, and gives up at the deadline."""
        self.world.answers["ListOffsets"] = [ErrorCode.leader_not_available] * 1000
        error = self.assertRaises(errors.GaveUp, self.client.list_offsets, {ORDERS: LATEST})
        self.assertEqual(self.world.pace.slept[:7], [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0])
        self.assertLessEqual(self.world.pace.monotonic(), 60)
        self.assertIn("ListOffsets did not succeed within 60 seconds", str(error))
        self.assertIn("LEADER_NOT_AVAILABLE", str(error))

    def test_refused(self) -> None:
        """What will not get better is told at once."""
        self.world.answers["Produce"] = [ErrorCode.message_too_large]
        error = self.assertRaises(errors.RequestRefused, self.client.produce, ORDERS, PLAIN)
        self.assertEqual((error.code, error.is_retriable), (10, False))
        self.assertEqual(str(error), "Produce of orders-0 was refused: MESSAGE_TOO_LARGE")
        self.assertEqual(self.world.pace.slept, [])

    def test_unknown_topic(self) -> None:
        """A topic that is not there may come into being, for some seconds."""
        self.world.answers["Metadata"] = [ErrorCode.unknown_topic_or_partition] * 2
        self.assertEqual(self.client.produce(ORDERS, PLAIN), 7)
        self.world.answers["Metadata"] = [ErrorCode.unknown_topic_or_partition] * 100
        self.client.cluster.forget("orders")
        begun = self.world.pace.monotonic()
        self.assertRaises(errors.TopicNotFound, self.client.produce, ORDERS, PLAIN)
        self.assertLessEqual(self.world.pace.monotonic() - begun, 5)

    def test_unknown_partition(self) -> None:
        """A partition that is not there is named; a topic may still grow, for some seconds."""
        seventh = TopicPartition("orders", 7)
        error = self.assertRaises(errors.TopicNotFound, self.client.produce, seventh, PLAIN)
        self.assertEqual(str(error), "there is no topic orders with a partition 7")
        self.assertLessEqual(self.world.pace.monotonic(), 5)

    def test_nobody_leads(self) -> None:
        """While nobody leads a partition, the client waits until somebody does."""
        self.world.leader = -1
        self.assertRaises(errors.GaveUp, self.client.produce, ORDERS, PLAIN)
        self.world.leader = 1
        self.assertEqual(self.client.produce(ORDERS, PLAIN), 7)

    def test_asking_for_a_topic(self) -> None:
        """Who asks whether there is a topic does not wait for it."""
        self.world.answers["Metadata"] = [ErrorCode.unknown_topic_or_partition]
        self.assertRaises(errors.TopicNotFound, self.client.topic, "orders")
        self.assertEqual(self.world.pace.slept, [])
        self.assertEqual(self.client.topic("orders").partitions, 1)

    def test_lost_idempotent(self) -> None:
        """A batch that can be told from another is sent again, the same bytes, until there is an answer."""
        lost = errors.ConnectionLost("broker 1", "Produce", "the cable was pulled")
        self.world.answers["Produce"] = [lost, ErrorCode.request_timed_out]
        self.assertEqual(self.client.produce(ORDERS, IDEMPOTENT), 7)
        sent = [each["topic_data"][0]["partition_data"][0] for each in self.world.requests("Produce")]
        self.assertEqual([each["records"] for each in sent], [IDEMPOTENT] * 3)

    def test_lost_otherwise(self) -> None:
        """Another batch is not: it could be there twice.  The error says so."""
        for problem in (
            errors.ConnectionLost("broker 1", "Produce", "the cable was pulled"),
            ErrorCode.request_timed_out,
            ErrorCode.not_enough_replicas_after_append,
        ):
            self.world.answers["Produce"] = [problem]
            self.assertRaises(errors.BrokerError, self.client.produce, ORDERS, PLAIN)
        self.assertEqual(len(self.world.requests("Produce")), 3)

    def test_duplicate(self) -> None:
        """A batch of which the broker says that it is there already is there."""
        self.world.answers["Produce"] = [ErrorCode.duplicate_sequence_number]
        self.assertEqual(self.client.produce(ORDERS, IDEMPOTENT), -1)

    def test_other_bootstrap(self) -> None:
        """The first of the brokers that answers is enough."""
        self.world.down = {1}
        self.world.leader = 2
        self.assertEqual(self.client.produce(ORDERS, PLAIN), 7)
        self.world.down = {1, 2}
        error = self.assertRaises(errors.GaveUp, self.client.topics)
        self.assertIn("one:1: Connection refused; two:2: Connection refused", str(error))


class CallTests(SynchronousTestCase):
    """What is asked, and understood.  (Every request is encoded in every version that may be chosen.)"""

    def setUp(self) -> None:
        self.world = World()
        self.client = self.world.client()

    def test_fetch(self) -> None:
        """Batches come with the ends of the log, and the transactions to leave out."""
        found = self.client.fetch(ORDERS, 5)
        self.assertEqual(bytes(found.data), b"batches")
        self.assertEqual((found.log_start_offset, found.last_stable_offset, found.high_watermark), (1, 8, 9))
        self.assertEqual(found.aborted, ((3, 4),))

    def test_fetch_outside(self) -> None:
        """Outside of the log both ends are told."""
        self.world.answers["Fetch"] = [ErrorCode.offset_out_of_range]
        error = self.assertRaises(errors.DataLost, self.client.fetch, ORDERS, 5)
        self.assertEqual((error.offset, error.start, error.end), (5, 42, 42))

    def test_fetch_damaged(self) -> None:
        """A damaged log is not asked for again and again."""
        self.world.answers["Fetch"] = [ErrorCode.corrupt_message]
        self.assertRaises(errors.CorruptLog, self.client.fetch, ORDERS, 5)

    def test_topics(self) -> None:
        """They are made by the controller; that one exists may be all right."""
        self.client.create_topic("orders", 3, config={"retention.ms": "1"})
        self.assertEqual(self.world.asked[-1][:2], (2, "CreateTopics"))
        self.world.answers["CreateTopics"] = [ErrorCode.topic_already_exists] * 2
        self.client.create_topic("orders", 3, exists_ok=True)
        error = self.assertRaises(errors.RequestRefused, self.client.create_topic, "orders", 3)
        self.assertIn("TOPIC_ALREADY_EXISTS (because)", str(error))

    def test_groups(self) -> None:
        """The coordinator is asked, and asked again while it loads."""
        self.world.answers["OffsetCommit"] = [ErrorCode.coordinator_load_in_progress]
        self.client.commit_offsets("kitchen", {ORDERS: 3})
        self.client.commit_offsets("kitchen", {})
        self.assertEqual(len(self.world.requests("OffsetCommit")), 2)
        self.assertEqual(self.client.committed_offsets("kitchen")[ORDERS].offset, 3)
        self.assertEqual(self.client.committed_offsets("kitchen", [ORDERS])[ORDERS].metadata, "")
        self.world.answers["OffsetCommit"] = [ErrorCode.unknown_member_id]
        self.assertRaises(errors.RequestRefused, self.client.commit_offsets, "kitchen", {ORDERS: 3})

    def test_others(self) -> None:
        """A producer gets its identity; records are deleted; offsets are found."""
        producer = self.client.init_producer()
        self.assertEqual((producer.producer_id, producer.epoch, producer.sequence), (5, 0, 0))
        self.assertEqual(self.client.delete_records({ORDERS: 3}), {ORDERS: 3})
        self.assertEqual(self.client.list_offsets({ORDERS: LATEST})[ORDERS].offset, 42)

    def test_pickled(self) -> None:
        """Errors and settings travel between Spark's processes."""
        for error in (
            errors.CorruptLog("orders", 0, 3, "because"),
            errors.RequestRefused("Produce", 3, "NAME", "orders"),
            errors.GaveUp("Produce", 3.0, "because"),
        ):
            self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))
        settings = ClientSettings(bootstrap=(("host", 1),))
        self.assertEqual(pickle.loads(pickle.dumps(settings)), settings)


class SettingsTests(SynchronousTestCase):
    """The options of a reader or writer."""

    def test_all(self) -> None:
        """Everything can be said under Kafka's names, in small or large letters."""
        found = ClientSettings.from_options(
            {
                "Kafka.Bootstrap.Servers": "one:1, [::1]:2,three",
                "kafka.client.id": "me",
                "kafka.request.timeout.ms": "1500",
                "kafka.security.protocol": "ssl",
                "kafka.ssl.ca.location": "/ca.pem",
                "kafka.ssl.endpoint.identification.algorithm": "",
                "kafka.group.id": "kitchen",
                "subscribe": "orders",
            },
            also=["kafka.group.id"],
        )
        self.assertEqual(found.bootstrap, (("one", 1), ("::1", 2), ("three", 9092)))
        self.assertEqual((found.client_id, found.request_seconds), ("me", 1.5))
        self.assertEqual((found.is_tls, found.ca_file, found.checks_hostname), (True, "/ca.pem", False))

    def test_wrong(self) -> None:
        """What is missing, unknown or makes no sense is named."""
        self.assertRaises(errors.BadOption, ClientSettings.from_options, {})
        for name, value, reason in (
            ("bootstrap.servers", "one:x", "'one:x' is not an address"),
            ("bootstrap.servers", "a:1,,b:1", "'' is not an address"),
            ("bootstrap.servers", "one:99999", "is not an address"),
            ("colour", "blue", "option kafka.colour: it is not known here"),
            ("request.timeout.ms", "soon", "'soon' is not a number"),
            ("security.protocol", "SASL_SSL", "SASL_SSL is not supported"),
        ):
            options = {"kafka.bootstrap.servers": "a", f"kafka.{name}": value}
            error = self.assertRaises(errors.BadOption, ClientSettings.from_options, options)
            self.assertIn(reason, str(error))


class VersionTests(SynchronousTestCase):
    """What both sides know."""

    def offered(self, lowest: int, highest: int) -> connection.Connection:
        made = connection.Connection.__new__(connection.Connection)
        made.address = "somewhere:1"
        made._offered = {connection.FETCH.key: (lowest, highest)}
        return made

    def test_chosen(self) -> None:
        """The highest of both; where there is none, both ranges are named."""
        self.assertEqual(self.offered(0, 11).version_of(connection.FETCH), 11)
        self.assertEqual(self.offered(4, 18).version_of(connection.FETCH), 12)
        for lowest, highest in ((0, 3), (13, 18)):
            error = self.assertRaises(
                errors.NotUnderstood, self.offered(lowest, highest).version_of, connection.FETCH
            )
            self.assertIn(f"of Fetch, it offers versions {lowest} to {highest}; one of 4 to 12", str(error))
        error = self.assertRaises(errors.NotUnderstood, self.offered(0, 9).version_of, connection.PRODUCE)
        self.assertIn("it offers none", str(error))
