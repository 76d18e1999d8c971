"""Tests for L{rustlog.log.records}."""

from __future__ import annotations

from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import CorruptBatch, InvalidRecord, RustlogError
from rustlog.log.batch import RecordBatch
from rustlog.log.codecs import Codec, compress
from rustlog.log.records import build, decode, first_at_or_after, first_with_max_timestamp
from rustlog.model import Record
from tests.unit.log import reference

NOW = 1_700_000_000_000

_contents = st.none() | st.binary(max_size=40) | st.just(b"x" * 70) | st.just(b"y" * 8200)
_names = st.text(max_size=8)  # without surrogates
_records = st.builds(
    Record,
    value=_contents,
    key=_contents,
    headers=st.lists(st.tuples(_names, _contents), max_size=3).map(tuple),
    timestamp=st.integers(0, 2**63 - 1) | st.integers(NOW, NOW + 100),
)


def from_fields(*records: reference.Fields, **header: int) -> RecordBatch:
    """A batch made by the reference."""
    payload = b"".join(map(reference.record, records))
    return from_payload(payload, record_count=len(records), **header)


def from_payload(payload: bytes, **header: int) -> RecordBatch:
    """A batch with a right checksum around any bytes."""
    return RecordBatch(reference.batch(payload, **header))


class BuildTests(SynchronousTestCase):
    """Making batches."""

    def test_bytes(self) -> None:
        """Records become the bytes that Kafka writes for them."""
        batch = build(
            [
                Record(b"value", b"key", (("h", b"1"), ("", None), ("ü", b"")), NOW + 5),
                Record(None, None, (), NOW),
                Record(b"", b"", (), NOW + 300),
                Record(b"v" * 10_000),
            ],
            now_ms=NOW + 7,
            producer_id=12,
            producer_epoch=3,
            base_sequence=77,
        )
        payload = b"".join(
            map(
                reference.record,
                [
                    (0, 0, b"key", b"value", [(b"h", b"1"), (b"", None), ("ü".encode(), b"")]),
                    (-5, 1, None, None, []),
                    (295, 2, b"", b"", []),
                    (2, 3, None, b"v" * 10_000, []),
                ],
            )
        )
        expected = reference.batch(
            payload,
            record_count=4,
            base_timestamp=NOW + 5,
            max_timestamp=NOW + 300,
            producer_id=12,
            producer_epoch=3,
            base_sequence=77,
        )
        self.assertEqual(bytes(batch.buffer), expected)
        batch.check()

    def test_codecs(self) -> None:
        """The records of a compressed batch are compressed as a whole, and its attributes say how."""
        records = [Record(b"value %d" % number) for number in range(100)]
        plain = build(records, now_ms=NOW)
        for codec in Codec:
            batch = build(iter(records), now_ms=NOW, codec=codec)
            batch.check()
            self.assertEqual((batch.codec, batch.record_count), (codec, 100))
            self.assertEqual(bytes(batch.payload), compress(codec, bytes(plain.payload)))

    def test_no_records(self) -> None:
        """There is no empty batch."""
        self.assertRaises(InvalidRecord, build, [], now_ms=NOW)

    def test_timestamps(self) -> None:
        """A timestamp is -1 for none, or not negative, and fits 64 bits."""
        for timestamp in (-2, -(2**63), 2**63):
            self.assertRaises(InvalidRecord, build, [Record(b"", timestamp=timestamp)], now_ms=NOW)
        extremes = build([Record(b"", timestamp=2**63 - 1), Record(b"", timestamp=0)], now_ms=NOW)
        self.assertEqual([each.timestamp for each in decode(extremes)], [2**63 - 1, 0])

    def test_header_keys(self) -> None:
        """A header key must be text that can be written."""
        error = self.assertRaises(InvalidRecord, build, [Record(b"", None, (("\ud800", b""),))], now_ms=NOW)
        self.assertIn("\\ud800", str(error))

    def test_order_of_fields(self) -> None:
        """Given offsets do not matter: they are the store's business."""
        batch = build([Record(b"a", offset=9), Record(b"b", offset=3)], now_ms=NOW)
        self.assertEqual([each.offset for each in decode(batch)], [0, 1])


