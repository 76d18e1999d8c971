"""C{rustlog produce}: write records."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from typing import IO

import attrs
import orjson

from rustlog.cli.arguments import Commands, natural, setting
from rustlog.cli.formats import parse_json, unescape
from rustlog.cli.output import count, json_line
from rustlog.cli.session import CommandFailed, Session
from rustlog.client.errors import ClientError
from rustlog.client.partitioning import partition_for
from rustlog.model import Record
from rustlog.wire.rustlog.messages import FRAME_BYTES_MAX

BATCH_BYTES = 1024 * 1024
BATCH_RECORDS = 10_000
"""What is written with one request, at most, unless a single record is larger."""

_READ_BYTES = 256 * 1024

_EXAMPLES = """
Without FILEs, standard input is read.  Each line is a record, unless --whole or --format json is given.
What comes is written at once: a program that prints a line now and then can be piped into this.

Records with a key go to the partition that Kafka's clients would choose; others to all partitions in turn.
"""


def add_commands(commands: Commands) -> None:
    """Declare it."""
    parser = commands.add("produce", produce, "Write records to a topic.")
    parser.epilog = _EXAMPLES
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("files", metavar="FILE", nargs="*", help="to read, '-' is standard input")
    parser.add_argument("-p", "--partition", type=natural, metavar="N", help="write all to this partition")
    parser.add_argument("-k", "--key", type=str.encode, metavar="KEY", help="of all records")
    parser.add_argument(
        "-K",
        "--key-separator",
        type=separator,
        metavar="TEXT",
        help="what stands between key and value in a line",
    )
    parser.add_argument(
        "-H",
        "--header",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of all records",
    )
    parser.add_argument("-v", "--value", action="append", metavar="TEXT", help="a record; reads nothing")
    parser.add_argument("--whole", action="store_true", help="each FILE is one record")
    parser.add_argument("-Z", "--null", action="store_true", help="an empty value is null (a tombstone)")
    parser.add_argument("--format", choices=("lines", "json"), default="lines", help="[default: lines]")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not say what was written")
    parser.add_argument(
        "--at-least-once",
        action="store_true",
        help="try again when the connection breaks, although records may then be written twice",
    )


def separator(text: str) -> bytes:
    """What stands between key and value."""
    try:
        found = unescape(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
    if not found:
        raise ArgumentTypeError("it is empty")
    return found


def produce(session: Session) -> None:
    options = session.options
    if options.key is not None and options.key_separator is not None:
        raise CommandFailed("say either --key or --key-separator", status=2)
    writer = _Writer(session)
    progress = session.progress(lambda done: f"{done} records written")
    try:
        for records in _inputs(session):
            writer.write(records)
            progress.advance(len(records))
    except (ClientError, CommandFailed) as error:
        progress.clear()
        writer.report_failure()
        raise error
    progress.clear()
    writer.report()


class _Writer:
    """Distributes records over partitions, and counts."""

    def __init__(self, session: Session) -> None:
        self._session = session
        options = session.options
        partitions = [each.partition for each in session.client.describe_topic(options.topic).partitions]
        self._choose = _chooser(options.partition, len(partitions))
        self._written: dict[int, list[int]] = {}

    def write(self, records: list[Record]) -> None:
        """Write them; each partition gets its records in their order."""
        options = self._session.options
        shares: dict[int, list[Record]] = {}
        for each in records:
            shares.setdefault(self._choose(each), []).append(each)
        for partition, share in shares.items():
            offsets = self._session.client.produce(
                options.topic, share, partition, at_least_once=options.at_least_once
            )
            self._note(partition, offsets)

    def _note(self, partition: int, offsets: list[int]) -> None:
        first, _, number = self._written.get(partition, (offsets[0], 0, 0))
        self._written[partition] = [first, offsets[-1], number + len(offsets)]
        if self._session.options.json:
            topic = self._session.options.topic
            lines = (json_line({"topic": topic, "partition": partition, "offset": each}) for each in offsets)
            self._session.console.stdout.write(b"".join(lines))
            self._session.console.stdout.flush()

    def report(self) -> None:
        """Say what was written, and where it is."""
        if self._session.options.json or self._session.options.quiet:
            return
        if not self._written:
            self._session.write("no records\n")
        for partition, (first, last, number) in sorted(self._written.items()):
            where = f"at offset {first}" if first == last else f"at offsets {first} to {last}"
            topic = self._session.options.topic
            self._session.write(f"{count(number, 'record')} in {topic}-{partition} {where}\n")

    def report_failure(self) -> None:
        number = sum(each[2] for each in self._written.values())
        if number:
            self._session.remark(f"rustlog: {count(number, 'record')} had been written before this:")


def _chooser(fixed: int | None, partitions: int) -> Callable[[Record], int]:
    """Which partition a record goes to."""
    if fixed is not None:
        return lambda record: fixed
    turns = cycle(range(partitions))
    return lambda record: next(turns) if record.key is None else partition_for(record.key, partitions)


# -- input --


def _inputs(session: Session) -> Iterator[list[Record]]:
    """Records, as many at a time as are there, and no more than fit a request."""
    options = session.options
    if options.value is not None:
        if options.files:
            raise CommandFailed("say either --value or FILEs", status=2)
        yield from _portions([_finished(session, Record(each.encode())) for each in options.value])
        return
    for name in options.files or ["-"]:
        try:
            with _opened(session, name) as file:
                yield from _read(session, file, name)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise CommandFailed(f"cannot read {name}: {error.strerror or error}") from error


def _opened(session: Session, name: str) -> IO[bytes]:
    return session.console.stdin if name == "-" else session.console.open(name)


def _read(session: Session, file: IO[bytes], name: str) -> Iterator[list[Record]]:
    if session.options.whole:
        content = file.read(FRAME_BYTES_MAX + 1)
        if len(content) > FRAME_BYTES_MAX:
            raise CommandFailed(f"{name} is too large for one record: more than {FRAME_BYTES_MAX} bytes")
        yield [_finished(session, Record(content))]
        return
    make = _json_record if session.options.format == "json" else _line_record
    number = 0
    for lines in _lines(file, name):
        records = []
        for line in lines:
            number += 1
            try:
                records.append(_finished(session, make(session, line)))
            except ValueError as error:
                raise CommandFailed(f"line {number} of {_called(name)}: {error}") from None
        yield from _portions(records)


def _lines(file: IO[bytes], name: str) -> Iterator[list[bytes]]:
    """Whole lines without their ends, as soon as they are there.  The last one may lack its end."""
    rest = b""
    while chunk := _read_some(file):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > FRAME_BYTES_MAX:
            raise CommandFailed(f"a line of {_called(name)} has more than {FRAME_BYTES_MAX} bytes")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _read_some(file: IO[bytes]) -> bytes:
    read: Callable[[int], bytes] = getattr(file, "read1", file.read)
    return read(_READ_BYTES)


def _called(name: str) -> str:
    return "standard input" if name == "-" else name


def _line_record(session: Session, line: bytes) -> Record:
    between = session.options.key_separator
    if between is None:
        return Record(line)
    key, found, value = line.partition(between)
    if not found:
        raise ValueError(
            f"there is no {between.decode('utf-8', 'backslashreplace')!r} between a key and a value"
        )
    return Record(value, key)


def _json_record(session: Session, line: bytes) -> Record:
    try:
        return parse_json(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None


def _finished(session: Session, record: Record) -> Record:
    """With what is said for all records."""
    options = session.options
    headers = (*record.headers, *((name, value.encode()) for name, value in options.header))
    key = options.key if options.key is not None else record.key
    value = None if options.null and not record.value else record.value
    return attrs.evolve(record, key=key, value=value, headers=headers)


def _portions(records: Iterable[Record]) -> Iterator[list[Record]]:
    portion: list[Record] = []
    size = 0
    for each in records:
        length = len(each.value or b"") + len(each.key or b"")
        if portion and (size + length > BATCH_BYTES or len(portion) >= BATCH_RECORDS):
            yield portion
            portion, size = [], 0
        portion.append(each)
        size += length
    if portion:
        yield portion
