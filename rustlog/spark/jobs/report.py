"""
C{rustlog pipeline report}: what topics got, hour by hour, and how far groups were behind.

Workers read and count; the driver puts figures together.  Lags are those of L{rustlog.spark.jobs.lag}: over
time, as far as C{__consumer_offsets} goes back.  Where groups are kept elsewhere (C{--offsets=file} or
C{memory}), there is nothing to tell how it was, and no lag is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from rustlog.model import CONSUMER_OFFSETS, Record
from rustlog.spark.jobs import hours
from rustlog.spark.jobs.hours import Hours, figures, merge_topics, total
from rustlog.spark.jobs.lag import Commits, Lag, lags, merge_commits, merge_ends, see_commit
from rustlog.spark.jobs.planning import total_bytes
from rustlog.spark.jobs.running import Advance, Tasks
from rustlog.spark.jobs.sources import PIECE_BYTES, Piece, Source, chosen_topics, read_tables
from rustlog.spark.jobs.values import Report

_COMMIT_COLUMNS = ("key", "value", "timestamp", "headers")


@frozen(kw_only=True)
class ReportOptions:
    """
    @ivar topics: none: all but the broker's own.
    @ivar since_ms: leave out older records, and those from C{until_ms} on.
    """

    topics: Collection[str] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    piece_bytes: int = PIECE_BYTES


@frozen
class ReportPlan:
    """
    What is to be read.

    @ivar commits: of C{__consumer_offsets}, in the order of its log.
    """

    source: str
    topics: dict[str, int]
    pieces: Sequence[Piece]
    commits: Sequence[Piece]

    @property
    def size(self) -> int:
        return total_bytes([*self.pieces, *self.commits])


def plan_report(source: Source, options: ReportOptions) -> ReportPlan:
    """
    See what there is.

    @raise JobFailed: there is no such topic.
    """
    topics = chosen_topics(source, options.topics)
    pieces = [piece for topic in topics for piece in source.pieces(topic, {}, options.piece_bytes)]
    commits = (
        source.pieces(CONSUMER_OFFSETS, {}, options.piece_bytes)
        if CONSUMER_OFFSETS in source.topics()
        else []
    )
    return ReportPlan(str(source), topics, pieces, commits)


# -- in the workers --------------------------------------------------------------------


@frozen
class ReportTask:
    """One piece."""

    piece: Piece
    since_ms: int | None
    until_ms: int | None


@define(eq=False)
class Counted:
    """What a task has found: figures of records, or commits of groups."""

    hours: Hours | None = None
    commits: Commits = field(factory=dict)


def count_piece(task: ReportTask) -> Counted:
    """Read a piece, and count."""
    if task.piece.topic == CONSUMER_OFFSETS:
        return Counted(commits=_commits(task.piece))
    found = Hours(task.piece.topic)
    for table in read_tables(task.piece, hours.COLUMNS):
        found.add(task.piece.partition, _between(table, task.since_ms, task.until_ms))
    return Counted(found)


def _between(table: pa.Table, since_ms: int | None, until_ms: int | None) -> pa.Table:
    times = table["timestamp"].cast(pa.int64())
    if since_ms is not None:
        table = table.filter(pc.greater_equal(times, since_ms * 1000))
        times = table["timestamp"].cast(pa.int64())
    if until_ms is not None:
        table = table.filter(pc.less(times, until_ms * 1000))
    return table


def _commits(piece: Piece) -> Commits:
    """Few records have to do with offsets, so they are looked at one by one."""
    found: Commits = {}
    for table in read_tables(piece, _COMMIT_COLUMNS):
        times = table["timestamp"].cast(pa.int64()).to_pylist()
        for key, value, time, headers in zip(
            table["key"].to_pylist(),
            table["value"].to_pylist(),
            times,
            table["headers"].to_pylist(),
            strict=True,
        ):
            named = tuple((each["key"], each["value"]) for each in headers or ())
            see_commit(found, Record(value, key, named, time // 1000))
    return found


# -- in the driver ---------------------------------------------------------------------


def report(
    tasks: Tasks, options: ReportOptions, plan: ReportPlan, now_ms: int, advance: Advance = id
) -> Report:
    """Read everything; C{advance} hears of bytes."""
    jobs = [
        ReportTask(piece, options.since_ms, options.until_ms)
        for piece in sorted(
            (*plan.pieces, *plan.commits), key=lambda each: (each.topic, each.partition, each.start)
        )
    ]
    counted = tasks.run("report", jobs, count_piece, _weight, advance)
    parts = [each.hours for each in counted if each.hours is not None]
    ends = merge_ends(part.ends for part in parts)
    topics = merge_topics(parts)
    return Report(
        plan.source,
        now_ms,
        [total(each) for each in topics.values()],
        [row for each in topics.values() for row in figures(each)],
        _wanted(lags(ends, merge_commits(each.commits for each in counted)), plan, options),
    )


def _weight(task: ReportTask) -> int:
    return task.piece.size


def _wanted(found: Sequence[Lag], plan: ReportPlan, options: ReportOptions) -> list[Lag]:
    return [
        each
        for each in found
        if each.topic in plan.topics
        and (options.since_ms is None or each.hour_ms >= options.since_ms)
        and (options.until_ms is None or each.hour_ms < options.until_ms)
    ]
