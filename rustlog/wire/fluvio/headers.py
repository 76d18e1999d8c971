"""
What is before the body of a request and of an answer.

::

    request => key:u16 version:i16 correlation_id:i32 client_id:String
    answer  => correlation_id:i32

An answer says neither what it answers nor in which version: its body is read as the request's.  One request
may have many answers, all with its id (see L{rustlog.wire.fluvio.apis.Api}).
"""

from __future__ import annotations

from struct import Struct

from attrs import frozen

from rustlog.log.batch import Buffer
from rustlog.wire.fluvio.primitives import I32, Reader, Writer, read_beginning

_FIXED = Struct(">Hhi")


@frozen
class RequestHeader:
    """
    What a request says of itself.

    @ivar end: where the body begins.
    """

    key: int
    version: int
    correlation_id: int
    client_id: str
    end: int


def read_header(payload: Buffer) -> RequestHeader:
    """
    The header of a request.

    @raise Unreadable: it has none.
    """
    return read_beginning(Reader(payload), _read_header)


def _read_header(reader: Reader) -> RequestHeader:
    key, version, correlation_id = reader.unpack(_FIXED)
    return RequestHeader(key, version, correlation_id, reader.string(), reader.position)


def encode_header(key: int, version: int, correlation_id: int, client_id: str) -> bytes:
    """What a client sends before a body."""
    writer = Writer()
    writer.pack(_FIXED, key, version, correlation_id)
    writer.string(client_id)
    return writer.whole()


def encode_response_header(correlation_id: int) -> bytes:
    """What is sent before the body of an answer."""
    return I32.pack(correlation_id)
