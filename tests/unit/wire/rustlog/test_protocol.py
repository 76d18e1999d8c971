"""Tests for L{rustlog.wire.rustlog.protocol}: conversations, as in the specification."""

from __future__ import annotations

import json
from itertools import pairwise
from struct import pack
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog.errors import Closed
from rustlog.interfaces import IDrainableFactory
from rustlog.settings import BrokerConfig
from rustlog.testing.delayed import DelayedLogStore, DelayedOffsetStore
from rustlog.testing.environment import simulated_environment
from rustlog.wire.rustlog.messages import FRAME_BYTES_MAX
from tests.unit.wire.harness import World, fetch, frame, frames, produce


def commit(offset: int, group: str = "processor", partition: int = 0) -> dict[str, Any]:
    fields = {"topic": "orders", "partition": partition, "group_id": group, "offset": offset}
    return {"OffsetCommit": fields}


def committed(group: str = "processor") -> dict[str, Any]:
    return {"OffsetFetch": {"topic": "orders", "partition": 0, "group_id": group}}


class SpecificationTests(SynchronousTestCase):
    """Every example of the specification, word for word."""

    def setUp(self) -> None:
        self.world = World()
        self.world.create("orders", 2)
        self.client = self.world.client()

    def says(self, request: str, response: str) -> None:
        """The client sends one text and receives another, blanks aside."""
        answer = self.client.ask_bytes(request.encode())
        self.assertEqual(answer, json.loads(response))

    def fill(self, count: int) -> None:
        """So that the next offset is C{count}."""
        self.client.ask(produce(*[b""] * count))

    def test_produce(self) -> None:
        """Request type 1."""
        self.fill(1000)
        self.says(
            """{
              "Produce": {
                "topic": "orders",
                "partition": 0,
                "records": [
                  [98, 121, 116, 101, 115],
                  [109, 111, 114, 101]
                ]
              }
            }""",
            '{"Produce": {"offsets": [1000, 1001]}}',
        )

    def test_fetch(self) -> None:
        """Request type 2, and its response."""
        self.fill(1000)
        self.client.ask(produce(b"bytes", b"more"))
        self.says(
            """{
              "Fetch": {
                "topic": "orders",
                "partition": 0,
                "offset": 1000,
                "max_bytes": 1048576,
                "group_id": "order-processor"
              }
            }""",
            """{
              "Fetch": {
                "records": [
                  { "offset": 1000, "payload": [98, 121, 116, 101, 115] },
                  { "offset": 1001, "payload": [109, 111, 114, 101] }
                ],
                "next_offset": 1002
              }
            }""",
        )

    def test_offset_commit_and_fetch(self) -> None:
        """Request types 3 and 4, with and without a committed offset."""
        asked = '"topic": "orders", "partition": 0, "group_id": "order-processor"'
        fetching = f'{{"OffsetFetch": {{{asked}}}}}'
        self.says(fetching, '{"OffsetFetch": {"offset": null}}')
        self.says(f'{{"OffsetCommit": {{{asked}, "offset": 1500}}}}', '{"OffsetCommit": {"success": true}}')
        self.says(fetching, '{"OffsetFetch": {"offset": 1500}}')

    def test_error(self) -> None:
        """Response type 5."""
        self.says(
            '{"Fetch": {"topic": "orders", "partition": 99, "offset": 0, "max_bytes": 1, "group_id": null}}',
            '{"Error": {"message": "partition not found: topic=orders, partition=99"}}',
        )

    def test_example_1(self) -> None:
        """Produce, then produce again."""
        self.fill(1000)
        self.says(
            '{"Produce": {"topic": "orders", "partition": 0, "records": [[10, 20], [30, 40]]}}',
            '{"Produce": {"offsets": [1000, 1001]}}',
        )
        self.says(
            '{"Produce": {"topic": "orders", "partition": 0, "records": [[50, 60]]}}',
            '{"Produce": {"offsets": [1002]}}',
        )

    def test_example_2(self) -> None:
        """Fetch with a consumer group, commit, restart, and fetch from what was committed."""
        self.client.ask(produce(b"\x0a\x14", b"\x1e\x28"))
        fetching = (
            '{"Fetch": {"topic": "orders", "partition": 0, "offset": 0, "max_bytes": 1048576,'
            ' "group_id": "processor"}}'
        )
        self.says(
            fetching,
            '{"Fetch": {"records": [{"offset": 0, "payload": [10, 20]}, {"offset": 1, "payload": [30, 40]}],'
            ' "next_offset": 2}}',
        )
        self.says(
            '{"OffsetCommit": {"topic": "orders", "partition": 0, "group_id": "processor", "offset": 2}}',
            '{"OffsetCommit": {"success": true}}',
        )
        self.client.disconnect()
        self.client = self.world.client()
        self.client.ask(produce(b"\x32\x3c"))
        self.says(fetching, '{"Fetch": {"records": [{"offset": 2, "payload": [50, 60]}], "next_offset": 3}}')

    def test_example_3(self) -> None:
        """Fetch without a consumer group."""
        self.fill(100)
        self.client.ask(produce(b"\x0a\x14", b"\x1e\x28"))
        self.says(
            '{"Fetch": {"topic": "orders", "partition": 0, "offset": 100, "max_bytes": 1048576,'
            ' "group_id": null}}',
            '{"Fetch": {"records": [{"offset": 100, "payload": [10, 20]},'
            ' {"offset": 101, "payload": [30, 40]}], "next_offset": 102}}',
        )

    def test_example_4(self) -> None:
        """Fetch from a topic that is not there."""
        self.says(
            '{"Fetch": {"topic": "nonexistent", "partition": 0, "offset": 0, "max_bytes": 1048576,'
            ' "group_id": null}}',
            '{"Error": {"message": "partition not found: topic=nonexistent, partition=0"}}',
        )

    def test_create_topic(self) -> None:
        """Topics must exist, so they can be made."""
        self.says(
            '{"CreateTopic": {"topic": "payments", "partitions": 3, "config": {}}}',
            '{"CreateTopic": {"topic": "payments", "partitions": 3, "config": {}}}',
        )
        self.says(
            '{"CreateTopic": {"topic": "payments"}}',
            '{"Error": {"message": "topic exists already: payments"}}',
        )

    def test_byte_by_byte(self) -> None:
        """A conversation that arrives byte by byte, or cut in two anywhere, is the same conversation."""
        requests = [produce(b"a", b"b"), fetch(), commit(1), committed(), fetch(group_id="processor"), {}]
        data = b"".join(frame(json.dumps(each).encode()) for each in requests)
        expected = World()
        expected.create("orders")
        client = expected.client()
        client.send_bytes(data)
        answers = client.transport.value()
        self.assertEqual(len(frames(answers)), len(requests))
        for cuts in [range(len(data) + 1), *([0, cut, len(data)] for cut in range(1, len(data)))]:
            world = World()
            world.create("orders")
            client = world.client()
            places = list(cuts)
            for start, end in pairwise(places):
                client.send_bytes(data[start:end])
            self.assertEqual(client.transport.value(), answers)

    def test_largest_frame(self) -> None:
        """A request of exactly the largest size is read."""
        request = json.dumps(produce(b"a")).encode()
        answer = self.client.ask_bytes(request + b" " * (FRAME_BYTES_MAX - len(request)))
        self.assertEqual(answer, {"Produce": {"offsets": [0]}})

    def test_frame_too_large(self) -> None:
        """A larger one is refused before it is read, and the connection ends."""
        self.client.send_bytes(pack("!I", FRAME_BYTES_MAX + 1))
        (answer,) = self.client.received()
        self.assertTrue(answer["Error"]["message"].startswith("max frame size exceeded"), answer)
        self.assertTrue(self.client.transport.is_write_closed)

    def test_parse_errors_leave_the_connection_open(self) -> None:
        """A client that sends nonsense is told so, as often as it does, and can go on."""
        for payload in [b"", b"\xfe", b"\t{}", b"{}", b'{"Produce": {}}', b"[" * 5000]:
            answer = self.client.ask_bytes(payload)
            self.assertTrue(answer["Error"]["message"].startswith("failed to parse request: "), answer)
        self.assertEqual(self.client.ask(produce(b"a")), {"Produce": {"offsets": [0]}})

    def test_errors_that_repeat_the_request(self) -> None:
        """An answer fits a frame even if the request is at fault with megabytes of text."""
        topic = "\x00" * 1_700_000  # six characters of JSON each
        answer = self.client.ask(produce(b"a", topic=topic))
        self.assertTrue(answer["Error"]["message"].startswith("partition not found: topic=\x00"))
        self.assertLess(len(answer["Error"]["message"]), 3000)


