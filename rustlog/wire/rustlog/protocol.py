"""
The RustLog protocol on a connection: JSON, or binary, in frames of at most 10,485,760 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from rustlog.errors import RustlogError
from rustlog.results import Result, then
from rustlog.wire.answering import AnsweredWork
from rustlog.wire.connection import FramedConnection
from rustlog.wire.factory import ConnectionFactory
from rustlog.wire.listener import Listener
from rustlog.wire.pipeline import Work
from rustlog.wire.rustlog import binary, codec
from rustlog.wire.rustlog.codec import ParseError
from rustlog.wire.rustlog.errors import (
    BAD_FRAME,
    BAD_REQUEST,
    FAILED,
    INTERNAL_ERROR,
    code_for,
    message_for,
)
from rustlog.wire.rustlog.handlers import Handlers
from rustlog.wire.rustlog.messages import (
    FRAME_BYTES_MAX,
    REQUESTS,
    DescribeGroupRequest,
    DescribePartitionRequest,
    DescribeTopicRequest,
    ErrorResponse,
    FetchRequest,
    FetchResponse,
    ListGroupsRequest,
    ListTopicsRequest,
    MetricsFetchRequest,
    ProduceRequest,
    ProduceResponse,
    Request,
    Response,
)
from rustlog.wire.rustlog.reading import DoesNotFit

_NAMES = {
    **{request_class: name for name, request_class in REQUESTS.items()},
    DescribePartitionRequest: "DescribePartition",
    MetricsFetchRequest: "MetricsFetch",
}
_LARGE_ANSWERS = frozenset(
    [
        FetchRequest,
        ListTopicsRequest,
        DescribeTopicRequest,
        ListGroupsRequest,
        DescribeGroupRequest,
        MetricsFetchRequest,
    ]
)


@frozen
class Dialect:
    """A way to write messages."""

    decode_request: Callable[[bytes], Request]
    encode_response: Callable[[Response], bytes]


JSON = Dialect(codec.decode_request, codec.encode_response)
BINARY = Dialect(binary.decode_request, binary.encode_response)


def make_factory(listener: Listener) -> ConnectionFactory:
    """What C{--listen=rustlog=ENDPOINT} calls."""
    handlers = Handlers(listener.broker, listener.wall, listener.monitoring.metrics_text)
    return ConnectionFactory(listener, lambda factory: RustlogConnection(factory, handlers))


class RustlogConnection(FramedConnection):
    """
    One client.

    @ivar dialect: in which it spoke last.
    """

    MAX_LENGTH = FRAME_BYTES_MAX
    protocol_name = "rustlog"

    def __init__(self, factory: ConnectionFactory, handlers: Handlers) -> None:
        super().__init__(factory)
        self.handlers = handlers
        self.dialect = JSON

    def understand(self, payload: bytes) -> Work:
        self.dialect = dialect = BINARY if binary.is_binary(payload) else JSON
        try:
            return RequestWork(self, dialect.decode_request(payload), dialect)
        except ParseError as error:
            return Misunderstood(str(error), dialect)

    def frame_too_large(self, length: int) -> bytes:
        return self._last_error(
            f"max frame size exceeded: {length} bytes, at most {FRAME_BYTES_MAX} are allowed"
        )

    def too_many_connections(self) -> bytes:
        return self._last_error("too many connections: try again later")

    def _last_error(self, message: str) -> bytes:
        return self.dialect.encode_response(ErrorResponse(message, BAD_FRAME))


class Misunderstood(Work):
    """Bytes that are no request."""

    name = "unknown"
    error = "Misunderstood"

    def __init__(self, message: str, dialect: Dialect) -> None:
        self.outcome = message
        self._dialect = dialect

    def start(self) -> bytes:
        return self._dialect.encode_response(ErrorResponse(self.outcome, BAD_REQUEST))


class RequestWork(AnsweredWork):
    """A request, and what becomes of it."""

    _code = FAILED
    _waiting: Deferred[None] | None = None
    _is_hurried = False

    def __init__(self, connection: RustlogConnection, request: Request, dialect: Dialect) -> None:
        super().__init__(connection.context)
        self._handlers = connection.handlers
        self._dialect = dialect
        self._request: Request | None = request
        self._kind = kind = type(request)
        self.name = _NAMES[kind]
        self.topic = getattr(request, "topic", None)
        self.partition = getattr(request, "partition", None)
        if kind is ProduceRequest:
            self.overlaps = True
        elif kind in _LARGE_ANSWERS:
            self.answer_bytes_max = FRAME_BYTES_MAX
            if isinstance(request, FetchRequest):
                self.is_cancellable = True
                self.may_wait = bool(request.max_wait_ms)

    # -- waiting --

    def wait(self) -> Deferred[None]:
        assert isinstance(self._request, FetchRequest)
        self._waiting = self._handlers.wait(self.context, self._request)
        return self._waiting.addErrback(self._no_longer)

    def hurry(self) -> None:
        self._is_hurried = True
        if self._waiting is not None:
            self._waiting.cancel()

    def _no_longer(self, failure: Failure) -> Any:
        if failure.check(CancelledError) is None:
            self._log.failure("{request} could not wait", failure, request=self.name)
        elif not self._is_hurried:
            return failure  # The client is gone.
        return None

    # -- answering --

    def perform(self) -> Result[bytes]:
        request, self._request = self._request, None  # It may be large: let it go.
        assert request is not None
        response: Any = self._handlers.handle(self.context, request)
        return then(response, self._encode)

    def _encode(self, response: Response) -> bytes:
        if isinstance(response, ProduceResponse):
            self.records = len(response.offsets)
        elif isinstance(response, FetchResponse):
            self.records = len(response.records)
        answer = self._dialect.encode_response(response)
        if len(answer) > FRAME_BYTES_MAX:
            raise DoesNotFit(
                f"max frame size exceeded: the answer has {len(answer)} bytes, at most {FRAME_BYTES_MAX} fit"
            )
        return answer

    def words_for(self, error: RustlogError | None) -> str:
        if error is None:
            return INTERNAL_ERROR
        self._code = code_for(error, self._kind)
        return message_for(error)

    def encode_refusal(self, words: str) -> bytes:
        return self._dialect.encode_response(ErrorResponse(words, self._code))
