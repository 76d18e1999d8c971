"""
All messages of the Fluvio protocol: bytes to values and values to bytes, by API and version.

A server needs L{decode_request} and L{encode_response}; the others are a client's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from rustlog.log.batch import Buffer
from rustlog.wire.answers import Answer
from rustlog.wire.fluvio import apis, consumers, controller, fetching, produce, versions
from rustlog.wire.fluvio.apis import Api
from rustlog.wire.fluvio.primitives import Reader, Writer, read_whole

Read = Callable[[Reader, int], Any]
Write = Callable[[Writer, int, Any], None]


@frozen
class Messages:
    """How the messages of one API are read and written."""

    read_request: Read
    write_request: Write
    read_response: Read
    write_response: Write


MESSAGES: dict[Api, Messages] = {
    apis.API_VERSIONS: Messages(
        versions.read_request, versions.write_request, versions.read_response, versions.write_response
    ),
    apis.CREATE: Messages(
        controller.read_create, controller.write_create, controller.read_status, controller.write_status
    ),
    apis.DELETE: Messages(
        controller.read_delete, controller.write_delete, controller.read_status, controller.write_status
    ),
    apis.LIST: Messages(
        controller.read_list,
        controller.write_list,
        controller.read_list_response,
        controller.write_list_response,
    ),
    apis.WATCH: Messages(
        controller.read_watch,
        controller.write_watch,
        controller.read_watch_response,
        controller.write_watch_response,
    ),
    apis.PRODUCE: Messages(
        produce.read_request, produce.write_request, produce.read_response, produce.write_response
    ),
    apis.FETCH_OFFSETS: Messages(
        fetching.read_offsets_request,
        fetching.write_offsets_request,
        fetching.read_offsets_response,
        fetching.write_offsets_response,
    ),
    apis.STREAM_FETCH: Messages(
        fetching.read_stream_request,
        fetching.write_stream_request,
        fetching.read_stream_response,
        fetching.write_stream_response,
    ),
    apis.UPDATE_OFFSETS: Messages(
        fetching.read_update_request,
        fetching.write_update_request,
        fetching.read_update_response,
        fetching.write_update_response,
    ),
    apis.UPDATE_CONSUMER_OFFSET: Messages(
        consumers.read_update_request,
        consumers.write_update_request,
        consumers.read_update_response,
        consumers.write_update_response,
    ),
    apis.DELETE_CONSUMER_OFFSET: Messages(
        consumers.read_delete_request,
        consumers.write_delete_request,
        consumers.read_delete_response,
        consumers.write_delete_response,
    ),
    apis.FETCH_CONSUMER_OFFSETS: Messages(
        consumers.read_fetch_request,
        consumers.write_fetch_request,
        consumers.read_fetch_response,
        consumers.write_fetch_response,
    ),
}


def decode_request(api: Api, version: int, data: Buffer, position: int) -> Any:
    """
    The request that begins at C{position}; batches in it are views on the data.

    @raise Unreadable: it is none.
    """
    return _decode(MESSAGES[api].read_request, version, data, position)


def encode_request(api: Api, version: int, request: Any, head: bytes = b"") -> bytes:
    """The request behind C{head}."""
    writer = Writer(head)
    MESSAGES[api].write_request(writer, version, request)
    return writer.whole()


def decode_response(api: Api, version: int, data: Buffer, position: int = 0) -> Any:
    """
    The answer that begins at C{position}; batches in it are views on the data.

    @raise Unreadable: it is none.
    """
    return _decode(MESSAGES[api].read_response, version, data, position)


def encode_response(api: Api, version: int, response: Any, head: bytes = b"") -> Answer:
    """The answer behind C{head}; one with batches is in parts."""
    writer = Writer(head)
    MESSAGES[api].write_response(writer, version, response)
    return writer.finish()


def _decode(read: Read, version: int, data: Buffer, position: int) -> Any:
    return read_whole(Reader(data, position), lambda reader: read(reader, version))
