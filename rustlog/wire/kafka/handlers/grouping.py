"""
What the requests about groups and their offsets share.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from rustlog.errors import InvalidGroup, RustlogError, StorageFailed, StorageFull
from rustlog.groups.coordinator import GroupCoordinator
from rustlog.wire.kafka.calls import Call
from rustlog.wire.kafka.errors import ErrorCode, code_for
from rustlog.wire.kafka.schema import Entity

Answer = Deferred[Entity]
Steps = Generator[Deferred[Any], Any, Entity]


def group_code_for(error: RustlogError) -> ErrorCode:
    """
    What a client is told.  Trouble with the store is not a matter of a partition's leader here: clients look
    for the coordinator again, and try again.
    """
    if isinstance(error, (StorageFailed, StorageFull)):
        return ErrorCode.coordinator_not_available
    return code_for(error)


def coordinator_of(call: Call, group: str) -> GroupCoordinator:
    """Who looks after the members of that group; raises if nobody here does, or no group has that name."""
    if not group:
        raise InvalidGroup("it is empty")
    return call.services.broker.coordinator_for(call.context, group)


def answered(
    result: Callable[[], Deferred[Any]],
    respond: Callable[[Any], Entity],
    refuse: Callable[[RustlogError], Entity],
) -> Answer:
    """
    The response to what comes of C{result}, be it raised or later.  What is no L{RustlogError} is a defect,
    and not for us to answer.
    """
    try:
        waiting = result()
    except RustlogError as error:
        waiting = Deferred()
        waiting.errback(error)

    def refused(failure: Failure) -> Entity:
        failure.trap(RustlogError)
        return refuse(failure.value)  # type: ignore[arg-type]

    return waiting.addCallbacks(respond, refused)
