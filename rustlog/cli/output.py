"""
What commands print: tables for people, JSON for programs, and how far they have come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import IO

import orjson

_REFRESH_SECONDS = 0.2
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns under titles; numbers are aligned to the right, and what is not known is a hyphen."""
    rows = [list(row) for row in rows]
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    to_the_right = [
        any(isinstance(row[index], int) for row in rows)
        and not any(isinstance(row[index], str) for row in rows)
        for index in range(len(titles))
    ]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, to_the_right, strict=True)
        ).rstrip()
        for row in (list(titles), *cells)
    ]
    return "\n".join(lines) + "\n"


def document(value: object) -> str:
    """One JSON document, for people to read as well."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"


def json_line(value: object) -> bytes:
    """One line of JSON lines."""
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def human_size(size: float) -> str:
    """Bytes, in words."""
    for unit in _UNITS[:-1]:
        if abs(size) < 1024:
            return f"{size:g} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"


def count(number: int, noun: str) -> str:
    """C{1 record}, C{2 records}."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def time_text(milliseconds: int | None) -> str | None:
    """A moment, in UTC; C{None} where there is none."""
    if milliseconds is None or milliseconds < 0:
        return None
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


class Progress:
    """
    A line that tells how far one has come, and disappears at the end.

    @param stream: where it is shown; C{None}: nobody looks.
    @param describe: says in words how far C{done} is.
    """

    def __init__(
        self, stream: IO[str] | None, now: Callable[[], float], describe: Callable[[int], str]
    ) -> None:
        self._stream = stream
        self._now = now
        self._describe = describe
        self._done = 0
        self._due = now() + _REFRESH_SECONDS
        self._width = 0

    def advance(self, amount: int) -> None:
        """So much more has been done."""
        self._done += amount
        if self._stream is not None and self._now() >= self._due:
            self._due = self._now() + _REFRESH_SECONDS
            self._show(self._describe(self._done))

    def show(self) -> None:
        """Say how far it is, however short that takes."""
        if self._stream is not None:
            self._show(self._describe(self._done))

    def clear(self) -> None:
        """Give the line back."""
        if self._stream is not None and self._width:
            self._show("")
            self._stream.write("\r")
            self._stream.flush()
            self._width = 0

    def _show(self, text: str) -> None:
        assert self._stream is not None
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)
