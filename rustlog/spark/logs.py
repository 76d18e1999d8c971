"""
Where a log is: with brokers, in a directory, or both.

Both look alike to whoever wants to know which partitions there are and from where to where they go
(L{Bounds <rustlog.spark.positions.Bounds>}).  When there are brokers, they are asked: only they know what is
acknowledged, and what was deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rustlog.model import TopicPartition
from rustlog.spark.errors import BrokerError, TopicNotFound
from rustlog.spark.files import DataDirectory
from rustlog.spark.kafka import EARLIEST, LATEST, KafkaClient
from rustlog.spark.options import Assigned, Pattern, Subscription, Topics
from rustlog.spark.positions import Offsets
from rustlog.spark.ranges import read_range
from rustlog.spark.vocabulary import did_you_mean


class BrokerLog:
    """The log of some brokers."""

    def __init__(self, client: KafkaClient, reads_committed: bool = False) -> None:
        self._client = client
        self._reads_committed = reads_committed

    def topics(self) -> dict[str, int]:
        """How many partitions each topic has; without those that brokers keep for themselves."""
        return {name: each.partitions for name, each in self._client.topics().items() if not each.internal}

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offsets that can be read."""
        return self._ask(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offsets behind the last that can be read."""
        return self._ask(dict.fromkeys(partitions, LATEST))

    def at_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offsets of the first records that are not older."""
        return {each: None if offset < 0 else offset for each, offset in self._ask(times).items()}

    def _ask(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        if not wanted:
            return {}
        found_offsets = self._client.list_offsets(wanted, read_committed=self._reads_committed)
        return {each: found.offset for each, found in found_offsets.items()}


class DirectoryLog:
    """The log in a data directory; it ends with the last batch that is whole."""

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory

    def topics(self) -> dict[str, int]:
        """How many partitions each topic has."""
        return {each.name: each.partitions for each in self._directory.topics() if not each.internal}

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offsets that can be read."""
        return {each: self._first(each) for each in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offsets behind the last that can be read."""
        return {each: self._end(each) for each in partitions}

    def at_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offsets of the first records that are not older; all before them is looked at."""
        return {each: self._at_time(each, time_ms) for each, time_ms in times.items()}

    def _first(self, wanted: TopicPartition) -> int:
        topic = self._directory.topic(wanted.topic)
        return self._directory.partition(topic, wanted.partition).log_start_offset

    def _end(self, wanted: TopicPartition) -> int:
        topic = self._directory.topic(wanted.topic)
        ranges = self._directory.ranges(topic, wanted.partition)
        return ranges[-1].end_offset if ranges else self._first(wanted)

    def _at_time(self, wanted: TopicPartition, time_ms: int) -> int | None:
        topic = self._directory.topic(wanted.topic)
        for each in self._directory.ranges(topic, wanted.partition):
            for rows in read_range(each, ("offset", "timestamp")):
                found = rows.column("timestamp").cast("int64").to_numpy() >= time_ms * 1000
                if found.any():
                    return int(rows.column("offset")[int(found.argmax())].as_py())
        return None


def subscribed(
    subscription: Subscription, topics: Mapping[str, int], *, must_exist: bool = True
) -> list[TopicPartition]:
    """
    The partitions that are meant.

    @param topics: those that there are.
    @param must_exist: whether a topic or partition that was named has to be there; otherwise it is left out.
    @raise TopicNotFound: it is not.
    """
    if isinstance(subscription, Pattern):
        names = [each for each in topics if re.fullmatch(subscription.expression, each)]
        return _partitions(names, topics)
    if isinstance(subscription, Topics):
        if must_exist:
            for each in subscription.names:
                _must_exist(each, topics)
        return _partitions([each for each in subscription.names if each in topics], topics)
    assert isinstance(subscription, Assigned)
    if must_exist:
        for partition in subscription.partitions:
            _must_exist(partition.topic, topics)
            if partition.partition >= topics[partition.topic]:
                raise NoSuchPartition(partition, topics[partition.topic])
    return [each for each in subscription.partitions if each.partition < topics.get(each.topic, 0)]


def _partitions(names: Iterable[str], topics: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(name, index) for name in sorted(names) for index in range(topics[name])]


def _must_exist(name: str, topics: Mapping[str, int]) -> None:
    if name not in topics:
        raise TopicNotFound(name + did_you_mean(name, topics))


class NoSuchPartition(BrokerError):
    """A topic has not so many partitions."""

    def __init__(self, partition: TopicPartition, count: int) -> None:
        super().__init__(partition, count)
        self.partition, self.count = partition, count

    def __str__(self) -> str:
        topic, partition = self.partition.topic, self.partition.partition
        return f"there is no partition {partition} of {topic}, which has {self.count}"
