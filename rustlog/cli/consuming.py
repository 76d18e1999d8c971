"""C{rustlog consume}: read records."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError

from rustlog.cli.arguments import Commands, milliseconds, natural, positive, timestamp
from rustlog.cli.formats import Format, json_format, template_format, unescape, value_format
from rustlog.cli.session import CommandFailed, Session
from rustlog.client.consuming import Batch, Start

_EXAMPLES = r"""
Without --offset, --from-timestamp or --group, reading begins with the earliest record.
A group goes on where it was; the other two say where it begins the first time.  What has been written is
committed: a reader that dies sees some records twice, but misses none.

formats:
  value     the bytes of the value, and the delimiter
  json      an object on each line
  TEMPLATE  %t topic, %p partition, %o offset, %T timestamp, %k key, %s value, %h headers, %K %S their
  lengths,
            %% percent sign, \n \t \xNN
"""


def add_commands(commands: Commands) -> None:
    """Declare it."""
    parser = commands.add("consume", consume, "Read records of a topic.")
    parser.epilog = _EXAMPLES
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "-p", "--partition", type=natural, action="append", metavar="N", help="may be repeated [default: all]"
    )
    parser.add_argument(
        "-o",
        "--offset",
        type=position,
        metavar="OFFSET",
        help="a number, earliest, latest, or -N: the last N of each partition",
    )
    parser.add_argument(
        "--from-timestamp", type=timestamp, metavar="TIME", help="the first record since that time"
    )
    parser.add_argument("-g", "--group", metavar="GROUP", help="go on where this group was, and remember")
    parser.add_argument(
        "--offset-reset",
        choices=("error", "earliest", "latest"),
        default="error",
        help="when the group was at records that are gone [default: error]",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="wait for more at the end")
    parser.add_argument("-n", "--count", type=positive, metavar="N", help="so many records at most")
    _add_format(parser)


def _add_format(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-F", "--format", default="value", metavar="FORMAT", help="value, json or a template [default: value]"
    )
    parser.add_argument(
        "-d", "--delimiter", default="\\n", metavar="TEXT", help=r"what follows each value [default: \n]"
    )


def position(text: str) -> str | int:
    """Where to begin."""
    if text in ("earliest", "latest"):
        return text
    if not re.fullmatch("-?[0-9]+", text):
        raise ArgumentTypeError(f"{text!r} is not a number, earliest or latest")
    return int(text)


def consume(session: Session) -> None:
    options = session.options
    if options.offset is not None and options.from_timestamp is not None:
        raise CommandFailed("say either --offset or --from-timestamp", status=2)
    write = _Output(session, _format(session))
    left = options.count
    consumer = session.client.consume(
        options.topic,
        options.group,
        partitions=options.partition,
        start=_start(session),
        offset_reset=options.offset_reset,
        follow=options.follow,
    )
    while left is None or left > 0:
        batch = consumer.poll()
        if batch is None:
            return
        if left is not None:
            batch = _first(batch, left)
            left -= len(batch.records)
        write(batch)
        consumer.commit_batch(batch)


class _Output:
    """Writes whole batches, and waits until the bytes are gone: what is committed has been seen."""

    def __init__(self, session: Session, form: Format) -> None:
        self._stdout = session.console.stdout
        self._form = form

    def __call__(self, batch: Batch) -> None:
        form, topic, partition = self._form, batch.topic, batch.partition
        self._stdout.write(b"".join(form(topic, partition, record) for record in batch.records))
        self._stdout.flush()


def _first(batch: Batch, number: int) -> Batch:
    """So many records of a batch at most."""
    if number >= len(batch.records):
        return batch
    following = batch.records[number].offset
    assert following is not None
    return Batch(batch.topic, batch.partition, batch.records[:number], following)


def _format(session: Session) -> Format:
    options = session.options
    try:
        if options.json or options.format == "json":
            return json_format
        if options.format == "value":
            return value_format(unescape(options.delimiter))
        return template_format(options.format)
    except ValueError as error:
        raise CommandFailed(str(error), status=2) from None


def _start(session: Session) -> Start:
    """Where to begin; what only the broker knows is asked for."""
    options = session.options
    if options.from_timestamp is not None:
        since = milliseconds(options.from_timestamp, session.console.local_time)
        return {each: _since(session, each, since) for each in _partitions(session)}
    if isinstance(options.offset, int) and options.offset < 0:
        described = session.client.describe_topic(options.topic).partitions
        return {
            each.partition: max(each.log_start_offset, each.high_watermark + options.offset)
            for each in described
        }
    start: Start = "earliest" if options.offset is None else options.offset
    return start


def _since(session: Session, partition: int, since: int) -> int:
    client, topic = session.client, session.options.topic
    found = client.list_offsets(topic, partition, since).offset
    if found is None:  # All are older; what comes will not be.
        found = client.list_offsets(topic, partition, "latest").offset
    assert found is not None
    return found


def _partitions(session: Session) -> list[int]:
    chosen: list[int] | None = session.options.partition
    if chosen is not None:
        return chosen
    return [each.partition for each in session.client.describe_topic(session.options.topic).partitions]
