"""Tests for L{rustlog.wire.kafka.handlers.gathering}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import TopicNotFound
from rustlog.wire.kafka.errors import ErrorCode, code_for
from rustlog.wire.kafka.handlers.gathering import answer_each, repeated


def refuse(item: str, error: Exception) -> dict[str, Any]:
    return {"name": item, "error_code": code_for(error)}


class AnswerTests(SynchronousTestCase):
    def test_order(self) -> None:
        """Answers come in the order of the items, whichever is ready first."""
        waiting: dict[str, Deferred[dict[str, Any]]] = {"a": Deferred(), "b": Deferred()}
        answers = answer_each(["a", "b", "c"], lambda each: waiting.get(each, {"name": each}), refuse)
        waiting["b"].callback({"name": "b"})
        self.assertNoResult(answers)
        waiting["a"].callback({"name": "a"})
        self.assertEqual([each["name"] for each in self.successResultOf(answers)], ["a", "b", "c"])

    def test_refusals(self) -> None:
        """An error stands in the place of its item only."""

        def answer(item: str) -> dict[str, Any]:
            if item == "b":
                raise TopicNotFound(item)
            return {"name": item}

        answers = self.successResultOf(answer_each(["a", "b", "c"], answer, refuse))
        code = ErrorCode.unknown_topic_or_partition
        self.assertEqual(answers, [{"name": "a"}, {"name": "b", "error_code": code}, {"name": "c"}])

    def test_mistakes(self) -> None:
        """What should never happen is told without details, and logged with all of them."""
        (answer,) = self.successResultOf(answer_each(["a"], lambda each: {each: 1 // 0}, refuse))
        self.assertEqual(answer["error_code"], ErrorCode.unknown_server_error)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_repeated(self) -> None:
        """Those that are there more than once."""
        self.assertEqual(repeated("abacab"), {"a", "b"})
        self.assertEqual(repeated([]), set())
