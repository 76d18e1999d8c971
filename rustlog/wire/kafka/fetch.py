"""
The bytes of Fetch, versions 4 to 18, both ways.

::

    Request  => replica_id:i32 (until 14) max_wait_ms:i32 min_bytes:i32 max_bytes:i32 isolation_level:i8
                session_id:i32 session_epoch:i32 (both from 7 on) [topic]
                [forgotten topic] (from 7 on) rack_id (from 11 on)
      topic     => name (id:uuid from 13 on) [partition]
      partition => index:i32 current_leader_epoch:i32 (from 9 on) fetch_offset:i64
                   last_fetched_epoch:i32 (from 12 on) log_start_offset:i64 (from 5 on) max_bytes:i32
      forgotten => name (id:uuid from 13 on) [index:i32]
    Response => throttle_time_ms:i32 error_code:i16 session_id:i32 (both from 7 on) [topic]
      topic     => name (id:uuid from 13 on) [partition]
      partition => index:i32 error_code:i16 high_watermark:i64 last_stable_offset:i64
                   log_start_offset:i64 (from 5 on) [producer_id:i64 first_offset:i64]
                   preferred_read_replica:i32 (from 11 on) records

From version 12 on, all of it is compact, and each structure ends with tagged fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import cast
from uuid import UUID

from attrs import define

from rustlog.log.batch import Buffer
from rustlog.wire.answers import Part, Parts
from rustlog.wire.kafka.primitives import I32, FlexibleReader, FlexibleWriter, Reader, Writer, read_whole

KEY = 1
MIN_VERSION, MAX_VERSION = 4, 18
_STARTS_AT = 5  # log_start_offset
HAS_SESSIONS = 7
_HAS_EPOCHS = 9
_HAS_RACKS = 11
_FLEXIBLE = 12
_HAS_IDS = 13
_HAS_NO_REPLICA_ID = 15

_LIMITS = Struct(">iiib")
_SESSION = Struct(">ii")
_HEAD_WITH_SESSION = Struct(">ihi")
_ABORTED = Struct(">qq")
_BOUNDS = Struct(">ihqq")
_BOUNDS_WITH_START = Struct(">ihqqq")


def _want_layout(version: int) -> Struct:
    """Index, (leader epoch,) offset, (last fetched epoch,) (log start offset,) size."""
    return Struct(
        ">i"
        + ("i" if version >= _HAS_EPOCHS else "")
        + "q"
        + ("i" if version >= _FLEXIBLE else "")
        + ("q" if version >= _STARTS_AT else "")
        + "i"
    )


_WANT = {version: _want_layout(version) for version in range(MIN_VERSION, MAX_VERSION + 1)}


@define(eq=True)
class PartitionWant:
    """What is wanted of one partition."""

    index: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1


@define(eq=True)
class TopicWant:
    """What is wanted of one topic."""

    name: str
    topic_id: UUID | None
    partitions: list[PartitionWant]


@define(eq=True)
class FetchRequest:
    """
    What a consumer wants to read.

    @ivar forgotten: what it no longer wants within a session: topics and the indexes of their partitions.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    topics: list[TopicWant]
    session_id: int = 0
    session_epoch: int = -1
    forgotten: Sequence[tuple[str | UUID, list[int]]] = ()
    rack_id: str = ""
    replica_id: int = -1


@define(eq=True)
class PartitionRecords:
    """
    What was found in one partition.

    @ivar records: buffers and slices, C{size} bytes in all; null is C{None}.
    @ivar aborted: transactions, of which the reader shall skip the records.
    """

    index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    records: Sequence[Part] | None = ()
    size: int = 0
    preferred_read_replica: int = -1


@define(eq=True)
class TopicRecords:
    """What was found in one topic."""

    name: str
    topic_id: UUID | None
    partitions: list[PartitionRecords]


@define(eq=True)
class FetchResponse:
    """What was found."""

    topics: list[TopicRecords]
    error_code: int = 0
    session_id: int = 0
    throttle_time_ms: int = 0


def _reader(version: int, data: Buffer, position: int) -> Reader:
    return FlexibleReader(data, position) if version >= _FLEXIBLE else Reader(data, position)


def _writer(version: int, head: bytes) -> Writer:
    return FlexibleWriter(head) if version >= _FLEXIBLE else Writer(head)


# -- requests --------------------------------------------------------------------------


def decode_request(version: int, data: Buffer, position: int) -> FetchRequest:
    """
    What begins at C{position}.

    @raise Unreadable: it is not a request.
    """
    return read_whole(_reader(version, data, position), lambda reader: _read_request(reader, version))


def _read_request(reader: Reader, version: int) -> FetchRequest:
    replica_id = reader.unpack(I32)[0] if version < _HAS_NO_REPLICA_ID else -1
    max_wait_ms, min_bytes, max_bytes, isolation_level = reader.unpack(_LIMITS)
    session_id, session_epoch = reader.unpack(_SESSION) if version >= HAS_SESSIONS else (0, -1)
    topics = [_read_want(reader, version) for _ in reader.array()]
    forgotten = []
    if version >= HAS_SESSIONS:
        for _ in reader.array():
            topic: str | UUID = reader.uuid() if version >= _HAS_IDS else reader.string()
            forgotten.append((topic, [reader.unpack(I32)[0] for _ in reader.array()]))
            reader.tags()
    rack_id = reader.string() if version >= _HAS_RACKS else ""
    reader.tags()
    return FetchRequest(
        max_wait_ms, min_bytes, max_bytes, isolation_level, topics,
        session_id, session_epoch, forgotten, rack_id, replica_id,
    )  # fmt: skip


