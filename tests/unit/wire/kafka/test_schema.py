"""Tests for L{rustlog.wire.kafka.schema}."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from uuid import UUID

from kio.schema.errors import ErrorCode
from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.kafka.apis import APIS
from rustlog.wire.kafka.schema import (
    Unreadable,
    decode,
    encode,
    is_flexible,
    make,
    make_error,
    request_class,
    response_class,
    response_header_version,
)

METADATA, API_VERSIONS, INIT_PRODUCER_ID, OFFSET_COMMIT, DELEGATION_TOKEN = 3, 18, 22, 8, 38
TOPIC = {
    "error_code": 3,
    "name": "orders",
    "topic_id": UUID(int=7),
    "is_internal": False,
    "partitions": [{"partition_index": 0, "leader_id": 0, "replica_nodes": [0], "isr_nodes": [0]}],
}


class MakeTests(SynchronousTestCase):
    def test_all_versions(self) -> None:
        """One description of a response serves every version of it."""
        for version in range(14):
            made = make(
                response_class(METADATA, version),
                brokers=[{"node_id": 0, "host": "localhost", "port": 9092}],
                topics=[TOPIC],
                cluster_id="here",
                controller_id=0,
            )
            self.assertEqual(decode(type(made), encode(made)), made)
            (topic,) = made.topics
            self.assertEqual(topic.name, "orders")
            self.assertIs(topic.error_code, ErrorCode.unknown_topic_or_partition)
            self.assertEqual(topic.partitions[0].isr_nodes, (0,))
            self.assertEqual(getattr(topic, "topic_id", None), UUID(int=7) if version >= 10 else None)

    def test_what_may_be_omitted(self) -> None:
        """Errors, the throttle time, nulls and what has a default need not be given."""
        made = make(response_class(INIT_PRODUCER_ID, 5), producer_id=5, producer_epoch=0)
        self.assertIs(made.error_code, ErrorCode.none)
        self.assertEqual(made.throttle_time, timedelta(0))

    def test_what_must_be_given(self) -> None:
        """A response without what it is about is a mistake."""
        self.assertRaises(TypeError, make, response_class(METADATA, 9), brokers=[])

    def test_milliseconds(self) -> None:
        """Durations and times are given as Kafka sends them."""
        asked = request_class(OFFSET_COMMIT, 2)
        made = make(asked, group_id="g", member_id="", retention_time=1500, topics=[])
        self.assertEqual(made.retention_time, timedelta(seconds=1.5))
        token = make(
            response_class(DELEGATION_TOKEN, 1),
            principal_type="", principal_name="", token_id="", hmac=b"",
            issue_timestamp=1000, expiry_timestamp=2000, max_timestamp=datetime(1970, 1, 1, tzinfo=UTC),
        )  # fmt: skip
        self.assertEqual(token.expiry_timestamp, datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC))
        self.assertEqual(decode(type(token), encode(token)), token)

    def test_null_arrays(self) -> None:
        """No array is not an empty one."""
        everything = make(request_class(METADATA, 9), topics=None, allow_auto_topic_creation=True)
        self.assertIsNone(decode(type(everything), encode(everything)).topics)
        nothing = make(request_class(METADATA, 9), topics=[], allow_auto_topic_creation=True)
        self.assertEqual(decode(type(nothing), encode(nothing)).topics, ())


class ErrorTests(SynchronousTestCase):
    def test_every_response_that_has_a_code(self) -> None:
        """Whatever else a response has is left blank."""
        told = 0
        for api in APIS.values():
            for version in api.versions:
                response = make_error(response_class(api.key, version), ErrorCode.invalid_request)
                if response is not None:
                    told += 1
                    read = decode(type(response), encode(response))
                    self.assertIs(read.error_code, ErrorCode.invalid_request)
        self.assertGreater(told, 0)

    def test_responses_without_a_code(self) -> None:
        """Some have a place for errors of topics only."""
        self.assertIsNone(make_error(response_class(METADATA, 9), ErrorCode.invalid_request))


class BytesTests(SynchronousTestCase):
    def test_not_the_message(self) -> None:
        """Too few bytes, too many, and wrong ones are told apart from a message."""
        wanted = request_class(METADATA, 9)
        data = encode(make(wanted, topics=[{"name": "orders"}], allow_auto_topic_creation=True))
        for end in range(len(data)):
            self.assertRaises(Unreadable, decode, wanted, data[:end])
        self.assertRaises(Unreadable, decode, wanted, data.replace(b"orders", b"\xff\xff\xff\xff\xff\xff"))

    def test_more_than_the_message(self) -> None:
        """What is behind the message is not looked at: librdkafka 2.16 asks for all topics in these bytes."""
        read = decode(request_class(METADATA, 13), bytes.fromhex("00000000010000"))
        self.assertIsNone(read.topics)

    def test_position(self) -> None:
        """What is before the message is not looked at."""
        request = make(request_class(METADATA, 1), topics=None)
        self.assertEqual(decode(type(request), b"header" + encode(request), 6), request)

    def test_header_versions(self) -> None:
        """ApiVersions is answered so that even those understand who do not know the version."""
        self.assertEqual([response_header_version(API_VERSIONS, each) for each in (0, 2, 3, 4)], [0, 0, 0, 0])
        self.assertEqual([response_header_version(METADATA, each) for each in (8, 9)], [0, 1])
        self.assertEqual([is_flexible(METADATA, each) for each in (8, 9)], [False, True])


class ImportTests(SynchronousTestCase):
    def test_hypothesis_is_not_imported(self) -> None:
        """A broker does not begin by preparing for tests."""
        code = "import sys, rustlog.wire.kafka.apis; sys.exit('hypothesis' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], check=False).returncode, 0)
