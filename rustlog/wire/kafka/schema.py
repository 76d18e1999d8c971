"""
The messages of the Kafka protocol, by key and version, over C{kio}.

This is for the control plane.  Produce and Fetch, which carry records, have codecs of their own
(L{rustlog.wire.kafka.produce}, L{rustlog.wire.kafka.fetch}).

One handler serves all versions of a request.  So L{make} takes every field that any version of a
response has, and leaves out what this one does not have::

    make(response_class(3, 9), brokers=[{"node_id": 0, "host": "localhost", "port": 9092}], topics=[])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType
from typing import Any, get_args

from attrs import frozen
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode

from rustlog.wire.kafka.decoding import decode
from rustlog.wire.kafka.encoding import encode
from rustlog.wire.kafka.fields import array_type, item_class
from rustlog.wire.kafka.primitives import Unreadable

__all__ = [
    "Entity",
    "Unreadable",
    "decode",
    "encode",
    "is_flexible",
    "make",
    "make_error",
    "request_class",
    "response_class",
    "response_header_version",
]

Entity = Any
"""A request, a response, or an item of one: a frozen dataclass of C{kio}."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# -- classes ---------------------------------------------------------------------------


@cache
def request_class(key: int, version: int) -> type[Entity]:
    """Of the requests of an API in one version; loaded at first use."""
    return load_request_schema(key, version)


@cache
def response_class(key: int, version: int) -> type[Entity]:
    """Of the answers to them."""
    return load_response_schema(key, version)


def is_flexible(key: int, version: int) -> bool:
    """Whether requests and responses of that version have compact and tagged fields."""
    return bool(request_class(key, version).__flexible__)


def response_header_version(key: int, version: int) -> int:
    """1 has tagged fields, 0 has not; that of ApiVersions is always 0."""
    return int(response_class(key, version).__header_schema__.__version__)


# -- making ----------------------------------------------------------------------------


def make(entity_class: type[Entity], /, **values: Any) -> Entity:
    """
    A message, or an item of one.

    Items may be given as mappings, arrays as any iterable, times and durations as milliseconds, errors as
    numbers.  What this version does not have is left out.  What has a default, may be null, is an error code,
    false, or the throttle time may be omitted.
    """
    plan = _plan(entity_class)  # type: ignore[arg-type]
    found = {name: plan.convert[name](value) for name, value in values.items() if name in plan.convert}
    for name, default in plan.defaults.items():
        found.setdefault(name, default)
    return entity_class(**found)


def make_error(entity_class: type[Entity], code: ErrorCode) -> Entity | None:
    """
    A response that says nothing but that the request failed; C{None} if such a response has no place
    for an error.
    """
    names = {each.name for each in fields(entity_class)}
    if "error_code" not in names:
        return None
    blanks = {each.name: _blank(each) for each in fields(entity_class)}
    return make(entity_class, **{**blanks, "error_code": code})


@frozen
class _Plan:
    """How the fields of a class are filled."""

    convert: Mapping[str, Callable[[Any], Any]]
    defaults: Mapping[str, Any]


@cache
def _plan(entity_class: type[Entity]) -> _Plan:
    everything = fields(entity_class)
    defaults = {each.name: _omitted(each) for each in everything}
    return _Plan(
        {each.name: _converter(each) for each in everything},
        {name: value for name, value in defaults.items() if value is not MISSING},
    )


def _omitted(field: Field[Any]) -> Any:
    """What stands where nothing was given; C{MISSING} if something must be."""
    if field.default is not MISSING:
        return field.default
    if field.name == "throttle_time":
        return timedelta(0)
    if field.metadata.get("kafka_type") == "error_code":
        return ErrorCode.none
    if field.metadata.get("kafka_type") == "bool":
        return False
    return None if NoneType in get_args(field.type) else MISSING


def _blank(field: Field[Any]) -> Any:
    """The value that means nothing."""
    omitted = _omitted(field)
    if omitted is not MISSING:
        return omitted
    kind = field.metadata.get("kafka_type", "")
    if item_class(field) is not None or _is_array(field):
        return ()
    return {"string": "", "bytes": b"", "records": None, "uuid": None}.get(kind, 0)


def _converter(field: Field[Any]) -> Callable[[Any], Any]:
    entity_class = item_class(field)
    if entity_class is not None:
        one = _entity_converter(entity_class)
        return _array_of(one) if _is_array(field) else one
    one = _PRIMITIVES.get(field.metadata.get("kafka_type", ""), _unchanged)
    return _array_of(one) if _is_array(field) else one


def _is_array(field: Field[Any]) -> bool:
    return array_type(field.type) is not None


def _entity_converter(entity_class: type[Entity]) -> Callable[[Any], Any]:
    return lambda value: make(entity_class, **value) if isinstance(value, Mapping) else value


def _array_of(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: None if values is None else tuple(map(one, values))


def _unchanged(value: Any) -> Any:
    return value


def _duration(value: Any) -> Any:
    return timedelta(milliseconds=value) if isinstance(value, int) else value


def _time(value: Any) -> Any:
    return _EPOCH + timedelta(milliseconds=value) if isinstance(value, int) else value


_PRIMITIVES: dict[str, Callable[[Any], Any]] = {
    "error_code": ErrorCode,
    "timedelta_i32": _duration,
    "timedelta_i64": _duration,
    "datetime_i64": _time,
}