class DecodeTests(SynchronousTestCase):
    """Looking inside."""

    def test_reference(self) -> None:
        """The bytes that Kafka writes are read as the records that they are."""
        batch = from_fields(
            (0, 0, b"k", b"v", [(b"h", b"1"), (b"", None)]),
            (-5, 1, None, None, []),
            (2**40, 2, b"", b"", [(b"e", b"")]),
            base_offset=2**40,
            base_timestamp=NOW,
        )
        self.assertEqual(
            list(decode(batch)),
            [
                Record(b"v", b"k", (("h", b"1"), ("", None)), NOW, 2**40),
                Record(None, None, (), NOW - 5, 2**40 + 1),
                Record(b"", b"", (("e", b""),), NOW + 2**40, 2**40 + 2),
            ],
        )

    def test_any_records(self) -> None:
        """What is built with any codec and placed anywhere is decoded as it was."""

        @settings(deadline=None, max_examples=30)
        @given(st.lists(_records, min_size=1, max_size=4), st.sampled_from(Codec), st.integers(0, 2**62))
        def comes_back(records: list[Record], codec: Codec, base_offset: int) -> None:
            batch = build(records, now_ms=NOW, codec=codec).at(base_offset, 0)
            for offset, record in enumerate(records, base_offset):
                record.offset = offset
            self.assertEqual(list(decode(batch)), records)

        comes_back()

    def test_many_records(self) -> None:
        """Varints of every length are read, as offsets and as sizes."""
        records = [Record(b"%d" % number) for number in range(20_000)]
        values = [each.value for each in decode(build(records, now_ms=NOW))]
        self.assertEqual(values, [each.value for each in records])

    def test_varints_at_their_borders(self) -> None:
        """Numbers of either sign, just before and behind where one more byte is needed, are right."""
        deltas = [0]
        for bits in range(6, 64, 7):
            deltas += [sign * (2**bits) + step for sign in (1, -1) for step in (-1, 0, 1)]
        deltas = [each for each in deltas if abs(each) < 2**62]
        base = 2**62
        batch = build([Record(b"", timestamp=base + delta) for delta in deltas], now_ms=NOW)
        payload = b"".join(
            reference.record((delta, number, None, b"", [])) for number, delta in enumerate(deltas)
        )
        self.assertEqual(bytes(batch.payload), payload)
        self.assertEqual([each.timestamp - base for each in decode(batch)], deltas)

    def test_earliest_timestamp(self) -> None:
        """The whole range of 64 bits is read, whatever a client may have meant by it."""
        batch = from_fields((-(2**63), 0, None, b"", []), (2**63 - 1, 1, None, b"", []))
        self.assertEqual([each.timestamp for each in decode(batch)], [-(2**63), 2**63 - 1])

    def test_stray_bytes_in_header_keys(self) -> None:
        """A header key that is not UTF-8 survives being decoded and built anew."""
        batch = from_fields((0, 0, None, b"v", [(b"\xff\xfea", b"1")]), base_timestamp=NOW, max_timestamp=NOW)
        again = build(decode(batch), now_ms=NOW)
        self.assertEqual(again, batch)

    def test_log_append_time(self) -> None:
        """Records of a batch that bears its time of arrival have that time."""
        batch = build([Record(b"a", timestamp=5), Record(b"b", timestamp=9)], now_ms=NOW)
        timed = batch.with_append_time(NOW)
        self.assertEqual([each.timestamp for each in decode(timed)], [NOW, NOW])

    def test_from_offset(self) -> None:
        """Records before an offset are passed over, in every codec."""
        records = [Record(b"%d" % number) for number in range(5)]
        for codec in Codec:
            batch = build(records, now_ms=NOW, codec=codec).at(100, 0)
            for from_offset, expected in ((0, 5), (100, 5), (103, 2), (104, 1), (105, 0), (2**63, 0)):
                found = list(decode(batch, from_offset=from_offset))
                self.assertEqual([each.offset for each in found], list(range(100, 105))[5 - expected :])

    def test_gaps(self) -> None:
        """A batch that compaction has thinned out is read with the offsets that are left."""
        batch = from_fields(
            (0, 2, None, b"a", []), (0, 7, None, b"b", []), base_offset=10, last_offset_delta=9
        )
        self.assertEqual([each.offset for each in decode(batch)], [12, 17])
        self.assertEqual([each.offset for each in decode(batch, from_offset=13)], [17])
        self.assertEqual([each.offset for each in decode(batch, from_offset=19)], [])

    def test_one_at_a_time(self) -> None:
        """Records come one by one: those before a damaged one can be had."""
        good = reference.record((0, 0, None, b"v", []))
        records = decode(from_payload(good + b"\x80", record_count=2))
        self.assertEqual(next(records).value, b"v")
        self.assertRaises(CorruptBatch, next, records)

    def test_size_limit(self) -> None:
        """A batch that would become too large is refused before any record is read."""
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
            batch = build([Record(bytes(100_000))], now_ms=NOW, codec=codec)
            self.assertEqual(len(list(decode(batch, size_max=101_000))), 1)
            self.assertRaises(CorruptBatch, decode, batch, size_max=99_000)

    def test_unknown_codec(self) -> None:
        """A batch of an unknown codec is refused at once."""
        self.assertRaises(InvalidRecord, decode, from_payload(b"", record_count=1, attributes=5))


