"""Tests for L{rustlog.wire.fluvio.primitives} and L{rustlog.wire.fluvio.headers}."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.answers import Parts
from rustlog.wire.fluvio.headers import RequestHeader, encode_header, read_header
from rustlog.wire.fluvio.primitives import (
    ITEMS_MAX,
    STRING_BYTES_MAX,
    U16,
    U32,
    Reader,
    Unreadable,
    Writer,
    read_whole,
)


def written(write: Callable[[Writer], object]) -> bytes:
    writer = Writer()
    write(writer)
    return writer.whole()


class LayoutTests(SynchronousTestCase):
    """Values are the bytes that the protocol says, both ways."""

    def check(
        self, data: str, value: object, read: Callable[[Reader], object], write: Callable[[Writer], object]
    ) -> None:
        self.assertEqual(read_whole(Reader(bytes.fromhex(data)), read), value)
        self.assertEqual(written(write).hex(), data.replace(" ", ""))

    def test_booleans(self) -> None:
        """Yes is 1 and no is 0."""
        self.check("01", True, Reader.boolean, lambda out: out.boolean(True))
        self.check("00", False, Reader.boolean, lambda out: out.boolean(False))

    def test_strings(self) -> None:
        """Texts are UTF-8 behind two bytes of size."""
        self.check("0003 c3a9 61", "éa", Reader.string, lambda out: out.string("éa"))
        self.check("0000", "", Reader.string, lambda out: out.string(""))

    def test_negative_sizes(self) -> None:
        """Fluvio takes a negative size for none."""
        self.assertEqual(read_whole(Reader(b"\xff\xff"), Reader.string), "")
        self.assertEqual(read_whole(Reader(b"\xff\xff\xff\xff"), Reader.strings), ())
        self.assertEqual(read_whole(Reader(b"\xff\xff\xff\xff"), Reader.blob), b"")

    def test_options(self) -> None:
        """What may be missing says first whether it is there."""
        def read(data: Reader) -> str | None:
            return data.option(data.string)

        self.check("00", None, read, lambda out: out.option(None, out.string))
        self.check("01 0001 61", "a", read, lambda out: out.option("a", out.string))

    def test_vectors(self) -> None:
        """Items stand behind four bytes of count."""
        self.check(
            "00000002 0001 61 0000", ("a", ""), Reader.strings, lambda out: out.strings(["a", ""])
        )
        self.check(
            "00000002 0001 ffff", (1, 65535), lambda data: data.numbers(U16),
            lambda out: out.numbers(U16, [1, 65535]),
        )  # fmt: skip
        self.check("00000002 abcd", b"\xab\xcd", Reader.blob, lambda out: out.blob(b"\xab\xcd"))

    def test_maps(self) -> None:
        """Pairs stand behind two bytes of count."""
        self.check(
            "0001 00000007 0001 61",
            ((7, "a"),),
            lambda data: data.mapping(lambda: data.number(U32), data.string),
            lambda out: out.mapping([(7, "a")], lambda key: out.pack(U32, key), out.string),
        )

    def test_durations(self) -> None:
        """Seconds and nanoseconds."""
        self.check(
            "0000000000000001 00000002", (1, 2), Reader.duration, lambda out: out.duration((1, 2))
        )

    def test_batches(self) -> None:
        """Buffers are not copied into an answer; there may be none."""
        writer = Writer(b"head")
        payload = memoryview(b"batch")
        writer.batches([payload, b"", b"es"])
        answer = writer.finish()
        assert isinstance(answer, Parts)
        self.assertEqual(answer.parts, [b"head\0\0\0\x07", payload, b"es"])
        self.assertEqual(answer.size, 15)
        self.assertIs(answer.parts[1], payload)
        writer = Writer()
        writer.batches([])
        self.assertEqual(writer.finish(), b"\0\0\0\0")


class BoundTests(SynchronousTestCase):
    """Nothing is believed that is not there."""

    def refuse(self, data: bytes, read: Callable[[Reader], object]) -> None:
        with self.assertRaises(Unreadable):
            read_whole(Reader(data), read)

    def test_ends(self) -> None:
        """Data that end too early are no value."""
        self.refuse(b"", Reader.boolean)
        self.refuse(b"\0", Reader.string)
        self.refuse(b"\0\x02a", Reader.string)
        self.refuse(b"\0\0\0\x02a", Reader.blob)
        self.refuse(b"\0\0\0\x02\0", lambda data: data.numbers(U16))

    def test_surplus(self) -> None:
        """Nor are those that go on."""
        self.refuse(b"\0\0", Reader.boolean)

    def test_nonsense(self) -> None:
        """A bool is 0 or 1, a text is UTF-8."""
        self.refuse(b"\x02", Reader.boolean)
        self.refuse(b"\0\x01\xff", Reader.string)

    def test_counts(self) -> None:
        """A claim of two thousand million items takes no memory."""
        claim = b"\x7f\xff\xff\xff" + bytes(1000)
        reads: list[Callable[[Reader], object]] = [
            Reader.strings,
            Reader.blob,
            lambda data: data.numbers(U32),
            lambda data: data.vector(lambda: None),
            lambda data: data.mapping(lambda: None, lambda: None),
        ]
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for read in reads:
            self.refuse(claim, read)
        self.assertLess(tracemalloc.get_traced_memory()[1], 100_000)

    def test_items(self) -> None:
        """All collections of a message together have a bound."""
        many = ITEMS_MAX // 2 + 1
        data = (many.to_bytes(4, "big") + bytes(many)) * 2
        self.refuse(data, lambda data: [data.vector(data.boolean), data.vector(data.boolean)])

    def test_long_texts(self) -> None:
        """No text is written that nobody could read."""
        written(lambda out: out.string("x" * STRING_BYTES_MAX))
        with self.assertRaises(ValueError):
            written(lambda out: out.string("x" * (STRING_BYTES_MAX + 1)))


class HeaderTests(SynchronousTestCase):
    def test_round_trip(self) -> None:
        """A header is what was written, and tells where the body begins."""
        data = encode_header(1003, 24, -7, "Jürgen")
        self.assertEqual(read_header(data + b"body"), RequestHeader(1003, 24, -7, "Jürgen", len(data)))

    def test_keys_are_unsigned(self) -> None:
        """There are 65536 of them."""
        self.assertEqual(read_header(encode_header(65535, -1, 0, "")).key, 65535)

    def test_unreadable(self) -> None:
        """What is too short has no header."""
        data = encode_header(18, 2, 1, "fluvio")
        for size in range(len(data)):
            with self.assertRaises(Unreadable):
                read_header(data[:size])
