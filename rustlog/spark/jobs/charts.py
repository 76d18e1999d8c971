"""
Charts as SVG, for a page that loads nothing: text in, text out.

Colours are those of the page (C{var(--…)}), so that a chart is as readable in the dark as in the light.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape

from attrs import frozen

WIDTH, HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 10, 30
_INNER_WIDTH, _INNER_HEIGHT = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
_TICKS = 4
_LABELS_MAX = 6
_DECIMAL = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
_BINARY = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_HOUR_MS = 60 * 60 * 1000

COLOURS = 6
"""How many lines have a colour of their own; the page defines C{--line-0} and so on."""

Text = Callable[[float], str]


@frozen
class Line:
    """Values of one name, by time in milliseconds."""

    name: str
    points: Sequence[tuple[int, float]]


@frozen
class _Scale:
    """From times and values to places."""

    start: int
    end: int
    top: float

    def x(self, time_ms: float) -> float:
        return _LEFT + (time_ms - self.start) / max(1, self.end - self.start) * _INNER_WIDTH

    def y(self, value: float) -> float:
        return _TOP + _INNER_HEIGHT * (1 - value / self.top)


def bars(title: str, points: Sequence[tuple[int, float]], text: Text, binary: bool = False) -> str:
    """A bar for each hour; C{binary}: they are bytes."""
    scale = _scale([time for time, _ in points], [value for _, value in points], binary, _HOUR_MS)
    width = max(1.0, scale.x(scale.start + _HOUR_MS) - _LEFT - 1)
    shapes = [
        f'<rect class="bar" x="{scale.x(time):.1f}" y="{scale.y(value):.1f}" width="{width:.1f}" '
        f'height="{_TOP + _INNER_HEIGHT - scale.y(value):.1f}" rx="{min(2, width / 4):.1f}">'
        f"<title>{_moment(time)}: {escape(text(value))}</title></rect>"
        for time, value in points
    ]
    return _svg(title, scale, text, shapes)


def lines(title: str, drawn: Sequence[Line], text: Text, binary: bool = False) -> str:
    """A line for each name, with a legend below; C{binary}: they are bytes."""
    times = [time for line in drawn for time, _ in line.points]
    scale = _scale(times, [value for line in drawn for _, value in line.points], binary)
    shapes = [shape for number, line in enumerate(drawn) for shape in _line(number, line, scale, text)]
    legend = "".join(
        f'<span class="key"><i style="background:{_colour(number)}"></i>{escape(line.name)}</span>'
        for number, line in enumerate(drawn)
    )
    return f'{_svg(title, scale, text, shapes)}<p class="legend">{legend}</p>'


def _line(number: int, line: Line, scale: _Scale, text: Text) -> list[str]:
    colour = _colour(number)
    places = [(scale.x(time), scale.y(value)) for time, value in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}">'
        f"<title>{escape(line.name)}, {_moment(time)}: {escape(text(value))}</title></circle>"
        for (x, y), (time, value) in zip(places, line.points, strict=True)
    ]
    return [f'<polyline class="line" points="{path}" stroke="{colour}"/>', *dots]


def _colour(number: int) -> str:
    return f"var(--line-{number % COLOURS})"


# -- axes ------------------------------------------------------------------------------


def _scale(times: Sequence[int], values: Sequence[float], binary: bool, after_ms: int = 0) -> _Scale:
    start, end = min(times, default=0), max(times, default=0) + after_ms
    return _Scale(start, max(end, start + _HOUR_MS), nice_top(max(values, default=0), binary))


def nice_top(highest: float, binary: bool = False) -> float:
    """A round number that is not lower, and can be divided into ticks."""
    steps, base = (_BINARY, 1024) if binary else (_DECIMAL, 10)
    step, power = max(highest / _TICKS, 1.0), 1.0
    while step > base:
        step /= base
        power *= base
    return _TICKS * power * next(nice for nice in steps if nice >= step)


def _svg(title: str, scale: _Scale, text: Text, shapes: Sequence[str]) -> str:
    inside = "".join((*_horizontal(scale, text), *_times(scale), *shapes))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{inside}</svg>"
    )


def _horizontal(scale: _Scale, text: Text) -> list[str]:
    found = []
    for tick in range(_TICKS + 1):
        value = scale.top * tick / _TICKS
        y = scale.y(value)
        found.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            + _label(_LEFT - 8, y + 4, "end", text(value))
        )
    return found


def _times(scale: _Scale) -> list[str]:
    hours = (scale.end - scale.start) // _HOUR_MS
    every = max(1, -(-hours // _LABELS_MAX))
    shape = "%H:%M" if hours <= 24 else "%d %b %H:%M" if hours <= 24 * 5 else "%d %b"
    found = []
    for number in range(0, hours + 1, every):
        time = scale.start + number * _HOUR_MS
        label = datetime.fromtimestamp(time / 1000, UTC).strftime(shape)
        if scale.x(time) < WIDTH - 3 * _RIGHT:  # Further to the right there is no room.
            found.append(_label(scale.x(time), HEIGHT - 8, "middle", label))
    return found


def _label(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
