"""
Commands and answers of the MiniKafka protocol, as values; no I/O.

    TOPIC <topic> <key> <length>\\n<payload>           +OFFSET <offset>
    <topic>:<group>:<partition>[:<toOffset>]           +MSG <offset> <length> <partition> <key>\\n<payload>,
                                                       +EMPTY or +END <toOffset>
    ACK                                                +OK, then the next +MSG, +EMPTY or +END
    SET_OFFSET <topic>:<group> <offset|BEGIN>          +OK

Whatever is refused is answered with C{-ERR} and a sentence.
"""

from __future__ import annotations

import re
from typing import Union
from urllib.parse import quote_from_bytes

from attrs import frozen

from rustlog.model import MAX_OFFSET

LINE_BYTES_MAX = 8 * 1024
ALL_PARTITIONS = -1

OK = b"+OK\n"
EMPTY = b"+EMPTY\n"

_TOPIC = b"TOPIC"
_TOPIC_FORM = "bad format, expected TOPIC <topic> <key> <length>"
_CONSUME_FORM = "bad format, expected topic:group:partition[:toOffset]"
_SET_OFFSET_FORM = "bad format, expected SET_OFFSET <topic>:<group> <offset|BEGIN>"
_NOT_TEXT = "bad format, the line is not valid UTF-8"
INVALID_LENGTH = "invalid payload length"

_NUMBER = re.compile("[0-9]{1,19}")
_PARTITION = re.compile("-?[0-9]{1,10}")
_BREAKS_LINE = re.compile("[\r\n]")
_PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


class Misunderstood(Exception):
    """A line that is no command, in the words that its client is told."""


@frozen
class Produce:
    """C{TOPIC}; the payload is C{None} where it was too large to be read."""

    topic: str
    key: str
    payload: bytes | None


@frozen
class Consume:
    """A consume line.  C{to_offset} is the last offset that is wanted."""

    topic: str
    group: str
    partition: int
    to_offset: int | None = None


@frozen
class Ack:
    """C{ACK}."""


@frozen
class SetOffset:
    """C{SET_OFFSET}; C{offset} C{None} is C{BEGIN}."""

    topic: str
    group: str
    offset: int | None


Command = Union[Produce, Consume, Ack, SetOffset]


# -- commands --


def announced_length(line: bytes) -> int | None:
    """
    How long the payload behind a line is; C{None} if there is none.

    @raise Misunderstood: nobody can tell.
    """
    words = line.split(b" ")
    if words[0] != _TOPIC:
        return None
    if len(words) < 4:
        raise Misunderstood(_TOPIC_FORM)
    length = words[-1].decode("ascii", "replace")
    if not _NUMBER.fullmatch(length):
        raise Misunderstood(INVALID_LENGTH)
    return int(length)


def parse(request: bytes) -> Command:
    """
    A line, perhaps with a line feed and its payload behind it.

    @raise Misunderstood: it is no command.
    """
    line, feed, payload = request.partition(b"\n")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise Misunderstood(_NOT_TEXT) from None
    if text == "ACK":
        return Ack()
    name = text.split(" ", 1)[0]
    if name == "TOPIC":
        return _produce(text, payload if feed else None)
    if name == "SET_OFFSET":
        return _set_offset(text)
    if ":" in text:
        return _consume(text)
    raise Misunderstood("unknown command")


def _produce(text: str, payload: bytes | None) -> Produce:
    words = text.split(" ")
    if len(words) != 4:
        raise Misunderstood(_TOPIC_FORM)
    return Produce(words[1], words[2], payload)


def _consume(text: str) -> Consume:
    topic, *others = text.split(":")
    if not 2 <= len(others) <= 3 or not topic or not others[0]:
        raise Misunderstood(_CONSUME_FORM)
    group, partition, *end = others
    if not _PARTITION.fullmatch(partition) or int(partition) < ALL_PARTITIONS:
        raise Misunderstood("invalid partition number")
    return Consume(topic, group, int(partition), _offset(end[0], "invalid toOffset") if end else None)


def _set_offset(text: str) -> SetOffset:
    place, _, offset = text.partition(" ")[2].rpartition(" ")
    topic, _, group = place.partition(":")
    if not topic or not group:
        raise Misunderstood(_SET_OFFSET_FORM)
    return SetOffset(topic, group, None if offset == "BEGIN" else _offset(offset, "invalid offset format"))


def _offset(text: str, otherwise: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > MAX_OFFSET:
        raise Misunderstood(otherwise)
    return int(text)


def partition_of(key: str, partitions: int) -> int:
    """Where a key belongs: by the hash code that Java gives it, so that it is where MiniKafka has put it."""
    number = 0
    for unit in _utf16_units(key):
        number = (31 * number + unit) & 0xFFFFFFFF
    if number == 0x80000000:
        return 0  # It has no absolute value in Java.
    return min(number, 0x100000000 - number) % partitions


def _utf16_units(text: str) -> list[int]:
    encoded = text.encode("utf-16-be")
    return [high << 8 | low for high, low in zip(encoded[::2], encoded[1::2], strict=True)]


# -- answers --


def offset_answer(offset: int) -> bytes:
    return b"+OFFSET %d\n" % offset


def end_answer(to_offset: int) -> bytes:
    return b"+END %d\n" % to_offset


def message_answer(offset: int, partition: int, key: bytes | None, value: bytes | None, end: bytes) -> bytes:
    """A message; C{end} is what follows its payload."""
    value = value or b""
    return b"+MSG %d %d %d %b\n%b%b" % (offset, len(value), partition, shown_key(key or b""), value, end)


def shown_key(key: bytes) -> bytes:
    """As it is, unless it would break the line; then percent-escaped."""
    try:
        if not _BREAKS_LINE.search(key.decode()):
            return key
    except UnicodeDecodeError:
        pass
    return quote_from_bytes(key, safe=_PLAIN).encode()


def refusal(words: str) -> bytes:
    """Words may quote what the client sent, which must not become more than one line."""
    return b"-ERR " + " ".join(words.split()).encode("utf-8", "replace") + b"\n"
