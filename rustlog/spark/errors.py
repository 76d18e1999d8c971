"""
What can go wrong, in words for somebody who has written a Spark job.

All of these can be pickled: they travel from Spark's workers to its driver.
"""

from __future__ import annotations

from attrs import define


class PipelineError(Exception):
    """The root of the tree."""


@define(eq=False)
class BadOption(PipelineError):
    """An option that was given makes no sense."""

    option: str
    reason: str

    def __str__(self) -> str:
        return f"option {self.option}: {self.reason}"


# -- the log -------------------------------------------------------------------------


@define(eq=False)
class CorruptLog(PipelineError):
    """Bytes are not what was written, or not what a client should have written."""

    topic: str
    partition: int
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} is damaged at offset {self.offset}: {self.reason}"


@define(eq=False)
class NotRepresentable(PipelineError):
    """A record has something for which a column has no room."""

    topic: str
    partition: int
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"the record at offset {self.offset} of {self.topic}-{self.partition}: {self.reason}"


@define(eq=False)
class DataLost(PipelineError):
    """Offsets that were asked for are gone, or have never been."""

    topic: str
    partition: int
    offset: int
    start: int
    end: int

    def __str__(self) -> str:
        return (
            f"offset {self.offset} of {self.topic}-{self.partition} can not be read: "
            f"the log has offsets from {self.start} to {self.end}"
        )


@define(eq=False)
class LogFileGone(PipelineError):
    """A file was there when ranges were made, and is not any more."""

    topic: str
    partition: int
    path: str

    def __str__(self) -> str:
        return f"{self.path} of {self.topic}-{self.partition} is gone: retention has removed it, perhaps"


@define(eq=False)
class NoDataDirectory(PipelineError):
    """A directory can not be read as one of rustlog's."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


# -- brokers -------------------------------------------------------------------------


class BrokerError(PipelineError):
    """Something between us and the brokers."""


@define(eq=False)
class ConnectionFailed(BrokerError):
    """There is no connection, so nothing was sent."""

    address: str
    reason: str

    def __str__(self) -> str:
        return f"cannot connect to {self.address}: {self.reason}"


@define(eq=False)
class ConnectionLost(BrokerError):
    """The answer to a request did not come.  Whether the request was done is not known."""

    address: str
    request: str
    reason: str

    def __str__(self) -> str:
        return f"no answer to {self.request} from {self.address}: {self.reason}"


@define(eq=False)
class NotUnderstood(BrokerError):
    """What came was not an answer: this is no Kafka broker, or it does not offer what is needed."""

    address: str
    reason: str

    def __str__(self) -> str:
        return f"{self.address} does not speak as a Kafka broker should: {self.reason}"


@define(eq=False)
class RequestRefused(BrokerError):
    """
    A broker has said no.

    @ivar code: Kafka's number of the error.
    @ivar name: what Kafka calls it.
    @ivar is_retriable: whether the same may succeed later.
    """

    request: str
    code: int
    name: str
    subject: str
    message: str = ""
    is_retriable: bool = False

    def __str__(self) -> str:
        more = f" ({self.message})" if self.message else ""
        return f"{self.request} of {self.subject} was refused: {self.name}{more}"


@define(eq=False)
class TopicNotFound(BrokerError):
    """There is no such topic, or it has no such partition."""

    topic: str
    partition: int | None = None

    def __str__(self) -> str:
        which = "" if self.partition is None else f" with a partition {self.partition}"
        return f"there is no topic {self.topic}{which}"


@define(eq=False)
class GaveUp(BrokerError):
    """It did not succeed in time, though it was tried again and again."""

    request: str
    seconds: float
    last: str

    def __str__(self) -> str:
        return f"{self.request} did not succeed within {self.seconds:g} seconds; at last: {self.last}"
