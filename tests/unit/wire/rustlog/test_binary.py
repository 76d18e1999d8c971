"""Tests for L{rustlog.wire.rustlog.binary}, and for connections that use it."""

from __future__ import annotations

from struct import pack
from typing import Any

from twisted.internet.defer import fail
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import (
    Closed,
    InvalidGroup,
    InvalidPartitionCount,
    InvalidTopicName,
    OffsetOutOfRange,
    PartitionNotFound,
    StorageFull,
    TopicExists,
    TopicNotFound,
)
from rustlog.settings import BrokerConfig
from rustlog.wire.rustlog.binary import decode_request, is_binary
from rustlog.wire.rustlog.codec import ParseError
from rustlog.wire.rustlog.errors import code_for
from rustlog.wire.rustlog.messages import (
    FRAME_BYTES_MAX,
    CreateTopicRequest,
    DescribePartitionRequest,
    DescribeTopicRequest,
    FetchRequest,
    ListTopicsRequest,
    MetricsFetchRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    PingRequest,
    ProduceRequest,
)
from rustlog.wire.rustlog.protocol import make_factory
from tests.binary_client import (
    LIST_TOPICS,
    METRICS,
    PING,
    commit,
    committed,
    create,
    describe_partition,
    describe_topic,
    fetch,
    parse,
    produce,
    text,
)
from tests.unit.wire.harness import Client, World, frame, frames
from tests.unit.wire.harness import produce as json_produce

REQUESTS = {
    produce(b"a", b"", topic="t", partition=7): ProduceRequest("t", 7, [b"a", b""]),
    fetch(5, group="g", max_bytes=9): FetchRequest("orders", 0, 5, 9, "g", encoding="binary"),
    fetch(5): FetchRequest("orders", 0, 5, 2**20, None, encoding="binary"),
    commit(5, group="größe"): OffsetCommitRequest("orders", 0, "größe", 5),
    committed(group=""): OffsetFetchRequest("orders", 0, ""),
    create("t", 3): CreateTopicRequest("t", 3),
    LIST_TOPICS: ListTopicsRequest(),
    describe_topic("t"): DescribeTopicRequest("t"),
    describe_partition("t", 2): DescribePartitionRequest("t", 2),
    METRICS: MetricsFetchRequest(),
    PING: PingRequest(),
}


class DecodingTests(SynchronousTestCase):
    def refused(self, payload: bytes, expected: str) -> None:
        """Assert what is said about a bad request."""
        error = self.assertRaises(ParseError, decode_request, payload)
        self.assertEqual(str(error), f"failed to parse request: {expected}")

    def test_requests(self) -> None:
        """Each request is understood."""
        for payload, request in REQUESTS.items():
            self.assertTrue(is_binary(payload))
            self.assertEqual(decode_request(payload), request)

    def test_what_is_binary(self) -> None:
        """The first byte tells; a tab, which may begin JSON, only if it is alone."""
        for first in range(256):
            is_type = 1 <= first <= 8 or first == 0xFF
            self.assertEqual(is_binary(bytes([first]) + b"{}"), is_type, first)
            self.assertEqual(is_binary(bytes([first])), is_type or first == 9, first)
        self.assertFalse(is_binary(b""))

    def test_cut_off(self) -> None:
        """A request that ends too early is refused, wherever it ends, naming the field."""
        for payload in REQUESTS:
            for size in range(1, len(payload)):
                error = self.assertRaises(ParseError, decode_request, payload[:size])
                self.assertIn(": the request ends within it", str(error))
        self.refused(b"\x01", "Produce.topic: the request ends within it")
        self.refused(fetch()[:-1], "Fetch.max_bytes: the request ends within it")
        self.refused(produce(b"abc")[:-1], "Produce.records: the request ends within it")

    def test_too_long(self) -> None:
        """A request that does not end where it should is refused, too."""
        for payload in REQUESTS:
            error = self.assertRaises(ParseError, decode_request, payload + b"xy")
            self.assertIn(": 2 bytes follow its last field", str(error))

    def test_not_text(self) -> None:
        """Names are UTF-8."""
        self.refused(b"\x07\x00\x01\xff", "DescribeTopic.topic: it is not valid UTF-8")

    def test_absurd_count(self) -> None:
        """A count that can not be true costs nothing."""
        self.refused(
            b"\x01" + text("t") + pack(">II", 0, 2**32 - 1), "Produce.records: the request ends within it"
        )


