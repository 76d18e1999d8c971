"""
The C{lines} protocol: commands in lines of text, one line of answer for each.

    MAKE topic partitions              OK
    PUT topic partition text           OK offset
    GET topic partition offset [ms]    OK offset text, or END offset when there is nothing (after so many ms)

Whatever goes wrong is answered with C{ERR} and a sentence.  Bytes of a text that would break a line are
percent-escaped.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from attrs import field, frozen, validators

from rustlog.errors import OffsetOutOfRange, PartitionNotFound, RequestRefused, RustlogError
from rustlog.log import records
from rustlog.log.batch import split_batches
from rustlog.model import MAX_OFFSET, Fetched, FetchWant, Record, TopicPartition
from rustlog.results import Result, then
from rustlog.settings import TopicConfig
from rustlog.wire.answering import AnsweredWork
from rustlog.wire.connection import LineConnection
from rustlog.wire.factory import ConnectionFactory
from rustlog.wire.lines import LINE_BYTES_MAX
from rustlog.wire.listener import Listener
from rustlog.wire.pipeline import Work

PRINTABLE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")

BATCH_BYTES_MAX = TopicConfig().max_message_bytes
"""What is in memory while one record is picked: the whole batch."""

_NUMBER = re.compile(rb"[0-9]{1,19}")


@frozen
class LinesSettings:
    """C{--set=lines.line.bytes=N}."""

    line_bytes: int = field(
        default=LINE_BYTES_MAX,
        validator=[validators.ge(256), validators.le(1024 * 1024)],
        metadata={"doc": "How long a line may be, those of the answers included."},
    )


def make_factory(listener: Listener) -> ConnectionFactory:
    """What C{--listen=lines=ENDPOINT} calls."""
    return ConnectionFactory(listener, LinesConnection)


class LinesConnection(LineConnection):
    """One client.  Memory, order, slow readers and the end are the business of the base class."""

    protocol_name = "lines"

    def __init__(self, factory: ConnectionFactory) -> None:
        super().__init__(factory)
        self.MAX_LENGTH = self.listener.settings.line_bytes

    def understand(self, payload: bytes) -> Work:
        name, _, arguments = payload.partition(b" ")
        command = COMMANDS.get(name.upper(), Unknown)
        return command(self, arguments)

    def frame_too_large(self, length: int) -> bytes:
        return refusal(f"a line may have {self.MAX_LENGTH} bytes")

    def too_many_connections(self) -> bytes:
        return refusal("too many connections, try again later")


# -- commands --


class Command(AnsweredWork):
    """A line, from the moment when it is looked at."""

    usage = ""

    def __init__(self, connection: LinesConnection, arguments: bytes) -> None:
        super().__init__(connection.context)
        self.listener = connection.listener
        self.arguments = arguments
        self.name = type(self).__name__

    def take(self, least: int, most: int) -> tuple[str, list[bytes]]:
        """The topic, and the arguments after it, of which the last may have spaces."""
        topic, *others = self.arguments.split(b" ", most - 1)
        if len(others) < least - 1:
            raise Misunderstood(self.usage)
        name = self.topic = topic.decode("utf-8", "replace")
        return name, others

    def number(self, word: bytes) -> int:
        if not _NUMBER.fullmatch(word):
            raise Misunderstood(self.usage)
        return min(int(word), MAX_OFFSET)

    def words_for(self, error: RustlogError | None) -> str:
        if error is None:
            return "something went wrong here, not with you"
        if isinstance(error, PartitionNotFound):
            return f"no such partition: {error.topic} {error.partition}"
        if isinstance(error, OffsetOutOfRange):
            return f"offsets go from {error.log_start_offset} to {error.high_watermark}"
        return str(error)

    def encode_refusal(self, words: str) -> bytes:
        return refusal(words)


class Misunderstood(RequestRefused):
    """The line is not a command as it should be."""

    def __str__(self) -> str:
        return f"say {self.args[0]}"


class Make(Command):
    usage = "MAKE topic partitions"

    def perform(self) -> Result[bytes]:
        topic, (partitions,) = self.take(2, 2)
        made = self.listener.broker.create_topic(self.context, topic, self.number(partitions))
        return made.addCallback(lambda _: b"OK\n")


class Put(Command):
    usage = "PUT topic partition text"
    overlaps = True

    def perform(self) -> Result[bytes]:
        topic, (partition, text) = self.take(3, 3)
        self.partition = self.number(partition)
        batch = records.build([Record(unquote_to_bytes(text))], now_ms=self.listener.wall.now_ms())
        entry = (TopicPartition(topic, self.partition), batch)
        return then(self.listener.broker.produce(self.context, [entry]), self._answer)

    def _answer(self, appended: list[Any]) -> bytes:
        (answer,) = appended
        if isinstance(answer, RustlogError):
            raise answer
        self.records = 1
        return b"OK %d\n" % answer.base_offset


class Get(Command):
    usage = "GET topic partition offset [milliseconds]"
    is_cancellable = True
    answer_bytes_max = BATCH_BYTES_MAX

    def perform(self) -> Result[bytes]:
        topic, (partition, offset, *wait) = self.take(3, 4)
        self.partition = self.number(partition)
        wait_ms = self.number(wait[0]) if wait else 0
        want = FetchWant(topic, self.partition, self.number(offset), max_bytes=1)
        found = self.listener.broker.fetch(self.context, [want], max_bytes=1, max_wait_ms=wait_ms)
        return then(found, partial(self._answer, want.offset))

    def _answer(self, offset: int, answers: list[Any]) -> bytes:
        (found,) = answers
        if not isinstance(found, Fetched):
            raise found
        try:
            return self._first(found, offset)
        finally:
            found.release()

    def _first(self, found: Fetched, offset: int) -> bytes:
        for batch in (each for piece in found.slices for each in split_batches(piece.buffer())):
            if not batch.is_control:
                for record in records.decode(batch, from_offset=offset):
                    return self._line(record)
            offset = batch.next_offset
        return b"END %d\n" % offset

    def _line(self, record: Record) -> bytes:
        text = quote_from_bytes(record.value or b"", safe=PRINTABLE)
        line = f"OK {record.offset} {text}\n".encode()
        if len(line) > self.listener.settings.line_bytes:
            raise RequestRefused(f"record {record.offset} is longer than a line may be; go on behind it")
        self.records = 1
        return line


class Unknown(Command):
    def perform(self) -> Result[bytes]:
        usages = [each.usage for each in COMMANDS.values()]
        raise Misunderstood(f"{', '.join(usages[:-1])} or {usages[-1]}")


COMMANDS: dict[bytes, type[Command]] = {b"MAKE": Make, b"PUT": Put, b"GET": Get}


def refusal(words: str) -> bytes:
    """Words may quote what the client sent, which must not become more than one line."""
    return b"ERR " + " ".join(words.split()).encode("utf-8", "replace") + b"\n"
