"""Tests for L{rustlog.log.codecs}."""

from __future__ import annotations

import gzip
import tracemalloc

import cramjam
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import CorruptBatch, InvalidRecord, RustlogError
from rustlog.log.codecs import Codec, compress, decompress

MIB = 1024 * 1024
TEXT = b"All work and no play makes Jack a dull boy. " * 3000
COMPRESSED = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)

XERIAL_HEADER = bytes.fromhex("82 53 4e 41 50 50 59 00 00 00 00 01 00 00 00 01")
BARE_HELLO = b"\x05\x10hello"  # the size, the tag of a literal of five bytes, and these
BARE_AAAA = b"\x64\x00a\xfe\x01\x00\x8a\x01\x00"  # 100 times "a": a literal and two copies of it

HAND_MADE = {
    Codec.NONE: b"hello",
    Codec.SNAPPY: BARE_HELLO,
    # As the Java client frames it: independent blocks of at most 64 KiB, no checksums.
    Codec.LZ4: bytes.fromhex("04224d18 60 40 82") + b"\x05\0\0\x80hello" + bytes(4),
    # A single segment of five bytes, one raw block, which is the last.
    Codec.ZSTD: bytes.fromhex("28b52ffd 20 05 290000") + b"hello",
}


class RoundTripTests(SynchronousTestCase):
    """What is compressed here can be read here."""

    def test_all_codecs(self) -> None:
        """Every codec gives back what it was given, and text becomes smaller."""
        for codec in COMPRESSED:
            compressed = compress(codec, TEXT)
            self.assertIs(type(compressed), bytes)
            self.assertLess(len(compressed), len(TEXT) // 5)
            self.assertEqual(decompress(codec, compressed, len(TEXT)), TEXT)
        self.assertEqual(compress(Codec.NONE, TEXT), TEXT)
        self.assertEqual(decompress(Codec.NONE, TEXT, len(TEXT)), TEXT)

    def test_any_data(self) -> None:
        """Whatever the data and the kind of buffer, they come back, empty ones too."""

        @settings(deadline=None, max_examples=100)
        @given(st.sampled_from(Codec), st.binary(max_size=500), st.sampled_from([1, 100, 1000]))
        def comes_back(codec: Codec, data: bytes, times: int) -> None:
            data *= times
            compressed = compress(codec, memoryview(data))
            self.assertEqual(compress(codec, bytearray(data)), compressed)
            found = decompress(codec, memoryview(compressed), max(1, len(data)))
            self.assertEqual((type(found), found), (bytes, data))

        comes_back()

    def test_more_than_the_first_guess(self) -> None:
        """Data that shrink very much come back all the same."""
        data = bytes(20 * MIB)
        for codec in COMPRESSED:
            self.assertEqual(decompress(codec, compress(codec, data), 64 * MIB), data)


class FramingTests(SynchronousTestCase):
    """What other programs write is read, and what they read is written."""

    def test_hand_made(self) -> None:
        """Bytes made from the specifications of the formats are read."""
        for codec, data in HAND_MADE.items():
            self.assertEqual(decompress(codec, data, 100), b"hello")
        self.assertEqual(decompress(Codec.SNAPPY, BARE_AAAA, 100), b"a" * 100)

    def test_gzip(self) -> None:
        """Python's own gzip reads what is written, and is read; also when it is in several members."""
        self.assertEqual(gzip.decompress(compress(Codec.GZIP, TEXT)), TEXT)
        self.assertEqual(decompress(Codec.GZIP, gzip.compress(TEXT), len(TEXT)), TEXT)
        members = gzip.compress(b"one ") + gzip.compress(b"two")
        self.assertEqual(decompress(Codec.GZIP, members, 100), b"one two")

    def test_snappy_is_written_as_xerial(self) -> None:
        """Snappy is cut into blocks of 32 KiB behind the header that Java expects."""
        compressed = compress(Codec.SNAPPY, TEXT)
        self.assertEqual(compressed[:16], XERIAL_HEADER)
        position, blocks = 16, []
        while position < len(compressed):
            size = int.from_bytes(compressed[position : position + 4], "big")
            blocks.append(bytes(cramjam.snappy.decompress_raw(compressed[position + 4 :][:size])))
            position += 4 + size
        self.assertEqual(position, len(compressed))
        self.assertEqual(b"".join(blocks), TEXT)
        self.assertEqual({len(each) for each in blocks[:-1]}, {32 * 1024})

    def test_snappy_framings(self) -> None:
        """Both framings of snappy are read; xerial's with any version, and any number of blocks."""
        block = b"\0\0\0\x07" + BARE_HELLO
        for data, expected in (
            (XERIAL_HEADER, b""),
            (XERIAL_HEADER + block, b"hello"),
            (XERIAL_HEADER + block * 3, b"hello" * 3),
            (XERIAL_HEADER[:8] + b"\0\0\0\x02\0\0\0\x01" + block, b"hello"),
            (bytes(cramjam.snappy.compress_raw(TEXT)), TEXT),
            (b"\0", b""),
        ):
            self.assertEqual(decompress(Codec.SNAPPY, data, len(TEXT)), expected)

    def test_lz4_blocks_are_independent(self) -> None:
        """The Java client refuses lz4 frames whose blocks refer to each other."""
        frame = compress(Codec.LZ4, TEXT)
        self.assertEqual(frame[:4], bytes.fromhex("04224d18"))
        version, independent, content_checksum = frame[4] >> 6, frame[4] >> 5 & 1, frame[4] >> 2 & 1
        self.assertEqual((version, independent, content_checksum), (1, 1, 0))


class DamageTests(SynchronousTestCase):
    """What can not be read is refused."""

    def test_unknown_codec(self) -> None:
        """The attributes have room for codecs that do not exist."""
        for codec in (5, 6, 7, -1):
            error = self.assertRaises(InvalidRecord, decompress, codec, b"", 100)
            self.assertIn(f"codec {codec}", str(error))

    def test_cut_anywhere(self) -> None:
        """Data that end too early are never taken for all."""
        data = TEXT[:500]
        for codec in COMPRESSED:
            compressed = compress(codec, data)
            for end in range(len(compressed)):
                if codec is Codec.SNAPPY and end == 16:
                    continue  # the header alone is whole: no blocks
                self.assertRaises(CorruptBatch, decompress, codec, compressed[:end], MIB)

    def test_something_behind(self) -> None:
        """Garbage behind the data is not overlooked."""
        for codec in COMPRESSED:
            for garbage in (b"x", b"\0\0\0", b"garbage!"):
                data = compress(codec, TEXT) + garbage
                self.assertRaises(CorruptBatch, decompress, codec, data, MIB)

    def test_xerial_sizes(self) -> None:
        """A block of negative size, or larger than what is left, is an error."""
        for size in (b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x08", b"\x7f\xff\xff\xff"):
            data = XERIAL_HEADER + size + BARE_HELLO
            self.assertRaises(CorruptBatch, decompress, Codec.SNAPPY, data, 100)

    def test_garbage(self) -> None:
        """Damaged or invented data give an error of ours, or data within the limit."""

        @settings(deadline=None, max_examples=300)
        @given(st.sampled_from(COMPRESSED), st.binary(max_size=60), st.data())
        def judged(codec: Codec, garbage: bytes, data: st.DataObject) -> None:
            content = bytearray(compress(codec, TEXT[:300]))
            position = data.draw(st.integers(0, len(content)))
            length = data.draw(st.integers(0, len(content)))
            content[position : position + length] = garbage
            try:
                found = decompress(codec, content, 1000)
            except RustlogError:
                return
            self.assertLessEqual(len(found), 1000)

        judged()


class LimitTests(SynchronousTestCase):
    """A few bytes can claim to be very many."""

    def test_exact_limit(self) -> None:
        """What fits exactly is read; one byte more is refused."""
        for codec in COMPRESSED:
            compressed = compress(codec, TEXT)
            self.assertEqual(decompress(codec, compressed, len(TEXT)), TEXT)
            self.assertRaises(CorruptBatch, decompress, codec, compressed, len(TEXT) - 1)

    def test_no_room_at_all(self) -> None:
        """A limit of nothing is kept, too."""
        for codec in COMPRESSED:
            self.assertRaises(CorruptBatch, decompress, codec, compress(codec, b"x"), 0)

    def test_xerial_blocks_share_the_limit(self) -> None:
        """Many small blocks may not become more together than one large one."""
        data = XERIAL_HEADER + (b"\0\0\0\x07" + BARE_HELLO) * 10
        self.assertEqual(decompress(Codec.SNAPPY, data, 50), b"hello" * 10)
        self.assertRaises(CorruptBatch, decompress, Codec.SNAPPY, data, 49)

    def test_claimed_size_is_not_believed(self) -> None:
        """A snappy block that only claims to be large takes no memory."""
        claim = b"\xff\xff\xff\xff\x0f"  # 2**32 - 1
        error = self.assertRaises(CorruptBatch, decompress, Codec.SNAPPY, claim + b"\x00a", 64 * MIB)
        self.assertIn(str(2**32 - 1), str(error))

    def test_bombs(self) -> None:
        """A bomb costs no more memory than the limit and what is needed to work."""
        bombs = {codec: compress(codec, bytes(32 * MIB)) for codec in COMPRESSED}
        for codec, bomb in bombs.items():
            tracemalloc.start()
            self.addCleanup(tracemalloc.stop)
            self.assertRaises(CorruptBatch, decompress, codec, bomb, 4 * MIB)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.assertLess(peak, 9 * MIB)
