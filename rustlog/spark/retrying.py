"""
What is tried again, and for how long.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from rustlog.environment.pace import Pace
from rustlog.spark.errors import (
    BrokerError,
    ConnectionFailed,
    ConnectionLost,
    GaveUp,
    RequestRefused,
    TopicNotFound,
)
from rustlog.spark.settings import ClientSettings

_JITTER = 0.5
"""The part of a delay that is left to chance, lest all tasks of a job come back at once."""

TOPIC_SECONDS = 5.0
"""For so long a topic that is not there may be one that not all brokers know yet."""

_DONE_PERHAPS = frozenset({ErrorCode.request_timed_out, ErrorCode.not_enough_replicas_after_append})


def may_have_been_done(problem: BrokerError) -> bool:
    """Whether the request may have been done, though it seems to have failed."""
    if isinstance(problem, RequestRefused):
        return problem.code in _DONE_PERHAPS
    return isinstance(problem, ConnectionLost)


class Attempts:
    """The attempts at one call."""

    def __init__(
        self, request: str, settings: ClientSettings, pace: Pace, waits_for_topics: bool = True
    ) -> None:
        self._request = request
        self._settings = settings
        self._pace = pace
        self._topic_seconds = TOPIC_SECONDS if waits_for_topics else 0.0
        self._begun = pace.monotonic()
        self._failures = 0

    def wait_after(self, problem: BrokerError) -> None:
        """
        Wait for the next attempt.

        @raise BrokerError: the problem itself, if another attempt does not help.
        @raise GaveUp: there is no time for another one.
        """
        if not self._may_go_away(problem):
            raise problem
        settings = self._settings
        delay = min(settings.backoff_seconds * 2.0**self._failures, settings.backoff_seconds_max)
        delay *= self._pace.uniform(1 - _JITTER, 1)
        self._failures += 1
        elapsed = self._pace.monotonic() - self._begun
        if isinstance(problem, TopicNotFound) and elapsed + delay > self._topic_seconds:
            raise problem
        if elapsed + delay > settings.deadline_seconds:
            raise GaveUp(self._request, settings.deadline_seconds, str(problem)) from problem
        self._pace.sleep(delay)

    @staticmethod
    def _may_go_away(problem: BrokerError) -> bool:
        if isinstance(problem, RequestRefused):
            return problem.is_retriable
        return isinstance(problem, (ConnectionFailed, ConnectionLost, TopicNotFound))
