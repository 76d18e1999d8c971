"""Tests for L{rustlog.wire.http.answers}."""

from __future__ import annotations

import json
from http import HTTPStatus

from twisted.trial.unittest import SynchronousTestCase

from rustlog import errors
from rustlog.model import TopicPartition
from rustlog.wire.http.answers import Answer, json_answer, problem, problem_of, status_for


class AnswerTests(SynchronousTestCase):
    def test_outcome(self) -> None:
        """An answer counts as good, or by the number of its status."""
        self.assertEqual(Answer(b"").outcome, "ok")
        self.assertEqual(problem(HTTPStatus.NOT_FOUND, "no").outcome, "404")

    def test_json(self) -> None:
        """JSON ends with a line feed, for those who look at it in a shell."""
        answer = json_answer({"a": "ü"})
        self.assertEqual((answer.body, answer.content_type), ('{"a":"ü"}\n'.encode(), "application/json"))

    def test_problem(self) -> None:
        """A problem has a word for programs and a sentence for people."""
        answer = problem(HTTPStatus.NOT_FOUND, "nothing")
        self.assertEqual(json.loads(answer.body), {"error": "NotFound", "message": "nothing"})

    def test_problem_of_the_broker(self) -> None:
        """So has an error of the broker."""
        answer = problem_of(errors.TopicNotFound("x"))
        self.assertEqual(answer.status, 404)
        self.assertEqual(
            json.loads(answer.body), {"error": "TopicNotFound", "message": "topic not found: x"}
        )

    def test_statuses(self) -> None:
        """The status tells whose fault it is, and whether it passes."""
        for error, status in (
            (errors.TopicNotFound("x"), 404),
            (errors.PartitionNotFound("x", 0), 404),
            (errors.GroupNotFound("x"), 404),
            (errors.InvalidGroup("x"), 400),
            (errors.StorageFull(), 503),
            (errors.Closed(), 503),
            (errors.PartitionFenced(TopicPartition("x", 0), "y"), 500),
            (errors.RustlogError(), 500),
        ):
            self.assertEqual(status_for(error), status, repr(error))
