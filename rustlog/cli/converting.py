"""
C{rustlog log convert}: a data directory in another format.
"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

from rustlog.cli.arguments import Commands
from rustlog.cli.output import Progress, count, human_size
from rustlog.cli.session import CommandFailed, Session

if TYPE_CHECKING:
    from rustlog.storage.converting.conversion import Report

FORMATS = ("minikafka", "segments")


def add_command(logs: Commands) -> ArgumentParser:
    """Declare it."""
    parser = logs.add(
        "convert",
        convert_log,
        "Write a data directory anew, in another format; interrupted and called again, it goes on.",
        broker=False,
    )
    parser.add_argument("source", metavar="SRC", help="a data directory that no broker is using")
    parser.add_argument("target", metavar="DST", help="a directory that is empty, or does not exist")
    parser.add_argument("--from", dest="old", choices=FORMATS, required=True, help="the format of SRC")
    parser.add_argument("--to", dest="new", choices=FORMATS, required=True, help="the format of DST")
    parser.add_argument(
        "--lossy", action="store_true", help="drop headers, and make null values empty, for minikafka"
    )
    return parser


def convert_log(session: Session) -> int:
    from pathlib import PurePath

    from rustlog.environment.chance import SystemRandom
    from rustlog.environment.files import RealFiles
    from rustlog.errors import StartupError
    from rustlog.storage.converting.conversion import Options, convert

    said = session.options
    options = Options(PurePath(said.source), PurePath(said.target), said.old, said.new, said.lossy)
    copying = session.progress(lambda done: f"{human_size(done)} converted")
    verifying = session.progress(lambda done: f"{human_size(done)} verified")
    try:
        report = convert(RealFiles(), SystemRandom(), options, copying.advance, verifying.advance)
    except StartupError as error:
        raise CommandFailed(str(error)) from None
    finally:
        _clear(copying, verifying)
    session.tell(_text(report, said.new), _json(report))
    return 0


def _clear(*lines: Progress) -> None:
    for line in lines:
        line.clear()


def _text(report: Report, new: str) -> str:
    from rustlog.storage.minikafka.opening import SEGMENTS_KEPT

    done = "was converted before" if report.was_finished else "converted and verified"
    topics, partitions = count(report.topics, "topic"), count(report.partitions, "partition")
    lines = [f"{topics}, {partitions}, {count(report.records, 'record')}: {done}"]
    if report.changed:
        lines.append(f"{count(report.changed, 'record')} lost headers or a null value")
    if new == "minikafka" and report.segments_max > SEGMENTS_KEPT:
        lines.append(
            f"a partition has {report.segments_max} segments; start the broker with "
            f"--set=minikafka.segments.kept={report.segments_max} or more, or it deletes the oldest"
        )
    return "\n".join(lines) + "\n"


def _json(report: Report) -> dict[str, Any]:
    return {
        "finished_before": report.was_finished,
        "continued": report.was_continued,
        "topics": report.topics,
        "partitions": report.partitions,
        "records": report.records,
        "changed": report.changed,
        "segments_max": report.segments_max,
        "tallies": report.tallies,
    }
