"""
C{rustlog log}: a look at a data directory, without a broker.

What reads the files is imported when it is needed: the other commands do without it, and start faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rustlog.cli import converting
from rustlog.cli.arguments import Commands
from rustlog.cli.formats import json_format
from rustlog.cli.output import count, human_size, json_line, time_text
from rustlog.cli.session import CommandFailed, Session

if TYPE_CHECKING:
    from rustlog.interfaces import IFiles
    from rustlog.storage.segments.inspection import Problem, StoredBatch, StoredPartition
    from rustlog.storage.segments.verification import PartitionReport


def add_commands(commands: Commands) -> None:
    """Declare them."""
    logs = commands.group(
        "log", "Look into a data directory, which a broker may be using; or convert one that is not in use."
    )
    dump = logs.add("dump", dump_log, "Print the record batches of a data directory.", broker=False)
    dump.add_argument("directory", metavar="DIR")
    dump.add_argument("where", metavar="TOPIC[-PARTITION]", nargs="?", help="only there")
    dump.add_argument("--records", action="store_true", help="print the records, too")
    verify = logs.add("verify", verify_log, "Check all files of a data directory.", broker=False)
    verify.add_argument("directory", metavar="DIR")
    converting.add_command(logs)


def verify_log(session: Session) -> int:
    from rustlog.storage.segments.verification import PartitionReport, total_size, verify

    files, root, _ = _open(session)
    total = human_size(total_size(files, root)) if session.console.shows_progress else ""
    progress = session.progress(lambda done: f"{human_size(done)} of {total} verified")
    reports: list[PartitionReport] = []
    problems: list[Problem] = []
    for found in verify(files, root, progress.advance):
        if isinstance(found, PartitionReport):
            reports.append(found)
            problems += found.problems
        else:
            problems.append(found)
    progress.clear()
    is_damaged = any(each.is_damage for each in problems)
    session.tell(
        _verdict(reports, problems),
        {
            "damaged": is_damaged,
            "partitions": [_report_json(each) for each in reports],
            "problems": [_problem_json(each) for each in problems],
        },
    )
    return 1 if is_damaged else 0


def _verdict(reports: list[PartitionReport], problems: list[Problem]) -> str:
    lines = [f"{'damaged' if each.is_damage else 'note'}: {each}" for each in problems]
    lines.append(
        f"{count(len(reports), 'partition')}, {count(sum(each.segments for each in reports), 'segment')}, "
        f"{count(sum(each.records for each in reports), 'record')}, "
        f"{human_size(sum(each.size for each in reports))}: "
        f"{'DAMAGED' if any(each.is_damage for each in problems) else 'no damage'}"
    )
    return "\n".join(lines) + "\n"


def _report_json(report: PartitionReport) -> dict[str, Any]:
    return {
        "topic": report.name.topic,
        "partition": report.name.partition,
        "log_start_offset": report.log_start_offset,
        "next_offset": report.next_offset,
        "segments": report.segments,
        "batches": report.batches,
        "records": report.records,
        "size": report.size,
    }


def _problem_json(problem: Problem) -> dict[str, Any]:
    return {
        "path": str(problem.path),
        "position": problem.position,
        "message": problem.message,
        "damage": problem.is_damage,
    }


def dump_log(session: Session) -> int:
    from rustlog.storage.segments.inspection import Problem, segments_of, walk

    files, root, format_name = _open(session)
    status = 0
    for partition in _partitions(files, root, format_name, session.options.where):
        if isinstance(partition, Problem):
            session.remark(f"damaged: {partition}")
            status = 1
            continue
        for found in walk(files, partition, segments_of(files, partition)):
            if isinstance(found, Problem):
                session.remark(f"{'damaged' if found.is_damage else 'note'}: {found}")
                status = max(status, int(found.is_damage))
            else:
                session.console.stdout.write(_dumped(session, partition, found))
    session.console.stdout.flush()
    return status


def _dumped(session: Session, partition: StoredPartition, found: StoredBatch) -> bytes:
    from rustlog.log.records import decode

    lines = [_batch_json(partition, found) if session.options.json else _batch_text(partition, found)]
    if session.options.records and not found.batch.is_control:
        for record in decode(found.batch):
            name = partition.name
            line = json_format(name.topic, name.partition, record)
            lines.append(line if session.options.json else b"    " + line)
    return b"".join(lines)


def _batch_text(partition: StoredPartition, found: StoredBatch) -> bytes:
    batch = found.batch
    return (
        f"{partition.name} {batch.base_offset}..{batch.last_offset}: {count(batch.record_count, 'record')}, "
        f"{found.size} bytes at {found.position} of {found.path.name}, codec {_codec(found)}, "
        f"leader epoch {batch.leader_epoch}, {time_text(batch.max_timestamp) or 'no timestamp'}\n"
    ).encode()


def _batch_json(partition: StoredPartition, found: StoredBatch) -> bytes:
    batch = found.batch
    return json_line(
        {
            "topic": partition.name.topic,
            "partition": partition.name.partition,
            "base_offset": batch.base_offset,
            "last_offset": batch.last_offset,
            "records": batch.record_count,
            "path": str(found.path),
            "position": found.position,
            "size": found.size,
            "codec": _codec(found),
            "leader_epoch": batch.leader_epoch,
            "base_timestamp": batch.base_timestamp,
            "max_timestamp": batch.max_timestamp,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "transactional": batch.is_transactional,
            "control": batch.is_control,
            "crc32c": batch.crc,
        }
    )


def _codec(found: StoredBatch) -> str:
    from rustlog.log.codecs import Codec

    try:
        return Codec(found.batch.codec).name.lower()
    except ValueError:
        return str(found.batch.codec)


# -- the directory --


def _open(session: Session) -> tuple[IFiles, PurePath, str]:
    from rustlog.environment.readonly import ReadOnlyFiles
    from rustlog.errors import StartupError
    from rustlog.storage.segments.inspection import check_format

    files, root = ReadOnlyFiles(), PurePath(session.options.directory)
    if not files.exists(root):
        raise CommandFailed(f"there is no directory {root}; name the one that the broker's --data-dir names")
    try:
        return files, root, check_format(files, root)
    except StartupError as error:
        raise CommandFailed(f"{error}; name a directory that a broker's --data-dir names") from None
    except OSError as error:
        raise CommandFailed(f"cannot read {root}: {error.strerror}") from error


def _partitions(
    files: IFiles, root: PurePath, format_name: str, where: str | None
) -> Iterator[StoredPartition | Problem]:
    """Those that were asked for."""
    from rustlog.model import TopicInfo
    from rustlog.storage.segments.inspection import StoredPartition, find_partitions, find_topics

    found = list(find_topics(files, root, format_name))
    topics = {each.name: each for each in found if isinstance(each, TopicInfo)}
    topic, partition = _understood(where, set(topics))
    yield from (each for each in found if not isinstance(each, TopicInfo))
    for name in topics if topic is None else [topic]:
        for each in find_partitions(files, root, topics[name], format_name):
            if not isinstance(each, StoredPartition) or partition in (None, each.name.partition):
                yield each


def _understood(where: str | None, topics: set[str]) -> tuple[str | None, int | None]:
    """A topic's name may look like one with a partition; if there is such a topic, it is meant."""
    if where is None or where in topics:
        return where, None
    for separator in ("-", ":"):
        topic, _, partition = where.rpartition(separator)
        if topic in topics and partition.isascii() and partition.isdigit():
            return topic, int(partition)
    known = ", ".join(sorted(topics)) or "none"
    raise CommandFailed(f"there is no topic {where} in this directory; there are: {known}")
