"""
L{Answer}: what an HTTP request is answered with.
"""

from __future__ import annotations

from http import HTTPStatus

import orjson
from attrs import frozen

from rustlog import errors
from rustlog.errors import RustlogError

TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
JSON = "application/json"

_NOT_FOUND = (errors.TopicNotFound, errors.PartitionNotFound, errors.GroupNotFound)
_NOT_NOW = (errors.TryAgain, errors.Closed)


@frozen
class Answer:
    """A status, a body and what it is."""

    body: bytes
    content_type: str = TEXT
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def outcome(self) -> str:
        """C{ok}, or the number of the status; requests are counted by it."""
        return "ok" if self.status < 400 else str(int(self.status))


def json_answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """A value that JSON can hold."""
    return Answer(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE), JSON, status)


def problem(status: HTTPStatus, message: str, kind: str | None = None) -> Answer:
    """Why there is nothing better, in JSON; C{kind} is for programs, the name of the status unless given."""
    value = {"error": kind or status.phrase.replace(" ", ""), "message": message}
    return json_answer(value, status)


def problem_of(error: RustlogError) -> Answer:
    """Why the broker refused."""
    return problem(status_for(error), str(error), type(error).__name__)


def status_for(error: RustlogError) -> HTTPStatus:
    """Whose fault it is, and whether it passes."""
    if isinstance(error, _NOT_FOUND):
        return HTTPStatus.NOT_FOUND
    if isinstance(error, _NOT_NOW):
        return HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(error, errors.RequestRefused):
        return HTTPStatus.BAD_REQUEST
    return HTTPStatus.INTERNAL_SERVER_ERROR
