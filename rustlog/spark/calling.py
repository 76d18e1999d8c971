"""
L{Caller}: what all calls of a client have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from types import TracebackType
from typing import Any, Self, TypeVar

from rustlog.environment.pace import Pace, SystemPace
from rustlog.model import TopicPartition
from rustlog.spark.cluster import Cluster, Open
from rustlog.spark.connection import Connection
from rustlog.spark.errors import BrokerError
from rustlog.spark.retrying import Attempts, may_have_been_done
from rustlog.spark.settings import ClientSettings
from rustlog.wire.kafka.schema import Entity

T = TypeVar("T")


class Caller:
    """
    Has connections, and tries again.

    @param pace: time; only tests have another one.
    @param open_connection: and other connections.
    """

    def __init__(
        self, settings: ClientSettings, *, pace: Pace | None = None, open_connection: Open = Connection
    ) -> None:
        self._settings = settings
        self._pace: Pace = pace or SystemPace()
        self.cluster = Cluster(settings, self._pace, open_connection)

    def close(self) -> None:
        """Hang up."""
        self.cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def timeout_ms(self) -> int:
        """How long brokers may take for what they do."""
        return int(self._settings.request_seconds * 1000)

    def retry(
        self,
        request: str,
        attempt: Callable[[], T],
        *,
        may_repeat: bool = True,
        waits_for_topics: bool = True,
    ) -> T:
        """
        Do something until it succeeds.

        @param may_repeat: whether it does no harm to do it again when nobody knows whether it was done.
        @param waits_for_topics: whether a topic that is not there may come into being.
        """
        attempts = Attempts(request, self._settings, self._pace, waits_for_topics)
        while True:
            try:
                return attempt()
            except BrokerError as problem:
                self.cluster.recover(problem)
                if not may_repeat and may_have_been_done(problem):
                    raise
                attempts.wait_after(problem)


def by_topic(
    partitions: Iterable[TopicPartition], fields: Callable[[TopicPartition], dict[str, Any]]
) -> list[dict[str, Any]]:
    """What requests about partitions have in common."""
    return [
        {"name": name, "partitions": [{"partition_index": each.partition, **fields(each)} for each in some]}
        for name, some in groupby(partitions, key=lambda each: each.topic)
    ]


def answers(topics: Iterable[Entity]) -> Iterable[tuple[TopicPartition, Entity]]:
    """And what their answers have in common."""
    for topic in topics:
        for each in topic.partitions:
            yield TopicPartition(topic.name, each.partition_index), each
