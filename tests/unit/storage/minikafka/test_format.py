"""Tests for L{rustlog.storage.minikafka.format} and L{rustlog.storage.minikafka.limits}."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import CorruptBatch, NotHeldByStore
from rustlog.log import records
from rustlog.log.batch import HEADER_SIZE, TRANSACTIONAL_BIT, RecordBatch, build_batch
from rustlog.log.codecs import Codec
from rustlog.model import Record
from rustlog.storage.minikafka.format import (
    OVERHEAD_BYTES,
    RUN_RECORDS_MAX,
    TIME_SPAN_MAX,
    another_follows,
    encode,
    encode_batch,
    make_batch,
    split,
    walk,
)
from rustlog.storage.segments.reading import Damage
from tests.unit.storage.minikafka.byhand import read_records, write_record

RECORDS = [(7, 1000, b"k", b"first"), (8, -1, b"", b""), (9, 2**40, b"\x00\xff" * 9, b"x" * 300)]
CONTENT = b"".join(write_record(*each) for each in RECORDS)


def plain(record: Record) -> tuple[object, ...]:
    return record.offset, record.timestamp, record.key, record.value


class RecordTests(SynchronousTestCase):
    """One record after the other."""

    def test_bytes(self) -> None:
        """A record has exactly the bytes of the table; the checksum is the one that everybody knows."""
        self.assertEqual(
            encode(b"123456789", b"key", 258, 1),
            bytes.fromhex("00000028 cbf43926 0000000000000001 0000000000000102 00000003")
            + b"key"
            + bytes.fromhex("00000009")
            + b"123456789",
        )

    def test_written_by_others(self) -> None:
        """What others wrote is read; what is written here, others read."""
        found = list(split(CONTENT, 0, 7))
        self.assertEqual([plain(record) for _, record, _ in found], RECORDS)
        self.assertTrue(all(is_right for _, _, is_right in found))
        written = b"".join(encode(value, key, time, offset) for offset, time, key, value in RECORDS)
        self.assertEqual(read_records(written), RECORDS)

    def test_in_pieces(self) -> None:
        """Records are found in a file of any size, though it is read in pieces."""
        large = [(each, each, b"k", bytes([each % 256]) * 70_000) for each in range(40)]
        content = b"".join(write_record(*each) for each in large)
        found = list(walk(lambda at, size: content[at : at + size], 0, len(content), 0))
        self.assertEqual([plain(record) for _, _, record, _ in found], large)
        self.assertEqual([position for position, *_ in found], [70_033 * each for each in range(40)])

    def test_torn(self) -> None:
        """Wherever a file is cut, the whole records are found, and that it does not end with one."""
        ends = [0, *(following for following, _, _ in split(CONTENT, 0, 7))]
        for size in range(len(CONTENT)):
            found = []
            walking = walk(lambda at, wanted, size=size: CONTENT[:size][at : at + wanted], 0, size, 7)  # type: ignore[misc]
            if size in ends:
                found = list(walking)
            else:
                with self.assertRaises(Damage):
                    found.extend(walking)
            self.assertEqual(len(found), sum(end <= size for end in ends[1:]), f"cut at {size}")

    def test_damaged(self) -> None:
        """Of every changed byte it is told, but for those of keys and timestamps, which have no checksum."""
        _, second = (following for following, _, _ in list(split(CONTENT, 0, 7))[:2])
        unguarded = {*range(second + 16, second + 24), *range(second + 28, second + 46)}
        for position in range(second, len(CONTENT)):
            changed = bytearray(CONTENT)
            changed[position] ^= 0x41
            try:
                told = not all(is_right for _, _, is_right in split(bytes(changed), 0, 7))
                told = told or len(list(split(bytes(changed), 0, 7))) < len(RECORDS)
            except Damage:
                told = True
            self.assertEqual(told, position not in unguarded, f"at {position - second}")

    def test_another_follows(self) -> None:
        """A later record behind a bad one is found, also where the upper bytes of offsets change."""
        for first in (0, 65_535, 2**40):
            bad = write_record(first, 1, b"k", b"v" * 50)[:-1] + b"?"
            good = write_record(first + 1, 1, b"k", b"v")
            self.assertTrue(another_follows(bad + good, first))
            self.assertFalse(another_follows(bad + good[:-1], first))
            self.assertFalse(another_follows(bad, first))


class BatchTests(SynchronousTestCase):
    """Records become batches, and batches records."""

    def test_there_and_back(self) -> None:
        """Whatever the records are, they come out of a batch as they went in."""

        @settings(max_examples=50, deadline=None)
        @given(
            st.lists(
                st.tuples(st.integers(-1, 2**61), st.binary(max_size=40), st.binary(max_size=200)),
                min_size=1,
                max_size=20,
            ),
            st.integers(0, 2**50),
            st.sampled_from(list(Codec)),
        )
        def check(content: list[tuple[int, bytes, bytes]], offset: int, codec: Codec) -> None:
            run = [
                Record(value, key, (), max(time, 0), offset + number)
                for number, (time, key, value) in enumerate(content)
            ]
            sent = records.build(run, now_ms=0, codec=codec)
            encoded = encode_batch(sent, offset)
            found = [record for _, record, _ in split(bytes(encoded.buffers[0]), 0, offset)]
            self.assertEqual(found, run)
            batch = make_batch(found, 3)
            batch.check()
            self.assertEqual((batch.base_offset, batch.leader_epoch), (offset, 3))
            self.assertEqual(list(records.decode(batch)), run)

        check()

    def test_never_larger(self) -> None:
        """A batch is never larger than its header and what its records are on disk."""
        for span in (0, 1, TIME_SPAN_MAX - 1):
            for count, key, value in ((RUN_RECORDS_MAX, b"", b""), (9, b"k" * 9000, b"v" * 9000)):
                run = [Record(value, key, (), span * (each % 2), each) for each in range(count)]
                size = sum(OVERHEAD_BYTES + len(key) + len(value) for _ in run)
                self.assertLessEqual(make_batch(run, 0).size, HEADER_SIZE + size)


class LimitsTests(SynchronousTestCase):
    """What the format can not hold."""

    def refused(self, batch: RecordBatch) -> str:
        return str(self.assertRaises(NotHeldByStore, encode_batch, batch, 0))

    def test_headers(self) -> None:
        """Headers are refused: a record without them would say something else."""
        batch = records.build([Record(b"v", headers=(("trace", b"1"),))], now_ms=0)
        self.assertEqual(self.refused(batch), "this store cannot hold record headers")

    def test_null_values(self) -> None:
        """So are tombstones: an empty value does not delete."""
        batch = records.build([Record(b"v"), Record(None, b"k")], now_ms=0)
        self.assertEqual(self.refused(batch), "this store cannot hold null values (tombstones)")

    def test_transactions(self) -> None:
        """And transactions, whose ends would be shown as records."""
        content = records.build([Record(b"v")], now_ms=0).payload
        batch = build_batch(
            content, record_count=1, base_timestamp=0, max_timestamp=0, attributes=TRANSACTIONAL_BIT
        )
        self.assertEqual(self.refused(batch), "this store cannot hold transactions")

    def test_null_keys(self) -> None:
        """No key becomes an empty key."""
        encoded = encode_batch(records.build([Record(b"v", None, timestamp=5)], now_ms=0), 3)
        self.assertEqual(read_records(bytes(encoded.buffers[0])), [(3, 5, b"", b"v")])

    def test_append_time(self) -> None:
        """The time of arrival is kept, though not that it was one."""
        batch = records.build([Record(b"v", b"k", timestamp=5)], now_ms=0).with_append_time(99)
        self.assertEqual(read_records(bytes(encode_batch(batch, 0).buffers[0])), [(0, 99, b"k", b"v")])

    def test_no_records(self) -> None:
        """A batch that is not made of records is refused as what it is."""
        batch = build_batch(b"\x99" * 20, record_count=1, base_timestamp=0, max_timestamp=0)
        self.assertRaises(CorruptBatch, encode_batch, batch, 0)
