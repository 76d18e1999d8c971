"""
What can go wrong for a client, grouped by what one can do about it.

- L{RequestFailed}: the broker has answered, with a sentence that says why not.  Its subclasses tell some
  reasons from others.
- L{ConnectionFailed}: the broker could not be reached.  B{Nothing was sent.}
- L{ConnectionLost}: the broker could not be heard any more.  The request may or may not have been done.
"""

from __future__ import annotations

from attrs import define


class ClientError(Exception):
    """The root of the tree."""


@define(eq=False)
class ConnectionFailed(ClientError):
    """There is no connection, so nothing was sent."""

    address: str
    reason: str

    def __str__(self) -> str:
        return f"cannot connect to {self.address}: {self.reason}"


@define(eq=False)
class ConnectionLost(ClientError):
    """The answer to a request did not come.  Whether the request was done is not known."""

    request: str
    reason: str

    def __str__(self) -> str:
        return f"no answer to {self.request}, which may or may not have been done: {self.reason}"


class RequestTimedOut(ConnectionLost):
    """The answer did not come in time."""


@define(eq=False)
class NotUnderstood(ClientError):
    """What came was not an answer: this is not a broker, or one of another age."""

    reason: str

    def __str__(self) -> str:
        return f"the answer is not one of the RustLog protocol: {self.reason}"


class ClientClosed(ClientError):
    """The client was closed while, or before, it was asked for something."""

    def __str__(self) -> str:
        return "the client is closed"


# -- what the broker says ------------------------------------------------------------


@define(eq=False)
class RequestFailed(ClientError):
    """The broker has refused, or failed; C{message} is its own sentence."""

    message: str

    def __str__(self) -> str:
        return self.message


class NotFound(RequestFailed):
    """There is no such thing."""


class TopicNotFound(NotFound):
    """There is no such topic, or it has no such partition."""


class GroupNotFound(NotFound):
    """The group has never committed anything."""


class GroupInUse(RequestFailed):
    """Members of a group are at work, over a protocol that has such; or they read the topic in question."""


class AlreadyExists(RequestFailed):
    """There is one of that name."""


class OffsetOutOfRange(RequestFailed):
    """The log begins later than that, or ends before."""


class TooLarge(RequestFailed):
    """A request, a record or an answer is larger than is allowed."""


class InvalidRequest(RequestFailed):
    """The request makes no sense to the broker."""


class TryAgain(RequestFailed):
    """Not now; later perhaps."""


class BrokerFailed(RequestFailed):
    """It is the broker's fault; an operator has to look at its log."""


class CommitRefused(RequestFailed):
    """The offset was not remembered: there is no such partition, or the offset store failed."""


_BY_BEGINNING: dict[str, type[RequestFailed]] = {
    "partition not found": TopicNotFound,
    "topic not found": TopicNotFound,
    "group not found": GroupNotFound,
    "group not empty": GroupInUse,
    "topic in use": GroupInUse,
    "topic exists already": AlreadyExists,
    "offset out of range": OffsetOutOfRange,
    "max frame size exceeded": TooLarge,
    "records too large": TooLarge,
    "metadata too large": TooLarge,
    "failed to parse request": InvalidRequest,
    "invalid ": InvalidRequest,
    "corrupt records": InvalidRequest,
    "topic is internal": InvalidRequest,
    "this store cannot hold": InvalidRequest,
    "storage full": TryAgain,
    "too many connections": TryAgain,
    "the broker is stopping": TryAgain,
    "coordinator not available": TryAgain,
    "storage failed": BrokerFailed,
    "damaged log": BrokerFailed,
    "the write failed": BrokerFailed,
    "cannot read from": BrokerFailed,
    "internal error": BrokerFailed,
}
"""The beginnings of the broker's sentences, which do not change."""


def failure_for(message: str) -> RequestFailed:
    """The error that a sentence of the broker stands for."""
    for beginning, error in _BY_BEGINNING.items():
        if message.startswith(beginning):
            return error(message)
    return RequestFailed(message)
