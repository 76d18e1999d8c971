"""Tests for L{rustlog.wire.kafka.handlers.partitions}."""

from __future__ import annotations

from typing import Any

from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.handlers.partitions import DESCRIBE_TOPIC_PARTITIONS, PAGE_PARTITIONS_MAX
from tests.unit.wire.kafka.harness import HandlerCase

Page = list[tuple[str, list[int]]]


class DescribeTopicPartitionsTests(HandlerCase):
    """C{orders} has two partitions, C{payments} three."""

    def setUp(self) -> None:
        super().setUp()
        self.world.create("payments", 3)

    def describe(self, *names: str, limit: int = 2000, cursor: Any = None) -> Any:
        topics = [{"name": each} for each in names]
        how = {"response_partition_limit": limit, "cursor": cursor}
        return self.ask(DESCRIBE_TOPIC_PARTITIONS, topics=topics, **how)

    def page(self, *names: str, **how: Any) -> tuple[Page, tuple[str, int] | None]:
        """Names with the numbers of their partitions, and the cursor."""
        response = self.describe(*names, **how)
        cursor = response.next_cursor
        found = [(each.name, [one.partition_index for one in each.partitions]) for each in response.topics]
        return found, cursor and (cursor.topic_name, cursor.partition_index)

    def test_topic(self) -> None:
        """A topic, its id, its partitions, who leads them, and what may be done with it."""
        (topic,) = self.describe("orders").topics
        info = self.world.memory.catalog.get("orders")
        self.assertEqual((topic.error_code, topic.topic_id), (ErrorCode.none, info.id))
        self.assertFalse(topic.is_internal)
        for index, each in enumerate(topic.partitions):
            self.assertEqual((each.error_code, each.partition_index), (ErrorCode.none, index))
            self.assertEqual((each.leader_id, each.leader_epoch), (0, 0))
            self.assertEqual((each.replica_nodes, each.isr_nodes, each.offline_replicas), ((0,), (0,), ()))
        bits = {each for each in range(31) if topic.topic_authorized_operations >> each & 1}
        self.assertEqual(bits, {3, 4, 5, 6, 7, 8, 10, 11})

    def test_all(self) -> None:
        """Without names, all topics are described."""
        self.assertEqual(self.page(), ([("orders", [0, 1]), ("payments", [0, 1, 2])], None))

    def test_pages(self) -> None:
        """Page by page, each partition is described once, whatever the size of a page."""
        for limit in range(1, 7):
            found: list[tuple[str, int]] = []
            cursor: Any = None
            for _ in range(6):
                page, position = self.page(limit=limit, cursor=cursor)
                found += [(name, index) for name, indexes in page for index in indexes]
                self.assertLessEqual(sum(len(indexes) for _, indexes in page), limit)
                if position is None:
                    break
                cursor = {"topic_name": position[0], "partition_index": position[1]}
            expected = [("orders", each) for each in range(2)] + [("payments", each) for each in range(3)]
            self.assertEqual(found, expected)

    def test_limits(self) -> None:
        """A page has at least one partition, and not more than it may, whatever is asked for."""
        self.assertEqual(self.page(limit=0), ([("orders", [0])], ("orders", 1)))
        self.assertEqual(self.page(limit=-5)[1], ("orders", 1))
        self.world.create("large", PAGE_PARTITIONS_MAX + 1)
        (((_, indexes),), cursor) = self.page("large", limit=2**31 - 1)
        self.assertEqual((len(indexes), cursor), (PAGE_PARTITIONS_MAX, ("large", PAGE_PARTITIONS_MAX)))

    def test_cursor_that_leads_nowhere(self) -> None:
        """If the topic at the cursor is gone, the next one follows; beyond the last, nothing does."""
        cursor = {"topic_name": "pa", "partition_index": 7}
        self.assertEqual(self.page(cursor=cursor), ([("payments", [0, 1, 2])], None))
        self.assertEqual(self.page(cursor={**cursor, "topic_name": "z"}), ([], None))
        cursor = {"topic_name": "orders", "partition_index": 9}
        self.assertEqual(self.page("orders", cursor=cursor), ([("orders", [])], None))
        cursor = {"topic_name": "orders", "partition_index": -9}
        self.assertEqual(self.page("orders", cursor=cursor), ([("orders", [0, 1])], None))

    def test_unknown(self) -> None:
        """What does not exist, or could not, is said to; the others are described in order."""
        topics = self.describe("payments", "no", "a/b", "payments").topics
        found = [(each.name, each.error_code, len(each.partitions)) for each in topics]
        self.assertEqual(
            found,
            [
                ("a/b", ErrorCode.invalid_topic_exception, 0),
                ("no", ErrorCode.unknown_topic_or_partition, 0),
                ("payments", ErrorCode.none, 3),
            ],
        )
