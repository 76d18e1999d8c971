"""Internal topics belong to the broker: clients may read them, and nothing else."""

from __future__ import annotations

from rustlog.errors import TopicIsInternal
from rustlog.model import CONSUMER_OFFSETS, Fetched, FetchWant, TopicPartition
from tests.unit.test_broker import CONTEXT, BrokerTestCase
from tests.unit.wire.harness import World, produce


class InternalTopicTests(BrokerTestCase):
    """Whatever the topic is called."""

    NAME = "__own"

    def setUp(self) -> None:
        super().setUp()
        self.finish(self.store.catalog.create(self.NAME, 1, {}, internal=True))
        self.partition = TopicPartition(self.NAME, 0)

    def test_listed(self) -> None:
        """It is listed, and told apart."""
        self.create("orders")
        self.assertEqual(
            {info.name: info.internal for info in self.broker.topics(CONTEXT)},
            {self.NAME: True, "orders": False},
        )

    def test_produce(self) -> None:
        """Nothing can be produced to it; what goes elsewhere in the same request does."""
        self.create("orders")
        refused, accepted = self.produce(
            (self.partition, self.batch(b"mine")), (TopicPartition("orders", 0), self.batch(b"yours"))
        )
        self.assertIsInstance(refused, TopicIsInternal)
        self.assertEqual(accepted.base_offset, 0)
        self.assertEqual(self.broker.bounds(CONTEXT, self.partition), (0, 0))

    def test_read(self) -> None:
        """It can be read."""
        partition = self.store.partition(self.NAME, 0)
        self.finish(self.store.append([(partition, self.batch(b"own"))]))
        wants = [FetchWant(self.NAME, 0, 0, 1000)]
        (answer,) = self.finish(self.broker.fetch(CONTEXT, wants, max_bytes=1000))
        self.assertIsInstance(answer, Fetched)
        answer.release()

    def test_changes(self) -> None:
        """It can neither be deleted, nor grown, nor configured, nor shortened."""
        broker = self.broker
        for result in (
            broker.delete_topic(CONTEXT, self.NAME),
            broker.grow_topic(CONTEXT, self.NAME, 2),
            broker.configure_topic(CONTEXT, self.NAME, {"retention.ms": "1"}),
            broker.alter_topic(CONTEXT, self.NAME, 2),
            broker.administration.delete_records(CONTEXT, self.partition, 0),
        ):
            self.assertEqual(self.assert_fails(TopicIsInternal, result).topic, self.NAME)
        self.assertEqual(self.store.catalog.get(self.NAME).partitions, 1)


class ConsumerOffsetsTests(InternalTopicTests):
    """The one for offsets."""

    NAME = CONSUMER_OFFSETS


class ReservedNameTests(BrokerTestCase):
    """Its name is reserved, also where offsets are kept elsewhere."""

    def test_create(self) -> None:
        """Clients can not create it."""
        self.assert_fails(TopicIsInternal, self.broker.create_topic(CONTEXT, CONSUMER_OFFSETS))

    def test_made_by_others(self) -> None:
        """One that was made by another program, and is not marked as internal, is protected all the same."""
        self.finish(self.store.catalog.create(CONSUMER_OFFSETS, 1, {}))
        partition = TopicPartition(CONSUMER_OFFSETS, 0)
        (refused,) = self.produce((partition, self.batch(b"mine")))
        self.assertIsInstance(refused, TopicIsInternal)
        self.assert_fails(TopicIsInternal, self.broker.delete_topic(CONTEXT, CONSUMER_OFFSETS))


class RustLogProtocolTests(BrokerTestCase):
    """What clients of the RustLog protocol are told."""

    def test_produce(self) -> None:
        """A clear sentence; the connection goes on."""
        world = World()
        world.create(CONSUMER_OFFSETS)
        client = world.client()
        message = "topic is internal: __consumer_offsets"
        self.assertEqual(
            client.ask(produce(b"mine", topic=CONSUMER_OFFSETS)), {"Error": {"message": message}}
        )
        answer = client.ask({"CreateTopic": {"topic": CONSUMER_OFFSETS, "partitions": 1}})
        self.assertEqual(answer, {"Error": {"message": message}})
