"""
What a Fetch of the RustLog protocol does: waiting for something to read, if it wants to; then reading, until
the answer is full or the log ends.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks

from rustlog.broker import Broker
from rustlog.errors import (
    OffsetOutOfRange,
    PartitionNotFound,
    RequestRefused,
    RustlogError,
    TopicNotFound,
)
from rustlog.log.batch import split_batches
from rustlog.log.records import NO_TIMESTAMP, decode
from rustlog.longpoll import Answers, release
from rustlog.model import MAX_OFFSET, Fetched, FetchWant, Record, RequestContext, TopicPartition
from rustlog.results import Result, deferred, then
from rustlog.wire.rustlog.messages import (
    FRAME_BYTES_MAX,
    Encoding,
    FetchedRecord,
    FetchRequest,
    FetchResponse,
)
from rustlog.wire.rustlog.sizes import FETCH_ROOM, record_sizer

READ_BYTES_MIN = 64 * 1024
READ_BYTES_MAX: dict[Encoding, int] = {
    "json": FRAME_BYTES_MAX // 2,
    "base64": FRAME_BYTES_MAX * 3 // 4,
    "binary": FRAME_BYTES_MAX,
}
"""What is read of a log at once: what an answer can hold.  As JSON a byte takes at least two bytes."""

WAITED_FOR_MAX = FRAME_BYTES_MAX
"""How many bytes a Fetch can wait for: no answer holds more."""


class DoesNotFit(RequestRefused):
    """An answer would not fit a frame."""


def as_told(error: RustlogError, partition: TopicPartition) -> RustlogError:
    """For who asks for a partition, a topic that has just been deleted is one that is not there."""
    if isinstance(error, TopicNotFound):
        return PartitionNotFound(partition.topic, partition.partition)
    return error


def wait_for_data(
    broker: Broker, context: RequestContext, request: FetchRequest, offset: int
) -> Deferred[None] | None:
    """
    Wait until there is something behind C{offset}, for as long as the request says.  What is found
    is not kept: many may wait, and only those that are answered need memory.

    @return: C{None} when there is no reason to wait.
    @raise PartitionNotFound: there is no such partition.
    """
    start, end = broker.bounds(context, TopicPartition(request.topic, request.partition))
    if offset < start and request.offset_reset == "latest":
        offset = end
    # Beyond the end nothing is found, and that can wait for what comes next.
    offset = min(offset, end)
    min_bytes = 1 if request.min_bytes is None else min(request.min_bytes, WAITED_FOR_MAX)
    if not request.max_wait_ms or offset < start or (offset < end and min_bytes <= 1):
        return None
    want = FetchWant(request.topic, request.partition, offset, min_bytes)
    waiting = broker.fetch(
        context, [want], max_bytes=min_bytes, min_bytes=min_bytes, max_wait_ms=request.max_wait_ms
    )
    return deferred(then(waiting, release))


class Reading:
    """
    A Fetch under way: reads, decodes no more than is needed, and reads on while the answer has room
    and there is more.  (Limits of a store are of batches, those of a Fetch of payloads.)
    """

    def __init__(self, broker: Broker, context: RequestContext, request: FetchRequest, offset: int) -> None:
        self._broker = broker
        self._context = context
        self._partition = TopicPartition(request.topic, request.partition)
        self._offset = min(offset, MAX_OFFSET)
        self._bytes_left = request.max_bytes
        self._offset_reset = request.offset_reset or "error"
        self._encoding: Encoding = request.encoding or "json"
        self._include = request.include or frozenset()
        self._size_of = record_sizer(self._encoding, self._include)
        self._room = FETCH_ROOM[self._encoding]
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
        size = max(READ_BYTES_MIN, min(self._bytes_left, READ_BYTES_MAX[self._encoding]))
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
        elif isinstance(fetched, OffsetOutOfRange) and self._offset_reset != "error" and not self._records:
            is_earliest = self._offset_reset == "earliest"
            self._offset = fetched.log_start_offset if is_earliest else fetched.high_watermark
        else:
            self._stumble(as_told(fetched, self._partition))

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
        fetched = self._shown(record)
        payload_size = len(fetched.payload or b"")
        size = self._size_of(fetched)
        if self._records and (
            payload_size > self._bytes_left or size > self._room or self._is_behind_gap(fetched)
        ):
            self._is_full = True
            return
        if size > self._room:
            raise DoesNotFit(too_large(fetched, self._encoding))
        self._records.append(fetched)
        self._bytes_left -= payload_size
        self._room -= size
        self._is_full = self._bytes_left <= 0

    def _shown(self, record: Record) -> FetchedRecord:
        assert record.offset is not None
        shown, include = FetchedRecord(record.offset, record.value or b""), self._include
        if not include:
            return shown
        if "key" in include:
            shown.payload, shown.key = record.value, record.key
        if "headers" in include:
            shown.headers = tuple([(readable(name), value) for name, value in record.headers])
        if "timestamp" in include and record.timestamp != NO_TIMESTAMP:
            shown.timestamp = record.timestamp
        return shown

    def _is_behind_gap(self, record: FetchedRecord) -> bool:
        """In binary, offsets are counted back from the end: there must be none missing."""
        return self._encoding == "binary" and record.offset != self._records[-1].offset + 1

    def _response(self) -> FetchResponse:
        if self._records:
            next_offset = self._records[-1].offset + 1
        else:
            assert self._end is not None
            next_offset = self._end
        return FetchResponse(self._records, next_offset, include=self._include, encoding=self._encoding)


def readable(name: str) -> str:
    """The name of a header as JSON can have it: stray bytes of other protocols can not be shown."""
    if name.isascii():
        return name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def too_large(record: FetchedRecord, encoding: Encoding) -> str:
    """What a client is told of a record that no answer can hold: also, how it could be had."""
    ways: dict[Encoding, str] = {"base64": '"encoding": "base64"', "binary": "the binary encoding"}
    fitting = [way for other, way in ways.items() if record_sizer(other)(record) <= FETCH_ROOM[other]]
    advice = f"fetch it with {' or '.join(fitting)}, or " if fitting else ""
    return (
        f"max frame size exceeded: record at offset {record.offset} has {len(record.payload or b'')} bytes, "
        f"which as {encoding} do not fit a frame of {FRAME_BYTES_MAX}; "
        f"{advice}go on behind it with {record.offset + 1}"
    )