class OrderTests(SynchronousTestCase):
    """What a client sees that does not wait for answers, on a store whose answers are late."""

    def world_of(self, seed: int, config: BrokerConfig | None = None) -> World:
        world = World(
            config,
            environment=simulated_environment(seed),
            wrap=lambda store, env: DelayedLogStore(store, env.clock, env.random),
            wrap_offsets=lambda offsets, env: DelayedOffsetStore(offsets, env.clock, env.random),
        )
        world.create("orders", 2)
        return world

    def test_pipelined_requests(self) -> None:
        """Answers come in the order of the requests, and a client reads its own writes."""
        requests = [
            *[produce(b"%d" % number, partition=number % 2) for number in range(6)],
            fetch(),
            commit(2),
            committed(),
            fetch(group_id="processor"),
            {"nonsense": 1},
            produce(b"last"),
            fetch(),
            {"CreateTopic": {"topic": "new"}},
            produce(b"to new", topic="new"),
        ]
        for seed in range(15):
            world = self.world_of(seed)
            client = world.client()
            for each in requests:
                client.send(each)
            world.clock.pump([0.02] * 200)
            answers = client.received()
            kinds = ["Produce"] * 6 + ["Fetch", "OffsetCommit", "OffsetFetch", "Fetch", "Error"]
            kinds += ["Produce", "Fetch", "CreateTopic", "Produce"]
            self.assertEqual([next(iter(each)) for each in answers], kinds)
            offsets = [each["Produce"]["offsets"] for each in answers if "Produce" in each]
            self.assertEqual(offsets, [[0], [0], [1], [1], [2], [2], [3], [0]])
            fetched = [[r["offset"] for r in each["Fetch"]["records"]] for each in answers if "Fetch" in each]
            self.assertEqual(fetched, [[0, 1, 2], [2], [0, 1, 2, 3]])
            self.assertEqual(answers[8], {"OffsetFetch": {"offset": 2}})
            self.assertEqual(world.capacity.budget.requests.used, 0)
            self.assertEqual(world.capacity.budget.answers.used, 0)

    def test_produces_overlap(self) -> None:
        """Consecutive produces are given to the store together, so that one sync serves them all."""
        world = World()
        world.create("orders")
        pending: list[Deferred[Any]] = []
        original = world.memory.append

        def append(entries: Any) -> Deferred[Any]:
            result = original(entries)
            pending.append(Deferred().addCallback(lambda _: result))
            return pending[-1]

        self.patch(world.memory, "append", append)
        client = world.client()
        for _ in range(10):
            client.send(produce(b"x"))
        client.send(fetch())
        client.send(produce(b"y"))
        self.assertEqual(len(pending), 10)
        for each in reversed(pending[:]):
            each.callback(None)
        self.assertEqual(len(pending), 11)
        pending[-1].callback(None)
        answers = client.received()
        self.assertEqual([each["Produce"]["offsets"] for each in answers[:10]], [[n] for n in range(10)])
        self.assertEqual(answers[10]["Fetch"]["next_offset"], 10)
        self.assertEqual(answers[11], {"Produce": {"offsets": [10]}})

    def test_in_flight_limit(self) -> None:
        """No more requests are taken than may be in flight; reading goes on as they are answered."""
        world = World(BrokerConfig(max_in_flight_requests=3))
        world.create("orders")
        pending: list[Deferred[Any]] = []
        self.patch(world.memory, "append", lambda entries: pending.append(Deferred()) or pending[-1])
        client = world.client()
        client.send_bytes(frame(json.dumps(produce(b"x")).encode()) * 8)
        self.assertEqual(len(pending), 3)
        self.assertFalse(client.transport.is_reading)
        pending[0].callback([Closed()])
        self.assertEqual(len(pending), 4)
        self.assertFalse(client.transport.is_reading)
        for number in range(1, 8):
            pending[number].callback([Closed()])
        self.assertTrue(client.transport.is_reading)
        self.assertEqual(client.received(), [{"Error": {"message": "the broker is stopping"}}] * 8)


class FailureTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.world.create("orders")
        self.client = self.world.client()

    def test_unexpected_exception(self) -> None:
        """A bug is told to the client as such, logged with its traceback, and the connection stays."""
        for broken in (
            lambda *_: 1 / 0,
            lambda *_: succeed(None).addCallback(lambda _: 1 / 0),
            lambda *_: [None],
        ):
            self.patch(self.world.memory, "append", broken)
            answer = self.client.ask(produce(b"a"))
            self.assertEqual(answer, {"Error": {"message": "internal error"}})
            (failure,) = self.flushLoggedErrors()
            self.assertIsNotNone(failure.getTracebackObject())
        self.assertIn("Fetch", self.client.ask(fetch()))

    def test_client_leaves_during_a_fetch(self) -> None:
        """A fetch for which nobody waits any more is given up, and what it finds is released."""
        late: Deferred[Any] = Deferred()
        original = self.world.memory.read
        self.patch(self.world.memory, "read", lambda *_: late)
        self.client.send(fetch())
        self.client.disconnect()
        self.assertEqual(self.world.capacity.budget.answers.used, 0)
        self.assertEqual(self.world.capacity.budget.requests.used, 0)
        late.callback(original([(self.world.memory.partition("orders", 0), 0, 1)], 1, None))
        self.assertEqual(self.client.received(), [])

    def test_client_leaves_during_a_produce(self) -> None:
        """A produce goes on when its client is gone; its memory counts until it is done."""
        late: Deferred[Any] = Deferred()
        self.patch(self.world.memory, "append", lambda entries: late)
        self.client.send(produce(b"x"))
        self.client.disconnect()
        self.assertGreater(self.world.capacity.budget.requests.used, 0)
        late.callback([Closed()])
        self.assertEqual(self.world.capacity.budget.requests.used, 0)

    def test_factory(self) -> None:
        """What a listener is given is what the service expects."""
        verifyObject(IDrainableFactory, self.world.factory)


