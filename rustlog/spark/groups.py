"""
The offsets of groups: how far somebody has come who reads without being a member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from rustlog.model import Committed, TopicPartition
from rustlog.spark.calling import Caller, answers, by_topic
from rustlog.spark.cluster import refuse, refuse_partition
from rustlog.spark.connection import OFFSET_COMMIT, OFFSET_FETCH

_SIMPLE_GENERATION = -1


class GroupCalls(Caller):
    """The calls of a client that are about groups."""

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed | int]) -> None:
        """Remember offsets for a group that has no members at work."""
        entries = {
            key: value if isinstance(value, Committed) else Committed(value) for key, value in offsets.items()
        }

        def fields(partition: TopicPartition) -> dict[str, Any]:
            entry = entries[partition]
            return {
                "committed_offset": entry.offset, "committed_leader_epoch": entry.leader_epoch,
                "committed_metadata": entry.metadata,
            }  # fmt: skip

        def attempt() -> None:
            answer = self.cluster.coordinator(group).ask(
                OFFSET_COMMIT, group_id=group, generation_id_or_member_epoch=_SIMPLE_GENERATION, member_id="",
                group_instance_id=None, retention_time=-1, topics=by_topic(sorted(entries), fields),
            )  # fmt: skip
            for partition, each in answers(answer.topics):
                if each.error_code:
                    refuse(OFFSET_COMMIT.name, each.error_code, f"group {group}, {partition}")

        if entries:
            self.retry(OFFSET_COMMIT.name, attempt)

    def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Committed]:
        """What a group has committed; of all partitions, if none are named.  Others are not in the answer."""
        topics = None
        if partitions is not None:
            grouped = groupby(sorted(partitions), key=lambda each: each.topic)
            topics = [
                {"name": name, "partition_indexes": [each.partition for each in some]} for name, some in
                grouped ]

        def attempt() -> dict[TopicPartition, Committed]:
            answer = self.cluster.coordinator(group).ask(
                OFFSET_FETCH, group_id=group, topics=topics, require_stable=False
            )
            if answer.error_code:
                refuse(OFFSET_FETCH.name, answer.error_code, f"group {group}")
            found = {}
            for partition, each in answers(answer.topics):
                if each.error_code:
                    refuse_partition(OFFSET_FETCH.name, each.error_code, partition)
                if each.committed_offset >= 0:
                    epoch = getattr(each, "committed_leader_epoch", -1)
                    found[partition] = Committed(each.committed_offset, epoch, each.metadata or "")
            return found

        return self.retry(OFFSET_FETCH.name, attempt)
