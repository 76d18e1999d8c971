"""Tests for L{rustlog.wire.rustlog.codec}."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.rustlog import codec
from rustlog.wire.rustlog.codec import ParseError, decode_request, encode_response
from rustlog.wire.rustlog.messages import (
    FRAME_BYTES_MAX,
    MESSAGE_MAX,
    REQUESTS,
    RESPONSES,
    CreateTopicRequest,
    CreateTopicResponse,
    ErrorResponse,
    FetchedRecord,
    FetchRequest,
    FetchResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ProduceRequest,
    ProduceResponse,
)

PRODUCE = {"topic": "orders", "partition": 0, "records": [[98, 121, 116, 101, 115], [109, 111, 114, 101]]}
FETCH = {"topic": "orders", "partition": 0, "offset": 1000, "max_bytes": 1048576}


def decode(message: object) -> object:
    return decode_request(json.dumps(message).encode())


class DecodingTests(SynchronousTestCase):
    def refused(self, payload: bytes | dict[str, object], expected: str) -> None:
        """Assert what is said about a bad request."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        error = self.assertRaises(ParseError, decode_request, data)
        self.assertEqual(str(error), f"failed to parse request: {expected}")

    def refused_field(
        self, name: str, good: dict[str, object], field: str, value: str, expected: str
    ) -> None:
        """Assert what is said when one field has another value, given as JSON."""
        fields = {**good, field: "@"}
        data = json.dumps({name: fields}).replace('"@"', value).encode()
        self.refused(data, f"{name}.{field}: {expected}")

    def test_produce(self) -> None:
        """The Produce of the specification is understood."""
        self.assertEqual(decode({"Produce": PRODUCE}), ProduceRequest("orders", 0, [b"bytes", b"more"]))

    def test_fetch(self) -> None:
        """The Fetch of the specification is understood."""
        expected = FetchRequest("orders", 0, 1000, 1048576, "order-processor")
        self.assertEqual(decode({"Fetch": {**FETCH, "group_id": "order-processor"}}), expected)

    def test_fetch_without_group(self) -> None:
        """A group that is null, or not mentioned, is none."""
        expected = FetchRequest("orders", 0, 1000, 1048576, None)
        self.assertEqual(decode({"Fetch": {**FETCH, "group_id": None}}), expected)
        self.assertEqual(decode({"Fetch": FETCH}), expected)

    def test_offset_requests(self) -> None:
        """OffsetCommit and OffsetFetch of the specification are understood."""
        asked = {"topic": "orders", "partition": 0, "group_id": "order-processor"}
        self.assertEqual(
            decode({"OffsetCommit": {**asked, "offset": 1500}}),
            OffsetCommitRequest("orders", 0, "order-processor", 1500),
        )
        self.assertEqual(decode({"OffsetFetch": asked}), OffsetFetchRequest("orders", 0, "order-processor"))

    def test_create_topic(self) -> None:
        """Partitions and settings of a new topic may be left to the broker."""
        self.assertEqual(
            decode({"CreateTopic": {"topic": "orders", "partitions": 3, "config": {"retention.ms": 5}}}),
            CreateTopicRequest("orders", 3, {"retention.ms": 5}),
        )
        self.assertEqual(decode({"CreateTopic": {"topic": "orders"}}), CreateTopicRequest("orders"))
        nothing = {"topic": "orders", "partitions": None, "config": None}
        self.assertEqual(decode({"CreateTopic": nothing}), CreateTopicRequest("orders"))

    def test_booleans_in_settings(self) -> None:
        """The words true and false are fine where a setting may have them."""
        decoded = decode({"CreateTopic": {"topic": "orders", "config": {"some.flag": True}}})
        self.assertEqual(decoded, CreateTopicRequest("orders", None, {"some.flag": True}))

    def test_the_word_true_in_a_name(self) -> None:
        """A topic may be called true; nothing is wrong with its records."""
        decoded = decode({"Produce": {**PRODUCE, "topic": "true"}})
        self.assertEqual(decoded, ProduceRequest("true", 0, [b"bytes", b"more"]))

    def test_any_payload(self) -> None:
        """Every byte string survives the way through JSON, on the fast and on the careful way."""

        @settings(deadline=None, max_examples=40)
        @given(st.lists(st.binary(max_size=300), max_size=5), st.sampled_from(["orders", "false"]))
        def check(payloads: list[bytes], topic: str) -> None:
            records = [list(each) for each in payloads]
            message = {"Produce": {"topic": topic, "partition": 7, "records": records}}
            self.assertEqual(decode(message), ProduceRequest(topic, 7, payloads))

        check()

    def test_unknown_fields_are_ignored(self) -> None:
        """Fields of a later version do no harm, whatever they contain."""
        more = {"colours": [[1, True]], "timeout": -1.5, "x": {"y": None}}
        self.assertEqual(
            decode({"Produce": {**PRODUCE, **more}}), ProduceRequest("orders", 0, [b"bytes", b"more"])
        )

    def test_largest_integers(self) -> None:
        """The whole range of u32 and u64 is accepted."""
        fields = {"topic": "t", "partition": 2**32 - 1, "offset": 2**64 - 1, "max_bytes": 2**64 - 1}
        self.assertEqual(decode({"Fetch": fields}), FetchRequest("t", 2**32 - 1, 2**64 - 1, 2**64 - 1))

    def test_bad_records(self) -> None:
        """What is no array of arrays of bytes is refused, naming the record."""
        for value, expected in {
            "[[1], [256]]": "record 1: 256 is not within 0..255",
            "[[-1]]": "record 0: -1 is not within 0..255",
            "[[1, true]]": "record 0: true is not a byte",
            "[[false]]": "record 0: false is not a byte",
            "[[1.0]]": "record 0: 1.0 is not a byte",
            "[[1e2]]": "record 0: 100.0 is not a byte",
            '[["a"]]': "record 0: 'a' is not a byte",
            "[[null]]": "record 0: null is not a byte",
            "[[[1]]]": "record 0: an array is not a byte",
            "[[18446744073709551616]]": "record 0: 1.8446744073709552e+19 is not a byte",
            "[5]": "record 0: 5 is not an array of bytes",
            "[{}]": "record 0: an object is not an array of bytes",
            '["text"]': "record 0: 'text' is not an array of bytes",
            "[null]": "record 0: null is not an array of bytes (a tombstone needs keys)",
            "[[], true]": "record 1: true is not an array of bytes",
            "5": "5 is not an array of records",
            "{}": "an object is not an array of records",
            '"text"': "'text' is not an array of records",
            "null": "null is not an array of records",
        }.items():
            self.refused_field("Produce", PRODUCE, "records", value, expected)

    def test_bad_integers(self) -> None:
        """What is no integer of the right range is refused, naming the field."""
        for field, maximum in [("partition", 2**32 - 1), ("offset", 2**64 - 1), ("max_bytes", 2**64 - 1)]:
            bounds = f"0..{maximum}"
            for value, shown in {
                "true": "true", "1.5": "1.5", "1.0": "1.0", '"1"': "'1'", "null": "null", "[]": "an array"
            }.items():  # fmt: skip
                expected = f"{shown} is not a whole number within {bounds}"
                self.refused_field("Fetch", FETCH, field, value, expected)
            self.refused_field("Fetch", FETCH, field, "-1", f"-1 is not within {bounds}")
        self.refused_field("Fetch", FETCH, "partition", str(2**32), f"{2**32} is not within 0..{2**32 - 1}")
        too_large = f"1.8446744073709552e+19 is not a whole number within 0..{2**64 - 1}"
        self.refused_field("Fetch", FETCH, "offset", str(2**64), too_large)

    def test_bad_texts(self) -> None:
        """What is no string is refused, naming the field."""
        self.refused_field("Fetch", FETCH, "topic", "5", "5 is not a string")
        self.refused_field("Fetch", FETCH, "topic", "null", "null is not a string")
        self.refused_field("Fetch", FETCH, "group_id", "true", "true is not a string")
        commit = {"topic": "t", "partition": 0, "offset": 5}
        self.refused_field("OffsetCommit", commit, "group_id", "null", "null is not a string")

    def test_bad_settings(self) -> None:
        """Settings are an object of plain values."""
        topic = {"topic": "t"}
        self.refused_field("CreateTopic", topic, "config", "[]", "an array is not an object")
        self.refused_field(
            "CreateTopic",
            topic,
            "config",
            '{"retention.ms": [1]}',
            "an array is not a value for 'retention.ms'",
        )
        self.refused_field("CreateTopic", topic, "partitions", "-1", "-1 is not within 0..4294967295")

    def test_missing_fields(self) -> None:
        """Every required field is missed by name."""
        for name, good in {
            "Produce": PRODUCE,
            "Fetch": FETCH,
            "OffsetCommit": {"topic": "t", "partition": 0, "group_id": "g", "offset": 5},
            "OffsetFetch": {"topic": "t", "partition": 0, "group_id": "g"},
            "CreateTopic": {"topic": "t"},
        }.items():
            for field in good:
                fields = {key: value for key, value in good.items() if key != field}
                self.refused({name: fields}, f"{name}.{field} is missing")

    def test_no_variant(self) -> None:
        """A request is an object with exactly one key."""
        expected = "it must be an object with one key, which is one of "
        expected += ", ".join(REQUESTS)
        for data in [b"5", b"null", b"[]", b"{}", b'"Produce"', b'[{"Produce":{}}]']:
            self.refused(data, expected)
        self.refused({"Produce": PRODUCE, "Fetch": FETCH}, expected)
        self.refused({"Produce": PRODUCE, "extra": 1}, expected)

    def test_unknown_variant(self) -> None:
        """A request that does not exist is refused with a list of those that do."""
        known = f"; there are {', '.join(REQUESTS)}"
        self.refused({"Destroy": {}}, f"unknown request 'Destroy'{known}")
        self.refused({"produce": PRODUCE}, f"unknown request 'produce'{known}")
        self.refused({"x" * 100: {}}, f"unknown request '{'x' * 63}…{known}")

    def test_variant_without_fields(self) -> None:
        """What belongs to a variant must be an object."""
        self.refused({"Produce": [1]}, "Produce: an array is not an object")
        self.refused({"Fetch": None}, "Fetch: null is not an object")
        self.refused({"Fetch": True}, "Fetch: true is not an object")

    def test_not_json(self) -> None:
        """What is not JSON is refused."""
        for data in [
            b"",
            b" ",
            b"{",
            b"\x00",
            b"\xff\xfe",
            b'{"Produce": {"topic": "\xff"}}',
            b'{"Produce": {"topic": "\\ud800"}}',
            b'{"Produce": {"records": [[NaN]]}}',
            b'{"Produce": {"records": [[Infinity]]}}',
            b'{"Produce": {"records": [[1e999]]}}',
            b'{"Produce": {}} trailing',
            b"[" * 100_000,
            b'{"Produce":' * 2000 + b"1" + b"}" * 2000,
        ]:
            error = self.assertRaises(ParseError, decode_request, data)
            self.assertTrue(str(error).startswith("failed to parse request: it is not valid JSON: "), error)

    def test_deep_nesting_within_the_limit(self) -> None:
        """A value that is nested deeply is refused like any other wrong value."""
        deep = b"[" * 900 + b"]" * 900
        self.refused(b'{"Produce": {"topic": %b}}' % deep, "Produce.topic: an array is not a string")
        records = b'{"Produce": {"topic": "t", "partition": 0, "records": %b}}' % deep
        self.refused(records, "Produce.records: record 0: an array is not a byte")

    def test_too_many_arrays(self) -> None:
        """A frame full of tiny arrays, which would take hundreds of megabytes, is refused unread."""
        data = b'{"Produce": {"topic": "t", "partition": 0, "records": [' + b"[]," * 1_100_000 + b"[]]}}"
        self.assertLess(len(data), FRAME_BYTES_MAX)
        self.refused(data, f"there are more than {codec.CONTAINERS_MAX} arrays and objects in it")

    def test_never_anything_else(self) -> None:
        """Whatever JSON comes, it is a request or a ParseError."""
        plain = (
            st.none()
            | st.booleans()
            | st.integers(-5, 300)
            | st.floats(allow_nan=False)
            | st.text(max_size=5)
        )
        values = st.recursive(plain, lambda inner: st.lists(inner, max_size=4), max_leaves=8)
        names = ["topic", "partition", "records", "offset", "max_bytes", "group_id", "config", "partitions"]
        bodies = st.dictionaries(st.sampled_from(names), values) | values
        variants = st.sampled_from(["Produce", "Fetch", "OffsetCommit", "OffsetFetch", "CreateTopic", "X"])

        @settings(deadline=None, max_examples=150)
        @given(st.dictionaries(variants, bodies, min_size=1, max_size=2))
        def check(message: object) -> None:
            try:
                decode(message)
            except ParseError as error:
                self.assertTrue(str(error).startswith("failed to parse request: "))

        check()


