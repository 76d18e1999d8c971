"""Tests for L{rustlog.wire.fluvio.handlers.controller}: topics are made, listed and removed."""

from __future__ import annotations

from typing import Any

from rustlog.model import CONSUMER_OFFSETS
from rustlog.testing.broker import CONTEXT
from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.controller import (
    CreateRequest,
    DeleteRequest,
    ListRequest,
    Status,
    WatchResponse,
)
from rustlog.wire.fluvio.errors import system_spec_deletion_attempt
from rustlog.wire.fluvio.handlers.controller import HEAD_START_SECONDS
from rustlog.wire.fluvio.replicas import Compression, Deduplication, HomeMirror, Storage
from rustlog.wire.fluvio.topics import (
    AssignedPartition,
    AssignedReplicas,
    ComputedReplicas,
    Replicas,
    TopicSpec,
)
from tests.unit.wire.fluvio.client import FluvioCase

ONE = TopicSpec(ComputedReplicas(1))


class ControllerCase(FluvioCase):
    def create(self, name: str, spec: Any = ONE, label: str = "Topic", **more: Any) -> Status:
        """The status, after the head start of the watches."""
        self.client.request(apis.CREATE, CreateRequest(label, name, spec, **more))
        self.clock.advance(HEAD_START_SECONDS)
        status: Status = self.client.one()
        self.assertEqual(status.name, name)
        return status

    def delete(self, name: str, label: str = "Topic", **more: Any) -> Status:
        self.client.request(apis.DELETE, DeleteRequest(label, name, **more))
        self.clock.advance(HEAD_START_SECONDS)
        status: Status = self.client.one()
        return status

    def names(self) -> list[str]:
        return [each.name for each in self.world.broker.topics(CONTEXT)]


class CreateTests(ControllerCase):
    def test_computed(self) -> None:
        """A topic has as many partitions as were asked for."""
        self.assertEqual(self.create("more", TopicSpec(ComputedReplicas(3, 1, True))), Status("more"))
        self.assertEqual(self.world.broker.topic(CONTEXT, "more").partitions, 3)

    def test_assigned(self) -> None:
        """Who says where partitions shall be, and knows of the one unit, gets them."""
        partitions = tuple(AssignedPartition(index, (5001,)) for index in (1, 0))
        self.assertEqual(self.create("more", TopicSpec(AssignedReplicas(partitions))).error.number, 0)
        self.assertEqual(self.world.broker.topic(CONTEXT, "more").partitions, 2)

    def test_settings(self) -> None:
        """How long and how much is kept are settings of ours."""
        spec = TopicSpec(ComputedReplicas(1), 3600, Storage(2_000_000, 10**9), Compression.GZIP)
        self.create("more", spec)
        expected = {"retention.ms": "3600000", "segment.bytes": "2000000", "retention.bytes": "1000000000"}
        self.assertEqual(dict(self.world.broker.topic(CONTEXT, "more").config), expected)
        for label in ("Topic", "Partition"):
            (shown,) = self.client.call(apis.LIST, ListRequest(label, ("more",))).objects
            self.assertEqual((shown.spec.retention_seconds, shown.spec.storage), (3600, spec.storage))

    def test_dry_run(self) -> None:
        """Who only wants to know is told, at once, and nothing is made."""
        self.client.create("more", dry_run=True)
        self.assertEqual(self.client.one(), Status("more"))
        self.assertEqual(self.names(), ["orders"])
        self.client.create("orders", dry_run=True)
        self.assertEqual(self.client.one().error.name, "TopicAlreadyExists")

    def test_names(self) -> None:
        """Fluvio has its own rule for names."""
        for name in ("", "Bad_Name", "a.b", "-a", "a-", "x" * 64, "größe"):
            self.assertEqual(self.create(name).error.name, "TopicInvalidName", name)
        for name in ("a", "0", "a-b-1", "x" * 63):
            self.assertEqual(self.create(name).error.name, "None", name)

    def test_existing(self) -> None:
        """There is one topic of a name; that of the system is always there."""
        for name in ("orders", "consumer-offset"):
            status = self.create(name)
            self.assertEqual(status.error.name, "TopicAlreadyExists")
            self.assertIn("exists already", status.message or "")

    def test_refused(self) -> None:
        """What can not be had is refused with a reason, and nothing is made."""
        for replicas, code, words in (
            (ComputedReplicas(0), "TopicInvalidConfiguration", "not within 1..10000"),
            (ComputedReplicas(1, 3), "TopicInvalidConfiguration", "there is 1 unit"),
            (_assigned((0, 5001), (2, 5001)), "TopicInvalidConfiguration", "without gaps"),
            (_assigned((0, 7)), "TopicInvalidConfiguration", "on unit 5001"),
            (_assigned(), "TopicInvalidConfiguration", "not within"),
            (
                AssignedReplicas((AssignedPartition(0, (5001,), HomeMirror("a", "b")),)),
                "TopicInvalidReplicaType",
                "mirrored",
            ),
        ):
            status = self.create("more", TopicSpec(replicas))
            self.assertEqual(status.error.name, code, replicas)
            self.assertIn(words, status.message or "")
        for spec, code, words in (
            (TopicSpec(ComputedReplicas(1), system=True), "InvalidCreateRequest", "system"),
            (
                TopicSpec(ComputedReplicas(1), deduplication=Deduplication(1, None, "filter")),
                "TopicInvalidConfiguration",
                "deduplication",
            ),
            (
                TopicSpec(ComputedReplicas(1), storage=Storage(1)),
                "TopicInvalidConfiguration",
                "segment.bytes",
            ),
            (
                TopicSpec(ComputedReplicas(1), storage=Storage(None, 2**64 - 1)),
                "TopicInvalidConfiguration",
                "retention.bytes",
            ),
        ):
            status = self.create("more", spec)
            self.assertEqual(status.error.name, code, spec)
            self.assertIn(words, status.message or "")
        self.assertEqual(self.names(), ["orders"])

    def test_other_kinds(self) -> None:
        """There are no other objects that could be made."""
        for label in ("SmartModule", "TableFormat", "SpuGroup", "Whatever"):
            status = self.create("more", None, label)
            self.assertEqual(status.error.name, "InvalidCreateRequest")
            self.assertIn(label, status.message or "")

    def test_watches_hear_first(self) -> None:
        """Who watches knows the topic some time before who asked for it hears that it is there."""
        watcher = self.world.fluvio_client()
        watcher.watch("Partition")
        watcher.received()
        self.client.create("more")
        self.clock.advance(HEAD_START_SECONDS / 2)
        response: WatchResponse = watcher.one()
        self.assertEqual([each.metadata.name for each in response.changes], ["more-0"])
        self.assertEqual(self.client.received(), [])
        self.clock.advance(HEAD_START_SECONDS / 2)
        self.assertEqual(self.client.one(), Status("more"))


