"""
Real clients of the Kafka protocol, each behind the same few methods, with explicit partitions.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from attrs import define, frozen
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

from tests.integration.daemon import PATIENCE_SECONDS

MESSAGE_BYTES_MAX = 8_000_000


@frozen
class Message:
    """What is written, and read again; C{offset} is where it was found."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1


@define
class KafkaUser:
    """
    Writes and reads.

    @cvar compressions: those that it can do with what is installed.
    """

    compressions = ("none", "gzip", "snappy", "lz4", "zstd")
    can_leave_values_out = True

    server: str

    def produce(
        self, topic: str, messages: Sequence[Message], *, partition: int = 0, compression: str = "none"
    ) -> list[int]:
        """The offsets of what was written."""
        raise NotImplementedError

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        """So many messages from an offset on."""
        raise NotImplementedError


class Confluent(KafkaUser):
    """librdkafka."""

    settings: dict[str, Any] = {}

    def produce(
        self, topic: str, messages: Sequence[Message], *, partition: int = 0, compression: str = "none"
    ) -> list[int]:
        offsets: dict[int, int] = {}
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.server,
                "compression.type": compression,
                "message.max.bytes": MESSAGE_BYTES_MAX,
                "linger.ms": 5,
                **self.settings,
            }
        )
        for index, each in enumerate(messages):

            def delivered(error: Any, message: Any, index: int = index) -> None:
                assert error is None, error
                offsets[index] = message.offset()

            producer.produce(
                topic,
                value=each.value,
                key=each.key,
                headers=list(each.headers),
                partition=partition,
                on_delivery=delivered,
            )
        assert producer.flush(PATIENCE_SECONDS) == 0, "not everything was acknowledged"
        return [offsets[index] for index in range(len(messages))]

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.server,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "check.crcs": True,
                "fetch.message.max.bytes": MESSAGE_BYTES_MAX,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
        found = consumer.consume(count, PATIENCE_SECONDS)
        consumer.close()
        for each in found:
            assert each.error() is None, each.error()
        return [
            Message(each.value(), each.key(), tuple(each.headers() or ()), each.offset()) for each in found
        ]


class IdempotentConfluent(Confluent):
    """The same, with sequence numbers."""

    settings = {"enable.idempotence": True}


class Aiokafka(KafkaUser):
    """aiokafka."""

    def produce(
        self, topic: str, messages: Sequence[Message], *, partition: int = 0, compression: str = "none"
    ) -> list[int]:
        return asyncio.run(self._produce(topic, messages, partition, compression))

    async def _produce(
        self, topic: str, messages: Sequence[Message], partition: int, compression: str
    ) -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.server,
            compression_type=None if compression == "none" else compression,
            max_request_size=MESSAGE_BYTES_MAX,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic, each.value, each.key, partition=partition, headers=list(each.headers)
                )
                for each in messages
            ]
            return [(await each).offset for each in sent]
        finally:
            await producer.stop()

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        return asyncio.run(self._consume(topic, count, partition, offset))

    async def _consume(self, topic: str, count: int, partition: int, offset: int) -> list[Message]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.server, group_id=None, max_partition_fetch_bytes=MESSAGE_BYTES_MAX
        )
        await consumer.start()
        try:
            place = AioTopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            found = [await asyncio.wait_for(consumer.getone(), PATIENCE_SECONDS) for _ in range(count)]
            return [Message(each.value, each.key, tuple(each.headers), each.offset) for each in found]
        finally:
            await consumer.stop()


class KafkaPython(KafkaUser):
    """kafka-python."""

    compressions = ("none", "gzip")

    def produce(
        self, topic: str, messages: Sequence[Message], *, partition: int = 0, compression: str = "none"
    ) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=self.server,
            compression_type=None if compression == "none" else compression,
            max_request_size=MESSAGE_BYTES_MAX,
        )
        sent = [
            producer.send(topic, each.value, each.key, list(each.headers), partition) for each in messages
        ]
        offsets = [each.get(PATIENCE_SECONDS).offset for each in sent]
        producer.close()
        return offsets

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        consumer = KafkaConsumer(
            bootstrap_servers=self.server,
            group_id=None,
            consumer_timeout_ms=PATIENCE_SECONDS * 1000,
            max_partition_fetch_bytes=MESSAGE_BYTES_MAX,
        )
        place = PythonTopicPartition(topic, partition)
        consumer.assign([place])
        consumer.seek(place, offset)
        found = []
        for each in consumer:
            found.append(Message(each.value, each.key, tuple(each.headers), each.offset))
            if len(found) == count:
                break
        consumer.close()
        return found


class Kcat(KafkaUser):
    """kcat; it has one value a line, and says of offsets only where messages are found."""

    can_leave_values_out = False

    @staticmethod
    def is_installed() -> bool:
        return shutil.which("kcat") is not None

    def produce(
        self, topic: str, messages: Sequence[Message], *, partition: int = 0, compression: str = "none"
    ) -> list[int]:
        for each in messages:
            assert each.value is not None
            headers = [f"-H{name}={(value or b'').decode()}" for name, value in each.headers]
            key = b"" if each.key is None else each.key + b"|"
            with_key = [] if each.key is None else ["-K|"]
            self._run(
                "-P", "-t", topic, "-p", str(partition), "-z", compression, *with_key, *headers,
                input=key + each.value,
            )  # fmt: skip
        end = self._end(topic, partition)
        return list(range(end - len(messages), end))

    def _end(self, topic: str, partition: int) -> int:
        found = self._run("-Q", "-t", f"{topic}:{partition}:-1").decode()
        return int(found.rsplit(" ", 1)[-1])

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        output = self._run(
            "-C", "-t", topic, "-p", str(partition), "-o", str(offset), "-c", str(count), "-e", "-J"
        )
        found = [json.loads(line) for line in output.splitlines()]
        return [
            Message(
                each["payload"].encode(),
                None if each["key"] is None else each["key"].encode(),
                _pairs(each.get("headers", [])),
                each["offset"],
            )
            for each in found
        ]

    def _run(self, *arguments: str, input: bytes = b"") -> bytes:
        done = subprocess.run(
            ["kcat", "-b", self.server, "-X", "broker.address.family=v4", *arguments],
            input=input,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


def _pairs(flat: list[str]) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, value.encode()) for name, value in zip(flat[::2], flat[1::2], strict=True))


CLIENTS: tuple[type[KafkaUser], ...] = (Confluent, IdempotentConfluent, Aiokafka, KafkaPython, Kcat)
