"""Tests for L{rustlog.spark.files} and L{rustlog.spark.ranges}: what no healthy broker leaves behind."""

from __future__ import annotations

import struct
from pathlib import Path
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.batch import RecordBatch
from rustlog.log.codecs import Codec
from rustlog.log.records import build
from rustlog.model import Record, TopicInfo
from rustlog.spark import layouts, ranges
from rustlog.spark.errors import CorruptLog, LogFileGone, NoDataDirectory, TopicNotFound
from rustlog.spark.files import DataDirectory
from rustlog.spark.ranges import Range, raw_batches, read_range
from rustlog.storage.documents import encode_document
from rustlog.storage.segments.checkpoint import Checkpoint
from rustlog.storage.topicdocuments import topic_to_members
from tests.unit.storage.minikafka.byhand import write_record

ORDERS = TopicInfo(UUID(int=7), "orders", 2)
BATCH = [Record(b"value %d" % number, b"key", (), 1_700_000_000_000) for number in range(10)]


class Directory:
    """A data directory, made by hand."""

    def __init__(self, root: Path, format_name: str = "segments", version: int = 1) -> None:
        self.root = root
        self.document("FORMAT", {"format": format_name, "version": version})
        self.document("topics/orders.json", topic_to_members(ORDERS))
        self.log = root / "logs/orders/0"
        self.log.mkdir(parents=True)

    def document(self, name: str, members: dict[str, object]) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_document(members))

    def segment(self, base_offset: int, batches: int, index: str = "right") -> bytes:
        """A file of so many batches of ten records, with an index of them."""
        content, entries, offset = b"", [], base_offset
        for _ in range(batches):
            entries.append((offset - base_offset, len(content)))
            batch = build(BATCH, now_ms=0, codec=Codec.LZ4).at(offset, 0)
            content += bytes(batch.buffer)
            offset = batch.next_offset
        if index == "shifted":
            entries = [(relative, position + 1) for relative, position in entries]
        elif index == "backwards":
            entries.reverse()
        elif index == "beyond":
            entries = [(relative, position + 10**6) for relative, position in entries]
        (self.log / f"{base_offset}.log").write_bytes(content)
        path = self.log / f"{base_offset}.index"
        path.write_bytes(b"".join(struct.pack(">II", *each) for each in entries))
        if index == "missing":
            path.unlink()
        return content

    def ranges(self, **more: object) -> list[Range]:
        return DataDirectory(str(self.root)).ranges(ORDERS, 0, **more)  # type: ignore[arg-type]


def offsets_of(found: list[Range]) -> list[int]:
    columns = (rows["offset"] for each in found for rows in read_range(each, ("offset",)))
    return [offset for column in columns for offset in column.to_pylist()]