def _assigned(*partitions: tuple[int, int]) -> Replicas:
    return AssignedReplicas(tuple(AssignedPartition(index, (spu,)) for index, spu in partitions))


class DeleteTests(ControllerCase):
    def test_delete(self) -> None:
        """A topic is removed, whoever made it."""
        self.assertEqual(self.delete("orders"), Status("orders"))
        self.assertEqual(self.names(), [])

    def test_unknown(self) -> None:
        """One that is not there can not be."""
        self.assertEqual(self.delete("nope").error.name, "TopicNotFound")

    def test_system(self) -> None:
        """Neither can what belongs to the system, even by force."""
        self.world.memory.catalog.create(CONSUMER_OFFSETS, 1, {}, internal=True)
        for name in ("consumer-offset", CONSUMER_OFFSETS):
            status = self.delete(name, force=True)
            self.assertEqual(status.error, system_spec_deletion_attempt("Topic", name))

    def test_other_kinds(self) -> None:
        """There are no other objects that could be removed."""
        for label in ("SmartModule", "SPU"):
            self.assertEqual(self.delete("x", label).error.name, "InvalidDeleteRequest")


class ListTests(ControllerCase):
    def list(self, label: str, *filters: str, **more: Any) -> list[str]:
        response = self.client.call(apis.LIST, ListRequest(label, filters, **more))
        self.assertEqual(response.label, label)
        return [each.name for each in response.objects]

    def test_topics(self) -> None:
        """All topics, or those whose names have one of the filters in them."""
        for name in ("alpha", "beta"):
            self.world.create(name)
        self.assertEqual(self.list("Topic"), ["alpha", "beta", "orders"])
        self.assertEqual(self.list("Topic", "bet", "ord"), ["beta", "orders"])
        self.assertEqual(self.list("Topic", "x"), [])
        self.assertEqual(self.list("Topic", summary=True), ["alpha", "beta", "orders"])

    def test_system(self) -> None:
        """The topic of the system is for those who ask for it."""
        self.assertEqual(self.list("Topic", system=True), ["consumer-offset", "orders"])
        self.assertEqual(self.list("Partition", "set-0", system=True), ["consumer-offset-0"])

    def test_partitions(self) -> None:
        """Partitions tell where they begin and end."""
        self.append(b"a", b"b", partition=1)
        _, shown = self.client.call(apis.LIST, ListRequest("Partition")).objects
        self.assertEqual((shown.name, shown.spec.leader), ("orders-1", 5001))
        self.assertEqual((shown.status.base_offset, shown.status.leader.high_watermark), (0, 2))

    def test_others(self) -> None:
        """There is one unit, and nothing of other kinds."""
        self.assertEqual(self.list("SPU"), ["custom-spu-5001"])
        for label in ("SmartModule", "CustomSpu", "Mirror"):
            self.assertEqual(self.list(label), [])
