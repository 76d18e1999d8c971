"""Tests for L{rustlog.wire.fluvio.watches}: what clients hear of topics and partitions."""

from __future__ import annotations

from typing import Any

from rustlog.model import CONSUMER_OFFSETS
from rustlog.testing.broker import CONTEXT
from rustlog.wire.fluvio.controller import ChangeKind, WatchResponse
from rustlog.wire.fluvio.settings import FluvioSettings
from tests.unit.wire.fluvio.client import FluvioCase, FluvioClient

UPDATE, DELETE = ChangeKind.UPDATE, ChangeKind.DELETE


def changes(response: WatchResponse) -> list[tuple[ChangeKind, str]]:
    """What has changed, by name."""
    return [(each.kind, each.metadata.name) for each in response.changes]


class FirstAnswerTests(FluvioCase):
    def names(self, label: str) -> list[str]:
        self.client.watch(label)
        response: WatchResponse = self.client.one()
        self.assertEqual((response.label, response.changes), (label, ()))
        return [each.name for each in response.all]

    def test_topics(self) -> None:
        """All topics are there, and the one of Fluvio's system."""
        self.assertEqual(self.names("Topic"), ["consumer-offset", "orders"])

    def test_partitions(self) -> None:
        """So are all partitions."""
        self.assertEqual(self.names("Partition"), ["consumer-offset-0", "orders-0", "orders-1"])

    def test_units(self) -> None:
        """There is one unit."""
        self.assertEqual(self.names("SPU"), ["custom-spu-5001"])

    def test_others(self) -> None:
        """Of what there is not here, there is nothing, and nothing will come."""
        self.assertEqual(self.names("SmartModule"), [])
        self.world.create("more")
        self.clock.advance(1)
        self.assertEqual(self.client.received(), [])

    def test_without_topics(self) -> None:
        """Without any topic there is still one object of each kind: clients would wait for a minute."""
        self.world.broker.delete_topic(CONTEXT, "orders")
        for label in ("Topic", "Partition", "SPU"):
            self.assertEqual(len(self.names(label)), 1)

    def test_own_topics(self) -> None:
        """What the broker keeps for itself is not shown."""
        self.world.memory.catalog.create(CONSUMER_OFFSETS, 1, {}, internal=True)
        self.assertEqual(self.names("Topic"), ["consumer-offset", "orders"])
        self.assertEqual(self.names("Partition"), ["consumer-offset-0", "orders-0", "orders-1"])

    def test_names_that_fluvio_would_not_allow(self) -> None:
        """Topics of other protocols are shown whatever they are called."""
        self.world.create("My_Topic.x-1")
        self.assertIn("My_Topic.x-1", self.names("Topic"))
        self.assertIn("My_Topic.x-1-0", self.names("Partition"))


