"""
The bytes of Produce, versions 0 to 24, both ways.

::

    request   => Option<transactional_id:String> acks:i16 timeout_ms:i32 [topic] [smart module] (from 8 on)
      topic     => name:String [partition]
      partition => index:u32 size:i32 batches
    answer    => [topic] throttle_time_ms:i32 (from 1 on)
      topic     => name:String [partition]
      partition => index:u32 error_code base_offset:i64 log_append_time_ms:i64 (from 2 on)
                   log_start_offset:i64 (from 5 on)

B{Version 7 has a second layout}, that of programs which were written by the description of Fluvio's sources
instead of by its bytes: no size stands before a batch, of which there is one, and the modules are there
already::

    partition => index:u32 batch

Which one it is shows from what fits, to the last byte and with batches of magic 2 and right checksum.

A client may name one partition many times, with one batch each, and finds its answers by position.  It
also sends topics without partitions, and waits for the answer.
"""

from __future__ import annotations

from struct import Struct

from attrs import frozen

from rustlog.errors import CorruptBatch
from rustlog.log.batch import Buffer, batch_size
from rustlog.wire.fluvio.batches import HEADER_SIZE, is_intact, split
from rustlog.wire.fluvio.errors import NONE, ErrorCode, read_error, write_error
from rustlog.wire.fluvio.primitives import I32, I64, U32, Reader, Unreadable, Writer, read_whole
from rustlog.wire.fluvio.smartmodules import SmartModule, read_smart_modules, write_smart_modules

DESCRIBED_VERSION = 7
"""The version that has two layouts."""

_THROTTLES, _TELLS_TIME, _TELLS_START, _HAS_MODULES = 1, 2, 5, 8

_SETTINGS = Struct(">hi")


@frozen
class PartitionRecords:
    """What shall be written to a partition: batches of Fluvio, back to back."""

    index: int
    batches: Buffer


@frozen
class TopicRecords:
    """What shall be written to a topic."""

    name: str
    partitions: tuple[PartitionRecords, ...]


@frozen
class ProduceRequest:
    """
    What a producer wants to have written.

    @ivar acks: 1 is "when it is written", -1 "when it is committed".
    """

    topics: tuple[TopicRecords, ...]
    acks: int = 1
    timeout_ms: int = 1500
    transactional_id: str | None = None
    smart_modules: tuple[SmartModule, ...] = ()


@frozen
class PartitionResult:
    """What became of one entry of the request."""

    index: int
    error: ErrorCode = NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1


@frozen
class TopicResult:
    """What became of it in one topic."""

    name: str
    partitions: tuple[PartitionResult, ...]


@frozen
class ProduceResponse:
    """What became of it."""

    topics: tuple[TopicResult, ...]
    throttle_time_ms: int = 0


# -- requests --------------------------------------------------------------------------


def read_request(reader: Reader, version: int) -> ProduceRequest:
    """Batches are views on the data; nobody has looked into them."""
    if version != DESCRIBED_VERSION:
        return _read_request(reader, version, described=False)
    begin = reader.position
    readings = [_attempt(Reader(reader.data, begin), described=described) for described in (False, True)]
    reader.rest()
    fitting = [each for each in readings if isinstance(each, ProduceRequest)]
    if not fitting:
        raise next(each for each in readings if isinstance(each, Unreadable))
    return next((each for each in fitting if _is_intact(each)), fitting[0])


def _attempt(reader: Reader, *, described: bool) -> ProduceRequest | Unreadable:
    try:
        return read_whole(
            reader, lambda whole: _read_request(whole, DESCRIBED_VERSION, described=described)
        )
    except Unreadable as problem:
        return problem


def _read_request(reader: Reader, version: int, *, described: bool) -> ProduceRequest:
    transactional_id = reader.option(reader.string)
    acks, timeout_ms = reader.unpack(_SETTINGS)

    def read_partition() -> PartitionRecords:
        index = reader.number(U32)
        return PartitionRecords(index, _take_batch(reader) if described else _take_batches(reader))

    topics = reader.vector(lambda: TopicRecords(reader.string(), reader.vector(read_partition)))
    modules = read_smart_modules(reader, version) if described or version >= _HAS_MODULES else ()
    return ProduceRequest(topics, acks, timeout_ms, transactional_id, modules)


def _take_batches(reader: Reader) -> memoryview:
    return reader.take(reader.number(I32))


def _take_batch(reader: Reader) -> memoryview:
    """One, which tells its size itself."""
    size = batch_size(reader.data, reader.position)
    if size < HEADER_SIZE:
        raise Unreadable(f"{size} bytes are less than a batch")
    return reader.take(size)


def _is_intact(request: ProduceRequest) -> bool:
    partitions = (each for topic in request.topics for each in topic.partitions)
    try:
        return all(is_intact(batch) for each in partitions for batch in split(each.batches))
    except CorruptBatch:
        return False


def write_request(writer: Writer, version: int, request: ProduceRequest) -> None:
    """In the layout of Fluvio's own clients."""
    _write_request(writer, version, request, described=False)


def write_described_request(writer: Writer, request: ProduceRequest) -> None:
    """In the other layout of version 7."""
    _write_request(writer, DESCRIBED_VERSION, request, described=True)


def _write_request(writer: Writer, version: int, request: ProduceRequest, *, described: bool) -> None:
    def write_partition(each: PartitionRecords) -> None:
        writer.pack(U32, each.index)
        if described:
            writer.raw(each.batches)
        else:
            writer.blob(each.batches)

    def write_topic(each: TopicRecords) -> None:
        writer.string(each.name)
        writer.vector(each.partitions, write_partition)

    writer.option(request.transactional_id, writer.string)
    writer.pack(_SETTINGS, request.acks, request.timeout_ms)
    writer.vector(request.topics, write_topic)
    if described or version >= _HAS_MODULES:
        write_smart_modules(writer, version, request.smart_modules)


# -- answers ---------------------------------------------------------------------------


def read_response(reader: Reader, version: int) -> ProduceResponse:
    def read_result() -> PartitionResult:
        return PartitionResult(
            reader.number(U32),
            read_error(reader),
            reader.number(I64),
            reader.number(I64) if version >= _TELLS_TIME else -1,
            reader.number(I64) if version >= _TELLS_START else -1,
        )

    topics = reader.vector(lambda: TopicResult(reader.string(), reader.vector(read_result)))
    return ProduceResponse(topics, reader.number(I32) if version >= _THROTTLES else 0)


def write_response(writer: Writer, version: int, response: ProduceResponse) -> None:
    def write_result(each: PartitionResult) -> None:
        writer.pack(U32, each.index)
        write_error(writer, each.error)
        writer.pack(I64, each.base_offset)
        if version >= _TELLS_TIME:
            writer.pack(I64, each.log_append_time_ms)
        if version >= _TELLS_START:
            writer.pack(I64, each.log_start_offset)

    def write_topic(each: TopicResult) -> None:
        writer.string(each.name)
        writer.vector(each.partitions, write_result)

    writer.vector(response.topics, write_topic)
    if version >= _THROTTLES:
        writer.pack(I32, response.throttle_time_ms)
