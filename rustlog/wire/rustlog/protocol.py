"""
The RustLog protocol on a connection: JSON in frames of at most 10,485,760 bytes.
"""

from __future__ import annotations

from typing import Any

from rustlog.errors import RustlogError
from rustlog.results import Result, then
from rustlog.wire.answering import AnsweredWork
from rustlog.wire.connection import FramedConnection
from rustlog.wire.factory import ConnectionFactory
from rustlog.wire.listener import Listener
from rustlog.wire.pipeline import Work
from rustlog.wire.rustlog.codec import ParseError, decode_request, encode_error, encode_response
from rustlog.wire.rustlog.errors import INTERNAL_ERROR, message_for
from rustlog.wire.rustlog.handlers import Handlers
from rustlog.wire.rustlog.messages import (
    FRAME_BYTES_MAX,
    REQUESTS,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
    Request,
    Response,
)

_NAMES = {request_class: name for name, request_class in REQUESTS.items()}


def make_factory(listener: Listener) -> ConnectionFactory:
    """What C{--listen=rustlog=ENDPOINT} calls."""
    handlers = Handlers(listener.broker, listener.wall)
    return ConnectionFactory(listener, lambda factory: RustlogConnection(factory, handlers))


class RustlogConnection(FramedConnection):
    """One client."""

    MAX_LENGTH = FRAME_BYTES_MAX
    protocol_name = "rustlog"

    def __init__(self, factory: ConnectionFactory, handlers: Handlers) -> None:
        super().__init__(factory)
        self.handlers = handlers

    def understand(self, payload: bytes) -> Work:
        try:
            return RequestWork(self, decode_request(payload))
        except ParseError as error:
            return Misunderstood(str(error))

    def frame_too_large(self, length: int) -> bytes:
        return encode_error(f"max frame size exceeded: {length} bytes, at most {FRAME_BYTES_MAX} are allowed")

    def too_many_connections(self) -> bytes:
        return encode_error("too many connections: try again later")


class Misunderstood(Work):
    """Bytes that are no request."""

    name = "unknown"
    error = "Misunderstood"

    def __init__(self, message: str) -> None:
        self.outcome = message

    def start(self) -> bytes:
        return encode_error(self.outcome)


class RequestWork(AnsweredWork):
    """A request, and what becomes of it."""

    def __init__(self, connection: RustlogConnection, request: Request) -> None:
        super().__init__(connection.context)
        self._handlers = connection.handlers
        self._request: Request | None = request
        self.name = _NAMES[type(request)]
        self.topic = getattr(request, "topic", None)
        self.partition = getattr(request, "partition", None)
        if isinstance(request, ProduceRequest):
            self.overlaps = True
        elif isinstance(request, FetchRequest):
            self.is_cancellable = True
            self.answer_bytes_max = FRAME_BYTES_MAX

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
        return encode_response(response)

    def words_for(self, error: RustlogError | None) -> str:
        return INTERNAL_ERROR if error is None else message_for(error)

    def encode_refusal(self, words: str) -> bytes:
        return encode_error(words)
