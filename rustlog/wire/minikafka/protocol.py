"""
The MiniKafka protocol on a connection.

Where the next command begins is known as long as the lengths of payloads are.  A payload that is too large
is read and thrown away, and the connection goes on; when a length makes no sense, or is absurd, it ends.
"""

from __future__ import annotations

from rustlog.errors import RustlogError
from rustlog.results import Result
from rustlog.settings import TopicConfig
from rustlog.wire.answering import AnsweredWork
from rustlog.wire.connection import LINGER_BYTES_MAX, LineConnection
from rustlog.wire.factory import ConnectionFactory
from rustlog.wire.lines import Body
from rustlog.wire.listener import Listener
from rustlog.wire.minikafka import codec
from rustlog.wire.minikafka.codec import Ack, Command, Consume, Misunderstood, Produce, SetOffset
from rustlog.wire.minikafka.handlers import Services, Session, words_for
from rustlog.wire.minikafka.reading import Cursors
from rustlog.wire.pipeline import Work

BATCH_BYTES_MAX = TopicConfig().max_message_bytes
"""What is in memory while one message is picked: a whole batch."""

CURSORS_SHARE = 4
"""Which part of the memory for requests and answers may be used again for batches that are being read."""

PASSED_OVER_BYTES_MAX = LINGER_BYTES_MAX
"""How large a payload may be that is read and thrown away."""

_NAMES: dict[type[Command], str] = {
    Produce: "TOPIC",
    Consume: "CONSUME",
    Ack: "ACK",
    SetOffset: "SET_OFFSET",
}


def make_factory(listener: Listener) -> ConnectionFactory:
    """What C{--listen=minikafka=ENDPOINT} calls."""
    services = Services(
        listener.broker,
        listener.wall,
        Cursors(listener.config.queued_max_request_bytes // CURSORS_SHARE),
        listener.config.auto_create_topics_enable,
        listener.settings.trailer,
    )
    return ConnectionFactory(listener, lambda factory: MinikafkaConnection(factory, services))


class MinikafkaConnection(LineConnection):
    """One client."""

    MAX_LENGTH = codec.LINE_BYTES_MAX
    protocol_name = "minikafka"

    def __init__(self, factory: ConnectionFactory, services: Services) -> None:
        super().__init__(factory)
        self.session = Session(services)

    def body_behind(self, line: bytes) -> Body | None:
        try:
            length = codec.announced_length(line)
        except Misunderstood as error:
            self.end_with(codec.refusal(str(error)), "the length of its payload is not known")
            return None
        if length is None:
            return None
        limit = self._payload_bytes_max(line)
        if length > max(limit, PASSED_OVER_BYTES_MAX):
            self.end_with(too_large(length, limit), f"its payload of {length} bytes is too large")
        return Body(length, length <= limit and _is_well_formed(line))

    def _payload_bytes_max(self, line: bytes) -> int:
        topic = line.split(b" ", 2)[1].decode("utf-8", "replace")
        return self.listener.broker.message_bytes_max(self.context, topic)

    def understand(self, payload: bytes) -> Work:
        try:
            return CommandWork(self, codec.parse(payload), payload)
        except Misunderstood as error:
            return NoCommand(str(error))

    def frame_too_large(self, length: int) -> bytes:
        return codec.refusal(f"line too long, at most {self.MAX_LENGTH} bytes are allowed")

    def too_many_connections(self) -> bytes:
        return codec.refusal("too many connections, try again later")

    def connectionLost(self, *arguments: object) -> None:
        super().connectionLost(*arguments)  # type: ignore[arg-type]
        self.session.close()


def too_large(length: int, limit: int) -> bytes:
    return codec.refusal(f"payload too large: {length} bytes exceed max.message.bytes={limit}")


def _is_well_formed(line: bytes) -> bool:
    """Whether it is worth it to keep what follows."""
    try:
        codec.parse(line)
    except Misunderstood:
        return False
    return True


class NoCommand(Work):
    """A line that is none."""

    name = "unknown"
    error = "Misunderstood"

    def __init__(self, words: str) -> None:
        self.outcome = words

    def start(self) -> bytes:
        return codec.refusal(self.outcome)


class CommandWork(AnsweredWork):
    """A command, and what becomes of it."""

    def __init__(self, connection: MinikafkaConnection, command: Command, request: bytes) -> None:
        super().__init__(connection.context)
        self._session = connection.session
        self._command = command
        self.name = _NAMES[type(command)]
        self.topic = getattr(command, "topic", None)
        if isinstance(command, Produce):
            self._length = codec.announced_length(request.partition(b"\n")[0]) or 0
            # While the topic is being made, what follows has to wait, or would overtake.
            self.overlaps = self._session.has_topic(self.context, command.topic)
        elif isinstance(command, (Consume, Ack)):
            self.answer_bytes_max = BATCH_BYTES_MAX

    def perform(self) -> Result[bytes]:
        command, session = self._command, self._session
        if isinstance(command, Produce):
            self.records = 1
            self._command = Ack()  # It may be large: let it go.
            return session.produce(self.context, command, self._length)
        if isinstance(command, Consume):
            return session.consume(self.context, command)
        if isinstance(command, SetOffset):
            return session.set_offset(self.context, command)
        return session.acknowledge(self.context)

    def words_for(self, error: RustlogError | None) -> str:
        return words_for(error)

    def encode_refusal(self, words: str) -> bytes:
        return codec.refusal(words)
