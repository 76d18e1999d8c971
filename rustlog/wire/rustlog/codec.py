"""
JSON to requests, and responses to JSON.

Requests are read twice at most.  The first look is a fast one, done by C code wherever bytes are
counted by the million.  Whatever it stumbles over, and everything in which the words C{true}
or C{false} occur (to Python C{True} is a number, and would pass for a byte), gets a second, careful look,
which also finds the words for what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import orjson
from cattrs import Converter

from rustlog.wire.rustlog.messages import (
    FRAME_BYTES_MAX,
    REQUESTS,
    RESPONSES,
    U32,
    U64,
    ErrorResponse,
    Payloads,
    Request,
    Response,
    Settings,
)

U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1
SHOWN_MAX = 64
"""How much of a wrong value is shown."""

MESSAGE_MAX = 2000
"""Characters of an error message; what clients made up and we repeat may be as large as a frame."""


class ParseError(ValueError):
    """It is no request; the message says why."""

    def __str__(self) -> str:
        return f"failed to parse request: {self.args[0]}"


# -- sizes -------------------------------------------------------------------------

_PRODUCE_FRAME = len('{"Produce":{"offsets":[]}}')
_FETCH_FRAME = len('{"Fetch":{"records":[],"next_offset":}}') + len(str(U64_MAX))
_FETCH_RECORD = len('{"offset":,"payload":},')
_ONE_DIGIT = bytes(range(10))
_TWO_DIGITS_AT_MOST = bytes(range(100))

PRODUCE_RECORDS_MAX = (FRAME_BYTES_MAX - _PRODUCE_FRAME) // len(f"{2**63},")
"""How many records a Produce may have, so that their offsets fit an answer, whatever they will be."""

CONTAINERS_MAX = 2 * PRODUCE_RECORDS_MAX
"""
How many arrays and objects a request may contain: more than a good one needs.  Each can take
thirty times the memory that it takes as text.
"""

FETCH_ROOM = FRAME_BYTES_MAX - _FETCH_FRAME
"""Bytes of an answer to a Fetch that are left for records."""


def array_size(payload: bytes) -> int:
    """How many bytes it takes as a JSON array of numbers."""
    if not payload:
        return 2
    tens = len(payload.translate(None, _ONE_DIGIT))
    hundreds = len(payload.translate(None, _TWO_DIGITS_AT_MOST))
    return 2 * len(payload) + tens + hundreds + 1


def fetched_record_size(offset: int, payload: bytes) -> int:
    """What it takes of L{FETCH_ROOM}."""
    return _FETCH_RECORD + len(str(offset)) + array_size(payload)


# -- requests ----------------------------------------------------------------------


def decode_request(payload: bytes) -> Request:
    """
    Read a request.

    @raise ParseError: it is none.
    """
    name, body = _variant(_load(payload))
    request_class = REQUESTS[name]
    if b"true" not in payload and b"false" not in payload:
        try:
            return _fast.structure(body, request_class)
        except (ValueError, TypeError, KeyError):
            pass  # The careful look says what it is.
    return _look_carefully(name, body, request_class)


def _load(payload: bytes) -> object:
    if len(payload) > CONTAINERS_MAX and payload.count(b"[") + payload.count(b"{") > CONTAINERS_MAX:
        raise ParseError(f"there are more than {CONTAINERS_MAX} arrays and objects in it")
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise ParseError(f"it is not valid JSON: {error}") from None


def _variant(message: object) -> tuple[str, dict[str, Any]]:
    if type(message) is not dict or len(message) != 1:
        raise ParseError(f"it must be an object with one key, which is one of {', '.join(REQUESTS)}")
    ((name, body),) = message.items()
    if name not in REQUESTS:
        raise ParseError(f"unknown request {_shown(name)}; there are {', '.join(REQUESTS)}")
    if type(body) is not dict:
        raise ParseError(f"{name}: {_shown(body)} is not an object")
    return name, body


def _look_carefully(name: str, body: dict[str, Any], request_class: type[Request]) -> Request:
    values = {}
    for field in attrs.fields(attrs.resolve_types(request_class)):
        if field.name in body:
            try:
                values[field.name] = _careful.structure(body[field.name], field.type)
            except ValueError as error:
                raise ParseError(f"{name}.{field.name}: {error}") from None
        elif field.default is attrs.NOTHING:
            raise ParseError(f"{name}.{field.name} is missing")
    return request_class(**values)


def _shown(value: object) -> str:
    """A wrong value, or what there is to say of it."""
    if isinstance(value, (list, dict)):
        return "an array" if isinstance(value, list) else "an object"
    if value is None or isinstance(value, bool):
        return orjson.dumps(value).decode()
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def _integer(maximum: int) -> Callable[[object, object], int]:
    def structure(value: object, _: object) -> int:
        if type(value) is not int:
            raise ValueError(f"{_shown(value)} is not a whole number within 0..{maximum}")
        if not 0 <= value <= maximum:
            raise ValueError(f"{value} is not within 0..{maximum}")
        return value

    return structure


def _text(value: object, _: object) -> str:
    if type(value) is not str:
        raise ValueError(f"{_shown(value)} is not a string")
    return value


def _settings(value: object, _: object) -> dict[str, object]:
    if type(value) is not dict:
        raise ValueError(f"{_shown(value)} is not an object")
    for name, each in value.items():
        if type(each) not in (str, int, bool):
            raise ValueError(f"{_shown(each)} is not a value for {_shown(name)}")
    return value


def _payloads(value: object, _: object) -> list[bytes]:
    # C{bytes} makes five zeros of 5, and nothing of {}: only lists may get there.
    if type(value) is not list or not {list}.issuperset(map(type, value)):
        raise ValueError
    return list(map(bytes, value))


def _payloads_carefully(value: object, _: object) -> list[bytes]:
    if type(value) is not list:
        raise ValueError(f"{_shown(value)} is not an array of records")
    return [_payload_carefully(index, each) for index, each in enumerate(value)]


def _payload_carefully(index: int, value: object) -> bytes:
    if type(value) is not list:
        raise ValueError(f"record {index}: {_shown(value)} is not an array of bytes")
    if not {int}.issuperset(map(type, value)):
        wrong = next(each for each in value if type(each) is not int)
        raise ValueError(f"record {index}: {_shown(wrong)} is not a byte")
    try:
        return bytes(value)
    except ValueError:
        wrong = next(each for each in value if not 0 <= each <= 255)
        raise ValueError(f"record {index}: {wrong} is not within 0..255") from None


def _converter(payloads: Callable[[object, object], list[bytes]]) -> Converter:
    converter = Converter(detailed_validation=False)
    converter.register_structure_hook(str, _text)
    converter.register_structure_hook(U32, _integer(U32_MAX))
    converter.register_structure_hook(U64, _integer(U64_MAX))
    converter.register_structure_hook(Settings, _settings)
    converter.register_structure_hook(Payloads, payloads)
    return converter


_fast = _converter(_payloads)
_careful = _converter(_payloads_carefully)

# -- responses ---------------------------------------------------------------------

_responses = Converter()
_responses.register_unstructure_hook(bytes, list)


def encode_response(response: Response) -> bytes:
    """Write a response."""
    return orjson.dumps({RESPONSES[type(response)]: _responses.unstructure(response)})


def encode_error(message: str) -> bytes:
    """Write an Error, shortened if it is very long."""
    if len(message) > MESSAGE_MAX:
        message = f"{message[:MESSAGE_MAX]}…"
    return encode_response(ErrorResponse(message))
