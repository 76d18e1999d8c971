"""
The requests of one connection: begun in order, answered in order.

Requests that may overlap (produces, so that one sync serves many of them) are worked on together
while they follow each other.  Any other waits until all before it are answered, and what comes after
it waits for it, so that a client reads its own writes.

What a request wants is looked at only when it is about to begin: until then it is just bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from rustlog.results import Result
from rustlog.wire.answers import Answer, release


class Work:
    """
    A request, understood.

    @ivar overlaps: whether it may be worked on together with its like.
    @ivar may_wait: whether L{wait} has to be asked.
    @ivar is_cancellable: whether it should be cancelled when nobody waits for the answer any more.
    @ivar answer_bytes_max: how much memory its answer may take; 0: next to nothing.
    @ivar name: of the request, one of a fixed set; requests are counted by it.
    @ivar outcome: C{ok}, or what the client was told instead; for people, as are C{topic}, C{partition},
        C{records} (how many).
    @ivar error: if it is not C{ok}, the kind of error, one of a fixed set; outcomes are counted by it.
    """

    overlaps = False
    may_wait = False
    is_cancellable = False
    answer_bytes_max = 0
    name = ""
    topic: str | None = None
    partition: int | None = None
    records = 0
    outcome = "ok"
    error = "error"

    def wait(self) -> Deferred[None]:
        """
        Deferred C{None}: what has to happen before memory is set aside for the answer.  That may take as
        long as it likes.  It does not fail, unless with C{CancelledError}.
        """
        raise NotImplementedError

    def hurry(self) -> None:
        """Wait no longer, and answer with what there is."""

    def start(self) -> Any:
        """
        Begin.  The result is an L{Answer}, or a Deferred of one; perhaps C{NO_ANSWER}.  Errors are answers
        too: it does not fail, unless with C{CancelledError}.
        """
        raise NotImplementedError


@define(eq=False)
class Entry:
    """
    A request on its way through.

    @ivar payload: its bytes, until it is understood.
    @ivar size: of the payload.
    @ivar work: from then on.
    @ivar reserved_bytes: what is reserved for its answer.
    """

    payload: bytes | None
    size: int
    started: float = 0.0
    reserved_bytes: int = 0
    work: Work | None = field(default=None, init=False)
    _answer: Answer | None = field(default=None, init=False)
    _pending: Deferred[Answer] | None = field(default=None, init=False)


class Pipeline:
    """
    The queue of one connection.

    @ivar understand: makes L{Work} of a payload.
    @ivar start: begins an entry.
    @ivar answer: takes the answers, in order.
    @ivar drop: takes entries that will not be answered, because the pipeline was L{closed <close>}.
    @ivar fail: is told of what must not happen: an entry failed, and can not be answered.
    """

    def __init__(
        self,
        *,
        understand: Callable[[bytes], Work],
        start: Callable[[Entry, Work], Result[Answer]],
        answer: Callable[[Entry, Work, Answer], object],
        drop: Callable[[Entry], object],
        fail: Callable[[Failure], object],
    ) -> None:
        self._understand = understand
        self._start = start
        self._answer = answer
        self._drop = drop
        self._fail = fail
        self._waiting: deque[Entry] = deque()
        self._begun: deque[Entry] = deque()
        self._is_held = False
        self._is_closed = False
        self._is_advancing = False

    def __len__(self) -> int:
        """How many requests have come and are not answered."""
        return len(self._waiting) + len(self._begun)

    def submit(self, entry: Entry) -> None:
        """A request has come."""
        self._waiting.append(entry)
        self._advance()

    def hold(self) -> None:
        """Begin nothing until L{release}."""
        self._is_held = True

    def release(self) -> None:
        """Go on."""
        self._is_held = False
        self._advance()

    def hurry(self) -> None:
        """Let nothing that has begun wait for anything that might happen."""
        for entry in list(self._begun):
            assert entry.work is not None
            entry.work.hurry()

    def forget_waiting(self) -> None:
        """Drop what has not begun."""
        waiting, self._waiting = self._waiting, deque()
        for entry in waiting:
            self._drop(entry)

    def close(self) -> None:
        """Nobody waits for answers any more.  What has begun is dropped when it ends."""
        self._is_closed = True
        self.forget_waiting()
        for entry in list(self._begun):
            assert entry.work is not None
            if entry._answer is not None:
                self._drop_begun(entry, entry._answer)
            elif entry._pending is not None and entry.work.is_cancellable:
                entry._pending.cancel()

    # -- the order --

    def _advance(self) -> None:
        """
        Begin what may begin.  Not from within itself: an answer that is there at once
        would lead here again, as deep as the queue is long.
        """
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            while self._waiting and not self._is_held and self._may_begin(self._waiting[0]):
                self._begin(self._waiting.popleft())
        finally:
            self._is_advancing = False

    def _may_begin(self, entry: Entry) -> bool:
        if not self._begun:
            return True
        last = self._begun[-1].work
        assert last is not None
        return last.overlaps and self._understood(entry).overlaps

    def _understood(self, entry: Entry) -> Work:
        if entry.work is None:
            assert entry.payload is not None
            entry.work = self._understand(entry.payload)
            entry.payload = None  # It may be large, and is not needed any more.
        return entry.work

    def _begin(self, entry: Entry) -> None:
        work = self._understood(entry)
        self._begun.append(entry)
        result = self._start(entry, work)
        if type(result) is Deferred:
            entry._pending = result
            result.addCallbacks(self._ended, self._failed, callbackArgs=(entry,), errbackArgs=(entry,))
            result.addErrback(self._fail)
        else:
            self._ended(result, entry)  # type: ignore[arg-type]

    def _failed(self, failure: Failure, entry: Entry) -> Failure | None:
        if not self._is_closed or failure.check(CancelledError) is None:
            return failure
        self._ended(b"", entry)
        return None

    def _ended(self, answer: Answer, entry: Entry) -> None:
        entry._pending = None
        entry._answer = answer
        if self._is_closed:
            self._drop_begun(entry, answer)
        else:
            self._hand_out_answers()
            self._advance()

    def _drop_begun(self, entry: Entry, answer: Answer) -> None:
        self._begun.remove(entry)
        release(answer)
        self._drop(entry)

    def _hand_out_answers(self) -> None:
        begun = self._begun
        while begun and begun[0]._answer is not None:
            first = begun.popleft()
            assert first.work is not None and first._answer is not None
            self._answer(first, first.work, first._answer)