class ChangeTests(FluvioCase):
    def setUp(self) -> None:
        super().setUp()
        self.ids = {self.client.watch(each): each for each in ("Partition", "Topic")}
        self.client.received()

    def heard(self, client: FluvioClient | None = None) -> list[tuple[str, list[Any]]]:
        """What has come since: labels and changes."""
        self.clock.advance(0)
        client = client or self.client
        return [(each.label, changes(each)) for _, each in client.received()]

    def test_created(self) -> None:
        """A topic that was made by any protocol: first the topic, then its partitions."""
        self.world.create("more", 2)
        self.assertEqual(
            self.heard(),
            [("Topic", [(UPDATE, "more")]), ("Partition", [(UPDATE, "more-0"), (UPDATE, "more-1")])],
        )

    def test_under_its_id(self) -> None:
        """Each watch answers under the id of its request, and its epochs grow."""
        self.world.create("more")
        self.clock.advance(0)
        self.world.create("most")
        self.clock.advance(0)
        epochs: dict[str, list[int]] = {"Topic": [], "Partition": []}
        for correlation_id, each in self.client.received():
            self.assertEqual(self.ids[correlation_id], each.label)
            self.assertEqual(each.all, ())
            epochs[each.label].append(each.epoch)
        self.assertEqual(epochs, {"Topic": [2, 3], "Partition": [2, 3]})

    def test_deleted(self) -> None:
        """A topic that is gone, and all its partitions."""
        self.world.broker.delete_topic(CONTEXT, "orders")
        self.assertEqual(
            self.heard(),
            [("Topic", [(DELETE, "orders")]), ("Partition", [(DELETE, "orders-0"), (DELETE, "orders-1")])],
        )

    def test_grown(self) -> None:
        """A topic that has more partitions now."""
        self.world.broker.grow_topic(CONTEXT, "orders", 3)
        topic, partition = self.heard()
        self.assertEqual(topic, ("Topic", [(UPDATE, "orders")]))
        self.assertIn((UPDATE, "orders-2"), partition[1])

    def test_smaller_one_in_its_place(self) -> None:
        """Of a topic that was made anew with less partitions, the others are gone."""
        self.world.broker.delete_topic(CONTEXT, "orders")
        self.world.create("orders", 1)
        self.assertEqual(
            self.heard(),
            [("Topic", [(UPDATE, "orders")]), ("Partition", [(UPDATE, "orders-0"), (DELETE, "orders-1")])],
        )

    def test_never_heard_of(self) -> None:
        """What is gone before anybody has heard of it is not told."""
        self.world.create("brief", 3)
        self.world.broker.delete_topic(CONTEXT, "brief")
        self.assertEqual(self.heard(), [])

    def test_own_topics(self) -> None:
        """Of what the broker keeps for itself nothing is told."""
        self.world.memory.catalog.create(CONSUMER_OFFSETS, 1, {}, internal=True)
        self.assertEqual(self.heard(), [])

    def test_topic_of_the_system(self) -> None:
        """A topic that is called like that of Fluvio's system takes its place, and gives it back."""
        self.world.create("consumer-offset", 2)
        _, (_, partitions) = self.heard()
        self.assertEqual(partitions, [(UPDATE, "consumer-offset-0"), (UPDATE, "consumer-offset-1")])
        self.world.broker.delete_topic(CONTEXT, "consumer-offset")
        _, (_, partitions) = self.heard()
        self.assertEqual(partitions, [(UPDATE, "consumer-offset-0"), (DELETE, "consumer-offset-1")])

    def test_second_set(self) -> None:
        """A connection may watch the same several times, as clients do."""
        for label in ("SPU", "Partition", "Topic"):
            self.client.watch(label)
        self.client.received()
        self.world.create("more")
        self.assertEqual([label for label, _ in self.heard()], ["Topic", "Topic", "Partition", "Partition"])

    def test_lost(self) -> None:
        """A connection that is gone is not told anything any more."""
        before = len(self.world.memory.catalog._listeners)
        self.world.create("more")
        self.client.disconnect()
        self.assertEqual(len(self.world.memory.catalog._listeners), before - 1)
        self.assert_nothing_held()

    def test_slow_client(self) -> None:
        """A client that does not read hears, when it does, how things are then; nothing is queued."""
        client = self.world.fluvio_client(buffer_size=1000)
        for label in ("Topic", "Partition"):
            client.watch(label)
        client.transport.client_reads()
        client.received()
        self.world.create("first", 20)
        self.clock.advance(0)
        self.assertTrue(client.connection.is_blocked)
        for index in range(30):
            self.world.create(f"passing-{index}", 5)
            self.world.broker.grow_topic(CONTEXT, "orders", 3 + index)
            self.clock.advance(0)
            self.world.broker.delete_topic(CONTEXT, f"passing-{index}")
            self.clock.advance(0)
        (held,) = {len(each._changed) for each in client.connection.services.watches._watches[1:]}
        self.assertLessEqual(held, 2)
        while client.connection.is_blocked:
            client.transport.client_reads()
        found = self.heard(client)
        self.assertNotIn("passing", str(found))
        self.assertIn((UPDATE, "orders-31"), found[-1][1])
        self.client.disconnect()
        client.disconnect()
        self.assert_nothing_held()


class LimitTests(FluvioCase):
    def test_too_many(self) -> None:
        """A connection that watches more than it may is closed, with a line in the log."""
        self.start(settings=FluvioSettings(streams_max=2))
        for _ in range(2):
            self.client.watch("Topic")
        self.client.watch("SPU")
        self.assertEqual(len(self.client.received()), 3)
        self.client.watch("Partition")
        self.assertEqual(self.client.received(), [])
        self.assertTrue(self.client.transport.is_write_closed)
