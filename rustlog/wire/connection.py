"""
A connection whose requests are answered in order.

It joins the parts: requests come in (L{rustlog.wire.receiving}) when there is memory for them
(L{rustlog.wire.budget}), go through a pipeline (L{rustlog.wire.pipeline}), answers go out as fast
as the client reads (L{rustlog.wire.output}).  A protocol adds what the bytes mean.

How it ends.  Closing a socket while bytes that the client sent are unread destroys answers that
are still on their way to it.  So a connection that must end is first closed for writing only; what
still comes is read and thrown away until the client closes its side, for a limited time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import (
    IDelayedCall,
    IHalfCloseableProtocol,
    ISSLTransport,
    ITCPTransport,
)
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from rustlog.model import RequestContext
from rustlog.results import Result
from rustlog.wire.answers import NO_ANSWER, Answer, Parts, release
from rustlog.wire.framing import PREFIX, FrameReceiver
from rustlog.wire.lines import LineReceiver
from rustlog.wire.output import CHUNK_BYTES, OutputQueue
from rustlog.wire.pipeline import Entry, Pipeline, Work
from rustlog.wire.receiving import Pause, Receiver

if TYPE_CHECKING:
    from rustlog.wire.factory import ConnectionFactory

FREE_PASS_BYTES = 64 * 1024
"""What the requests of one connection may use together without waiting for memory."""

ENTRY_BYTES = 512
"""What a request in the pipeline takes beside its own bytes."""

RECEIVE_BYTES_MIN = 64 * 1024
RECEIVE_BYTES_MAX = 1024 * 1024
"""What is read from a transport at once: its usual amount, and the most while a large frame arrives."""

LINGER_SECONDS = 10.0
"""How long a client may go on sending what nobody wants any more, before it sees the end."""

SHORT_LINGER_SECONDS = 1.0
"""The same, for one that is refused at the door, or when the whole broker stops."""

LINGER_BYTES_MAX = 128 * 1024 * 1024
"""How much of it is read, at most."""


@implementer(IHalfCloseableProtocol)
class Connection(Receiver):
    """
    One client.  L{FramedConnection} and L{LineConnection} know where its requests begin and end.

    @cvar protocol_name: of the wire protocol.
    @cvar greeting: what is logged of a new connection.
    @ivar last_progress: when it last sent or read something, if it holds memory.
    """

    _log = Logger()
    protocol_name = ""
    greeting = "{client} connected to {listener}"
    context: RequestContext
    _output: OutputQueue

    def __init__(self, factory: ConnectionFactory) -> None:
        super().__init__()
        self.factory = factory
        self.listener = factory.listener
        self._clock = self.listener.clock
        self._budget = self.listener.capacity.budget
        self._meter = self.listener.meter
        self._pipeline = Pipeline(
            understand=self.understand,
            start=self._start,
            answer=self._answered,
            drop=self._release,
            fail=self._failed,
        )
        self._requests = 0
        self._charged = 0  # of the memory for requests
        self._arriving = 0  # of that, for the frame that is arriving
        self._waiting_for_memory: Deferred[None] | None = None
        self._is_watched = False
        self._is_admitted = False
        self._is_hurried = False
        self._is_ending = False
        self._is_lingering = False
        self._is_lost = False
        self._end_reason = ""
        self._last_words: Answer = NO_ANSWER
        self._linger_seconds = 0.0
        self._linger_timer: IDelayedCall | None = None
        self._discarded = 0
        self.last_progress = 0.0

    # -- for subclasses --

    def understand(self, payload: bytes) -> Work:
        """What the bytes of a request mean.  One that means nothing is work too: to say so."""
        raise NotImplementedError

    def frame_too_large(self, length: int) -> Answer:
        """What a client is told that sends, or announces, a request of C{length} bytes."""
        return NO_ANSWER

    def too_many_connections(self) -> Answer:
        """What a client is told that is one too many."""
        return NO_ANSWER

    # -- beginning --

    def connectionMade(self) -> None:
        peer = self.transport.getPeer()
        if isinstance(peer, (IPv4Address, IPv6Address)) and ITCPTransport.providedBy(self.transport):
            self.transport.setTcpNoDelay(True)
        self.context = RequestContext(self.protocol_name, self.listener.name, client_name(peer))
        self._output = OutputQueue(
            self.transport,
            self._budget.answers,
            progress=self._progress,
            blocked=self._output_blocked,
            unblocked=self._output_unblocked,
            drained=self._finish_if_done,
        )
        self._is_admitted = self.factory.connection_made(self)
        if self._is_admitted:
            self._log.info(self.greeting, client=self.context.client, listener=self.listener.name)

    # -- requests --

    def frame_announced(self, length: int) -> None:
        if length > RECEIVE_BYTES_MIN:
            # In steps of the usual size, collecting a large frame costs more than all the rest.
            self.transport.bufferSize = min(length, RECEIVE_BYTES_MAX)
        charge = length + ENTRY_BYTES
        if self._charged + charge <= FREE_PASS_BYTES:
            self._budget.requests.take(charge)
            self._charge(charge)
            return
        waiting = self._budget.requests.reserve(charge)
        if waiting is None:
            self._charge(charge)
            return
        self._waiting_for_memory = waiting
        self.pause(Pause.MEMORY)
        waiting.addCallbacks(self._got_memory, _ignore_cancelling, callbackArgs=(charge,))

    def _got_memory(self, _: None, charge: int) -> None:
        self._waiting_for_memory = None
        self._charge(charge)
        self.resume(Pause.MEMORY)

    def _charge(self, charge: int) -> None:
        self._charged += charge
        self._arriving = charge

    def stringReceived(self, string: bytes) -> None:
        if self._is_ending:
            return
        if len(string) > RECEIVE_BYTES_MIN:
            self.transport.bufferSize = RECEIVE_BYTES_MIN  # A large one would slow small requests down.
        self._requests += 1
        self._arriving = 0  # From now on it belongs to the entry.
        self._pipeline.submit(Entry(string, len(string), self._clock.seconds()))
        if len(self._pipeline) >= self.listener.config.max_in_flight_requests:
            self.pause(Pause.IN_FLIGHT)

    def _start(self, entry: Entry, work: Work) -> Result[Answer]:
        """Begin, when what it waits for has happened, and there is memory for the answer."""
        if work.may_wait and not self._is_hurried:
            return work.wait().addCallback(lambda _: self._start_with_memory(entry, work))
        return self._start_with_memory(entry, work)

    def _start_with_memory(self, entry: Entry, work: Work) -> Any:
        if not work.answer_bytes_max:
            return self._started(entry, work.start())
        waiting = self._budget.answers.reserve(work.answer_bytes_max)
        if waiting is None:
            return self._start_reserved(None, entry, work)
        return waiting.addCallback(self._start_reserved, entry, work)

    def _start_reserved(self, _: None, entry: Entry, work: Work) -> Any:
        entry.reserved_bytes = work.answer_bytes_max
        return work.start()

    def _started(self, entry: Entry, result: Any) -> Any:
        """Where it shows only then how large an answer is, its turn to be sent comes when there is memory."""
        if type(result) is Deferred:
            return result.addCallback(self._make_room, entry)
        return self._make_room(result, entry)

    def _make_room(self, answer: Answer, entry: Entry) -> Result[Answer]:
        size = self._output.memory_for(answer) if type(answer) is Parts else 0
        if not size:
            return answer
        waiting = self._budget.answers.reserve(size)
        entry.reserved_bytes = size if waiting is None else 0
        if waiting is None:
            return answer
        return waiting.addCallbacks(
            self._got_room, _give_up, callbackArgs=(answer, entry, size), errbackArgs=(answer,)
        )

    def _got_room(self, _: None, answer: Answer, entry: Entry, size: int) -> Answer:
        entry.reserved_bytes = size
        return answer

    def _answered(self, entry: Entry, work: Work, answer: Answer) -> None:
        size = self._write(answer)
        self._release(entry)
        self._tell(entry, work, size)
        if len(self._pipeline) < self.listener.config.max_in_flight_requests:
            self.resume(Pause.IN_FLIGHT)
        self._finish_if_done()

    def _write(self, answer: Answer) -> int:
        """Send it, if there is anything to say; how large it is."""
        if answer is NO_ANSWER:
            return 0
        if type(answer) is Parts:
            self._write_parts(answer)
            return answer.size
        data = cast(bytes, answer)
        self._write_bytes(data)
        return len(data)

    def _write_bytes(self, answer: bytes) -> None:
        self._output.write(answer)

    def _write_parts(self, answer: Parts) -> None:
        self._output.write_parts(answer.parts)

    def _release(self, entry: Entry) -> None:
        """Give back the memory of a request that is answered, or never will be."""
        self._give_back(entry.size + ENTRY_BYTES)
        if entry.reserved_bytes:
            self._budget.answers.give_back(entry.reserved_bytes)
            entry.reserved_bytes = 0

    def _give_back(self, charge: int) -> None:
        self._charged -= charge
        self._budget.requests.give_back(charge)

    def _tell(self, entry: Entry, work: Work, response_bytes: int) -> None:
        seconds = self._clock.seconds() - entry.started
        outcome = "ok" if work.outcome == "ok" else work.error
        self._meter.answered(work.name, outcome, entry.size, response_bytes, seconds)
        if self.listener.requests.is_wanted:
            self.listener.requests.answered(
                self.context,
                work.name,
                topic=work.topic,
                partition=work.partition,
                records=work.records,
                request_bytes=entry.size,
                response_bytes=response_bytes,
                seconds=seconds,
                outcome=work.outcome,
            )

    def _failed(self, failure: Failure) -> None:
        """A request ended without an answer, and those behind it can not have theirs either."""
        self._log.failure("a request of {client} was not answered", failure, client=self.context.client)
        self.cut_off("a request failed in an unexpected way")

    # -- memory that the client holds --

    def dataReceived(self, data: bytes) -> None:
        if self._is_lingering:
            self._discard(len(data))
            return
        if self._is_watched:
            self._progress()
        super().dataReceived(data)
        self._watch()

    def resume(self, reason: Pause) -> None:
        if reason in self._pauses:
            super().resume(reason)
            self._watch()

    def _progress(self) -> None:
        self.last_progress = self._clock.seconds()

    def _output_blocked(self) -> None:
        self._pipeline.hold()
        self.pause(Pause.OUTPUT)
        self._watch()

    def _output_unblocked(self) -> None:
        self._pipeline.release()
        if self._output.is_blocked:
            return  # What was held back has filled it again.
        self.resume(Pause.OUTPUT)
        self._watch()
        self._finish_if_done()

    def _watch(self) -> None:
        """Have it watched while it holds memory and it is its turn to do something."""
        holds_memory = not self._is_lost and (self._output.is_blocked or self.is_mid_frame)
        if holds_memory == self._is_watched:
            return
        self._is_watched = holds_memory
        if holds_memory:
            self._progress()
            self.listener.capacity.slow_clients.watch(self)
        else:
            self.listener.capacity.slow_clients.unwatch(self)

    # -- the end --

    def lengthLimitExceeded(self, length: int) -> None:
        self.end_with(self.frame_too_large(length), f"its request of {length} bytes is too large")

    def refuse(self) -> None:
        """It is one too many: tell it so."""
        self._last_words = self.too_many_connections()
        self._end("there are too many connections", SHORT_LINGER_SECONDS)

    def drain(self) -> None:
        """Answer what has been received, now, and take no more; close at once if there is nothing."""
        is_idle = not len(self._pipeline) and self._output.is_empty
        self._is_hurried = True
        self._pipeline.hurry()
        self._end("the broker stops", 0.0 if is_idle else SHORT_LINGER_SECONDS)

    def end_with(self, last_words: Answer, reason: str) -> None:
        """Where its next request begins is not known: answer those before, say so, then close."""
        self._last_words = last_words
        self._end(reason, LINGER_SECONDS)

    def end(self, reason: str) -> None:
        """Answer nothing more than what has begun, then close."""
        self._pipeline.forget_waiting()
        self._end(reason, LINGER_SECONDS)

    def readConnectionLost(self) -> None:
        """The client will send nothing more, but may still read its answers."""
        if self._is_lingering:
            self.transport.loseConnection()
        else:
            self._linger_seconds = 0.0
            self._end("", 0.0)

    def writeConnectionLost(self) -> None:
        """Our last answer is out, as we wanted."""

    def cut_off(self, reason: str) -> None:
        """End at once, whatever is under way."""
        if not self._is_lost:
            self._end_reason = reason
            self.transport.abortConnection()

    def _end(self, reason: str, linger_seconds: float) -> None:
        """Take no more requests; when those that have come are answered, close."""
        if self._is_ending:
            return
        self._is_ending = True
        self._end_reason = reason
        self._linger_seconds = linger_seconds
        self.pause(Pause.ENDING)
        self._stop_receiving()
        self._finish_if_done()

    def _stop_receiving(self) -> None:
        """Drop the frame that is arriving, or about to."""
        self.forget_input()
        self._give_back(self._arriving)
        self._arriving = 0
        if self._waiting_for_memory is not None:
            self._waiting_for_memory.cancel()
            self._waiting_for_memory = None

    def _finish_if_done(self) -> None:
        done = self._is_ending and not len(self._pipeline) and self._output.is_empty
        if not done or self._is_lingering or self._is_lost:
            return
        self._is_lingering = True
        self._write(self._last_words)
        self._output.detach()
        self._linger_timer = self._clock.callLater(
            self._linger_seconds or LINGER_SECONDS, self._linger_is_over
        )
        if self._linger_seconds and can_half_close(self.transport):
            self.transport.loseWriteConnection()
            self.transport.resumeProducing()
        else:
            self.transport.loseConnection()

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > LINGER_BYTES_MAX:
            self.cut_off(self._end_reason)

    def _linger_is_over(self) -> None:
        self._linger_timer = None
        self.cut_off(self._end_reason)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._is_lost = True
        self._pauses.add(Pause.ENDING)  # for ever, and without a word to the transport
        self._stop_receiving()
        self._pipeline.close()
        self._output.close()
        self._watch()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
        self.factory.connection_lost(self)
        if self._is_admitted:
            self._log.info(
                "{client} disconnected from {listener}: {requests} requests, {bytes_in} bytes in, "
                "{bytes_out} bytes out; {reason}",
                client=self.context.client,
                listener=self.listener.name,
                requests=self._requests,
                bytes_in=self.bytes_received + self._discarded,
                bytes_out=self._output.bytes_written,
                reason=self._end_reason or _reason(reason),
            )


class FramedConnection(Connection, FrameReceiver):
    """Requests and answers are frames."""

    def _write_bytes(self, answer: bytes) -> None:
        prefix = PREFIX.pack(len(answer))
        if len(answer) < CHUNK_BYTES:
            self._output.write(prefix + answer)
        else:
            self._output.write(prefix)
            self._output.write(answer)

    def _write_parts(self, answer: Parts) -> None:
        first, *others = answer.parts
        self._output.write_parts([PREFIX.pack(answer.size) + cast(bytes, first), *others])


class LineConnection(Connection, LineReceiver):
    """Requests are lines.  Answers are bytes, which end as the protocol wants them to."""


def client_name(peer: object) -> str:
    """An address, for people."""
    if isinstance(peer, IPv6Address):
        return f"[{peer.host}]:{peer.port}"
    if isinstance(peer, IPv4Address):
        return f"{peer.host}:{peer.port}"
    return "a local client"


def can_half_close(transport: object) -> bool:
    """
    Whether it can be closed for writing only.  TLS can not: it says goodbye, and waits for the
    other side to do so, by itself.
    """
    return ITCPTransport.providedBy(transport) and not ISSLTransport.providedBy(transport)


def _reason(failure: Failure) -> str:
    if failure.check(ConnectionDone):
        return "closed by the client"
    return failure.getErrorMessage()


def _give_up(failure: Failure, answer: Answer) -> Failure:
    """Nobody waits for the answer any more."""
    release(answer)
    return failure


def _ignore_cancelling(failure: Failure) -> None:
    """We did it ourselves."""
    failure.trap(CancelledError)
