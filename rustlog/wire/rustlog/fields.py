"""
What the fields of requests may be, judged strictly.

Requests are read twice at most.  The first look is a fast one, done by C code wherever bytes are
counted by the million.  Whatever it stumbles over gets a second, careful look, which also finds the
words for what is wrong.  Only one thing escapes the fast look: to Python C{True} is a number, and
passes for a byte in an array.  So where the words C{true} or C{false} occur, arrays of bytes need the
careful one at once.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable
from functools import partial
from operator import eq
from types import NoneType
from typing import Any, get_args

import orjson
from cattrs import Converter

from rustlog.wire.rustlog.messages import (
    INCLUDABLE,
    POSITIONS,
    U32,
    U64,
    Changes,
    Encoding,
    Header,
    HeaderLists,
    Include,
    Keys,
    OffsetReset,
    Payloads,
    Position,
    Settings,
    Timestamps,
)

U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1
TIMESTAMP_MAX = 2**63 - 1
SHOWN_MAX = 64
"""How much of a wrong value is shown."""

JSON_ENCODINGS = ("json", "base64")
"""How bytes may be written within JSON."""

Hook = Callable[[Any, Any], Any]


def shown(value: object) -> str:
    """A wrong value, or what there is to say of it."""
    if isinstance(value, (list, dict)):
        return "an array" if isinstance(value, list) else "an object"
    if value is None or isinstance(value, bool):
        return orjson.dumps(value).decode()
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


# -- plain values ------------------------------------------------------------------


def _integer(maximum: int) -> Hook:
    def structure(value: object, _: object) -> int:
        if type(value) is not int:
            raise ValueError(f"{shown(value)} is not a whole number within 0..{maximum}")
        if not 0 <= value <= maximum:
            raise ValueError(f"{value} is not within 0..{maximum}")
        return value

    return structure


def _text(value: object, _: object) -> str:
    if type(value) is not str:
        raise ValueError(f"{shown(value)} is not a string")
    return value


def _flag(value: object, _: object) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{shown(value)} is neither true nor false")
    return value


def _choice(choices: tuple[str, ...]) -> Hook:
    def structure(value: object, _: object) -> str:
        if type(value) is not str or value not in choices:
            raise ValueError(f"{shown(value)} is not one of {', '.join(choices)}")
        return value

    return structure


_includable = _choice(INCLUDABLE)


def _include(value: object, _: object) -> frozenset[str]:
    if type(value) is not list:
        raise ValueError(f"{shown(value)} is not an array of names")
    return frozenset([_includable(each, None) for each in value])


def _position(value: object, _: object) -> str | int:
    if type(value) is int and 0 <= value <= TIMESTAMP_MAX:
        return value
    if type(value) is str and value in POSITIONS:
        return value
    raise ValueError(f"{shown(value)} is neither one of {', '.join(POSITIONS)} nor a time in milliseconds")


def _settings(*kinds: type) -> Hook:
    def structure(value: object, _: object) -> dict[str, object]:
        if type(value) is not dict:
            raise ValueError(f"{shown(value)} is not an object")
        for name, each in value.items():
            if type(each) not in kinds:
                raise ValueError(f"{shown(each)} is not a value for {shown(name)}")
        return value

    return structure


def _timestamps(value: object, _: object) -> list[int | None]:
    if type(value) is not list:
        raise ValueError(f"{shown(value)} is not an array of times")
    for index, each in enumerate(value):
        if each is not None and (type(each) is not int or not 0 <= each <= TIMESTAMP_MAX):
            raise ValueError(f"record {index}: {shown(each)} is not a time within 0..{TIMESTAMP_MAX}")
    return value


# -- bytes, as arrays of numbers or as base64 --------------------------------------


def _array(value: object) -> bytes:
    # C{bytes} makes five zeros of 5, and nothing of {}: only lists may get there.
    if type(value) is not list:
        raise ValueError
    return bytes(value)


def _array_carefully(value: object) -> bytes:
    if type(value) is not list:
        raise ValueError(f"{shown(value)} is not an array of bytes")
    if not {int}.issuperset(map(type, value)):
        wrong = next(each for each in value if type(each) is not int)
        raise ValueError(f"{shown(wrong)} is not a byte")
    try:
        return bytes(value)
    except ValueError:
        wrong = next(each for each in value if not 0 <= each <= 255)
        raise ValueError(f"{wrong} is not within 0..255") from None


_base64 = partial(a2b_base64, strict_mode=True)


def _base64_carefully(value: object) -> bytes:
    if type(value) is not str:
        raise ValueError(f"{shown(value)} is not base64 in a string")
    try:
        return _base64(value)
    except ValueError as error:
        raise ValueError(f"{shown(value)} is not base64: {error}") from None


def _payloads(kind: type, decode: Callable[[Any], bytes]) -> Hook:
    kinds = {kind, NoneType}

    def structure(value: object, _: object) -> list[bytes | None]:
        if type(value) is not list:
            raise ValueError
        found = set(map(type, value))
        if not kinds.issuperset(found):
            raise ValueError
        if NoneType in found:
            return [None if each is None else decode(each) for each in value]
        return list(map(decode, value))

    return structure


def _payloads_carefully(what: str, decode: Callable[[Any], bytes]) -> Hook:
    def structure(value: object, _: object) -> list[bytes | None]:
        if type(value) is not list:
            raise ValueError(f"{shown(value)} is not an array of {what}")
        return [None if each is None else _of_record(index, decode, each) for index, each in enumerate(value)]

    return structure


def _headers(decode: Callable[[Any], bytes]) -> Hook:
    def structure(value: object, _: object) -> list[tuple[Header, ...]]:
        if type(value) is not list:
            raise ValueError(f"{shown(value)} is not an array of arrays of headers")
        return [_of_record(index, _headers_of_record, each, decode) for index, each in enumerate(value)]

    return structure


def _headers_of_record(value: object, decode: Callable[[Any], bytes]) -> tuple[Header, ...]:
    if value is None:
        return ()
    if type(value) is not list:
        raise ValueError(f"{shown(value)} is not an array of headers")
    return tuple([_header(each, decode) for each in value])


def _header(value: object, decode: Callable[[Any], bytes]) -> Header:
    if type(value) is not list or len(value) != 2 or type(value[0]) is not str:
        raise ValueError(f"{shown(value)} is not a header, which is [name, value]")
    name, content = value
    return name, None if content is None else decode(content)


def _of_record(index: int, function: Callable[..., Any], *arguments: object) -> Any:
    try:
        return function(*arguments)
    except ValueError as error:
        raise ValueError(f"record {index}: {error}") from None


# -- all together ------------------------------------------------------------------


def _converter(decode: Callable[[Any], bytes], payloads: Hook, keys: Hook) -> Converter:
    converter = Converter(detailed_validation=False)
    converter.register_structure_hook(str, _text)
    converter.register_structure_hook(bool, _flag)
    for kind, hook in (
        (U32, _integer(U32_MAX)),
        (U64, _integer(U64_MAX)),
        (Settings, _settings(str, int, bool)),
        (Changes, _settings(str, int, bool, NoneType)),
        (Timestamps, _timestamps),
        (Include, _include),
        (Position, _position),
        (Encoding, _choice(JSON_ENCODINGS)),
        (OffsetReset, _choice(get_args(OffsetReset))),
        (Payloads, payloads),
        (Keys, keys),
        (HeaderLists, _headers(decode)),
    ):
        converter.register_structure_hook_func(partial(eq, kind), hook)
    return converter


def _fast(kind: type, decode_kind: Callable[[Any], bytes], decode: Callable[[Any], bytes]) -> Converter:
    payloads = _payloads(kind, decode_kind)
    return _converter(decode, payloads, payloads)


def _careful(decode: Callable[[Any], bytes]) -> Converter:
    return _converter(decode, _payloads_carefully("records", decode), _payloads_carefully("keys", decode))


FAST = {"json": _fast(list, bytes, _array), "base64": _fast(str, _base64, _base64)}
CAREFUL = {"json": _careful(_array_carefully), "base64": _careful(_base64_carefully)}
