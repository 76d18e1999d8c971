"""
What the requests of the RustLog protocol do, in terms of the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from itertools import repeat
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.python.failure import Failure

import rustlog
from rustlog.broker import Appends, Broker
from rustlog.errors import (
    OffsetOutOfRange,
    PartitionNotFound,
    RustlogError,
    StorageFailed,
    TopicNotFound,
    TryAgain,
)
from rustlog.interfaces import IWallClock
from rustlog.log.records import NO_TIMESTAMP, build
from rustlog.model import MAX_OFFSET, Appended, Committed, Record, RequestContext, TopicPartition
from rustlog.results import Result, shielded, then
from rustlog.wire.rustlog.administration import METHODS as ADMINISTRATION
from rustlog.wire.rustlog.messages import (
    ENCODINGS,
    FRAME_BYTES_MAX,
    REQUESTS,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    FetchResponse,
    MetricsFetchRequest,
    MetricsFetchResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    PingRequest,
    PingResponse,
    ProduceRequest,
    ProduceResponse,
    Request,
    Response,
)
from rustlog.wire.rustlog.reading import DoesNotFit, Reading, as_told, wait_for_data
from rustlog.wire.rustlog.sizes import PRODUCE_RECORDS_MAX


@frozen
class Handlers:
    """
    One method for each kind of request.  Each returns a response, or a Deferred of one; or raises, or
    fails with, a L{RustlogError <rustlog.errors.RustlogError>}.

    @ivar metrics_text: all measurements, as Prometheus reads them.
    """

    broker: Broker
    wall: IWallClock
    metrics_text: Callable[[], Result[bytes]] = bytes

    def handle(self, context: RequestContext, request: Request) -> Result[Response]:
        """Do what is asked for."""
        kind = type(request)
        method = _METHODS.get(kind)
        if method is not None:
            return method(self, context, request)
        return ADMINISTRATION[kind](self.broker, context, request)

    # -- records --

    def produce(self, context: RequestContext, request: ProduceRequest) -> Result[ProduceResponse]:
        partition = TopicPartition(request.topic, request.partition)
        count = len(request.records)
        if count > PRODUCE_RECORDS_MAX:
            raise DoesNotFit(
                f"max frame size exceeded: there are {count} records; send at most {PRODUCE_RECORDS_MAX} "
                f"in one request, so that their offsets fit an answer"
            )
        if not count:
            self.broker.bounds(context, partition)  # It must exist all the same.
            return ProduceResponse([])
        batch = build(_records(request), now_ms=self.wall.now_ms())
        return then(self.broker.produce(context, [(partition, batch)]), partial(_offsets, partition, count))

    @inlineCallbacks
    def wait(self, context: RequestContext, request: FetchRequest) -> Generator[Any, Any, None]:
        """Wait until there is something to fetch, for as long as the request says; never fails for that."""
        partition = TopicPartition(request.topic, request.partition)
        offset = request.offset
        try:
            if request.group_id is not None:
                committed = yield self.broker.fetch_offsets(context, request.group_id, [partition])
                offset = _further(offset, committed.get(partition))
            yield wait_for_data(self.broker, context, request, offset)
        except RustlogError:
            pass  # Who fetches will meet it again, and tell.

    def fetch(self, context: RequestContext, request: FetchRequest) -> Result[FetchResponse]:
        if request.group_id is None:
            return Reading(self.broker, context, request, request.offset).go_on()
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
        offset = _further(request.offset, committed.get(partition))
        response = Reading(self.broker, context, request, offset).go_on()
        if not request.auto_commit:
            return response
        return then(response, partial(self._commit, context, request, partition, committed.get(partition)))

    def _commit(
        self,
        context: RequestContext,
        request: FetchRequest,
        partition: TopicPartition,
        committed: Committed | None,
        response: FetchResponse,
    ) -> Any:
        """Remember what is about to be answered, unless that is remembered already."""
        assert request.group_id is not None
        if committed is not None and committed.offset == response.next_offset:
            return response
        offsets = {partition: Committed(response.next_offset)}
        # A client that leaves takes its fetch with it, but not what is being written.
        done = shielded(self.broker.commit_offsets(context, request.group_id, offsets))
        return done.addCallback(lambda _: response)

    # -- offsets of groups --

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

    # -- the broker itself --

    def ping(self, context: RequestContext, request: PingRequest) -> PingResponse:
        return PingResponse()

    def api_versions(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        return ApiVersionsResponse(rustlog.__version__, list(REQUESTS), list(ENCODINGS), FRAME_BYTES_MAX)

    def metrics_fetch(
        self, context: RequestContext, request: MetricsFetchRequest
    ) -> Result[MetricsFetchResponse]:
        return then(self.metrics_text(), MetricsFetchResponse)


_METHODS: dict[type[Request], Any] = {
    ProduceRequest: Handlers.produce,
    FetchRequest: Handlers.fetch,
    OffsetCommitRequest: Handlers.commit_offset,
    OffsetFetchRequest: Handlers.fetch_offset,
    PingRequest: Handlers.ping,
    ApiVersionsRequest: Handlers.api_versions,
    MetricsFetchRequest: Handlers.metrics_fetch,
}


def _records(request: ProduceRequest) -> Iterable[Record]:
    keys, headers, timestamps = request.keys, request.headers, request.timestamps
    if keys is None and headers is None and timestamps is None:
        return map(Record, request.records)
    columns = zip(
        request.records, keys or repeat(None), headers or repeat(()), timestamps or repeat(None), strict=False
    )
    return [
        Record(value, key, header, NO_TIMESTAMP if timestamp is None else timestamp)
        for value, key, header, timestamp in columns
    ]


def _further(offset: int, committed: Committed | None) -> int:
    return offset if committed is None else max(offset, committed.offset)


def _offsets(partition: TopicPartition, count: int, appends: Appends) -> ProduceResponse:
    (appended,) = appends
    if not isinstance(appended, Appended):
        raise as_told(appended, partition)
    return ProduceResponse(list(range(appended.base_offset, appended.base_offset + count)))


def _not_committed(failure: Failure) -> OffsetCommitResponse:
    """No such partition, or the store failed.  Anything else is told in words."""
    failure.trap(PartitionNotFound, TopicNotFound, StorageFailed, TryAgain)
    return OffsetCommitResponse(False)
