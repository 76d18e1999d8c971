"""
How log events are written: as text for people, or as JSON lines for machines.

Events are those of L{twisted.logger}.  A text line is time, level and message::

    2026-11-18 09:30:00.125+01:00 INFO  ready: rustlog on 127.0.0.1:9091

A JSON line has C{time}, C{level}, C{namespace}, C{message}, perhaps C{failure} (a traceback),
and every field that the event was logged with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from typing import IO, Any

from attrs import frozen
from constantly import NamedConstant
from twisted.logger import (
    FileLogObserver,
    FilteringLogObserver,
    ILogObserver,
    LogEvent,
    LogLevel,
    LogLevelFilterPredicate,
    formatEvent,
)

LEVELS = tuple(each.name for each in LogLevel.iterconstants())
"""From the most talkative to the most silent."""

_NOISE = ("twisted", "log_legacy")
"""Where Twisted tells of its own life (factories starting, ports closing, reactors chosen)."""

_OUR_NAMES = frozenset({"time", "level", "namespace", "message", "failure"})
_LEGACY_NAMES = frozenset({"format", "isError", "printed", "system", "why"})
"""Fields that C{twisted.python.log} adds for its own old observers."""


class LogFormat(Enum):
    """What a line of the log looks like."""

    TEXT = "text"
    JSON = "json"


@frozen
class LogConfig:
    """How to log; C{level} is one of L{LEVELS}."""

    format: LogFormat = LogFormat.TEXT
    level: str = "info"


def make_observer(config: LogConfig, stream: IO[Any]) -> ILogObserver:
    """An observer that writes what is important enough to C{stream}."""
    level = LogLevel.levelWithName(config.level)
    importance = LogLevelFilterPredicate(defaultLogLevel=level)
    if level is not LogLevel.debug:
        for namespace in _NOISE:
            importance.setLogLevelForNamespace(namespace, max(level, LogLevel.warn, key=_rank))
    return FilteringLogObserver(FileLogObserver(stream, _FORMATTERS[config.format]), [importance])


def text_line(event: LogEvent) -> str:
    """The event as a line of text, with further lines (of a traceback) indented."""
    level = event.get("log_level", LogLevel.info).name.upper()
    time = _time(event).astimezone().isoformat(" ", "milliseconds")
    message = _message(event).replace("\n", "\n    ")
    return f"{time} {level:<5} {message}\n"


def json_line(event: LogEvent) -> str:
    """The event as a JSON object on a line of its own."""
    line: dict[str, object] = {
        "time": _time(event).isoformat("T", "milliseconds"),
        "level": event.get("log_level", LogLevel.info).name,
        "namespace": event.get("log_namespace", ""),
        "message": formatEvent(event),
    }
    failure = event.get("log_failure")
    if failure is not None:
        line["failure"] = failure.getTraceback()
    for name, value in event.items():
        if _is_field(name):
            line[name] = _plain(value)
    return json.dumps(line) + "\n"


_FORMATTERS: dict[LogFormat, Callable[[LogEvent], str]] = {
    LogFormat.TEXT: text_line,
    LogFormat.JSON: json_line,
}


def _rank(level: NamedConstant) -> int:
    return LEVELS.index(level.name)


def _time(event: LogEvent) -> datetime:
    return datetime.fromtimestamp(event.get("log_time", 0), UTC)


def _message(event: LogEvent) -> str:
    message = formatEvent(event)
    failure = event.get("log_failure")
    if failure is None:
        return message
    return f"{message}\n{failure.getTraceback().rstrip()}"


def _is_field(name: str) -> bool:
    return not name.startswith("log_") and name not in _OUR_NAMES and name not in _LEGACY_NAMES


def _plain(value: object) -> object:
    """C{value} if JSON knows its like, otherwise what it looks like."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)
