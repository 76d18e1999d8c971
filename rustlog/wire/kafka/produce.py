"""
The bytes of Produce, versions 3 to 13, both ways.

::

    Request  => transactional_id acks:i16 timeout_ms:i32 [topic]
      topic     => name (id:uuid from 13 on) [partition]
      partition => index:i32 records
    Response => [topic] throttle_time_ms:i32
      topic     => name (id:uuid from 13 on) [partition]
      partition => index:i32 error_code:i16 base_offset:i64 log_append_time_ms:i64
                   log_start_offset:i64 (from 5 on) [batch_index:i32 message] error_message (both from 8 on)

From version 9 on, all of it is compact, and each structure ends with tagged fields.
"""

from __future__ import annotations

from struct import Struct
from uuid import UUID

from attrs import define, field

from rustlog.log.batch import Buffer
from rustlog.wire.answers import Parts
from rustlog.wire.kafka.primitives import I32, FlexibleReader, FlexibleWriter, Reader, Writer, read_whole

KEY = 0
MIN_VERSION, MAX_VERSION = 3, 13
_STARTS_AT = 5  # log_start_offset
_EXPLAINS = 8  # error messages
_FLEXIBLE = 9
_HAS_IDS = 13

_SETTINGS = Struct(">hi")
_RESULT = Struct(">ihqq")
_RESULT_WITH_START = Struct(">ihqqq")


@define(eq=True)
class TopicRecords:
    """What shall be written to a topic: for each partition, its index and its records."""

    name: str
    topic_id: UUID | None
    partitions: list[tuple[int, Buffer | None]]


@define(eq=True)
class ProduceRequest:
    """What a producer wants to have written."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicRecords]


@define(eq=True)
class PartitionResult:
    """What became of it in one partition."""

    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[tuple[int, str | None]] = field(factory=list)
    error_message: str | None = None


@define(eq=True)
class TopicResult:
    """What became of it in one topic."""

    name: str
    topic_id: UUID | None
    partitions: list[PartitionResult]


@define(eq=True)
class ProduceResponse:
    """What became of it."""

    topics: list[TopicResult]
    throttle_time_ms: int = 0


def _reader(version: int, data: Buffer, position: int) -> Reader:
    return FlexibleReader(data, position) if version >= _FLEXIBLE else Reader(data, position)


def _writer(version: int, head: bytes) -> Writer:
    return FlexibleWriter(head) if version >= _FLEXIBLE else Writer(head)


# -- requests --------------------------------------------------------------------------


def decode_request(version: int, data: Buffer, position: int) -> ProduceRequest:
    """
    What begins at C{position}; records are views on the data.

    @raise Unreadable: it is not a request.
    """
    return read_whole(_reader(version, data, position), lambda reader: _read_request(reader, version))


def _read_request(reader: Reader, version: int) -> ProduceRequest:
    transactional_id = reader.nullable_string()
    acks, timeout_ms = reader.unpack(_SETTINGS)
    topics = []
    for _ in reader.array():
        name, topic_id = reader.topic(by_id=version >= _HAS_IDS)
        partitions: list[tuple[int, Buffer | None]] = []
        for _ in reader.array():
            partitions.append((reader.unpack(I32)[0], reader.records()))
            reader.tags()
        reader.tags()
        topics.append(TopicRecords(name, topic_id, partitions))
    reader.tags()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_request(version: int, request: ProduceRequest, head: bytes = b"") -> bytes | Parts:
    """The request behind C{head}."""
    writer = _writer(version, head)
    writer.string(request.transactional_id)
    writer.pack(_SETTINGS, request.acks, request.timeout_ms)
    writer.array(len(request.topics))
    for topic in request.topics:
        writer.topic(topic.name, topic.topic_id, by_id=version >= _HAS_IDS)
        writer.array(len(topic.partitions))
        for index, records in topic.partitions:
            writer.pack(I32, index)
            writer.records(None if records is None else [records], len(records or b""))
            writer.tags()
        writer.tags()
    writer.tags()
    return writer.finish()


# -- responses -------------------------------------------------------------------------


def encode_response(version: int, response: ProduceResponse, head: bytes = b"") -> bytes | Parts:
    """The response behind C{head}."""
    writer = _writer(version, head)
    writer.array(len(response.topics))
    for topic in response.topics:
        writer.topic(topic.name, topic.topic_id, by_id=version >= _HAS_IDS)
        writer.array(len(topic.partitions))
        for result in topic.partitions:
            _write_result(writer, version, result)
        writer.tags()
    writer.pack(I32, response.throttle_time_ms)
    writer.tags()
    return writer.finish()


def _write_result(writer: Writer, version: int, result: PartitionResult) -> None:
    place = result.index, result.error_code, result.base_offset, result.log_append_time_ms
    if version >= _STARTS_AT:
        writer.pack(_RESULT_WITH_START, *place, result.log_start_offset)
    else:
        writer.pack(_RESULT, *place)
    if version >= _EXPLAINS:
        writer.array(len(result.record_errors))
        for batch_index, message in result.record_errors:
            writer.pack(I32, batch_index)
            writer.string(message)
            writer.tags()
        writer.string(result.error_message)
    writer.tags()


def decode_response(version: int, data: Buffer, position: int = 0) -> ProduceResponse:
    """
    What begins at C{position}.

    @raise Unreadable: it is not a response.
    """
    return read_whole(_reader(version, data, position), lambda reader: _read_response(reader, version))


def _read_response(reader: Reader, version: int) -> ProduceResponse:
    topics = []
    for _ in reader.array():
        name, topic_id = reader.topic(by_id=version >= _HAS_IDS)
        results = [_read_result(reader, version) for _ in reader.array()]
        reader.tags()
        topics.append(TopicResult(name, topic_id, results))
    (throttle_time_ms,) = reader.unpack(I32)
    reader.tags()
    return ProduceResponse(topics, throttle_time_ms)


def _read_result(reader: Reader, version: int) -> PartitionResult:
    result = PartitionResult(*reader.unpack(_RESULT_WITH_START if version >= _STARTS_AT else _RESULT))
    if version >= _EXPLAINS:
        for _ in reader.array():
            (batch_index,) = reader.unpack(I32)
            result.record_errors.append((batch_index, reader.nullable_string()))
            reader.tags()
        result.error_message = reader.nullable_string()
    reader.tags()
    return result
