"""
A client of the Kafka protocol without a network.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from rustlog.log.batch import RecordBatch
from rustlog.log.codecs import Codec
from rustlog.log.records import build
from rustlog.model import Record
from rustlog.wire.kafka import fetch, produce
from rustlog.wire.kafka.apis import APIS
from rustlog.wire.kafka.fetch import FetchRequest, FetchResponse, PartitionWant, TopicWant
from rustlog.wire.kafka.headers import encode_header
from rustlog.wire.kafka.primitives import joined
from rustlog.wire.kafka.produce import ProduceRequest, ProduceResponse, TopicRecords
from rustlog.wire.kafka.protocol import make_factory
from rustlog.wire.kafka.schema import Entity, decode, encode, make, request_class, response_class
from rustlog.wire.kafka.settings import KafkaSettings
from tests.unit.wire.harness import Client, World, frame, frames


def batch_of(*values: bytes | None, codec: Codec = Codec.NONE, **more: Any) -> bytes:
    """A record batch."""
    batch: RecordBatch = build(map(Record, values), now_ms=1000, codec=codec, **more)
    return bytes(batch.buffer)


def produce_request(
    records: bytes | None, topic: str = "orders", partition: int = 0, acks: int = -1
) -> ProduceRequest:
    """One for one partition."""
    return ProduceRequest(None, acks, 1000, [TopicRecords(topic, None, [(partition, records)])])


def fetch_request(offset: int = 0, topic: str = "orders", partition: int = 0, **more: Any) -> FetchRequest:
    """The same."""
    want = PartitionWant(partition, offset, 2**20)
    values = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 2**20, "isolation_level": 0, **more}
    return FetchRequest(topics=[TopicWant(topic, None, [want])], **values)


class KafkaClient(Client):
    """One connection, seen from outside."""

    def __init__(self, factory: Any, buffer_size: int | None = None) -> None:
        super().__init__(factory, buffer_size)
        self.correlation_id = 0
        self.expected: list[tuple[int, int, int]] = []

    def send_body(self, key: int, version: int, body: bytes, client_id: str = "test") -> None:
        self.correlation_id += 1
        is_flexible = APIS[key].codec.is_flexible(APIS[key], version)
        head = encode_header(key, version, self.correlation_id, client_id, is_flexible)
        self.expected.append((self.correlation_id, key, version))
        self.send_bytes(frame(head + body))

    def send_entity(self, key: int, version: int, **fields: Any) -> None:
        """A request of the control plane."""
        self.send_body(key, version, encode(make(request_class(key, version), **fields)))

    def send_produce(self, request: ProduceRequest, version: int = 9) -> None:
        self.send_body(produce.KEY, version, joined(produce.encode_request(version, request)))
        if request.acks == 0:
            self.expected.pop()

    def send_fetch(self, request: FetchRequest, version: int = 12) -> None:
        self.send_body(fetch.KEY, version, fetch.encode_request(version, request))

    def received(self) -> list[Any]:
        """The responses since the last call, which must be those to the oldest requests."""
        payloads = frames(self.transport.value())
        self.transport.clear()
        return [self._decode(each) for each in payloads]

    def _decode(self, payload: bytes) -> Any:
        correlation_id, key, version = self.expected.pop(0)
        api = APIS[key]
        assert int.from_bytes(payload[:4], "big") == correlation_id
        begin = 5 if api.codec.answers_flexibly(api, version) else 4
        if key == produce.KEY:
            return produce.decode_response(version, payload, begin)
        if key == fetch.KEY:
            return fetch.decode_response(version, payload, begin)
        return decode(response_class(key, version), payload, begin)

    def one(self) -> Any:
        """The only response."""
        (response,) = self.received()
        return response

    def ask_entity(self, key: int, version: int, **fields: Any) -> Entity:
        self.send_entity(key, version, **fields)
        return self.one()

    def produce(self, records: bytes | None, version: int = 9, **more: Any) -> ProduceResponse:
        self.send_produce(produce_request(records, **more), version)
        response: ProduceResponse = self.one()
        return response

    def fetch(self, offset: int = 0, version: int = 12, **more: Any) -> FetchResponse:
        self.send_fetch(fetch_request(offset, **more), version)
        response: FetchResponse = self.one()
        return response


class KafkaWorld(World):
    """A broker with one listener of the Kafka protocol."""

    def __init__(self, *arguments: Any, settings: KafkaSettings | None = None, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.listener = evolve(self.listener, settings=settings or KafkaSettings())
        self.kafka = make_factory(self.listener)

    def kafka_client(self, buffer_size: int | None = None) -> KafkaClient:
        return KafkaClient(self.kafka, buffer_size)
