"""Tests for L{rustlog.wire.answering}."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import RustlogError, TopicNotFound
from rustlog.results import Result
from rustlog.wire.answering import AnsweredWork
from tests.unit.wire.harness import CONTEXT


class Question(AnsweredWork):
    """Does what a function does."""

    name = "question"

    def __init__(self, perform: Callable[[], Result[bytes]]) -> None:
        super().__init__(CONTEXT)
        self.perform = perform  # type: ignore[method-assign]

    def words_for(self, error: RustlogError | None) -> str:
        return "oh" if error is None else f"no: {error}"

    def encode_refusal(self, words: str) -> bytes:
        return words.encode()


def refuse() -> bytes:
    raise TopicNotFound("orders")


def stumble() -> bytes:
    raise ZeroDivisionError("by zero")


class AnsweredWorkTests(SynchronousTestCase):
    def test_answer(self) -> None:
        """An answer that is there at once is given at once, a later one later."""
        self.assertEqual(Question(lambda: b"yes").start(), b"yes")
        self.assertEqual(self.successResultOf(Question(lambda: succeed(b"yes")).start()), b"yes")

    def test_refusal(self) -> None:
        """A refusal is answered in words, which are the outcome too."""
        at_once = Question(refuse)
        self.assertEqual(at_once.start(), b"no: topic not found: orders")
        later = Question(lambda: fail(TopicNotFound("orders")))
        self.assertEqual(self.successResultOf(later.start()), b"no: topic not found: orders")
        self.assertEqual({at_once.outcome, later.outcome}, {"no: topic not found: orders"})

    def test_unexpected(self) -> None:
        """Of what nobody expected the client hears little, and the operator everything."""
        for work in (Question(stumble), Question(lambda: succeed(None).addCallback(lambda _: stumble()))):
            result = work.start()
            answer = self.successResultOf(result) if isinstance(result, Deferred) else result
            self.assertEqual((answer, work.outcome), (b"oh", "oh"))
            self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_cancelled(self) -> None:
        """Nobody is told anything when nobody waits any more."""
        waiting = Question(Deferred).start()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
