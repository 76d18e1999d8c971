"""
What clients may do, as Kafka tells them: a bit for each operation.  Everybody may do everything.
"""

from __future__ import annotations

from enum import IntEnum


class Operation(IntEnum):
    """Kafka's numbers."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


_FOR_BOTH = {
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
}

_FOR_CLUSTER = {Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE}
_FOR_TOPICS = {Operation.READ, Operation.WRITE, Operation.DELETE}

CLUSTER_OPERATIONS = sum(1 << each for each in _FOR_BOTH | _FOR_CLUSTER)
"""On the cluster."""

TOPIC_OPERATIONS = sum(1 << each for each in _FOR_BOTH | _FOR_TOPICS)
"""On a topic."""

UNSAID_OPERATIONS = -(2**31)
"""For clients that did not ask."""
