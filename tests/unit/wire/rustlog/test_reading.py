"""
Tests for L{rustlog.wire.rustlog.reading}, and for L{rustlog.wire.rustlog.handlers} as far as a Produce or
a Fetch says more than the original fields.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail

from rustlog.errors import Closed, InvalidRecord, OffsetOutOfRange, PartitionNotFound
from rustlog.log.records import build
from rustlog.model import Committed, Fetched, Record, TopicPartition
from rustlog.storage.memorylog import MemorySlice
from rustlog.wire.rustlog.binary import encode_response as encode_binary
from rustlog.wire.rustlog.codec import encode_response
from rustlog.wire.rustlog.messages import (
    FRAME_BYTES_MAX,
    INCLUDABLE,
    FetchedRecord,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
)
from rustlog.wire.rustlog.reading import DoesNotFit
from tests.unit.wire.harness import CONTEXT
from tests.unit.wire.rustlog.test_handlers import HandlersCase

ORDERS_0 = TopicPartition("orders", 0)
PLENTY = 2**40


def payloads(response: FetchResponse) -> list[bytes | None]:
    return [each.payload for each in response.records]


class ReadingCase(HandlersCase):
    def want(self, offset: int = 0, **how: Any) -> FetchRequest:
        return FetchRequest("orders", 0, offset, how.pop("max_bytes", PLENTY), **how)

    def look(self, offset: int = 0, **how: Any) -> FetchResponse:
        return self.ask(self.want(offset, **how))

    def delete_before(self, offset: int) -> None:
        self.successResultOf(self.world.broker.administration.delete_records(CONTEXT, ORDERS_0, offset))

    def commit(self, offset: int, group: str = "kitchen") -> None:
        offsets = {ORDERS_0: Committed(offset)}
        self.successResultOf(self.world.broker.commit_offsets(CONTEXT, group, offsets))

    def committed(self, group: str = "kitchen") -> int | None:
        found = self.successResultOf(self.world.broker.fetch_offsets(CONTEXT, group))
        return found[ORDERS_0].offset if ORDERS_0 in found else None


class IncludeTests(ReadingCase):
    """Keys, headers and timestamps, in and out."""

    def setUp(self) -> None:
        super().setUp()
        self.now = self.world.environment.wall.now_ms()
        headers = [(("trace", b"1"), ("empty", None)), ()]
        self.ask(ProduceRequest("orders", 0, [b"v", None], [b"k", b"gone"], headers, [5, None]))

    def test_everything(self) -> None:
        """What was produced is what is fetched; a record without a time got that of its arrival."""
        response = self.look(include=frozenset(INCLUDABLE))
        self.assertEqual(
            response.records,
            [
                FetchedRecord(0, b"v", b"k", (("trace", b"1"), ("empty", None)), 5),
                FetchedRecord(1, None, b"gone", (), self.now),
            ],
        )

    def test_some(self) -> None:
        """Only what was asked for is there; a tombstone is empty for who does not ask for keys."""
        response = self.look(include=frozenset(["timestamp"]))
        self.assertEqual(
            response.records, [FetchedRecord(0, b"v", timestamp=5), FetchedRecord(1, b"", timestamp=self.now)]
        )
        self.assertEqual(self.look().records, [FetchedRecord(0, b"v"), FetchedRecord(1, b"")])

    def test_one_column(self) -> None:
        """Each may be given without the others."""
        for request, expected in (
            (ProduceRequest("orders", 1, [b"a"], [None]), FetchedRecord(0, b"a", None, (), self.now)),
            (
                ProduceRequest("orders", 1, [b"a"], None, [(("h", b""),)]),
                FetchedRecord(1, b"a", None, (("h", b""),), self.now),
            ),
            (
                ProduceRequest("orders", 1, [b"a"], timestamps=[7]),
                FetchedRecord(2, b"a", None, (), 7),
            ),
        ):
            self.ask(request)
            include = frozenset(INCLUDABLE)
            found = self.ask(FetchRequest("orders", 1, expected.offset, PLENTY, include=include))
            self.assertEqual(found.records, [expected])

    def test_no_timestamp(self) -> None:
        """A record that has no time shows none."""
        no_time = build([Record(b"a", timestamp=0)], now_ms=0).with_append_time(-1)
        self.append(no_time)
        (shown,) = self.look(2, include=frozenset(["timestamp"])).records
        self.assertIsNone(shown.timestamp)

    def test_names_that_are_not_text(self) -> None:
        """A header name of another protocol that is not UTF-8 is shown as well as can be."""
        self.append(build([Record(b"a", headers=(("caf\udce9", b"1"), ("größe", b"2")))], now_ms=0))
        response = self.look(2, include=frozenset(["headers"]))
        self.assertEqual(response.records[0].headers, (("caf\ufffd", b"1"), ("größe", b"2")))
        self.assertIn("caf\ufffd".encode(), encode_response(response))

    def test_timestamps_out_of_range(self) -> None:
        """A time that no record can have is refused."""
        self.refused(ProduceRequest("orders", 0, [b"a"], timestamps=[-5]), InvalidRecord)


class FrameTests(ReadingCase):
    """What fits a frame, in each encoding."""

    def test_fits_a_frame(self) -> None:
        """An answer has as many records as fit a frame, with all that was asked for."""
        size = 500_000
        for _ in range(25):
            headers = [(("h", b"\xff" * 10_000),)]
            self.ask(ProduceRequest("orders", 0, [b"\xff" * size], [b"\xff" * 10_000], headers))
        for encoding, include, count in (
            ("json", frozenset(), 5),
            ("json", frozenset(INCLUDABLE), 5),
            ("base64", frozenset(), 15),
            ("base64", frozenset(INCLUDABLE), 15),
            ("binary", frozenset(), 20),
        ):
            response = self.look(encoding=encoding, include=include)
            self.assertEqual(len(response.records), count, encoding)
            encode = encode_binary if encoding == "binary" else encode_response
            answer_size = len(encode(response))
            self.assertLessEqual(answer_size, FRAME_BYTES_MAX)
            self.assertGreater(answer_size, FRAME_BYTES_MAX * 9 // 10)

    def put_large(self, size: int) -> int:
        """Append a record as another protocol would; its offset."""
        self.append(build([Record(b"\xff" * size)], now_ms=0))
        return self.world.broker.bounds(CONTEXT, ORDERS_0)[1] - 1

    def message(self, offset: int, **how: Any) -> str:
        return str(self.refused(self.want(offset, **how), DoesNotFit))

    def test_ways_out(self) -> None:
        """A record that is too large for an answer is never skipped; the error names what can carry it."""
        base64 = '"encoding": "base64"'
        small, medium, large, huge = map(self.put_large, (2_621_440, 7_864_000, 10_485_743, 10_485_744))
        for offset, ways in (
            (small, f"fetch it with {base64} or the binary encoding, or "),
            (medium, f"fetch it with {base64} or the binary encoding, or "),
            (large, "fetch it with the binary encoding, or "),
            (huge, ""),
        ):
            message = self.message(offset)
            self.assertTrue(message.startswith(f"max frame size exceeded: record at offset {offset} has "))
            self.assertTrue(
                message.endswith(
                    f"as json do not fit a frame of 10485760; {ways}go on behind it with {offset + 1}"
                ),
                message,
            )
        self.assertIn("; fetch it with the binary encoding, or go on", self.message(large, encoding="base64"))
        self.assertIn("; go on behind it", self.message(huge, encoding="binary"))

    def test_the_ways_are_open(self) -> None:
        """What the error advises works, up to the last byte."""
        medium, large = self.put_large(7_864_000), self.put_large(10_485_743)
        for offset, encoding, encode in (
            (medium, "base64", encode_response),
            (medium, "binary", encode_binary),
            (large, "binary", encode_binary),
        ):
            response = self.look(offset, encoding=encoding)
            self.assertEqual([each.offset for each in response.records], [offset])
            self.assertLessEqual(len(encode(response)), FRAME_BYTES_MAX)
        self.assertEqual(len(encode_binary(self.look(large, encoding="binary"))), FRAME_BYTES_MAX)

    def test_binary_spans_no_gap(self) -> None:
        """In binary, offsets are counted back from the next one: where some are missing, the answer ends."""
        self.produce(b"a", b"b")
        self.append(build([Record(b"c"), Record(b"d")], now_ms=0).with_append_time(0))
        original = self.world.memory.read
        (fetched,) = original([(self.world.memory.partition("orders", 0), 0, PLENTY)], PLENTY, None)
        whole = b"".join(bytes(each.buffer()) for each in fetched.slices)
        # As a cleaner would leave it: the second batch begins two offsets later.
        second = len(build([Record(b"a"), Record(b"b")], now_ms=self.world.environment.wall.now_ms()).buffer)
        gap = whole[:second] + (4).to_bytes(8, "big") + whole[second + 8 :]
        self.serve(gap, 6)
        self.assertEqual([each.offset for each in self.look().records], [0, 1, 4, 5])
        self.serve(gap, 6)
        response = self.look(encoding="binary")
        self.assertEqual((payloads(response), response.next_offset), ([b"a", b"b"], 2))
        self.serve(gap[second:], 6)
        response = self.look(2, encoding="binary")
        self.assertEqual((payloads(response), response.next_offset), ([b"c", b"d"], 6))

    def serve(self, content: bytes, high_watermark: int) -> None:
        """What the store is to find, whatever is asked for."""
        fetched = Fetched((MemorySlice(content),), len(content), high_watermark, high_watermark, 0)
        self.patch(self.world.memory, "read", lambda *_: [fetched])


class ResetTests(ReadingCase):
    """What happens to who asks for what is no longer there."""

    def setUp(self) -> None:
        super().setUp()
        for value in (b"a", b"b", b"c"):
            self.produce(value)
        self.delete_before(1)

    def test_error(self) -> None:
        """Unless it is asked for, nothing is reset."""
        for reset in (None, "error"):
            self.refused(self.want(offset_reset=reset), OffsetOutOfRange)

    def test_earliest(self) -> None:
        """One may go on with the oldest record there is."""
        response = self.look(offset_reset="earliest")
        self.assertEqual((payloads(response), response.next_offset), ([b"b", b"c"], 3))

    def test_latest(self) -> None:
        """Or with the next one that comes."""
        self.assertEqual(self.look(offset_reset="latest"), FetchResponse([], 3))

    def test_not_without_need(self) -> None:
        """An offset that is there is not reset, nor is one beyond the end."""
        for reset in ("earliest", "latest"):
            self.assertEqual([each.offset for each in self.look(2, offset_reset=reset).records], [2])
            self.assertEqual(self.look(9, offset_reset=reset), FetchResponse([], 3))

    def test_stale_commit(self) -> None:
        """What a group committed before retention took it is out of range, and reset only when asked."""
        self.commit(0)
        self.refused(self.want(group_id="kitchen"), OffsetOutOfRange)
        response = self.look(group_id="kitchen", offset_reset="earliest")
        self.assertEqual([each.offset for each in response.records], [1, 2])

    def test_start_moves_meanwhile(self) -> None:
        """Retention may go on while a fetch is under way."""
        original = self.world.memory.read
        steps = iter([2, 3])

        def read(*args: Any) -> Any:
            result = original(*args)
            for step in steps:
                self.delete_before(step)
                break
            return result

        self.patch(self.world.memory, "read", read)
        self.assertEqual(self.look(offset_reset="earliest"), FetchResponse([], 3))


class AutoCommitTests(ReadingCase):
    """Committing what is about to be answered."""

    def setUp(self) -> None:
        super().setUp()
        self.produce(b"a", b"b")

    def look_on(self, **how: Any) -> list[bytes | None]:
        return payloads(self.look(group_id="kitchen", auto_commit=True, **how))

    def test_goes_on_by_itself(self) -> None:
        """Who asks again gets what follows, wherever it asks to begin."""
        self.assertEqual(self.look_on(max_bytes=1), [b"a"])
        self.assertEqual(self.committed(), 1)
        self.assertEqual(self.look_on(), [b"b"])
        self.assertEqual(self.look_on(), [])
        self.assertEqual(self.committed(), 2)

    def test_only_when_asked(self) -> None:
        """Nothing is committed unless the request says so."""
        self.look(group_id="kitchen")
        self.look(group_id="kitchen", auto_commit=False)
        self.assertIsNone(self.committed())

    def test_nothing_new(self) -> None:
        """What is committed already is not committed again."""
        self.look_on()
        self.patch(self.world.broker._offsets, "commit", lambda *_: fail(Closed()))
        self.assertEqual(self.look_on(), [])

    def test_commit_fails(self) -> None:
        """Records are not handed out when they can not be committed."""
        self.patch(self.world.broker._offsets, "commit", lambda *_: fail(Closed()))
        self.refused(self.want(group_id="kitchen", auto_commit=True), Closed)


    def test_client_leaves(self) -> None:
        """A commit that is being written is not cancelled by a client that goes away."""
        cancelled: list[object] = []
        late: Deferred[None] = Deferred(cancelled.append)
        self.patch(self.world.broker._offsets, "commit", lambda *_: late)
        result = self.handlers.handle(CONTEXT, self.want(group_id="kitchen", auto_commit=True))
        result.cancel()
        self.failureResultOf(result, CancelledError)
        self.assertEqual(cancelled, [])
        late.callback(None)


class WaitTests(ReadingCase):
    """Waiting for something to fetch."""

    def wait(self, offset: int = 0, **how: Any) -> Deferred[None]:
        request = self.want(offset, **{"max_wait_ms": 10_000, **how})
        return self.handlers.wait(CONTEXT, request)

    def assert_waits(self, waiting: Deferred[None]) -> None:
        self.world.clock.advance(1)
        self.assertNoResult(waiting)

    def test_until_something_comes(self) -> None:
        """At the end of the log one waits for the next record."""
        waiting = self.wait()
        self.assert_waits(waiting)
        self.produce(b"a")
        self.world.clock.advance(0)
        self.assertIsNone(self.successResultOf(waiting))

    def test_no_longer_than_asked(self) -> None:
        """And no longer than one wants to."""
        waiting = self.wait()
        self.world.clock.advance(8)
        self.assert_waits(waiting)
        self.world.clock.advance(1)
        self.assertIsNone(self.successResultOf(waiting))

    def test_something_is_there(self) -> None:
        """What is there need not be waited for, and is not even read."""
        self.produce(b"a")
        self.patch(self.world.memory, "read", lambda *_: self.fail("it was read"))
        self.assertIsNone(self.successResultOf(self.wait()))

    def test_min_bytes(self) -> None:
        """One may wait for more; however much that is, the time is limited."""
        self.produce(b"a" * 100)
        for min_bytes in (500, 2**64 - 1):
            waiting = self.wait(min_bytes=min_bytes)
            self.assert_waits(waiting)
            self.produce(b"b" * 500)
            self.world.clock.advance(0)
            if min_bytes == 500:
                self.successResultOf(waiting)
        self.assertNoResult(waiting)
        self.world.clock.advance(10)
        self.successResultOf(waiting)

    def test_beyond_the_end(self) -> None:
        """Beyond the end of the log, one is told when it moves."""
        waiting = self.wait(1000)
        self.assert_waits(waiting)
        self.produce(b"a")
        self.world.clock.advance(0)
        self.successResultOf(waiting)
        self.assertEqual(self.look(1000), FetchResponse([], 1))

    def test_groups(self) -> None:
        """A group waits where it has got to."""
        self.produce(b"a")
        self.commit(1)
        self.assert_waits(self.wait(group_id="kitchen"))
        self.assertIsNone(self.successResultOf(self.wait(group_id="other")))
        self.world.clock.advance(10)

    def test_resets(self) -> None:
        """Before the start there is nothing to wait for, unless one goes on at the end."""
        self.produce(b"a")
        self.delete_before(1)
        for reset in (None, "earliest"):
            self.assertIsNone(self.successResultOf(self.wait(offset_reset=reset)))
        self.assert_waits(self.wait(offset_reset="latest"))
        self.world.clock.advance(10)

    def test_errors_are_met_later(self) -> None:
        """What is wrong is told by the fetch itself, not by waiting for it."""
        nowhere = FetchRequest("orders", 9, 0, 1, max_wait_ms=10_000)
        self.assertIsNone(self.successResultOf(self.handlers.wait(CONTEXT, nowhere)))
        self.refused(nowhere, PartitionNotFound)
        self.assertIsNone(self.successResultOf(self.wait(group_id="x" * 40_000)))

    def test_cancel(self) -> None:
        """Who goes away leaves nothing behind."""
        waiting = self.wait()
        self.assert_waits(waiting)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.assertEqual(self.world.clock.getDelayedCalls(), [])
