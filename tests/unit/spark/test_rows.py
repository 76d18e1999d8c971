"""Tests for L{rustlog.spark.rows}: where each row goes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from twisted.trial.unittest import SynchronousTestCase

from rustlog.client.partitioning import partition_for
from rustlog.model import TopicPartition
from rustlog.spark.columns import HEADER
from rustlog.spark.errors import BadOption
from rustlog.spark.options import WriteOptions, write_options
from rustlog.spark.rows import Sorter, UnusableRow, check_columns
from rustlog.spark.vocabulary import WRITE


def options(**given: str) -> WriteOptions:
    return write_options({"kafka.bootstrap.servers": "127.0.0.1:1", **given}, WRITE)


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


class ColumnTests(SynchronousTestCase):
    def test_all(self) -> None:
        """What Kafka's sink takes is taken, and what it does not look at is not looked at."""
        found = check_columns(
            schema(
                note=pa.int8(), value=pa.string(), key=pa.binary(), topic=pa.string(), partition=pa.int32(),
                headers=pa.list_(HEADER), timestamp=pa.timestamp("us", "UTC"),
            ),
            options(),
        )  # fmt: skip
        self.assertEqual(found, ("key", "value", "topic", "partition", "headers"))

    def test_time_on_request(self) -> None:
        """A timestamp is written if that is asked for."""
        columns = schema(value=pa.binary(), timestamp=pa.timestamp("us", "UTC"))
        self.assertIn("timestamp", check_columns(columns, options(topic="t", includeTimestamp="true")))

    def test_refused(self) -> None:
        """Columns that can not be written are refused before there are rows."""
        for columns, option, words in (
            (schema(key=pa.string()), "value", "no such column, only key"),
            (schema(value=pa.string()), "topic", "say where rows go"),
            (schema(value=pa.int64(), topic=pa.string()), "value", "string or binary, not int64; cast it"),
            (schema(value=pa.string(), topic=pa.binary()), "topic", "has to be string"),
            (
                schema(value=pa.string(), topic=pa.string(), partition=pa.int64()),
                "partition", "has to be int",
            ),
            (
                schema(value=pa.string(), topic=pa.string(), headers=pa.list_(pa.string())),
                "headers", "array<struct<key: string, value: binary>>",
            ),
        ):  # fmt: skip
            error = self.assertRaises(BadOption, check_columns, columns, options())
            self.assertEqual(error.option, option)
            self.assertIn(words, str(error))


class SorterTests(SynchronousTestCase):
    def sort(self, rows: dict[str, Any], topic: str | None = "t", **more: Any) -> dict[Any, list[Any]]:
        """The values that each partition gets."""
        types = {"partition": pa.int32(), "key": pa.string()}
        arrays = {name: pa.array(values, types.get(name)) for name, values in rows.items()}
        sorter = Sorter(tuple(rows), topic, more.get("batch_bytes", 10**6), {"t": 3, "u": 1}.__getitem__)
        found: dict[TopicPartition, list[Any]] = {}
        batch = pa.RecordBatch.from_pydict(arrays)
        for some in (batch.slice(0, 2), batch.slice(2)):
            for target, table in [*sorter.add(some)]:
                found.setdefault(target, []).extend(table.column("value").to_pylist())
        for target, table in sorter.rest():
            found.setdefault(target, []).extend(table.column("value").to_pylist())
        return found

    def test_by_key(self) -> None:
        """Keys decide, as in every client of Kafka, and order is kept."""
        keys = ["a", "b", "c", "a", "d", "b"]
        found = self.sort({"key": keys, "value": list("123456")})
        expected: dict[TopicPartition, list[str]] = {}
        for key, value in zip(keys, "123456", strict=True):
            expected.setdefault(TopicPartition("t", partition_for(key.encode(), 3)), []).append(value)
        self.assertEqual(found, expected)

    def test_by_partition(self) -> None:
        """A row may say its partition itself; those that do not go by their key."""
        found = self.sort({"key": ["a", "a", "a"], "partition": [2, None, 1], "value": ["x", "y", "z"]})
        own = partition_for(b"a", 3)
        expected: dict[int, list[str]] = {}
        for partition, value in ((2, "x"), (own, "y"), (1, "z")):
            expected.setdefault(partition, []).append(value)
        self.assertEqual(found, {TopicPartition("t", each): values for each, values in expected.items()})

    def test_by_topic(self) -> None:
        """A column says the topic, unless an option says it for all."""
        rows = {"topic": ["u", "t", "u"], "partition": [0, 0, 0], "value": ["x", "y", "z"]}
        found = self.sort(rows, topic=None)
        self.assertEqual(found, {TopicPartition("u", 0): ["x", "z"], TopicPartition("t", 0): ["y"]})
        self.assertEqual(list(self.sort(rows, topic="u")), [TopicPartition("u", 0)])

    def test_full_batches(self) -> None:
        """Rows are handed on when there are enough of them."""
        found = self.sort({"partition": [0, 0, 1], "value": ["x" * 100] * 3}, batch_bytes=150)
        self.assertEqual({target.partition: len(values) for target, values in found.items()}, {0: 2, 1: 1})

    def test_unusable(self) -> None:
        """A row without a topic, or for a partition that is not there, is an error."""
        rows = {"topic": ["t", None], "value": ["x", "y"]}
        error = self.assertRaises(UnusableRow, self.sort, rows, topic=None)
        self.assertIn("topic is null", str(error))
        error = self.assertRaises(UnusableRow, self.sort, {"partition": [3], "value": ["x"]})
        self.assertIn("no partition 3 of t, which has 3", str(error))
        error = self.assertRaises(UnusableRow, self.sort, {"partition": [-1, None], "value": ["x", "y"]})
        self.assertIn("no partition -1", str(error))
