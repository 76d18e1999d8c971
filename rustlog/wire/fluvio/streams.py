"""
What consumers read: one stream for each StreamFetch, until the connection ends.

A stream is in one of four states, and holds nothing in any but the second::

    idle  --(the partition moved)-->  busy: waits for its turn, reads, writes one answer
    busy  --(there was nothing)-->    idle
    busy  --(an answer is out)-->     silent until the client acknowledges it (UpdateOffsets)
    silent --(acknowledged)-->        busy
    any   --(an error)-->             over; the error is its last answer

The acknowledgement is no courtesy: clients queue but a few answers for each stream, and stop reading
from the whole connection when one of these queues is full.  Nor do they tell when they have lost
interest, so that a stream that is silent may have nobody behind it.  When a connection has too many, it
is one of those that must go: the one of which nothing was heard for the longest time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from rustlog.broker import Broker
from rustlog.errors import PartitionNotFound, RustlogError, TopicNotFound
from rustlog.log.batch import split_batches
from rustlog.longpoll import Answers, release
from rustlog.model import Fetched, FetchWant, RequestContext, TopicInfo, TopicPartition
from rustlog.results import Result
from rustlog.wire.fluvio.batches import offset_behind
from rustlog.wire.fluvio.errors import NONE, TOPIC_DELETED, ErrorCode, Refused, code_for, other
from rustlog.wire.fluvio.fetching import StreamFetchRequest, StreamFetchResponse
from rustlog.wire.fluvio.translations import Place, Translations
from rustlog.wire.fluvio.turns import Origin, Outlet, Turns


@define(eq=False)
class FetchStream:
    """
    What one consumer reads of one partition.

    @ivar number: by which the client speaks of it.
    """

    number: int
    request: StreamFetchRequest
    _topic: TopicInfo
    _origin: Origin
    _context: RequestContext
    _broker: Broker
    _outlet: Outlet
    _turns: Turns
    _translations: Translations
    _bytes_max: int
    _ended: Callable[[FetchStream], object]
    _position: int = field(default=0, init=False)
    _awaited: int | None = field(default=None, init=False)  # what the client has to acknowledge
    _is_busy: bool = field(default=False, init=False)
    _has_moved: bool = field(default=False, init=False)  # while it was busy
    _is_over: bool = field(default=False, init=False)
    _unwatch: Callable[[], object] = field(default=list, init=False)

    _log = Logger()

    def open(self) -> None:
        """Begin; raises C{PartitionNotFound}."""
        self._position = self.request.offset
        self._unwatch = self._broker.watch(self._context, self.name, self._moved)
        self._translations.enter(self._place)
        self._look()

    def close(self) -> None:
        """End without a word."""
        if not self._is_over:
            self._is_over = True
            self._unwatch()
            self._translations.leave(self._place)
            self._turns.forget(self)
            self._ended(self)

    def end_with(self, error: ErrorCode) -> None:
        """End, and say why."""
        if not self._is_over:
            self._push(error)
            self.close()

    @property
    def name(self) -> TopicPartition:
        """What is read."""
        return TopicPartition(self.request.topic, self.request.partition)

    @property
    def _place(self) -> Place:
        return self._topic.id, self.request.partition

    @property
    def consumer_id(self) -> str | None:
        """As whom it remembers how far it has come, if it does."""
        return self.request.consumer_id

    @property
    def is_silent(self) -> bool:
        """Whether it waits for the client."""
        return self._awaited is not None

    def acknowledge(self, offset: int) -> None:
        """The client wants the record at C{offset} next."""
        if self._awaited is not None and offset >= self._awaited:
            self._awaited = None
            self._look()

    # -- reading --

    def _moved(self) -> None:
        if self._is_deleted():
            self.end_with(TOPIC_DELETED)
        else:
            self._look()

    def _is_deleted(self) -> bool:
        """Whether the topic is gone, even if there is another one of its name now."""
        return self._broker.topic_by_id(self._context, self._topic.id) is None

    def _look(self) -> None:
        """Find out whether there is something to send, unless the client has to speak first."""
        if self._is_over or self._awaited is not None:
            return
        self._has_moved = self._is_busy
        if not self._is_busy:
            self._is_busy = True
            self._turns.ask(self)

    def bytes_wanted(self) -> int:
        return self._bytes_max

    def take_turn(self) -> Result[None]:
        if self._is_over:
            return None
        try:
            result = self._read()
            if type(result) is Deferred:
                return result.addCallback(self._found).addErrback(self._failed)
            self._found(result)  # type: ignore[arg-type]
        except Exception:
            # Whatever goes wrong, the client is told.
            self._failed(Failure())
        return None

    def _read(self) -> Result[Answers]:
        if self._is_deleted():
            raise TopicNotFound(self.request.topic)
        want = FetchWant(self.request.topic, self.request.partition, self._position, self._bytes_max)
        return self._broker.fetch(
            self._context, [want], max_bytes=self._bytes_max, isolation=self.request.isolation
        )

    def _found(self, answers: Answers) -> None:
        (answer,) = answers
        self._is_busy = False
        try:
            if self._is_over:
                return
            if not isinstance(answer, Fetched):
                raise answer
            is_empty = not answer.slices
            sent = self._send(answer)
        finally:
            release(answers)
        if not sent and (self._has_moved or not is_empty):
            self._look()

    def _failed(self, failure: Failure) -> None:
        self._is_busy = False
        error = failure.value
        if isinstance(error, (TopicNotFound, PartitionNotFound)):
            self.end_with(TOPIC_DELETED)
            return
        if not isinstance(error, RustlogError):
            self._log.failure("a stream of {client} failed", failure, client=self._context.client)
        assert error is not None
        self.end_with(code_for(error))

    # -- writing --

    def _send(self, fetched: Fetched) -> bool:
        """Send what was found; whether there is something that can be shown."""
        batches: list[bytes] = []
        records = 0
        for each in fetched.slices:
            for batch in split_batches(each.buffer()):
                batches += self._translations.translate(self._place, batch)
                records += batch.record_count
                self._position = batch.next_offset
        if batches:
            # Not the position: what lies behind the last record that is shown may be a gap.
            self._awaited = offset_behind(batches[-1])
            self._push(NONE, fetched, batches, records)
        return bool(batches)

    def _push(
        self, error: ErrorCode, fetched: Fetched | None = None, batches: Any = (), records: int = 0
    ) -> None:
        name = self.name
        bounds = (-1, -1) if fetched is None else (fetched.high_watermark, fetched.log_start_offset)
        self._outlet.push(
            self._origin,
            StreamFetchResponse(name.topic, self.number, name.partition, error, *bounds, batches),
            error=error,
            topic=name.topic,
            partition=name.partition,
            records=records,
        )


class FetchStreams:
    """Those of one connection."""

    def __init__(
        self,
        outlet: Outlet,
        turns: Turns,
        broker: Broker,
        translations: Translations,
        *,
        streams_max: int,
        bytes_max: int,
    ) -> None:
        self._outlet = outlet
        self._turns = turns
        self._broker = broker
        self._translations = translations
        self._streams_max = streams_max
        self._bytes_max = bytes_max
        self._numbers = count(1)
        self._streams: dict[int, FetchStream] = {}  # those not heard of for the longest time first

    def __len__(self) -> int:
        return len(self._streams)

    def open(self, context: RequestContext, origin: Origin, request: StreamFetchRequest) -> FetchStream:
        """
        Begin one.

        @raise PartitionNotFound: there is no such partition.
        @raise Refused: there are too many.
        """
        self._make_room()
        try:
            topic = self._broker.topic(context, request.topic)
        except TopicNotFound:
            raise PartitionNotFound(request.topic, request.partition) from None
        stream = FetchStream(
            number=next(self._numbers),
            request=request,
            topic=topic,
            origin=origin,
            context=context,
            broker=self._broker,
            outlet=self._outlet,
            turns=self._turns,
            translations=self._translations,
            bytes_max=max(1, min(request.max_bytes, self._bytes_max)),
            ended=self._ended,
        )
        self._streams[stream.number] = stream
        try:
            stream.open()
        except RustlogError:
            del self._streams[stream.number]
            raise
        return stream

    def find(self, number: int) -> FetchStream | None:
        """The one of that number, if it is not over."""
        return self._streams.get(number)

    def acknowledge(self, number: int, offset: int) -> bool:
        """The client has read so far of a stream; whether there is such a stream."""
        stream = self._streams.pop(number, None)
        if stream is None:
            return False
        self._streams[number] = stream  # behind those of which nothing was heard since
        stream.acknowledge(offset)
        return True

    def close(self) -> None:
        """End all of them, without a word."""
        for each in list(self._streams.values()):
            each.close()

    def _make_room(self) -> None:
        if len(self._streams) < self._streams_max:
            return
        silent = next((each for each in self._streams.values() if each.is_silent), None)
        sentence = f"the connection has more than streams.max={self._streams_max} streams"
        if silent is None:
            raise Refused(other(sentence), sentence)
        silent.end_with(other(sentence))

    def _ended(self, stream: FetchStream) -> None:
        self._streams.pop(stream.number, None)
