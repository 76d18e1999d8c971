"""
What is before the body of a request and of a response.

::

    request  => key:i16 version:i16 correlation_id:i32 client_id (i16 length, even in flexible versions) tags
    response => correlation_id:i32 tags

Tags are there in flexible versions only.
"""

from __future__ import annotations

import struct
from struct import Struct

from attrs import define

from rustlog.wire.kafka.primitives import I32, FlexibleReader
from rustlog.wire.kafka.schema import Unreadable

_FIXED = Struct(">hhih")


@define(eq=True)
class RequestHeader:
    """
    What a request says of itself.

    @ivar client_id: as it came, for it is most often the same as the last time.
    @ivar end: where the tags, or the body, begin.
    """

    key: int
    version: int
    correlation_id: int
    client_id: bytes
    end: int

    def body_begins(self, payload: bytes, is_flexible: bool) -> int:
        """Behind the tags, if there are any."""
        if not is_flexible:
            return self.end
        reader = FlexibleReader(payload, self.end)
        reader.tags()
        return reader.position


def read_header(payload: bytes) -> RequestHeader:
    """
    The header of a request.

    @raise Unreadable: it has none.
    """
    try:
        key, version, correlation_id, size = _FIXED.unpack_from(payload)
    except struct.error as error:
        raise Unreadable(str(error)) from None
    end = _FIXED.size + max(0, size)
    if end > len(payload):
        raise Unreadable("the client id does not end")
    return RequestHeader(key, version, correlation_id, bytes(payload[_FIXED.size : end]), end)


def encode_header(
    key: int, version: int, correlation_id: int, client_id: str | None, is_flexible: bool
) -> bytes:
    """What a client sends before a body."""
    data = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(data)
    return _FIXED.pack(key, version, correlation_id, size) + data + (b"\0" if is_flexible else b"")


def encode_response_header(correlation_id: int, is_flexible: bool) -> bytes:
    """What is sent before the body of a response."""
    return I32.pack(correlation_id) + (b"\0" if is_flexible else b"")
