"""
HTTP on a connection, by C{twisted.web}'s channel, within the limits that hold for every protocol.

Connections are counted, and those one too many are told so.  What clients have not read yet is taken from the
memory for answers; those who neither send nor read are cut off.  Bodies of requests are read
and thrown away: nothing here takes any.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from io import BytesIO
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IHalfCloseableProtocol
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, Request
from zope.interface import implementer

from rustlog.model import RequestContext
from rustlog.wire.connection import SHORT_LINGER_SECONDS, can_half_close, client_name
from rustlog.wire.factory import ConnectionFactory
from rustlog.wire.http.answers import Answer, problem
from rustlog.wire.http.api import Api
from rustlog.wire.http.routes import METHODS, Routes
from rustlog.wire.listener import Listener
from rustlog.wire.output import OutputQueue

IDLE_SECONDS_MAX = 90
"""How long a connection is kept between requests: longer than the usual interval of Prometheus."""

REQUEST_SECONDS_MAX = 30
"""How long a request may take to arrive."""

HEADER_BYTES_MAX = 16 * 1024
"""Of the request line and all headers."""

BODY_BYTES_MAX = 64 * 1024
"""How much of a body is thrown away before the client is."""

_HEADERS = (
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
    ("X-Content-Type-Options", "nosniff"),
)


def make_factory(listener: Listener) -> HttpFactory:
    """What C{--listen=http=ENDPOINT} calls."""
    routes = Routes(Api(listener.broker, listener.monitoring))
    return HttpFactory(listener, lambda factory: HttpConnection(factory, routes))


class HttpFactory(ConnectionFactory):
    """
    Makes connections.

    @cvar closes_last: operators can look while other clients are being waited for.
    """

    closes_last = True


class HttpRequest(Request):
    """One request, and its answer."""

    channel: HttpConnection
    is_lost = False
    _body_bytes = 0
    _output: OutputQueue | None = None

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()  # It stays empty.

    def handleContentChunk(self, data: bytes) -> None:
        self._body_bytes += len(data)
        if self._body_bytes > BODY_BYTES_MAX:
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            self.channel.end_with(problem(status, f"a body may have {BODY_BYTES_MAX} bytes"))

    def process(self) -> None:
        if not self.channel.is_ending:
            self.channel.serve(self)

    def reply(self, answer: Answer) -> None:
        """Send it, as fast as the client reads."""
        self.setResponseCode(int(answer.status), answer.status.phrase.encode())
        for name, value in headers_of(answer, is_last=not self.channel.persistent):
            self.responseHeaders.setRawHeaders(name, [value])
        if self.method == b"HEAD":
            self.finish()
            return
        self._output = self.channel.make_output(self)
        self._output.write(answer.body)
        if not self._output.is_blocked:
            self.written()

    def written(self) -> None:
        """All of it is on its way."""
        if self._output is not None:
            self._output.detach()
            self._output = None
            self.finish()

    def connectionLost(self, reason: Failure) -> None:
        if self._output is not None:
            self._output.close()
            self._output = None
        self.is_lost = True
        super().connectionLost(reason)


@implementer(IHalfCloseableProtocol)
class HttpConnection(HTTPChannel):
    """
    One client.

    @ivar last_progress: when it last sent or read something.
    """

    _log = Logger()
    requestFactory = HttpRequest
    totalHeadersSize = HEADER_BYTES_MAX
    timeOut = IDLE_SECONDS_MAX
    context: RequestContext
    transport: Any

    def __init__(self, factory: ConnectionFactory, routes: Routes) -> None:
        super().__init__()
        # Not "factory": twisted.web would have that one write a log.
        self._factory = factory
        self._listener = factory.listener
        self._routes = routes
        self._clock = self._listener.clock
        self._is_serving = False
        self.is_ending = False
        self.last_progress = 0.0
        self._arrived = 0  # of the request that is arriving
        self._arriving_since = 0.0
        self._linger: IDelayedCall | None = None

    def callLater(self, period: float, func: Callable[[], object]) -> IDelayedCall:
        """What the timeouts of C{twisted.web} call."""
        return self._clock.callLater(period, func)

    # -- requests --

    def connectionMade(self) -> None:
        super().connectionMade()
        self.context = RequestContext("http", self._listener.name, client_name(self.transport.getPeer()))
        self._factory.connection_made(self)
        # Not at INFO, as for others: a scrape every few seconds would fill the log.
        self._log.debug(
            "{client} connected to {listener}", client=self.context.client, listener=self._listener.name
        )

    def dataReceived(self, data: bytes) -> None:
        if self.is_ending:
            return
        self.last_progress = self._clock.seconds()
        if not self._arrived:
            self._arriving_since = self.last_progress
        self._arrived += len(data)
        super().dataReceived(data)
        self._watch_arrival()

    def lineLengthExceeded(self, line: bytes) -> None:
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        self.end_with(problem(status, f"a line may have {self.MAX_LENGTH} bytes"))

    def _watch_arrival(self) -> None:
        """Half a request is memory that the client holds."""
        if not self._arrived or self._is_serving or self.is_ending:
            return
        if self.last_progress - self._arriving_since > REQUEST_SECONDS_MAX:
            self.cut_off("its request took too long to arrive")
        else:
            self._listener.capacity.slow_clients.watch(self)

    def serve(self, request: HttpRequest) -> None:
        """A request is there."""
        self._is_serving = True
        self._listener.capacity.slow_clients.unwatch(self)
        size, self._arrived = self._arrived, 0
        method = request.method.decode("ascii", "replace")
        said = method if method in METHODS else "other"
        route = self._routes.find(request.path)
        started = self._clock.seconds()

        def answered(answer: Answer) -> None:
            self._tell(said, route.name, answer, size, started)
            if not request.is_lost:
                request.reply(answer)

        self._routes.answer(self.context, method, route).addCallback(answered).addErrback(self._failed)

    def requestDone(self, request: Request) -> None:
        self._is_serving = False
        super().requestDone(request)

    def _tell(self, method: str, name: str, answer: Answer, request_bytes: int, started: float) -> None:
        seconds = self._clock.seconds() - started
        size = 0 if method == "HEAD" else len(answer.body)
        self._listener.meter.answered(name, answer.outcome, request_bytes, size, seconds)
        self._listener.requests.answered(
            self.context,
            f"{method} {name}",
            topic=None,
            partition=None,
            records=0,
            request_bytes=request_bytes,
            response_bytes=size,
            seconds=seconds,
            outcome=answer.outcome,
        )

    def _failed(self, failure: Failure) -> None:
        self._log.failure("a request of {client} was not answered", failure, client=self.context.client)
        self.cut_off("a request failed in an unexpected way")

    # -- memory that the client holds --

    def make_output(self, request: HttpRequest) -> OutputQueue:
        """For the body of an answer."""
        return OutputQueue(
            request,
            self._listener.capacity.budget.answers,
            progress=self._progress,
            blocked=self._blocked,
            unblocked=lambda: self._unblocked(request),
        )

    def _progress(self) -> None:
        self.last_progress = self._clock.seconds()

    def _blocked(self) -> None:
        self._progress()
        self._listener.capacity.slow_clients.watch(self)

    def _unblocked(self, request: HttpRequest) -> None:
        self._listener.capacity.slow_clients.unwatch(self)
        request.written()

    # -- the end --

    def refuse(self) -> None:
        """It is one too many: tell it so."""
        self.end_with(problem(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections: try again later"))

    def drain(self) -> None:
        """Answer what has been received, and close; at once if there is nothing."""
        self.persistent = 0
        if not self._is_serving and not self.is_ending:
            self.is_ending = True
            self.loseConnection()

    def cut_off(self, reason: str) -> None:
        """End at once, whatever is under way."""
        self._log.debug("{client} is cut off: {reason}", client=self.context.client, reason=reason)
        self.transport.abortConnection()

    def end_with(self, answer: Answer) -> None:
        """
        Answer out of turn, and close.  What the client still sends is read and thrown away for a
        moment: closing with it unread would destroy the answer on its way.
        """
        if self.is_ending:
            return
        self.is_ending = True
        self.setTimeout(None)
        lines = [f"HTTP/1.1 {answer.status:d} {answer.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in headers_of(answer, is_last=True)]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + answer.body)
        self._linger = self._clock.callLater(SHORT_LINGER_SECONDS, self._linger_is_over)
        self.transport.unregisterProducer()
        if can_half_close(self.transport):
            self.transport.loseWriteConnection()
        else:
            self.transport.loseConnection()

    def _linger_is_over(self) -> None:
        self._linger = None
        self.transport.abortConnection()

    def readConnectionLost(self) -> None:
        """The client will send nothing more, but may still read its answer."""
        self.persistent = 0
        if self.is_ending:
            self.transport.loseConnection()
        elif not self._is_serving:
            self.loseConnection()

    def writeConnectionLost(self) -> None:
        """Our last answer is out, as we wanted."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        self._listener.capacity.slow_clients.unwatch(self)
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._factory.connection_lost(self)


def headers_of(answer: Answer, *, is_last: bool) -> list[tuple[str, str]]:
    """All headers of an answer."""
    own = [("Content-Type", answer.content_type), ("Content-Length", str(len(answer.body)))]
    closing = [("Connection", "close")] if is_last else []
    return [*own, *_HEADERS, *answer.headers, *closing]


