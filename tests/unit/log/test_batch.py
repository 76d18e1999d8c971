"""Tests for L{rustlog.log.batch}."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import CorruptBatch, InvalidRecord, RustlogError
from rustlog.log.batch import HEADER_SIZE, RecordBatch, batch_size, build_batch, split_batches
from tests.unit.log import reference

FIELDS = {
    "attributes": 0x3C,
    "base_timestamp": 1_700_000_000_000,
    "max_timestamp": 1_700_000_000_007,
    "producer_id": 2**40,
    "producer_epoch": 3,
    "base_sequence": 2**31 - 1,
    "record_count": 4,
}


class ReferenceTests(SynchronousTestCase):
    """What the other tests compare with is right itself."""

    def test_crc32c(self) -> None:
        """The checksum is the one that RFC 3720 gives examples of."""
        self.assertEqual(reference.crc32c(b"123456789"), 0xE3069283)
        self.assertEqual(reference.crc32c(bytes(32)), 0x8A9136AA)
        self.assertEqual(reference.crc32c(b"\xff" * 32), 0x62A8AB43)

    def test_varint(self) -> None:
        """Small numbers of either sign are short, and the largest take ten bytes."""
        encoded = [reference.varint(number) for number in (0, -1, 1, -2, 63, -64, 64, 150)]
        self.assertEqual(encoded, [b"\0", b"\1", b"\2", b"\3", b"\x7e", b"\x7f", b"\x80\1", b"\xac\2"])
        self.assertEqual(reference.varint(2**63 - 1), b"\xfe" + b"\xff" * 8 + b"\1")
        self.assertEqual(reference.varint(-(2**63)), b"\xff" * 9 + b"\1")


class BuildTests(SynchronousTestCase):
    """Putting a header before records."""

    def test_bytes(self) -> None:
        """Every field stands where Kafka looks for it, and the checksum is right."""
        batch = build_batch(b"records", **FIELDS)
        self.assertEqual(bytes(batch.buffer), reference.batch(b"records", **FIELDS))
        batch.check()

    def test_defaults(self) -> None:
        """A batch of no idempotent producer says so with -1."""
        batch = build_batch(b"", record_count=1, base_timestamp=5, max_timestamp=6)
        expected = reference.batch(b"", record_count=1, base_timestamp=5, max_timestamp=6)
        self.assertEqual(bytes(batch.buffer), expected)

    def test_payload_kinds(self) -> None:
        """The records may come in any kind of buffer, and are copied."""
        payload = bytearray(b"records")
        batch = build_batch(memoryview(payload), **FIELDS)
        payload[0] = 0
        self.assertEqual(bytes(batch.buffer), reference.batch(b"records", **FIELDS))


class FieldTests(SynchronousTestCase):
    """Reading a header."""

    def setUp(self) -> None:
        self.bytes = reference.batch(b"records", base_offset=2**62, leader_epoch=7, **FIELDS)
        self.batch = RecordBatch(self.bytes)

    def test_fields(self) -> None:
        """Every field can be read by its name."""
        batch = self.batch
        expected = {**FIELDS, "base_offset": 2**62, "leader_epoch": 7, "magic": 2, "last_offset_delta": 3}
        self.assertEqual({name: getattr(batch, name) for name in expected}, expected)
        self.assertEqual(batch.crc, reference.crc32c(self.bytes[21:]))
        self.assertEqual((batch.last_offset, batch.next_offset), (2**62 + 3, 2**62 + 4))
        self.assertEqual((batch.size, bytes(batch.payload)), (HEADER_SIZE + 7, b"records"))

    def test_attributes(self) -> None:
        """Each bit of the attributes means one thing."""

        def meaning(attributes: int) -> tuple[int, bool, bool, bool]:
            batch = RecordBatch(reference.batch(b"", record_count=1, attributes=attributes))
            return batch.codec, batch.is_log_append_time, batch.is_transactional, batch.is_control

        self.assertEqual(meaning(0x00), (0, False, False, False))
        self.assertEqual(meaning(0x04), (4, False, False, False))
        self.assertEqual(meaning(0x08), (0, True, False, False))
        self.assertEqual(meaning(0x10), (0, False, True, False))
        self.assertEqual(meaning(0x20), (0, False, False, True))
        self.assertEqual(meaning(0x7F), (7, True, True, True))

    def test_any_buffer(self) -> None:
        """A batch may lie in a part of a larger buffer."""
        around = bytearray(b"xx" + self.bytes + b"yy")
        batch = RecordBatch(memoryview(around)[2:-2])
        self.assertEqual((batch.header, bytes(batch.payload)), (self.batch.header, b"records"))
        batch.check()

    def test_equality(self) -> None:
        """Batches with the same bytes are the same, wherever those lie."""
        same = RecordBatch(memoryview(bytearray(self.bytes)))
        self.assertEqual(same, self.batch)
        self.assertEqual(hash(same), hash(self.batch))
        self.assertNotEqual(RecordBatch(reference.batch(b"records", **FIELDS)), self.batch)
        self.assertNotEqual(self.batch, self.bytes)

    def test_repr(self) -> None:
        """A batch in a log line tells its offsets and its size, not its content."""
        batch = RecordBatch(reference.batch(b"records", record_count=4, base_offset=10))
        self.assertEqual(repr(batch), "<RecordBatch 10..13, 68 bytes>")


class CheckTests(SynchronousTestCase):
    """Judging bytes that come from outside."""

    def assert_corrupt(self, content: bytes, reason: str) -> None:
        error = self.assertRaises(CorruptBatch, RecordBatch(content).check)
        self.assertIn(reason, str(error))

    def test_too_short(self) -> None:
        """Less than a header is no batch, however little it is."""
        for size in (0, 1, 12, HEADER_SIZE - 1):
            self.assert_corrupt(reference.batch(b"", record_count=1)[:size], f"{size} bytes are less")

    def test_other_magic(self) -> None:
        """Batches of older Kafka versions are not taken for ours."""
        content = bytearray(reference.batch(b"", record_count=1))
        for magic in (0, 1, 3):
            content[16] = magic
            self.assert_corrupt(bytes(content), f"magic is {magic}, not 2")

    def test_wrong_length(self) -> None:
        """A batch is exactly as long as it says."""
        content = reference.batch(b"abc", record_count=1)
        self.assert_corrupt(content + b"x", "the length field says 52, there are 53 bytes")
        self.assert_corrupt(content[:-1], "the length field says 52, there are 51 bytes")

    def test_checksum_covers_the_rest(self) -> None:
        """A change of any bit behind the checksum, or of itself, is found."""
        content = reference.batch(b"abc", record_count=1)
        for position in range(17, len(content)):
            for bit in range(8):
                damaged = bytearray(content)
                damaged[position] ^= 1 << bit
                self.assert_corrupt(bytes(damaged), "checksum")

    def test_checksum_leaves_the_placement_out(self) -> None:
        """Offset and leader epoch, which the store gives, are not part of the checksum."""
        content = reference.batch(b"abc", record_count=1, base_offset=99, leader_epoch=98)
        RecordBatch(content).check()

    def test_gaps(self) -> None:
        """A new batch has an offset for each record, and a record for each offset."""
        for count, delta in ((1, 1), (3, 1), (2, -1)):
            batch = RecordBatch(reference.batch(b"", record_count=count, last_offset_delta=delta))
            self.assertIn(f"{count} records but", str(self.assertRaises(InvalidRecord, batch.check)))

    def test_no_records(self) -> None:
        """A batch without records, or with less, would move the end of the log backwards: no."""
        for count in (0, -1, -(2**31) + 1):
            batch = RecordBatch(reference.batch(b"", record_count=count))
            self.assertIn(f"a batch of {count} records", str(self.assertRaises(InvalidRecord, batch.check)))

    def test_garbage(self) -> None:
        """Any bytes at all are judged, never choked on."""

        @settings(deadline=None, max_examples=200)
        @given(st.binary(max_size=200))
        def refused(content: bytes) -> None:
            self.assertRaises(RustlogError, RecordBatch(content).check)

        refused()


class PlacementTests(SynchronousTestCase):
    """Giving a batch its place in a log."""

    def test_placed(self) -> None:
        """The store's fields are replaced; the checksum stays right, and the rest is not copied."""
        content = reference.batch(b"records", base_offset=5, **FIELDS)
        first, rest = RecordBatch(content).placed(2**63 - 10, 12)
        expected = reference.batch(b"records", base_offset=2**63 - 10, leader_epoch=12, **FIELDS)
        self.assertEqual(first + rest, expected)
        self.assertIs(rest.obj, content)

    def test_at(self) -> None:
        """The same as a batch of its own."""
        batch = RecordBatch(reference.batch(b"records", **FIELDS))
        placed = batch.at(100, 2)
        placed.check()
        self.assertEqual((placed.base_offset, placed.leader_epoch), (100, 2))
        self.assertEqual((batch.base_offset, batch.leader_epoch), (0, -1))

    def test_with_append_time(self) -> None:
        """A batch that bears the time of its arrival differs in that, and in what depends on it."""
        fields = {**FIELDS, "attributes": 0x01, "base_offset": 9, "leader_epoch": 1}
        batch = RecordBatch(reference.batch(b"records", **fields))
        timed = batch.with_append_time(1_800_000_000_000)
        fields |= {"attributes": 0x09, "max_timestamp": 1_800_000_000_000}
        self.assertEqual(bytes(timed.buffer), reference.batch(b"records", **fields))
        self.assertFalse(batch.is_log_append_time)


