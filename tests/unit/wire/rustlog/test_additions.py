"""Tests for L{rustlog.wire.rustlog.codec}: what goes beyond the four original requests."""

from __future__ import annotations

import json
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.rustlog.codec import (
    BadResponse,
    ParseError,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from rustlog.wire.rustlog.messages import (
    INCLUDABLE,
    REQUESTS,
    RESPONSES,
    AlterTopicRequest,
    AlterTopicResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteGroupRequest,
    DeleteGroupResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    DescribedOffset,
    DescribedPartition,
    DescribeGroupRequest,
    DescribeGroupResponse,
    DescribeTopicRequest,
    DescribeTopicResponse,
    ErrorResponse,
    FetchedRecord,
    FetchRequest,
    FetchResponse,
    ListedGroup,
    ListedTopic,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTopicsRequest,
    ListTopicsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    PingRequest,
    PingResponse,
    ProduceRequest,
    ProduceResponse,
)

PRODUCE = {"topic": "orders", "partition": 0, "records": [[1], [2]]}
FETCH = {"topic": "orders", "partition": 0, "offset": 0, "max_bytes": 1000}
WHERE = {"topic": "orders", "partition": 0}


def decode(message: object) -> Any:
    return decode_request(json.dumps(message).encode())


class DecodingCase(SynchronousTestCase):
    def refused(self, message: object, expected: str) -> None:
        """Assert what is said about a bad request."""
        error = self.assertRaises(ParseError, decode, message)
        self.assertEqual(str(error), f"failed to parse request: {expected}")


class RequestTests(DecodingCase):
    def test_examples(self) -> None:
        """Each request is understood."""
        for message, expected in [
            ({"DeleteTopic": {"topic": "t"}}, DeleteTopicRequest("t")),
            ({"DescribeTopic": {"topic": "t"}}, DescribeTopicRequest("t")),
            ({"AlterTopic": {"topic": "t"}}, AlterTopicRequest("t")),
            (
                {"AlterTopic": {"topic": "t", "partitions": 3, "config": {"a": None, "b": 1}}},
                AlterTopicRequest("t", 3, {"a": None, "b": 1}),
            ),
            ({"DescribeGroup": {"group_id": "g"}}, DescribeGroupRequest("g")),
            ({"DeleteGroup": {"group_id": "g"}}, DeleteGroupRequest("g")),
            ({"DeleteGroup": {"group_id": "g", **WHERE}}, DeleteGroupRequest("g", "orders", 0)),
            ({"ListOffsets": {**WHERE, "at": "latest"}}, ListOffsetsRequest("orders", 0, "latest")),
            ({"ListOffsets": {**WHERE, "at": 5}}, ListOffsetsRequest("orders", 0, 5)),
            ({"DeleteRecords": {**WHERE, "before": 5}}, DeleteRecordsRequest("orders", 0, 5)),
        ]:
            self.assertEqual(decode(message), expected)

    def test_without_fields(self) -> None:
        """A request that has no fields may be written in three ways."""
        for name, expected in {
            "Ping": PingRequest(),
            "ListTopics": ListTopicsRequest(),
            "ListGroups": ListGroupsRequest(),
            "ApiVersions": ApiVersionsRequest(),
        }.items():
            for message in (name, {name: None}, {name: {}}, {name: {"later": 1}}):
                self.assertEqual(decode(message), expected)
        self.refused({"Ping": 5}, "Ping: 5 is not an object")
        self.refused({"Ping": []}, "Ping: an array is not an object")

    def test_with_fields_only(self) -> None:
        """A request that has fields must have them."""
        self.refused({"DeleteTopic": None}, "DeleteTopic: null is not an object")
        self.refused({"DeleteTopic": {}}, "DeleteTopic.topic is missing")
        self.assertIn("it must be an object", str(self.assertRaises(ParseError, decode, "DeleteTopic")))

    def test_bad_fields(self) -> None:
        """What is wrong is named."""
        positions = "earliest, latest, max_timestamp"
        for at in ("newest", -1, 2**63, 1.5, True, None, []):
            error = self.assertRaises(ParseError, decode, {"ListOffsets": {**WHERE, "at": at}})
            self.assertIn(f" is neither one of {positions} nor a time in milliseconds", str(error))
        self.refused(
            {"DeleteGroup": {"group_id": "g", "partition": 0}}, "DeleteGroup.partition: it needs a topic"
        )
        self.refused(
            {"AlterTopic": {"topic": "t", "config": {"a": []}}},
            "AlterTopic.config: an array is not a value for 'a'",
        )
        self.refused(
            {"CreateTopic": {"topic": "t", "config": {"a": None}}},
            "CreateTopic.config: null is not a value for 'a'",
        )


class ProduceTests(DecodingCase):
    def produce(self, **fields: object) -> Any:
        return decode({"Produce": {**PRODUCE, **fields}})

    def test_everything(self) -> None:
        """Keys, headers and timestamps stand beside the records, in their order."""
        found = self.produce(
            keys=[[7], None], headers=[[["trace", [8]], ["empty", None]], None], timestamps=[5, None]
        )
        self.assertEqual(
            found,
            ProduceRequest(
                "orders",
                0,
                [b"\x01", b"\x02"],
                [b"\x07", None],
                [(("trace", b"\x08"), ("empty", None)), ()],
                [5, None],
            ),
        )

    def test_nulls_are_absent(self) -> None:
        """An optional field that is null might as well not be there."""
        found = self.produce(keys=None, headers=None, timestamps=None, encoding=None)
        self.assertEqual(found, ProduceRequest("orders", 0, [b"\x01", b"\x02"]))

    def test_base64(self) -> None:
        """Bytes may be written as base64, all of them."""
        found = self.produce(
            encoding="base64", records=["aGk=", ""], keys=["aw==", None], headers=[[["h", "dg=="]], []]
        )
        self.assertEqual(found.records, [b"hi", b""])
        self.assertEqual(found.keys, [b"k", None])
        self.assertEqual(found.headers, [(("h", b"v"),), ()])
        self.assertEqual(self.produce(encoding="json").records, [b"\x01", b"\x02"])

    def test_tombstones(self) -> None:
        """A record may be null where there are keys, and nowhere else."""
        self.assertEqual(self.produce(records=[None, [1]], keys=[[7], [7]]).records, [None, b"\x01"])
        self.refused(
            {"Produce": {**PRODUCE, "records": [[1], None]}},
            "Produce.records: record 1: null is not an array of bytes (a tombstone needs keys)",
        )
        self.refused(
            {"Produce": {**PRODUCE, "records": [None], "encoding": "base64"}},
            "Produce.records: record 0: null is not base64 in a string (a tombstone needs keys)",
        )

    def test_lengths(self) -> None:
        """What stands beside the records must be as many as they are."""
        for field, entries in (("keys", [[1]]), ("headers", [[], [], []]), ("timestamps", [])):
            self.refused(
                {"Produce": {**PRODUCE, field: entries}},
                f"Produce.{field}: it has {len(entries)} entries for 2 records",
            )

    def test_bad_values(self) -> None:
        """What is wrong is named, with its record."""
        for field, value, expected in [
            ("keys", 5, "5 is not an array of keys"),
            ("keys", [[1], [256]], "record 1: 256 is not within 0..255"),
            ("keys", [[True], [1]], "record 0: true is not a byte"),
            ("keys", ["a", None], "record 0: 'a' is not an array of bytes"),
            ("headers", {}, "an object is not an array of arrays of headers"),
            ("headers", [[], 5], "record 1: 5 is not an array of headers"),
            ("headers", [[["a"]], []], "record 0: an array is not a header, which is [name, value]"),
            ("headers", [[[1, [1]]], []], "record 0: an array is not a header, which is [name, value]"),
            ("headers", [[], [["a", [300]]]], "record 1: 300 is not within 0..255"),
            ("headers", [[], [["a", [False]]]], "record 1: false is not a byte"),
            ("headers", [[], [["a", "text"]]], "record 1: 'text' is not an array of bytes"),
            ("timestamps", 5, "5 is not an array of times"),
            ("timestamps", [0, -1], "record 1: -1 is not a time within 0..9223372036854775807"),
            ("timestamps", [2**63, 1], f"record 0: {2**63} is not a time within 0..9223372036854775807"),
            ("timestamps", [True, 1], "record 0: true is not a time within 0..9223372036854775807"),
            ("encoding", "hex", "'hex' is not one of json, base64"),
            ("encoding", "binary", "'binary' is not one of json, base64"),
            ("encoding", ["base64"], "an array is not one of json, base64"),
        ]:
            self.refused({"Produce": {**PRODUCE, field: value}}, f"Produce.{field}: {expected}")

    def test_bad_base64(self) -> None:
        """Only the one true alphabet, with its padding, is base64."""
        for value, expected in {
            "aGk": "'aGk' is not base64: Incorrect padding",
            "a Gk=": "'a Gk=' is not base64: Only base64 data is allowed",
            "-_-_": "'-_-_' is not base64: Only base64 data is allowed",
            "é": "'é' is not base64: string argument should contain only ASCII characters",
        }.items():
            request = {**PRODUCE, "records": ["", value], "encoding": "base64"}
            self.refused({"Produce": request}, f"Produce.records: record 1: {expected}")
        request = {**PRODUCE, "encoding": "base64"}
        self.refused({"Produce": request}, "Produce.records: record 0: an array is not base64 in a string")

    def test_the_word_true_in_base64(self) -> None:
        """Text that happens to read "true" is just text."""
        found = self.produce(records=["true", "false+=="[:4]], encoding="base64")
        self.assertEqual(found.records, [b"\xb6\xbb\x9e", b"\x7d\xa9\x6c"])


class FetchTests(DecodingCase):
    def fetch(self, **fields: object) -> Any:
        return decode({"Fetch": {**FETCH, **fields}})

    def test_everything(self) -> None:
        """All that may be asked for."""
        found = self.fetch(
            group_id="g",
            max_wait_ms=500,
            min_bytes=10,
            include=["key", "timestamp", "key"],
            encoding="base64",
            auto_commit=True,
            offset_reset="earliest",
        )
        include = frozenset(["key", "timestamp"])
        expected = FetchRequest("orders", 0, 0, 1000, "g", 500, 10, include, "base64", True, "earliest")
        self.assertEqual(found, expected)

    def test_nulls_are_absent(self) -> None:
        """An optional field that is null might as well not be there."""
        names = ("max_wait_ms", "min_bytes", "include", "encoding", "auto_commit", "offset_reset")
        self.assertEqual(self.fetch(**dict.fromkeys(names)), FetchRequest("orders", 0, 0, 1000))

    def test_bad_values(self) -> None:
        """What is wrong is named."""
        for field, value, expected in [
            ("max_wait_ms", -1, "-1 is not within 0..18446744073709551615"),
            ("min_bytes", "5", "'5' is not a whole number within 0..18446744073709551615"),
            ("include", "key", "'key' is not an array of names"),
            ("include", ["colour"], "'colour' is not one of key, headers, timestamp"),
            ("include", [[]], "an array is not one of key, headers, timestamp"),
            ("auto_commit", 1, "1 is neither true nor false"),
            ("auto_commit", True, "it needs a group_id"),
            ("offset_reset", "never", "'never' is not one of error, earliest, latest"),
            ("offset", "latest", "'latest' is not a whole number within 0..18446744073709551615"),
        ]:
            self.refused({"Fetch": {**FETCH, field: value}}, f"Fetch.{field}: {expected}")


OFFSET = DescribedOffset("t", 1, 2, None, None, None, "mine", 5)
ANSWERS = [
    ProduceResponse([1, 2]),
    FetchResponse([FetchedRecord(1, b"a"), FetchedRecord(2, b"")], 3),
    OffsetCommitResponse(False),
    OffsetFetchResponse(None),
    CreateTopicResponse("t", 1, {"a": "b"}),
    DeleteTopicResponse("t"),
    ListTopicsResponse([ListedTopic("t", 2, False)]),
    DescribeTopicResponse("t", "id", True, [DescribedPartition(0, 1, 2, 3, 4, 5)], {}, {"a": "b"}),
    AlterTopicResponse("t", 3, {}),
    ListGroupsResponse([ListedGroup("g"), ListedGroup("größe")]),
    DescribeGroupResponse("g", [OFFSET, attrs.evolve(OFFSET, log_start_offset=1, lag=0)]),
    DeleteGroupResponse("g"),
    ListOffsetsResponse(5, None),
    DeleteRecordsResponse(7),
    PingResponse(),
    ApiVersionsResponse("1.0", ["Ping"], ["json"], 5),
    ErrorResponse("no"),
]


class ResponseTests(SynchronousTestCase):
    def test_examples(self) -> None:
        """Each response is an object of the name of its request, with its fields."""
        shown = {type(each): json.loads(encode_response(each)) for each in ANSWERS}
        for name, response_class in RESPONSES.items():
            self.assertEqual(list(shown[response_class]), [name])
        self.assertEqual(
            shown[DescribeGroupResponse]["DescribeGroup"]["offsets"][0],
            {
                "topic": "t",
                "partition": 1,
                "offset": 2,
                "log_start_offset": None,
                "high_watermark": None,
                "lag": None,
                "metadata": "mine",
                "commit_time": 5,
            },
        )
        self.assertEqual(shown[PingResponse], {"Ping": {}})
        self.assertEqual(shown[ErrorResponse], {"Error": {"message": "no"}})

    def test_only_what_was_asked_for(self) -> None:
        """Keys, headers and timestamps are shown when they were asked for."""
        record = FetchedRecord(1, b"v", b"k", (("h", None), ("i", b"x")), 5)
        everything = {"key": [107], "headers": [["h", None], ["i", [120]]], "timestamp": 5}
        for include in ([], ["key"], ["headers", "timestamp"], INCLUDABLE):
            answer = FetchResponse([record], 2, include=frozenset(include))
            (shown,) = json.loads(encode_response(answer))["Fetch"]["records"]
            expected = {name: everything[name] for name in include}
            self.assertEqual(shown, {"offset": 1, "payload": [118], **expected})

    def test_base64(self) -> None:
        """Bytes are base64 when that was asked for."""
        record = FetchedRecord(1, b"v", None, (("i", b"x"),), 5)
        answer = FetchResponse([record], 2, include=frozenset(INCLUDABLE), encoding="base64")
        (shown,) = json.loads(encode_response(answer))["Fetch"]["records"]
        expected = {"offset": 1, "payload": "dg==", "key": None, "headers": [["i", "eA=="]], "timestamp": 5}
        self.assertEqual(shown, expected)

    def test_tombstone(self) -> None:
        """A missing value is shown as such to those who asked for keys, and as an empty one to others."""
        record = FetchedRecord(1, None, b"k")
        for include, expected in ((frozenset(), []), (frozenset(["key"]), None)):
            (shown,) = json.loads(encode_response(FetchResponse([record], 2, include=include)))["Fetch"][
                "records"
            ]
            self.assertEqual(shown["payload"], expected)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
U32S = st.integers(0, 2**32 - 1)
U64S = st.integers(0, 2**64 - 1)
MAYBE_BYTES = st.none() | st.binary(max_size=20)
SETTINGS = st.dictionaries(NAMES, NAMES | st.booleans() | st.integers(0, 9), max_size=3)


@st.composite
def produces(draw: Any) -> ProduceRequest:
    keys = draw(st.none() | st.lists(MAYBE_BYTES, max_size=4))
    values = MAYBE_BYTES if keys is not None else st.binary(max_size=20)
    count = len(keys) if keys is not None else draw(st.integers(0, 4))

    def so_many(entries: Any) -> Any:
        return st.lists(entries, min_size=count, max_size=count)

    headers = st.lists(st.tuples(NAMES, MAYBE_BYTES), max_size=2).map(tuple)
    return ProduceRequest(
        draw(NAMES),
        draw(U32S),
        draw(so_many(values)),
        keys,
        draw(st.none() | so_many(headers)),
        draw(st.none() | so_many(st.none() | st.integers(0, 2**63 - 1))),
        draw(st.sampled_from([None, "json", "base64"])),
    )


FETCHES = st.builds(
    FetchRequest,
    NAMES,
    U32S,
    U64S,
    U64S,
    NAMES,
    st.none() | U64S,
    st.none() | U64S,
    st.none() | st.frozensets(st.sampled_from(INCLUDABLE)),
    st.sampled_from([None, "json", "base64"]),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, "error", "earliest", "latest"]),
)
OTHERS = st.one_of(
    st.builds(OffsetCommitRequest, NAMES, U32S, NAMES, U64S),
    st.builds(OffsetFetchRequest, NAMES, U32S, NAMES),
    st.builds(CreateTopicRequest, NAMES, st.none() | U32S, st.none() | SETTINGS),
    st.builds(AlterTopicRequest, NAMES, st.none() | U32S, st.none() | SETTINGS),
    st.builds(DeleteGroupRequest, NAMES, NAMES, st.none() | U32S),
    st.builds(ListOffsetsRequest, NAMES, U32S, st.sampled_from(["latest", 0, 2**63 - 1])),
    st.builds(DeleteRecordsRequest, NAMES, U32S, U64S),
    st.sampled_from([PingRequest(), ListTopicsRequest(), ListGroupsRequest(), ApiVersionsRequest()]),
)


