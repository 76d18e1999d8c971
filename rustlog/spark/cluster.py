"""
L{Cluster}: which broker to ask, and the connections to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NoReturn

from kio.schema.errors import ErrorCode

from rustlog.environment.pace import Pace
from rustlog.model import TopicPartition
from rustlog.spark.connection import FIND_COORDINATOR, METADATA, Connection
from rustlog.spark.errors import BrokerError, ConnectionFailed, ConnectionLost, RequestRefused, TopicNotFound
from rustlog.spark.settings import ClientSettings
from rustlog.wire.kafka.schema import Entity

Open = Callable[[str, int, ClientSettings, Pace], Connection]

_MISSING = (ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_topic_exception)

_FINAL = frozenset({ErrorCode.corrupt_message, ErrorCode.election_not_needed})
"""
Kafka says that these may be tried again; but a damaged log stays damaged.
"""


def refuse(request: str, code: ErrorCode, subject: object, message: str | None = None) -> NoReturn:
    """Say what a broker has said."""
    is_retriable = bool(code.retriable) and code not in _FINAL
    raise RequestRefused(request, int(code), code.name.upper(), str(subject), message or "", is_retriable)


def refuse_partition(request: str, code: ErrorCode, partition: TopicPartition) -> NoReturn:
    """The same about a partition."""
    if code in _MISSING:
        raise TopicNotFound(partition.topic, partition.partition)
    refuse(request, code, partition)


class Cluster:
    """
    Brokers by their ids, and what they lead.

    @param open_connection: L{Connection}, or what stands for it.
    """

    def __init__(self, settings: ClientSettings, pace: Pace, open_connection: Open = Connection) -> None:
        self._settings = settings
        self._pace = pace
        self._open = open_connection
        self._connections: dict[tuple[str, int], Connection] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._controller: int | None = None

    # -- who is it --

    def any(self) -> Connection:
        """
        A broker that answers.

        @raise ConnectionFailed: none does.
        """
        addresses = dict.fromkeys((*self._connections, *self._addresses.values(), *self._settings.bootstrap))
        problems = []
        for address in addresses:
            try:
                return self._connect(address)
            except (ConnectionFailed, ConnectionLost) as problem:
                problems.append(problem)
        if len(problems) == 1:
            raise problems[0]
        raise ConnectionFailed("any broker", "; ".join(f"{each.address}: {each.reason}" for each in problems))

    def leader(self, partition: TopicPartition) -> Connection:
        """
        The broker that has a partition.

        @raise TopicNotFound: there is none.
        @raise RequestRefused: nobody leads it at the moment.
        """
        if partition not in self._leaders:
            topic = self.metadata([partition.topic]).get(partition.topic)
            known = [each.partition_index for each in topic.partitions] if topic is not None else []
            if topic is not None and partition.partition not in known:
                raise TopicNotFound(partition.topic, partition.partition)
        if partition not in self._leaders:
            refuse(METADATA.name, ErrorCode.leader_not_available, partition)
        return self._node(self._leaders[partition])

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> list[tuple[Connection, list[TopicPartition]]]:
        """Partitions, by the broker that has them."""
        grouped: dict[Connection, list[TopicPartition]] = {}
        for each in partitions:
            grouped.setdefault(self.leader(each), []).append(each)
        return list(grouped.items())

    def controller(self) -> Connection:
        """The broker that creates topics; where any may be asked, any."""
        if self._controller is None:
            self.metadata([])
        return self.any() if self._controller not in self._addresses else self._node(self._controller)

    def coordinator(self, group: str) -> Connection:
        """The broker that keeps the offsets of a group."""
        found = self.any().ask(FIND_COORDINATOR, key=group, key_type=0)
        if found.error_code:
            refuse(FIND_COORDINATOR.name, found.error_code, f"group {group}")
        self._addresses[found.node_id] = (found.host, found.port)
        return self._node(found.node_id)

    def metadata(self, topics: Collection[str] | None, *, creates: bool = False) -> dict[str, Entity]:
        """
        Ask for topics, C{None} for all of them, and remember who leads them.

        @param creates: whether one that is not there may be created, if the brokers do such things.
        @raise TopicNotFound: one of those asked for is not there.
        """
        wanted = None if topics is None else [{"name": name} for name in topics]
        answer = self.any().ask(METADATA, topics=wanted, allow_auto_topic_creation=creates)
        self._addresses.update({each.node_id: (each.host, each.port) for each in answer.brokers})
        self._controller = answer.controller_id
        for topic in answer.topics:
            self.forget(topic.name)
            if topics is not None and topic.error_code in _MISSING:
                raise TopicNotFound(topic.name)
            if topics is not None and topic.error_code not in (0, ErrorCode.leader_not_available):
                refuse(METADATA.name, topic.error_code, topic.name)
            for each in topic.partitions:
                if each.leader_id >= 0:
                    self._leaders[TopicPartition(topic.name, each.partition_index)] = each.leader_id
        return {topic.name: topic for topic in answer.topics if not topic.error_code}

    # -- what does not hold any more --

    def forget(self, topic: str) -> None:
        """Who leads a topic may have changed."""
        for partition in [each for each in self._leaders if each.topic == topic]:
            del self._leaders[partition]

    def recover(self, problem: BrokerError) -> None:
        """Something went wrong: trust nothing that was known before."""
        self._leaders.clear()
        self._controller = None
        if not isinstance(problem, RequestRefused):
            self.close()

    def close(self) -> None:
        """Hang up."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- connections --

    def _node(self, node_id: int) -> Connection:
        return self._connect(self._addresses[node_id])

    def _connect(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is not None and connection.is_gone():
            connection.close()
            del self._connections[address]
            connection = None
        if connection is None:
            connection = self._connections[address] = self._open(*address, self._settings, self._pace)
        return connection
