"""
Judging what clients ask for, before anything is done about it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rustlog.errors import (
    InvalidGroup,
    InvalidPartitionCount,
    InvalidSetting,
    InvalidTopicName,
    TopicIsInternal,
)
from rustlog.log.topics import grow
from rustlog.model import CONSUMER_OFFSETS, TopicInfo, topic_name_problem
from rustlog.settings import is_topic_setting, parse_topic_overrides

PARTITIONS_MAX = 10_000
"""Of one topic."""

GROUP_BYTES_MAX = 32_767
"""What a Kafka string can hold."""


def check_topic_name(name: str) -> None:
    """Raise C{InvalidTopicName} if it breaks Kafka's rule."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise InvalidTopicName(name, problem)


def check_partition_count(count: int) -> None:
    """Raise C{InvalidPartitionCount} for one that no topic can have."""
    if not 1 <= count <= PARTITIONS_MAX:
        raise InvalidPartitionCount(f"{count} is not within 1..{PARTITIONS_MAX}")


def check_growth(info: TopicInfo, partitions: int) -> None:
    """Raise C{InvalidPartitionCount} unless a topic can grow to that many."""
    check_partition_count(partitions)
    grow(info, partitions)


def refuse_internal(info: TopicInfo | None) -> None:
    """Raise C{TopicIsInternal} for a topic that is the broker's own: clients can only read it."""
    if info is not None and is_internal(info):
        raise TopicIsInternal(info.name)


def is_internal(info: TopicInfo) -> bool:
    """Whether a topic is the broker's own; that of offsets always is, whoever has made it."""
    return info.internal or info.name == CONSUMER_OFFSETS


def refuse_reserved(name: str) -> None:
    """Raise C{TopicIsInternal} for a name that is kept for a topic of the broker's own."""
    if name == CONSUMER_OFFSETS:
        raise TopicIsInternal(name)


def check_group(group: str) -> None:
    """Raise C{InvalidGroup} for an id that can not be written down."""
    try:
        size = len(group.encode())
    except UnicodeEncodeError:
        raise InvalidGroup("it is not valid Unicode") from None
    if size > GROUP_BYTES_MAX:
        raise InvalidGroup(f"it has {size} bytes, more than {GROUP_BYTES_MAX}")


def parse_topic_changes(changes: Mapping[str, object]) -> dict[str, str | None]:
    """Judge changes of settings; raise C{InvalidSetting}.  C{None} stands for "no override"."""
    removed = dict.fromkeys(name for name, value in changes.items() if value is None)
    for name in removed:
        if not is_topic_setting(name):
            raise InvalidSetting(name, "no such topic setting")
    changed = parse_topic_overrides({name: changes[name] for name in changes if name not in removed})
    return {**removed, **changed}
