"""What real clients sent is understood, byte for byte, and answered."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.kafka import fetch, produce
from rustlog.wire.kafka.apis import APIS
from rustlog.wire.kafka.headers import encode_header, read_header
from rustlog.wire.kafka.primitives import joined
from rustlog.wire.kafka.schema import decode, encode, request_class
from tests.captures import captured
from tests.unit.wire.harness import frame, frames
from tests.unit.wire.kafka.client import KafkaWorld

REQUESTS = list(captured())


class CaptureTests(SynchronousTestCase):
    def test_there_are_some(self) -> None:
        """Every client has sent what it takes to write and to read."""
        clients = {client for client, _ in REQUESTS}
        self.assertEqual(clients, {"aiokafka", "confluent", "idempotentconfluent", "kafkapython", "kcat"})
        for client in clients:
            keys = {read_header(payload).key for name, payload in REQUESTS if name == client}
            self.assertLessEqual({0, 1, 3, 18}, keys, client)

    def test_understood(self) -> None:
        """Each request, once understood, makes the same bytes again."""
        for client, payload in REQUESTS:
            header = read_header(payload)
            api = APIS[header.key]
            is_flexible = api.codec.is_flexible(api, header.version)
            begin = header.body_begins(payload, is_flexible)
            head = encode_header(
                header.key, header.version, header.correlation_id, header.client_id.decode(), is_flexible
            )
            self.assertEqual(payload[:begin], head, client)
            self.assertEqual(payload[begin:], self.again(header.key, header.version, payload, begin), client)

    def again(self, key: int, version: int, payload: bytes, begin: int) -> bytes:
        if key == produce.KEY:
            return joined(produce.encode_request(version, produce.decode_request(version, payload, begin)))
        if key == fetch.KEY:
            return fetch.encode_request(version, fetch.decode_request(version, payload, begin))
        return encode(decode(request_class(key, version), payload, begin))

    def test_answered(self) -> None:
        """Each is answered, under the number that it gave itself, and the connection goes on."""
        for client, payload in REQUESTS:
            world = KafkaWorld()
            user = world.kafka_client()
            user.send_bytes(frame(payload))
            world.clock.advance(60)
            (answer,) = frames(user.transport.value())
            self.assertEqual(answer[:4], payload[4:8], client)
            self.assertFalse(user.transport.disconnecting or user.transport.is_write_closed, client)
