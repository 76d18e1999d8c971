"""Tests for L{rustlog.wire.kafka.handlers.offsets}."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rustlog.model import Committed, TopicPartition
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.schema import Entity
from tests.unit.wire.harness import CONTEXT
from tests.unit.wire.kafka.handlers.test_groups import GroupCase

COMMIT, FETCH, DELETE, LEAVE = 8, 9, 47, 13
UNKNOWN = UUID(int=4711)


class OffsetCase(GroupCase):
    """Commits and fetches in any version."""

    def topic(self, version: int, name: str = "orders") -> dict[str, Any]:
        """How a topic is called in a version."""
        if version < 10:
            return {"name": name}
        info = self.world.broker._store.catalog.get(name)
        return {"topic_id": UNKNOWN if info is None else info.id}

    def commit(
        self, offset: int, version: int = 10, *, topic: str = "orders", partition: int = 0, **more: Any
    ) -> ErrorCode:
        """Commit one offset; the code."""
        item = {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": 7,
            "committed_metadata": more.pop("metadata", "so far"),
        }
        fields = {"group_id": "billing", "member_id": "", **more}
        topics = [{**self.topic(version, topic), "partitions": [item]}]
        (answer,) = self.ask(COMMIT, version, topics=topics, **fields).topics
        self.assertEqual(self.label(answer), self.topic(version, topic))
        return answer.partitions[0].error_code

    def label(self, topic: Entity) -> dict[str, Any]:
        return {"name": topic.name} if hasattr(topic, "name") else {"topic_id": topic.topic_id}

    def fetch(self, version: int, topics: Any, group: str = "billing") -> Entity:
        """What a group has committed: the part of the answer that is about it."""
        if version < 8:
            return self.ask(FETCH, version, group_id=group, topics=topics)
        (answer,) = self.ask(FETCH, version, groups=[{"group_id": group, "topics": topics}]).groups
        return answer

    def stored(self) -> dict[TopicPartition, Committed]:
        return self.successResultOf(self.world.broker.fetch_offsets(CONTEXT, "billing"))


class CommitTests(OffsetCase):
    """Who commits what."""

    def test_every_version(self) -> None:
        """A consumer that shares with nobody commits to an empty group; epoch and metadata are kept."""
        for version in self.versions(COMMIT):
            self.assertEqual(self.commit(version, version), ErrorCode.none)
            epoch = 7 if version >= 6 else -1
            kept = self.stored()[TopicPartition("orders", 0)]
            self.assertEqual((kept.offset, kept.leader_epoch, kept.metadata), (version, epoch, "so far"))
            self.assertEqual(kept.commit_time, self.world.environment.wall.now_ms())

    def test_one_progress(self) -> None:
        """What Kafka's clients commit, the other protocols see; and what these commit overwrites it."""
        joined = self.join("billing")
        self.sync("billing", joined)
        name = TopicPartition("orders", 0)
        done = self.world.broker.commit_offsets(CONTEXT, "billing", {name: Committed(42)})
        self.successResultOf(done)
        (topic,) = self.fetch(10, None).topics
        self.assertEqual(topic.partitions[0].committed_offset, 42)

    def test_members(self) -> None:
        """Once there are members, only they commit, in their generation."""
        joined = self.join("billing")
        member = {"member_id": joined.member_id, "generation_id_or_member_epoch": joined.generation_id}
        for version in self.versions(COMMIT):
            self.assertEqual(self.commit(1, version, **member), ErrorCode.rebalance_in_progress)
        self.sync("billing", joined)
        for version in self.versions(COMMIT):
            self.assertEqual(self.commit(1, version, **member), ErrorCode.none)
            self.assertEqual(self.commit(2, version), ErrorCode.unknown_member_id)
            old = {**member, "generation_id_or_member_epoch": 0}
            self.assertEqual(self.commit(3, version, **old), ErrorCode.illegal_generation)
        self.assertEqual(self.stored()[TopicPartition("orders", 0)].offset, 1)

    def test_generation_of_nobody(self) -> None:
        """A member of a group that is gone is told that its generation is over."""
        code = self.commit(1, member_id="m", generation_id_or_member_epoch=3)
        self.assertEqual(code, ErrorCode.illegal_generation)

    def test_unknown_partitions(self) -> None:
        """They have codes of their own, and do not harm the others."""
        for version in self.versions(COMMIT):
            unknown = ErrorCode.unknown_topic_or_partition if version < 10 else ErrorCode.unknown_topic_id
            self.assertEqual(self.commit(1, version, topic="nowhere"), unknown)
            self.assertEqual(self.commit(1, version, partition=2), ErrorCode.unknown_topic_or_partition)
            self.assertEqual(self.commit(1, version, partition=-1), ErrorCode.unknown_topic_or_partition)
        item = {"committed_offset": 5, "committed_metadata": None}
        items = [{"partition_index": each, **item} for each in (0, 9)]
        topics = [{"name": "orders", "partitions": items}]
        (answer,) = self.ask(COMMIT, 9, group_id="billing", member_id="", topics=topics).topics
        codes = [each.error_code for each in answer.partitions]
        self.assertEqual(codes, [ErrorCode.none, ErrorCode.unknown_topic_or_partition])
        self.assertEqual(self.stored()[TopicPartition("orders", 0)].metadata, "")

    def test_refusals(self) -> None:
        """Metadata that are too long, and what no offset can be."""
        self.assertEqual(self.commit(1, metadata="x" * 4096), ErrorCode.none)
        self.assertEqual(self.commit(1, metadata="ö" * 2049), ErrorCode.offset_metadata_too_large)
        self.assertEqual(self.commit(-1), ErrorCode.offset_out_of_range)
        self.assertEqual(self.commit(1, group_id="x" * 32_760), ErrorCode.none)

    def test_nothing(self) -> None:
        """A commit of nothing is answered with nothing."""
        self.assertEqual(self.ask(COMMIT, group_id="billing", member_id="", topics=[]).topics, ())


