"""Tests for L{rustlog.administration}."""

from __future__ import annotations

from rustlog.administration import DescribedSetting, SettingSource
from rustlog.errors import OffsetOutOfRange, PartitionNotFound, TopicIsInternal, TopicNotFound
from rustlog.model import TopicPartition
from rustlog.settings import BrokerConfig, TopicConfig, vocabulary
from tests.unit.test_broker import CONTEXT, ORDERS_0, ORDERS_1, BrokerTestCase

NOWHERE = TopicPartition("nowhere", 0)


class AdministrationTestCase(BrokerTestCase):
    """A broker that is asked what operators ask."""

    def setUp(self) -> None:
        super().setUp()
        self.administration = self.broker.administration

    def create_internal(self) -> TopicPartition:
        """A topic that is the broker's own."""
        self.finish(self.store.catalog.create("__own", 1, {}, internal=True))
        return TopicPartition("__own", 0)


class TopicSettingsTests(AdministrationTestCase):
    """Settings of topics, and where they come from."""

    def settings(self, name: str = "orders") -> dict[str, DescribedSetting]:
        return {each.setting.name: each for each in self.administration.topic_settings(CONTEXT, name)}

    def test_all_of_them(self) -> None:
        """Every setting that a topic can have is there, and can be changed."""
        self.create()
        settings = self.settings()
        self.assertEqual(list(settings), [each.name for each in vocabulary(TopicConfig)])
        self.assertFalse(any(each.is_read_only for each in settings.values()))

    def test_default(self) -> None:
        """What nobody has set has its default."""
        self.create()
        described = self.settings()["preallocate"]
        self.assertEqual((described.source, described.value), (SettingSource.DEFAULT, "false"))

    def test_set_for_all(self) -> None:
        """What the operator has set for all topics hides the default."""
        self.create()
        described = self.settings()["max.message.bytes"]
        default = str(TopicConfig().max_message_bytes)
        self.assertEqual(
            described.said, ((SettingSource.BROKER, "1000"), (SettingSource.DEFAULT, default))
        )

    def test_set_for_the_topic(self) -> None:
        """What is set for the topic hides both."""
        self.create("orders", 1, max_message_bytes=500)
        described = self.settings()["max.message.bytes"]
        self.assertEqual((described.source, described.value), (SettingSource.TOPIC, "500"))
        self.assertEqual([source for source, _ in described.said], list(SettingSource))

    def test_internal_topic(self) -> None:
        """Those of the broker's own topics are shown, and can not be changed."""
        self.finish(self.store.catalog.create("__own", 1, {"retention.ms": "-1"}, internal=True))
        settings = self.settings("__own")
        self.assertEqual(settings["retention.ms"].value, "-1")
        self.assertTrue(all(each.is_read_only for each in settings.values()))

    def test_no_such_topic(self) -> None:
        """There is nothing to say of a topic that does not exist."""
        self.assertRaises(TopicNotFound, self.administration.topic_settings, CONTEXT, "nowhere")


class BrokerSettingsTests(AdministrationTestCase):
    def test_all_of_them(self) -> None:
        """The broker has settings of its own, the defaults of topics, and a few facts; all are fixed."""
        settings = {each.setting.name: each for each in self.administration.broker_settings(CONTEXT)}
        known = {each.name for each in (*vocabulary(BrokerConfig), *vocabulary(TopicConfig))}
        facts = {"num.partitions", "default.replication.factor", "delete.topic.enable"}
        self.assertEqual(set(settings), known | facts)
        self.assertEqual(list(settings), sorted(settings))
        self.assertTrue(all(each.is_read_only for each in settings.values()))
        sources = {name: settings[name].source for name in ("fetch.max.wait.ms", "max.connections")}
        self.assertEqual(
            sources, {"fetch.max.wait.ms": SettingSource.BROKER, "max.connections": SettingSource.DEFAULT}
        )
        self.assertEqual(settings["num.partitions"].value, "2")


class PartitionTests(AdministrationTestCase):
    """Partitions, as operators see them."""

    def test_delete_records(self) -> None:
        """Records before an offset are forgotten; without an offset, all are."""
        self.create()
        self.send(b"a", b"b", b"c")
        self.assertEqual(self.finish(self.administration.delete_records(CONTEXT, ORDERS_0, 2)), 2)
        self.assertEqual(self.finish(self.administration.delete_records(CONTEXT, ORDERS_0, 1)), 2)
        self.assertEqual(self.finish(self.administration.delete_records(CONTEXT, ORDERS_0)), 3)
        self.assertEqual(self.broker.bounds(CONTEXT, ORDERS_0), (3, 3))

    def test_delete_impossible_records(self) -> None:
        """What is not there yet can not be forgotten, nor can what the broker needs."""
        self.create()
        self.send(b"a")
        for offset in (2, 2**63, 2**64 - 1, -1, -7):
            self.assert_fails(
                OffsetOutOfRange, self.administration.delete_records(CONTEXT, ORDERS_0, offset)
            )
        own = self.create_internal()
        self.assert_fails(TopicIsInternal, self.administration.delete_records(CONTEXT, own))
        self.assert_fails(PartitionNotFound, self.administration.delete_records(CONTEXT, NOWHERE))

    def test_size(self) -> None:
        """A partition is as large as what is in it."""
        self.create()
        self.send(b"a" * 100)
        self.assertGreater(self.finish(self.administration.describe_partition(CONTEXT, ORDERS_0)).size, 100)
        self.assertEqual(self.finish(self.administration.describe_partition(CONTEXT, ORDERS_1)).size, 0)
        self.assert_fails(PartitionNotFound, self.administration.describe_partition(CONTEXT, NOWHERE))

    def test_producers(self) -> None:
        """Idempotent producers are known to the partition into which they write."""
        self.create()
        self.produce((ORDERS_0, self.batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)))
        (producer,) = self.finish(self.administration.producers(CONTEXT, ORDERS_0))
        self.assertEqual((producer.producer_id, producer.epoch, producer.last_sequence), (7, 0, 1))
        self.assertEqual(self.finish(self.administration.producers(CONTEXT, ORDERS_1)), ())
        self.assert_fails(PartitionNotFound, self.administration.producers(CONTEXT, NOWHERE))

    def test_storage(self) -> None:
        """The store says where it is."""
        self.assertEqual(self.finish(self.administration.storage(CONTEXT)).place, "memory")
