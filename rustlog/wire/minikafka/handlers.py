"""
What the commands of the MiniKafka protocol do, in terms of the broker.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, inlineCallbacks

from rustlog.broker import Broker
from rustlog.errors import (
    Closed,
    PartitionNotFound,
    RecordTooLarge,
    RequestRefused,
    RustlogError,
    TopicIsInternal,
    TopicNotFound,
)
from rustlog.interfaces import IWallClock
from rustlog.log import records
from rustlog.model import Appended, Committed, Record, RequestContext, TopicInfo, TopicPartition
from rustlog.results import Result, then
from rustlog.wire.creating import NOT_OURS_TO_MAKE, create_or_find
from rustlog.wire.minikafka import codec
from rustlog.wire.minikafka.codec import ALL_PARTITIONS, Consume, Produce, SetOffset
from rustlog.wire.minikafka.reading import Cursors, Reader

INTERNAL_ERROR = "internal error"


class NothingOutstanding(RequestRefused):
    """An C{ACK} out of turn."""

    def __str__(self) -> str:
        return "no outstanding msg"


def words_for(error: RustlogError | None) -> str:
    """What a client is told of an error; C{None} is one that nobody expected."""
    if error is None:
        return INTERNAL_ERROR
    if isinstance(error, TopicNotFound):
        return "topic not found"
    if isinstance(error, PartitionNotFound):
        return "invalid partition number"
    if isinstance(error, TopicIsInternal):
        return f"topic is internal: {error.topic}"
    if isinstance(error, RecordTooLarge):
        return f"payload too large: {error.size} bytes exceed max.message.bytes={error.limit}"
    if isinstance(error, Closed):
        return "the broker is stopping"
    return str(error)


@frozen
class Services:
    """
    What all sessions of a listener share.

    @ivar may_create: whether topics are made by writing to them.
    @ivar trailer: what follows the payload of a message.
    """

    broker: Broker
    wall: IWallClock
    cursors: Cursors
    may_create: bool = True
    trailer: bytes = b""


@define(eq=False)
class Session:
    """
    One connection: what it consumes, and which message it has not acknowledged.

    The next message is always that behind what the group has committed, so that whoever sets its offset,
    over whatever protocol, is heeded.
    """

    _services: Services
    _consuming: Consume | None = field(default=None, init=False)
    _outstanding: tuple[TopicPartition, int] | None = field(default=None, init=False)

    def close(self) -> None:
        """Nobody is there any more."""
        self._services.cursors.forget(self)

    # -- writing --

    def has_topic(self, context: RequestContext, name: str) -> bool:
        """Whether there is such a topic already."""
        try:
            self._services.broker.topic(context, name)
        except TopicNotFound:
            return False
        return True

    def produce(self, context: RequestContext, command: Produce, length: int) -> Result[bytes]:
        """C{TOPIC}; C{length} is that of the whole request."""
        broker = self._services.broker
        if command.payload is None:
            raise RecordTooLarge(length, broker.message_bytes_max(context, command.topic))
        try:
            return self._append(context, command, broker.topic(context, command.topic))
        except TopicNotFound:
            if not self._services.may_create:
                raise
        if command.topic in NOT_OURS_TO_MAKE:
            raise TopicIsInternal(command.topic)
        made = create_or_find(broker, context, command.topic)
        return made.addCallback(lambda topic: self._append(context, command, topic))

    def _append(self, context: RequestContext, command: Produce, topic: TopicInfo) -> Any:
        partition = codec.partition_of(command.key, topic.partitions)
        record = Record(command.payload, command.key.encode())
        batch = records.build([record], now_ms=self._services.wall.now_ms())
        entry = (TopicPartition(topic.name, partition), batch)
        return then(self._services.broker.produce(context, [entry]), _offset)

    # -- reading --

    def consume(self, context: RequestContext, command: Consume) -> Deferred[bytes]:
        """A consume line: begins anew; a message that was not acknowledged will be delivered again."""
        self._outstanding = None
        self._consuming = command
        return self._next(context, command)

    @inlineCallbacks
    def acknowledge(self, context: RequestContext) -> Generator[Any, Any, bytes]:
        """C{ACK}."""
        command = self._consuming
        if self._outstanding is None or command is None:
            raise NothingOutstanding
        partition, offset = self._outstanding
        progress = {partition: Committed(offset + 1)}
        yield self._services.broker.commit_offsets(context, command.group, progress)
        self._outstanding = None
        try:
            following = yield self._next(context, command)
        except RustlogError as error:
            # The acknowledgement stands, whatever comes behind it.
            following = codec.refusal(words_for(error))
        return codec.OK + following

    @inlineCallbacks
    def _next(self, context: RequestContext, command: Consume) -> Generator[Any, Any, bytes]:
        broker = self._services.broker
        topic = broker.topic(context, command.topic)
        partitions = list(range(topic.partitions))
        if command.partition != ALL_PARTITIONS:
            if command.partition not in partitions:
                raise PartitionNotFound(command.topic, command.partition)
            partitions = [command.partition]
        reader = Reader(broker, self._services.cursors, self)
        partition, found = yield reader.next_message(
            context, topic, command.group, partitions, command.to_offset
        )
        if partition is None:
            return (
                codec.end_answer(command.to_offset)
                if found and command.to_offset is not None
                else codec.EMPTY
            )
        self._outstanding = TopicPartition(topic.name, partition), found.offset
        return codec.message_answer(found.offset, partition, found.key, found.value, self._services.trailer)

    # -- offsets --

    def set_offset(self, context: RequestContext, command: SetOffset) -> Deferred[bytes]:
        """C{SET_OFFSET}: in all partitions at once."""
        broker = self._services.broker
        topic = broker.topic(context, command.topic)
        progress = {}
        for each in range(topic.partitions):
            name = TopicPartition(topic.name, each)
            start, _ = broker.bounds(context, name)
            progress[name] = Committed(start if command.offset is None else command.offset)
        done = broker.commit_offsets(context, command.group, progress)
        return done.addCallback(lambda _: codec.OK)


def _offset(appends: list[Any]) -> bytes:
    (appended,) = appends
    if not isinstance(appended, Appended):
        raise appended
    return codec.offset_answer(appended.base_offset)