class FetchTests(OffsetCase):
    """What was committed."""

    def setUp(self) -> None:
        super().setUp()
        self.commit(11, partition=1)

    def test_every_version(self) -> None:
        """Offset, epoch and metadata; -1 where nothing was committed, or can be."""
        for version in self.versions(FETCH):
            wanted = [
                {**self.topic(version), "partition_indexes": [1, 0, 5]},
                {**self.topic(version, "nowhere"), "partition_indexes": [0]},
            ]
            orders, nowhere = self.fetch(version, wanted).topics
            self.assertEqual(self.label(orders), self.topic(version))
            found = [(each.partition_index, each.committed_offset) for each in orders.partitions]
            self.assertEqual(found, [(1, 11), (0, -1), (5, -1)])
            self.assertEqual([each.metadata for each in orders.partitions], ["so far", "", ""])
            if version >= 5:
                self.assertEqual([each.committed_leader_epoch for each in orders.partitions], [7, -1, -1])
            self.assertEqual({each.error_code for each in orders.partitions}, {ErrorCode.none})
            self.assertEqual(nowhere.partitions[0].committed_offset, -1)
            code = ErrorCode.none if version < 10 else ErrorCode.unknown_topic_id
            self.assertEqual(nowhere.partitions[0].error_code, code)

    def test_all(self) -> None:
        """Without a list of topics, everything that was committed."""
        for version in range(2, 11):
            answer = self.fetch(version, None)
            (topic,) = answer.topics
            self.assertEqual(self.label(topic), self.topic(version))
            self.assertEqual([each.partition_index for each in topic.partitions], [1])
            self.assertEqual(answer.error_code, ErrorCode.none)
            self.assertEqual(self.fetch(version, None, "nobody").topics, ())

    def test_many_groups(self) -> None:
        """New versions ask for many at once; a stable answer is what there is."""
        groups = [{"group_id": each, "topics": None} for each in ("billing", "nobody")]
        answers = self.ask(FETCH, groups=groups, require_stable=True).groups
        found = {each.group_id: len(each.topics) for each in answers}
        self.assertEqual(found, {"billing": 1, "nobody": 0})

    def test_topic_without_id(self) -> None:
        """What was committed in a topic that is gone has no place where topics are known by their ids."""
        store = self.world.broker._offsets
        self.successResultOf(store.commit("billing", {TopicPartition("gone", 0): Committed(1)}))
        self.assertEqual([each.name for each in self.fetch(9, None).topics], ["gone", "orders"])
        self.assertEqual(len(self.fetch(10, None).topics), 1)

    def test_store_is_closed(self) -> None:
        """Clients are told to look for the coordinator again."""
        self.successResultOf(self.world.broker._offsets.close())
        for version in self.versions(FETCH):
            answer = self.fetch(version, [{**self.topic(version), "partition_indexes": [1]}])
            code = answer.topics[0].partitions[0].error_code
            self.assertEqual(code, ErrorCode.coordinator_not_available)
        self.assertEqual(answer.error_code, ErrorCode.coordinator_not_available)


class DeleteTests(OffsetCase):
    """Forgetting."""

    def delete(self, *partitions: tuple[str, int], group: str = "billing") -> Entity:
        topics = [{"name": name, "partitions": [{"partition_index": index}]} for name, index in partitions]
        return self.ask(DELETE, group_id=group, topics=topics)

    def codes(self, response: Entity) -> list[ErrorCode]:
        return [each.partitions[0].error_code for each in response.topics]

    def test_delete(self) -> None:
        """What is forgotten is as if it had never been committed."""
        self.commit(1)
        response = self.delete(("orders", 0), ("nowhere", 0))
        self.assertEqual(response.error_code, ErrorCode.none)
        self.assertEqual(self.codes(response), [ErrorCode.none, ErrorCode.unknown_topic_or_partition])
        self.assertEqual(self.stored(), {})

    def test_members_read_it(self) -> None:
        """Not as long as members read the topic."""
        subscription = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x00"
        self.world.create("other", 1)
        joined = self.join("billing", protocols=[{"name": "range", "metadata": subscription}])
        self.sync("billing", joined)
        member = {"member_id": joined.member_id, "generation_id_or_member_epoch": 1}
        self.commit(1, **member)
        self.commit(1, topic="other", **member)
        codes = self.codes(self.delete(("orders", 0), ("other", 0)))
        self.assertEqual(codes, [ErrorCode.group_subscribed_to_topic, ErrorCode.none])
        self.assertEqual(list(self.stored()), [TopicPartition("orders", 0)])

    def test_refusals(self) -> None:
        """Groups that are not there, have no name, or have other members than consumers."""
        self.assertEqual(self.delete(group="nobody").error_code, ErrorCode.group_id_not_found)
        self.assertEqual(self.delete(group="").error_code, ErrorCode.invalid_group_id)
        self.join("billing", protocol_type="connect")
        self.assertEqual(self.delete(("orders", 0)).error_code, ErrorCode.non_empty_group)
