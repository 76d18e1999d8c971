"""
The APIs of Fluvio: by whom they are offered, in which versions, and which one a request means.

A Fluvio cluster has two kinds of servers, the controller (SC) and the streaming units (SPU), and numbers the
APIs of each on its own: 1002 is Delete here and FetchOffsets there.  A port can still be both: a client
passes over a listed range that does not fit, and no version that is offered of the one is offered of the
other.

Offered is what clients are told; accepted is what they send, too, when nothing that is offered suits them.
At a port that is both, what has a key of both and a version below 20 is the controller's.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from attrs import frozen

from rustlog.wire.fluvio.versions import OfferedVersions


class Role(Enum):
    """What a port is."""

    SC = "sc"
    SPU = "spu"


BOTH_ROLES = frozenset(Role)

_VERSIONS_MAX = 2**15 - 1
_UNITS_FROM = 20
"""Versions below are the controller's, from here on the units', where both have a key."""


@frozen
class Api:
    """
    One kind of request.

    @ivar versions: those that are offered.
    @ivar accepted: those that are understood.
    @ivar streams: whether a request has many answers, until the connection ends.
    """

    name: str
    key: int
    roles: frozenset[Role]
    versions: range
    accepted: range
    streams: bool = False

    def accepts(self, version: int) -> bool:
        """Whether a request of that version can be read."""
        return version in self.accepted


def _api(
    name: str, key: int, role: Role, first: int, last: int, *, accepted_from: int | None = None,
    streams: bool = False,
) -> Api:  # fmt: skip
    accepted = range(first if accepted_from is None else accepted_from, last + 1)
    return Api(name, key, frozenset([role]), range(first, last + 1), accepted, streams)


# A client must ask this first, whatever it will speak: later versions begin as this one.
API_VERSIONS = Api("ApiVersions", 18, BOTH_ROLES, range(3), range(_VERSIONS_MAX + 1))

# Below 11 objects were written in another way.
CREATE = _api("Create", 1001, Role.SC, 11, 19)
DELETE = _api("Delete", 1002, Role.SC, 11, 19)
LIST = _api("List", 1003, Role.SC, 15, 19)
WATCH = _api("Watch", 1004, Role.SC, 15, 19, streams=True)

PRODUCE = _api("Produce", 0, Role.SPU, 0, 24)
FETCH_OFFSETS = _api("FetchOffsets", 1002, Role.SPU, 24, 24, accepted_from=23)
STREAM_FETCH = _api("StreamFetch", 1003, Role.SPU, 23, 24, accepted_from=17, streams=True)
UPDATE_OFFSETS = _api("UpdateOffsets", 1005, Role.SPU, 0, 0)
UPDATE_CONSUMER_OFFSET = _api("UpdateConsumerOffset", 1006, Role.SPU, 23, 24)
DELETE_CONSUMER_OFFSET = _api("DeleteConsumerOffset", 1007, Role.SPU, 23, 24)
FETCH_CONSUMER_OFFSETS = _api("FetchConsumerOffsets", 1008, Role.SPU, 23, 24)

APIS = (
    API_VERSIONS,
    CREATE,
    DELETE,
    LIST,
    WATCH,
    PRODUCE,
    FETCH_OFFSETS,
    STREAM_FETCH,
    UPDATE_OFFSETS,
    UPDATE_CONSUMER_OFFSET,
    DELETE_CONSUMER_OFFSET,
    FETCH_CONSUMER_OFFSETS,
)


def offered(roles: Collection[Role]) -> tuple[OfferedVersions, ...]:
    """What a port with these roles lists; ApiVersions itself is never in it."""
    return tuple(
        OfferedVersions(each.key, each.versions[0], each.versions[-1])
        for each in APIS
        if each is not API_VERSIONS and not each.roles.isdisjoint(roles)
    )


def route(key: int, version: int, roles: Collection[Role]) -> Api | None:
    """
    Which API a request means; C{None} if there is no such one at this port.  Whether it
    L{accepts <Api.accepts>} the version is another question.
    """
    found = [each for each in APIS if each.key == key and not each.roles.isdisjoint(roles)]
    if len(found) > 1:
        wanted = Role.SC if version < _UNITS_FROM else Role.SPU
        found = [each for each in found if wanted in each.roles]
    return found[0] if found else None


def markdown_table() -> str:
    """The table of the reference page."""
    rows = (
        f"| {each.key} | {each.name} | {', '.join(sorted(role.name for role in each.roles))} "
        f"| {_span(each.versions)} | {_span(each.accepted)} |"
        for each in APIS
    )
    head = ["| Key | Request | Offered by | Versions offered | Versions accepted |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def _span(versions: range) -> str:
    if versions[-1] == _VERSIONS_MAX:
        return "all"
    return f"{versions[0]}-{versions[-1]}" if len(versions) > 1 else str(versions[0])
