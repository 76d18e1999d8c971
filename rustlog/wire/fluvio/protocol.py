"""
The Fluvio protocol on a connection.

A cluster of Fluvio has controllers, which know what there is, and units, which have it; clients learn
from the former where the latter are.  Here one port is both, and sends clients to itself, unless there
are ports of their own for the units.

Requests are answered in order, which is one of the orders that clients allow.  Streams write in between,
whenever they have their turn (L{rustlog.wire.fluvio.turns}).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from rustlog.errors import RustlogError
from rustlog.model import RequestContext
from rustlog.wire.answers import NO_ANSWER, Answer
from rustlog.wire.connection import client_name
from rustlog.wire.factory import ConnectionFactory
from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.apis import BOTH_ROLES, Api, Role, route
from rustlog.wire.fluvio.calls import Call, Handler, Services, refusal
from rustlog.wire.fluvio.cluster import Cluster, answer_bytes_max
from rustlog.wire.fluvio.codec import decode_request, encode_response
from rustlog.wire.fluvio.errors import NONE, ErrorCode, code_for, message_for, other
from rustlog.wire.fluvio.handlers import consumers, controller, fetching, producing, versions
from rustlog.wire.fluvio.headers import RequestHeader, encode_response_header, read_header
from rustlog.wire.fluvio.primitives import Unreadable
from rustlog.wire.fluvio.settings import FluvioSettings
from rustlog.wire.fluvio.streams import FetchStreams
from rustlog.wire.fluvio.translations import Translations
from rustlog.wire.fluvio.turns import Origin, Turns
from rustlog.wire.fluvio.watches import Watches
from rustlog.wire.introduced import Farewell, IntroducedConnection, local_address
from rustlog.wire.listener import Listener
from rustlog.wire.pipeline import Work

UNIT_PROTOCOL = "fluvio-spu"
"""The name under which a port is opened that is a unit only."""

HANDLERS: Mapping[Api, Handler] = MappingProxyType(
    {
        **versions.HANDLERS,
        **controller.HANDLERS,
        **producing.HANDLERS,
        **fetching.HANDLERS,
        **consumers.HANDLERS,
    }
)

_OVERLAPPING = (apis.PRODUCE, apis.UPDATE_OFFSETS)
"""
What need not wait for what was asked before it: batches are synced together, and a stream shall not wait
for a sync because its client produces, too.
"""

TRANSLATIONS_SHARE = 16
"""Which part of the memory for requests and answers may be used again for what several consumers read."""

_OF_ALL_OBJECTS = (apis.WATCH, apis.LIST)

_WATCHES_AS = "dummy"
"""What clients call themselves when they watch, whatever they are called otherwise."""

_NOWHERE = ("localhost", 9003)


def make_factory(listener: Listener) -> ConnectionFactory:
    """What C{--listen=fluvio=ENDPOINT} calls."""
    return _make_factory(listener, is_unit=False)


def make_unit_factory(listener: Listener) -> ConnectionFactory:
    """What C{--listen=fluvio-spu=ENDPOINT} calls."""
    return _make_factory(listener, is_unit=True)


def _make_factory(listener: Listener, is_unit: bool) -> ConnectionFactory:
    translations = Translations(listener.config.queued_max_request_bytes // TRANSLATIONS_SHARE)
    make = partial(FluvioConnection, translations=translations, is_unit=is_unit)
    return ConnectionFactory(listener, make)


class FluvioConnection(IntroducedConnection):
    """
    One client.

    @ivar translations: shared with all others of the listener.
    @ivar is_unit: whether the port is a unit only.
    """

    protocol_name = "fluvio"
    keeps_bytearrays = True
    services: Services

    def __init__(self, factory: ConnectionFactory, translations: Translations, is_unit: bool) -> None:
        super().__init__(factory)
        self._translations = translations
        self.settings: FluvioSettings = self.listener.settings or FluvioSettings()
        self.MAX_LENGTH = self.settings.request_max_bytes
        self._is_unit = is_unit
        self._turns = Turns(self, self._budget.answers)

    def connectionMade(self) -> None:
        # First: a connection may be told at once to end, and its streams with it.
        self.services = self._make_services()
        super().connectionMade()

    def _make_services(self) -> Services:
        listener, turns, settings = self.listener, self._turns, self.settings
        roles, address = self._place()
        client = client_name(self.transport.getPeer())
        context = RequestContext(self.protocol_name, listener.name, client)
        cluster = Cluster(listener.broker, context, address)
        return Services(
            broker=listener.broker,
            clock=listener.clock,
            wall=listener.wall,
            cluster=cluster,
            roles=roles,
            watches=Watches(self, turns, cluster, listener.clock, settings.streams_max),
            streams=FetchStreams(
                self,
                turns,
                listener.broker,
                self._translations,
                streams_max=settings.streams_max,
                bytes_max=settings.stream_max_bytes,
            ),
        )

    def _place(self) -> tuple[Collection[Role], tuple[str, int]]:
        """What this port is, and where clients are sent to for a unit."""
        here = local_address(self.transport, _NOWHERE)
        if self._is_unit:
            return [Role.SPU], here
        unit = self.listener.places.find(UNIT_PROTOCOL, here[0])
        if unit is not None:
            return [Role.SC], unit.address_for(here[0])
        return BOTH_ROLES, self.listener.advertised or here

    # -- requests --

    def understand(self, payload: bytes) -> Work:
        try:
            header = read_header(payload)
        except Unreadable as error:
            return Farewell(self, f"it sent something that is not a request: {error}")
        if header.client_id not in (self.context.client_id, _WATCHES_AS):
            self.meet(header.client_id)
        api = route(header.key, header.version, self.services.roles)
        if api is None:
            return Farewell(self, f"it asked for API {header.key}, which is not offered")
        if not api.accepts(header.version):
            return Farewell(
                self, f"it asked for {api.name} in version {header.version}, which is not offered"
            )
        return RequestWork(self, api, header, payload)

    # -- streams --

    @property
    def is_blocked(self) -> bool:
        """Whether the client has to read before streams may go on."""
        return self._output.is_blocked

    def push(
        self,
        origin: Origin,
        response: Any,
        *,
        error: ErrorCode = NONE,
        topic: str | None = None,
        partition: int | None = None,
        records: int = 0,
    ) -> None:
        """Write an answer that nobody has waited for in the pipeline."""
        head = encode_response_header(origin.correlation_id)
        size = self._write(encode_response(origin.api, origin.version, response, head))
        outcome = "ok" if error == NONE else error.name
        name = f"{origin.api.name}Push"
        self._meter.answered(name, outcome, 0, size, 0.0)
        if self.listener.requests.is_wanted:
            self.listener.requests.answered(
                self.context,
                name,
                topic=topic,
                partition=partition,
                records=records,
                request_bytes=0,
                response_bytes=size,
                seconds=0.0,
                outcome=outcome,
            )

    def _output_unblocked(self) -> None:
        super()._output_unblocked()
        self._turns.go_on()

    # -- the end --

    def _end(self, reason: str, linger_seconds: float) -> None:
        self._end_streams()
        super()._end(reason, linger_seconds)

    def connectionLost(self, *arguments: Any) -> None:
        self._end_streams()
        super().connectionLost(*arguments)

    def _end_streams(self) -> None:
        self._turns.close()
        self.services.watches.close()
        self.services.streams.close()


class RequestWork(Work):
    """A request of a version that is understood, and what becomes of it."""

    _log = Logger()

    def __init__(self, connection: FluvioConnection, api: Api, header: RequestHeader, payload: bytes) -> None:
        self._connection = connection
        self._api = api
        self._header = header
        self._payload: bytes | None = payload
        self.name = api.name
        self.overlaps = api in _OVERLAPPING
        if api in _OF_ALL_OBJECTS:
            self.answer_bytes_max = answer_bytes_max(connection.services.cluster.topics())

    def start(self) -> Any:
        try:
            result = HANDLERS[self._api](self._call())
            if not isinstance(result, Deferred):
                return self._encode(result)
        except Exception:
            # Whatever goes wrong, the client is told, one way or the other.
            return self._explain(Failure())
        return result.addCallback(self._encode).addErrback(self._explain)

    def _call(self) -> Call:
        connection, header = self._connection, self._header
        payload, self._payload = self._payload, None  # It may be large: let it go.
        assert payload is not None
        request = decode_request(self._api, header.version, payload, header.end)
        if self._api is apis.API_VERSIONS and request.client_version:
            connection.software = f"fluvio-socket {request.client_version[:100]}"
        place = self._api, header.version, header.correlation_id
        return Call(*place, request, connection.context, connection.services, self)

    def _encode(self, response: Any) -> Answer:
        if response is None:
            return NO_ANSWER  # but those of a stream
        head = encode_response_header(self._header.correlation_id)
        return encode_response(self._api, self._header.version, response, head)

    # -- what goes wrong --

    def _explain(self, failure: Failure) -> Any:
        error = failure.value
        assert error is not None
        if isinstance(error, CancelledError):
            return failure  # The client is gone.
        if isinstance(error, Unreadable):
            return self._not_understood(error)
        if not isinstance(error, RustlogError):
            self._log.failure(
                "{request} of {client} failed in an unexpected way",
                failure,
                request=self.name,
                client=self._connection.full_name,
            )
        return self._refuse(code_for(error), message_for(error))

    def _not_understood(self, error: Unreadable) -> Answer:
        reason = f"its {self.name} request (version {self._header.version}) can not be read: {error}"
        answer = self._refuse(other(reason), reason)
        if answer is not NO_ANSWER:
            self._log.warn("{client} is refused: {reason}", client=self._connection.full_name, reason=reason)
        return answer

    def _refuse(self, code: ErrorCode, reason: str) -> Answer:
        self.outcome, self.error = reason, code.name
        response = refusal(self._api, code, reason)
        if response is None:
            self._connection.hang_up(reason)
        return self._encode(response)
