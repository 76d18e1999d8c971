"""
The bytes of ApiVersions, both ways.

::

    request => client_version:String client_os:String client_arch:String (all three from 1 on)
    answer  => error_code [key:i16 min_version:i16 max_version:i16] platform_version:String

A client looks at the platform version, which must be a version as semver has them, and 0.9.0 at least.
"""

from __future__ import annotations

from struct import Struct

from attrs import frozen

from rustlog.wire.fluvio.errors import NONE, ErrorCode, read_error, write_error
from rustlog.wire.fluvio.primitives import Reader, Writer

PLATFORM_VERSION = "0.17.3"
"""Of the Fluvio whose protocol this is."""

_TELLS_CLIENT = 1
_RANGE = Struct(">hhh")


@frozen
class ApiVersionsRequest:
    """Which program asks, and where it runs."""

    client_version: str = ""
    client_os: str = ""
    client_arch: str = ""


@frozen
class OfferedVersions:
    """A range of versions of one API."""

    key: int
    min_version: int
    max_version: int


@frozen
class ApiVersionsResponse:
    """What is offered."""

    apis: tuple[OfferedVersions, ...]
    error: ErrorCode = NONE
    platform_version: str = PLATFORM_VERSION


def read_request(reader: Reader, version: int) -> ApiVersionsRequest:
    """What later versions have put behind it is passed over, for they can only be told by an answer."""
    if version < _TELLS_CLIENT:
        return ApiVersionsRequest()
    request = ApiVersionsRequest(reader.string(), reader.string(), reader.string())
    reader.rest()
    return request


def write_request(writer: Writer, version: int, request: ApiVersionsRequest) -> None:
    if version >= _TELLS_CLIENT:
        writer.string(request.client_version)
        writer.string(request.client_os)
        writer.string(request.client_arch)


def read_response(reader: Reader, version: int) -> ApiVersionsResponse:
    error = read_error(reader)
    apis = reader.vector(lambda: OfferedVersions(*reader.unpack(_RANGE)))
    return ApiVersionsResponse(apis, error, reader.string())


def write_response(writer: Writer, version: int, response: ApiVersionsResponse) -> None:
    write_error(writer, response.error)
    writer.vector(
        response.apis, lambda each: writer.pack(_RANGE, each.key, each.min_version, each.max_version)
    )
    writer.string(response.platform_version)
