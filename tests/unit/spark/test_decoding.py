"""Tests for L{rustlog.spark.decoding}, and for what it is made of."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import RustlogError
from rustlog.log import records as pure
from rustlog.log.batch import (
    CONTROL_BIT,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    RecordBatch,
    build_batch,
    split_batches,
)
from rustlog.log.codecs import Codec
from rustlog.log.records import build
from rustlog.model import Record
from rustlog.spark import chunks, payloads
from rustlog.spark.batches import all_batches
from rustlog.spark.columns import COLUMNS, schema_of
from rustlog.spark.errors import BadOption, CorruptLog, NotRepresentable, PipelineError
from tests.unit.log import reference
from tests.unit.spark.harness import NOW, EveryWay, as_records, decoded, log_of, logs, numbered

EXAMPLES = settings(max_examples=15, deadline=None)

ORDERS = [Record(b"value %d" % number, b"key %d" % number, (), NOW + number) for number in range(5)]


class RecordsTests(EveryWay):
    """What is in the batches is in the rows."""

    def in_every_way(self, check: Callable[[], None]) -> None:
        for way in self.ways():
            self.go(way)
            check()

    def test_all(self) -> None:
        """All records of all batches, with any codec, as the plain decoder finds them."""

        @EXAMPLES
        @given(logs, st.sampled_from(Codec), st.integers(0, 2**40))
        def check(batches: list[list[Record]], codec: Codec, base_offset: int) -> None:
            log = log_of(batches, codec, base_offset)
            found = as_records(decoded(log))
            self.assertEqual(found, numbered(batches, base_offset))
            self.assertEqual(found, [each for one in split_batches(log) for each in pure.decode(one)])

        self.in_every_way(check)

    def test_parts(self) -> None:
        """Between any offsets, in any columns, in batches of any size: parts of the same."""

        @EXAMPLES
        @given(
            logs, st.integers(0, 30), st.integers(0, 30),
            st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True), st.integers(1, 40),
        )  # fmt: skip
        def check(
            batches: list[list[Record]], first: int, last: int, columns: list[str], rows_max: int
        ) -> None:
            log = log_of(batches)
            whole = decoded(log)
            found = decoded(log, tuple(columns), from_offset=first, to_offset=last, rows_max=rows_max)
            self.assertEqual(found.schema, schema_of(columns))
            self.assertLessEqual(max((len(each) for each in found.to_batches()), default=0), rows_max)
            expected = whole.slice(first, max(0, last - first)).select(columns)
            self.assertEqual(found.combine_chunks(), expected.combine_chunks())

        self.in_every_way(check)

    def test_many_batches(self) -> None:
        """Batches of different sizes go through together, also when the chunk gets full."""
        batches = [
            [Record(b"v" * (7 * (one + row) % 300), None, (), NOW) for row in range(one % 13 + 1)]
            for one in range(200)
        ]
        self.patch(chunks, "CHUNK_BYTES", 5000)
        for way in self.ways():
            self.go(way)
            for codec in (Codec.NONE, Codec.LZ4):
                self.assertEqual(as_records(decoded(log_of(batches, codec), rows_max=100)), numbered(batches))

    def test_mixed_codecs(self) -> None:
        """Batches with and without compression follow each other."""
        log, offset = b"", 0
        for codec in (*Codec, *Codec, Codec.NONE, Codec.NONE):
            log += log_of([ORDERS], codec, offset)
            offset += len(ORDERS)
        for way in self.ways():
            self.go(way)
            self.assertEqual(as_records(decoded(log)), numbered([ORDERS] * 12))

    def test_gaps(self) -> None:
        """Compaction leaves gaps within batches and between them; offsets stay what they were."""
        fields: list[reference.Fields] = [(0, 2, b"k", b"2", ()), (1, 7, b"l", b"7", ())]
        payload = b"".join(map(reference.record, fields))
        log = reference.batch(payload, record_count=2, base_offset=10, last_offset_delta=9)
        log += reference.batch(b"", record_count=0, base_offset=20, last_offset_delta=4)
        log += reference.batch(payload, record_count=2, base_offset=40, last_offset_delta=7)
        for way in self.ways():
            self.go(way)
            self.assertEqual(decoded(log)["offset"].to_pylist(), [12, 17, 42, 47])
            self.assertEqual(decoded(log, from_offset=13, to_offset=47)["offset"].to_pylist(), [17, 42])

    def test_append_time(self) -> None:
        """Where the broker gave the time, all records of a batch have it, and the type says so."""
        given_time = build(ORDERS, now_ms=0).with_append_time(NOW + 99).at(5, 0)
        log = log_of([ORDERS]) + bytes(given_time.buffer)
        for way in self.ways():
            self.go(way)
            table = decoded(log)
            self.assertEqual(table["timestampType"].to_pylist(), [0] * 5 + [1] * 5)
            times = [each.timestamp for each in as_records(table)]
            self.assertEqual(times, [NOW + each for each in range(5)] + [NOW + 99] * 5)

    def test_constants(self) -> None:
        """Topic and partition are in every row."""
        table = decoded(log_of([ORDERS]))
        self.assertEqual(set(table["topic"].to_pylist()), {"orders"})
        self.assertEqual(set(table["partition"].to_pylist()), {3})

    def test_header_names(self) -> None:
        """A name that is not UTF-8 gets replacement characters, as in Kafka's own client."""
        log = log_of([[Record(b"", None, (("\udcff-x", b"1"), ("ü", None)), NOW)]])
        for way in self.ways():
            self.go(way)
            (found,) = as_records(decoded(log))
            self.assertEqual(found.headers, (("\ufffd-x", b"1"), ("ü", None)))

    def test_times_beyond(self) -> None:
        """A time that Spark can not have is an error that says what to do; without the column it is none."""
        for time in (2**63 // 1000 + 1, 2**63 - 1):
            log = log_of([[Record(b"", None, (), time)]])
            error = self.assertRaises(NotRepresentable, decoded, log)
            self.assertIn("leave out the column timestamp", str(error))
            self.assertEqual(decoded(log, ("offset",))["offset"].to_pylist(), [0])

    def test_unknown_column(self) -> None:
        """There is no such column; those that there are, are named."""
        error = self.assertRaises(BadOption, decoded, b"", ("offset", "colour"))
        self.assertIn("no column 'colour'; there are key, value", str(error))
        self.assertRaises(BadOption, schema_of, ("offset", "offset"))


def transactional(producer_id: int, base_offset: int, *values: bytes, control: int | None = None) -> bytes:
    """A batch of a transaction; C{control} makes it a marker: 0 aborts, 1 commits."""
    attributes = TRANSACTIONAL_BIT
    records = [Record(value, None, (), NOW) for value in values]
    if control is not None:
        attributes |= CONTROL_BIT
        records = [Record(bytes(6), bytes([0, 0, 0, control]), (), NOW)]
    plain = build(records, now_ms=NOW)
    batch = build_batch(
        plain.payload, record_count=len(records), base_timestamp=NOW, max_timestamp=NOW,
        attributes=attributes, producer_id=producer_id, producer_epoch=0, base_sequence=0,
    )  # fmt: skip
    return bytes(batch.at(base_offset, 0).buffer)


class TransactionTests(EveryWay):
    """What nobody should see."""

    LOG = (
        transactional(1, 0, b"aborted 1")
        + transactional(2, 1, b"committed 2")
        + log_of([[Record(b"plain", None, (), NOW)]], base_offset=2)
        + transactional(1, 3, b"aborted 1")
        + transactional(1, 4, control=0)
        + transactional(2, 5, control=1)
        + transactional(1, 6, b"committed 1")
        + transactional(2, 7, b"aborted 2")
        + transactional(1, 8, control=1)
        + transactional(2, 9, control=0)
    )

    def values(self, **more: object) -> list[bytes]:
        found: list[bytes] = decoded(self.LOG, ("value",), **more)["value"].to_pylist()
        return found

    def test_aborted(self) -> None:
        """Of the transactions in the list, nothing is seen up to their markers; of others, everything."""
        found = self.values(aborted=[(2, 7), (1, 0)])
        self.assertEqual(found, [b"committed 2", b"plain", b"committed 1"])

    def test_uncommitted(self) -> None:
        """Without a list all records are seen, but no marker is."""
        self.assertEqual(len(self.values()), 6)

    def test_begun_before(self) -> None:
        """A transaction that began before what was fetched is known by its first offset."""
        found = self.values(aborted=[(1, 0), (2, 7)], from_offset=3)
        self.assertEqual(found, [b"committed 1"])

    def test_marker_without_content(self) -> None:
        """A control batch without a marker is damage."""
        log = reference.batch(b"", record_count=0, last_offset_delta=0, attributes=0x30, producer_id=1)
        self.assertIn("no marker", str(self.assertRaises(CorruptLog, decoded, log, aborted=[(1, 0)])))


class DamageTests(EveryWay):
    """What is not right is told, with its place; and it never does harm."""

    def test_every_byte(self) -> None:
        """A bit that is wrong anywhere is found, but for those that no checksum covers."""
        log = log_of([ORDERS], base_offset=70)
        for position in range(len(log)):
            changed = bytearray(log)
            changed[position] ^= 1
            if position < 8 or 12 <= position < 16:  # the offset and the leader epoch
                self.assertEqual(len(decoded(bytes(changed))), 5)
            else:
                error = self.assertRaises(CorruptLog, decoded, bytes(changed))
                self.assertEqual((error.topic, error.partition), ("orders", 3))
                self.assertIn("orders-3 is damaged at offset 70: ", str(error))

    def test_every_byte_with_right_checksum(self) -> None:
        """Records that a client has written wrongly are refused where the plain decoder refuses them."""
        records = [Record(b"v", b"k", (("h", b"1"), ("i", None)), NOW), Record(None, b"", (), NOW + 70)]
        payload = bytes(build(records, now_ms=0).payload)
        refused = 0
        for way in self.ways():
            self.go(way)
            for position in range(len(payload)):
                for flip in (1, 2, 0x40, 0x80, 0xFF):
                    changed = bytearray(payload)
                    changed[position] ^= flip
                    batch = build_batch(changed, record_count=2, base_timestamp=NOW, max_timestamp=NOW + 70)
                    refused += self.same_verdict(batch)
        self.assertGreater(refused, 100)

    def same_verdict(self, batch: RecordBatch) -> bool:
        """Whether it is refused by both; if not, both find the same."""
        try:
            expected = list(pure.decode(batch))
        except RustlogError:
            self.assertRaises(PipelineError, decoded, bytes(batch.buffer))
            return True
        found = as_records(decoded(bytes(batch.buffer)))
        self.assertEqual([each.offset for each in found], [each.offset for each in expected])
        self.assertEqual([each.value for each in found], [each.value for each in expected])
        return False

    def test_random_content(self) -> None:
        """Any bytes with a right checksum end in an error, or in rows."""
        self.patch(payloads, "DECOMPRESSED_BYTES_MAX", 2**20)

        @EXAMPLES
        @given(st.binary(max_size=200), st.integers(-1, 30), st.sampled_from(Codec))
        def check(content: bytes, count: int, codec: Codec) -> None:
            batch = build_batch(
                content, record_count=count, base_timestamp=0, max_timestamp=0, attributes=codec,
                last_offset_delta=30,
            )  # fmt: skip
            try:
                decoded(bytes(batch.buffer))
            except PipelineError:
                return

        for way in self.ways():
            self.go(way)
            check()

    def test_claims(self) -> None:
        """So many records as it claims can not be there: no memory is taken for them."""
        batch = build_batch(b"", record_count=2**31 - 1, base_timestamp=0, max_timestamp=0)
        error = self.assertRaises(CorruptLog, decoded, bytes(batch.buffer))
        self.assertIn("less than 2147483647 records in 0 bytes", str(error))

    def test_wrong_order(self) -> None:
        """Offsets that do not ascend, within a batch or from one to the next, are damage."""
        one: reference.Fields = (0, 1, None, b"", ())
        two: reference.Fields = (0, 0, None, b"", ())
        payload = reference.record(one) + reference.record(two)
        for way in self.ways():
            self.go(way)
            for log in (
                reference.batch(payload, record_count=2),
                log_of([ORDERS], base_offset=9) + log_of([ORDERS], base_offset=9),
            ):
                self.assertIn("do not ascend", str(self.assertRaises(CorruptLog, decoded, log)))

    def test_cut_off(self) -> None:
        """Where the end may be missing, whole batches are decoded; elsewhere that is damage."""
        log = log_of([ORDERS, ORDERS])
        half = len(log) // 2
        for size in (half + 1, half + HEADER_SIZE, len(log) - 1):
            self.assertEqual(len(decoded(log[:size], may_be_cut_off=True)), 5)
            self.assertRaises(CorruptLog, decoded, log[:size])
        self.assertEqual(len(decoded(b"", may_be_cut_off=True)), 0)

    def test_old_formats(self) -> None:
        """Message formats of the time before 0.11 are named."""
        log = bytearray(log_of([ORDERS]))
        log[16] = 1
        error = self.assertRaises(CorruptLog, decoded, bytes(log))
        self.assertIn("message format 1, older than Kafka 0.11", str(error))

    def test_damaged_compression(self) -> None:
        """What does not decompress is damage, at the offset of its batch."""
        self.patch(payloads, "DECOMPRESSED_BYTES_MAX", 2**20)
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD, 5):
            log = reference.batch(b"nothing", record_count=1, base_offset=12, attributes=codec)
            error = self.assertRaises(CorruptLog, decoded, log)
            self.assertEqual(error.offset, 12)

    def test_many_headers(self) -> None:
        """A number of headers for which there is no room is refused before memory is taken for them."""
        body = b"\0\0\0\1\1" + reference.varint(2**40)
        payload = reference.varint(len(body)) + body
        log = reference.batch(payload, record_count=1)
        for way in self.ways():
            self.go(way)
            self.assertIn("headers", str(self.assertRaises(CorruptLog, decoded, log)))
            self.assertEqual(decoded(log, ("offset",))["offset"].to_pylist(), [0])