class EncodingTests(SynchronousTestCase):
    def test_examples(self) -> None:
        """The responses of the specification look as they do there."""
        for response, expected in [
            (ProduceResponse([1000, 1001, 1002]), '{"Produce":{"offsets":[1000,1001,1002]}}'),
            (
                FetchResponse([FetchedRecord(1000, b"bytes"), FetchedRecord(1001, b"more")], 1002),
                (
                    '{"Fetch":{"records":[{"offset":1000,"payload":[98,121,116,101,115]},'
                    '{"offset":1001,"payload":[109,111,114,101]}],"next_offset":1002}}'
                ),
            ),
            (OffsetCommitResponse(True), '{"OffsetCommit":{"success":true}}'),
            (OffsetFetchResponse(1500), '{"OffsetFetch":{"offset":1500}}'),
            (OffsetFetchResponse(None), '{"OffsetFetch":{"offset":null}}'),
            (
                ErrorResponse("partition not found: topic=orders, partition=99"),
                '{"Error":{"message":"partition not found: topic=orders, partition=99"}}',
            ),
            (
                CreateTopicResponse("orders", 3, {"retention.ms": "5"}),
                '{"CreateTopic":{"topic":"orders","partitions":3,"config":{"retention.ms":"5"}}}',
            ),
        ]:
            self.assertEqual(encode_response(response).decode(), expected)

    def test_every_response_has_a_name(self) -> None:
        """There is a variant for each answer to a request, of the same name; and one for errors."""
        self.assertEqual(set(RESPONSES), {*REQUESTS, "Error"})

    def test_long_error(self) -> None:
        """An error that repeats something huge is shortened, so that it fits a frame."""
        message = json.loads(encode_response(ErrorResponse("x" * 20_000_000)))["Error"]["message"]
        self.assertEqual(message, "x" * MESSAGE_MAX + "…")