class LongPollTests(SynchronousTestCase):
    """A Fetch that waits."""

    def setUp(self) -> None:
        self.world = World()
        self.world.create("orders")
        self.client = self.world.client()

    def test_answered_when_something_comes(self) -> None:
        """Who waits is answered as soon as somebody else produces."""
        self.client.send(fetch(max_wait_ms=10_000))
        self.world.clock.advance(5)
        self.assertEqual(self.client.received(), [])
        self.world.client().ask(produce(b"a"))
        self.world.clock.advance(0)
        (answer,) = self.client.received()
        self.assertEqual(answer["Fetch"]["next_offset"], 1)

    def test_answered_when_the_time_is_over(self) -> None:
        """Or when nothing has come."""
        self.client.send(fetch(max_wait_ms=10_000))
        self.world.clock.advance(10)
        self.assertEqual(self.client.received(), [{"Fetch": {"records": [], "next_offset": 0}}])

    def test_in_order(self) -> None:
        """What follows on the same connection waits as well."""
        self.client.send(fetch(max_wait_ms=10_000))
        self.client.send(produce(b"a"))
        self.world.clock.advance(9)
        self.assertEqual(self.client.received(), [])
        self.world.clock.advance(1)
        self.assertEqual([next(iter(each)) for each in self.client.received()], ["Fetch", "Produce"])

    def test_waiting_takes_no_memory(self) -> None:
        """Thousands may wait: memory is set aside only for those that are answered."""
        clients = [self.world.client() for _ in range(100)]
        for each in clients:
            each.send(fetch(max_wait_ms=10_000))
        self.assertEqual(self.world.capacity.budget.answers.used, 0)
        self.assertIn("Produce", self.client.ask(produce(b"a")))
        self.assertIn("Fetch", self.client.ask(fetch()))
        for _ in clients:
            self.world.clock.advance(0)
        for each in clients:
            (answer,) = each.received()
            self.assertEqual(len(answer["Fetch"]["records"]), 1)
        self.assertEqual(self.world.capacity.budget.answers.used, 0)

    def test_client_leaves(self) -> None:
        """Who goes away while it waits leaves nothing behind."""
        self.client.send(fetch(max_wait_ms=10_000))
        self.client.disconnect()
        self.assertEqual(self.world.capacity.budget.requests.used, 0)
        self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def test_broker_stops(self) -> None:
        """A broker that stops does not let anybody wait: not who waits, nor who would be next."""
        self.client.send(fetch(max_wait_ms=10_000))
        self.client.send(fetch(max_wait_ms=10_000))
        self.world.factory.drain()
        self.assertEqual(self.client.received(), [{"Fetch": {"records": [], "next_offset": 0}}] * 2)

    def test_defect(self) -> None:
        """When waiting fails in an unexpected way, that is logged, and the fetch answered all the same."""
        self.patch(self.world.broker, "bounds", lambda *_: 1 / 0)
        answer = self.client.ask(fetch(max_wait_ms=10_000))
        self.assertEqual(answer, {"Fetch": {"records": [], "next_offset": 0}})
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
