"""Tests for L{rustlog.wire.kafka.protocol}: whole requests and responses, without a network."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import LogLevel, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.batch import RecordBatch
from rustlog.model import Appended
from rustlog.observability.requests import RequestLog
from rustlog.testing.delayed import DelayedLogStore
from rustlog.wire.kafka import apis, protocol
from rustlog.wire.kafka.calls import Api
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.fetch import PartitionRecords, TopicRecords
from rustlog.wire.kafka.headers import encode_header
from rustlog.wire.kafka.schema import decode, response_class
from rustlog.wire.kafka.settings import KafkaSettings
from tests.unit.wire.harness import FakeTransport, frame, frames
from tests.unit.wire.kafka.client import KafkaWorld, batch_of, fetch_request, produce_request

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18


class ConnectionCase(SynchronousTestCase):
    settings = KafkaSettings()

    def setUp(self) -> None:
        self.events: list[Any] = []
        globalLogPublisher.addObserver(self.events.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.events.append)
        self.make()

    def make(self, **more: Any) -> None:
        self.world = KafkaWorld(settings=self.settings, **more)
        self.world.create("orders", 2)
        self.client = self.world.kafka_client()

    def warnings(self) -> list[str]:
        return [
            each["log_format"].format_map(each) for each in self.events if each["log_level"] is LogLevel.warn
        ]

    def assert_closed(self, client: Any) -> None:
        self.assertTrue(client.transport.is_write_closed or client.transport.disconnecting)


class VersionsTests(ConnectionCase):
    def test_unknown_version(self) -> None:
        """Who asks in a version that we do not know is told, in version 0, which ones we do."""
        head = encode_header(API_VERSIONS, 9, 5, "new", True)
        self.client.send_bytes(frame(head + b"whatever"))
        (payload,) = frames(self.client.transport.value())
        self.assertEqual(payload[:4], b"\0\0\0\x05")
        response = decode(response_class(API_VERSIONS, 0), payload, 4)
        self.assertIs(response.error_code, ErrorCode.unsupported_version)
        offered = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        self.assertEqual(offered[API_VERSIONS], (0, 4))

    def test_header_of_the_answer(self) -> None:
        """The answer to ApiVersions has the old header in every version."""
        for version in range(5):
            software = {"client_software_name": "tester", "client_software_version": "7"}
            response = self.client.ask_entity(API_VERSIONS, version, **software)
            self.assertIs(response.error_code, ErrorCode.none)

    def test_old_versions_of_produce(self) -> None:
        """They are offered, since some clients look for them, but not served."""
        response = self.client.ask_entity(API_VERSIONS, 0)
        self.assertEqual(response.api_keys[0].min_version, 0)
        self.client.send_bytes(frame(encode_header(PRODUCE, 2, 1, "old", False) + b"body"))
        self.assert_closed(self.client)


class RefusalTests(ConnectionCase):
    def test_unknown_api(self) -> None:
        """What is not offered ends the connection, with one line that says whose it was."""
        software = {"client_software_name": "tester", "client_software_version": "7"}
        self.client.ask_entity(API_VERSIONS, 3, **software)
        self.client.send_bytes(frame(encode_header(999, 0, 1, "me", False)))
        self.assertEqual(self.client.received(), [])
        self.assert_closed(self.client)
        (line,) = self.warnings()
        for part in ("192.168.1.1:54321", "'me'", "tester 7", "API 999"):
            self.assertIn(part, line)

    def test_unknown_version(self) -> None:
        """So does a version that is not served."""
        self.client.send_bytes(frame(encode_header(METADATA, 99, 1, "me", True)))
        self.assert_closed(self.client)
        self.assertIn("Metadata in version 99", self.warnings()[0])

    def test_no_header(self) -> None:
        """So does what is no request at all."""
        self.client.send_bytes(frame(b"GET"))
        self.assert_closed(self.client)
        self.assertEqual(len(self.warnings()), 1)

    def test_before_and_after(self) -> None:
        """What came before is answered; what comes after is not."""
        self.client.send_entity(METADATA, 1, topics=[])
        self.client.send_bytes(frame(encode_header(999, 0, 1, "me", False)))
        self.client.send_entity(METADATA, 1, topics=[])
        self.assertEqual(len(self.client.received()), 1)

    def test_unreadable_body_with_a_code(self) -> None:
        """Where a response has a place for it, the client is told, and the connection goes on."""
        self.client.send_body(API_VERSIONS, 3, b"\xff")
        self.assertIs(self.client.one().error_code, ErrorCode.invalid_request)
        self.assertEqual(len(self.warnings()), 1)
        self.client.send_body(FETCH, 12, b"\xff")
        self.assertEqual(self.client.one().error_code, ErrorCode.invalid_request)
        self.assertEqual(self.client.fetch().error_code, 0)

    def test_unreadable_body_without_a_code(self) -> None:
        """Where it has none, the connection ends."""
        self.client.send_body(PRODUCE, 9, b"\xff")
        self.assertEqual(self.client.received(), [])
        self.assert_closed(self.client)
        self.assertIn("Produce request (version 9) can not be read", self.warnings()[0])

    def test_too_large(self) -> None:
        """A request beyond the limit ends the connection before it is received."""
        self.client.send_bytes((self.settings.socket_request_max_bytes + 1).to_bytes(4, "big"))
        self.assertEqual(self.client.received(), [])
        self.assert_closed(self.client)

    def test_negative_length(self) -> None:
        """So does one whose length is negative."""
        self.client.send_bytes(b"\xff\xff\xff\xff")
        self.assert_closed(self.client)

    def test_mistakes(self) -> None:
        """A handler that fails in an unexpected way is logged, and the client is told if that is possible."""

        def fail(call: Any) -> Any:
            raise ZeroDivisionError

        for key, is_told in ((API_VERSIONS, True), (METADATA, False)):
            self.make()
            broken: dict[int, Api] = {**apis.APIS, key: evolve(apis.APIS[key], handler=fail)}
            self.patch(protocol, "APIS", broken)
            fields = {"topics": []} if key == METADATA else {}
            self.client.send_entity(key, 0, **fields)
            self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
            if is_told:
                self.assertIs(self.client.one().error_code, ErrorCode.unknown_server_error)
            else:
                self.assert_closed(self.client)

    @given(st.binary(max_size=100))
    def test_anything(self, payload: bytes) -> None:
        """Whatever comes, the connection answers or ends, and nothing else happens."""
        client = self.world.kafka_client()
        client.send_bytes(frame(payload))
        frames(client.transport.value())
        client.disconnect()
        self.assertEqual(self.world.capacity.budget.requests.used, 0)

    @given(st.sampled_from(sorted(apis.APIS)), st.data(), st.binary(max_size=100))
    def test_any_body(self, key: int, data: st.DataObject, body: bytes) -> None:
        """The same for anything behind a good header."""
        api = apis.APIS[key]
        version = data.draw(st.integers(max(api.min_version, api.served_min_version), api.max_version))
        client = self.world.kafka_client()
        client.send_body(key, version, body)
        frames(client.transport.value())
        client.disconnect()
        self.assertEqual(self.world.capacity.budget.requests.used, 0)
        self.assertEqual(self.flushLoggedErrors(), [])


class OrderTests(ConnectionCase):
    def setUp(self) -> None:
        super().setUp()
        self.make(
            wrap=lambda store, environment: DelayedLogStore(store, environment.clock, environment.random)
        )

    def test_produces_overlap(self) -> None:
        """Consecutive produces are worked on together, and answered in order."""
        for value in (b"a", b"b", b"c"):
            self.client.send_produce(produce_request(batch_of(value)))
        self.client.send_fetch(fetch_request())
        self.assertEqual(self.client.received(), [])
        responses: list[Any] = []
        for _ in range(200):
            self.world.clock.advance(0.01)
            responses += self.client.received()
        offsets = [each.topics[0].partitions[0].base_offset for each in responses[:3]]
        self.assertEqual(offsets, [0, 1, 2])
        # Who has written reads what it wrote.
        self.assertEqual(responses[3].topics[0].partitions[0].high_watermark, 3)

    def test_no_acknowledgement(self) -> None:
        """With acks=0 there is no response at all, and the next one is in order."""
        self.client.send_produce(produce_request(batch_of(b"a"), acks=0))
        self.client.send_produce(produce_request(batch_of(b"b"), acks=1))
        responses: list[Any] = []
        for _ in range(200):
            self.world.clock.advance(0.01)
            responses += self.client.received()
        self.assertEqual([each.topics[0].partitions[0].base_offset for each in responses], [1])

    def test_gathered_results(self) -> None:
        """Handlers may answer with any kind of Deferred."""
        topics = [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        self.make()
        response = self.client.ask_entity(LIST_OFFSETS, 2, replica_id=-1, isolation_level=0, topics=topics)
        self.assertEqual(response.topics[0].partitions[0].offset, 0)
        gathering: Deferred[Any] = Deferred()
        told = DeferredList([gathering], fireOnOneErrback=True, consumeErrors=True)
        self.patch(
            protocol,
            "APIS",
            {**apis.APIS, METADATA: evolve(apis.APIS[METADATA], handler=lambda _: told, is_cancellable=True)},
        )
        self.client.send_entity(METADATA, 1, topics=[])
        self.client.disconnect()
        self.assertTrue(gathering.called, "it was not cancelled")

    def test_client_goes_during_a_long_poll(self) -> None:
        """A fetch that waits ends with its client."""
        self.make()
        self.client.send_fetch(fetch_request(max_wait_ms=30_000))
        self.assertEqual(self.client.received(), [])
        self.assertTrue(self.client.transport.is_reading)
        self.client.disconnect()
        self.assertEqual(self.world.clock.getDelayedCalls(), [])
        self.assertEqual(self.world.capacity.budget.requests.used, 0)


    def test_stop_during_a_long_poll(self) -> None:
        """Nobody waits for data from a broker that stops; what can be answered is."""
        self.make()
        self.client.send_produce(produce_request(batch_of(b"a")))
        self.client.send_fetch(fetch_request(1, max_wait_ms=30_000))
        self.assertEqual(len(self.client.received()), 1)
        drained = self.world.kafka.drain()
        self.client.settle()
        self.assertTrue(self.client.transport.is_write_closed or self.client.is_gone)
        self.client.disconnect()
        self.successResultOf(drained)
        self.assertEqual(self.world.clock.getDelayedCalls(), [])


class AddressTests(ConnectionCase):
    def advertised(self, address: Any, told: tuple[str, int] | None = None) -> tuple[str, int]:
        self.world.kafka.listener = evolve(self.world.listener, advertised=told)
        connection = self.world.kafka.buildProtocol(None)
        transport = FakeTransport()
        transport.hostAddr = address
        connection.makeConnection(transport)
        advertised: tuple[str, int] = connection.services.advertised
        return advertised

    def test_advertised(self) -> None:
        """Clients are told what the operator says, or else where they found us."""
        here = IPv4Address("TCP", "10.0.0.7", 9092)
        self.assertEqual(self.advertised(here), ("10.0.0.7", 9092))
        self.assertEqual(self.advertised(IPv6Address("TCP", "::1", 19092)), ("::1", 19092))
        self.assertEqual(self.advertised(here, ("kafka.example", 1234)), ("kafka.example", 1234))
        self.assertEqual(self.advertised(UNIXAddress(b"/run/socket")), ("localhost", 9092))


class LogTests(ConnectionCase):
    def messages(self) -> list[tuple[str, str]]:
        return [
            (each["log_level"].name, each["log_format"].format_map(each))
            for each in self.events
            if each["log_namespace"].startswith("rustlog.wire")
        ]

    def test_what_is_told(self) -> None:
        """With --log-level=debug, each step of a request is told."""
        self.make(requests=RequestLog(is_wanted=True))
        del self.events[:-1]  # but the greeting
        self.client.produce(batch_of(b"a"), topic="test-topic")
        self.client.fetch(topic="test-topic")
        told = self.messages()
        wanted = [
            ("info", "New connection from: 192.168.1.1:54321"),
            ("debug", "Processing PRODUCE request (correlation_id: 1)"),
            ("info", "Creating new topic: test-topic"),
            ("debug", "Produce request for topic: test-topic"),
            ("debug", "Message stored at offset 0 in topic test-topic"),
            ("debug", "Sent response (57 bytes)"),
            ("debug", "Processing FETCH request (correlation_id: 2)"),
            ("debug", "Fetch request for topic: test-topic, offset: 0, max_bytes: 1048576"),
            ("debug", "Retrieved 1 messages from topic test-topic"),
        ]
        self.assertEqual([each for each in told if each in wanted], wanted)
        self.assertTrue(told[-1][1].startswith("Sent response ("), told[-1])
        summaries = [
            (each["request"], each["topic"], each["partition"], each["records"])
            for each in self.events
            if "records" in each
        ]
        self.assertEqual(summaries, [("Produce", "test-topic", 0, 1), ("Fetch", "test-topic", 0, 1)])

    def test_what_is_not_told(self) -> None:
        """Otherwise nothing is said of a request."""
        self.client.produce(batch_of(b"a"))
        self.client.fetch()
        self.assertEqual([each for each in self.messages() if each[0] == "debug"], [])


class MemoryTests(ConnectionCase):
    def test_answers_wait_for_memory(self) -> None:
        """Where slices have to be read, an answer is sent when there is memory for it; or never."""
        (partition,) = [self.world.memory.partition("orders", 0)]
        (appended,) = self.world.memory.append([(partition, RecordBatch(batch_of(b"x" * 1000)))])
        self.assertIsInstance(appended, Appended)
        pool = self.world.capacity.budget.answers
        pool.take(2**40)
        self.client.send_fetch(fetch_request())
        other = self.world.kafka_client()
        other.send_fetch(fetch_request())
        self.assertEqual(self.client.received(), [])
        other.disconnect()
        pool.give_back(2**40)
        self.world.clock.advance(0)
        self.assertEqual(self.client.one().topics[0].partitions[0].high_watermark, 1)
        self.assertEqual(pool.used, 0)

    def test_result_is_released(self) -> None:
        """What is found for a client that has gone is given back."""
        released: list[object] = []

        def answer(call: Any) -> Deferred[Any]:
            waiting.append(Deferred())
            return waiting[-1]

        waiting: list[Deferred[Any]] = []
        stubborn = evolve(apis.APIS[FETCH], handler=answer, is_cancellable=False)
        self.patch(protocol, "APIS", {**apis.APIS, FETCH: stubborn})

        class Slice:
            size = 3

            def release(self) -> None:
                released.append(self)

        self.client.send_fetch(fetch_request())
        self.client.disconnect()
        found = protocol.APIS[FETCH].codec.refuse(stubborn, 12, ErrorCode.none)
        one: Any = Slice()
        found.topics = [TopicRecords("orders", None, [PartitionRecords(0, records=[one], size=3)])]
        waiting[0].callback(found)
        self.assertEqual(released, [one])
