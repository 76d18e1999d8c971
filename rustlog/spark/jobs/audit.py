"""
C{rustlog pipeline audit}: every batch of a data directory, read by many.

A task verifies one segment, as C{rustlog log verify} does: checksums, offsets, leader epochs, the entries
of both indexes.  The driver then joins the segments of each partition, and so sees what is missing between
them, before them and behind them.  Nothing is changed; a broker may be using the directory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from attrs import frozen

from rustlog.environment.readonly import ReadOnlyFiles
from rustlog.errors import StartupError
from rustlog.model import TopicInfo
from rustlog.spark.errors import NoDataDirectory
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.running import Advance, Tasks
from rustlog.storage.segments.files import LOG_SUFFIX, segment_path
from rustlog.storage.segments.inspection import (
    Problem,
    StoredPartition,
    check_format,
    find_partitions,
    find_strangers,
    find_topics,
    segments_of,
)
from rustlog.storage.segments.verification import PartitionReport, SegmentReport, join, verify_segment

if TYPE_CHECKING:
    from rustlog.interfaces import IFiles

FUTURE_MS_MAX = 24 * 60 * 60 * 1000
"""Clocks may differ; a day is no difference of clocks."""


@frozen
class SegmentTask:
    """One segment to verify."""

    partition: StoredPartition
    base_offset: int
    is_last: bool
    size: int


@frozen
class AuditPlan:
    """
    What there is to verify.

    @ivar partitions: with the base offsets of their segments.
    @ivar problems: those that are seen without reading any log.
    """

    root: PurePath
    topics: Sequence[TopicInfo]
    partitions: Sequence[tuple[StoredPartition, list[int]]]
    tasks: Sequence[SegmentTask]
    problems: Sequence[Problem]

    @property
    def size(self) -> int:
        return sum(each.size for each in self.tasks)


@frozen
class Audit:
    """What was found."""

    partitions: Sequence[PartitionReport]
    problems: Sequence[Problem]

    @property
    def is_damaged(self) -> bool:
        return any(each.is_damage for each in self.problems)


def plan_audit(files: IFiles, root: PurePath, topics: Collection[str] = ()) -> AuditPlan:
    """
    See what there is, without reading logs.

    @param topics: only these; none: all.
    @raise NoDataDirectory: there is no data directory.
    """
    format_name = _format(files, root)
    found = list(find_topics(files, root, format_name))
    known = {each.name: each for each in found if isinstance(each, TopicInfo)}
    for name in topics:
        if name not in known:
            raise JobFailed(
                f"there is no topic {name} in {root}; there are: {', '.join(sorted(known)) or 'none'}"
            )
    problems = [each for each in found if isinstance(each, Problem)]
    problems += find_strangers(files, root, set(known))
    chosen = [info for name, info in sorted(known.items()) if not topics or name in topics]
    partitions: list[tuple[StoredPartition, list[int]]] = []
    for info in chosen:
        for each in find_partitions(files, root, info, format_name):
            if isinstance(each, Problem):
                problems.append(each)
            else:
                bases = segments_of(files, each)
                partitions.append((each, bases))
    tasks = [task for each, bases in partitions for task in _tasks(files, each, bases)]
    return AuditPlan(root, chosen, partitions, tasks, problems)


def _format(files: IFiles, root: PurePath) -> str:
    if not files.exists(root):
        raise NoDataDirectory(str(root), "there is no such directory")
    try:
        return check_format(files, root)
    except StartupError as error:
        raise NoDataDirectory(str(root), str(error).removeprefix(f"{root} ")) from None
    except OSError as error:
        raise NoDataDirectory(str(root), error.strerror or str(error)) from error


def _tasks(files: IFiles, partition: StoredPartition, bases: list[int]) -> Iterator[SegmentTask]:
    for base in bases:
        path = segment_path(partition.directory, base, LOG_SUFFIX)
        try:
            size = files.size(path)
        except FileNotFoundError:
            size = 0  # Retention was here.
        yield SegmentTask(partition, base, base == bases[-1], size)


def verify_task(task: SegmentTask) -> SegmentReport:
    """What a worker does."""
    try:
        return verify_segment(ReadOnlyFiles(), task.partition, task.base_offset, task.is_last, id)
    except OSError as error:
        path = segment_path(task.partition.directory, task.base_offset, LOG_SUFFIX)
        report = SegmentReport(task.base_offset)
        report.problems.append(Problem(path, f"it can not be read: {error.strerror or error}"))
        return report


def audit(tasks: Tasks, plan: AuditPlan, now_ms: int, advance: Advance = id) -> Audit:
    """Verify everything; C{advance} hears of bytes."""
    segments = tasks.run("audit", plan.tasks, verify_task, lambda task: task.size, advance)
    reports: dict[tuple[str, int], list[SegmentReport]] = {}
    for task, segment in zip(plan.tasks, segments, strict=True):
        name = task.partition.name
        reports.setdefault((name.topic, name.partition), []).append(segment)
    joined = []
    for partition, bases in plan.partitions:
        name = partition.name
        report = join(partition, reports.get((name.topic, name.partition), []))
        report.problems += missing_head(plan.root, partition, bases)
        report.problems += from_the_future(partition, report, now_ms)
        joined.append(report)
    return Audit(joined, [*plan.problems, *(problem for each in joined for problem in each.problems)])


def missing_head(root: PurePath, partition: StoredPartition, bases: list[int]) -> Iterator[Problem]:
    """What is not there any more, though nobody was allowed to remove it."""
    if partition.checkpoint is None or not bases or bases[0] <= partition.log_start_offset:
        return
    latest = _look_again(root, partition)
    if latest is not None and bases[0] > latest.log_start_offset:
        message = (
            f"offsets {latest.log_start_offset} to {bases[0] - 1} are missing: the log begins at {bases[0]}"
        )
        yield Problem(partition.directory, message)


def _look_again(root: PurePath, partition: StoredPartition) -> StoredPartition | None:
    """Retention may have removed segments after the checkpoint was read, and says so in the next one."""
    files, name = ReadOnlyFiles(), partition.name
    format_name = check_format(files, root)
    for info in find_topics(files, root, format_name):
        if isinstance(info, TopicInfo) and info.name == name.topic:
            for each in find_partitions(files, root, info, format_name):
                if isinstance(each, StoredPartition) and each.name == name:
                    return each
    return None


def from_the_future(partition: StoredPartition, report: PartitionReport, now_ms: int) -> Iterator[Problem]:
    """Timestamps that nobody can have had: retention by time would wait for them."""
    if report.max_timestamp > now_ms + FUTURE_MS_MAX:
        hours = (report.max_timestamp - now_ms) // (60 * 60 * 1000)
        message = f"a record is {hours:,} hours from the future; retention.ms will keep it until then"
        yield Problem(partition.directory, message, is_damage=False)
