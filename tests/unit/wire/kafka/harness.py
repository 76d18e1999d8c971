"""
Handlers of Kafka requests, called as the wire would call them, without one.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.model import RequestContext
from rustlog.wire.kafka.apis import APIS
from rustlog.wire.kafka.calls import Call, Services
from rustlog.wire.kafka.schema import Entity, decode, encode, make, request_class, response_class
from tests.unit.wire.harness import World

CONTEXT = RequestContext("kafka", "kafka", "127.0.0.1:5", "test-client")


def make_services(world: World, **more: Any) -> Services:
    """What a connection to C{world} gives its handlers."""
    return Services(
        broker=world.broker,
        config=world.listener.config,
        clock=world.clock,
        wall=world.environment.wall,
        advertised=("broker.example", 9092),
        cluster_id="cluster",
        apis=APIS,
        **more,
    )


class HandlerCase(SynchronousTestCase):
    """A broker with a topic C{orders} of two partitions."""

    def setUp(self) -> None:
        self.world = World()
        self.world.create("orders", 2)
        self.services = make_services(self.world)

    def versions(self, key: int) -> range:
        """All that are served."""
        return APIS[key].versions

    def begin(self, key: int, version: int | None = None, /, **fields: Any) -> Deferred[Entity]:
        """
        Ask in a version, or in the newest one: the request goes through its bytes on the way to the
        handler, the response through its own on the way back.
        """
        api = APIS[key]
        version = api.max_version if version is None else version
        asked = request_class(key, version)
        request = decode(asked, encode(make(asked, **fields)))
        result = api.handler(Call(api, version, request, CONTEXT, self.services))
        answered = result if isinstance(result, Deferred) else Deferred()
        answered.addCallback(lambda response: decode(response_class(key, version), encode(response)))
        if answered is not result:
            answered.callback(result)
        return answered

    def ask(self, key: int, version: int | None = None, /, **fields: Any) -> Entity:
        """The same; the response must be there at once."""
        return self.successResultOf(self.begin(key, version, **fields))
