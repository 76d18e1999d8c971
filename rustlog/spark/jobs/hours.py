"""
What a topic got in each hour: made in workers of Arrow tables, put together in the driver.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.lag import HOUR_MS, Ends
from rustlog.spark.jobs.sketches import Distinct, Sizes

COLUMNS = ("key", "value", "offset", "timestamp")
HOURS_MAX = 10_000
"""Some 13 KB each in every task; more than a year."""


@define(eq=False)
class Hour:
    """What came within one hour."""

    sizes: Sizes = field(factory=Sizes)
    keys: Distinct = field(factory=Distinct)
    tombstones: int = 0

    def merge(self, other: Hour) -> None:
        self.sizes.merge(other.sizes)
        self.keys.merge(other.keys)
        self.tombstones += other.tombstones


@define(eq=False)
class Hours:
    """
    A topic, or a part of it, hour by hour.

    @ivar hours: by the moment, in milliseconds, at which they begin.
    """

    topic: str
    hours: dict[int, Hour] = field(factory=dict)
    ends: Ends = field(factory=dict)

    def add(self, partition: int, table: pa.Table) -> None:
        """
        Take notice of some more records.

        @raise JobFailed: they are spread over more hours than fit memory.
        """
        if not len(table):
            return
        moments = table["timestamp"].cast(pa.int64()).to_numpy() // 1000 // HOUR_MS * HOUR_MS
        if moments.min() == moments.max():
            self._add_hour(int(moments[0]), partition, table)
            return
        for moment in np.unique(moments):
            self._add_hour(int(moment), partition, table.filter(pa.array(moments == moment)))

    def _add_hour(self, moment: int, partition: int, table: pa.Table) -> None:
        if moment not in self.hours and len(self.hours) >= HOURS_MAX:
            raise JobFailed(
                f"records of {self.topic} are spread over more than {HOURS_MAX:,} hours; "
                "choose some with --since and --until"
            )
        hour = self.hours.setdefault(moment, Hour())
        hour.sizes.add(_lengths(table["key"]) + _lengths(table["value"]))
        hour.keys.add(table["key"])
        hour.tombstones += table["value"].null_count
        ends = self.ends.setdefault((self.topic, partition), {})
        ends[moment] = max(ends.get(moment, 0), pc.max(table["offset"]).as_py() + 1)

    def merge(self, other: Hours) -> None:
        """Take notice of what another one has seen."""
        for moment, hour in other.hours.items():
            if moment in self.hours:
                self.hours[moment].merge(hour)
            else:
                self.hours[moment] = hour


def _lengths(column: pa.ChunkedArray) -> np.ndarray:
    return pc.fill_null(pc.binary_length(column), 0).cast(pa.int64()).to_numpy()


@frozen
class HourFigures:
    """
    One row of a report; sizes are those of key and value together.

    @ivar hour_ms: C{None}: all hours together.
    """

    topic: str
    hour_ms: int | None
    records: int
    bytes: int
    size_p50: int
    size_p95: int
    size_p99: int
    size_max: int
    keys: int
    tombstones: int


def figures(topic: Hours) -> list[HourFigures]:
    """The rows of a topic, oldest first."""
    return [_row(topic.topic, moment, topic.hours[moment]) for moment in sorted(topic.hours)]


def total(topic: Hours) -> HourFigures:
    """All hours of a topic as one row."""
    everything = Hour()
    for hour in topic.hours.values():
        everything.merge(hour)
    return _row(topic.topic, None, everything)


def _row(topic: str, moment: int | None, hour: Hour) -> HourFigures:
    sizes = hour.sizes
    p50, p95, p99 = (sizes.percentile(share) for share in (0.5, 0.95, 0.99))
    return HourFigures(
        topic, moment, sizes.count, sizes.total, p50, p95, p99, sizes.largest, hour.keys.estimate(),
        hour.tombstones,
    )  # fmt: skip


def merge_topics(parts: Iterable[Hours]) -> dict[str, Hours]:
    """All parts of the same topic together, by name."""
    merged: dict[str, Hours] = {}
    for part in parts:
        if part.topic in merged:
            merged[part.topic].merge(part)
        else:
            merged[part.topic] = part
    return dict(sorted(merged.items()))
