"""Tests for L{rustlog.spark.parts}: what workers read, and what they do when it is gone."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.records import build
from rustlog.model import Record, TopicPartition
from rustlog.spark.errors import DataLost
from rustlog.spark.options import ReadOptions, read_options
from rustlog.spark.parts import PartReader, Piece, plan_parts
from rustlog.spark.planning import OffsetRange
from rustlog.spark.ranges import Range
from tests.unit.spark.brokers import FakeBroker

ORDERS = TopicPartition("orders", 0)


def options(**given: str) -> ReadOptions:
    return read_options({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders", **given})


def stored(start: int, end: int, sealed: bool = True) -> Range:
    """A piece of a file that is not there."""
    return Range("orders", 0, "segments", "/nowhere/0.log", 0, 1000, start, end, start, end, sealed)


class PartTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = FakeBroker(orders=1)
        for number in range(10):
            values = [Record(b"%d" % (3 * number + each)) for each in range(3)]
            self.broker.append(ORDERS, bytes(build(values, now_ms=1).buffer))

    def offsets(self, piece: Piece, wanted: ReadOptions) -> list[int]:
        connect: Any = self.broker.connect
        reader = PartReader(wanted, ("offset",), connect)
        return [offset for rows in reader.read(piece) for offset in rows.column("offset").to_pylist()]

    def test_fetched(self) -> None:
        """A range is read to the record, though the log has whole batches."""
        self.assertEqual(self.offsets(OffsetRange(ORDERS, 4, 17), options()), list(range(4, 17)))

    def test_deleted(self) -> None:
        """What was deleted is an error, or passed over."""
        self.broker.delete_before(ORDERS, 9)
        error = self.assertRaises(DataLost, self.offsets, OffsetRange(ORDERS, 4, 17), options())
        self.assertIn("offset 4 of orders-0 can not be read", str(error))
        lenient = options(failOnDataLoss="false")
        self.assertEqual(self.offsets(OffsetRange(ORDERS, 4, 17), lenient), list(range(9, 17)))
        self.assertEqual(self.offsets(OffsetRange(ORDERS, 4, 9), lenient), [])

    def test_beyond_the_end(self) -> None:
        """So is what the log does not reach."""
        self.assertRaises(DataLost, self.offsets, OffsetRange(ORDERS, 25, 40), options())
        lenient = options(failOnDataLoss="false")
        self.assertEqual(self.offsets(OffsetRange(ORDERS, 25, 40), lenient), list(range(25, 30)))
        self.assertEqual(self.offsets(OffsetRange(ORDERS, 35, 40), lenient), [])

    def test_file_is_gone(self) -> None:
        """A file that is not there, or not on this machine, is asked of the broker, if there is one."""
        self.assertEqual(self.offsets(stored(4, 17), options()), list(range(4, 17)))
        alone = read_options({"path": "/nowhere", "subscribe": "orders"})
        self.assertRaises(DataLost, self.offsets, stored(4, 17), alone)
        lenient = read_options({"path": "/nowhere", "subscribe": "orders", "failOnDataLoss": "false"})
        self.assertEqual(self.offsets(stored(4, 17), lenient), [])


class Directory:
    """A data directory with one sealed file."""

    def __init__(self, start: int, end: int) -> None:
        self._bounds = start, end

    def topic(self, name: str) -> str:
        return name

    def ranges(self, topic: str, index: int, *, from_offset: int, to_offset: int, **_: Any) -> list[Range]:
        start, end = max(self._bounds[0], from_offset), min(self._bounds[1], to_offset)
        return [stored(start, end)] if start < end else []


class PlanTests(SynchronousTestCase):
    def plan(self, start: int, end: int, directory: Any) -> list[Piece]:
        return plan_parts([OffsetRange(ORDERS, start, end)], options(path="/nowhere"), directory)

    def test_files_and_broker(self) -> None:
        """What files do not have, before them or behind them, is fetched."""
        self.assertEqual(
            self.plan(5, 30, Directory(10, 20)),
            [stored(10, 20), OffsetRange(ORDERS, 5, 10), OffsetRange(ORDERS, 20, 30)],
        )
        self.assertEqual(self.plan(12, 15, Directory(10, 20)), [stored(12, 15)])
        self.assertEqual(self.plan(20, 30, Directory(10, 20)), [OffsetRange(ORDERS, 20, 30)])
