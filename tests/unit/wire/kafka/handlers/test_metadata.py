"""Tests for L{rustlog.wire.kafka.handlers.metadata}."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any
from uuid import UUID

from attrs import evolve

from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, UNSAID_OPERATIONS
from rustlog.wire.kafka.settings import KafkaSettings
from tests.unit.wire.kafka.harness import HandlerCase

METADATA = 3


class MetadataCase(HandlerCase):
    def metadata(self, *names: str, version: int | None = None, create: bool = True, **more: Any) -> Any:
        topics = [{"name": each, "topic_id": None} for each in names]
        fields = {"topics": topics, "allow_auto_topic_creation": create, **more}
        return self.ask(METADATA, version, **fields)

    def told(self, response: Any) -> dict[str, ErrorCode]:
        return {each.name: each.error_code for each in response.topics}


class TopicTests(MetadataCase):
    def test_every_version(self) -> None:
        """In every version, the broker and the partitions of a topic are told."""
        for version in self.versions(METADATA):
            response = self.metadata("orders", version=version)
            (broker,) = response.brokers
            self.assertEqual((broker.node_id, broker.host, broker.port), (0, "broker.example", 9092))
            (topic,) = response.topics
            self.assertEqual([each.partition_index for each in topic.partitions], [0, 1])
            self.assertEqual({each.leader_id for each in topic.partitions}, {0})
            self.assertEqual({each.isr_nodes for each in topic.partitions}, {(0,)})
            if version >= 2:
                self.assertEqual((response.cluster_id, response.controller_id), ("cluster", 0))
            if version >= 7:
                self.assertEqual({each.leader_epoch for each in topic.partitions}, {0})
            if version >= 10:
                self.assertEqual(topic.topic_id, self.world.store.catalog.get("orders").id)

    def test_all_topics(self) -> None:
        """Who asks for none in particular gets all of them; an empty list says so only in version 0."""
        self.world.memory.catalog.create("__consumer_offsets", 1, {}, internal=True)
        everything = self.ask(METADATA, topics=None, allow_auto_topic_creation=False)
        self.assertEqual(
            [(each.name, each.is_internal) for each in everything.topics],
            [("__consumer_offsets", True), ("orders", False)],
        )
        self.assertEqual(len(self.metadata(version=0).topics), 2)
        self.assertEqual(self.metadata(version=1).topics, ())

    def test_by_id_and_an_empty_name(self) -> None:
        """The Java client leaves the name empty when it gives an id."""
        known = self.world.store.catalog.get("orders").id
        for version in (10, 11, 12, 13):
            topics = [{"name": "", "topic_id": known}]
            response = self.ask(METADATA, version, topics=topics, allow_auto_topic_creation=False)
            found = [(each.name, each.topic_id, each.error_code) for each in response.topics]
            self.assertEqual(found, [("orders", known, ErrorCode.none)])

    def test_by_id(self) -> None:
        """Topics are found by their ids, too."""
        known = self.world.store.catalog.get("orders").id
        topics = [{"name": None, "topic_id": each} for each in (known, UUID(int=7))]
        response = self.ask(METADATA, 12, topics=topics, allow_auto_topic_creation=True)
        self.assertEqual(
            [(each.name, each.topic_id, each.error_code) for each in response.topics],
            [("orders", known, ErrorCode.none), (None, UUID(int=7), ErrorCode.unknown_topic_id)],
        )

    def test_neither_name_nor_id(self) -> None:
        """A topic that has neither is none."""
        for version in (10, 12):
            response = self.ask(
                METADATA, version, topics=[{"name": None, "topic_id": None}], allow_auto_topic_creation=True
            )
            self.assertIs(response.topics[0].error_code, ErrorCode.invalid_topic_exception)

    def test_operations(self) -> None:
        """What a client may do is told if it asks for that: everything."""
        asked = self.metadata(
            "orders",
            version=8,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        self.assertEqual(asked.topics[0].topic_authorized_operations, TOPIC_OPERATIONS)
        self.assertEqual(asked.cluster_authorized_operations, CLUSTER_OPERATIONS)
        self.assertEqual(self.metadata("orders").topics[0].topic_authorized_operations, UNSAID_OPERATIONS)


class CreationTests(MetadataCase):
    def test_created(self) -> None:
        """A topic that is asked for comes into being, and is told at once."""
        response = self.metadata("new", "new", "orders")
        self.assertEqual(self.told(response), {"new": ErrorCode.none, "orders": ErrorCode.none})
        self.assertEqual(len(response.topics), 2)

    def test_old_versions(self) -> None:
        """Those that can not say what they want, want that."""
        self.assertEqual(self.told(self.metadata("new", version=3)), {"new": ErrorCode.none})

    def test_not_wanted(self) -> None:
        """Unless the client, or the operator, does not want it."""
        unknown = {"new": ErrorCode.unknown_topic_or_partition}
        self.assertEqual(self.told(self.metadata("new", create=False)), unknown)
        self.services = evolve(
            self.services, config=evolve(self.services.config, auto_create_topics_enable=False)
        )
        self.assertEqual(self.told(self.metadata("new")), unknown)
        self.assertIsNone(self.world.store.catalog.get("new"))

    def test_invalid_names(self) -> None:
        """A name that no topic can have is told to be that, whether topics may be created or not."""
        for create in (True, False):
            told = self.told(self.metadata("a b", "ok", create=create))
            self.assertIs(told["a b"], ErrorCode.invalid_topic_exception)

    def test_internal_names(self) -> None:
        """The broker's own topics are not made by clients."""
        told = self.told(self.metadata("__consumer_offsets"))
        self.assertEqual(told, {"__consumer_offsets": ErrorCode.unknown_topic_or_partition})


class ClusterIdTests(HandlerCase):
    def test_stable(self) -> None:
        """The id of a cluster is that of its data, unless it is set."""
        here, there = PurePath("/data"), PurePath("/other")
        self.assertEqual(
            KafkaSettings(data_dir=here).effective_cluster_id, KafkaSettings(here).effective_cluster_id
        )
        self.assertNotEqual(
            KafkaSettings(here).effective_cluster_id, KafkaSettings(there).effective_cluster_id
        )
        self.assertEqual(len(KafkaSettings(here).effective_cluster_id), 22)
        self.assertEqual(KafkaSettings(here, cluster_id="mine").effective_cluster_id, "mine")
