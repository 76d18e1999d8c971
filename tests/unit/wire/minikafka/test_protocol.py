"""Tests for the MiniKafka protocol: a client at a bare connection."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.log import records
from rustlog.log.codecs import Codec
from rustlog.log.records import build
from rustlog.model import Record, TopicPartition
from rustlog.settings import BrokerConfig, TopicConfig
from rustlog.testing.broker import CONTEXT, TestBroker
from rustlog.wire.minikafka import codec
from rustlog.wire.minikafka.codec import partition_of, shown_key
from rustlog.wire.minikafka.protocol import PASSED_OVER_BYTES_MAX, make_factory
from rustlog.wire.minikafka.settings import MinikafkaSettings
from tests.unit.wire.harness import Client


class MinikafkaCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.start()

    def start(
        self,
        config: BrokerConfig | None = None,
        trailer: str = "none",
        topic_defaults: TopicConfig | None = None,
    ) -> None:
        self.served = TestBroker(config, topic_defaults=topic_defaults)
        self.factory = make_factory(self.served.listener(MinikafkaSettings(trailer)))
        self.client = Client(self.factory)

    def say(self, data: bytes, client: Client | None = None) -> bytes:
        """What is answered, at once."""
        client = client or self.client
        client.send_bytes(data)
        answer = client.transport.value()
        client.transport.clear()
        return answer

    def create(self, name: str, partitions: int) -> None:
        self.successResultOf(self.served.broker.create_topic(CONTEXT, name, partitions))

    def append(self, values: list[bytes], compression: Codec, partition: int = 0) -> None:
        batch = build([Record(each) for each in values], now_ms=1, codec=compression)
        self.served.broker.produce(CONTEXT, [(TopicPartition("orders", partition), batch)])


class WorkflowTests(MinikafkaCase):
    TALK = (
        (b"TOPIC orders tea 7\none tea", b"+OFFSET 0\n"),
        (b"TOPIC orders  3\n\x00\n\xff", b"+OFFSET 1\n"),
        (b"orders:bar:0\n", b"+MSG 0 7 0 tea\none tea"),
        (b"ACK\n", b"+OK\n+MSG 1 3 0 \n\x00\n\xff"),
        (b"ACK\n", b"+OK\n+EMPTY\n"),
        (b"ACK\n", b"-ERR no outstanding msg\n"),
        (b"orders:bar:0\n", b"+EMPTY\n"),
        (b"SET_OFFSET orders:bar BEGIN\n", b"+OK\n"),
        (b"orders:bar:-1:0\n", b"+MSG 0 7 0 tea\none tea"),
        (b"ACK\r\n", b"+OK\n+END 0\n"),
        (b"SET_OFFSET orders:bar 1\n", b"+OK\n"),
        (b"orders:bar:0\n", b"+MSG 1 3 0 \n\x00\n\xff"),
        (b"SET_OFFSET orders:bar 99\n", b"+OK\n"),
        (b"orders:bar:0\n", b"+EMPTY\n"),
    )

    def test_talk(self) -> None:
        """The whole of it, command by command."""
        for request, answer in self.TALK:
            self.assertEqual(self.say(request), answer, request)

    def test_byte_by_byte(self) -> None:
        """However the bytes come, the answers are the same."""
        for size in (1, 3, 1000):
            self.start()
            data = b"".join(request for request, _ in self.TALK)
            for position in range(0, len(data), size):
                self.client.send_bytes(data[position : position + size])
            self.assertEqual(self.client.transport.value(), b"".join(answer for _, answer in self.TALK))
            self.assertEqual(self.served.capacity.budget.requests.used, 0)

    def test_trailer(self) -> None:
        """Who wants a line feed behind a payload gets one."""
        self.start(trailer="newline")
        self.assertEqual(self.say(b"TOPIC orders k 1\nxorders:g:0\n"), b"+OFFSET 0\n+MSG 0 1 0 k\nx\n")

    def test_unacknowledged(self) -> None:
        """What was not acknowledged comes again."""
        self.say(b"TOPIC orders k 1\nx")
        for _ in range(2):
            self.assertEqual(self.say(b"orders:g:0\n"), b"+MSG 0 1 0 k\nx")
        self.client.disconnect()
        self.client = Client(self.factory)
        self.assertEqual(self.say(b"orders:g:0\n"), b"+MSG 0 1 0 k\nx")

    def test_last_acknowledgement_wins(self) -> None:
        """Each of two consumers commits its own message."""
        self.say(b"".join(b"TOPIC orders k 1\n%d" % each for each in range(3)))
        first, second = Client(self.factory), Client(self.factory)
        self.say(b"orders:g:0\n", first)
        self.say(b"orders:g:0\n", second)
        self.say(b"ACK\n", first)
        self.assertEqual(self.say(b"ACK\n", first), b"+OK\n+MSG 2 1 0 k\n2")
        self.assertEqual(self.say(b"ACK\n", second), b"+OK\n+MSG 1 1 0 k\n1")
        self.assertEqual(self.say(b"orders:g:0\n"), b"+MSG 1 1 0 k\n1")

    def test_all_partitions(self) -> None:
        """Partitions are tried in order, from 0, each time."""
        self.create("orders", 3)
        for partition in (2, 1):
            self.append([b"%d" % partition] * 2, Codec.LZ4, partition)
        self.assertEqual(self.say(b"orders:g:-1\n"), b"+MSG 0 1 1 \n1")
        self.assertEqual(self.say(b"ACK\n"), b"+OK\n+MSG 1 1 1 \n1")
        self.append([b"0"], Codec.NONE, 0)
        self.assertEqual(self.say(b"ACK\n"), b"+OK\n+MSG 0 1 0 \n0")
        self.assertEqual(self.say(b"ACK\n"), b"+OK\n+MSG 0 1 2 \n2")
        self.assertEqual(self.say(b"ACK\n"), b"+OK\n+MSG 1 1 2 \n2")
        self.assertEqual(self.say(b"ACK\n"), b"+OK\n+EMPTY\n")

    def test_compressed_batch_is_read_once(self) -> None:
        """Who reads on through a batch does not have it decompressed again."""
        self.create("orders", 1)
        self.append([b"%d" % each for each in range(9)], Codec.ZSTD)
        opened: list[int] = []
        real = records.uncompressed
        self.patch(records, "uncompressed", lambda batch: (opened.append(1), real(batch))[1])
        self.say(b"orders:g:0\n")
        for each in range(1, 9):
            self.assertEqual(self.say(b"ACK\n"), b"+OK\n+MSG %d 1 0 \n%d" % (each, each))
        self.assertEqual(self.say(b"ACK\n"), b"+OK\n+EMPTY\n")
        self.assertEqual(len(opened), 1)

    def test_before_the_start(self) -> None:
        """An offset that is gone means the earliest one that is there."""
        self.say(b"".join(b"TOPIC orders k 1\n%d" % each for each in range(3)))
        store = self.served.store
        self.successResultOf(store.delete_records(store.partition("orders", 0), 2))
        self.assertEqual(self.say(b"orders:g:0\n"), b"+MSG 2 1 0 k\n2")


class RefusalTests(MinikafkaCase):
    def test_connection_goes_on(self) -> None:
        """What is refused is told, and the next command is understood."""
        self.start(topic_defaults=TopicConfig(max_message_bytes=100))
        self.say(b"TOPIC orders k 1\nx")
        for line, words in (
            (b"", "unknown command"),
            (b"HELLO", "unknown command"),
            (b"ACK 1", "unknown command"),
            (b"ACK", "no outstanding msg"),
            (b"orders:g", "bad format, expected topic:group:partition[:toOffset]"),
            (b"orders:g:0:1:2", "bad format, expected topic:group:partition[:toOffset]"),
            (b"orders::0", "bad format, expected topic:group:partition[:toOffset]"),
            (b"orders:my:group:0", "invalid partition number"),
            (b"orders:g:x", "invalid partition number"),
            (b"orders:g:-2", "invalid partition number"),
            (b"orders:g:1", "invalid partition number"),
            (b"orders:g:0:x", "invalid toOffset"),
            (b"orders:g:0:-1", "invalid toOffset"),
            (b"nothing:g:0", "topic not found"),
            (b"SET_OFFSET nothing:g 0", "topic not found"),
            (b"SET_OFFSET orders:g -1", "invalid offset format"),
            (b"SET_OFFSET orders:g 9223372036854775808", "invalid offset format"),
            (b"SET_OFFSET orders:g", "bad format, expected SET_OFFSET <topic>:<group> <offset|BEGIN>"),
            (b"\xff:g:0", "bad format, the line is not valid UTF-8"),
            (b"TOPIC orders a b 3\nACK", "bad format, expected TOPIC <topic> <key> <length>"),
            (b"TOPIC orders \xff 3\nACK", "bad format, the line is not valid UTF-8"),
            (
                b"TOPIC orders k 101\n" + b"x" * 101,
                "payload too large: 101 bytes exceed max.message.bytes=100",
            ),
            (b"TOPIC __consumer_offsets k 1\nx", "topic is internal: __consumer_offsets"),
        ):
            data = line if line.startswith(b"TOPIC") else line + b"\n"
            self.assertEqual(self.say(data), f"-ERR {words}\n".encode(), line)
        self.assertEqual(self.say(b"orders:g:0\n"), b"+MSG 0 1 0 k\nx")

    def test_out_of_step(self) -> None:
        """Where nobody knows what follows, the connection ends."""
        form = "bad format, expected TOPIC <topic> <key> <length>"
        for line, words in (
            (b"TOPIC", form),
            (b"TOPIC orders 5", form),
            (b"TOPIC orders k x", "invalid payload length"),
            (b"TOPIC orders k -1", "invalid payload length"),
            (b"TOPIC orders k %d" % (PASSED_OVER_BYTES_MAX + 1), "payload too large: "),
            (b"x" * 8193, "line too long, at most 8192 bytes are allowed"),
        ):
            self.start()
            answer = self.say(b"ACK\n" + line + b"\nACK\n")
            self.assertTrue(answer.startswith(f"-ERR no outstanding msg\n-ERR {words}".encode()), answer)
            self.assertEqual(answer.count(b"\n"), 2)
            self.assertTrue(self.client.transport.is_write_closed)

    def test_topics_are_not_made(self) -> None:
        """Where topics do not come into being by themselves, they do not here, either."""
        self.start(BrokerConfig(auto_create_topics_enable=False))
        self.assertEqual(self.say(b"TOPIC orders k 1\nx"), b"-ERR topic not found\n")

    def test_any_bytes(self) -> None:
        """Nothing that a client sends raises, and memory is given back."""
        words = st.sampled_from(
            [b"TOPIC ", b"orders", b" k ", b"3\n", b"ACK\n", b":g:", b"0\n", b"-1", b"SET_OFFSET ", b"\n"]
        )

        @settings(deadline=None, max_examples=150)
        @given(st.lists(words | st.binary(max_size=5), max_size=12))
        def check(parts: list[bytes]) -> None:
            client = Client(self.factory)
            for each in parts:
                client.send_bytes(each)
            client.disconnect()
            self.assertEqual(self.served.capacity.budget.requests.used, 0)
            self.assertNotIn(b"internal error", client.transport.value())

        check()
        self.assertEqual(self.flushLoggedErrors(), [])


class CodecTests(SynchronousTestCase):
    def test_partitions(self) -> None:
        """Keys are where Java's hash code puts them."""
        for key, hash_code in (
            ("", 0),
            ("a", 97),
            ("hello", 99162322),
            ("polygenelubricants", 0),
            ("\U0001f600", 1772899),
        ):
            self.assertEqual(partition_of(key, 1_000_003), hash_code % 1_000_003, key)

    def test_keys(self) -> None:
        """A key that would break the line is escaped."""
        for key, shown in ((b"a b%", b"a b%"), (b"a\n%", b"a%0A%25"), (b"\r", b"%0D"), (b"\xff ", b"%FF ")):
            self.assertEqual(shown_key(key), shown)

    def test_refusal_is_one_line(self) -> None:
        """Whatever it quotes."""
        self.assertEqual(codec.refusal("a\nb"), b"-ERR a b\n")
