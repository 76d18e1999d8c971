"""
The bytes of what consumers have the server remember, both ways.

::

    UpdateConsumerOffset request => offset:i64 stream_id:u32
    UpdateConsumerOffset answer  => offset:i64 error_code
    DeleteConsumerOffset request => topic:String partition:u32 consumer_id:String
    DeleteConsumerOffset answer  => error_code
    FetchConsumerOffsets request => Option<Option<topic:String partition:u32> Option<consumer_id:String>>
                                    (from 24 on)
    FetchConsumerOffsets answer  => error_code [consumer_id:String topic:String partition:u32 offset:i64
                                    modified_time:u64]

The offset is that of the last record that was read, not of the next one.
"""

from __future__ import annotations

from struct import Struct

from attrs import frozen

from rustlog.model import TopicPartition
from rustlog.wire.fluvio.errors import NONE, ErrorCode, read_error, write_error
from rustlog.wire.fluvio.primitives import I64, U32, Reader, Writer

_FILTERS = 24

_UPDATE = Struct(">qI")
_PROGRESS = Struct(">IqQ")


@frozen
class UpdateConsumerOffsetRequest:
    """
    A consumer has read so far of a stream.

    @ivar stream_id: the topic, the partition and the consumer are those with which it was opened.
    """

    offset: int
    stream_id: int


@frozen
class UpdateConsumerOffsetResponse:
    """What became of it."""

    offset: int
    error: ErrorCode = NONE


@frozen
class DeleteConsumerOffsetRequest:
    """What a consumer has read shall be forgotten."""

    partition: TopicPartition
    consumer_id: str


@frozen
class DeleteConsumerOffsetResponse:
    """What became of it."""

    error: ErrorCode = NONE


@frozen
class FetchConsumerOffsetsRequest:
    """What consumers have read, of one partition or by one consumer only, if that is said."""

    partition: TopicPartition | None = None
    consumer_id: str | None = None


@frozen
class ConsumerOffset:
    """
    How far a consumer has read.

    @ivar modified_time: in seconds.
    """

    consumer_id: str
    partition: TopicPartition
    offset: int
    modified_time: int


@frozen
class FetchConsumerOffsetsResponse:
    """How far consumers have read."""

    offsets: tuple[ConsumerOffset, ...] = ()
    error: ErrorCode = NONE


def _read_partition(reader: Reader) -> TopicPartition:
    return TopicPartition(reader.string(), reader.number(U32))


def _write_partition(writer: Writer, partition: TopicPartition) -> None:
    writer.string(partition.topic)
    writer.pack(U32, partition.partition)


# -- UpdateConsumerOffset --------------------------------------------------------------


def read_update_request(reader: Reader, version: int) -> UpdateConsumerOffsetRequest:
    return UpdateConsumerOffsetRequest(*reader.unpack(_UPDATE))


def write_update_request(writer: Writer, version: int, request: UpdateConsumerOffsetRequest) -> None:
    writer.pack(_UPDATE, request.offset, request.stream_id)


def read_update_response(reader: Reader, version: int) -> UpdateConsumerOffsetResponse:
    return UpdateConsumerOffsetResponse(reader.number(I64), read_error(reader))


def write_update_response(writer: Writer, version: int, response: UpdateConsumerOffsetResponse) -> None:
    writer.pack(I64, response.offset)
    write_error(writer, response.error)


# -- DeleteConsumerOffset --------------------------------------------------------------


def read_delete_request(reader: Reader, version: int) -> DeleteConsumerOffsetRequest:
    return DeleteConsumerOffsetRequest(_read_partition(reader), reader.string())


def write_delete_request(writer: Writer, version: int, request: DeleteConsumerOffsetRequest) -> None:
    _write_partition(writer, request.partition)
    writer.string(request.consumer_id)


def read_delete_response(reader: Reader, version: int) -> DeleteConsumerOffsetResponse:
    return DeleteConsumerOffsetResponse(read_error(reader))


def write_delete_response(writer: Writer, version: int, response: DeleteConsumerOffsetResponse) -> None:
    write_error(writer, response.error)


# -- FetchConsumerOffsets --------------------------------------------------------------


def read_fetch_request(reader: Reader, version: int) -> FetchConsumerOffsetsRequest:
    if version < _FILTERS or not reader.boolean():
        return FetchConsumerOffsetsRequest()
    partition = reader.option(lambda: _read_partition(reader))
    return FetchConsumerOffsetsRequest(partition, reader.option(reader.string))


def write_fetch_request(writer: Writer, version: int, request: FetchConsumerOffsetsRequest) -> None:
    if version < _FILTERS:
        return
    filters = request != FetchConsumerOffsetsRequest()
    writer.boolean(filters)
    if filters:
        writer.option(request.partition, lambda value: _write_partition(writer, value))
        writer.option(request.consumer_id, writer.string)


def read_fetch_response(reader: Reader, version: int) -> FetchConsumerOffsetsResponse:
    error = read_error(reader)
    return FetchConsumerOffsetsResponse(reader.vector(lambda: _read_offset(reader)), error)


def _read_offset(reader: Reader) -> ConsumerOffset:
    consumer_id, topic = reader.string(), reader.string()
    partition, offset, modified_time = reader.unpack(_PROGRESS)
    return ConsumerOffset(consumer_id, TopicPartition(topic, partition), offset, modified_time)


def write_fetch_response(writer: Writer, version: int, response: FetchConsumerOffsetsResponse) -> None:
    def write_offset(each: ConsumerOffset) -> None:
        writer.string(each.consumer_id)
        writer.string(each.partition.topic)
        writer.pack(_PROGRESS, each.partition.partition, each.offset, each.modified_time)

    write_error(writer, response.error)
    writer.vector(response.offsets, write_offset)
