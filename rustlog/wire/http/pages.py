"""
The index page: one HTML document without a script, an image or anything else from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from urllib.parse import quote

from rustlog import __version__
from rustlog.observability.figures import Figures

ROWS_MAX = 500
"""Of each table; the API has all of them."""

_STYLE = (
    "body{font-family:sans-serif;margin:2em auto;max-width:60em;padding:0 1em}"
    "table{border-collapse:collapse;min-width:50%}"
    "th,td{text-align:left;padding:.2em 1em .2em 0;border-bottom:1px solid #ccc;word-break:break-all}"
    "td+td,th+th{text-align:right}"
    ".bad{color:#a00}"
)

_LINKS = ("/metrics", "/healthz", "/readyz", "/api/topics", "/api/groups")

Cells = tuple[str, ...]


def index_page(figures: Figures, problems: list[str], uptime_seconds: float) -> bytes:
    """All that there is, for people."""
    state = "".join(f'<p class="bad">Not ready: {escape(each)}.</p>' for each in problems[:ROWS_MAX])
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><title>rustlog</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>rustlog {escape(__version__)}</h1>",
        f"<p>Up for {duration(uptime_seconds)}. {' '.join(link(each, each) for each in _LINKS)}</p>",
        state or "<p>Ready.</p>",
        f"<h2>Topics ({len(figures.topics):,})</h2>",
        _table(("Topic", "Partitions", "Records", "Bytes"), _topics(figures), len(figures.topics)),
        f"<h2>Groups ({len(figures.groups):,})</h2>",
        _table(("Group", "Partitions", "Lag"), _groups(figures), len(figures.groups)),
        "</body></html>\n",
    ]
    return "\n".join(parts).encode()


def link(target: str, text: str) -> str:
    """An anchor to a path, which is already encoded."""
    return f'<a href="{escape(target)}">{escape(text)}</a>'


def duration(seconds: float) -> str:
    """As people say it: the two largest units that matter."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next((index for index, (count, _) in enumerate(units) if count), 3)
    return " ".join(f"{count} {unit}" for count, unit in units[first : first + 2])


def _topics(figures: Figures) -> Iterable[Cells]:
    for each in figures.topics[:ROWS_MAX]:
        name = link(f"/api/topics/{quote(each.name, safe='')}", each.name)
        yield name, f"{each.partitions:,}", f"{each.records:,}", f"{each.size:,}"


def _groups(figures: Figures) -> Iterable[Cells]:
    for each in figures.groups[:ROWS_MAX]:
        name = link(f"/api/groups/{quote(each.name, safe='')}", each.name or "(no name)")
        yield name, f"{len(each.lags):,}", f"{each.lag:,}"


def _table(headings: Cells, rows: Iterable[Cells], count: int) -> str:
    """A table of cells that are already HTML."""
    if not count:
        return "<p>None.</p>"
    head = "".join(f"<th>{each}</th>" for each in headings)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    more = f"<p>… and {count - ROWS_MAX:,} more.</p>" if count > ROWS_MAX else ""
    return f"<table><tr>{head}</tr>\n{body}</table>{more}"
