"""
From bytes to the messages that C{kio} describes.

C{kio} has a reader of its own.  It is not used, because it trusts what it reads: an array that claims to have
many items makes it ask for the memory of all of them, which ends the process; and tagged fields that it
does not know, which the protocol demands to be skipped, are errors to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType
from typing import Any, get_args
from uuid import UUID

from attrs import frozen
from kio.schema.errors import ErrorCode

from rustlog.log.batch import Buffer
from rustlog.wire.kafka.fields import NUMBERS, array_type, item_class
from rustlog.wire.kafka.primitives import FlexibleReader, Reader, Unreadable, read_beginning, read_whole

Read = Callable[[Reader], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ID = UUID(int=0)


def decode(entity_class: type[Any], data: Buffer, position: int = 0) -> Any:
    """
    The message that begins at C{position}.  What follows it is not looked at, as in Kafka: librdkafka asks
    for all topics with three bytes too many.

    @raise Unreadable: there is no such message.
    """
    reader = (FlexibleReader if entity_class.__flexible__ else Reader)(data, position)
    return read_beginning(reader, _entity_reader(entity_class))


@frozen
class _Plan:
    """How the fields of a class are read: in order, and by their tags."""

    untagged: tuple[tuple[str, Read], ...]
    tagged: dict[int, tuple[str, Read]]
    defaults: dict[str, Any]


@cache
def _plan(entity_class: type[Any]) -> _Plan:
    untagged, tagged, defaults = [], {}, {}
    for each in fields(entity_class):
        tag = each.metadata.get("tag")
        if tag is None:
            untagged.append((each.name, _field_reader(each, NoneType in get_args(each.type))))
        else:
            tagged[tag] = (each.name, _field_reader(each, False))
            defaults[each.name] = each.default
    return _Plan(tuple(untagged), tagged, defaults)


def _read_entity(reader: Reader, entity_class: type[Any]) -> Any:
    plan = _plan(entity_class)  # type: ignore[arg-type]
    values = dict(plan.defaults)
    for name, read in plan.untagged:
        values[name] = read(reader)
    for tag, content in reader.tags():
        if tag in plan.tagged:
            name, read = plan.tagged[tag]
            values[name] = read_whole(FlexibleReader(content, 0), read)
    return entity_class(**values)


def _field_reader(field: Field[Any], is_nullable: bool) -> Read:
    entity = item_class(field)
    if array_type(field.type) is not None:
        one = _value_reader(field, False) if entity is None else _entity_reader(entity)
        return _array_reader(one, is_nullable)
    if entity is None:
        return _value_reader(field, is_nullable)
    return _nullable_entity_reader(entity) if is_nullable else _entity_reader(entity)


def _entity_reader(entity_class: type[Any]) -> Read:
    return lambda reader: _read_entity(reader, entity_class)


def _nullable_entity_reader(entity_class: type[Any]) -> Read:
    """A byte says whether there is one: -1 for null."""
    layout = NUMBERS["int8"]
    return lambda reader: _read_entity(reader, entity_class) if reader.unpack(layout)[0] >= 0 else None


def _array_reader(one: Read, is_nullable: bool) -> Read:
    def read(reader: Reader) -> tuple[Any, ...] | None:
        count = reader.count()
        if count < 0 and not is_nullable:
            raise Unreadable("an array is null")
        return None if count < 0 else tuple([one(reader) for _ in range(count)])

    return read


def _value_reader(field: Field[Any], is_nullable: bool) -> Read:
    kind = field.metadata["kafka_type"]
    if kind in NUMBERS:
        layout = NUMBERS[kind]
        return lambda reader: reader.unpack(layout)[0]
    if kind == "string":
        return Reader.nullable_string if is_nullable else Reader.string
    return _OTHERS[kind, is_nullable]


# -- what is more than a number or a text ----------------------------------------------


def _bytes(reader: Reader) -> bytes:
    content = reader.records()
    if content is None:
        raise Unreadable("bytes are null")
    return bytes(content)


def _nullable_bytes(reader: Reader) -> bytes | None:
    content = reader.records()
    return None if content is None else bytes(content)


def _uuid(reader: Reader) -> UUID | None:
    value = reader.uuid()
    return None if value == _NO_ID else value


def _error_code(reader: Reader) -> ErrorCode:
    return ErrorCode(reader.unpack(NUMBERS["int16"])[0])


def _duration_32(reader: Reader) -> timedelta:
    return timedelta(milliseconds=reader.unpack(NUMBERS["int32"])[0])


def _duration_64(reader: Reader) -> timedelta:
    return timedelta(milliseconds=reader.unpack(NUMBERS["int64"])[0])


def _time(reader: Reader) -> datetime:
    return _EPOCH + timedelta(milliseconds=reader.unpack(NUMBERS["int64"])[0])


def _nullable_time(reader: Reader) -> datetime | None:
    value = reader.unpack(NUMBERS["int64"])[0]
    return None if value == -1 else _EPOCH + timedelta(milliseconds=value)


_OTHERS: dict[tuple[str, bool], Read] = {
    ("bytes", False): _bytes,
    ("bytes", True): _nullable_bytes,
    ("records", False): _bytes,
    ("records", True): _nullable_bytes,
    ("uuid", False): _uuid,
    ("uuid", True): _uuid,
    ("error_code", False): _error_code,
    ("timedelta_i32", False): _duration_32,
    ("timedelta_i64", False): _duration_64,
    ("datetime_i64", False): _time,
    ("datetime_i64", True): _nullable_time,
}
