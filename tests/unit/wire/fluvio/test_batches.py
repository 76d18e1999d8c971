"""Tests for L{rustlog.wire.fluvio.batches}, L{rustlog.wire.fluvio.records} and their compression."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from unittest import mock

import attrs
import cramjam
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import CorruptBatch, InvalidRecord
from rustlog.log import codecs as log_codecs
from rustlog.log import records as log
from rustlog.log.batch import CONTROL_BIT, RecordBatch, build_batch
from rustlog.log.codecs import Codec
from rustlog.log.varints import NULL, encode_varint
from rustlog.model import Record
from rustlog.wire.fluvio import batches
from rustlog.wire.fluvio.batches import (
    HEADER,
    HEADER_SIZE,
    build,
    from_log,
    is_intact,
    next_offset,
    split,
    to_log,
)
from rustlog.wire.fluvio.compression import compress

NOW = 1_700_000_000_000
CODECS = st.sampled_from(Codec)
SIZES = st.sampled_from([0, 1, 50, 62, 63, 64, 65, 100, 8180, 8190, 8192, 8200])
CONTENTS = st.binary(max_size=5) | SIZES.map(lambda size: b"x" * size)
TIMES = st.integers(NOW - 100, NOW + 100) | st.sampled_from([0, NOW + 2**31, NOW + 2**40])


def fluvio_records(values: st.SearchStrategy = CONTENTS) -> st.SearchStrategy:
    """What Fluvio can hold."""
    one = st.builds(Record, values, st.none() | CONTENTS, timestamp=TIMES)
    return st.lists(one, min_size=1, max_size=70)


HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple)
LOG_RECORDS = st.lists(
    st.builds(Record, st.none() | CONTENTS, st.none() | CONTENTS, HEADERS, TIMES), min_size=1, max_size=20
)


def shown(found: Sequence[bytes]) -> list[Record]:
    """What a client of Fluvio makes of batches: it counts positions from the base offset."""
    result = []
    for batch in found:
        assert is_intact(batch)
        (kept,) = to_log(batch, NOW)
        placed = kept.at(HEADER.unpack_from(batch)[0], 0)
        result += list(log.decode(placed))
    return result


def as_shown(record: Record) -> Record:
    """What is left of a record of the log."""
    return attrs.evolve(record, value=record.value or b"", headers=())


def sealed(batch: bytearray) -> bytes:
    """With a right length and checksum, whatever was changed."""
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return bytes(batch)


def with_header(batch: bytes, **fields: int) -> bytes:
    """With other fields in its header, and a right checksum."""
    names = [
        "base_offset", "batch_len", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta",
        "first_timestamp", "max_timestamp", "producer_id", "producer_epoch", "first_sequence",
    ]  # fmt: skip
    values = dict(zip(names, HEADER.unpack_from(batch), strict=True))
    return sealed(bytearray(HEADER.pack(*{**values, **fields}.values()) + batch[HEADER_SIZE:]))


def with_records(content: str | bytes, last_delta: int, codec: Codec = Codec.NONE) -> bytes:
    """A batch of these bytes."""
    data = bytes.fromhex(content) if isinstance(content, str) else content
    template = build([Record(b"", timestamp=NOW)])
    header = with_header(template, last_offset_delta=last_delta, attributes=codec)[:HEADER_SIZE]
    return sealed(bytearray(header + compress(codec, data)))


def encoded(timestamp_delta: int, offset_delta: int, record: Record) -> bytes:
    """A record as it stands in a batch of the log."""
    key, value = record.key, record.value or b""
    content = b"".join(
        (
            b"\0",
            encode_varint(timestamp_delta),
            encode_varint(offset_delta),
            NULL if key is None else encode_varint(len(key)) + key,
            encode_varint(len(value)),
            value,
            b"\0",
        )
    )
    return encode_varint(len(content)) + content


class InTests(SynchronousTestCase):
    """From Fluvio to the log."""

    def test_nothing_is_lost(self) -> None:
        """Keys, values, timestamps and the codec are what was sent, and the batch is sound."""

        @settings(deadline=None, max_examples=60)
        @given(fluvio_records(), CODECS)
        def check(sent: list[Record], codec: Codec) -> None:
            (kept,) = to_log(build(sent, codec), NOW)
            kept.check()
            self.assertEqual(kept.codec, codec)
            expected = [attrs.evolve(each, offset=index) for index, each in enumerate(sent)]
            self.assertEqual(list(log.decode(kept)), expected)
            self.assertEqual(kept.max_timestamp, max(each.timestamp for each in sent))
            self.assertEqual(kept, log.build(sent, now_ms=1, codec=codec))

        check()

    def test_several(self) -> None:
        """Batches that stand back to back become as many."""
        sent = [build([Record(b"a", timestamp=NOW)]), build([Record(b"b", timestamp=NOW)] * 2, Codec.LZ4)]
        self.assertEqual([each.record_count for each in to_log(b"".join(sent), NOW)], [1, 2])

    def test_offsets_are_not_the_clients(self) -> None:
        """The base offset and the producer that a client writes mean nothing."""
        sent = build([Record(b"a", timestamp=NOW)])
        (kept,) = to_log(with_header(sent, base_offset=77, producer_id=5, first_sequence=3), NOW)
        self.assertEqual((kept.base_offset, kept.producer_id, kept.base_sequence), (0, -1, -1))

    def test_no_timestamp(self) -> None:
        """Records without a timestamp get the time of their arrival."""
        sent = build([Record(b"a"), Record(b"b")])
        (kept,) = to_log(sent, NOW)
        self.assertEqual([each.timestamp for each in log.decode(kept)], [NOW, NOW])
        self.assertEqual(kept.max_timestamp, NOW)

    def test_max_timestamp_is_counted(self) -> None:
        """What a client says is the latest time is not believed."""
        sent = with_header(
            build([Record(b"a", timestamp=NOW), Record(b"b", timestamp=NOW - 5)]), max_timestamp=3
        )
        self.assertEqual(to_log(sent, NOW)[0].max_timestamp, NOW)

    def test_timestamps_before_the_first(self) -> None:
        """The first timestamp need not be one of a record."""
        sent = with_records("00000001 0c 00 05 00 00 00 00", 0)
        (kept,) = to_log(sent, NOW)
        self.assertEqual([each.timestamp for each in log.decode(kept)], [NOW - 3])
        self.assertEqual(kept.max_timestamp, NOW - 3)

    def refuse(self, kind: type[Exception], text: str, batch: bytes) -> None:
        with self.assertRaisesRegex(kind, text):
            to_log(batch, NOW)

    def test_headers_that_make_no_sense(self) -> None:
        """A batch that is not what it says, or that can not be kept, is refused in words."""
        good = build([Record(b"a", timestamp=NOW), Record(b"b", timestamp=NOW)])
        self.refuse(InvalidRecord, "no batch", b"")
        self.refuse(CorruptBatch, "less than a header", good[:56])
        self.refuse(CorruptBatch, "claims", good[:-1])
        self.refuse(CorruptBatch, "less than a header", good + b"\0")
        self.refuse(CorruptBatch, "magic is 1", with_header(good, magic=1))
        self.refuse(CorruptBatch, "checksum", good[:-1] + b"\1")
        self.refuse(InvalidRecord, "schema", with_header(good, attributes=0x10))
        self.refuse(InvalidRecord, "0x0020", with_header(good, attributes=0x20))
        self.refuse(InvalidRecord, "0x0005", with_header(good, attributes=5))
        self.refuse(InvalidRecord, "0x8000", with_header(good, attributes=-(2**15)))
        self.refuse(InvalidRecord, "last offset delta of 5", with_header(good, last_offset_delta=5))
        moved = with_records("00000001 0c 00 02 00 00 00 00", 0)
        self.refuse(InvalidRecord, "counted from none", with_header(moved, first_timestamp=-1))
        self.refuse(InvalidRecord, "timestamp", with_header(good, first_timestamp=-2))
        late = build([Record(b"", timestamp=0), Record(b"", timestamp=5)])
        self.refuse(InvalidRecord, "timestamp", with_header(late, first_timestamp=2**63 - 1))

    def test_records_that_make_no_sense(self) -> None:
        """Nor is what is inside believed."""
        record = "0c 00 00 00 00 00 00"
        self.assertEqual(to_log(with_records(f"00000001 {record}", 0), NOW)[0].record_count, 1)
        self.refuse(InvalidRecord, "0 records", with_records("00000000", -1))
        self.refuse(InvalidRecord, "-1 records", with_records("", -2))
        self.refuse(CorruptBatch, "within the count", with_records("0000", 0))
        self.refuse(CorruptBatch, "less than 1", with_records("", 0))
        self.refuse(CorruptBatch, "less than 2", with_records(f"00000002 {record}", 1))
        self.refuse(CorruptBatch, "7 bytes follow", with_records(f"00000001 {record} {record}", 0))
        self.refuse(CorruptBatch, "larger", with_records("00000001 0e 00 00 00 00 00 00", 0))
        self.refuse(CorruptBatch, "negative size", with_records("00000001 0b 00 00 00 00 00 00", 0))
        self.refuse(InvalidRecord, "delta of record 0", with_records("00000001 0c 00 00 02 00 00 00", 0))
        self.refuse(InvalidRecord, "delta of record 1", with_records(f"00000002 {record} {record}", 1))
        self.refuse(CorruptBatch, "neither yes nor no", with_records("00000001 0c 00 00 00 02 00 00", 0))
        self.refuse(CorruptBatch, "key of negative", with_records("00000001 0e 00 00 00 01 01 00 00", 0))
        self.refuse(CorruptBatch, "value of negative", with_records("00000001 0c 00 00 00 00 01 00", 0))
        self.refuse(InvalidRecord, "behind a value", with_records("00000001 0c 00 00 00 00 00 02", 0))
        self.refuse(CorruptBatch, "end where", with_records("00000001 0e 00 00 00 00 00 00 00", 0))
        self.refuse(CorruptBatch, "end where|less", with_records("00000001 0c 00 00 00 00 7e 00", 0))
        self.refuse(CorruptBatch, "64 bits", with_records("00000001 0c 00" + "ff" * 12, 0))

    def test_many_records(self) -> None:
        """A batch that would keep everybody waiting is refused."""
        with mock.patch.object(batches, "RECORDS_MAX", 2):
            to_log(build([Record(b"", timestamp=NOW)] * 2), NOW)
            self.refuse(InvalidRecord, "2 are allowed", build([Record(b"", timestamp=NOW)] * 3))

    def test_bombs(self) -> None:
        """A few bytes that claim to be a hundred megabytes do not become them."""
        bombs = {
            Codec.GZIP: cramjam.gzip.compress,
            Codec.SNAPPY: cramjam.snappy.compress,
            Codec.LZ4: cramjam.lz4.compress,
            Codec.ZSTD: cramjam.zstd.compress,
        }
        with mock.patch.object(batches, "DECOMPRESSED_BYTES_MAX", 1_000_000):
            for codec, pack in bombs.items():
                template = with_header(build([Record(b"", timestamp=NOW)]), attributes=codec)
                bomb = sealed(bytearray(template[:HEADER_SIZE] + bytes(pack(bytes(5_000_000)))))
                tracemalloc.start()
                self.refuse(CorruptBatch, "do not decompress", bomb)
                self.assertLess(tracemalloc.get_traced_memory()[1], 5_000_000)
                tracemalloc.stop()

    def test_anything(self) -> None:
        """Bytes that pass for records are sound records, and others are refused."""
        some = st.lists(st.sampled_from([0, 1, 2, 3, 8, 10, 12, 14, 0x7E, 0x80, 0xFF]), max_size=24)

        @settings(deadline=None, max_examples=200)
        @given(some.map(bytes), st.integers(1, 3), CODECS, st.booleans())
        def check(content: bytes, count: int, codec: Codec, is_counted: bool) -> None:
            head = count.to_bytes(4, "big") if is_counted else b""
            sent = with_records(head + content, count - 1, codec)
            try:
                (kept,) = to_log(sent, NOW)
            except (CorruptBatch, InvalidRecord):
                return
            kept.check()
            self.assertEqual(len(list(log.decode(kept))), kept.record_count)
            self.assertEqual(len(from_log(kept)), 1)

        check()

    def test_snappy_is_framed(self) -> None:
        """Snappy is in its own framing on the wire, and in xerial's in the log."""
        sent = build([Record(b"a" * 100, timestamp=NOW)], Codec.SNAPPY)
        self.assertEqual(sent[HEADER_SIZE:][:10], bytes.fromhex("ff060000734e61507059"))
        self.assertEqual(bytes(to_log(sent, NOW)[0].payload[:8]), b"\x82SNAPPY\0")


