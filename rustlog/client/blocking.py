"""
A client for scripts: plain sockets, one request at a time, no reactor.  Nothing of Twisted is imported here.

    with connect("127.0.0.1:9091") as client:
        client.produce("orders", [b"one tea", b"two coffees"])
        for record in client.consume("orders", group_id="kitchen"):
            print(record.offset, record.value)

A client belongs to one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from rustlog.client import calls
from rustlog.client.addresses import DEFAULT_ADDRESS, parse_address
from rustlog.client.blocking_consumer import Consumer
from rustlog.client.consuming import MAX_WAIT_MS, Start, Subscription
from rustlog.client.errors import ClientClosed, ClientError
from rustlog.client.exchange import Call
from rustlog.client.retrying import ClientSettings, Retries
from rustlog.client.sockets import SocketConnection, open_socket
from rustlog.environment.pace import Pace, SystemPace

P = ParamSpec("P")
T = TypeVar("T")


def connect(address: str = DEFAULT_ADDRESS, settings: ClientSettings | None = None) -> Client:
    """
    A client of the broker at C{HOST:PORT} or C{unix:PATH}.

    It tries once.  When the connection breaks later, it is made anew, for up to
    L{ClientSettings.retry_seconds}, as soon as it is needed.

    @raise ValueError: that is not an address.
    @raise ConnectionFailed: nobody listens there.
    """
    where = parse_address(address)
    settings = settings or ClientSettings()

    def open_connection() -> SocketConnection:
        return SocketConnection(open_socket(where, settings.timeout_seconds))

    client = Client(open_connection, settings)
    client.reconnect()
    return client


def _method(make: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    @wraps(make)
    def method(self: Client, /, *arguments: P.args, **named: P.kwargs) -> T:
        return self.do(make(*arguments, **named))

    return method


class Client:
    """A connection to a broker, which is made anew when it breaks.  Use L{connect} to get one."""

    def __init__(
        self,
        open_connection: Callable[[], SocketConnection],
        settings: ClientSettings,
        pace: Pace | None = None,
    ) -> None:
        self._open_connection = open_connection
        self._settings = settings
        self._pace: Pace = pace or SystemPace()
        self._connection: SocketConnection | None = None
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

    def consume(
        self,
        topic: str,
        group_id: str | None = None,
        *,
        partitions: Sequence[int] | None = None,
        start: Start = "earliest",
        offset_reset: calls.OffsetReset = "error",
        follow: bool = True,
        max_bytes: int = calls.MAX_BYTES,
        max_wait_ms: int = MAX_WAIT_MS,
    ) -> Consumer:
        """
        An iterator over the records of a topic; see L{Subscription} for what can be chosen, and
        L{Consumer} for when it commits.
        """
        subscription = Subscription(
            topic=topic, group_id=group_id, partitions=partitions, start=start, offset_reset=offset_reset,
            follow=follow, max_bytes=max_bytes, max_wait_ms=max_wait_ms,
        )  # fmt: skip
        return Consumer(self, subscription, self._pace.sleep)

    def do(self, call: Call[T]) -> T:
        """Ask the broker for something, and wait for the answer."""
        payload = call.encode()
        retries = Retries(self._settings, self._pace, call)
        while True:
            try:
                return call.decode(self._exchange(call, payload))
            except ClientError as error:
                delay = retries.delay_after(error, self._pace.monotonic())
                if delay is None:
                    raise
            self._pace.sleep(delay)

    def reconnect(self) -> None:
        """Make a connection now, if there is none."""
        if self._is_closed:
            raise ClientClosed
        if self._connection is not None and self._connection.is_gone():
            self._drop()
        if self._connection is None:
            self._connection = self._open_connection()

    def close(self) -> None:
        """Be done; a second call does nothing."""
        self._is_closed = True
        self._drop()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self.close()

    def _exchange(self, call: Call[Any], payload: bytes) -> bytes:
        self.reconnect()
        assert self._connection is not None
        seconds = self._settings.timeout_seconds + call.waits_ms / 1000
        try:
            return self._connection.exchange(call.name, payload, seconds, self._pace.monotonic)
        except BaseException:
            # An answer that nobody has waited for would be taken for that to the next request.
            self._drop()
            raise

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
