"""Tests for L{rustlog.wire.kafka.produce}: the same bytes as C{kio}'s, both ways."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.kafka import schema
from rustlog.wire.kafka.primitives import joined
from rustlog.wire.kafka.produce import (
    KEY,
    MAX_VERSION,
    MIN_VERSION,
    PartitionResult,
    ProduceRequest,
    ProduceResponse,
    TopicRecords,
    TopicResult,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from rustlog.wire.kafka.schema import Unreadable, make, request_class, response_class
from tests.unit.wire.kafka.kio_bytes import kio_encode
from tests.unit.wire.kafka.strategies import codes, i16, i32, i64, ids, names, records, some

versions = st.integers(MIN_VERSION, MAX_VERSION)


@st.composite
def requests(draw: Any) -> tuple[int, ProduceRequest]:
    version = draw(versions)
    by_id = version >= 13
    topics = draw(
        some(
            st.builds(
                TopicRecords,
                st.just("") if by_id else names,
                ids if by_id else st.none(),
                some(st.tuples(i32, records)),
            )
        )
    )
    return version, ProduceRequest(draw(st.none() | names), draw(i16), draw(i32), topics)


@st.composite
def responses(draw: Any) -> tuple[int, ProduceResponse]:
    version = draw(versions)
    by_id = version >= 13
    result = st.builds(
        PartitionResult,
        index=i32,
        error_code=codes,
        base_offset=i64,
        # kio keeps times as datetimes, which end with the year 9999.
        log_append_time_ms=st.integers(-1, 2**40),
        log_start_offset=i64 if version >= 5 else st.just(-1),
        record_errors=some(st.tuples(i32, st.none() | names)) if version >= 8 else st.just([]),
        error_message=st.none() | names if version >= 8 else st.none(),
    )
    topic = st.builds(TopicResult, st.just("") if by_id else names, ids if by_id else st.none(), some(result))
    return version, ProduceResponse(draw(some(topic)), draw(st.integers(0, 2**31 - 1)))


def kio_request(version: int, request: ProduceRequest) -> bytes:
    """What C{kio} writes."""
    topics = [
        {
            "name": each.name,
            "topic_id": each.topic_id,
            "partition_data": [{"index": index, "records": data} for index, data in each.partitions],
        }
        for each in request.topics
    ]
    made = make(
        request_class(KEY, version),
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout=request.timeout_ms,
        topic_data=topics,
    )
    return kio_encode(made)


def kio_response(version: int, response: ProduceResponse, **tagged: Any) -> bytes:
    """The same for responses."""
    topics = [
        {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "partition_responses": [
                {
                    "index": each.index,
                    "error_code": each.error_code,
                    "base_offset": each.base_offset,
                    "log_append_time": None if each.log_append_time_ms == -1 else each.log_append_time_ms,
                    "log_start_offset": each.log_start_offset,
                    "record_errors": [
                        {"batch_index": index, "batch_index_error_message": message}
                        for index, message in each.record_errors
                    ],
                    "error_message": each.error_message,
                    **tagged,
                }
                for each in topic.partitions
            ],
        }
        for topic in response.topics
    ]
    made = make(response_class(KEY, version), responses=topics, throttle_time=response.throttle_time_ms)
    return kio_encode(made)


class ProduceCodecTests(SynchronousTestCase):
    @given(requests())
    def test_requests(self, versioned: tuple[int, ProduceRequest]) -> None:
        """Requests are written as they should be, and read back as they were."""
        version, request = versioned
        data = joined(encode_request(version, request))
        self.assertEqual(data, kio_request(version, request))
        self.assertEqual(decode_request(version, b"head" + data, 4), request)

    @given(responses())
    def test_responses(self, versioned: tuple[int, ProduceResponse]) -> None:
        """So are responses."""
        version, response = versioned
        data = joined(encode_response(version, response, b"head"))
        self.assertEqual(data[:4], b"head")
        self.assertEqual(data[4:], kio_response(version, response))
        self.assertEqual(decode_response(version, data, 4), response)

    def test_tagged_fields_are_skipped(self) -> None:
        """What we do not know does not disturb."""
        response = ProduceResponse([TopicResult("orders", None, [PartitionResult(0, 6)])])
        for version in (10, 11, 12):
            data = kio_response(version, response, current_leader={"leader_id": 7, "leader_epoch": 3})
            self.assertEqual(decode_response(version, data), response)

    def test_records_are_views(self) -> None:
        """Nothing is copied."""
        request = ProduceRequest(None, -1, 1000, [TopicRecords("orders", None, [(0, b"records")])])
        data = bytearray(joined(encode_request(9, request)))
        ((_, read),) = decode_request(9, data, 0).topics[0].partitions
        self.assertIsInstance(read, memoryview)
        assert isinstance(read, memoryview)
        self.assertIs(read.obj, data)

    def test_cut_short(self) -> None:
        """A request that ends too early, or too late, is none."""
        request = ProduceRequest("me", -1, 1000, [TopicRecords("orders", None, [(0, b"records")])])
        for version in (3, 8, 9, 12):
            data = joined(encode_request(version, request))
            for end in range(len(data)):
                self.assertRaises(Unreadable, decode_request, version, data[:end], 0)
            self.assertRaises(Unreadable, decode_request, version, data + b"\0", 0)

    @given(versions, st.binary(max_size=60))
    def test_anything(self, version: int, data: bytes) -> None:
        """Whatever it is, it is read as C{kio} reads it, or not at all."""
        try:
            request = decode_request(version, data, 0)
        except Unreadable:
            return
        read = schema.decode(request_class(KEY, version), data)
        self.assertEqual(request.acks, read.acks)
        self.assertEqual(len(request.topics), len(read.topic_data))
