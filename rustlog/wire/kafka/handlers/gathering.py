"""
One answer for each item of a request, whatever becomes of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, TypeVar, Union

from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from rustlog.errors import RustlogError

I = TypeVar("I")  # noqa: E741
Fields = dict[str, Any]
"""An item of a response, for L{make <rustlog.wire.kafka.schema.make>}."""

_log = Logger()


def answer_each(
    items: Iterable[I],
    answer: Callable[[I], Union[Fields, Deferred[Fields]]],
    refuse: Callable[[I, Exception], Fields],
) -> Deferred[list[Fields]]:
    """
    Answer all items at once; the answers come in their order.

    @param answer: raises, or fails with, a L{RustlogError} when it can not.
    @param refuse: what is said in place of the answer then.
    """
    answers: list[Deferred[Any]] = [
        maybeDeferred(answer, each).addErrback(partial(_refusal, refuse, each)) for each in items
    ]
    return gatherResults(answers)


def answer_partitions(
    topics: Iterable[Any],
    answer: Callable[[str, Any], Union[Fields, Deferred[Fields]]],
    refuse: Callable[[Any, Exception], Fields],
    *,
    name: str = "name",
    partitions: str = "partitions",
) -> Deferred[list[Fields]]:
    """
    The same for the usual shape: topics with partitions.

    @param answer: is given the name of a topic, and a partition as it is in the request.
    @param name: what requests and responses call the name.
    @param partitions: what requests call the partitions.
    """

    def one_topic(topic: Any) -> Deferred[Fields]:
        topic_name = getattr(topic, name)
        answers = answer_each(getattr(topic, partitions), partial(answer, topic_name), refuse)
        return answers.addCallback(lambda found: {name: topic_name, "partitions": found})

    return gatherResults([one_topic(each) for each in topics])


def _refusal(refuse: Callable[[I, Exception], Fields], item: I, failure: Failure) -> Fields:
    if not failure.check(RustlogError):
        _log.failure("a request failed in an unexpected way", failure)
    assert isinstance(failure.value, Exception)
    return refuse(item, failure.value)


def repeated(names: Iterable[Hashable]) -> set[Hashable]:
    """Those that are there more than once."""
    return {name for name, count in Counter(names).items() if count > 1}