class RangesTests(SynchronousTestCase):
    """A partition in pieces."""

    def setUp(self) -> None:
        self.root = Path(self.mktemp())
        self.directory = Directory(self.root)

    def test_index(self) -> None:
        """Files are cut where their indexes say; where those are wrong or missing, into larger pieces."""
        for index, count in (("right", 8), ("missing", 1), ("shifted", 1), ("backwards", 1), ("beyond", 1)):
            self.directory.segment(0, 8, index)
            found = self.directory.ranges(range_bytes=1)
            self.assertEqual(len(found), count, index)
            self.assertEqual(offsets_of(found), list(range(80)))

    def test_several_files(self) -> None:
        """Ranges follow each other through the files; the last file is the one that may grow."""
        for base in (0, 30, 60):
            self.directory.segment(base, 3)
        found = self.directory.ranges(range_bytes=1)
        self.assertEqual([each.base_offset for each in found], list(range(0, 90, 10)))
        self.assertEqual([each.next_offset for each in found], list(range(10, 100, 10)))
        self.assertEqual([each.is_sealed for each in found], [True] * 6 + [False] * 3)
        self.assertEqual(len(self.directory.ranges()), 3)
        self.assertEqual(len(self.directory.ranges(sealed_only=True)), 2)

    def test_offsets(self) -> None:
        """Only what is needed is read: the batch that has the first offset, and the one that has the last."""
        self.directory.segment(0, 8)
        found = self.directory.ranges(from_offset=25, to_offset=41, range_bytes=1)
        self.assertEqual([each.base_offset for each in found], [20, 30, 40])
        self.assertEqual((found[0].first_offset, found[-1].end_offset), (25, 41))
        self.assertEqual(offsets_of(found), list(range(25, 41)))
        self.assertEqual(self.directory.ranges(from_offset=80), [])
        self.assertEqual(self.directory.ranges(to_offset=0), [])

    def test_gaps(self) -> None:
        """Compaction may leave gaps between files, and between batches."""
        first, second = (bytes(build(BATCH, now_ms=0).at(base, 0).buffer) for base in (5, 40))
        (self.directory.log / "0.log").write_bytes(b"")
        (self.directory.log / "5.log").write_bytes(first + second)
        self.directory.segment(100, 1)
        expected = [*range(5, 15), *range(40, 50), *range(100, 110)]
        self.assertEqual(offsets_of(self.directory.ranges()), expected)

    def test_start_of_the_log(self) -> None:
        """What is before the start of the log is not read; files wholly before it are not opened."""
        for base in (0, 30, 60):
            self.directory.segment(base, 3)
        checkpoint = Checkpoint(segment=60, position=0, next_offset=60, log_start_offset=45)
        self.directory.document(f"checkpoints/{ORDERS.id}/0.json", checkpoint.to_document())
        (self.directory.log / "0.log").write_bytes(b"half removed")
        self.assertEqual(offsets_of(self.directory.ranges()), list(range(45, 90)))

    def test_large_batch(self) -> None:
        """A batch that is larger than what is read at once is read at once all the same."""
        self.directory.segment(0, 3)
        self.patch(ranges, "PIECE_BYTES", 70)
        self.assertEqual(offsets_of(self.directory.ranges()), list(range(30)))

    def test_small_pieces(self) -> None:
        """Headers are found though they lie across the pieces in which they are looked for."""
        self.directory.segment(0, 20, "missing")
        for size in (61, 62, 200):
            self.patch(layouts, "CHUNK_BYTES", size)
            self.assertEqual(self.directory.ranges()[0].next_offset, 200)

    def test_empty(self) -> None:
        """A partition to which nothing was written has no ranges."""
        self.assertEqual(self.directory.ranges(), [])
        (self.directory.log / "0.log").write_bytes(b"")
        self.assertEqual(self.directory.ranges(), [])
        self.assertEqual(DataDirectory(str(self.root)).partition(ORDERS, 1).segments, ())


