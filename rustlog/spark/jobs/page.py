"""
A report as one HTML page, with everything in it: no network, no scripts, readable in light and dark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from rustlog.spark.jobs.charts import Line, bars, lines
from rustlog.spark.jobs.hours import HourFigures
from rustlog.spark.jobs.lag import Lag
from rustlog.spark.jobs.values import Report

_STYLE = """
:root { color-scheme: light dark; --back: #f6f7f9; --card: #ffffff; --ink: #1c2330; --dim: #667085;
  --grid: #e4e7ec; --bar: #3b6fd4; --line-0: #3b6fd4; --line-1: #d9822b; --line-2: #c23b5e; --line-3: #2f9e6e;
  --line-4: #8250c4; --line-5: #5f6b7c; }
@media (prefers-color-scheme: dark) { :root { --back: #12151b; --card: #1b2029; --ink: #e6e9ef; --dim:
#98a2b3;
  --grid: #2c333f; --bar: #6d9bf1; --line-0: #6d9bf1; --line-1: #f0a860; --line-2: #ee7f9b; --line-3: #5fc99a;
  --line-4: #b794f6; --line-5: #a3adba; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 2rem clamp(1rem, 4vw, 3rem); background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1560px; margin: 0 auto; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: .85rem; font-weight: 600; color: var(--dim); margin: 0 0 .5rem; }
.about { color: var(--dim); margin: .25rem 0 0; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: .75rem;
  margin-bottom: .75rem; }
.fact, figure, .rows { background: var(--card); border: 1px solid var(--grid); border-radius: 10px; }
.fact { padding: .7rem 1rem; }
.fact b { display: block; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
.fact span { color: var(--dim); font-size: .8rem; }
.charts { display: grid; gap: .75rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); }
figure { margin: 0; padding: .9rem 1rem .6rem; } svg { width: 100%; height: auto; display: block; }
.grid { stroke: var(--grid); stroke-width: 1; } .bar { fill: var(--bar); } .bar:hover { opacity: .7; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.tick { fill: var(--dim); font-size: 11px; font-variant-numeric: tabular-nums; }
.legend { margin: .25rem 0 0; font-size: .8rem; color: var(--dim); }
.key { margin-right: 1rem; white-space: nowrap; }
.key i { display: inline-block; width: .7rem; height: .7rem; border-radius: 3px; margin-right: .35rem; }
details { margin-top: .75rem; } summary { cursor: pointer; color: var(--dim); }
.rows { overflow-x: auto; margin-top: .5rem; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .8rem; text-align: right; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th { color: var(--dim); font-weight: 600; } th:first-child, td:first-child { text-align: left; }
tr:last-child td { border-bottom: 0; }
"""

_UNITS = ("", "K", "M", "G", "T")


def page(report: Report) -> str:
    """The whole page."""
    made = datetime.fromtimestamp(report.made_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    topics = "".join(_topic(report, total) for total in report.totals)
    nothing = "" if report.totals else "<p>There are no records.</p>"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>rustlog report</title><style>{_STYLE}</style></head><body><main>"
        f'<h1>rustlog report</h1><p class="about">{escape(report.source)} · made {made}</p>'
        f"{topics}{nothing}</main></body></html>\n"
    )


def _topic(report: Report, total: HourFigures) -> str:
    hours = [each for each in report.hours if each.topic == total.topic]
    lag = [each for each in report.lags if each.topic == total.topic]
    records = [(_at(each), each.records) for each in hours]
    keys = [(_at(each), each.keys) for each in hours]
    size = [(_at(each), each.bytes) for each in hours]
    charts = [
        ("Records per hour", bars("Records per hour", records, short)),
        ("Bytes per hour", bars("Bytes per hour", size, short_bytes, binary=True)),
        ("Size of records", lines("Size of records", _sizes(hours), short_bytes, binary=True)),
        ("Distinct keys per hour, about", bars("Distinct keys per hour", keys, short)),
    ]
    if lag:
        charts.append(("Lag of consumer groups", lines("Lag of consumer groups", _lag_lines(lag), short)))
    figures = "".join(f"<figure><h3>{title}</h3>{chart}</figure>" for title, chart in charts)
    return (
        f"<section><h2>{escape(total.topic)}</h2>{_facts(total, len(hours), lag)}"
        f'<div class="charts">{figures}</div>{_rows(hours)}</section>'
    )


def _at(row: HourFigures) -> int:
    assert row.hour_ms is not None
    return row.hour_ms


def _sizes(hours: Sequence[HourFigures]) -> list[Line]:
    return [
        Line("median", [(_at(each), each.size_p50) for each in hours]),
        Line("95 %", [(_at(each), each.size_p95) for each in hours]),
        Line("99 %", [(_at(each), each.size_p99) for each in hours]),
    ]


def _lag_lines(lag: Sequence[Lag]) -> list[Line]:
    groups: dict[str, list[tuple[int, float]]] = {}
    for each in lag:
        groups.setdefault(each.group, []).append((each.hour_ms, each.lag))
    return [Line(group, points) for group, points in groups.items()]


def _facts(total: HourFigures, hours: int, lag: Sequence[Lag]) -> str:
    newest = {each.group: each.lag for each in lag}
    facts = [
        ("records", short(total.records)),
        ("keys and values", short_bytes(total.bytes)),
        ("hours with records", short(hours)),
        ("median size", short_bytes(total.size_p50)),
        ("largest", short_bytes(total.size_max)),
        ("distinct keys, about", short(total.keys)),
        ("tombstones", short(total.tombstones)),
        *((f"lag of {group}", short(behind)) for group, behind in newest.items()),
    ]
    cells = "".join(
        f'<div class="fact"><b>{value}</b><span>{escape(name)}</span></div>' for name, value in facts
    )
    return f'<div class="facts">{cells}</div>'


def _rows(hours: Sequence[HourFigures]) -> str:
    titles = ("Hour (UTC)", "Records", "Bytes", "Median", "95 %", "99 %", "Largest", "Keys", "Tombstones")
    body = "".join(_row(_cells(each)) for each in hours)
    head = "".join(f"<th>{title}</th>" for title in titles)
    return (
        f'<details><summary>As a table</summary><div class="rows"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></details>"
    )


def _row(cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _cells(each: HourFigures) -> list[str]:
    hour = datetime.fromtimestamp(_at(each) / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    numbers = (
        each.records, each.bytes, each.size_p50, each.size_p95, each.size_p99, each.size_max, each.keys,
        each.tombstones,
    )  # fmt: skip
    return [hour, *(f"{number:,}" for number in numbers)]


def short(number: float) -> str:
    """Three digits or so."""
    return _shortened(number, 1000, "")


def short_bytes(number: float) -> str:
    """The same for bytes."""
    return _shortened(number, 1024, "B" if number < 1024 else "iB")


def _shortened(number: float, base: int, unit: str) -> str:
    power = 0
    while number >= base and power < len(_UNITS) - 1:
        number /= base
        power += 1
    text = f"{number:.0f}" if number >= 100 or number == int(number) else f"{number:.1f}"
    return f"{text} {_UNITS[power]}{unit}".strip() if power or unit else text
