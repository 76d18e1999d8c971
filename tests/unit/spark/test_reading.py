"""Tests for L{rustlog.spark.reading}."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from rustlog.model import Record, TopicPartition
from rustlog.spark.errors import CorruptLog, DataLost
from rustlog.spark.kafka import Fetched
from rustlog.spark.reading import read_offsets
from tests.unit.spark.harness import NOW, log_of

ORDERS = TopicPartition("orders", 0)
LOG = log_of([[Record(b"value", None, (), NOW) for _ in range(5)]] * 2)
BATCH_BYTES = len(LOG) // 2


@define
class Client:
    """Stands for a L{KafkaClient <rustlog.spark.kafka.KafkaClient>}: brings what it is told to."""

    answers: list[Fetched]
    asked: list[tuple[int, int]] = field(factory=list)

    def fetch(self, partition: TopicPartition, offset: int, *, max_bytes: int, **_: Any) -> Fetched:
        self.asked.append((offset, max_bytes))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def brought(data: bytes, end: int = 10) -> Fetched:
    return Fetched(data, end, end, 0)


def read(client: Client, begin: int, end: int, **more: Any) -> list[int]:
    found = read_offsets(client, ORDERS, begin, end, columns=("offset",), **more)  # type: ignore[arg-type]
    return [offset for rows in found for offset in rows["offset"].to_pylist()]


class ReadingTests(SynchronousTestCase):
    """From one fetch to the next."""

    def test_goes_on(self) -> None:
        """The next fetch begins behind the last whole batch; what comes twice is shown once."""
        client = Client([brought(LOG[: BATCH_BYTES + 30]), brought(LOG)])
        self.assertEqual(read(client, 2, 9), list(range(2, 9)))
        self.assertEqual([offset for offset, _ in client.asked], [2, 5])

    def test_nothing_wanted(self) -> None:
        """An empty range asks for nothing."""
        client = Client([])
        self.assertEqual(read(client, 3, 3), [])

    def test_larger_batch(self) -> None:
        """A batch of which only a part comes is asked for with more room."""
        client = Client([brought(LOG[:100]), brought(LOG[:100]), brought(LOG)])
        self.assertEqual(len(read(client, 0, 10, fetch_bytes=100)), 10)
        self.assertEqual([room for _, room in client.asked], [100, 200, 400])

    def test_end(self) -> None:
        """Where the log ends before the range does, that is told."""
        client = Client([brought(LOG), brought(b"")])
        error = self.assertRaises(DataLost, read, client, 0, 11)
        self.assertEqual((error.offset, error.end), (10, 10))

    def test_nothing_comes(self) -> None:
        """A broker that always brings nothing, though there is something, is not asked for ever."""
        client = Client([brought(b"")])
        self.assertRaises(CorruptLog, read, client, 0, 10)
        self.assertEqual(len(client.asked), 60)

    def test_open_transaction(self) -> None:
        """Up to an open transaction only what is before it is there."""
        client = Client([Fetched(b"", 10, 4, 0)])
        self.assertEqual(self.assertRaises(DataLost, read, client, 4, 10).end, 4)
