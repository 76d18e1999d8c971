"""
Messages to JSON, and JSON to messages.

A broker uses L{decode_request} and L{encode_response}, a client L{encode_request} and L{decode_response}.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from typing import Any

import attrs
import orjson
from cattrs import Converter
from cattrs.errors import BaseValidationError

from rustlog.wire.rustlog.fields import CAREFUL, FAST, shown
from rustlog.wire.rustlog.messages import (
    REQUESTS,
    RESPONSES,
    DeleteGroupRequest,
    ErrorResponse,
    FetchedRecord,
    FetchRequest,
    FetchResponse,
    Header,
    ProduceRequest,
    Request,
    Response,
)
from rustlog.wire.rustlog.sizes import PRODUCE_RECORDS_MAX

CONTAINERS_MAX = 2 * PRODUCE_RECORDS_MAX
"""
How many arrays and objects a request may contain: more than a good one needs.  Each can take
thirty times the memory that it takes as text.
"""

_REQUEST_NAMES = {each: name for name, each in REQUESTS.items()}
_RESPONSE_NAMES = {each: name for name, each in RESPONSES.items()}
_FIELDLESS = {name for name, each in REQUESTS.items() if not attrs.fields(each)}


class ParseError(ValueError):
    """It is no request; the message says why."""

    def __str__(self) -> str:
        return f"failed to parse request: {self.args[0]}"


class BadResponse(ValueError):
    """It is no response; the message says why."""


# -- requests, as the broker reads them --------------------------------------------


def decode_request(payload: bytes) -> Request:
    """
    Read a request.

    @raise ParseError: it is none.
    """
    name, body = _variant(_load(payload))
    request_class = REQUESTS[name]
    encoding = "base64" if body.get("encoding") == "base64" else "json"
    request = None
    if not _may_mislead(request_class, encoding, payload):
        request = _look_fast(body, request_class, FAST[encoding])
    if request is None:
        request = _look_carefully(name, body, request_class, CAREFUL[encoding])
    check = _CHECKS.get(request_class)
    if check is not None:
        check(request)
    return request


def _may_mislead(request_class: type[Request], encoding: str, payload: bytes) -> bool:
    """Whether booleans could pass for bytes."""
    if request_class is not ProduceRequest or encoding == "base64":
        return False
    return b"true" in payload or b"false" in payload


def _load(payload: bytes) -> object:
    if len(payload) > CONTAINERS_MAX and payload.count(b"[") + payload.count(b"{") > CONTAINERS_MAX:
        raise ParseError(f"there are more than {CONTAINERS_MAX} arrays and objects in it")
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise ParseError(f"it is not valid JSON: {error}") from None


def _variant(message: object) -> tuple[str, dict[str, Any]]:
    if type(message) is str and message in _FIELDLESS:
        return message, {}
    if type(message) is not dict or len(message) != 1:
        raise ParseError(f"it must be an object with one key, which is one of {', '.join(REQUESTS)}")
    ((name, body),) = message.items()
    if name not in REQUESTS:
        raise ParseError(f"unknown request {shown(name)}; there are {', '.join(REQUESTS)}")
    if body is None and name in _FIELDLESS:
        return name, {}
    if type(body) is not dict:
        raise ParseError(f"{name}: {shown(body)} is not an object")
    return name, body


def _look_fast(body: dict[str, Any], request_class: type[Request], converter: Converter) -> Request | None:
    try:
        return converter.structure(body, request_class)
    except (ValueError, TypeError, KeyError):
        return None  # The careful look says what is wrong.


def _look_carefully(
    name: str, body: dict[str, Any], request_class: type[Request], converter: Converter
) -> Request:
    values = {}
    for field in attrs.fields(attrs.resolve_types(request_class)):
        if field.name in body:
            try:
                values[field.name] = converter.structure(body[field.name], field.type)
            except ValueError as error:
                raise ParseError(f"{name}.{field.name}: {error}") from None
        elif field.default is attrs.NOTHING:
            raise ParseError(f"{name}.{field.name} is missing")
    return request_class(**values)


# Fields that are fine by themselves have to fit each other.


def _check_produce(request: ProduceRequest) -> None:
    if request.keys is None and None in request.records:
        index = request.records.index(None)
        what = "base64 in a string" if request.encoding == "base64" else "an array of bytes"
        raise ParseError(f"Produce.records: record {index}: null is not {what} (a tombstone needs keys)")
    count = len(request.records)
    for name in ("keys", "headers", "timestamps"):
        entries = getattr(request, name)
        if entries is not None and len(entries) != count:
            raise ParseError(f"Produce.{name}: it has {len(entries)} entries for {count} records")


def _check_fetch(request: FetchRequest) -> None:
    if request.auto_commit and request.group_id is None:
        raise ParseError("Fetch.auto_commit: it needs a group_id")


def _check_delete_group(request: DeleteGroupRequest) -> None:
    if request.partition is not None and request.topic is None:
        raise ParseError("DeleteGroup.partition: it needs a topic")


_CHECKS: dict[type[Request], Callable[[Any], None]] = {
    ProduceRequest: _check_produce,
    FetchRequest: _check_fetch,
    DeleteGroupRequest: _check_delete_group,
}

# -- bytes -------------------------------------------------------------------------


def _to_base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


_WRITERS: dict[str, Callable[[bytes], Any]] = {"json": list, "base64": _to_base64}


def _read_bytes(value: Any, _: object = None) -> bytes:
    """Of a response: it says itself which of the two it is."""
    if type(value) is str:
        return a2b_base64(value, strict_mode=True)
    if type(value) is not list:
        raise ValueError(f"{shown(value)} is neither an array of bytes nor base64")
    return bytes(value)


def _write_headers(headers: tuple[Header, ...] | None, write: Callable[[bytes], Any]) -> list[Any]:
    return [[name, None if value is None else write(value)] for name, value in headers or ()]


# -- responses, as the broker writes them ------------------------------------------


def encode_response(response: Response) -> bytes:
    """Write a response."""
    return orjson.dumps({_RESPONSE_NAMES[type(response)]: _responses.unstructure(response)})


def _fetch_fields(response: FetchResponse) -> dict[str, Any]:
    write, include = _WRITERS[response.encoding], response.include
    if include:
        records = [_record_fields(each, write, include) for each in response.records]
    else:
        records = [
            {"offset": each.offset, "payload": write(each.payload or b"")} for each in response.records
        ]
    return {"records": records, "next_offset": response.next_offset}


def _record_fields(
    record: FetchedRecord, write: Callable[[bytes], Any], include: frozenset[str]
) -> dict[str, Any]:
    payload = record.payload
    fields = {"offset": record.offset, "payload": None if payload is None else write(payload)}
    if "key" in include:
        fields["key"] = None if record.key is None else write(record.key)
    if "headers" in include:
        fields["headers"] = _write_headers(record.headers, write)
    if "timestamp" in include:
        fields["timestamp"] = record.timestamp
    return fields


_responses = Converter()
_responses.register_unstructure_hook(FetchResponse, _fetch_fields)
_responses.register_unstructure_hook(ErrorResponse, lambda error: {"message": error.message})

# -- requests, as a client writes them ---------------------------------------------


def encode_request(request: Request) -> bytes:
    """Write a request; what is C{None} in it is left out."""
    fields = _requests.unstructure(request)
    present = {name: value for name, value in fields.items() if value is not None}
    return orjson.dumps({_REQUEST_NAMES[type(request)]: present})


def _produce_fields(request: ProduceRequest) -> dict[str, Any]:
    write = _WRITERS[request.encoding or "json"]
    fields = {
        **attrs.asdict(request, recurse=False),
        "records": [None if each is None else write(each) for each in request.records],
    }
    if request.keys is not None:
        fields["keys"] = [None if each is None else write(each) for each in request.keys]
    if request.headers is not None:
        fields["headers"] = [_write_headers(each, write) for each in request.headers]
    return fields


def _fetch_request_fields(request: FetchRequest) -> dict[str, Any]:
    fields = attrs.asdict(request, recurse=False)
    if request.include is not None:
        fields["include"] = sorted(request.include)
    return fields


_requests = Converter()
_requests.register_unstructure_hook(ProduceRequest, _produce_fields)
_requests.register_unstructure_hook(FetchRequest, _fetch_request_fields)

# -- responses, as a client reads them ---------------------------------------------


def decode_response(payload: bytes) -> Response:
    """
    Read a response.  Fields that are not known here are ignored.

    @raise BadResponse: it is none.
    """
    try:
        message = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise BadResponse(f"the response is not valid JSON: {error}") from None
    if type(message) is not dict or len(message) != 1:
        raise BadResponse("the response is not an object with one key")
    ((name, body),) = message.items()
    if name not in RESPONSES:
        raise BadResponse(f"the response is of an unknown kind, {shown(name)}")
    try:
        return _readers.structure(body, RESPONSES[name])
    except (ValueError, TypeError, KeyError, AttributeError, BaseValidationError) as error:
        raise BadResponse(f"the response {name} is not what it should be: {error!r}") from None


def _read_fetch(fields: Any, _: object) -> FetchResponse:
    return FetchResponse([_read_record(each) for each in fields["records"]], fields["next_offset"])


def _read_record(fields: dict[str, Any]) -> FetchedRecord:
    payload, key, headers = fields["payload"], fields.get("key"), fields.get("headers")
    return FetchedRecord(
        fields["offset"],
        None if payload is None else _read_bytes(payload),
        None if key is None else _read_bytes(key),
        None if headers is None else tuple([_read_header(*each) for each in headers]),
        fields.get("timestamp"),
    )


def _read_header(name: str, value: Any) -> Header:
    return name, None if value is None else _read_bytes(value)


_readers = Converter(detailed_validation=False)
_readers.register_structure_hook(FetchResponse, _read_fetch)