def _read_want(reader: Reader, version: int) -> TopicWant:
    name, topic_id = reader.topic(by_id=version >= _HAS_IDS)
    layout = _WANT[version]
    partitions = []
    for _ in reader.array():
        fields = reader.unpack(layout)
        reader.tags()
        epoch, offset = fields[1:3] if version >= _HAS_EPOCHS else (-1, fields[1])
        partitions.append(PartitionWant(fields[0], offset, fields[-1], epoch))
    reader.tags()
    return TopicWant(name, topic_id, partitions)


def encode_request(version: int, request: FetchRequest, head: bytes = b"") -> bytes:
    """The request behind C{head}."""
    writer = _writer(version, head)
    if version < _HAS_NO_REPLICA_ID:
        writer.pack(I32, request.replica_id)
    writer.pack(_LIMITS, request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    if version >= HAS_SESSIONS:
        writer.pack(_SESSION, request.session_id, request.session_epoch)
    writer.array(len(request.topics))
    for topic in request.topics:
        _write_want(writer, version, topic)
    if version >= HAS_SESSIONS:
        _write_forgotten(writer, version, request.forgotten)
    if version >= _HAS_RACKS:
        writer.string(request.rack_id)
    writer.tags()
    return cast(bytes, writer.finish())


def _write_want(writer: Writer, version: int, topic: TopicWant) -> None:
    writer.topic(topic.name, topic.topic_id, by_id=version >= _HAS_IDS)
    writer.array(len(topic.partitions))
    for want in topic.partitions:
        epoch = (want.leader_epoch,) if version >= _HAS_EPOCHS else ()
        fetched = (-1,) if version >= _FLEXIBLE else ()
        start = (-1,) if version >= _STARTS_AT else ()
        writer.pack(_WANT[version], want.index, *epoch, want.offset, *fetched, *start, want.max_bytes)
        writer.tags()
    writer.tags()


def _write_forgotten(writer: Writer, version: int, forgotten: Sequence[tuple[str | UUID, list[int]]]) -> None:
    writer.array(len(forgotten))
    for topic, indexes in forgotten:
        if isinstance(topic, UUID):
            writer.uuid(topic)
        else:
            writer.string(topic)
        writer.array(len(indexes))
        for index in indexes:
            writer.pack(I32, index)
        writer.tags()


# -- responses -------------------------------------------------------------------------


def encode_response(version: int, response: FetchResponse, head: bytes = b"") -> bytes | Parts:
    """The response behind C{head}."""
    writer = _writer(version, head)
    if version >= HAS_SESSIONS:
        writer.pack(_HEAD_WITH_SESSION, response.throttle_time_ms, response.error_code, response.session_id)
    else:
        writer.pack(I32, response.throttle_time_ms)
    writer.array(len(response.topics))
    for topic in response.topics:
        writer.topic(topic.name, topic.topic_id, by_id=version >= _HAS_IDS)
        writer.array(len(topic.partitions))
        for found in topic.partitions:
            _write_found(writer, version, found)
        writer.tags()
    writer.tags()
    return writer.finish()


def _write_found(writer: Writer, version: int, found: PartitionRecords) -> None:
    bounds = found.index, found.error_code, found.high_watermark, found.last_stable_offset
    if version >= _STARTS_AT:
        writer.pack(_BOUNDS_WITH_START, *bounds, found.log_start_offset)
    else:
        writer.pack(_BOUNDS, *bounds)
    writer.array(-1 if found.aborted is None else len(found.aborted))
    for each in found.aborted or ():
        writer.pack(_ABORTED, *each)
        writer.tags()
    if version >= _HAS_RACKS:
        writer.pack(I32, found.preferred_read_replica)
    writer.records(found.records, found.size)
    writer.tags()


def decode_response(version: int, data: Buffer, position: int = 0) -> FetchResponse:
    """
    What begins at C{position}; records are views on the data.

    @raise Unreadable: it is not a response.
    """
    return read_whole(_reader(version, data, position), lambda reader: _read_response(reader, version))


def _read_response(reader: Reader, version: int) -> FetchResponse:
    if version >= HAS_SESSIONS:
        throttle_time_ms, error_code, session_id = reader.unpack(_HEAD_WITH_SESSION)
    else:
        (throttle_time_ms,), error_code, session_id = reader.unpack(I32), 0, 0
    topics = []
    for _ in reader.array():
        name, topic_id = reader.topic(by_id=version >= _HAS_IDS)
        partitions = [_read_found(reader, version) for _ in reader.array()]
        reader.tags()
        topics.append(TopicRecords(name, topic_id, partitions))
    reader.tags()
    return FetchResponse(topics, error_code, session_id, throttle_time_ms)


def _read_found(reader: Reader, version: int) -> PartitionRecords:
    found = PartitionRecords(*reader.unpack(_BOUNDS_WITH_START if version >= _STARTS_AT else _BOUNDS))
    count = reader.count()
    found.aborted = None if count < 0 else [_read_aborted(reader) for _ in range(count)]
    if version >= _HAS_RACKS:
        (found.preferred_read_replica,) = reader.unpack(I32)
    records = reader.records()
    found.records = None if records is None else [records]
    found.size = len(records or b"")
    reader.tags()
    return found


def _read_aborted(reader: Reader) -> tuple[int, int]:
    producer_id, first_offset = reader.unpack(_ABORTED)
    reader.tags()
    return producer_id, first_offset
