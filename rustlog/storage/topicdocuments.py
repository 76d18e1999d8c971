"""
What is written down about topics, and under which names; L{rustlog.storage.topicfiles} deals with it.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any
from uuid import UUID

from rustlog.errors import StartupError
from rustlog.model import TopicInfo

TOPICS = "topics"
CHECKPOINTS = "checkpoints"
TRASH = "trash"
DAMAGED = "damaged"
SUFFIX = ".json"


def topic_to_members(info: TopicInfo) -> dict[str, Any]:
    """What is said in a topic's document."""
    return {
        "id": str(info.id),
        "name": info.name,
        "partitions": info.partitions,
        "config": dict(info.config),
        "internal": info.internal,
    }


def topic_from_members(members: dict[str, Any], path: PurePath) -> TopicInfo:
    """
    What a topic's document says.

    @raise StartupError: it describes none.
    """
    try:
        return TopicInfo(**{**members, "id": UUID(members["id"])})
    except (TypeError, KeyError, ValueError) as problem:
        raise StartupError(f"{path} describes no topic ({problem}); restore it from a backup") from None