class OutTests(SynchronousTestCase):
    """From the log to Fluvio."""

    def test_what_is_shown(self) -> None:
        """All that Fluvio can show is shown, at its offset; headers are not, and null is empty."""

        @settings(deadline=None, max_examples=60)
        @given(LOG_RECORDS, CODECS, st.integers(0, 2**40))
        def check(kept: list[Record], codec: Codec, base_offset: int) -> None:
            batch = log.build(kept, now_ms=1, codec=codec).at(base_offset, 3)
            found = from_log(batch)
            self.assertEqual([HEADER.unpack_from(each)[5] for each in found], [codec])
            self.assertEqual(shown(found), [as_shown(each) for each in log.decode(batch)])

        check()

    def test_back_and_forth(self) -> None:
        """What came from Fluvio is shown byte for byte as it came, but for its place."""

        @settings(deadline=None, max_examples=40)
        @given(fluvio_records(), CODECS)
        def check(sent: list[Record], codec: Codec) -> None:
            batch = build(sent, codec)
            (kept,) = to_log(batch, NOW)
            self.assertEqual(from_log(kept), [batch])

        check()

    def gapped(self, kept: Sequence[Record], deltas: Sequence[int], codec: Codec) -> RecordBatch:
        """What compaction leaves: records at some offsets only, and less than there were."""
        content = b"".join(
            encoded(each.timestamp - NOW, delta, each) for each, delta in zip(kept, deltas, strict=True)
        )
        return build_batch(
            log_codecs.compress(codec, content),
            record_count=len(kept),
            base_timestamp=NOW,
            max_timestamp=max(each.timestamp for each in kept),
            attributes=codec,
            last_offset_delta=deltas[-1] + 2,
        ).at(1000, 0)

    def test_gaps(self) -> None:
        """Records are shown at their offsets, even where others between them are gone."""

        @settings(deadline=None, max_examples=30)
        @given(st.sets(st.integers(0, 30), min_size=1, max_size=10), CODECS, st.none() | st.just(b"k"))
        def check(deltas: set[int], codec: Codec, key: bytes | None) -> None:
            places = sorted(deltas)
            kept = [Record(b"%d" % each, key, (), NOW + each) for each in places]
            found = shown(from_log(self.gapped(kept, places, codec)))
            self.assertEqual([each.offset for each in found], [1000 + each for each in places])
            self.assertEqual([attrs.evolve(each, offset=None) for each in found], kept)

        check()

    def test_gaps_make_as_few_batches_as_can_be(self) -> None:
        """Offsets that follow each other stay together."""
        kept = [Record(b"", timestamp=NOW)] * 4
        found = from_log(self.gapped(kept, [0, 1, 5, 6], Codec.NONE))
        self.assertEqual([HEADER.unpack_from(each)[0] for each in found], [1000, 1005])
        self.assertEqual([HEADER.unpack_from(each)[6] for each in found], [1, 1])

    def test_next_offset(self) -> None:
        """What has been shown ends with the last record, wherever the batch of the log ends."""
        kept = self.gapped([Record(b"", timestamp=NOW)] * 3, [0, 1, 5], Codec.GZIP)
        self.assertEqual([next_offset(each) for each in from_log(kept)], [1002, 1006])
        self.assertEqual(kept.next_offset, 1008)

    def test_empty(self) -> None:
        """A batch that has lost all its records is not shown."""
        kept = build_batch(b"", record_count=0, base_timestamp=0, max_timestamp=0, last_offset_delta=3)
        self.assertEqual(from_log(kept), [])

    def test_control_batches(self) -> None:
        """They are not shown."""
        marker = build_batch(
            log.encode_records([Record(b"\0\0", b"\0\0\0\1")], [NOW]),
            record_count=1, base_timestamp=NOW, max_timestamp=NOW, attributes=CONTROL_BIT,
        )  # fmt: skip
        self.assertEqual(from_log(marker), [])

    def test_append_time(self) -> None:
        """Records of a topic that keeps the time of arrival are shown with that."""
        kept = log.build([Record(b"a", timestamp=5), Record(b"b", timestamp=9)], now_ms=1, codec=Codec.ZSTD)
        found = from_log(kept.with_append_time(NOW))
        self.assertEqual([each.timestamp for each in shown(found)], [NOW, NOW])

    def test_no_timestamp(self) -> None:
        """Where a Kafka client has written none, there is none."""
        kept = build_batch(
            log.encode_records([Record(b"a")], [-1]), record_count=1, base_timestamp=-1, max_timestamp=-1
        )
        (found,) = from_log(kept)
        self.assertEqual(HEADER.unpack_from(found)[7:9], (-1, -1))

    def test_transactional(self) -> None:
        """Fluvio means something else by that bit; it is not handed on."""
        kept = build_batch(
            log.encode_records([Record(b"a")], [NOW]),
            record_count=1, base_timestamp=NOW, max_timestamp=NOW, attributes=0x10,
        )  # fmt: skip
        (found,) = from_log(kept)
        self.assertEqual(HEADER.unpack_from(found)[5], 0)

    def test_damaged(self) -> None:
        """What is no records is not shown, and not more than an error of ours is raised."""

        @settings(deadline=None, max_examples=100)
        @given(st.binary(max_size=40), st.integers(1, 4), CODECS, st.booleans())
        def check(payload: bytes, count: int, codec: Codec, is_mended: bool) -> None:
            batch = build_batch(
                log_codecs.compress(codec, payload) if is_mended else payload,
                record_count=count, base_timestamp=0, max_timestamp=0, attributes=codec,
            )  # fmt: skip
            with mock.patch.object(batches, "DECOMPRESSED_BYTES_MAX", 100_000):
                found = _or_refusal(lambda: from_log(batch))
            if found is not None:
                self.assertEqual(len(list(log.decode(batch))), sum(_count(each) for each in found))

        check()


def _or_refusal(attempt: Callable[[], list[bytes]]) -> list[bytes] | None:
    try:
        return attempt()
    except (CorruptBatch, InvalidRecord):
        return None


def _count(batch: bytes) -> int:
    return int(HEADER.unpack_from(batch)[6]) + 1


class SplitTests(SynchronousTestCase):
    def test_views(self) -> None:
        """Batches are found without being copied."""
        data = build([Record(b"a", timestamp=NOW)]) * 3
        found = list(split(data))
        self.assertEqual(len(found), 3)
        self.assertTrue(all(each.obj is data for each in found))
        self.assertEqual(list(split(b"")), [])

    def test_sizes(self) -> None:
        """A size that can not be is not believed."""
        good = build([Record(b"a", timestamp=NOW)])
        for size in (-(2**31), -13, 0, 44, 2**31 - 1):
            with self.assertRaises(CorruptBatch):
                list(split(good[:8] + size.to_bytes(4, "big", signed=True) + good[12:]))