class CodeTests(SynchronousTestCase):
    def test_codes(self) -> None:
        """By what a client knows what went wrong."""
        for error, request, code in (
            (PartitionNotFound("t", 0), ProduceRequest, 10),
            (PartitionNotFound("t", 0), FetchRequest, 10),
            (PartitionNotFound("t", 0), DescribePartitionRequest, 14),
            (TopicNotFound("t"), DescribeTopicRequest, 13),
            (OffsetOutOfRange(1, 2, 3), FetchRequest, 4),
            (Closed(), FetchRequest, 4),
            (OffsetOutOfRange(1, 2, 3), OffsetCommitRequest, 5),
            (InvalidGroup("no"), OffsetFetchRequest, 400),
            (TopicExists("t"), CreateTopicRequest, 11),
            (InvalidPartitionCount("no"), CreateTopicRequest, 12),
            (InvalidTopicName("t", "no"), CreateTopicRequest, 400),
            (StorageFull(), ProduceRequest, 500),
            (Closed(), ProduceRequest, 500),
        ):
            self.assertEqual(code_for(error, request), code, (error, request))


class ConversationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.world.create("orders", 2)
        self.client = self.world.client()

    def ask(self, payload: bytes, client: Client | None = None) -> tuple[Any, ...]:
        return parse((client or self.client).ask_raw(payload))

    def test_records(self) -> None:
        """What is produced is fetched, in pieces or whole, and in both encodings."""
        self.assertEqual(self.ask(produce(b"a", b"", b"\x00\xff")), ("Produce", 0, 3))
        self.assertEqual(self.ask(produce(b"d")), ("Produce", 3, 1))
        self.assertEqual(self.ask(fetch()), ("Fetch", [b"a", b"", b"\x00\xff", b"d"], 4))
        self.assertEqual(self.ask(fetch(1, max_bytes=1)), ("Fetch", [b"", b"\x00\xff"][:1], 2))
        self.assertEqual(self.ask(fetch(4)), ("Fetch", [], 4))
        self.assertEqual(self.ask(fetch(2**64 - 1)), ("Fetch", [], 4))
        self.assertEqual(self.client.ask(json_produce(b"e")), {"Produce": {"offsets": [4]}})
        self.assertEqual(self.ask(fetch(4)), ("Fetch", [b"e"], 5))

    def test_nothing_to_produce(self) -> None:
        """To produce nothing is allowed, where there is something to produce to."""
        self.assertEqual(self.ask(produce()), ("Produce", 0, 0))
        self.assertEqual(self.ask(produce(partition=9))[:2], ("Error", 10))

    def test_groups(self) -> None:
        """The higher of committed and requested offset is fetched from."""
        self.ask(produce(b"a", b"b", b"c"))
        self.assertEqual(self.ask(committed()), ("OffsetFetch", None))
        self.assertEqual(self.ask(fetch(1, group="kitchen")), ("Fetch", [b"b", b"c"], 3))
        self.assertEqual(self.ask(commit(2)), ("OffsetCommit", 1))
        self.assertEqual(self.ask(committed()), ("OffsetFetch", 2))
        self.assertEqual(self.ask(fetch(1, group="kitchen")), ("Fetch", [b"c"], 3))
        self.assertEqual(self.ask(commit(0, partition=9)), ("OffsetCommit", 0))
        code, message = self.ask(commit(2**63))[1:]
        self.assertEqual((code, message.partition(":")[0]), (5, "offset out of range"))

    def test_topics(self) -> None:
        """Topics are made, listed and described."""
        self.assertEqual(self.ask(create("audit", 3)), ("CreateTopic", 1))
        self.assertEqual(self.ask(LIST_TOPICS), ("ListTopics", [("audit", 3), ("orders", 2)]))
        self.ask(produce(b"a", b"b", partition=1))
        self.assertEqual(self.ask(describe_topic("orders")), ("DescribeTopic", "orders", 2, [(0, 0), (1, 2)]))
        self.assertEqual(self.ask(describe_partition("orders", 1)), ("DescribePartition", "orders", 1, 2))

    def test_errors(self) -> None:
        """What goes wrong is told with a code and a sentence, and the connection stays."""
        for payload, code, message in (
            (produce(b"a", topic="no"), 10, "partition not found: topic=no, partition=0"),
            (fetch(topic="no"), 10, "partition not found: topic=no, partition=0"),
            (create("orders"), 11, "topic exists already: orders"),
            (create("new", 0), 12, "invalid partition count: 0 is not within 1..10000"),
            (
                create("a b"),
                400,
                "invalid topic name: only ASCII letters, digits, '.', '_' and '-' are allowed",
            ),
            (describe_topic("no"), 13, "topic not found: no"),
            (describe_partition("orders", 9), 14, "partition not found: topic=orders, partition=9"),
            (b"\x07", 2, "failed to parse request: DescribeTopic.topic: the request ends within it"),
            (PING + b"?", 2, "failed to parse request: Ping: 1 bytes follow its last field"),
        ):
            self.assertEqual(self.ask(payload), ("Error", code, message))
        self.assertEqual(self.ask(PING), ("Ping",))

    def test_internal_error(self) -> None:
        """A defect is told as such."""
        self.patch(self.world.memory, "append", lambda *_: fail(ZeroDivisionError()))
        self.assertEqual(self.ask(produce(b"a")), ("Error", 500, "internal error"))
        self.flushLoggedErrors(ZeroDivisionError)

    def test_ping_and_metrics(self) -> None:
        """A ping is one byte, there and back; so is the question for measurements."""
        self.assertEqual(self.client.ask_raw(b"\xff"), b"\xff")
        self.client.send_bytes(frame(METRICS))
        self.world.clock.pump([0] * 1000)
        (answer,) = frames(self.client.transport.value())
        name, metrics = parse(answer)
        self.assertEqual(name, "MetricsFetch")
        self.assertIn(b"rustlog_requests_total{", metrics)

    def test_answer_that_does_not_fit(self) -> None:
        """An answer that would be larger than a frame is an error instead."""
        self.patch(self.world.listener.monitoring, "metrics_text", lambda: b"x" * FRAME_BYTES_MAX)
        answer = self.ask(METRICS, Client(make_factory(self.world.listener)))
        expected = (
            f"max frame size exceeded: the answer has {FRAME_BYTES_MAX + 5} bytes, at most 10485760 fit"
        )
        self.assertEqual(answer, ("Error", 400, expected))

    def test_last_words(self) -> None:
        """Who spoke binary last is told in binary that a frame is too large."""
        self.ask(PING)
        self.client.send_bytes(pack(">I", FRAME_BYTES_MAX + 1))
        answer = parse(self.client.transport.value()[4:])
        self.assertEqual(answer[:2], ("Error", 1))
        self.assertTrue(answer[2].startswith("max frame size exceeded: 10485761 bytes"))

    def test_refused_connection(self) -> None:
        """Who has not spoken yet is told in JSON."""
        world = World(BrokerConfig(max_connections=1))
        world.client()
        (answer,) = world.client().received()
        self.assertEqual(answer, {"Error": {"message": "too many connections: try again later"}})

    def test_mixed(self) -> None:
        """Each request is answered in its own encoding, in order."""
        self.assertEqual(self.client.ask("Ping"), {"Ping": {}})
        self.assertEqual(self.ask(PING), ("Ping",))
        self.assertIn("failed to parse request", self.client.ask_bytes(b"\t{}")["Error"]["message"])
        self.assertEqual(self.client.ask_bytes(b'\t"Ping"'), {"Ping": {}})
