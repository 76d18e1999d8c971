"""
What the requests of the RustLog protocol do, in terms of the broker.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.python.failure import Failure

from rustlog.broker import Appends, Broker
from rustlog.errors import (
    OffsetOutOfRange,
    PartitionNotFound,
    RequestRefused,
    RustlogError,
    StorageFailed,
    TopicNotFound,
    TryAgain,
)
from rustlog.interfaces import IWallClock
from rustlog.log.batch import split_batches
from rustlog.log.records import build, decode
from rustlog.longpoll import Answers
from rustlog.model import (
    MAX_OFFSET,
    Appended,
    Committed,
    Fetched,
    FetchWant,
    Record,
    RequestContext,
    TopicInfo,
    TopicPartition,
)
from rustlog.results import Result, then
from rustlog.wire.rustlog.messages import (
    FRAME_BYTES_MAX,
    CreateTopicRequest,
    CreateTopicResponse,
    FetchedRecord,
    FetchRequest,
    FetchResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ProduceRequest,
    ProduceResponse,
    Request,
    Response,
)
from rustlog.wire.rustlog.sizes import FETCH_ROOM, PRODUCE_RECORDS_MAX, fetched_record_size

READ_BYTES_MIN = 64 * 1024
READ_BYTES_MAX = FRAME_BYTES_MAX // 2
"""What is read of a log at once: a byte of a payload takes at least two bytes of JSON."""


class DoesNotFit(RequestRefused):
    """An answer would not fit a frame."""


@frozen
class Handlers:
    """
    One method for each kind of request.  Each returns a response, or a Deferred of one; or raises, or
    fails with, a L{RustlogError}.
    """

    broker: Broker
    wall: IWallClock

    def handle(self, context: RequestContext, request: Request) -> Result[Response]:
        """Do what is asked for."""
        return _METHODS[type(request)](self, context, request)

    def produce(self, context: RequestContext, request: ProduceRequest) -> Result[ProduceResponse]:
        partition = TopicPartition(request.topic, request.partition)
        count = len(request.records)
        if count > PRODUCE_RECORDS_MAX:
            raise DoesNotFit(
                f"max frame size exceeded: the offsets of {count} records do not fit an answer; "
                f"send at most {PRODUCE_RECORDS_MAX} in one request"
            )
        if not count:
            self.broker.bounds(context, partition)  # It must exist all the same.
            return ProduceResponse([])
        batch = build(map(Record, request.records), now_ms=self.wall.now_ms())
        return then(self.broker.produce(context, [(partition, batch)]), partial(_offsets, partition, count))

    def fetch(self, context: RequestContext, request: FetchRequest) -> Result[FetchResponse]:
        if request.group_id is None:
            return _Reading(self.broker, context, request, request.offset).go_on()
        partition = TopicPartition(request.topic, request.partition)
        committed = self.broker.fetch_offsets(context, request.group_id, [partition])
        return committed.addCallback(partial(self._fetch_for_group, context, request, partition))

    def _fetch_for_group(
        self,
        context: RequestContext,
        request: FetchRequest,
        partition: TopicPartition,
        committed: dict[TopicPartition, Committed],
    ) -> Any:
        offset: int = request.offset
        if partition in committed:
            offset = max(offset, committed[partition].offset)
        return _Reading(self.broker, context, request, offset).go_on()

    def commit_offset(
        self, context: RequestContext, request: OffsetCommitRequest
    ) -> Deferred[OffsetCommitResponse]:
        if request.offset > MAX_OFFSET:
            raise OffsetOutOfRange(request.offset, 0, MAX_OFFSET)
        partition = TopicPartition(request.topic, request.partition)
        done = self.broker.commit_offsets(context, request.group_id, {partition: Committed(request.offset)})
        return done.addCallbacks(lambda _: OffsetCommitResponse(True), _not_committed)

    def fetch_offset(
        self, context: RequestContext, request: OffsetFetchRequest
    ) -> Deferred[OffsetFetchResponse]:
        partition = TopicPartition(request.topic, request.partition)
        committed = self.broker.fetch_offsets(context, request.group_id, [partition])
        return committed.addCallback(
            lambda found: OffsetFetchResponse(found[partition].offset if partition in found else None)
        )

    def create_topic(
        self, context: RequestContext, request: CreateTopicRequest
    ) -> Deferred[CreateTopicResponse]:
        config: Mapping[str, object] = request.config or {}
        created = self.broker.create_topic(context, request.topic, request.partitions, config)
        return created.addCallback(_described)


_METHODS: dict[type[Request], Any] = {
    ProduceRequest: Handlers.produce,
    FetchRequest: Handlers.fetch,
    OffsetCommitRequest: Handlers.commit_offset,
    OffsetFetchRequest: Handlers.fetch_offset,
    CreateTopicRequest: Handlers.create_topic,
}


def _offsets(partition: TopicPartition, count: int, appends: Appends) -> ProduceResponse:
    (appended,) = appends
    if not isinstance(appended, Appended):
        raise _as_told(appended, partition)
    return ProduceResponse(list(range(appended.base_offset, appended.base_offset + count)))


def _not_committed(failure: Failure) -> OffsetCommitResponse:
    """No such partition, or the store failed.  Anything else is told in words."""
    failure.trap(PartitionNotFound, TopicNotFound, StorageFailed, TryAgain)
    return OffsetCommitResponse(False)


def _described(info: TopicInfo) -> CreateTopicResponse:
    return CreateTopicResponse(info.name, info.partitions, dict(info.config))


def _as_told(error: RustlogError, partition: TopicPartition) -> RustlogError:
    """For who asks for a partition, a topic that has just been deleted is one that is not there."""
    if isinstance(error, TopicNotFound):
        return PartitionNotFound(partition.topic, partition.partition)
    return error


class _Reading:
    """
    A Fetch under way: reads, decodes no more than is needed, and reads on while the answer has room
    and there is more.  (Limits of a store are of batches, those of a Fetch of payloads.)
    """

    def __init__(self, broker: Broker, context: RequestContext, request: FetchRequest, offset: int) -> None:
        self._broker = broker
        self._context = context
        self._partition = TopicPartition(request.topic, request.partition)
        self._offset = min(offset, MAX_OFFSET)
        self._bytes_left: int = request.max_bytes
        self._room = FETCH_ROOM
        self._records: list[FetchedRecord] = []
        self._end: int | None = None  # of the log, when it has been reached
        self._is_full = False

    def go_on(self) -> Any:
        """The response, or a Deferred of it."""
        while not self._is_done:
            answers = self._read()
            if type(answers) is Deferred:
                return self._go_on_after(answers)
            self._take(answers)  # type: ignore[arg-type]
        return self._response()

    @inlineCallbacks
    def _go_on_after(self, answers: Deferred[Answers]) -> Generator[Any, Any, FetchResponse]:
        self._take((yield answers))
        while not self._is_done:
            self._take((yield self._read()))
        return self._response()

    @property
    def _is_done(self) -> bool:
        return self._is_full or self._end is not None

    def _read(self) -> Result[Answers]:
        size = max(READ_BYTES_MIN, min(self._bytes_left, READ_BYTES_MAX))
        want = FetchWant(self._partition.topic, self._partition.partition, self._offset, size)
        return self._broker.fetch(self._context, [want], max_bytes=size)

    def _take(self, answers: Answers) -> None:
        (fetched,) = answers
        if isinstance(fetched, Fetched):
            try:
                self._take_records(fetched)
            except RustlogError as error:
                self._stumble(error)
            finally:
                fetched.release()
        elif isinstance(fetched, OffsetOutOfRange) and fetched.requested > fetched.high_watermark:
            self._end = fetched.high_watermark
        else:
            self._stumble(_as_told(fetched, self._partition))

    def _stumble(self, error: RustlogError) -> None:
        """What has been read is good; the client meets the error when it comes to it."""
        if not self._records:
            raise error
        self._is_full = True

    def _take_records(self, fetched: Fetched) -> None:
        for each in fetched.slices:
            for batch in split_batches(each.buffer()):
                if not batch.is_control:
                    for record in decode(batch, from_offset=self._offset):
                        self._add(record)
                        if self._is_full:
                            return
                self._offset = batch.next_offset
        if not fetched.slices or self._offset >= fetched.high_watermark:
            self._end = fetched.high_watermark

    def _add(self, record: Record) -> None:
        """Put it into the answer, if that has room; notice if it is full."""
        payload, offset = record.value or b"", record.offset
        assert offset is not None
        fetched = FetchedRecord(offset, payload)
        size = fetched_record_size(fetched)
        if self._records and (len(payload) > self._bytes_left or size > self._room):
            self._is_full = True
            return
        if size > self._room:
            raise DoesNotFit(
                f"max frame size exceeded: record at offset {offset} has {len(payload)} bytes, which as "
                f"JSON do not fit a frame of {FRAME_BYTES_MAX}; to go on behind it, fetch from {offset + 1}"
            )
        self._records.append(fetched)
        self._bytes_left -= len(payload)
        self._room -= size
        self._is_full = self._bytes_left <= 0

    def _response(self) -> FetchResponse:
        if self._records:
            return FetchResponse(self._records, self._records[-1].offset + 1)
        assert self._end is not None
        return FetchResponse([], self._end)
