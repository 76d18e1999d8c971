"""
The binary encoding of the RustLog protocol: bytes to requests, and responses to bytes.

It stands in the same frames as JSON does.  A payload is a type, one byte, and fields; integers are
big-endian, a C{str} is a u16 length and UTF-8, a C{blob} a u32 length and bytes:

    =================  ====  ===========================================================================
    request            type  fields
    =================  ====  ===========================================================================
    Produce            0x01  str topic, u32 partition, u32 count, count x blob
    Fetch              0x02  str group (empty: none), str topic, u32 partition, u64 offset, u32 max_bytes
    OffsetCommit       0x03  str group, str topic, u32 partition, u64 offset
    OffsetFetch        0x04  str group, str topic, u32 partition
    CreateTopic        0x05  str topic, u32 partitions
    ListTopics         0x06
    DescribeTopic      0x07  str topic
    DescribePartition  0x08  str topic, u32 partition
    MetricsFetch       0x09
    Ping               0xFF
    =================  ====  ===========================================================================

    =================  ====  ===========================================================================
    response           type  fields
    =================  ====  ===========================================================================
    Produce            0x01  u64 base_offset, u32 count
    Fetch              0x02  u32 count, count x blob, u64 next_offset
    OffsetCommit       0x03  u8 success
    OffsetFetch        0x04  u8 present, then u64 offset if present
    CreateTopic        0x05  u8 success
    ListTopics         0x06  u32 count, count x (str topic, u32 partitions)
    DescribeTopic      0x07  str topic, u32 partitions, u32 count, count x (u32 partition, u64 high_watermark)
    DescribePartition  0x08  str topic, u32 partition, u64 high_watermark
    MetricsFetch       0x09  blob
    Error              0xFE  u16 code, str message
    Ping               0xFF
    =================  ====  ===========================================================================

No JSON text begins with one of these types, except with a tab, which is 0x09: only a payload that is
nothing but that byte is a MetricsFetch.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from rustlog.wire.rustlog.codec import ParseError
from rustlog.wire.rustlog.messages import (
    CreateTopicRequest,
    CreateTopicResponse,
    DescribePartitionRequest,
    DescribePartitionResponse,
    DescribeTopicRequest,
    DescribeTopicResponse,
    ErrorResponse,
    FetchRequest,
    FetchResponse,
    ListTopicsRequest,
    ListTopicsResponse,
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

METRICS_FETCH = b"\x09"

_U16, _U32, _U64 = Struct(">H"), Struct(">I"), Struct(">Q")

# -- requests ----------------------------------------------------------------------


class _Cursor:
    """
    Reads one field after the other.  What goes beyond the end, or is not text, is a L{ParseError} that
    names the field.
    """

    def __init__(self, name: str, data: bytes) -> None:
        self._name = name
        self._data = data
        self._position = 1  # behind the type

    def integer(self, field: str, layout: Struct) -> int:
        end = self._position + layout.size
        if end > len(self._data):
            raise self._problem(field, "the request ends within it")
        (value,) = layout.unpack_from(self._data, self._position)
        self._position = end
        return int(value)

    def text(self, field: str) -> str:
        encoded = self._bytes(field, self.integer(field, _U16))
        try:
            return encoded.decode()
        except UnicodeDecodeError:
            raise self._problem(field, "it is not valid UTF-8") from None

    def blobs(self, field: str) -> list[bytes | None]:
        count = self.integer(field, _U32)
        return [self._bytes(field, self.integer(field, _U32)) for _ in range(count)]

    def end(self) -> None:
        surplus = len(self._data) - self._position
        if surplus:
            raise ParseError(f"{self._name}: {surplus} bytes follow its last field")

    def _bytes(self, field: str, size: int) -> bytes:
        start, end = self._position, self._position + size
        if end > len(self._data):
            raise self._problem(field, "the request ends within it")
        self._position = end
        return self._data[start:end]

    def _problem(self, field: str, problem: str) -> ParseError:
        return ParseError(f"{self._name}.{field}: {problem}")


def _produce(read: _Cursor) -> ProduceRequest:
    return ProduceRequest(read.text("topic"), read.integer("partition", _U32), read.blobs("records"))


def _fetch(read: _Cursor) -> FetchRequest:
    group = read.text("group")
    return FetchRequest(
        read.text("topic"),
        read.integer("partition", _U32),
        read.integer("offset", _U64),
        read.integer("max_bytes", _U32),
        group or None,
        encoding="binary",
    )


def _offset_commit(read: _Cursor) -> OffsetCommitRequest:
    group = read.text("group")
    topic, partition = read.text("topic"), read.integer("partition", _U32)
    return OffsetCommitRequest(topic, partition, group, read.integer("offset", _U64))


def _offset_fetch(read: _Cursor) -> OffsetFetchRequest:
    group = read.text("group")
    return OffsetFetchRequest(read.text("topic"), read.integer("partition", _U32), group)


_REQUESTS: dict[int, tuple[str, Callable[[_Cursor], Request]]] = {
    0x01: ("Produce", _produce),
    0x02: ("Fetch", _fetch),
    0x03: ("OffsetCommit", _offset_commit),
    0x04: ("OffsetFetch", _offset_fetch),
    0x05: (
        "CreateTopic",
        lambda read: CreateTopicRequest(read.text("topic"), read.integer("partitions", _U32)),
    ),
    0x06: ("ListTopics", lambda read: ListTopicsRequest()),
    0x07: ("DescribeTopic", lambda read: DescribeTopicRequest(read.text("topic"))),
    0x08: (
        "DescribePartition",
        lambda read: DescribePartitionRequest(read.text("topic"), read.integer("partition", _U32)),
    ),
    METRICS_FETCH[0]: ("MetricsFetch", lambda read: MetricsFetchRequest()),
    0xFF: ("Ping", lambda read: PingRequest()),
}
_FIRST_BYTES = frozenset(bytes([each]) for each in _REQUESTS) - {METRICS_FETCH}


def is_binary(payload: bytes) -> bool:
    """Whether a payload is in this encoding; if not, it is JSON, or wants to be."""
    return payload[:1] in _FIRST_BYTES or payload == METRICS_FETCH


def decode_request(payload: bytes) -> Request:
    """
    Read a payload that L{is binary <is_binary>}.

    @raise ParseError: it is no request.
    """
    name, read = _REQUESTS[payload[0]]
    cursor = _Cursor(name, payload)
    request = read(cursor)
    cursor.end()
    return request


# -- responses ---------------------------------------------------------------------


def encode_response(response: Response) -> bytes:
    """Write a response."""
    kind, write = _RESPONSES[type(response)]
    return b"".join((bytes([kind]), *write(response)))


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _U16.pack(len(encoded)) + encoded


def _blob(data: bytes) -> tuple[bytes, bytes]:
    return _U32.pack(len(data)), data


def _write_produce(response: ProduceResponse) -> tuple[bytes, ...]:
    offsets = response.offsets
    return _U64.pack(offsets[0] if offsets else 0), _U32.pack(len(offsets))


def _write_fetch(response: FetchResponse) -> list[bytes]:
    parts = [_U32.pack(len(response.records))]
    for each in response.records:
        parts += _blob(each.payload or b"")
    parts.append(_U64.pack(response.next_offset))
    return parts


def _write_offset_fetch(response: OffsetFetchResponse) -> tuple[bytes, ...]:
    return (b"\0",) if response.offset is None else (b"\1", _U64.pack(response.offset))


def _write_list_topics(response: ListTopicsResponse) -> list[bytes]:
    parts = [_U32.pack(len(response.topics))]
    for each in response.topics:
        parts += _text(each.topic), _U32.pack(each.partitions)
    return parts


def _write_describe_topic(response: DescribeTopicResponse) -> list[bytes]:
    count = _U32.pack(len(response.partitions))
    parts = [_text(response.topic), count, count]
    for each in response.partitions:
        parts += _U32.pack(each.partition), _U64.pack(each.high_watermark)
    return parts


def _write_describe_partition(response: DescribePartitionResponse) -> tuple[bytes, ...]:
    return _text(response.topic), _U32.pack(response.partition), _U64.pack(response.high_watermark)


_RESPONSES: dict[type[Response], tuple[int, Callable[[Any], Any]]] = {
    ProduceResponse: (0x01, _write_produce),
    FetchResponse: (0x02, _write_fetch),
    OffsetCommitResponse: (0x03, lambda response: (bytes([response.success]),)),
    OffsetFetchResponse: (0x04, _write_offset_fetch),
    CreateTopicResponse: (0x05, lambda response: (b"\1",)),
    ListTopicsResponse: (0x06, _write_list_topics),
    DescribeTopicResponse: (0x07, _write_describe_topic),
    DescribePartitionResponse: (0x08, _write_describe_partition),
    MetricsFetchResponse: (METRICS_FETCH[0], lambda response: _blob(response.text)),
    ErrorResponse: (0xFE, lambda response: (_U16.pack(response.code), _text(response.message))),
    PingResponse: (0xFF, lambda response: ()),
}
