"""Tests for L{rustlog.wire.kafka.fetch}: the same bytes as C{kio}'s, both ways."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.storage.memorylog import MemorySlice
from rustlog.wire.answers import Parts
from rustlog.wire.kafka import schema
from rustlog.wire.kafka.fetch import (
    KEY,
    MAX_VERSION,
    MIN_VERSION,
    FetchRequest,
    FetchResponse,
    PartitionRecords,
    PartitionWant,
    TopicRecords,
    TopicWant,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from rustlog.wire.kafka.primitives import joined
from rustlog.wire.kafka.schema import Unreadable, make, request_class, response_class
from tests.unit.wire.kafka.kio_bytes import kio_encode
from tests.unit.wire.kafka.strategies import codes, i8, i32, i64, ids, names, some

versions = st.integers(MIN_VERSION, MAX_VERSION)


def topic_names(version: int) -> tuple[st.SearchStrategy, st.SearchStrategy]:
    return (st.just(""), ids) if version >= 13 else (names, st.none())


@st.composite
def requests(draw: Any) -> tuple[int, FetchRequest]:
    version = draw(versions)
    want = st.builds(PartitionWant, i32, i64, i32, i32 if version >= 9 else st.just(-1))
    topic = st.builds(TopicWant, *topic_names(version), some(want))
    forgotten = st.tuples(ids if version >= 13 else names, some(i32))
    request = FetchRequest(draw(i32), draw(i32), draw(i32), draw(i8), draw(some(topic)))
    if version >= 7:
        request.session_id, request.session_epoch = draw(i32), draw(i32)
        request.forgotten = draw(some(forgotten))
    else:
        request.forgotten = []
    if version >= 11:
        request.rack_id = draw(names)
    if version < 15:
        request.replica_id = draw(i32)
    return version, request


@st.composite
def responses(draw: Any) -> tuple[int, FetchResponse]:
    version = draw(versions)
    found = st.builds(
        PartitionRecords,
        index=i32,
        error_code=codes,
        high_watermark=i64,
        last_stable_offset=i64,
        log_start_offset=i64 if version >= 5 else st.just(-1),
        aborted=st.none() | some(st.tuples(i64, i64)),
        preferred_read_replica=i32 if version >= 11 else st.just(-1),
    )
    topics = draw(some(st.builds(TopicRecords, *topic_names(version), some(found))))
    for topic in topics:
        for each in topic.partitions:
            data = draw(st.none() | st.binary(max_size=100))
            each.records = None if data is None else [data]
            each.size = len(data or b"")
    response = FetchResponse(topics, throttle_time_ms=draw(st.integers(0, 2**31 - 1)))
    if version >= 7:
        response.error_code, response.session_id = draw(codes), draw(i32)
    return version, response


def kio_request(version: int, request: FetchRequest, **tagged: Any) -> bytes:
    """What C{kio} writes."""
    topics = [
        {
            "topic": topic.name,
            "topic_id": topic.topic_id,
            "partitions": [
                {
                    "partition": each.index,
                    "current_leader_epoch": each.leader_epoch,
                    "fetch_offset": each.offset,
                    "partition_max_bytes": each.max_bytes,
                }
                for each in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    forgotten = [
        {"topic": topic, "topic_id": topic, "partitions": indexes} for topic, indexes in request.forgotten
    ]
    made = make(
        request_class(KEY, version),
        replica_id=request.replica_id,
        max_wait=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=request.isolation_level,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten,
        rack_id=request.rack_id,
        **tagged,
    )
    return kio_encode(made)


def kio_response(version: int, response: FetchResponse, **tagged: Any) -> bytes:
    """The same for responses."""
    topics = [
        {
            "topic": topic.name,
            "topic_id": topic.topic_id,
            "partitions": [
                {
                    "partition_index": each.index,
                    "error_code": each.error_code,
                    "high_watermark": each.high_watermark,
                    "last_stable_offset": each.last_stable_offset,
                    "log_start_offset": each.log_start_offset,
                    "aborted_transactions": None
                    if each.aborted is None
                    else [{"producer_id": pid, "first_offset": first} for pid, first in each.aborted],
                    "preferred_read_replica": each.preferred_read_replica,
                    "records": None if each.records is None else joined(Parts(each.records, each.size)),
                    **tagged,
                }
                for each in topic.partitions
            ],
        }
        for topic in response.topics
    ]
    made = make(
        response_class(KEY, version),
        throttle_time=response.throttle_time_ms,
        error_code=response.error_code,
        session_id=response.session_id,
        responses=topics,
    )
    return kio_encode(made)


class FetchCodecTests(SynchronousTestCase):
    @given(requests())
    def test_requests(self, versioned: tuple[int, FetchRequest]) -> None:
        """Requests are written as they should be, and read back as they were."""
        version, request = versioned
        data = encode_request(version, request)
        self.assertEqual(data, kio_request(version, request))
        self.assertEqual(decode_request(version, b"head" + data, 4), request)

    @given(responses())
    def test_responses(self, versioned: tuple[int, FetchResponse]) -> None:
        """So are responses."""
        version, response = versioned
        answer = encode_response(version, response, b"head")
        data = joined(answer)
        if isinstance(answer, Parts):
            self.assertEqual(answer.size, len(data))
        self.assertEqual(data, b"head" + kio_response(version, response))
        self.assertEqual(decode_response(version, data, 4), response)

    def test_slices(self) -> None:
        """What is stored goes into an answer as it is: several slices make one field."""
        slices = [MemorySlice(b"first"), MemorySlice(b"second")]
        found = PartitionRecords(0, high_watermark=2, records=slices, size=11)
        answer = encode_response(12, FetchResponse([TopicRecords("orders", None, [found])]))
        assert isinstance(answer, Parts)
        self.assertEqual(list(answer.parts[1:3]), slices)
        found.records = [b"firstsecond"]
        self.assertEqual(
            joined(answer), kio_response(12, FetchResponse([TopicRecords("orders", None, [found])]))
        )

    def test_tagged_fields_are_skipped(self) -> None:
        """What is meant for other brokers does not disturb."""
        request = FetchRequest(
            500, 1, 2**20, 0, [TopicWant("", UUID(int=7), [PartitionWant(0, 5, 100)])], 0, 0, []
        )
        replica = {"replica_id": 7, "replica_epoch": 3}
        data = kio_request(17, request, cluster_id="here", replica_state=replica)
        self.assertEqual(decode_request(17, data, 0), request)
        response = FetchResponse(
            [TopicRecords("orders", None, [PartitionRecords(0, 6, records=[b"records"], size=7)])]
        )
        data = kio_response(12, response, current_leader={"leader_id": 7, "leader_epoch": 3})
        self.assertEqual(decode_response(12, data), response)

    def test_cut_short(self) -> None:
        """A request that ends too early, or too late, is none."""
        request = FetchRequest(500, 1, 2**20, 0, [TopicWant("orders", None, [PartitionWant(0, 5, 100)])])
        for version in range(MIN_VERSION, 13):
            data = encode_request(version, request)
            for end in range(len(data)):
                self.assertRaises(Unreadable, decode_request, version, data[:end], 0)
            self.assertRaises(Unreadable, decode_request, version, data + b"\0", 0)

    @given(versions, st.binary(max_size=80))
    def test_anything(self, version: int, data: bytes) -> None:
        """Whatever it is, it is read as C{kio} reads it, or not at all."""
        try:
            request = decode_request(version, data, 0)
        except Unreadable:
            return
        read = schema.decode(request_class(KEY, version), data)
        self.assertEqual(request.min_bytes, read.min_bytes)
        self.assertEqual(len(request.topics), len(read.topics))
