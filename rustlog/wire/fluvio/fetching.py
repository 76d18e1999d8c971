"""
The bytes of reading: FetchOffsets, StreamFetch and UpdateOffsets, both ways.

FetchOffsets tells the bounds of partitions::

    request => [topic:String [partition:u32]] Option<consumer_id:String> (23 only)
    answer  => [topic:String [error_code partition:u32 start_offset:i64 last_stable_offset:i64]]

StreamFetch opens a stream, of which any number of answers follow::

    request => topic:String partition:u32 offset:i64 max_bytes:i32 isolation:u8
               wasm:Vec<u8> (until 18) Option<smart module> Option<derived stream> (both 16 to 18)
               [smart module] (from 18 on) Option<consumer_id:String> (from 23 on)
    answer  => topic:String stream_id:u32 partition:u32 error_code high_watermark:i64 next_filter_offset:i64
               log_start_offset:i64 Option<[producer_id:i64 first_offset:i64]> size:i32 batches

UpdateOffsets tells that a client has read so far of its streams, and can take more::

    request => [offset:i64 stream_id:u32]
    answer  => [stream_id:u32 error_code]

An older way to bring modules along is not read further than to see that there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from attrs import frozen

from rustlog.log.batch import Buffer
from rustlog.model import Isolation
from rustlog.wire.fluvio.errors import NONE, ErrorCode, read_error, write_error
from rustlog.wire.fluvio.primitives import I32, U32, Reader, Writer
from rustlog.wire.fluvio.smartmodules import SmartModule, read_smart_modules, write_smart_modules

_LAST_WITH_WASM, _LISTS_MODULES, _HAS_CONSUMER = 18, 18, 23
_OFFSETS_WITH_CONSUMER = 23

_WANT = Struct(">IqiB")
_PLACE = Struct(">II")
_BOUNDS = Struct(">qqq")
_OFFSETS = Struct(">Iqq")
_READ = Struct(">qI")
_ABORTED = Struct(">qq")


# -- values ----------------------------------------------------------------------------


@frozen
class FetchOffsetsRequest:
    """The bounds of these are wanted: topics, and indexes of their partitions."""

    topics: tuple[tuple[str, tuple[int, ...]], ...]
    consumer_id: str | None = None


@frozen
class PartitionOffsets:
    """
    The bounds of a partition.

    @ivar last_stable_offset: the one that will be written next.
    """

    partition: int
    error: ErrorCode = NONE
    start_offset: int = -1
    last_stable_offset: int = -1


@frozen
class FetchOffsetsResponse:
    """Bounds, by topic."""

    topics: tuple[tuple[str, tuple[PartitionOffsets, ...]], ...]


@frozen
class StreamFetchRequest:
    """A client wants to have what is in a partition, from an offset on, and what comes to be there."""

    topic: str
    partition: int
    offset: int
    max_bytes: int = 1_048_890
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    smart_modules: tuple[SmartModule, ...] = ()
    consumer_id: str | None = None


@frozen
class StreamFetchResponse:
    """
    A part of a stream.

    @ivar stream_id: chosen by the server, not 0, and the same in all answers of a stream.
    @ivar batches: as L{rustlog.wire.fluvio.batches} makes them, each whole.
    """

    topic: str
    stream_id: int
    partition: int
    error: ErrorCode = NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    batches: Sequence[Buffer] = ()
    next_filter_offset: int = 0
    aborted: tuple[tuple[int, int], ...] | None = None


@frozen
class StreamPosition:
    """
    How far a client has read.

    @ivar offset: the one that it wants next.
    """

    offset: int
    stream_id: int


@frozen
class UpdateOffsetsRequest:
    """A client can take more of these streams."""

    positions: tuple[StreamPosition, ...]


@frozen
class UpdateOffsetsResponse:
    """What became of it: pairs of a stream's id and a code."""

    streams: tuple[tuple[int, ErrorCode], ...]


# -- FetchOffsets ----------------------------------------------------------------------


def read_offsets_request(reader: Reader, version: int) -> FetchOffsetsRequest:
    topics = reader.vector(lambda: (reader.string(), reader.numbers(U32)))
    consumer_id = reader.option(reader.string) if version == _OFFSETS_WITH_CONSUMER else None
    return FetchOffsetsRequest(topics, consumer_id)


def write_offsets_request(writer: Writer, version: int, request: FetchOffsetsRequest) -> None:
    def write_topic(topic: tuple[str, tuple[int, ...]]) -> None:
        writer.string(topic[0])
        writer.numbers(U32, topic[1])

    writer.vector(request.topics, write_topic)
    if version == _OFFSETS_WITH_CONSUMER:
        writer.option(request.consumer_id, writer.string)


