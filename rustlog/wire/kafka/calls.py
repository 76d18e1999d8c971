"""
What every handler of a Kafka request is given, and how an API is declared.

A handler is a function of a L{Call}.  It returns the response, or a Deferred of it::

    def describe_cluster(call: Call) -> Entity:
        return call.respond(cluster_id=call.services.cluster_id, controller_id=call.services.node_id, ...)

    APIS = (Api(60, "DescribeCluster", 0, 2, describe_cluster),)

What goes wrong with one topic or partition is told in its place in the response, with
L{code_for <rustlog.wire.kafka.errors.code_for>}.  An error that is raised is told in the
response's own error code; if it has none, the connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Union

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from rustlog.broker import Broker
from rustlog.interfaces import IWallClock
from rustlog.model import RequestContext
from rustlog.settings import BrokerConfig
from rustlog.wire.kafka.schema import Entity, make, response_class

NODE_ID = 0
"""Of the only broker."""


@frozen
class Services:
    """
    What handlers work with.

    @ivar advertised: the host and port where the client of this connection finds the broker.
    @ivar apis: all that is offered, by key.
    """

    broker: Broker
    config: BrokerConfig
    clock: IReactorTime
    wall: IWallClock
    advertised: tuple[str, int]
    cluster_id: str
    apis: Mapping[int, Api]
    node_id: int = NODE_ID


@frozen
class Call:
    """
    A request to be answered.

    @ivar request: of C{kio}'s class for this version.
    """

    api: Api
    version: int
    request: Entity
    context: RequestContext
    services: Services

    def respond(self, **fields: Any) -> Entity:
        """The response in this version; see L{make <rustlog.wire.kafka.schema.make>}."""
        return make(response_class(self.api.key, self.version), **fields)


Handler = Callable[[Call], Union[Entity, "Deferred[Entity]"]]


@frozen
class Api:
    """
    One kind of request.

    @ivar min_version: the oldest version that clients are told of.
    @ivar served_min_version: the oldest that is served, if that differs.
    @ivar is_cancellable: whether the handler's Deferred shall be cancelled when the client is gone.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    handler: Handler
    is_cancellable: bool = False
    served_min_version: int = 0

    def serves(self, version: int) -> bool:
        """Whether that version can be answered."""
        return max(self.min_version, self.served_min_version) <= version <= self.max_version
