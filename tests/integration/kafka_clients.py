"""
Real clients of the Kafka protocol, each behind the same few methods, with explicit partitions.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Sequence
from itertools import islice
from typing import Any

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioPartitions
from aiokafka.admin import NewTopic as AioTopic
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioType
from attrs import define, frozen
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType as PythonType

from tests.integration.daemon import PATIENCE_SECONDS
from tests.integration.toolchains import kcat

MESSAGE_BYTES_MAX = 8_000_000
Step = tuple[int, int]
"""An offset, and how many messages are read from there."""


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
    @cvar is_always_idempotent: it need not be asked to.
    @cvar can_administer: it has requests to make and change topics.
    """

    compressions = ("none", "gzip", "snappy", "lz4", "zstd")
    can_leave_values_out = True
    is_always_idempotent = False
    can_administer = True

    server: str

    @staticmethod
    def command() -> tuple[str, ...]:
        """
        How to run it, if it is a program.

        @raise Missing: it can not be run here.
        """
        return ()

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        compression: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        """The offsets of what was written."""
        raise NotImplementedError

    def read(self, topic: str, steps: Sequence[Step], *, partition: int = 0) -> list[list[Message]]:
        """With one consumer, for each step: seek an offset, and read so many messages."""
        raise NotImplementedError

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        """So many messages from an offset on."""
        (found,) = self.read(topic, [(offset, count)], partition=partition)
        return found

    def offset_for_time(self, topic: str, timestamp: int) -> int:
        """Where the first message of partition 0 is that is not older; -1 if there is none."""
        raise NotImplementedError

    def administer(self, topic: str) -> dict[str, Any]:
        """
        Make a topic with 2 partitions and C{retention.ms} 5000, set C{segment.ms} to 7000, let it have 3
        partitions, delete it; what was seen meanwhile, under the names of L{ADMINISTERED}.
        """
        raise NotImplementedError


ADMINISTERED = {
    "partitions": 2,
    "retention.ms": "5000",
    "segment.ms": "7000",
    "partitions after growth": 3,
    "listed": True,
    "listed after deletion": False,
}


