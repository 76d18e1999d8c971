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

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Protocol, Union

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from rustlog.broker import Broker
from rustlog.interfaces import IWallClock
from rustlog.model import RequestContext
from rustlog.settings import BrokerConfig
from rustlog.wire.answers import Answer
from rustlog.wire.kafka import schema
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.schema import Entity, make, response_class
from rustlog.wire.kafka.settings import KafkaSettings
from rustlog.wire.pipeline import Work


class HangUp(Exception):
    """The connection is to be closed: there is no other way to tell the client.  The message says why."""


NODE_ID = 0
"""Of the only broker."""


@frozen
class Services:
    """
    What handlers work with.

    @ivar advertised: the host and port where the client of this connection finds the broker.
    @ivar apis: all that is offered, by key.
    @ivar turns: counts the fetches of this connection.
    @ivar is_traced: whether somebody wants to read what is told of each request.
    """

    broker: Broker
    config: BrokerConfig
    clock: IReactorTime
    wall: IWallClock
    advertised: tuple[str, int]
    cluster_id: str
    apis: Mapping[int, Api]
    node_id: int = NODE_ID
    settings: KafkaSettings = field(factory=KafkaSettings)
    turns: Iterator[int] = field(factory=count)
    is_traced: bool = False


@frozen
class Call:
    """
    A request to be answered.

    @ivar request: of C{kio}'s class for this version, unless the API has a codec of its own.
    @ivar work: is told, for the log, which topic and partition it is about, and of how many records.
    """

    api: Api
    version: int
    request: Entity
    context: RequestContext
    services: Services
    work: Work = field(factory=Work)

    def respond(self, **fields: Any) -> Entity:
        """The response in this version; see L{make <rustlog.wire.kafka.schema.make>}."""
        return make(response_class(self.api.key, self.version), **fields)


Handler = Callable[[Call], Union[Entity, "Deferred[Entity]"]]


class Codec(Protocol):
    """Between the bytes of an API and what its handler sees."""

    def is_flexible(self, api: Api, version: int) -> bool:
        """Whether requests have a header with tagged fields."""

    def answers_flexibly(self, api: Api, version: int) -> bool:
        """The same for responses."""

    def decode(self, api: Api, version: int, data: bytes, position: int) -> Any:
        """The request that begins at C{position}; raises L{Unreadable <schema.Unreadable>}."""

    def encode(self, api: Api, version: int, response: Any, head: bytes) -> Answer:
        """The response behind C{head}; perhaps C{NO_ANSWER}."""

    def refuse(self, api: Api, version: int, code: ErrorCode) -> Any:
        """A response that says only that the request failed, or C{None} if there can be none."""


class KioCodec:
    """For all that is not worth a codec of its own."""

    def is_flexible(self, api: Api, version: int) -> bool:
        return schema.is_flexible(api.key, version)

    def answers_flexibly(self, api: Api, version: int) -> bool:
        return schema.response_header_version(api.key, version) > 0

    def decode(self, api: Api, version: int, data: bytes, position: int) -> Entity:
        return schema.decode(schema.request_class(api.key, version), data, position)

    def encode(self, api: Api, version: int, response: Entity, head: bytes) -> Answer:
        return head + schema.encode(response)

    def refuse(self, api: Api, version: int, code: ErrorCode) -> Entity | None:
        return schema.make_error(response_class(api.key, version), code)


@frozen
class Api:
    """
    One kind of request.

    @ivar min_version: the oldest version that clients are told of.
    @ivar served_min_version: the oldest that is served, if that differs.
    @ivar is_cancellable: whether the handler's Deferred shall be cancelled when the client is gone.
    @ivar overlaps: whether consecutive requests may be worked on together.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    handler: Handler
    is_cancellable: bool = False
    served_min_version: int = 0
    overlaps: bool = False
    codec: Codec = field(factory=KioCodec)

    @property
    def versions(self) -> range:
        """Those that are served."""
        return range(max(self.min_version, self.served_min_version), self.max_version + 1)
