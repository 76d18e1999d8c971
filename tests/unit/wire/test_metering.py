"""Tests for what connections and the broker count: every framed protocol gets it for nothing."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.observability.tallies import Tally
from rustlog.settings import BrokerConfig
from tests.unit.wire.harness import World, fetch, produce


class MeteringTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.world.create("orders")
        self.meter = self.world.listener.meter

    def tally(self, request: str, outcome: str = "ok") -> Tally:
        return self.meter.tallies[request, outcome]

    def test_requests(self) -> None:
        """A request is counted with its bytes and those of its answer, without the length before them."""
        client = self.world.client()
        client.send(produce(b"a"))
        answer = client.transport.value()
        tally = self.tally("Produce")
        self.assertEqual((tally.count, tally.response_bytes), (1, len(answer) - 4))
        self.assertGreater(tally.request_bytes, 50)

    def test_latency(self) -> None:
        """Its time goes from when it was there to its answer."""
        appended = self.hold_appends()
        client = self.world.client()
        client.send(produce(b"a"))
        self.world.clock.advance(0.75)
        self.assertEqual(self.meter.tallies, {})
        appended()
        self.assertEqual(self.tally("Produce").seconds, 0.75)

    def hold_appends(self) -> Callable[[], object]:
        """Let produces take until told."""
        original = self.world.memory.append
        waiting: Deferred[None] = Deferred()
        self.patch(
            self.world.memory, "append", lambda entries: waiting.addCallback(lambda _: original(entries))
        )
        return lambda: waiting.callback(None)

    def test_errors(self) -> None:
        """An error is counted by its kind, never by its text, which may contain what a client made up."""
        client = self.world.client()
        for name in ("no", "such", "topic"):
            client.ask(produce(b"a", topic=name))
        client.ask({"CreateTopic": {"topic": "a b", "partitions": 1}})
        client.ask_bytes(b"nonsense")
        self.assertEqual(
            {key: each.count for key, each in self.meter.tallies.items()},
            {
                ("Produce", "PartitionNotFound"): 3,
                ("CreateTopic", "InvalidTopicName"): 1,
                ("unknown", "Misunderstood"): 1,
            },
        )

    def test_defects(self) -> None:
        """So is a defect of ours."""
        self.patch(self.world.memory, "append", lambda _: 1 // 0)
        self.world.client().ask(produce(b"a"))
        self.assertEqual(self.tally("Produce", "InternalError").count, 1)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_connections(self) -> None:
        """Connections are counted while they last."""
        clients = [self.world.client() for _ in range(3)]
        clients[0].disconnect()
        self.assertEqual((self.meter.open, self.meter.opened, self.meter.refused), (2, 3, 0))

    def test_refused_connections(self) -> None:
        """One too many is counted as refused, too."""
        world = World(BrokerConfig(max_connections=1))
        for _ in range(2):
            world.client()
        meter = world.listener.meter
        self.assertEqual((meter.open, meter.opened, meter.refused), (2, 2, 1))

    def test_traffic(self) -> None:
        """What goes into the log and comes out of it is counted by protocol."""
        client = self.world.client()
        client.ask(produce(b"a", b"b"))
        client.ask(produce(b"a", topic="nowhere"))
        client.ask(fetch())
        flow = self.world.broker.traffic["rustlog"]
        self.assertEqual((flow.appended_batches, flow.appended_records), (1, 2))
        self.assertGreater(flow.appended_bytes, 61)
        self.assertEqual(flow.read_bytes, flow.appended_bytes)

    def test_alone(self) -> None:
        """A listener that was given no metrics has its own."""
        other = World()
        other.create("orders")
        other.client().ask(produce(b"a"))
        self.assertEqual(self.meter.tallies, {})
        self.assertIn(b'request="Produce"', other.listener.monitoring.metrics.text())

    def test_frames_that_are_too_large(self) -> None:
        """What is not a request is not counted as one."""
        self.world.client().send_bytes(b"\xff\xff\xff\xff")
        self.assertEqual(self.meter.tallies, {})
