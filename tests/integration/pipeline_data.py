"""What the tests of the pipeline send, and how they look at what came."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from random import Random

from attrs import frozen
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.daemon import PATIENCE_SECONDS

START_MS = 1_793_000_000_000
HOUR_MS = 60 * 60 * 1000


@frozen
class Seen:
    """One record, as a client of Kafka sees it."""

    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@frozen
class Cluster:
    """Topics of one broker."""

    servers: str

    def create(self, topic: str, partitions: int) -> None:
        client = AdminClient({"bootstrap.servers": self.servers})  # Its answers die with it.
        for each in client.create_topics([NewTopic(topic, partitions)]).values():
            each.result(PATIENCE_SECONDS)

    def fill(self, topic: str, count: int, first: int = 0, hours: int = 60, codec: str = "none") -> None:
        """Send records of all kinds, spread over some hours, most of them in order."""
        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "linger.ms": 5,
                "batch.num.messages": 500,
                "compression.type": codec,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        random = Random(first)
        for number in range(first, first + count):
            key = None if random.random() < 0.05 else b"key %d" % random.randrange(max(1, count // 20))
            value = b'{"customer": "c%d", "n": %d}' % (random.randrange(40), number)
            value += b" " * random.randrange(60)
            # Some come late: their day is not that of their neighbours.
            late_ms = 30 * HOUR_MS if random.random() < 0.001 else random.randrange(2_000)
            moment = START_MS + (number - first) * hours * HOUR_MS // count - late_ms
            headers = [("trace", b"%d" % number), ("empty", b""), ("null", None)] if number % 9 == 0 else []
            while True:
                try:
                    producer.produce(
                        topic,
                        None if random.random() < 0.02 and key else value,
                        key,
                        timestamp=moment,
                        headers=headers,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 1000 == 0:
                producer.poll(0)
        assert producer.flush(PATIENCE_SECONDS * 10) == 0

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """What a consumer does now and then."""
        consumer = self._consumer(group)
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        consumer.commit(offsets=wanted, asynchronous=False)
        consumer.close()

    def ends(self, topic: str) -> dict[int, int]:
        """Where the partitions of a topic end; nothing, if there is none."""
        consumer = self._consumer("nobody")
        try:
            found = consumer.list_topics(topic, PATIENCE_SECONDS).topics[topic]
            return {
                each: consumer.get_watermark_offsets(TopicPartition(topic, each), PATIENCE_SECONDS)[1]
                for each in found.partitions
            }
        finally:
            consumer.close()

    def read(self, topic: str, partition: int) -> Iterator[Seen]:
        """Everything that a partition has, in its order."""
        consumer = self._consumer("nobody")
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE_SECONDS)
        consumer.assign([TopicPartition(topic, partition, low)])
        following = low
        while following < high:
            messages = consumer.consume(min(10_000, high - following), PATIENCE_SECONDS)
            assert messages, f"{topic}-{partition} does not go on at {following} of {high}"
            for message in messages:
                assert message.error() is None, message.error()
                following = message.offset() + 1
                yield Seen(
                    message.offset(),
                    message.timestamp(),
                    message.key(),
                    message.value(),
                    tuple(message.headers() or ()),
                )
        consumer.close()

    def everything(self, topic: str) -> dict[int, list[Seen]]:
        return {each: list(self.read(topic, each)) for each in self.ends(topic)}

    def digests(self, topic: str) -> dict[int, tuple[int, str]]:
        """How many records each partition has, and a digest of all that they are."""
        found = {}
        for partition in self.ends(topic):
            digest, count = sha256(), 0
            for each in self.read(topic, partition):
                digest.update(repr(each).encode())
                count += 1
            found[partition] = (count, digest.hexdigest())
        return found

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": 4_000_000,
            }
        )


def by_key(records: dict[int, list[Seen]]) -> dict[bytes | None, list[bytes | None]]:
    """The values of each key, in the order in which a partition has them."""
    found: dict[bytes | None, list[bytes | None]] = defaultdict(list)
    for partition in sorted(records):
        for each in records[partition]:
            found[each.key].append(each.value)
    return found