def read_offsets_response(reader: Reader, version: int) -> FetchOffsetsResponse:
    def read_partition() -> PartitionOffsets:
        error = read_error(reader)
        index, start_offset, last_stable_offset = reader.unpack(_OFFSETS)
        return PartitionOffsets(index, error, start_offset, last_stable_offset)

    return FetchOffsetsResponse(reader.vector(lambda: (reader.string(), reader.vector(read_partition))))


def write_offsets_response(writer: Writer, version: int, response: FetchOffsetsResponse) -> None:
    def write_partition(each: PartitionOffsets) -> None:
        write_error(writer, each.error)
        writer.pack(_OFFSETS, each.partition, each.start_offset, each.last_stable_offset)

    def write_topic(topic: tuple[str, tuple[PartitionOffsets, ...]]) -> None:
        writer.string(topic[0])
        writer.vector(topic[1], write_partition)

    writer.vector(response.topics, write_topic)


# -- StreamFetch -----------------------------------------------------------------------


def read_stream_request(reader: Reader, version: int) -> StreamFetchRequest:
    topic = reader.string()
    partition, offset, max_bytes, isolation = reader.unpack(_WANT)
    place = topic, partition, offset, max_bytes, Isolation(isolation)
    if version <= _LAST_WITH_WASM and _has_module(reader):
        reader.rest()
        return StreamFetchRequest(*place, (SmartModule(),))
    modules = read_smart_modules(reader, version) if version >= _LISTS_MODULES else ()
    consumer_id = reader.option(reader.string) if version >= _HAS_CONSUMER else None
    return StreamFetchRequest(*place, modules, consumer_id)


def _has_module(reader: Reader) -> bool:
    """Whether one is there in one of the three old places."""
    return bool(reader.blob()) or reader.boolean() or reader.boolean()


def write_stream_request(writer: Writer, version: int, request: StreamFetchRequest) -> None:
    writer.string(request.topic)
    isolation = request.isolation.value
    writer.pack(_WANT, request.partition, request.offset, request.max_bytes, isolation)
    if version <= _LAST_WITH_WASM:
        writer.blob(b"")
        writer.boolean(False)
        writer.boolean(False)
    if version >= _LISTS_MODULES:
        write_smart_modules(writer, version, request.smart_modules)
    if version >= _HAS_CONSUMER:
        writer.option(request.consumer_id, writer.string)


def read_stream_response(reader: Reader, version: int) -> StreamFetchResponse:
    """Its batches are one view on the data."""
    topic = reader.string()
    stream_id, partition = reader.unpack(_PLACE)
    error = read_error(reader)
    high_watermark, next_filter_offset, log_start_offset = reader.unpack(_BOUNDS)
    aborted = reader.option(lambda: reader.vector(lambda: _read_aborted(reader)))
    batches = reader.take(reader.number(I32))
    return StreamFetchResponse(
        topic, stream_id, partition, error, high_watermark, log_start_offset,
        (batches,) if batches else (), next_filter_offset, aborted,
    )  # fmt: skip


def _read_aborted(reader: Reader) -> tuple[int, int]:
    producer_id, first_offset = reader.unpack(_ABORTED)
    return producer_id, first_offset


def write_stream_response(writer: Writer, version: int, response: StreamFetchResponse) -> None:
    """Its batches become parts of their own."""
    writer.string(response.topic)
    writer.pack(_PLACE, response.stream_id, response.partition)
    write_error(writer, response.error)
    writer.pack(_BOUNDS, response.high_watermark, response.next_filter_offset, response.log_start_offset)
    writer.option(
        response.aborted,
        lambda aborted: writer.vector(aborted, lambda each: writer.pack(_ABORTED, *each)),
    )
    writer.batches(response.batches)


# -- UpdateOffsets ---------------------------------------------------------------------


def read_update_request(reader: Reader, version: int) -> UpdateOffsetsRequest:
    return UpdateOffsetsRequest(reader.vector(lambda: StreamPosition(*reader.unpack(_READ))))


def write_update_request(writer: Writer, version: int, request: UpdateOffsetsRequest) -> None:
    writer.vector(request.positions, lambda each: writer.pack(_READ, each.offset, each.stream_id))


def read_update_response(reader: Reader, version: int) -> UpdateOffsetsResponse:
    return UpdateOffsetsResponse(reader.vector(lambda: (reader.number(U32), read_error(reader))))


def write_update_response(writer: Writer, version: int, response: UpdateOffsetsResponse) -> None:
    def write_stream(stream: tuple[int, ErrorCode]) -> None:
        writer.pack(U32, stream[0])
        write_error(writer, stream[1])

    writer.vector(response.streams, write_stream)