class Confluent(KafkaUser):
    """librdkafka."""

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        compression: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        offsets: dict[int, int] = {}
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.server,
                "compression.type": compression,
                "message.max.bytes": MESSAGE_BYTES_MAX,
                "linger.ms": 5,
                "enable.idempotence": idempotent,
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

    def _consumer(self) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.server,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "check.crcs": True,
                "fetch.message.max.bytes": MESSAGE_BYTES_MAX,
            }
        )

    def read(self, topic: str, steps: Sequence[Step], *, partition: int = 0) -> list[list[Message]]:
        consumer = self._consumer()
        results: list[list[Message]] = []
        for offset, count in steps:
            place = confluent_kafka.TopicPartition(topic, partition, offset)
            if results:
                consumer.seek(place)
            else:
                consumer.assign([place])
            found = consumer.consume(count, PATIENCE_SECONDS)
            for each in found:
                assert each.error() is None, each.error()
            results.append([self._message(each) for each in found])
        consumer.close()
        return results

    @staticmethod
    def _message(found: confluent_kafka.Message) -> Message:
        return Message(found.value(), found.key(), tuple(found.headers() or ()), found.offset())

    def offset_for_time(self, topic: str, timestamp: int) -> int:
        consumer = self._consumer()
        wanted = confluent_kafka.TopicPartition(topic, 0, timestamp)
        (found,) = consumer.offsets_for_times([wanted], PATIENCE_SECONDS)
        consumer.close()
        # It says "the end" where there is none.
        return -1 if found.offset == confluent_kafka.OFFSET_END else int(found.offset)

    def administer(self, topic: str) -> dict[str, Any]:
        admin = AdminClient({"bootstrap.servers": self.server})

        def do(futures: dict[Any, Any]) -> Any:
            (future,) = futures.values()
            return future.result(PATIENCE_SECONDS)

        def setting(name: str) -> str:
            entries = do(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))
            return str(entries[name].value)

        def partitions() -> int:
            return len(admin.list_topics(topic, PATIENCE_SECONDS).topics[topic].partitions)

        def is_listed() -> bool:
            return topic in admin.list_topics(timeout=PATIENCE_SECONDS).topics

        do(admin.create_topics([NewTopic(topic, 2, config={"retention.ms": "5000"})]))
        seen: dict[str, Any] = {"partitions": partitions(), "retention.ms": setting("retention.ms")}
        change = ConfigEntry("segment.ms", "7000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
        do(admin.incremental_alter_configs([resource]))
        seen["segment.ms"] = setting("segment.ms")
        do(admin.create_partitions([NewPartitions(topic, 3)]))
        seen |= {"partitions after growth": partitions(), "listed": is_listed()}
        do(admin.delete_topics([topic]))
        seen["listed after deletion"] = is_listed()
        return seen


class Aiokafka(KafkaUser):
    """aiokafka."""

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        compression: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        return asyncio.run(self._produce(topic, messages, partition, compression, idempotent))

    async def _produce(
        self, topic: str, messages: Sequence[Message], partition: int, compression: str, idempotent: bool
    ) -> list[int]:
        producer = AIOKafkaProducer(
            enable_idempotence=idempotent,
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

    def read(self, topic: str, steps: Sequence[Step], *, partition: int = 0) -> list[list[Message]]:
        return asyncio.run(self._read(AioTopicPartition(topic, partition), steps))

    def _consumer(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=self.server, group_id=None, max_partition_fetch_bytes=MESSAGE_BYTES_MAX
        )

    async def _read(self, place: AioTopicPartition, steps: Sequence[Step]) -> list[list[Message]]:
        results = []
        async with self._consumer() as consumer:
            consumer.assign([place])
            for offset, count in steps:
                consumer.seek(place, offset)
                found = [await asyncio.wait_for(consumer.getone(), PATIENCE_SECONDS) for _ in range(count)]
                results.append(
                    [Message(each.value, each.key, tuple(each.headers), each.offset) for each in found]
                )
        return results

    def offset_for_time(self, topic: str, timestamp: int) -> int:
        async def ask() -> int:
            place = AioTopicPartition(topic, 0)
            async with self._consumer() as consumer:
                found = (await consumer.offsets_for_times({place: timestamp}))[place]
            return -1 if found is None else int(found.offset)

        return asyncio.run(ask())

    def administer(self, topic: str) -> dict[str, Any]:
        return asyncio.run(self._administer(topic))

    async def _administer(self, topic: str) -> dict[str, Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.server)
        await admin.start()

        async def setting(name: str) -> str:
            (shown,) = await admin.describe_configs([AioResource(AioType.TOPIC, topic)])
            return str({entry[0]: entry[1] for entry in shown.resources[0][4]}[name])

        async def partitions() -> int:
            (found,) = await admin.describe_topics([topic])
            return len(found["partitions"])

        await admin.create_topics([AioTopic(topic, 2, 1, topic_configs={"retention.ms": "5000"})])
        seen = {"partitions": await partitions(), "retention.ms": await setting("retention.ms")}
        await admin.alter_configs([AioResource(AioType.TOPIC, topic, configs={"segment.ms": "7000"})])
        seen["segment.ms"] = await setting("segment.ms")
        await admin.create_partitions({topic: AioPartitions(3)})
        seen["partitions after growth"] = await partitions()
        seen["listed"] = topic in await admin.list_topics()
        await admin.delete_topics([topic])
        seen["listed after deletion"] = topic in await admin.list_topics()
        await admin.close()
        return seen


class KafkaPython(KafkaUser):
    """kafka-python."""

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        compression: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=self.server,
            enable_idempotence=idempotent,
            compression_type=None if compression == "none" else compression,
            max_request_size=MESSAGE_BYTES_MAX,
        )
        sent = [
            producer.send(topic, each.value, each.key, list(each.headers), partition) for each in messages
        ]
        offsets = [each.get(PATIENCE_SECONDS).offset for each in sent]
        producer.close()
        return offsets

    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.server,
            group_id=None,
            consumer_timeout_ms=PATIENCE_SECONDS * 1000,
            max_partition_fetch_bytes=MESSAGE_BYTES_MAX,
        )

    def read(self, topic: str, steps: Sequence[Step], *, partition: int = 0) -> list[list[Message]]:
        consumer = self._consumer()
        place = PythonTopicPartition(topic, partition)
        consumer.assign([place])
        results = []
        for offset, count in steps:
            consumer.seek(place, offset)
            found = islice(consumer, count)
            results.append(
                [Message(each.value, each.key, tuple(each.headers), each.offset) for each in found]
            )
        consumer.close()
        return results

    def offset_for_time(self, topic: str, timestamp: int) -> int:
        consumer = self._consumer()
        place = PythonTopicPartition(topic, 0)
        found = consumer.offsets_for_times({place: timestamp})[place]
        consumer.close()
        return -1 if found is None else int(found.offset)

    def administer(self, topic: str) -> dict[str, Any]:
        admin = KafkaAdminClient(bootstrap_servers=self.server)

        def setting(name: str) -> str:
            shown = admin.describe_configs([PythonResource(PythonType.TOPIC, topic)], config_filter="all")
            return str(shown["topic"][topic][name]["value"])

        def partitions() -> int:
            (found,) = admin.describe_topics([topic])
            return len(found["partitions"])

        admin.create_topics({topic: {"num_partitions": 2, "configs": {"retention.ms": "5000"}}})
        seen: dict[str, Any] = {"partitions": partitions(), "retention.ms": setting("retention.ms")}
        admin.alter_configs([PythonResource(PythonType.TOPIC, topic, configs={"segment.ms": "7000"})])
        seen["segment.ms"] = setting("segment.ms")
        admin.create_partitions({topic: 3})
        seen |= {"partitions after growth": partitions(), "listed": topic in admin.list_topics()}
        admin.delete_topics([topic])
        seen["listed after deletion"] = topic in admin.list_topics()
        admin.close()
        return seen


