"""Tests for L{rustlog.wire.rustlog.sizes}."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.rustlog import sizes
from rustlog.wire.rustlog.codec import encode_response
from rustlog.wire.rustlog.messages import (
    FRAME_BYTES_MAX,
    INCLUDABLE,
    FetchedRecord,
    FetchResponse,
    ProduceResponse,
)

DATA = st.binary(max_size=200)
MAYBE = st.none() | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(st.text(max_size=5), MAYBE), max_size=3).map(tuple)
TIMES = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.integers(0, 2**63 - 1)


class SizeTests(SynchronousTestCase):
    def check(self, records: list[FetchedRecord], encoding: str, include: frozenset[str]) -> None:
        """The size that was predicted is the one that comes out."""
        response = FetchResponse(records, 2**63 - 1, include=include, encoding=encoding)
        predicted = sum(map(sizes.record_sizer(encoding, include), records))
        # The last record has no comma, nor has its last header; a next offset may have one digit more.
        spare = 2 + sum(1 for each in records if "headers" in include and each.headers)
        self.assertEqual(
            len(encode_response(response)), FRAME_BYTES_MAX - sizes.FETCH_ROOM[encoding] + predicted - spare
        )

    def test_plain_answers(self) -> None:
        """The size of an answer to a Fetch is known exactly before it is written."""

        @settings(deadline=None, max_examples=60)
        @given(st.lists(st.builds(FetchedRecord, OFFSETS, DATA), min_size=1, max_size=5))
        def check(records: list[FetchedRecord]) -> None:
            self.check(records, "json", frozenset())
            self.check(records, "base64", frozenset())

        check()

    def test_answers_with_more(self) -> None:
        """So it is with keys, headers and timestamps."""
        record = st.builds(FetchedRecord, OFFSETS, MAYBE, MAYBE, HEADERS, TIMES)

        @settings(deadline=None, max_examples=60)
        @given(
            st.lists(record, min_size=1, max_size=3),
            st.sampled_from(["json", "base64"]),
            st.sets(st.sampled_from(INCLUDABLE)).map(lambda names: frozenset(names | {"key"})),
        )
        def check(records: list[FetchedRecord], encoding: str, include: frozenset[str]) -> None:
            self.check(records, encoding, include)

        check()

    def test_every_byte_has_its_size(self) -> None:
        """Numbers of one, two and three digits are told apart."""
        for number in range(256):
            self.assertEqual(sizes.array_size(bytes([number, number])), len(f"[{number},{number}]"))
        self.assertEqual(sizes.array_size(b""), 2)

    def test_most_offsets_fit_a_frame(self) -> None:
        """The answer to the largest Produce fits a frame at the largest offsets there can be."""
        first = 2**63 - sizes.PRODUCE_RECORDS_MAX
        response = ProduceResponse(list(range(first, 2**63)))
        self.assertLessEqual(len(encode_response(response)), FRAME_BYTES_MAX)
