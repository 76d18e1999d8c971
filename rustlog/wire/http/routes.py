"""
Which path leads where.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from urllib.parse import unquote_to_bytes

from attrs import evolve, frozen
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from rustlog.errors import RustlogError
from rustlog.model import RequestContext
from rustlog.results import Result
from rustlog.wire.http.answers import Answer, problem, problem_of
from rustlog.wire.http.api import Api

METHODS = ("GET", "HEAD")

UNKNOWN = "unknown"
"""What requests for paths that lead nowhere are counted as."""

_ORIGIN = re.compile(rb"^https?://[^/]*", re.IGNORECASE)
"""What a proxy may put before a path."""

Handler = Callable[[RequestContext], Result[Answer]]


@frozen
class Route:
    """
    Where a path leads.

    @ivar name: requests are counted by it.
    @ivar handler: gives the answer.
    """

    name: str
    handler: Handler


class Routes:
    """All of them."""

    _log = Logger()

    def __init__(self, api: Api) -> None:
        self._pages: dict[str, Route] = {
            "/": Route("index", api.index),
            "/metrics": Route("metrics", api.metrics),
            "/healthz": Route("healthz", api.healthz),
            "/readyz": Route("readyz", api.readyz),
            "/api/topics": Route("topics", api.topics),
            "/api/groups": Route("groups", api.groups),
        }
        self._families: dict[str, tuple[str, Callable[..., Result[Answer]]]] = {
            "/api/topics/": ("topic", api.topic),
            "/api/groups/": ("group", api.group),
        }

    @property
    def paths(self) -> list[str]:
        """All of them, with C{{name}} where a name belongs."""
        return [*self._pages, *(prefix + "{name}" for prefix in self._families)]

    def find(self, path: bytes) -> Route:
        """Where a path leads, as it stands in the request, without a query."""
        try:
            decoded = unquote_to_bytes(_ORIGIN.sub(b"", path) or b"/").decode()
        except UnicodeDecodeError:
            return Route(UNKNOWN, lambda _: problem(HTTPStatus.BAD_REQUEST, "the path is not UTF-8"))
        page = self._pages.get(decoded)
        if page is not None:
            return page
        for prefix, (name, handler) in self._families.items():
            if decoded.startswith(prefix):
                # All of the rest is the name: groups may have slashes in theirs, encoded or not.
                return Route(name, partial(handler, name=decoded[len(prefix) :]))
        return Route(UNKNOWN, lambda _: problem(HTTPStatus.NOT_FOUND, "there is nothing here; see /"))

    def answer(self, context: RequestContext, method: str, route: Route) -> Deferred[Answer]:
        """Does not fail: errors are answers."""
        if method not in METHODS and route.name != UNKNOWN:
            return succeed(_not_allowed())
        answer: Deferred[Answer] = maybeDeferred(route.handler, context)  # type: ignore[call-overload]
        return answer.addErrback(self._explain, route)

    def _explain(self, failure: Failure, route: Route) -> Answer:
        if isinstance(failure.value, RustlogError):
            return problem_of(failure.value)
        self._log.failure("a request for {route} failed in an unexpected way", failure, route=route.name)
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error")


def _not_allowed() -> Answer:
    answer = problem(HTTPStatus.METHOD_NOT_ALLOWED, f"only {' and '.join(METHODS)} are allowed")
    return evolve(answer, headers=(("Allow", ", ".join(METHODS)),))