class DamagedRecordTests(SynchronousTestCase):
    """Batches whose checksum is right but whose records are not: a client can send anything."""

    def assert_corrupt(self, payload: bytes, reason: str, record_count: int = 1, **header: int) -> None:
        batch = from_payload(payload, record_count=record_count, **header)
        error = self.assertRaises(CorruptBatch, list, decode(batch))
        self.assertIn(reason, str(error))

    def test_count(self) -> None:
        """There are as many records as the header says, and nothing else."""
        one = reference.record((0, 0, None, b"v", []))
        self.assert_corrupt(b"", "less than 1 whole records")
        self.assert_corrupt(one, "less than 2 whole records", record_count=2)
        self.assert_corrupt(one + b"abc", "3 bytes follow")
        self.assert_corrupt(one, "bytes follow", record_count=0, last_offset_delta=0)
        self.assert_corrupt(one, "bytes follow", record_count=-1, last_offset_delta=0)

    def test_cut_anywhere(self) -> None:
        """Records that end too early are found out, wherever that is."""
        whole = reference.record((300, 0, b"key", b"value" * 30, [(b"h", b"1"), (b"n", None)]))
        for end in range(len(whole)):
            for size in (whole[:end], reference.varint(max(0, end - 2)) + whole[2:end]):
                batch = from_payload(size, record_count=1)
                self.assertRaises(CorruptBatch, list, decode(batch))

    def test_sizes(self) -> None:
        """A size that is negative, too large or not that of the content is found out."""
        varint = reference.varint
        start = b"\0\0\0"  # attributes, timestamp delta, offset delta
        for body in (
            start + varint(-2) + varint(-1) + b"\0",
            start + varint(-1) + varint(-2) + b"\0",
            start + varint(-(2**63)) + varint(-1) + b"\0",
            start + varint(2**63 - 1) + varint(-1) + b"\0",
            start + varint(1) + b"k" + varint(10) + b"v" + b"\0",
            start + varint(-1) + varint(-1) + varint(-1),
            start + varint(-1) + varint(-1) + varint(2**62),
            start + varint(-1) + varint(-1) + varint(1) + varint(-1) + varint(-1),
            start + varint(-1) + varint(-1) + varint(1) + varint(0) + varint(-2),
            start + varint(-1) + varint(-1) + b"\0" + b"more",
            start + varint(-1) + varint(-1) + b"\xff" * 11,
        ):
            self.assert_corrupt(varint(len(body)) + body, "")
        self.assert_corrupt(varint(-1), "negative size")
        self.assert_corrupt(varint(2**62), "larger than what is left")
        self.assert_corrupt(b"\xff" * 9 + b"\x02", "more than 64 bits")

    def test_offsets(self) -> None:
        """Offsets that do not ascend, or leave those of the batch, are found out."""
        record = reference.record
        for deltas in ((1, 0), (0, 0), (0, 2), (-1, 0), (0, 2**63 - 1)):
            payload = b"".join(record((0, delta, None, b"", [])) for delta in deltas)
            self.assert_corrupt(payload, "offsets do not ascend", record_count=2)

    def test_timestamps(self) -> None:
        """A timestamp beyond 64 bits is found out."""
        payload = reference.record((2**63 - 1, 0, None, b"", []))
        self.assert_corrupt(payload, "timestamp has more than 64 bits", base_timestamp=1)
        payload = reference.record((-(2**63), 0, None, b"", []))
        self.assert_corrupt(payload, "timestamp has more than 64 bits", base_timestamp=-1)

    def test_any_mutation(self) -> None:
        """A batch that was changed in any way is found by its checksum, or ends in an error of ours."""
        original = bytes(
            build([Record(b"value", b"key", (("h", b"1"),)), Record(b"x" * 200)], now_ms=NOW).buffer
        )

        @settings(deadline=None, max_examples=200)
        @given(st.integers(0, len(original)), st.integers(0, 20), st.binary(max_size=20))
        def judged(position: int, length: int, replacement: bytes) -> None:
            changed = original[:position] + replacement + original[position + length :]
            batch = RecordBatch(changed)
            try:
                batch.check()
                found = list(decode(batch))
            except RustlogError:
                return
            placement_changed = original[:8] + original[12:16] != changed[:8] + changed[12:16]
            self.assertTrue(changed == original or placement_changed)
            self.assertLessEqual(len(found), 2)

        judged()

    def test_any_payload(self) -> None:
        """Whatever stands in a batch with a right checksum, it gives records or an error of ours."""
        valid = reference.record((0, 0, b"k", b"v", [(b"h", b"1")]))
        piece = st.sampled_from([valid, valid[:5], b"\xff" * 10, b"\1", b"\0" * 7]) | st.binary(max_size=20)

        @settings(deadline=None, max_examples=200)
        @given(
            st.lists(piece, max_size=4).map(b"".join),
            st.sampled_from([0, 1, 2, 2**31 - 1, -(2**31)]),
            st.sampled_from([*range(8), 8]),
        )
        def judged(payload: bytes, record_count: int, attributes: int) -> None:
            delta = min(record_count, 2**31 - 2)
            header = {"record_count": record_count, "attributes": attributes, "last_offset_delta": delta}
            try:
                found = list(islice(decode(from_payload(payload, **header), size_max=10_000), 1000))
            except RustlogError:
                return
            self.assertLessEqual(len(found), len(payload))

        judged()

    def test_lies_cost_nothing(self) -> None:
        """Counts and sizes of billions that the bytes do not bear out end at once."""
        record = reference.record((0, 0, None, b"v", []))
        headers = b"\0\0\0\1\1" + reference.varint(2**62)
        self.assert_corrupt(record, "less than 2147483647", record_count=2**31 - 1)
        self.assert_corrupt(reference.varint(len(headers)) + headers, "less than 1 whole records")


