"""
The binary encoding, written a second time: as a client in another language would, from the reference alone.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import pack, unpack_from
from typing import Any


def text(value: str) -> bytes:
    encoded = value.encode()
    return pack(">H", len(encoded)) + encoded


def blob(value: bytes) -> bytes:
    return pack(">I", len(value)) + value


def produce(*payloads: bytes, topic: str = "orders", partition: int = 0) -> bytes:
    """A Produce request."""
    return b"\x01" + text(topic) + pack(">II", partition, len(payloads)) + b"".join(map(blob, payloads))


def fetch(
    offset: int = 0, *, max_bytes: int = 2**20, group: str = "", topic: str = "orders", partition: int = 0
) -> bytes:
    """A Fetch request."""
    return b"\x02" + text(group) + text(topic) + pack(">IQI", partition, offset, max_bytes)


def commit(offset: int, *, group: str = "kitchen", topic: str = "orders", partition: int = 0) -> bytes:
    """An OffsetCommit request."""
    return b"\x03" + text(group) + text(topic) + pack(">IQ", partition, offset)


def committed(*, group: str = "kitchen", topic: str = "orders", partition: int = 0) -> bytes:
    """An OffsetFetch request."""
    return b"\x04" + text(group) + text(topic) + pack(">I", partition)


def create(topic: str, partitions: int = 1) -> bytes:
    """A CreateTopic request."""
    return b"\x05" + text(topic) + pack(">I", partitions)


LIST_TOPICS = b"\x06"
METRICS = b"\x09"
PING = b"\xff"


def describe_topic(topic: str) -> bytes:
    """A DescribeTopic request."""
    return b"\x07" + text(topic)


def describe_partition(topic: str, partition: int = 0) -> bytes:
    """A DescribePartition request."""
    return b"\x08" + text(topic) + pack(">I", partition)


class Answer:
    """Takes a response apart; what is left over is an error."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 1

    def take(self, layout: str) -> Any:
        (value,) = unpack_from(f">{layout}", self._data, self._position)
        self._position += {"B": 1, "H": 2, "I": 4, "Q": 8}[layout]
        return value

    def some(self, size: int) -> bytes:
        start, self._position = self._position, self._position + size
        assert self._position <= len(self._data), "the answer is cut off"
        return self._data[start : self._position]

    def text(self) -> str:
        return self.some(self.take("H")).decode()

    def blob(self) -> bytes:
        return self.some(self.take("I"))

    def many(self, *readers: Callable[[], Any]) -> list[Any]:
        rows = [tuple(read() for read in readers) for _ in range(self.take("I"))]
        return [row[0] if len(row) == 1 else row for row in rows]

    def u32(self) -> int:
        return int(self.take("I"))

    def u64(self) -> int:
        return int(self.take("Q"))

    def parsed(self) -> tuple[Any, ...]:
        """The name of the response, and its fields."""
        read: dict[int, Callable[[], tuple[Any, ...]]] = {
            0x01: lambda: ("Produce", self.u64(), self.u32()),
            0x02: lambda: ("Fetch", self.many(self.blob), self.u64()),
            0x03: lambda: ("OffsetCommit", self.take("B")),
            0x04: lambda: ("OffsetFetch", self.u64() if self.take("B") else None),
            0x05: lambda: ("CreateTopic", self.take("B")),
            0x06: lambda: ("ListTopics", self.many(self.text, self.u32)),
            0x07: lambda: ("DescribeTopic", self.text(), self.u32(), self.many(self.u32, self.u64)),
            0x08: lambda: ("DescribePartition", self.text(), self.u32(), self.u64()),
            0x09: lambda: ("MetricsFetch", self.blob()),
            0xFE: lambda: ("Error", self.take("H"), self.text()),
            0xFF: lambda: ("Ping",),
        }
        found = read[self._data[0]]()
        assert self._position == len(self._data), "something follows the answer"
        return found


def parse(answer: bytes) -> tuple[Any, ...]:
    """The name of a response, and its fields."""
    return Answer(answer).parsed()
