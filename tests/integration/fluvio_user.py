"""
A user of the C{fluvio} package, in a process of its own that is asked with JSON lines.

The package holds Python's lock while it waits, so that a broker or another client in the same process
would never get their turn.  L{FluvioUser} is the side of the tests; this file, run as a program, the
other.

A request names a method of L{Actor}; the answer has its result, or as C{raised} what the package said.
"""

from __future__ import annotations

import json
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

Pair = tuple[bytes, bytes]
"""Key and value; the package always sends a key, if only an empty one."""

NO_KEY = b"No key"
"""What it shows in the place of one that is not there."""

_COMPRESSIONS = {"none": "None_", "gzip": "Gzip", "snappy": "Snappy", "lz4": "Lz4", "zstd": "Zstd"}


class Actor:
    """What the package does."""

    def __init__(self, endpoint: str, tls: dict[str, str] | None) -> None:
        import fluvio

        self._package = fluvio
        config = fluvio.FluvioConfig.new(endpoint)
        if tls is not None:
            config.set_tls_file_paths(tls["domain"], tls["key"], tls["certificate"], tls["authority"])
        self._fluvio = fluvio.Fluvio.connect_with_config(config)
        self._admin = fluvio.FluvioAdmin.connect_with_config(config)
        self._streams: dict[str, Any] = {}

    # -- topics --

    def create(self, topic: str, **how: Any) -> None:
        if not how:
            self._admin.create_topic(topic)
            return
        spec = self._package.TopicSpec.create()
        for name, value in how.items():
            if name == "assignment":
                maps = [self._package.PartitionMap.new(*each)._inner for each in value]
                spec = spec.with_assignment(maps)
            else:
                spec = getattr(spec, f"with_{name}")(value)
        self._admin.create_topic(topic, spec.build())

    def delete(self, topic: str) -> None:
        self._admin.delete_topic(topic)

    def list(self, *filters: str) -> list[str]:
        return [each.name() for each in self._admin.list_topics(list(filters))]

    def list_partitions(self) -> list[str]:
        return [each.name() for each in self._admin.list_partitions([])]

    def watch(self) -> list[Any]:
        """What is told next of topics: all that there are, and which are new or gone."""
        if "watch" not in self._streams:
            self._streams["watch"] = self._admin._inner.watch_topic()
        update = self._streams["watch"].next().inner()
        changes = [[each.is_update(), each.metadata_topic_spec().name()] for each in update.changes()]
        return [[each.name() for each in update.all()], changes]

    def create_smartmodule(self, name: str, path: str) -> None:
        self._admin.create_smartmodule(name, path, False)

    def list_smartmodules(self) -> list[str]:
        return [each.name() for each in self._admin.list_smartmodules([])]

    # -- producing --

    def produce(self, topic: str, pairs: list[list[str]], at_once: bool, **how: Any) -> list[Any]:
        """Partition and offset of each."""
        producer = self._fluvio.topic_producer_with_config(topic, self._producer_config(**how))
        decoded = [tuple(map(b64decode, each)) for each in pairs]
        if at_once:
            sent = producer.send_all(decoded)
        else:
            sent = [producer.send(key, value) for key, value in decoded]
        producer.flush()
        placed = [each.wait() for each in sent]
        return [[each.partition_id(), each.offset()] for each in placed]

    def produce_text(self, topic: str, texts: list[str]) -> list[int]:
        """The offsets."""
        producer = self._fluvio.topic_producer(topic)
        sent = [producer.send_string(each) for each in texts]
        producer.flush()
        return [each.wait().offset() for each in sent]

    def produce_much(self, topic: str, count: int, size: int, **how: Any) -> None:
        """Values of a size that begin with their number."""
        producer = self._fluvio.topic_producer_with_config(topic, self._producer_config(**how))
        last = None
        for first in range(0, count, 500):
            numbers = range(first, min(first + 500, count))
            last = producer.send_all([(b"", b"%d|" % each + b"x" * size) for each in numbers])
        producer.flush()
        assert last is not None
        last[-1].wait()

    def _producer_config(self, **how: Any) -> Any:
        builder = self._package.TopicProducerConfigBuilder()
        for name, value in how.items():
            if name == "compression":
                value = getattr(self._package.Compression, _COMPRESSIONS[value])
            if name == "isolation":
                value = getattr(self._package.Isolation, value)
            builder = getattr(builder, name)(value) or builder
        return builder.build()

    # -- consuming --

    def read(self, topic: str, partition: int, offset: list[Any], count: int) -> list[Any]:
        """Offset, key and value of each."""
        consumer = self._fluvio.partition_consumer(topic, partition)
        return [_shown(each) for each in islice(consumer.stream(self._offset(offset)), count)]

    def read_all_partitions(self, topic: str, count: int) -> list[Any]:
        consumer = self._fluvio.multi_partition_consumer(topic)
        return [_shown(each) for each in islice(consumer.stream(self._offset(["beginning"])), count)]

    def read_with_module(self, topic: str, module: str) -> list[Any]:
        config = self._package.ConsumerConfig()
        config.smartmodule(name=module)
        consumer = self._fluvio.partition_consumer(topic, 0)
        return [_shown(each) for each in consumer.stream_with_config(self._offset(["beginning"]), config)]

    def open(
        self,
        name: str,
        topic: str,
        offset: Sequence[Any] = ("beginning",),
        partition: int = 0,
        consumer: str | None = None,
        strategy: str = "NONE",
        max_bytes: int | None = None,
        continuous: bool = True,
    ) -> None:
        """Begin to consume; L{next} has what comes, under that name."""
        builder = self._package.ConsumerConfigExtBuilder(topic)
        builder.partition(partition)
        builder.offset_start(self._offset(offset))
        if consumer is not None:
            builder.offset_consumer(consumer)
        builder.offset_strategy(getattr(self._package.OffsetManagementStrategy, strategy))
        if max_bytes is not None:
            builder.max_bytes(max_bytes)
        if not continuous:
            builder.disable_continuous()
        self._streams[name] = self._fluvio.consumer_with_config(builder.build())

    def next(self, name: str, count: int) -> list[Any]:
        return [_shown(each) for each in islice(self._streams[name], count)]

    def count(self, name: str, count: int) -> list[Any]:
        """How many came, and whether they were in order, of what L{produce_much} has written."""
        seen = 0
        for each in islice(self._streams[name], count):
            number = int(bytes(each.value()).partition(b"|")[0])
            if number != seen:
                return [seen, False]
            seen += 1
        return [seen, True]

    def commit(self, name: str) -> None:
        self._streams[name].offset_commit()
        self._streams[name].offset_flush()

    def close(self, name: str) -> None:
        del self._streams[name]

    def offsets(self) -> list[Any]:
        return [
            [each.consumer_id, each.topic, each.partition, each.offset]
            for each in self._fluvio.consumer_offsets()
        ]

    def delete_offset(self, consumer: str, topic: str, partition: int) -> None:
        self._fluvio.delete_consumer_offset(consumer, topic, partition)

    def _offset(self, spec: Sequence[Any]) -> Any:
        name, *arguments = spec
        return getattr(self._package.Offset, name)(*arguments)