class DamageTests(SynchronousTestCase):
    """What is not right."""

    def setUp(self) -> None:
        self.root = Path(self.mktemp())
        self.directory = Directory(self.root)

    def test_offset_changed(self) -> None:
        """An offset is outside of the checksum of its batch; that it is wrong is found all the same."""
        content = self.directory.segment(0, 4)
        self.directory.segment(40, 1)
        found = self.directory.ranges()
        size = len(content) // 4
        for batch in range(4):
            for value in (0, 1, 5, 35, 10**9):
                if value != 10 * batch:
                    changed = bytearray(content)
                    changed[batch * size : batch * size + 8] = struct.pack(">q", value)
                    (self.directory.log / "0.log").write_bytes(changed)
                    self.assertRaises(CorruptLog, offsets_of, found)

    def test_tail(self) -> None:
        """What is no batch at the end of the log is damage; a part of one is not yet written."""
        content = self.directory.segment(0, 3)
        path = self.directory.log / "0.log"
        for missing in (1, 20, 90):
            path.write_bytes(content[:-missing])
            self.assertEqual(offsets_of(self.directory.ranges()), list(range(20)))
        path.write_bytes(content + bytes(100))
        self.assertIn("offset 30", str(self.assertRaises(CorruptLog, self.directory.ranges)))

    def test_cut_off(self) -> None:
        """A file that is shorter than it was when the ranges were made."""
        content = self.directory.segment(0, 3)
        found = self.directory.ranges()
        (self.directory.log / "0.log").write_bytes(content[:-1])
        self.assertRaises(CorruptLog, offsets_of, found)
        (self.directory.log / "0.log").write_bytes(b"")
        self.assertRaises(CorruptLog, offsets_of, found)
        (self.directory.log / "0.log").unlink()
        self.assertRaises(LogFileGone, offsets_of, found)

    def test_raw_batches(self) -> None:
        """Batches come as they are; a damaged one does not."""
        content = self.directory.segment(0, 4)
        (whole,) = self.directory.ranges()
        self.assertEqual(b"".join(bytes(each.buffer) for each in raw_batches(whole)), content)
        (part,) = self.directory.ranges(from_offset=15, to_offset=30)
        self.assertEqual([each.base_offset for each in raw_batches(part)], [10, 20])
        (self.directory.log / "0.log").write_bytes(content[:-1] + b"\xff")
        self.assertRaises(CorruptLog, list, raw_batches(whole))

    def test_documents(self) -> None:
        """Documents that are damaged, or of another store, are named."""
        self.assertRaises(TopicNotFound, DataDirectory(str(self.root)).topic, "others")
        (self.root / "topics/orders.json").write_text("{}")
        error = self.assertRaises(NoDataDirectory, DataDirectory(str(self.root)).topics)
        self.assertIn("orders.json", str(error))
        for name, version in (("shelf", 1), ("segments", 2)):
            self.directory.document("FORMAT", {"format": name, "version": version})
            error = self.assertRaises(NoDataDirectory, DataDirectory, str(self.root))
            self.assertIn(f"written by the store {name!r}, version {version}", str(error))


class MiniKafkaTests(SynchronousTestCase):
    """Records instead of batches."""

    def setUp(self) -> None:
        self.root = Path(self.mktemp())
        self.directory = Directory(self.root, "minikafka")
        self.parts = [
            write_record(number, 1_600_000_000_000 + number, b"k%d" % number, b"v" * number)
            for number in range(30)
        ]
        self.path = self.directory.log / "0.log"
        self.path.write_bytes(b"".join(self.parts))

    def test_index(self) -> None:
        """The index is beside the log, under the id of the topic."""
        entries = [(10, len(b"".join(self.parts[:10]))), (20, len(b"".join(self.parts[:20])))]
        place = self.root / "checkpoints" / str(ORDERS.id)
        place.mkdir(parents=True)
        (place / "0-0.index").write_bytes(b"".join(struct.pack(">II", *each) for each in entries))
        found = self.directory.ranges(range_bytes=1)
        self.assertEqual([each.base_offset for each in found], [0, 10, 20])
        self.assertEqual(offsets_of(found), list(range(30)))
        self.assertEqual(offsets_of(self.directory.ranges(from_offset=13, to_offset=17)), [13, 14, 15, 16])

    def test_made_batches(self) -> None:
        """Of records, batches are made that have the same."""
        (whole,) = self.directory.ranges(from_offset=3)
        (batch,) = raw_batches(whole)
        self.assertEqual((batch.base_offset, batch.record_count, batch.has_valid_crc()), (3, 27, True))
        self.assertIsInstance(batch, RecordBatch)

    def test_every_byte(self) -> None:
        """A wrong bit is found, but in keys and times, which no checksum covers."""
        (found,) = self.directory.ranges()
        content = self.path.read_bytes()
        begin = len(b"".join(self.parts[:12]))
        for position in range(begin, begin + len(self.parts[12])):
            changed = bytearray(content)
            changed[position] ^= 1
            self.path.write_bytes(changed)
            if 16 <= position - begin < 24 or 28 <= position - begin < 31:
                self.assertEqual(len(offsets_of([found])), 30)
            else:
                error = self.assertRaises(CorruptLog, offsets_of, [found])
                self.assertIn("orders-0 is damaged at offset", str(error))

    def test_cut_off(self) -> None:
        """What is not whole at the end is not yet written."""
        content = self.path.read_bytes()
        for missing in (1, 30, len(self.parts[29])):
            self.path.write_bytes(content[:-missing])
            self.assertEqual(offsets_of(self.directory.ranges()), list(range(29)))
