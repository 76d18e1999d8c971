"""
A broker, a listener and clients without a network.
"""

from __future__ import annotations

import json
from struct import pack, unpack_from
from typing import Any

from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from rustlog.interfaces import ILogStore
from rustlog.observability.requests import RequestLog
from rustlog.offsets.memory import MemoryOffsets
from rustlog.settings import BrokerConfig, TopicConfig
from rustlog.storage.memory import MemorySettings, MemoryStore
from rustlog.testing.broker import CONTEXT, TestBroker
from rustlog.testing.environment import SimulatedEnvironment, memory_environment
from rustlog.wire.factory import ConnectionFactory
from rustlog.wire.rustlog.protocol import make_factory

__all__ = ["CONTEXT", "Client", "FakeTransport", "World", "fetch", "frame", "frames", "produce"]


def frame(payload: bytes) -> bytes:
    """The payload behind its length."""
    return pack("!I", len(payload)) + payload


def frames(data: bytes) -> list[bytes]:
    """The payloads of whole frames, back to back."""
    payloads, position = [], 0
    while position < len(data):
        (length,) = unpack_from("!I", data, position)
        position += 4
        assert position + length <= len(data), "the last frame is not whole"
        payloads.append(data[position : position + length])
        position += length
    return payloads


@implementer(ITCPTransport)
class FakeTransport(StringTransport):
    """
    A TCP transport that remembers what was done to it.  With C{buffer_size}, it takes that much
    until L{client_reads}, then calls itself full, as real ones do.
    """

    def __init__(self, buffer_size: int | None = None) -> None:
        super().__init__(lenient=True)
        self.buffer_size = buffer_size
        self.unread = 0
        self.no_delay = False
        self.is_write_closed = False

    def write(self, data: bytes) -> None:
        super().write(data)
        self.unread += len(data)
        if self.buffer_size is not None and self.unread > self.buffer_size and self.producer is not None:
            self.producer.pauseProducing()

    def client_reads(self) -> None:
        """The client has read all that was written."""
        self.unread = 0
        if self.producer is not None:
            self.producer.resumeProducing()

    def setTcpNoDelay(self, enabled: bool) -> None:
        self.no_delay = enabled

    def loseWriteConnection(self) -> None:
        assert self.producer is None, "a real transport would wait for its producer"
        self.is_write_closed = True

    def loseConnection(self) -> None:
        assert self.producer is None, "a real transport would wait for its producer"
        super().loseConnection()

    def abortConnection(self) -> None:
        self.disconnected = self.disconnecting = True

    @property
    def is_reading(self) -> bool:
        return self.producerState == "producing" and not self.disconnecting


class Client:
    """One connection, seen from outside."""

    def __init__(self, factory: ConnectionFactory, buffer_size: int | None = None) -> None:
        self.transport = FakeTransport(buffer_size)
        self.connection = factory.buildProtocol(None)
        self.connection.makeConnection(self.transport)
        self.is_gone = False

    def send_bytes(self, data: bytes) -> None:
        self.connection.dataReceived(data)

    def send(self, message: object) -> None:
        self.send_bytes(frame(json.dumps(message).encode()))

    def received(self) -> list[Any]:
        """The answers since the last call."""
        payloads = frames(self.transport.value())
        self.transport.clear()
        return [json.loads(each) for each in payloads]

    def ask(self, message: object) -> Any:
        """Send a request whose answer comes at once."""
        self.send(message)
        (answer,) = self.received()
        return answer

    def ask_bytes(self, payload: bytes) -> Any:
        """The same, for anything."""
        self.send_bytes(frame(payload))
        (answer,) = self.received()
        return answer

    def ask_raw(self, payload: bytes) -> bytes:
        """The same, for an answer that is not JSON."""
        self.send_bytes(frame(payload))
        (answer,) = frames(self.transport.value())
        self.transport.clear()
        return answer

    def disconnect(self) -> None:
        """The connection is lost, as the transport would tell."""
        if not self.is_gone:
            self.is_gone = True
            reason = ConnectionAborted() if self.transport.disconnected else ConnectionDone()
            self.connection.connectionLost(Failure(reason))

    def settle(self) -> None:
        """Let happen what the transport was asked to do."""
        if self.transport.disconnecting:
            self.disconnect()


class World:
    """A broker with one listener of the RustLog protocol."""

    def __init__(
        self,
        config: BrokerConfig | None = None,
        *,
        environment: SimulatedEnvironment | None = None,
        topic_defaults: TopicConfig | None = None,
        requests: RequestLog | None = None,
        wrap: Any = lambda store, environment: store,
        wrap_offsets: Any = lambda offsets, environment: offsets,
    ) -> None:
        self.environment = environment = memory_environment() if environment is None else environment
        self.clock = environment.clock
        topic_defaults = TopicConfig() if topic_defaults is None else topic_defaults
        self.memory = MemoryStore(MemorySettings(topic_defaults), environment)
        self.store: ILogStore = wrap(self.memory, environment)
        served = TestBroker(
            config,
            environment=environment,
            topic_defaults=topic_defaults,
            store=self.store,
            offsets=wrap_offsets(MemoryOffsets(), environment),
        )
        self.broker = served.broker
        self.coordinator = served.coordinator
        self.capacity = served.capacity
        self.listener = served.listener(requests=requests)
        self.factory = make_factory(self.listener)

    def create(self, topic: str, partitions: int = 1, **config: object) -> None:
        self.memory.catalog.create(topic, partitions, config)

    def client(self, buffer_size: int | None = None) -> Client:
        return Client(self.factory, buffer_size)


def produce(*payloads: bytes, topic: str = "orders", partition: int = 0) -> dict[str, Any]:
    """A Produce request."""
    records = [list(each) for each in payloads]
    return {"Produce": {"topic": topic, "partition": partition, "records": records}}


def fetch(offset: int = 0, *, max_bytes: int = 1048576, **more: object) -> dict[str, Any]:
    """A Fetch request."""
    asked = {"topic": "orders", "partition": 0, "offset": offset, "max_bytes": max_bytes}
    return {"Fetch": {**asked, **more}}