class ClientSideTests(SynchronousTestCase):
    def test_requests(self) -> None:
        """What a client writes, a broker understands."""

        @settings(deadline=None, max_examples=80)
        @given(produces() | FETCHES | OTHERS)
        def check(request: Any) -> None:
            self.assertEqual(decode_request(encode_request(request)), request)

        check()

    def test_plain_requests(self) -> None:
        """What is not said is not written: a broker that knows only the original fields understands it."""
        self.assertEqual(
            json.loads(encode_request(ProduceRequest("t", 0, [b"a"]))),
            {"Produce": {"topic": "t", "partition": 0, "records": [[97]]}},
        )
        self.assertEqual(
            json.loads(encode_request(FetchRequest("t", 0, 1, 2))),
            {"Fetch": {"topic": "t", "partition": 0, "offset": 1, "max_bytes": 2}},
        )

    def test_every_request_can_be_written(self) -> None:
        """There is no request that a client could not make."""
        for name, request_class in REQUESTS.items():
            values: dict[str, Any] = {"records": [], "group_id": "g", "topic": "t"}
            required = {
                each.name: values.get(each.name, 0)
                for each in attrs.fields(request_class)
                if each.default is attrs.NOTHING
            }
            self.assertEqual(list(json.loads(encode_request(request_class(**required)))), [name])

    def test_responses(self) -> None:
        """What a broker writes, a client understands, in either encoding of bytes."""
        record = FetchedRecord(1, None, b"k", (("h", None), ("i", b"x")), 5)
        full = [
            FetchResponse([record], 2, include=frozenset(INCLUDABLE), encoding=encoding)
            for encoding in ("json", "base64")
        ]
        for each in [*ANSWERS, *full]:
            self.assertEqual(decode_response(encode_response(each)), each)

    def test_later_responses(self) -> None:
        """Fields of a later version do no harm."""
        self.assertEqual(decode_response(b'{"OffsetFetch":{"offset":5,"more":[]}}'), OffsetFetchResponse(5))

    def test_bad_responses(self) -> None:
        """Whatever a broker says, it is a response or a BadResponse."""
        for payload in (
            b"",
            b"\xff",
            b"[]",
            b'"Ping"',
            b'{"Ping":{},"Pong":{}}',
            b'{"Pong":{}}',
            b'{"Fetch":5}',
            b'{"Fetch":{"records":5,"next_offset":5}}',
            b'{"Fetch":{"records":[{"offset":1,"payload":[256]}],"next_offset":5}}',
            b'{"Fetch":{"records":[{"offset":1,"payload":"="}],"next_offset":5}}',
            b'{"Fetch":{"records":[{"offset":1,"payload":5}],"next_offset":5}}',
            b'{"ListTopics":{"topics":[5]}}',
            b'{"ListTopics":{}}',
            b'{"Produce":null}',
        ):
            self.assertRaises(BadResponse, decode_response, payload)
