"""
A client of the Fluvio protocol without a network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from rustlog.broker import Broker
from rustlog.log.codecs import Codec
from rustlog.log.records import build as build_log_batch
from rustlog.log.records import decode
from rustlog.model import Appended, Record, TopicPartition
from rustlog.wire.fluvio import apis, batches
from rustlog.wire.fluvio.apis import Api
from rustlog.wire.fluvio.codec import decode_response, encode_request
from rustlog.wire.fluvio.controller import CreateRequest, DeleteRequest, WatchRequest
from rustlog.wire.fluvio.fetching import (
    StreamFetchRequest,
    StreamFetchResponse,
    StreamPosition,
    UpdateOffsetsRequest,
)
from rustlog.wire.fluvio.headers import encode_header
from rustlog.wire.fluvio.produce import PartitionRecords, ProduceRequest, TopicRecords
from rustlog.wire.fluvio.protocol import make_factory
from rustlog.wire.fluvio.settings import FluvioSettings
from rustlog.wire.fluvio.topics import ComputedReplicas, TopicSpec
from rustlog.wire.listener import Listener, Places
from tests.unit.wire.harness import CONTEXT, Client, World, frame, frames

NEWEST = {api: api.accepted[-1] for api in apis.APIS} | {apis.API_VERSIONS: 2}


def records_of(*values: bytes, codec: Codec = Codec.NONE) -> bytes:
    """A batch of Fluvio."""
    return batches.build([Record(each, timestamp=1000) for each in values], codec)


def produce_request(
    *entries: tuple[int, bytes], topic: str = "orders", acks: int = 1, **more: Any
) -> ProduceRequest:
    """For partitions of one topic."""
    records = tuple(PartitionRecords(index, each) for index, each in entries)
    return ProduceRequest((TopicRecords(topic, records),), acks, **more)


def values_of(response: StreamFetchResponse) -> list[tuple[int, bytes | None]]:
    """Offsets and values of what a stream has sent."""
    found = []
    for data in response.batches:
        for each in batches.split(data):
            base_offset = int.from_bytes(each[:8], "big")
            (batch,) = batches.to_log(each, 0)
            found += [(base_offset + index, record.value) for index, record in enumerate(decode(batch))]
    return found


class FluvioClient(Client):
    """One connection, seen from outside."""

    def __init__(self, factory: Any, buffer_size: int | None = None) -> None:
        super().__init__(factory, buffer_size)
        self.correlation_id = 0
        self.asked: dict[int, tuple[Api, int]] = {}

    def send_body(self, key: int, version: int, body: bytes, client_id: str = "fluvio") -> int:
        """Anything behind a header; its correlation id."""
        self.correlation_id += 1
        head = encode_header(key, version, self.correlation_id, client_id)
        self.send_bytes(frame(head + body))
        return self.correlation_id

    def encoded(self, api: Api, request: Any, version: int | None = None) -> bytes:
        """The frame of a request."""
        version = NEWEST[api] if version is None else version
        self.correlation_id += 1
        self.asked[self.correlation_id] = api, version
        head = encode_header(api.key, version, self.correlation_id, "fluvio")
        return frame(encode_request(api, version, request, head))

    def request(self, api: Api, request: Any, version: int | None = None) -> int:
        """Send it; its correlation id."""
        self.send_bytes(self.encoded(api, request, version))
        return self.correlation_id

    def received(self) -> list[tuple[int, Any]]:
        """Correlation ids and answers since the last call."""
        payloads = frames(self.transport.value())
        self.transport.clear()
        return [self._decode(each) for each in payloads]

    def _decode(self, payload: bytes) -> tuple[int, Any]:
        correlation_id = int.from_bytes(payload[:4], "big")
        api, version = self.asked[correlation_id]
        return correlation_id, decode_response(api, version, payload, 4)

    def one(self) -> Any:
        """The only answer."""
        ((_, response),) = self.received()
        return response

    def call(self, api: Api, request: Any, version: int | None = None) -> Any:
        """The answer, which must come at once."""
        self.request(api, request, version)
        return self.one()

    # -- what is asked most --

    def produce(self, *values: bytes, partition: int = 0, **more: Any) -> Any:
        """What became of one batch."""
        request = produce_request((partition, records_of(*values)), **more)
        return self.call(apis.PRODUCE, request).topics[0].partitions[0]

    def stream(self, offset: int = 0, topic: str = "orders", partition: int = 0, **more: Any) -> int:
        """Open a stream; its correlation id."""
        return self.request(apis.STREAM_FETCH, StreamFetchRequest(topic, partition, offset, **more))

    def acknowledge(self, offset: int, stream_id: int) -> int:
        """Say how far a stream was read; the id of that request."""
        position = StreamPosition(offset, stream_id)
        return self.request(apis.UPDATE_OFFSETS, UpdateOffsetsRequest((position,)))

    def watch(self, label: str) -> int:
        """Begin to watch; its correlation id."""
        return self.request(apis.WATCH, WatchRequest(label))

    def create(self, name: str, partitions: int = 1, **more: Any) -> int:
        """Ask for a topic."""
        spec = TopicSpec(ComputedReplicas(partitions))
        return self.request(apis.CREATE, CreateRequest("Topic", name, spec, **more))

    def delete(self, name: str) -> int:
        """Ask for a topic to go."""
        return self.request(apis.DELETE, DeleteRequest("Topic", name))


class FluvioWorld(World):
    """A broker with one listener of the Fluvio protocol."""

    def __init__(
        self,
        *arguments: Any,
        settings: FluvioSettings | None = None,
        make: Callable[[Listener], Any] = make_factory,
        places: Places | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*arguments, **more)
        self.listener = evolve(
            self.listener, settings=settings or FluvioSettings(), places=places or Places()
        )
        self.fluvio = make(self.listener)

    def fluvio_client(self, buffer_size: int | None = None) -> FluvioClient:
        return FluvioClient(self.fluvio, buffer_size)


def append(
    broker: Broker,
    *values: bytes | None,
    topic: str = "orders",
    partition: int = 0,
    codec: Codec = Codec.NONE,
) -> None:
    """What another protocol produces: one batch."""
    batch = build_log_batch([Record(each) for each in values], now_ms=1, codec=codec)
    (answer,) = broker.produce(CONTEXT, [(TopicPartition(topic, partition), batch)])  # type: ignore[misc]
    assert isinstance(answer, Appended), answer


class FluvioCase(SynchronousTestCase):
    """A broker with a topic C{orders} of two partitions, and a client."""

    def setUp(self) -> None:
        self.start()

    def start(self, *arguments: Any, **more: Any) -> None:
        self.world = FluvioWorld(*arguments, **more)
        self.clock = self.world.clock
        self.world.create("orders", 2)
        self.client = self.world.fluvio_client()

    def append(self, *values: bytes | None, **more: Any) -> None:
        append(self.world.broker, *values, **more)
        self.clock.advance(0)

    def assert_nothing_held(self) -> None:
        """No memory is taken, and nothing will happen by itself."""
        self.clock.advance(0)
        budget = self.world.capacity.budget
        self.assertEqual((budget.requests.used, budget.answers.used), (0, 0))
        self.assertEqual(self.clock.getDelayedCalls(), [])
