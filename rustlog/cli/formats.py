"""
How records are written and read by C{consume} and C{produce}: as they are, as JSON lines, or through a
template.

A template is text with these in it, as in kcat:

    ==  =====================================  ==  ====================================
    %t  topic                                  %s  value
    %p  partition                              %S  bytes of the value, -1 if it is null
    %o  offset                                 %k  key
    %T  timestamp, milliseconds                %K  bytes of the key, -1 if it is null
    %h  headers, C{name=value,name=value}      %%  a percent sign
    ==  =====================================  ==  ====================================

and C{\\n}, C{\\t}, C{\\r}, C{\\0}, C{\\\\} and C{\\xNN}.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import orjson

from rustlog.cli.output import json_line
from rustlog.model import Record

Format = Callable[[str, int, Record], bytes]
"""What is written of a record of a topic and partition."""

_SIMPLE = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(.?)|\\x([0-9a-fA-F]{2})|\\(.?)|([^%\\]+)", re.DOTALL)

_FIELDS: dict[str, Format] = {
    "t": lambda topic, partition, record: topic.encode(),
    "p": lambda topic, partition, record: b"%d" % partition,
    "o": lambda topic, partition, record: b"%d" % (record.offset or 0),
    "T": lambda topic, partition, record: b"%d" % record.timestamp,
    "s": lambda topic, partition, record: record.value or b"",
    "S": lambda topic, partition, record: b"%d" % _length(record.value),
    "k": lambda topic, partition, record: record.key or b"",
    "K": lambda topic, partition, record: b"%d" % _length(record.key),
    "h": lambda topic, partition, record: b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (value or b"") for name, value in record.headers
    ),
    "%": lambda topic, partition, record: b"%",
}


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


# -- writing --


def value_format(delimiter: bytes) -> Format:
    """The value, as it is."""
    return lambda topic, partition, record: (record.value or b"") + delimiter


def json_format(topic: str, partition: int, record: Record) -> bytes:
    """
    A JSON object on a line.  What is text is C{key} and C{value}; what is not valid UTF-8 is C{key_base64}
    and C{value_base64} instead.
    """
    headers = [
        {
            "name": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
            **_as_json("value", value),
        }
        for name, value in record.headers
    ]
    return json_line(
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": None if record.timestamp < 0 else record.timestamp,
            **_as_json("key", record.key),
            "headers": headers,
            **_as_json("value", record.value),
        }
    )


def _as_json(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        assert data is not None
        return {f"{name}_base64": b64encode(data).decode("ascii")}


def template_format(template: str) -> Format:
    """
    What a template says.

    @raise ValueError: it says something unknown.
    """
    parts: list[Format] = []
    for match in _TOKEN.finditer(template):
        field, code, escape, text = match.groups()
        if field is not None:
            if field not in _FIELDS:
                known = " ".join(f"%{each}" for each in _FIELDS)
                raise ValueError(f"there is no %{field} in templates; there are {known}")
            parts.append(_FIELDS[field])
        else:
            parts.append(_constant(_constant_bytes(code, escape, text)))
    return lambda topic, partition, record: b"".join(part(topic, partition, record) for part in parts)


def _constant(data: bytes) -> Format:
    return lambda topic, partition, record: data


def _constant_bytes(code: str | None, escape: str | None, text: str | None) -> bytes:
    if code is not None:
        return bytes.fromhex(code)
    if escape is not None:
        if escape not in _SIMPLE:
            raise ValueError(rf"there is no \{escape} in templates; there are \n \t \r \0 \\ and \xNN")
        return _SIMPLE[escape]
    assert text is not None
    return text.encode("utf-8", "surrogateescape")


def unescape(text: str) -> bytes:
    """
    Text with C{\\n}, C{\\t} and the like in it.

    @raise ValueError: an unknown escape.
    """
    return b"".join(
        _constant_bytes(code, escape, other if field is None else f"%{field}")
        for field, code, escape, other in (match.groups() for match in _TOKEN.finditer(text))
    )


# -- reading --


def parse_json(line: bytes) -> Record:
    """
    What L{json_format} has written; everything but a value may be missing.

    @raise ValueError: it is something else.
    """
    fields = orjson.loads(line)
    if not isinstance(fields, dict) or not {"value", "value_base64"} & fields.keys():
        raise ValueError('it is not an object with a "value"')
    timestamp = fields.get("timestamp")
    if timestamp is not None and type(timestamp) is not int:
        raise ValueError("its timestamp is not a number of milliseconds")
    headers = tuple(_header(each) for each in fields.get("headers") or ())
    return Record(
        _from_json("value", fields),
        _from_json("key", fields),
        headers,
        -1 if timestamp is None else timestamp,
    )


def _header(fields: Any) -> tuple[str, bytes | None]:
    if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
        raise ValueError('a header is not an object with a "name" and a "value"')
    return fields["name"], _from_json("value", fields)


def _from_json(name: str, fields: dict[str, Any]) -> bytes | None:
    encoded, text = fields.get(f"{name}_base64"), fields.get(name)
    if not all(each is None or isinstance(each, str) for each in (encoded, text)):
        raise ValueError(f"its {name} is not text")
    if encoded is not None:
        return b64decode(encoded, validate=True)
    return None if text is None else text.encode()
