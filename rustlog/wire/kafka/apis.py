"""
The APIs that are offered: the one place that knows all handlers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from rustlog.wire.kafka.calls import Api
from rustlog.wire.kafka.handlers import (
    cluster,
    configchanges,
    configs,
    fetching,
    grouplists,
    groups,
    metadata,
    offsets,
    partitions,
    positions,
    producers,
    producing,
    records,
    topics,
    versions,
)

_MODULES: tuple[ModuleType, ...] = (
    cluster,
    configchanges,
    configs,
    fetching,
    grouplists,
    groups,
    metadata,
    offsets,
    partitions,
    positions,
    producers,
    producing,
    records,
    topics,
    versions,
)
"""Each declares its own as C{APIS}."""


def _collect() -> Mapping[int, Api]:
    found: dict[int, Api] = {}
    for module in _MODULES:
        for api in module.APIS:
            assert api.key not in found, f"{api.name} is declared twice"
            found[api.key] = api
    return MappingProxyType(dict(sorted(found.items())))


APIS = _collect()
"""By key."""


def markdown_table() -> str:
    """The table of the reference page."""
    rows = (f"| {each.key} | {each.name} | {each.min_version}-{each.max_version} |" for each in APIS.values())
    return "\n".join(["| Key | Request | Versions |", "|---|---|---|", *rows, ""])
