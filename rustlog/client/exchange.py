"""
L{Call}: a request, and how its answer is understood.  Bytes and values only: how they travel is the
business of the clients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from attrs import frozen

from rustlog.client.errors import NotUnderstood, TooLarge, failure_for
from rustlog.wire.rustlog.codec import BadResponse, decode_response, encode_request
from rustlog.wire.rustlog.messages import (
    FRAME_BYTES_MAX,
    REQUESTS,
    RESPONSES,
    ErrorResponse,
    Request,
    Response,
)

_RESPONSE_OF = {request: RESPONSES[name] for name, request in REQUESTS.items()}

T_co = TypeVar("T_co", covariant=True)


@frozen
class Call(Generic[T_co]):
    """
    Something to ask a broker for.

    @ivar understand: makes of the response what the caller wants to have.
    @ivar may_repeat: whether it does no harm to send it again when nobody knows whether it was done.
    @ivar waits_ms: how long the broker was asked to wait before it answers.
    """

    request: Request
    understand: Callable[[Any], T_co]
    may_repeat: bool = False
    waits_ms: int = 0

    @property
    def name(self) -> str:
        """What the protocol calls it."""
        return type(self.request).__name__.removesuffix("Request")

    def encode(self) -> bytes:
        """
        The payload to send.

        @raise TooLarge: no broker would take it.
        """
        payload = encode_request(self.request)
        if len(payload) > FRAME_BYTES_MAX:
            raise TooLarge(
                f"max frame size exceeded: {self.name} has {len(payload)} bytes, "
                f"at most {FRAME_BYTES_MAX} are allowed"
            )
        return payload

    def decode(self, payload: bytes) -> T_co:
        """
        What the broker has answered.

        @raise RequestFailed: an error.
        @raise NotUnderstood: nothing of the kind.
        """
        response = read_response(payload)
        if type(response) is not _RESPONSE_OF[type(self.request)]:
            raise NotUnderstood(f"{type(response).__name__} came for {self.name}")
        return self.understand(response)


def read_response(payload: bytes) -> Response:
    """
    A response that is not an error.

    @raise RequestFailed: an error.
    @raise NotUnderstood: nothing of the kind.
    """
    try:
        response = decode_response(payload)
    except BadResponse as error:
        raise NotUnderstood(str(error)) from None
    if isinstance(response, ErrorResponse):
        raise failure_for(response.message)
    return response
