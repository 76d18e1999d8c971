"""
What has settings: Kafka's kinds of it, and which there are here.
"""

from __future__ import annotations

from enum import IntEnum

from rustlog.wire.kafka.calls import Call
from rustlog.wire.kafka.errors import ErrorCode, Refused


class ResourceType(IntEnum):
    """Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


Resource = tuple[int, str]
"""Type and name."""


def check_kind(resource: Resource) -> None:
    """Refuse what has no settings here."""
    kind, name = resource
    if kind not in (ResourceType.TOPIC, ResourceType.BROKER):
        known = kind in set(ResourceType)
        what = ResourceType(kind).name.lower() if known else f"type {kind}"
        raise Refused(ErrorCode.invalid_request, f"topics and brokers have settings, not {what} {name!r}")


def check_broker(call: Call, name: str) -> bool:
    """
    Refuse every broker but this one.

    @return: whether it is meant, and not what holds for all brokers, which has no name.
    """
    if name not in ("", str(call.services.node_id)):
        raise Refused(
            ErrorCode.invalid_request, f"there is no broker {name!r}, only broker {call.services.node_id}"
        )
    return name != ""
