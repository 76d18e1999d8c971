"""Tests for L{rustlog.wire.fluvio.fetching}, C{consumers} and C{smartmodules}."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.model import Isolation, TopicPartition
from rustlog.wire.answers import Parts
from rustlog.wire.fluvio.apis import (
    FETCH_CONSUMER_OFFSETS,
    FETCH_OFFSETS,
    STREAM_FETCH,
    UPDATE_OFFSETS,
    Api,
)
from rustlog.wire.fluvio.codec import decode_request, decode_response, encode_request, encode_response
from rustlog.wire.fluvio.consumers import (
    ConsumerOffset,
    FetchConsumerOffsetsRequest,
    FetchConsumerOffsetsResponse,
)
from rustlog.wire.fluvio.errors import FETCH_SESSION_NOT_FOUND, NONE, TOPIC_DELETED
from rustlog.wire.fluvio.fetching import (
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    PartitionOffsets,
    StreamFetchRequest,
    StreamFetchResponse,
    UpdateOffsetsResponse,
)
from rustlog.wire.fluvio.primitives import Unreadable
from rustlog.wire.fluvio.smartmodules import Lookback, SmartModule

MODULES = (
    SmartModule("filter", parameters=(("a", "b"),), lookback=Lookback(5, (1, 2))),
    SmartModule(wasm=b"\0asm", kind=3, facts=(b"sum",)),
    SmartModule("join", kind=5, facts=("t",)),
    SmartModule("both", kind=6, facts=("t", "s")),
    SmartModule("plain", kind=7, context=0, lookback=Lookback(1)),
    SmartModule("sum", kind=7, context=1, facts=(b"sum",)),
    SmartModule("one", kind=7, context=2, facts=("t",)),
    SmartModule("two", kind=7, context=3, facts=("t", "s")),
)


def asked(api: Api, version: int, request: Any) -> Any:
    return decode_request(api, version, encode_request(api, version, request), 0)


class OffsetsTests(SynchronousTestCase):
    def test_consumers_in_version_23(self) -> None:
        """There, and only there, the consumer is named."""
        request = FetchOffsetsRequest((("orders", (0, 2)), ("other", ())), "me")
        self.assertEqual(asked(FETCH_OFFSETS, 23, request), request)
        self.assertEqual(asked(FETCH_OFFSETS, 24, request), FetchOffsetsRequest(request.topics))

    def test_answers(self) -> None:
        """Bounds of several partitions."""
        gone, there = PartitionOffsets(0, TOPIC_DELETED), PartitionOffsets(1, NONE, 3, 9)
        response = FetchOffsetsResponse((("orders", (gone, there)),))
        answer = encode_response(FETCH_OFFSETS, 24, response)
        assert isinstance(answer, bytes)
        self.assertEqual(decode_response(FETCH_OFFSETS, 24, answer), response)


class StreamTests(SynchronousTestCase):
    def test_versions(self) -> None:
        """A plain request is the same in all versions."""
        request = StreamFetchRequest("orders", 1, 5, 1000, Isolation.READ_COMMITTED)
        for version in STREAM_FETCH.accepted:
            self.assertEqual(asked(STREAM_FETCH, version, request), request)

    def test_modules(self) -> None:
        """All kinds of SmartModules can be read."""
        request = StreamFetchRequest("orders", 1, 5, smart_modules=MODULES, consumer_id="me")
        self.assertEqual(asked(STREAM_FETCH, 24, request), request)
        old = asked(STREAM_FETCH, 19, request)
        self.assertEqual([each.name for each in old.smart_modules], [each.name for each in MODULES])
        self.assertEqual({each.lookback for each in old.smart_modules}, {None})
        self.assertEqual(asked(STREAM_FETCH, 20, request).smart_modules[0].lookback, Lookback(5))

    def test_old_modules(self) -> None:
        """In old versions it is seen that there is one, whatever it is."""
        plain = encode_request(STREAM_FETCH, 17, StreamFetchRequest("orders", 1, 5))
        for tail in (b"\0\0\0\x01x\0\0", b"\0\0\0\0\x01module\0", b"\0\0\0\0\0\x01stream"):
            request = decode_request(STREAM_FETCH, 17, plain[:-6] + tail, 0)
            self.assertEqual(request.smart_modules, (SmartModule(),))

    def test_nonsense(self) -> None:
        """An isolation or a module that there is not is refused."""
        plain = bytearray(encode_request(STREAM_FETCH, 24, StreamFetchRequest("t", 0, 0)))
        plain[-6] = 2
        with self.assertRaises(Unreadable):
            decode_request(STREAM_FETCH, 24, plain, 0)
        for module in (SmartModule("m", kind=8), SmartModule("m", kind=7, context=4)):
            data = encode_request(STREAM_FETCH, 24, StreamFetchRequest("t", 0, 0, smart_modules=(module,)))
            with self.assertRaises(Unreadable):
                decode_request(STREAM_FETCH, 24, data, 0)

    def test_answers_are_parts(self) -> None:
        """Batches are parts of their own, behind the rest."""
        first, second = memoryview(b"first"), b"second"
        response = StreamFetchResponse("t", 1, 2, NONE, 9, 3, (first, second))
        answer = encode_response(STREAM_FETCH, 24, response, b"head")
        assert isinstance(answer, Parts)
        self.assertIs(answer.parts[1], first)
        self.assertIs(answer.parts[2], second)
        data = b"".join(answer.parts)  # type: ignore[arg-type]
        self.assertEqual(len(data), answer.size)
        read = decode_response(STREAM_FETCH, 24, data, 4)
        self.assertEqual((read.high_watermark, read.log_start_offset), (9, 3))
        self.assertEqual(read.batches, (b"firstsecond",))

    def test_ends(self) -> None:
        """An answer without batches tells why."""
        response = StreamFetchResponse("t", 1, 2, TOPIC_DELETED, aborted=((1, 2),))
        answer = encode_response(STREAM_FETCH, 24, response)
        assert isinstance(answer, bytes)
        self.assertEqual(decode_response(STREAM_FETCH, 24, answer), response)


class ProgressTests(SynchronousTestCase):
    def test_unknown_streams(self) -> None:
        """Each stream has a code of its own."""
        response = UpdateOffsetsResponse(((1, FETCH_SESSION_NOT_FOUND),))
        answer = encode_response(UPDATE_OFFSETS, 0, response)
        self.assertEqual(answer, bytes.fromhex("00000001 00000001 0bba"))

    def test_filters(self) -> None:
        """Filters are there from version 24 on, in any combination."""
        place = TopicPartition("orders", 3)
        for request in (
            FetchConsumerOffsetsRequest(),
            FetchConsumerOffsetsRequest(place),
            FetchConsumerOffsetsRequest(None, "me"),
            FetchConsumerOffsetsRequest(place, "me"),
        ):
            self.assertEqual(asked(FETCH_CONSUMER_OFFSETS, 24, request), request)
            self.assertEqual(asked(FETCH_CONSUMER_OFFSETS, 23, request), FetchConsumerOffsetsRequest())

    def test_consumers(self) -> None:
        """What consumers have read is told with their names."""
        offset = ConsumerOffset("me", TopicPartition("orders", 3), 7, 1_700_000_000)
        response = FetchConsumerOffsetsResponse((offset, offset))
        answer = encode_response(FETCH_CONSUMER_OFFSETS, 24, response)
        assert isinstance(answer, bytes)
        self.assertEqual(decode_response(FETCH_CONSUMER_OFFSETS, 24, answer), response)