class ArrowTests(EveryWay):
    """What comes is what Spark expects."""

    def test_types(self) -> None:
        """The types are those of Spark's own Kafka source."""
        found = {field.name: str(field.type) for field in decoded(log_of([ORDERS])).schema}
        self.assertEqual(
            found,
            {
                "key": "binary",
                "value": "binary",
                "topic": "string",
                "partition": "int32",
                "offset": "int64",
                "timestamp": "timestamp[us, tz=UTC]",
                "timestampType": "int32",
                "headers": "list<item: struct<key: string, value: binary>>",
            },
        )

    def test_no_headers(self) -> None:
        """Where there are no headers there is no list, as in Spark's own source."""
        table = decoded(log_of([[ORDERS[0], Record(b"", None, (("h", b""),), NOW)]]))
        self.assertEqual(table["headers"].to_pylist(), [None, [{"key": "h", "value": b""}]])
        self.assertIsInstance(table["headers"].type, pa.ListType)


class BatchesTests(SynchronousTestCase):
    """Batches one by one."""

    def test_places(self) -> None:
        """Each comes with the place where it begins, as it is."""
        log = log_of([ORDERS, ORDERS[:2]])
        found = list(all_batches(log + log[:70], "orders", 3, may_be_cut_off=True))
        self.assertEqual([batch.base_offset for _, batch in found], [0, 5])
        for position, batch in found:
            self.assertEqual(batch.buffer, log[position : position + batch.size])