class SplitTests(SynchronousTestCase):
    """Batches that stand back to back."""

    def setUp(self) -> None:
        self.parts = [reference.batch(b"x" * size, record_count=1) for size in (0, 5, 1000, 0)]
        self.bytes = b"".join(self.parts)

    def test_split(self) -> None:
        """All of them are found, without copying."""
        found = list(split_batches(self.bytes))
        self.assertEqual([bytes(each.buffer) for each in found], self.parts)
        self.assertIs(found[1].payload.obj, self.bytes)
        self.assertEqual(list(split_batches(b"")), [])

    def test_batch_size(self) -> None:
        """How long a batch claims to be is told wherever it begins."""
        self.assertEqual(batch_size(self.bytes), len(self.parts[0]))
        self.assertEqual(batch_size(self.bytes, len(self.parts[0])), len(self.parts[1]))

    def test_cut_anywhere(self) -> None:
        """Wherever the bytes end within a batch, those before it come and then an error."""
        first, second = len(self.parts[0]), len(self.parts[1])
        for end in range(first + 1, first + second):
            batches = split_batches(self.bytes[:end])
            self.assertEqual(bytes(next(batches).buffer), self.parts[0])
            self.assertRaises(CorruptBatch, next, batches)

    def test_absurd_lengths(self) -> None:
        """A length that would go backwards, stand still or reach beyond the end is an error."""
        for length in (-(2**31), -13, -12, 0, 48, 50, 2**31 - 1):
            content = self.parts[0][:8] + struct.pack(">i", length) + self.parts[0][12:]
            self.assertRaises(CorruptBatch, list, split_batches(content))

    def test_garbage(self) -> None:
        """Any bytes give batches or an error, and always come to an end."""

        @settings(deadline=None, max_examples=200)
        @given(st.lists(st.sampled_from([*self.parts, b"", b"\0", b"\xff" * 70]), max_size=6))
        def comes_to_an_end(parts: list[bytes]) -> None:
            content = b"".join(parts)
            try:
                found = list(split_batches(content))
            except CorruptBatch:
                return
            self.assertEqual(b"".join(bytes(each.buffer) for each in found), content)

        comes_to_an_end()
