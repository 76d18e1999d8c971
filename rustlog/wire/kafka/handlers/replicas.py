"""
Judging where clients want replicas to be: there is one broker, so each partition has one replica, on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rustlog.administration import REPLICATION_FACTOR
from rustlog.wire.kafka.errors import ErrorCode, Refused

UNSAID = -1
"""Of a number that the broker shall choose."""


def check_replication_factor(factor: int) -> None:
    """Refuse every number but 1, or "as you like"."""
    if factor in (UNSAID, REPLICATION_FACTOR):
        return
    if factor < 1:
        reason = "a replication factor is at least 1, or -1 for the default"
    else:
        reason = f"a replication factor of {factor} cannot be reached: there is 1 broker"
    raise Refused(ErrorCode.invalid_replication_factor, reason)


def check_assignments(assignments: Sequence[Any], node_id: int) -> None:
    """Judge where the replicas of the partitions from 0 on shall be."""
    indexes = sorted(each.partition_index for each in assignments)
    if indexes != list(range(len(indexes))):
        raise Refused(
            ErrorCode.invalid_replica_assignment,
            "the partitions of an assignment are numbered from 0, without gaps, and each is there once",
        )
    for each in assignments:
        check_replicas(each.broker_ids, node_id)


def check_replicas(broker_ids: Sequence[int], node_id: int) -> None:
    """Judge where the replicas of one partition shall be."""
    if list(broker_ids) != [node_id]:
        raise Refused(
            ErrorCode.invalid_replica_assignment,
            f"replicas on brokers {list(broker_ids)[:10]}: each partition has one, on broker {node_id}",
        )
