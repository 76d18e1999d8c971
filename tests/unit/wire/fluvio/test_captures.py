"""What Fluvio's own client sends is understood, and what it accepts for an answer is what is written."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.codecs import Codec
from rustlog.log.records import decode
from rustlog.model import Record
from rustlog.wire.answers import Answer, Parts
from rustlog.wire.fluvio.apis import APIS, BOTH_ROLES, STREAM_FETCH, route
from rustlog.wire.fluvio.batches import build, from_log, split, to_log
from rustlog.wire.fluvio.codec import decode_request, decode_response, encode_request, encode_response
from rustlog.wire.fluvio.headers import encode_header, encode_response_header, read_header
from tests.captures.fluvio import message, messages

NOW = 1_700_000_000_000


def joined(answer: Answer) -> bytes:
    """It as one piece."""
    return b"".join(answer.parts) if isinstance(answer, Parts) else answer  # type: ignore[arg-type]


class RequestTests(SynchronousTestCase):
    def test_round_trip(self) -> None:
        """Each request is read, by who serves that port, and written again as it came."""
        for each in messages():
            if not each.is_request:
                continue
            with self.subTest(each.subject):
                header = read_header(each.content)
                self.assertIs(route(header.key, header.version, {each.role}), each.api)
                self.assertTrue(each.api.accepts(header.version))
                request = decode_request(each.api, header.version, each.content, header.end)
                head = encode_header(header.key, header.version, header.correlation_id, header.client_id)
                self.assertEqual(encode_request(each.api, each.version, request, head), each.content)

    def test_one_port_for_all(self) -> None:
        """At a port that is everything, requests in versions that it offers mean what they mean elsewhere."""
        for each in messages():
            if each.is_request and each.version in each.api.versions:
                self.assertIs(route(each.api.key, each.version, BOTH_ROLES), each.api, each.subject)

    def test_nothing_is_missing(self) -> None:
        """There is a request of each API."""
        self.assertEqual({each.api for each in messages() if each.is_request}, set(APIS))


class AnswerTests(SynchronousTestCase):
    def test_round_trip(self) -> None:
        """Each answer is read, and written again as it was accepted."""
        for each in messages():
            if each.is_request:
                continue
            with self.subTest(each.subject):
                head = encode_response_header(int.from_bytes(each.content[:4], "big"))
                answer = decode_response(each.api, each.version, each.content, len(head))
                self.assertEqual(
                    joined(encode_response(each.api, each.version, answer, head)), each.content
                )

    def test_nothing_is_missing(self) -> None:
        """There is an answer of each API."""
        self.assertEqual({each.api for each in messages() if not each.is_request}, set(APIS))


class BatchTests(SynchronousTestCase):
    """The batches inside."""

    def records(self, subject: str) -> tuple[Codec, list[Record]]:
        each = message(subject, is_request=True)
        request = decode_request(each.api, each.version, each.content, read_header(each.content).end)
        (topic,) = request.topics
        (entry,) = topic.partitions
        (batch,) = to_log(entry.batches, NOW)
        batch.check()
        return Codec(batch.codec), list(decode(batch))

    def test_codecs(self) -> None:
        """With each codec, what the client produced becomes a record of the log, and the codec stays."""
        for codec in Codec:
            kept_as, (record,) = self.records(f"produce_{codec.name.lower()}_1rec")
            self.assertIs(kept_as, codec)
            self.assertEqual(record.key, b"")
            self.assertGreater(record.timestamp, NOW)
        self.assertEqual(self.records("older_produce_none_1rec")[1][0].value, b"v")

    def test_several(self) -> None:
        """Keys and values are those that were sent."""
        _, records = self.records("produce_none_3rec")
        pairs = [(each.key, each.value, each.offset) for each in records]
        self.assertEqual(pairs, [(b"a", b"1", 0), (b"b", b"2", 1), (b"c", b"3", 2)])

    def test_streams(self) -> None:
        """Batches that were shown are the same when they have been in the log."""
        each = message("streamfetch_off0", is_request=False)
        self.assertIs(each.api, STREAM_FETCH)
        (batches,) = decode_response(each.api, each.version, each.content, 4).batches
        for batch in split(batches):
            (kept,) = to_log(batch, NOW)
            placed = kept.at(int.from_bytes(batch[:8], "big"), 0)
            codec = Codec(kept.codec)
            (shown,) = from_log(placed)
            if codec is Codec.NONE:
                self.assertEqual(shown, bytes(batch))
            else:
                self.assertEqual(shown, build(list(decode(placed)), codec, placed.base_offset))
