"""Tests for L{rustlog.spark.encoding}, and for what it is made of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.batch import RecordBatch
from rustlog.log.codecs import Codec
from rustlog.log.records import build, decode
from rustlog.model import Record
from rustlog.spark import contents, varints
from rustlog.spark.encoding import EncodedBatch, ProducerState, encode
from rustlog.spark.errors import BadOption
from tests.unit.log import reference
from tests.unit.spark.harness import NOW, as_rows, logs

EXAMPLES = settings(max_examples=30, deadline=None)


def encoded(rows: pa.RecordBatch | pa.Table, **more: object) -> list[EncodedBatch]:
    return list(encode(rows, now_ms=NOW, **more))  # type: ignore[arg-type]


def values_of(batch: EncodedBatch) -> list[Record]:
    return list(decode(RecordBatch(batch.data)))


class EncodingTests(SynchronousTestCase):
    """Rows become what the plain encoder makes of the same records."""

    def test_bytes(self) -> None:
        """Byte by byte the same, with any codec, wherever batches end."""

        @EXAMPLES
        @given(logs, st.sampled_from(Codec), st.integers(1, 20_000), st.integers(1, 10))
        def check(log: list[list[Record]], codec: Codec, batch_bytes: int, batch_records: int) -> None:
            sent = [record for batch in log for record in batch]
            found = encoded(as_rows(sent), codec=codec, batch_bytes=batch_bytes, batch_records=batch_records)
            self.assertEqual(sum(each.records for each in found), len(sent))
            for each in found:
                self.assertLessEqual(each.records, batch_records)
                some = sent[each.row : each.row + each.records]
                self.assertEqual(each.data, bytes(build(some, now_ms=NOW, codec=codec).buffer))
                if each.records > 1 and codec is Codec.NONE:
                    self.assertLessEqual(len(each.data), batch_bytes + 61)

        check()

    def test_pieces(self) -> None:
        """Parts of arrays, chunks of tables, and more than is encoded at once."""
        rows = as_rows([Record(b"%d" % number, None, (("h", b"%d" % number),), NOW) for number in range(50)])
        self.patch(contents, "CONTENT_BYTES_MAX", 200)
        table = pa.Table.from_batches([rows.slice(3, 20), rows.slice(0, 0), rows.slice(40)])
        found = encoded(table)
        self.assertGreater(len(found), 2)
        ends = [each.row + each.records for each in found]
        self.assertEqual([each.row for each in found], [0, *ends[:-1]])
        expected = [b"%d" % number for number in (*range(3, 23), *range(40, 50))]
        self.assertEqual([record.value for each in found for record in values_of(each)], expected)
        self.assertEqual([record.headers[0][1] for each in found for record in values_of(each)], expected)

    def test_sequences(self) -> None:
        """The numbers of an idempotent producer go on from batch to batch, and begin again at the end."""
        rows = pa.RecordBatch.from_pydict({"value": [b""] * 7})
        found = encoded(rows, batch_records=3, producer=ProducerState(9, 4, 2**31 - 4))
        headers = [RecordBatch(each.data) for each in found]
        self.assertEqual([each.base_sequence for each in headers], [2**31 - 4, 2**31 - 1, 2])
        self.assertEqual({(each.producer_id, each.producer_epoch) for each in headers}, {(9, 4)})
        without = [RecordBatch(each.data) for each in encoded(rows, batch_records=3)]
        self.assertEqual({(each.producer_id, each.base_sequence) for each in without}, {(-1, -1)})

    def test_nothing(self) -> None:
        """No rows make no batches."""
        self.assertEqual(encoded(pa.RecordBatch.from_pydict({"value": pa.array([], pa.binary())})), [])

    def test_text(self) -> None:
        """Keys and values may be text, large or not, or all null."""
        for kind in (pa.string(), pa.large_string(), pa.large_binary()):
            content = ["ü", None] if kind != pa.large_binary() else ["ü".encode(), None]
            rows = pa.RecordBatch.from_pydict(
                {"key": pa.array([None, None]), "value": pa.array(content, kind)}
            )
            (batch,) = encoded(rows)
            found = [(each.key, each.value) for each in values_of(batch)]
            self.assertEqual(found, [(None, "ü".encode()), (None, None)])

    def test_times(self) -> None:
        """Times of every unit are rounded down to milliseconds; where there is none, it is now."""
        for unit, factor in (("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 1_000_000)):
            for zone in (None, "UTC", "Europe/Berlin"):
                raw = [int(NOW * factor) + (factor > 1), None]
                times = pa.array(raw, pa.timestamp(unit, zone))
                (batch,) = encoded(pa.RecordBatch.from_pydict({"value": [b"", b""], "timestamp": times}))
                self.assertEqual([each.timestamp for each in values_of(batch)], [NOW, NOW])
        (batch,) = encoded(pa.RecordBatch.from_pydict({"value": [b""], "timestamp": [-1]}))
        self.assertEqual(values_of(batch)[0].timestamp, NOW)

    def test_refused(self) -> None:
        """What can not be a record is refused with the name of the column."""
        value = pa.array([b""])
        for columns, reason in (
            ({"key": value}, "no column value"),
            ({"value": pa.array([1.5])}, "value is double"),
            ({"value": value, "key": pa.array([[1]])}, "key is list"),
            ({"value": value, "timestamp": pa.array(["now"])}, "timestamp is string"),
            ({"value": value, "timestamp": pa.array([-2])}, "before 1970"),
            ({"value": value, "headers": pa.array(["a"])}, "headers is string"),
            ({"value": value, "headers": pa.array([[{"key": None, "value": b""}]])}, "a header has no key"),
        ):
            error = self.assertRaises(BadOption, encoded, pa.RecordBatch.from_pydict(columns))
            self.assertIn(reason, str(error))


class VarintTests(SynchronousTestCase):
    """Many numbers at once."""

    def test_numbers(self) -> None:
        """They are written as the reference writes them, and read again."""

        @EXAMPLES
        @given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70), min_size=1, max_size=20))
        def check(numbers: list[int]) -> None:
            content, offsets = varints.encoded(np.array(numbers, np.int64))
            self.assertEqual(content.tobytes(), b"".join(map(reference.varint, numbers)))
            found, after = varints.read(content, offsets[:-1])
            self.assertEqual(found.tolist(), numbers)
            self.assertEqual(after.tolist(), offsets[1:].tolist())

        check()

    def test_too_long(self) -> None:
        """What has more than 64 bits is no number."""
        for content in (b"\0" + b"\xff" * 10 + b"\1", b"\0" + b"\xff" * 9 + b"\2"):
            data = np.frombuffer(content, np.uint8)
            error = self.assertRaises(varints.TooLong, varints.read, data, np.array([0, 1]))
            self.assertEqual(error.index, 1)
