"""Workers that do nothing until a test tells them to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure
from zope.interface import implementer

from rustlog.errors import Closed
from rustlog.interfaces import IWorkers


@implementer(IWorkers)
class ManualWorkers:
    """Calls happen and are answered one by one, in L{finish}."""

    def __init__(self) -> None:
        self._calls: deque[tuple[Deferred[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many calls have not happened yet."""
        return len(self._calls)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        if self._closed:
            return fail(Closed())
        result: Deferred[Any] = Deferred()
        self._calls.append((result, function, arguments))
        return result

    def close(self) -> Deferred[None]:
        self._closed = True
        return succeed(None)

    def finish(self) -> None:
        """Let the longest waiting call happen, and tell its result."""
        result, function, arguments = self._calls.popleft()
        try:
            outcome = function(*arguments)
        except Exception:  # As a thread would: it belongs to the one who asked.
            outcome = Failure()
        result.callback(outcome)
