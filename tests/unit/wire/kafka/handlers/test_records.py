"""Tests for L{rustlog.wire.kafka.handlers.records}."""

from __future__ import annotations

from typing import Any

from rustlog.log import records
from rustlog.model import Record, TopicPartition
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.handlers.records import DELETE_RECORDS, HIGH_WATERMARK
from tests.unit.wire.kafka.harness import CONTEXT, HandlerCase


class DeleteRecordsTests(HandlerCase):
    def setUp(self) -> None:
        super().setUp()
        batch = records.build([Record(b"x", timestamp=1)] * 10, now_ms=0)
        self.world.broker.produce(CONTEXT, [(TopicPartition("orders", 0), batch)])

    def delete(self, version: int | None, *wanted: tuple[str, int, int]) -> list[tuple[Any, int]]:
        """Codes and low watermarks."""
        topics = [
            {"name": name, "partitions": [{"partition_index": index, "offset": offset}]}
            for name, index, offset in wanted
        ]
        response = self.ask(DELETE_RECORDS, version, topics=topics, timeout=1000)
        self.assertEqual([each.name for each in response.topics], [name for name, _, _ in wanted])
        return [
            (each.error_code, each.low_watermark) for topic in response.topics for each in topic.partitions
        ]

    def test_every_version(self) -> None:
        """The log begins where it was told to, and never goes back."""
        for version in self.versions(DELETE_RECORDS):
            start = version + 2
            self.assertEqual(self.delete(version, ("orders", 0, start)), [(ErrorCode.none, start)])
            self.assertEqual(self.delete(version, ("orders", 0, 1)), [(ErrorCode.none, start)])

    def test_everything(self) -> None:
        """Instead of an offset, the end of the log may be meant."""
        self.assertEqual(self.delete(None, ("orders", 0, HIGH_WATERMARK)), [(ErrorCode.none, 10)])
        self.assertEqual(self.world.broker.bounds(CONTEXT, TopicPartition("orders", 0)), (10, 10))

    def test_refused(self) -> None:
        """What is not there can not be deleted; one error is not the others'."""
        found = self.delete(None, ("orders", 0, 11), ("orders", 0, -2), ("orders", 5, 0), ("orders", 0, 3))
        out_of_range = (ErrorCode.offset_out_of_range, -1)
        unknown = (ErrorCode.unknown_topic_or_partition, -1)
        self.assertEqual(found, [out_of_range, out_of_range, unknown, (ErrorCode.none, 3)])

    def test_internal(self) -> None:
        """The broker's own records are not for clients to delete."""
        self.world.memory.catalog.create("__own", 1, {}, internal=True)
        self.assertEqual(self.delete(None, ("__own", 0, 0)), [(ErrorCode.invalid_topic_exception, -1)])