def _shown(record: Any) -> list[Any]:
    key, value = bytes(record.key()), bytes(record.value())
    return [record.offset(), b64encode(key).decode(), b64encode(value).decode()]


def _act(actor: Actor, request: dict[str, Any]) -> dict[str, Any]:
    try:
        method = getattr(actor, request.pop("do"))
        return {"result": {"value": method(*request.pop("args", ()), **request)}}
    except Exception as error:
        return {"result": {"raised": str(error)}}


def main() -> None:
    endpoint, tls = json.loads(sys.argv[1])
    actor = None
    for line in sys.stdin:
        if actor is None:
            actor = Actor(endpoint, tls)
        print(json.dumps(_act(actor, json.loads(line))), flush=True)


# -- the side of the tests -------------------------------------------------------------


class Raised(Exception):
    """What the package said."""


class FluvioUser:
    """Asks an L{Actor}; its methods are those of that."""

    def __init__(self, endpoint: str, tls: dict[str, str] | None = None) -> None:
        from tests.integration.drivers import Driver

        self._driver = Driver([sys.executable, __file__, json.dumps([endpoint, tls])])

    def close_process(self) -> None:
        self._driver.close()

    def ask(self, do: str, **request: Any) -> Any:
        self._driver.begin(do=do, **request)
        return self.finish()

    def begin_read(self, topic: str, count: int) -> None:
        """Begin to read from the beginning; L{finish} waits for it."""
        self._driver.begin(do="read", topic=topic, partition=0, offset=["beginning"], count=count)

    def finish(self) -> Any:
        """What was asked for last."""
        answer = self._driver.finish()
        if "raised" in answer:
            raise Raised(answer["raised"])
        return answer["value"]

    def __getattr__(self, do: str) -> Any:
        return lambda *args, **request: self.ask(do, args=args, **request)

    def produce(self, topic: str, pairs: Sequence[Pair], *, at_once: bool = True, **how: Any) -> list[Any]:
        """Partition and offset of each."""
        encoded = [[b64encode(part).decode() for part in each] for each in pairs]
        placed = self.ask("produce", topic=topic, pairs=encoded, at_once=at_once, **how)
        return [tuple(each) for each in placed]

    def read(
        self, topic: str, count: int, offset: Sequence[Any] = ("beginning",), partition: int = 0
    ) -> list[tuple[int, bytes, bytes]]:
        """Offset, key and value of each."""
        found = self.ask("read", topic=topic, partition=partition, offset=list(offset), count=count)
        return decoded(found)


def decoded(found: list[Any]) -> list[tuple[int, bytes, bytes]]:
    """Records, as they came through JSON."""
    return [(offset, b64decode(key), b64decode(value)) for offset, key, value in found]


@contextmanager
def fluvio_user(endpoint: str, tls: dict[str, str] | None = None) -> Iterator[FluvioUser]:
    """One that ends afterwards; where the package is not installed, the test is skipped."""
    import pytest

    if find_spec("fluvio") is None:
        pytest.skip("fluvio: there is no wheel of the package for this Python")
    user = FluvioUser(endpoint, tls)
    try:
        yield user
    finally:
        user.close_process()


if __name__ == "__main__":
    main()