class Kcat(KafkaUser):
    """kcat; it has one value a line, and says of offsets only where messages are found."""

    can_leave_values_out = False
    can_administer = False

    @staticmethod
    def command() -> tuple[str, ...]:
        return kcat()

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        compression: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        for each in messages:
            assert each.value is not None
            headers = [f"-H{name}={(value or b'').decode()}" for name, value in each.headers]
            key = b"" if each.key is None else each.key + b"|"
            with_key = [] if each.key is None else ["-K|"]
            self._run(
                "-P", "-t", topic, "-p", str(partition), "-z", compression, *with_key, *headers,
                "-X", f"enable.idempotence={str(idempotent).lower()}",
                "-X", f"message.max.bytes={MESSAGE_BYTES_MAX}",
                input=key + each.value,
            )  # fmt: skip
        end = self._query(topic, partition, -1)
        return list(range(end - len(messages), end))

    def _query(self, topic: str, partition: int, timestamp: int) -> int:
        found = self._run("-Q", "-t", f"{topic}:{partition}:{timestamp}").decode()
        return int(found.rsplit(" ", 1)[-1])

    def read(self, topic: str, steps: Sequence[Step], *, partition: int = 0) -> list[list[Message]]:
        return [self._read(topic, partition, offset, count) for offset, count in steps]

    def _read(self, topic: str, partition: int, offset: int, count: int) -> list[Message]:
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

    def offset_for_time(self, topic: str, timestamp: int) -> int:
        return self._query(topic, 0, timestamp)

    def _run(self, *arguments: str, input: bytes = b"") -> bytes:
        done = subprocess.run(
            [*self.command(), "-b", self.server, *arguments],
            input=input,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


def _pairs(flat: list[str]) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, value.encode()) for name, value in zip(flat[::2], flat[1::2], strict=True))


CLIENTS: tuple[type[KafkaUser], ...] = (Confluent, Aiokafka, KafkaPython, Kcat)