class TimeTests(SynchronousTestCase):
    """Finding records by time."""

    def setUp(self) -> None:
        times = (10, 30, 20, 30)
        self.batch = build([Record(b"", timestamp=time) for time in times], now_ms=NOW).at(100, 0)

    def offset_at(self, timestamp_ms: int, from_offset: int = 0) -> int | None:
        found = first_at_or_after(self.batch, timestamp_ms, from_offset=from_offset)
        return None if found is None else found.offset

    def test_first_at_or_after(self) -> None:
        """The first record in the order of the log that is not older is found."""
        self.assertEqual([self.offset_at(time) for time in (0, 10, 11, 20, 30)], [100, 100, 101, 101, 101])
        self.assertIsNone(self.offset_at(31))

    def test_from_offset(self) -> None:
        """Records before an offset do not count."""
        self.assertEqual(self.offset_at(0, from_offset=102), 102)
        self.assertEqual(self.offset_at(25, from_offset=102), 103)
        self.assertIsNone(self.offset_at(0, from_offset=104))

    def test_max_timestamp(self) -> None:
        """Of several records with the highest timestamp, the first is found."""
        found = first_with_max_timestamp(self.batch)
        assert found is not None
        self.assertEqual((found.offset, found.timestamp), (101, 30))

    def test_no_timestamps(self) -> None:
        """A batch without timestamps has no highest one."""
        batch = from_fields((0, 0, None, b"", []), base_timestamp=-1, max_timestamp=-1)
        self.assertIsNone(first_with_max_timestamp(batch))

    def test_lying_header(self) -> None:
        """A header that promises a later time than any record has leads to nothing found."""
        batch = from_fields((0, 0, None, b"", []), base_timestamp=5, max_timestamp=100)
        self.assertIsNone(first_at_or_after(batch, 50))
        self.assertIsNone(first_with_max_timestamp(batch))
