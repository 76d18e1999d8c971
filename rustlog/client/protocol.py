"""
One connection of the Twisted client: requests go out at once, answers come back in their order.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.protocols.basic import Int32StringReceiver
from twisted.python.failure import Failure

from rustlog.client.errors import ClientError, ConnectionLost, NotUnderstood, RequestTimedOut
from rustlog.client.exchange import read_response
from rustlog.wire.rustlog.messages import FRAME_BYTES_MAX


@define(eq=False)
class _Waiting:
    """A request that has been sent.  C{answer} is C{None} if nobody wants it any more."""

    name: str
    answer: Deferred[bytes] | None
    timer: IDelayedCall | None = None


class ClientConnection(Int32StringReceiver):
    """Frames out, frames in."""

    MAX_LENGTH = FRAME_BYTES_MAX

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._waiting: deque[_Waiting] = deque()
        self._reason: str | None = None
        self.ended: Deferred[None] = Deferred()
        self.is_up = True

    def ask(self, name: str, payload: bytes, timeout_seconds: float) -> Deferred[bytes]:
        """
        Send a request.

        @return: its answer; fails with L{ConnectionLost}.  If it is cancelled, the answer is
            thrown away when it comes.
        """
        waiting = _Waiting(name, None)
        waiting.answer = Deferred(lambda _: self._abandon(waiting))
        waiting.timer = self._clock.callLater(timeout_seconds, self._time_out, waiting, timeout_seconds)
        self._waiting.append(waiting)
        self.sendString(payload)
        return waiting.answer

    def close(self) -> None:
        """Hang up."""
        self.is_up = False
        assert self.transport is not None
        self.transport.loseConnection()

    def stringReceived(self, string: bytes) -> None:
        if not self._waiting:
            self._give_up(_unasked(string))
            return
        waiting = self._waiting.popleft()
        _stop_timer(waiting)
        if waiting.answer is not None:
            waiting.answer.callback(string)

    def lengthLimitExceeded(self, length: int) -> None:
        self._give_up(str(NotUnderstood(f"a frame of {length} bytes")))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.is_up = False
        why = self._reason or reason.getErrorMessage().rstrip(".")
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            _stop_timer(each)
            if each.answer is not None:
                each.answer.errback(ConnectionLost(each.name, why))
        self.ended.callback(None)

    def _time_out(self, waiting: _Waiting, seconds: float) -> None:
        """Answers have no names: when one does not come, the others can not be told apart any more."""
        waiting.timer = None
        answer, waiting.answer = waiting.answer, None
        reason = f"nothing came within {seconds:g} seconds"
        self._give_up(reason)
        if answer is not None:
            answer.errback(RequestTimedOut(waiting.name, reason))

    def _give_up(self, reason: str) -> None:
        self._reason = self._reason or reason
        self.is_up = False
        transport: Any = self.transport
        transport.abortConnection()

    def _abandon(self, waiting: _Waiting) -> None:
        waiting.answer = None


def _stop_timer(waiting: _Waiting) -> None:
    timer: Any = waiting.timer
    if timer is not None and timer.active():
        timer.cancel()


def _unasked(payload: bytes) -> str:
    """What the broker has to say before it is asked: that it has too many clients, for example."""
    try:
        return f"it says {type(read_response(payload)).__name__} without being asked"
    except ClientError as error:
        return str(error)
