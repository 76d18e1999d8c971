"""
The Kafka protocol on a connection.

What the client wants is in the header of each request: which API, in which version.  L{APIS
<rustlog.wire.kafka.apis>} says who answers it.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, FirstError
from twisted.logger import Logger
from twisted.python.failure import Failure

from rustlog.errors import RustlogError
from rustlog.wire.answers import NO_ANSWER, Answer
from rustlog.wire.factory import ConnectionFactory
from rustlog.wire.introduced import Farewell, IntroducedConnection, local_address
from rustlog.wire.kafka.apis import APIS
from rustlog.wire.kafka.calls import Api, Call, HangUp, Services
from rustlog.wire.kafka.errors import ErrorCode, code_for, message_for
from rustlog.wire.kafka.handlers.versions import API_VERSIONS, api_versions
from rustlog.wire.kafka.headers import RequestHeader, encode_response_header, read_header
from rustlog.wire.kafka.schema import Unreadable
from rustlog.wire.kafka.settings import KafkaSettings
from rustlog.wire.listener import Listener
from rustlog.wire.pipeline import Entry, Work

_NOWHERE = ("localhost", 9092)


def make_factory(listener: Listener) -> ConnectionFactory:
    """What C{--listen=kafka=ENDPOINT} calls."""
    return ConnectionFactory(listener, KafkaConnection)


class KafkaConnection(IntroducedConnection):
    """One client."""

    protocol_name = "kafka"
    greeting = "New connection from: {client}"
    keeps_bytearrays = True

    def __init__(self, factory: ConnectionFactory) -> None:
        super().__init__(factory)
        self.settings: KafkaSettings = self.listener.settings or KafkaSettings()
        self.MAX_LENGTH = self.settings.socket_request_max_bytes
        self._client_id = b""

    def connectionMade(self) -> None:
        self.services = self._make_services()
        super().connectionMade()

    def _make_services(self) -> Services:
        listener = self.listener
        return Services(
            broker=listener.broker,
            config=listener.config,
            clock=listener.clock,
            wall=listener.wall,
            advertised=listener.advertised or local_address(self.transport, _NOWHERE),
            cluster_id=self.settings.effective_cluster_id,
            apis=APIS,
            settings=self.settings,
            is_traced=listener.requests.is_wanted,
        )

    # -- requests --

    def understand(self, payload: bytes) -> Work:
        try:
            header = read_header(payload)
        except Unreadable as error:
            return Farewell(self, f"it sent something that is not a request: {error}")
        if header.client_id != self._client_id:
            self._meet(header.client_id)
        api = APIS.get(header.key)
        if api is None:
            return Farewell(self, f"it asked for API {header.key}, which is not offered")
        if header.version in api.versions:
            return RequestWork(self, api, header, payload)
        if api.key == API_VERSIONS:
            return UnknownApiVersionsWork(self, api, header)
        return Farewell(self, f"it asked for {api.name} in version {header.version}, which is not offered")

    def _meet(self, client_id: bytes) -> None:
        """All requests of a connection have the same client id, most often."""
        self._client_id = client_id
        self.meet(client_id.decode(errors="replace"))

    def _tell(self, entry: Entry, work: Work, response_bytes: int) -> None:
        super()._tell(entry, work, response_bytes)
        if response_bytes and self.services.is_traced:
            self._log.debug("Sent response ({size} bytes)", size=response_bytes)


def _plain(result: Deferred[Any]) -> Deferred[Any]:
    """What a handler gathered in a C{DeferredList}, or the like, as what the pipeline looks for."""
    if type(result) is Deferred:
        return result
    plain: Deferred[Any] = Deferred(lambda _: result.cancel())
    result.chainDeferred(plain)
    return plain


class UnknownApiVersionsWork(Work):
    """
    ApiVersions in a version that we do not know.  The answer is in version 0, which everybody knows, and
    tells which ones we do.
    """

    name = "ApiVersions"
    outcome = "unsupported version"

    def __init__(self, connection: KafkaConnection, api: Api, header: RequestHeader) -> None:
        self._call = Call(api, 0, None, connection.context, connection.services)
        self._head = encode_response_header(header.correlation_id, False)

    def start(self) -> Answer:
        response = api_versions(self._call, ErrorCode.unsupported_version)
        return self._call.api.codec.encode(self._call.api, 0, response, self._head)


class RequestWork(Work):
    """A request of a known version, and what becomes of it."""

    _log = Logger()

    def __init__(self, connection: KafkaConnection, api: Api, header: RequestHeader, payload: bytes) -> None:
        self._connection = connection
        self._api = api
        self._header = header
        self._payload: bytes | None = payload
        self.name = api.name
        self.overlaps = api.overlaps
        self.is_cancellable = api.is_cancellable
        self._pending: Deferred[Any] | None = None
        self._is_hurried = False

    def start(self) -> Any:
        if self._connection.services.is_traced:
            self._log.debug(
                "Processing {request} request (correlation_id: {correlation_id})",
                request=self.name.upper(),
                correlation_id=self._header.correlation_id,
            )
        try:
            result = self._api.handler(self._call())
            if not isinstance(result, Deferred):
                return self._encode(result)
        except Exception:
            # Whatever goes wrong, the client is told, one way or the other.
            return self._explain(Failure())
        self._pending = _plain(result)
        return self._pending.addCallback(self._encode).addErrback(self._explain)

    def hurry(self) -> None:
        """The broker stops.  Who waits for something to happen sees the end, and looks for it elsewhere."""
        if self.is_cancellable and self._pending is not None and not self._pending.called:
            self._is_hurried = True
            self._pending.cancel()

    def _call(self) -> Call:
        connection, api, version = self._connection, self._api, self._header.version
        payload, self._payload = self._payload, None  # It may be large: let it go.
        assert payload is not None
        begin = self._header.body_begins(payload, api.codec.is_flexible(api, version))
        request = api.codec.decode(api, version, payload, begin)
        if api.key == API_VERSIONS and version >= 3:
            connection.software = f"{request.client_software_name} {request.client_software_version}"
        return Call(api, version, request, connection.context, connection.services, self)

    def _encode(self, response: Any) -> Answer:
        api, version = self._api, self._header.version
        flexibly = api.codec.answers_flexibly(api, version)
        head = encode_response_header(self._header.correlation_id, flexibly)
        return api.codec.encode(api, version, response, head)

    # -- what goes wrong --

    def _explain(self, failure: Failure) -> Any:
        while isinstance(failure.value, FirstError):
            failure = failure.value.subFailure  # of several that were gathered
        error = failure.value
        assert error is not None
        if isinstance(error, CancelledError):
            # Otherwise the client is gone.
            return NO_ANSWER if self._is_hurried else failure
        if isinstance(error, HangUp):
            return self._hang_up(str(error))
        if isinstance(error, Unreadable):
            return self._refuse(ErrorCode.invalid_request, f"its {self._what} can not be read: {error}")
        if not isinstance(error, RustlogError):
            self._log.failure(
                "{request} of {client} failed in an unexpected way",
                failure,
                request=self.name,
                client=self._connection.full_name,
            )
        code = code_for(error)
        self.outcome, self.error = message_for(error), code.name
        response = self._refusal(code)
        return self._hang_up(f"its {self._what} failed: {self.outcome}") if response is None else response

    @property
    def _what(self) -> str:
        return f"{self.name} request (version {self._header.version})"

    def _refuse(self, code: ErrorCode, reason: str) -> Answer:
        self.outcome, self.error = reason, code.name
        answer = self._refusal(code)
        if answer is None:
            return self._hang_up(reason)
        self._log.warn("{client} is refused: {reason}", client=self._connection.full_name, reason=reason)
        return answer

    def _refusal(self, code: ErrorCode) -> Answer | None:
        response = self._api.codec.refuse(self._api, self._header.version, code)
        return None if response is None else self._encode(response)

    def _hang_up(self, reason: str) -> Answer:
        self.outcome = reason
        self._connection.hang_up(reason)
        return NO_ANSWER
