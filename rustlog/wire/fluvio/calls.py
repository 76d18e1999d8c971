"""
What every handler of a Fluvio request is given.

A handler is a function of a L{Call}.  It returns the answer, or a Deferred of it; C{None} is no answer,
because those that there are will come from a stream.

What goes wrong with one topic or partition is told in its place in the answer, with L{code_for
<rustlog.wire.fluvio.errors.code_for>}.  An error that is raised is told as L{refusal} says; where there is
no way to do so, the connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from attrs import field, frozen
from twisted.internet.interfaces import IReactorTime

from rustlog.broker import Broker
from rustlog.interfaces import IWallClock
from rustlog.model import RequestContext
from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.apis import Api, Role
from rustlog.wire.fluvio.cluster import Cluster
from rustlog.wire.fluvio.consumers import (
    DeleteConsumerOffsetResponse,
    FetchConsumerOffsetsResponse,
    UpdateConsumerOffsetResponse,
)
from rustlog.wire.fluvio.controller import Status
from rustlog.wire.fluvio.errors import ErrorCode, Refused, smart_module_not_found
from rustlog.wire.fluvio.fetching import StreamFetchResponse
from rustlog.wire.fluvio.smartmodules import SmartModule
from rustlog.wire.fluvio.streams import FetchStreams
from rustlog.wire.fluvio.watches import Watches
from rustlog.wire.pipeline import Work


@frozen
class Services:
    """
    What handlers work with, on one connection.

    @ivar roles: what the port is.
    """

    broker: Broker
    clock: IReactorTime
    wall: IWallClock
    cluster: Cluster
    roles: Collection[Role]
    watches: Watches
    streams: FetchStreams


@frozen
class Call:
    """
    A request to be answered.

    @ivar work: is told, for the log, which topic and partition it is about, and of how many records.
    """

    api: Api
    version: int
    correlation_id: int
    request: Any
    context: RequestContext
    services: Services
    work: Work = field(factory=Work)


Handler = Callable[[Call], Any]


def refusal(api: Api, code: ErrorCode, message: str) -> Any:
    """An answer that says only that the request failed; C{None} where there can be none."""
    if api in (apis.CREATE, apis.DELETE):
        return Status("", code, message)
    if api is apis.STREAM_FETCH:
        return StreamFetchResponse("", 0, 0, code)
    if api is apis.UPDATE_CONSUMER_OFFSET:
        return UpdateConsumerOffsetResponse(-1, code)
    if api is apis.DELETE_CONSUMER_OFFSET:
        return DeleteConsumerOffsetResponse(code)
    if api is apis.FETCH_CONSUMER_OFFSETS:
        return FetchConsumerOffsetsResponse((), code)
    return None


def module_refusal(modules: Sequence[SmartModule]) -> Refused | None:
    """Why a request with SmartModules is refused: to leave them out would be another request."""
    if not modules:
        return None
    name = modules[0].name
    return Refused(smart_module_not_found(name), f"there are no SmartModules here, and no {name[:300]!r}")
