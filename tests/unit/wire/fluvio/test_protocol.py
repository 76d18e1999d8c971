"""Tests for L{rustlog.wire.fluvio.protocol}: the connection itself."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.logger import Logger
from twisted.trial.unittest import SynchronousTestCase

from rustlog.observability.requests import RequestLog
from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.apis import BOTH_ROLES, Role, offered
from rustlog.wire.fluvio.codec import MESSAGES
from rustlog.wire.fluvio.consumers import FetchConsumerOffsetsRequest
from rustlog.wire.fluvio.controller import CreateRequest, ListRequest, Status, WatchRequest
from rustlog.wire.fluvio.errors import NONE
from rustlog.wire.fluvio.fetching import FetchOffsetsRequest
from rustlog.wire.fluvio.protocol import (
    HANDLERS,
    FluvioConnection,
    IntroducedConnection,
    RequestWork,
    make_factory,
    make_unit_factory,
)
from rustlog.wire.fluvio.settings import FluvioSettings
from rustlog.wire.fluvio.topics import ComputedReplicas, TopicSpec
from rustlog.wire.fluvio.versions import ApiVersionsRequest
from rustlog.wire.listener import Places
from tests.unit.wire.fluvio.client import (
    FluvioCase,
    FluvioClient,
    FluvioWorld,
    produce_request,
    records_of,
)
from tests.unit.wire.harness import FakeTransport, frame

HERE = IPv4Address("TCP", "127.0.0.1", 9003)


class TableTests(SynchronousTestCase):
    def test_handlers(self) -> None:
        """Everything that is in the table has somebody who answers it."""
        self.assertEqual(set(HANDLERS), set(apis.APIS))
        self.assertEqual(set(HANDLERS), set(MESSAGES))


class ConversationTests(FluvioCase):
    """A whole one, in whatever pieces its bytes come."""

    def conversation(self, client: FluvioClient) -> list[bytes]:
        spec = TopicSpec(ComputedReplicas(1))
        return [
            client.encoded(apis.API_VERSIONS, ApiVersionsRequest("0.15.2", "linux", "x86_64")),
            *(client.encoded(apis.WATCH, WatchRequest(label)) for label in ("SPU", "Partition", "Topic")),
            client.encoded(apis.CREATE, CreateRequest("Topic", "dry", spec, dry_run=True)),
            client.encoded(apis.PRODUCE, produce_request((0, records_of(b"a", b"b")), (1, records_of(b"c")))),
            client.encoded(apis.FETCH_OFFSETS, FetchOffsetsRequest((("orders", (0,)),))),
            client.encoded(apis.LIST, ListRequest("Partition")),
            client.encoded(apis.FETCH_CONSUMER_OFFSETS, FetchConsumerOffsetsRequest()),
        ]

    def test_pieces(self) -> None:
        """The answers are the same, in order."""
        answers = []
        for size in (1, 7, 100_000):
            self.start()
            data = b"".join(self.conversation(self.client))
            for position in range(0, len(data), size):
                self.client.send_bytes(data[position : position + size])
            answers.append(self.client.transport.value())
            numbers = [number for number, _ in self.client.received()]
            self.assertEqual(numbers, list(range(1, 10)))
            self.assert_nothing_held()
        self.assertEqual(len(set(answers)), 1)

    def test_api_versions(self) -> None:
        """What is offered is told whatever version is asked for, and by whom."""
        for version in (0, 1, 2):
            response = self.client.call(apis.API_VERSIONS, ApiVersionsRequest("x"), version)
            self.assertEqual((response.error, response.platform_version), (NONE, "0.17.3"))
            self.assertEqual(response.apis, offered(BOTH_ROLES))

    def test_same_id_twice(self) -> None:
        """The first request behind ApiVersions has its id once more."""
        self.client.call(apis.API_VERSIONS, ApiVersionsRequest())
        self.client.correlation_id = 0
        number = self.client.watch("SPU")
        self.assertEqual(number, 1)
        self.assertEqual(self.client.one().label, "SPU")


class RoleTests(SynchronousTestCase):
    """Which port is what, and where clients are sent to."""

    def world(self, *units: tuple[str, int, Any], **more: Any) -> FluvioWorld:
        places = Places()
        for host, port, advertised in units:
            places.add("fluvio-spu", IPv4Address("TCP", host, port), advertised)
        return FluvioWorld(places=places, **more)

    def seen(self, world: FluvioWorld, here: Any = HERE) -> tuple[Any, tuple[str | None, int]]:
        """Roles, and the address of the unit, for a client that has connected there."""
        transport = FakeTransport()
        transport.hostAddr = here
        connection: FluvioConnection = world.fluvio.buildProtocol(None)
        connection.makeConnection(transport)
        (unit,) = connection.services.cluster.objects("SPU", ())
        public = unit.spec.public  # type: ignore[union-attr]
        return set(connection.services.roles), (public.ingress[0].hostname, public.port)

    def test_one_port(self) -> None:
        """By itself a port is both, and its unit is where the client has connected."""
        self.assertEqual(self.seen(self.world()), (set(BOTH_ROLES), ("127.0.0.1", 9003)))
        there = IPv6Address("TCP", "::1", 9003)
        self.assertEqual(self.seen(self.world(), there)[1], ("[::1]", 9003))

    def test_advertised(self) -> None:
        """Unless another address is advertised."""
        world = self.world()
        world.fluvio = make_factory(evolve(world.listener, advertised=("log.example.org", 7)))
        self.assertEqual(self.seen(world), (set(BOTH_ROLES), ("log.example.org", 7)))

    def test_two_ports(self) -> None:
        """Where units have a port of their own, this one is the controller, and sends clients there."""
        world = self.world(("127.0.0.1", 9010, None))
        self.assertEqual(self.seen(world), ({Role.SC}, ("127.0.0.1", 9010)))
        world = self.world(("0.0.0.0", 9010, None))
        self.assertEqual(self.seen(world)[1], ("127.0.0.1", 9010))
        world = self.world(("0.0.0.0", 9010, ("unit.example.org", 7)))
        self.assertEqual(self.seen(world)[1], ("unit.example.org", 7))

    def test_unit(self) -> None:
        """A port of its own is a unit and nothing else."""
        roles, _ = self.seen(self.world(("127.0.0.1", 9010, None), make=make_unit_factory))
        self.assertEqual(roles, {Role.SPU})

    def test_local_socket(self) -> None:
        """One that is no place on a network sends clients to the default port."""
        self.assertEqual(self.seen(self.world(), UNIXAddress(b"/x"))[1], ("localhost", 9003))

    def test_what_is_not_offered(self) -> None:
        """What the other kind of port offers is not answered here."""
        for make, api, request in (
            (make_unit_factory, apis.WATCH, WatchRequest("SPU")),
            (make_factory, apis.PRODUCE, produce_request()),
        ):
            client = self.world(("127.0.0.1", 9010, None), make=make).fluvio_client()
            response = client.call(apis.API_VERSIONS, ApiVersionsRequest())
            self.assertNotIn(api.key, [each.key for each in response.apis])
            client.request(api, request)
            self.assertEqual(client.received(), [])
            self.assertTrue(client.transport.is_write_closed)

    def test_same_key(self) -> None:
        """With both roles on one port, the version tells which of two APIs is meant."""
        client = self.world().fluvio_client()
        self.assertEqual(client.call(apis.LIST, ListRequest("SPU")).label, "SPU")
        client.stream(0, topic="nope")
        self.assertEqual(client.one().error.name, "NotLeaderForPartition")


class BadRequestTests(FluvioCase):
    def setUp(self) -> None:
        super().setUp()
        self.warnings = warnings = list[str]()

        class Ear(Logger):
            def warn(self, format: str, **values: Any) -> None:  # type: ignore[override]
                warnings.append(format.format(**values))

        for kind in (FluvioConnection, IntroducedConnection, RequestWork):
            self.patch(kind, "_log", Ear())

    def assert_closed(self, words: str) -> None:
        self.assertEqual(self.client.received(), [])
        self.assertTrue(self.client.transport.is_write_closed)
        (line,) = self.warnings
        self.assertIn(words, line)
        self.assertIn("192.168.1.1", line)

    def test_unknown_api(self) -> None:
        """An API that there is not."""
        self.client.send_body(1, 10, b"", "me")
        self.assert_closed("(client id 'me'): it asked for API 1, which is not offered")

    def test_unknown_version(self) -> None:
        """A version that there is not."""
        self.client.send_body(1004, 20, b"")
        self.assert_closed("it asked for Watch in version 20, which is not offered")

    def test_no_header(self) -> None:
        """Bytes that are no request at all."""
        self.client.send_bytes(frame(b"\0\0"))
        self.assert_closed("it sent something that is not a request")

    def test_too_large(self) -> None:
        """A request that is larger than any may be is not even received."""
        self.client.send_bytes((100 * 1024 * 1024 + 1).to_bytes(4, "big"))
        self.assertTrue(self.client.transport.is_write_closed)
        self.start(settings=FluvioSettings(request_max_bytes=1024))
        self.client.send_bytes((1025).to_bytes(4, "big"))
        self.assertTrue(self.client.transport.is_write_closed)

    def test_unreadable_with_a_code(self) -> None:
        """Where an answer has a place for it, a body that can not be read is answered so."""
        for api in (
            apis.CREATE,
            apis.DELETE,
            apis.STREAM_FETCH,
            apis.UPDATE_CONSUMER_OFFSET,
            apis.DELETE_CONSUMER_OFFSET,
            apis.FETCH_CONSUMER_OFFSETS,
        ):
            version = api.accepted[-1]
            number = self.client.send_body(api.key, version, b"\7")
            self.client.asked[number] = api, version
            error = self.client.one().error
            self.assertEqual(error.name, "Other")
            self.assertIn("can not be read", error.facts[0])
            self.assertIn(f"is refused: its {api.name} request", self.warnings.pop())
        self.assertTrue(self.client.transport.is_reading)

    def test_unreadable_without_a_code(self) -> None:
        """Where it has none, the connection is closed."""
        for api in (apis.PRODUCE, apis.FETCH_OFFSETS, apis.UPDATE_OFFSETS, apis.WATCH, apis.LIST):
            self.client = self.world.fluvio_client()
            self.client.send_body(api.key, api.accepted[-1], b"\7")
            self.assert_closed(f"its {api.name} request")
            self.warnings.clear()

    def test_what_was_asked_before(self) -> None:
        """What was asked before something that can not be answered is answered, what comes after is not."""
        first = self.client.encoded(apis.LIST, ListRequest("SPU"))
        later = self.client.encoded(apis.LIST, ListRequest("SPU"))
        self.client.send_bytes(first + frame(b"?") + later)
        self.assertEqual([number for number, _ in self.client.received()], [1])

    def test_defect(self) -> None:
        """A defect of ours is told, with a line in the log, and the connection goes on."""
        self.patch(self.world.broker, "delete_topic", lambda *_: 1 / 0)
        self.patch(RequestWork, "_log", Logger())
        self.client.delete("orders")
        response: Status = self.client.one()
        self.assertEqual((response.error.name, response.message), ("UnknownServerError", "internal error"))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertTrue(self.client.transport.is_reading)

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def test_anything(self, data: st.DataObject) -> None:
        """Whatever comes, nobody else is harmed, and nothing is left behind."""
        world = FluvioWorld()
        world.create("orders", 2)
        client, other = world.fluvio_client(), world.fluvio_client()
        api = data.draw(st.sampled_from(apis.APIS))
        version = data.draw(st.sampled_from(api.accepted[-3:]))
        client.send_body(api.key, version, data.draw(st.binary(max_size=60)))
        client.send_bytes(frame(data.draw(st.binary(max_size=40))))
        self.assertEqual(other.produce(b"a").error, NONE)
        client.disconnect()
        other.disconnect()
        world.clock.advance(30)
        budget = world.capacity.budget
        self.assertEqual((budget.requests.used, budget.answers.used), (0, 0))
        self.assertEqual(self.flushLoggedErrors(), [])


class EndTests(FluvioCase):
    def test_too_many_connections(self) -> None:
        """One that is refused at the door ends in order, though it has no streams yet."""
        self.patch(self.world.capacity, "connections_max", 1)
        client = self.world.fluvio_client()
        self.assertTrue(client.transport.is_write_closed)

    def test_drain_before_it_begins(self) -> None:
        """So does one that comes when the broker stops."""
        self.client.disconnect()
        self.successResultOf(self.world.fluvio.drain())
        client = self.world.fluvio_client()
        self.assertTrue(client.transport.disconnecting)
        client.settle()

    def test_drain_answers(self) -> None:
        """A topic that was asked for is made and told, then the connection ends."""
        self.client.watch("Topic")
        self.client.create("more")
        self.client.received()
        drained = self.world.fluvio.drain()
        self.clock.advance(0.01)
        self.assertEqual(self.client.one(), Status("more"))
        self.assertTrue(self.client.transport.is_write_closed)
        self.client.disconnect()
        self.successResultOf(drained)
        self.assert_nothing_held()

    def test_stream_behind_the_end(self) -> None:
        """A stream that is opened while the connection ends does not outlive it."""
        self.append(b"a")
        self.client.create("more")
        self.client.stream(0)
        self.client.watch("Topic")
        drained = self.world.fluvio.drain()
        self.clock.advance(0.01)
        self.client.disconnect()
        self.successResultOf(drained)
        self.assertEqual(len(self.world.memory._watchers._listeners), 0)
        self.assert_nothing_held()


class TellingTests(FluvioCase):
    def test_counted(self) -> None:
        """Requests and pushes are counted by their names and what became of them."""
        self.client.produce(b"a")
        self.client.produce(b"a", topic="nope")
        self.client.stream(0)
        self.client.watch("Topic")
        self.world.create("more")
        self.clock.advance(0)
        tallies = self.world.listener.meter.tallies
        expected = {
            ("Produce", "ok"),
            ("Produce", "NotLeaderForPartition"),
            ("StreamFetch", "ok"),
            ("StreamFetchPush", "ok"),
            ("Watch", "ok"),
            ("WatchPush", "ok"),
        }
        self.assertEqual(set(tallies), expected)
        self.assertGreater(tallies["StreamFetchPush", "ok"].response_bytes, 50)

    def test_told(self) -> None:
        """Who debugs reads of each request and each push."""
        heard: list[tuple[str, Any, Any, int, str]] = []

        class Ear(RequestLog):
            def answered(self, context: Any, request: str, **more: Any) -> None:
                heard.append(
                    (request, more["topic"], more["partition"], more["records"], more["outcome"])
                )

        self.start(requests=Ear(is_wanted=True))
        self.client.produce(b"a", b"b", partition=1)
        self.client.stream(0, partition=1)
        expected = [
            ("Produce", "orders", 1, 2, "ok"),
            ("StreamFetchPush", "orders", 1, 2, "ok"),
            ("StreamFetch", "orders", 1, 0, "ok"),
        ]
        self.assertEqual(heard, expected)

    def test_name_of_the_client(self) -> None:
        """A client is known by what it calls itself, but not by what all say when they watch."""
        self.client.call(apis.API_VERSIONS, ApiVersionsRequest("0.15.2", "linux", "x86_64"))
        self.client.send_body(1004, 19, b"", "dummy")
        connection = self.client.connection
        self.assertEqual(connection.context.client_id, "fluvio")
        self.assertIn("client id 'fluvio', fluvio-socket 0.15.2", connection.full_name)
