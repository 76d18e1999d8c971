"""
C{rustlog pipeline}: jobs on Spark, over whole topics.

Here are their options; L{rustlog.cli.jobs} runs them.  Neither Spark nor Arrow is imported before a job is.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError

from rustlog.cli import jobs
from rustlog.cli.arguments import Command, Commands, positive, setting, timestamp
from rustlog.cli.jobs import DEFAULT_KAFKA, KAFKA_VARIABLE

_SIZES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}

_RUNNING = f"""
Spark runs in this process unless --master names a cluster.  The broker is reached over the Kafka protocol,
at --bootstrap, at ${KAFKA_VARIABLE}, or at {DEFAULT_KAFKA}.  Interrupted (Ctrl-C), killed or failed, a job
is called again the same way, and goes on where it was.
"""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def add_commands(commands: Commands) -> None:
    """Declare them."""
    pipeline = commands.group(
        "pipeline", "Archive, replay, audit, report on, rekey or compact topics, on Spark."
    )
    _add_archive(pipeline)
    _add_replay(pipeline)
    _add_audit(pipeline)
    _add_report(pipeline)
    _add_rekey(pipeline)
    _add_compact(pipeline)


def _add(pipeline: Commands, name: str, run: Command, summary: str, *, broker: bool = True) -> ArgumentParser:
    parser = pipeline.add(name, run, summary, broker=False)
    parser.epilog = _RUNNING
    if broker:
        parser.add_argument(
            "-b",
            "--bootstrap",
            dest="kafka",
            metavar="HOST:PORT",
            help=f"the broker's Kafka listener [default: ${KAFKA_VARIABLE}, or {DEFAULT_KAFKA}]",
        )
        parser.add_argument(
            "--kafka",
            dest="kafka_settings",
            type=setting,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a setting of the Kafka client, as security.protocol=SSL; may be repeated",
        )
    parser.add_argument("--master", metavar="URL", help="where Spark runs [default: local[*]]")
    parser.add_argument(
        "--conf",
        type=setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark; may be repeated",
    )
    parser.add_argument("--plan", action="store_true", help="show what would be done, and do nothing")
    return parser


def _add_data_dir(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir", metavar="DIR", help="read the files of a data directory instead of asking a broker"
    )


def _add_topics(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-t", "--topic", dest="topics", action="append", default=[], metavar="TOPIC",
        help="may be repeated [default: all but the broker's own]",
    )  # fmt: skip


def _add_codec(parser: ArgumentParser) -> None:
    parser.add_argument("--codec", choices=CODECS, default="none", help="compress batches [default: none]")


def _add_delivery(parser: ArgumentParser) -> None:
    _add_codec(parser)
    parser.add_argument(
        "--append", action="store_true", help="the target may have records; put these behind them"
    )
    parser.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of topics that are made; may be repeated [default: retention.ms=-1]",
    )
    parser.add_argument(
        "--state",
        metavar="FILE",
        help="where the job remembers who it is [default: one below ~/.local/state/rustlog]",
    )


def _add_archive(pipeline: Commands) -> None:
    parser = _add(
        pipeline, "archive", jobs.archive, "Archive topics as Parquet or Delta, each record exactly once."
    )
    parser.add_argument("target", metavar="ARCHIVE", help="a directory; made if it does not exist")
    _add_topics(parser)
    _add_data_dir(parser)
    parser.add_argument(
        "--format", choices=("parquet", "delta"), default="parquet", help="what to write [default: parquet]"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on when everything is archived")
    parser.add_argument(
        "--interval",
        type=positive,
        default=10,
        metavar="SECONDS",
        help="with --follow: how often to look [default: 10]",
    )
    parser.add_argument(
        "--commit-bytes",
        type=size,
        default="1G",
        metavar="SIZE",
        help="so much of the logs is one commit [default: 1G]",
    )
    parser.add_argument(
        "--task-bytes",
        type=size,
        default="64M",
        metavar="SIZE",
        help="so much of a log is one task [default: 64M]",
    )
    parser.add_argument(
        "--allow-gaps", action="store_true", help="go on though records are gone that were not archived"
    )


def _add_replay(pipeline: Commands) -> None:
    parser = _add(
        pipeline, "replay", jobs.replay, "Send what was archived to topics again, in order and exactly once."
    )
    parser.add_argument("archive", metavar="ARCHIVE", help="a directory that 'archive' has written")
    parser.add_argument(
        "-t", "--topic", dest="topics", action="append", default=[], type=renaming, metavar="TOPIC[=TARGET]",
        help="may be repeated; into a topic of another name if one is given [default: all]",
    )  # fmt: skip
    parser.add_argument("--rate", type=positive, metavar="N", help="no more than so many records a second")
    parser.add_argument("--rate-bytes", type=size, metavar="SIZE", help="no more than so many bytes a second")
    _add_delivery(parser)


def _add_audit(pipeline: Commands) -> None:
    parser = _add(
        pipeline, "audit", jobs.audit, "Verify every batch and index of a data directory.", broker=False
    )
    parser.epilog = None
    parser.add_argument("directory", metavar="DIR", help="a data directory; a broker may be using it")
    _add_topics(parser)


def _add_report(pipeline: Commands) -> None:
    parser = _add(
        pipeline, "report", jobs.report, "Tell what topics got, hour by hour, and how far groups are behind."
    )
    _add_topics(parser)
    _add_data_dir(parser)
    parser.add_argument("--since", type=timestamp, metavar="TIME", help="leave out older records")
    parser.add_argument("--until", type=timestamp, metavar="TIME", help="leave out younger records")
    parser.add_argument("--html", metavar="FILE", help="write a page with plots, too")


def _add_rekey(pipeline: Commands) -> None:
    parser = _add(
        pipeline, "rekey", jobs.rekey, "Copy a topic by another key, or to another number of partitions."
    )
    parser.add_argument("topic", metavar="TOPIC", help="to read")
    parser.add_argument("target", metavar="TARGET", help="the topic to write; made if it does not exist")
    _add_data_dir(parser)
    parser.add_argument(
        "--key", metavar="EXPRESSION", help="of Spark SQL, over the columns, as value:customer [default: key]"
    )
    parser.add_argument(
        "--partitions",
        type=positive,
        metavar="N",
        help="of the target [default: as it has, or as the source has]",
    )
    _add_delivery(parser)


def _add_compact(pipeline: Commands) -> None:
    parser = _add(
        pipeline, "compact", jobs.compact, "Write the last value of each key to a new topic or a table."
    )
    parser.add_argument("topic", metavar="TOPIC", help="to read")
    _add_data_dir(parser)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--to", dest="target", metavar="TARGET", help="a topic to write; made if it does not exist"
    )
    target.add_argument("--parquet", metavar="DIR", help="a directory of Parquet files to write")
    target.add_argument("--delta", metavar="DIR", help="a Delta table to write")
    parser.add_argument("--overwrite", action="store_true", help="replace the table, if there is one")
    parser.add_argument(
        "--partitions",
        type=positive,
        metavar="N",
        help="of the target [default: as it has, or as the source has]",
    )
    _add_delivery(parser)


# -- kinds of values -------------------------------------------------------------------


def size(text: str) -> int:
    """Bytes: C{65536}, C{64K}, C{1G}."""
    match = re.fullmatch("([0-9]+)([KMGT]?)", text)
    if match is None or not int(match[1]):
        raise ArgumentTypeError(f"{text!r} is not a number of bytes like 65536, 64K, 100M or 1G")
    return int(match[1]) * _SIZES[match[2]]


def renaming(text: str) -> tuple[str, str]:
    """C{TOPIC} or C{TOPIC=TARGET}."""
    topic, equals, target = text.partition("=")
    if not topic or (equals and not target):
        raise ArgumentTypeError(f"{text!r} is not TOPIC or TOPIC=TARGET")
    return topic, target or topic
