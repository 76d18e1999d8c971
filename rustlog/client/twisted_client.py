"""
The client for programs that run a reactor.

    client = await connect("127.0.0.1:9091")
    await client.produce("orders", [b"one tea", b"two coffees"])

Requests may be sent before earlier ones are answered (B{pipelining}); the broker works on them in their
order. All methods return Deferreds, which can be awaited.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, Union

from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import HostnameEndpoint, UNIXClientEndpoint
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from rustlog.client import calls
from rustlog.client.addresses import DEFAULT_ADDRESS, UnixAddress, parse_address
from rustlog.client.errors import ClientClosed, ClientError, ConnectionFailed
from rustlog.client.exchange import Call
from rustlog.client.protocol import ClientConnection
from rustlog.client.retrying import Chance, ClientSettings, Retries
from rustlog.environment.chance import SystemRandom

P = ParamSpec("P")
T = TypeVar("T")


def connect(
    address: Union[str, IStreamClientEndpoint] = DEFAULT_ADDRESS,
    settings: ClientSettings | None = None,
    *,
    reactor: Any = None,
    random: Chance | None = None,
) -> Deferred[Client]:
    """
    A client of the broker at C{HOST:PORT}, at C{unix:PATH}, or behind an endpoint (for TLS, say).

    It tries once.  When the connection breaks later, it is made anew, for up to
    L{ClientSettings.retry_seconds}, as soon as it is needed.

    @return: fails with L{ConnectionFailed} if nobody listens there.
    @raise ValueError: that is not an address.
    """
    if reactor is None:
        from twisted.internet import reactor
    endpoint, name = _endpoint(reactor, address)
    client = Client(endpoint, name, settings or ClientSettings(), reactor, random or SystemRandom())
    return client.connected().addCallback(lambda _: client)


def _endpoint(reactor: Any, address: Any) -> tuple[IStreamClientEndpoint, str]:
    if not isinstance(address, str):
        return address, repr(address)
    where = parse_address(address)
    if isinstance(where, UnixAddress):
        return UNIXClientEndpoint(reactor, where.path), str(where)
    return HostnameEndpoint(reactor, where.host, where.port), str(where)


def _method(make: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], Deferred[T]]:
    @wraps(make)
    def method(self: Client, /, *arguments: P.args, **named: P.kwargs) -> Deferred[T]:
        return self.do(make(*arguments, **named))

    return method


class Client:
    """A connection to a broker, which is made anew when it breaks.  Use L{connect} to get one."""

    def __init__(
        self,
        endpoint: IStreamClientEndpoint,
        name: str,
        settings: ClientSettings,
        clock: IReactorTime,
        random: Chance,
    ) -> None:
        self._endpoint = endpoint
        self._name = name
        self._settings = settings
        self._clock = clock
        self._random = random
        self._connection: ClientConnection | None = None
        self._attempt: Deferred[Any] | None = None
        self._waiting: list[Deferred[ClientConnection]] = []
        self._pauses: list[Deferred[None]] = []
        self._is_closed = False

    create_topic = _method(calls.create_topic)
    delete_topic = _method(calls.delete_topic)
    list_topics = _method(calls.list_topics)
    describe_topic = _method(calls.describe_topic)
    alter_topic = _method(calls.alter_topic)
    produce = _method(calls.produce)
    fetch = _method(calls.fetch)
    list_offsets = _method(calls.list_offsets)
    delete_records = _method(calls.delete_records)
    commit = _method(calls.commit)
    committed = _method(calls.committed)
    list_groups = _method(calls.list_groups)
    describe_group = _method(calls.describe_group)
    delete_group = _method(calls.delete_group)
    ping = _method(calls.ping)
    api_versions = _method(calls.api_versions)

    def do(self, call: Call[T]) -> Deferred[T]:
        """Ask the broker for something."""
        return Deferred.fromCoroutine(self._do(call))

    def pause(self, seconds: float) -> Deferred[None]:
        """Fires after a while; fails when the client is closed meanwhile."""
        pause: Deferred[None] = deferLater(self._clock, seconds)
        self._pauses.append(pause)
        return pause.addBoth(self._end_pause, pause)

    def _end_pause(self, outcome: Any, pause: Deferred[None]) -> None:
        self._pauses.remove(pause)
        if self._is_closed:
            raise ClientClosed
        if isinstance(outcome, Failure):
            outcome.raiseException()

    def close(self) -> Deferred[None]:
        """Hang up; what is under way fails.  Fires when that is done; a second call does nothing."""
        self._is_closed = True
        for each in list(self._pauses):
            each.cancel()
        if self._attempt is not None:
            self._attempt.cancel()
        connection = self._connection
        if connection is None:
            return succeed(None)
        connection.close()
        done: Deferred[None] = Deferred()
        connection.ended.chainDeferred(done)
        connection.ended = done
        return done

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _do(self, call: Call[T]) -> T:
        payload = call.encode()
        retries = Retries(self._settings, self._random, call)
        seconds = self._settings.timeout_seconds + call.waits_ms / 1000
        while True:
            try:
                connection = await self.connected()
                return call.decode(await connection.ask(call.name, payload, seconds))
            except ClientError as error:
                if self._is_closed:
                    raise ClientClosed from error
                delay = retries.delay_after(error, self._clock.seconds())
                if delay is None:
                    raise
            await self.pause(delay)

    # -- connecting --

    def connected(self) -> Deferred[ClientConnection]:
        """A connection: the one that there is, or a new one.  Who waits at the same time shares it."""
        waiting: Deferred[ClientConnection] = Deferred()
        if self._is_closed:
            waiting.errback(ClientClosed())
        elif self._connection is not None and self._connection.is_up:
            waiting.callback(self._connection)
        else:
            self._waiting.append(waiting)
            if self._attempt is None:
                self._begin_attempt()
        return waiting

    def _begin_attempt(self) -> None:
        factory = Factory.forProtocol(lambda: ClientConnection(self._clock))
        factory.noisy = False
        self._attempt = self._endpoint.connect(factory)
        self._attempt.addCallbacks(self._up, self._failed)

    def _up(self, connection: ClientConnection) -> None:
        self._attempt = None
        self._connection = connection
        self._tell(connection)

    def _failed(self, failure: Any) -> None:
        self._attempt = None
        if self._is_closed:
            self._tell(ClientClosed())
        else:
            self._tell(ConnectionFailed(self._name, failure.getErrorMessage().rstrip(".")))

    def _tell(self, outcome: Any) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if isinstance(outcome, Exception):
                each.errback(outcome)
            else:
                each.callback(outcome)
