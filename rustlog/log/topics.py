"""
What becomes of a topic when it is changed: what catalogues do, and what those who only ask are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from attrs import evolve

from rustlog.errors import InvalidPartitionCount, TopicExists
from rustlog.model import TopicInfo

NO_ID = UUID(int=0)
"""Of a topic that does not exist."""


def plan(existing: TopicInfo | None, name: str, partitions: int, config: Mapping[str, str]) -> TopicInfo:
    """
    The topic that could be made, but for its id.

    @param existing: the one of that name, if there is one.
    @raise TopicExists: there is.
    """
    if existing is not None:
        raise TopicExists(name)
    return TopicInfo(NO_ID, name, partitions, config)


def grow(topic: TopicInfo, partitions: int) -> TopicInfo:
    """
    The topic with more partitions.

    @raise InvalidPartitionCount: it would not grow.
    """
    if partitions <= topic.partitions:
        raise InvalidPartitionCount(f"{topic.name} has {topic.partitions} already, {partitions} asked for")
    return evolve(topic, partitions=partitions)


def configure(topic: TopicInfo, changes: Mapping[str, str | None]) -> TopicInfo:
    """The topic with other settings of its own; C{None} removes one."""
    values = {**topic.config, **changes}
    return evolve(topic, config={name: value for name, value in values.items() if value is not None})
