"""Tests for the parts of L{rustlog.client} that are plain values: addresses, errors, partitions, patience."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rustlog.client import calls, errors
from rustlog.client.addresses import TcpAddress, UnixAddress, parse_address
from rustlog.client.errors import failure_for
from rustlog.client.exchange import Call
from rustlog.client.partitioning import murmur2, partition_for
from rustlog.client.retrying import ClientSettings, Retries
from rustlog.wire.rustlog import errors as told
from rustlog.wire.rustlog.messages import FRAME_BYTES_MAX


class AddressTests(SynchronousTestCase):
    """Where a broker is."""

    def test_good(self) -> None:
        """All ways to write one."""
        for text, address in (
            ("localhost", TcpAddress("localhost", 9091)),
            ("192.0.2.7:19", TcpAddress("192.0.2.7", 19)),
            ("[::1]:9092", TcpAddress("::1", 9092)),
            ("[::1]", TcpAddress("::1", 9091)),
            ("unix:/run/rustlog", UnixAddress("/run/rustlog")),
        ):
            self.assertEqual(parse_address(text), address)
            self.assertEqual(parse_address(str(address)), address)

    def test_bad(self) -> None:
        """What is none is shown, with what one looks like."""
        for text in ("", "a:b", "a:0", "a:65536", "::1", "unix:", "a:1:2", ":9"):
            error = self.assertRaises(ValueError, parse_address, text)
            self.assertIn(f"{text!r} is not an address like 127.0.0.1:9091", str(error))


class ErrorTests(SynchronousTestCase):
    """Sentences of the broker become exceptions."""

    def test_sentences(self) -> None:
        """What tells reasons apart is the beginning; the sentence itself is kept."""
        for message, kind in (
            ("partition not found: topic=a, partition=1", errors.TopicNotFound),
            ("topic not found: a", errors.TopicNotFound),
            ("group not found: g", errors.GroupNotFound),
            ("group not empty: g", errors.GroupInUse),
            ("topic in use: members of group g read a", errors.GroupInUse),
            ("topic exists already: a", errors.AlreadyExists),
            ("offset out of range: 1 is not within 2..3", errors.OffsetOutOfRange),
            ("invalid topic name: it is empty", errors.InvalidRequest),
            ("the broker is stopping", errors.TryAgain),
            ("internal error", errors.BrokerFailed),
            ("something new", errors.RequestFailed),
        ):
            error = failure_for(message)
            self.assertIs(type(error), kind)
            self.assertEqual((str(error), error.message), (message, message))

    def test_every_sentence_is_known(self) -> None:
        """Whatever the broker has a sentence for has a class, but for what its clients never meet."""
        unmet = (
            "out of order", "stale ", "unknown member", "member id", "fenced instance",
            "inconsistent protocol", "group {", "rebalance in progress", "not the coordinator",
        )  # fmt: skip
        for sentence in (*told._SENTENCES.values(), told.INTERNAL_ERROR):
            if not sentence.startswith(unmet):
                self.assertIsNot(type(failure_for(sentence)), errors.RequestFailed, sentence)

    def test_what_may_have_happened(self) -> None:
        """Whether something was done is said where it is not known."""
        self.assertEqual(str(errors.ConnectionFailed("a:1", "no")), "cannot connect to a:1: no")
        self.assertEqual(
            str(errors.ConnectionLost("Produce", "gone")),
            "no answer to Produce, which may or may not have been done: gone",
        )


class PartitionTests(SynchronousTestCase):
    """Kafka's way to choose a partition."""

    def test_murmur2(self) -> None:
        """The values that the tests of Kafka's own client have, there as signed numbers."""
        for text, value in (
            (b"21", -973932308),
            (b"foobar", -790332482),
            (b"a-little-bit-long-string", -985981536),
            (b"a-little-bit-longer-string", -1486304829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
            (b"abc", 479470107),
        ):
            self.assertEqual(murmur2(text), value & 0xFFFFFFFF)

    def test_partition(self) -> None:
        """A key has one partition, within those that there are."""
        keys = [b"key %d" % number for number in range(100)]
        chosen = [partition_for(key, 7) for key in keys]
        self.assertEqual(chosen, [partition_for(key, 7) for key in keys])
        self.assertEqual(set(chosen), set(range(7)))


class Steady:
    """Chance that always is the same."""

    def uniform(self, low: float, high: float) -> float:
        return high


class RetriesTests(SynchronousTestCase):
    """What is tried again, and when."""

    lost = errors.ConnectionLost("Fetch", "gone")
    failed = errors.ConnectionFailed("a:1", "no")

    def retries(self, call: Call[object], **settings: float) -> Retries:
        return Retries(ClientSettings(**settings), Steady(), call)

    def test_backoff(self) -> None:
        """Delays double, up to a limit."""
        retries = self.retries(calls.ping(), backoff_seconds=1, backoff_seconds_max=5)
        self.assertEqual([retries.delay_after(self.lost, 0) for _ in range(5)], [1, 2, 4, 5, 5])

    def test_deadline(self) -> None:
        """After a while it is enough."""
        retries = self.retries(calls.ping(), retry_seconds=10)
        self.assertEqual(retries.delay_after(self.lost, 100), 0.1)
        self.assertEqual(retries.delay_after(self.lost, 109.8), 0.2)
        self.assertIsNone(retries.delay_after(self.lost, 109.9))

    def test_never(self) -> None:
        """One may want to know at once."""
        self.assertIsNone(self.retries(calls.ping(), retry_seconds=0).delay_after(self.failed, 0))

    def test_safe_calls(self) -> None:
        """What does no harm is repeated."""
        for call in (
            calls.ping(),
            calls.list_topics(),
            calls.describe_topic("a"),
            calls.fetch("a", 0, 0),
            calls.list_offsets("a", 0, "latest"),
            calls.commit("g", "a", 0, 1),
            calls.committed("g", "a", 0),
            calls.delete_records("a", 0, 1),
            calls.produce("a", [b""], at_least_once=True),
        ):
            self.assertIsNotNone(self.retries(call).delay_after(self.lost, 0), call.name)

    def test_unsafe_calls(self) -> None:
        """What may have been done, and must not be done twice, is not; if it was not even sent, it is."""
        for call in (
            calls.produce("a", [b""]),
            calls.fetch("a", 0, 0, group_id="g", auto_commit=True),
            calls.create_topic("a"),
            calls.delete_topic("a"),
            calls.alter_topic("a", 2),
            calls.delete_group("g"),
        ):
            self.assertIsNone(self.retries(call).delay_after(self.lost, 0), call.name)
            self.assertIsNotNone(self.retries(call).delay_after(self.failed, 0), call.name)

    def test_refusals(self) -> None:
        """What the broker refuses is not asked for again, unless it says so."""
        retries = self.retries(calls.ping())
        self.assertIsNone(retries.delay_after(errors.TopicNotFound("topic not found: a"), 0))
        self.assertIsNotNone(retries.delay_after(errors.TryAgain("the broker is stopping"), 0))


class CallTests(SynchronousTestCase):
    """Requests and answers as bytes."""

    def test_too_large(self) -> None:
        """What no broker would take is not sent."""
        call = calls.produce("a", [bytes(FRAME_BYTES_MAX)])
        self.assertIn(
            "max frame size exceeded: Produce has", str(self.assertRaises(errors.TooLarge, call.encode))
        )

    def test_not_understood(self) -> None:
        """What is not an answer, or the answer to something else, is told from one."""
        for payload in (
            b"",
            b"{}",
            b"hello",
            b'{"Surprise":{}}',
            b'{"Fetch":{}}',
            b'{"Produce":{"offsets":[]}}',
        ):
            self.assertRaises(errors.NotUnderstood, calls.ping().decode, payload)

    def test_plain_produce(self) -> None:
        """What records do not have is not sent."""
        payload = calls.produce("a", [b"x"]).encode()
        for name in (b"keys", b"headers", b"timestamps"):
            self.assertNotIn(name, payload)
