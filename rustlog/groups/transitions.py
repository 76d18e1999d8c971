"""
The states of a group, and what leads from one to another: a table.

The state machine (L{rustlog.groups.state}) moves only as this table says, and the diagram in the
documentation is drawn from it.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import Final


class GroupState(Enum):
    """Kafka's names; what they mean is said in words."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Cause(Enum):
    """What moves a group."""

    REBALANCE = "a rebalance begins"
    ALL_JOINED = "all members have joined, or time is up"
    NOBODY_LEFT = "nobody is left"
    ASSIGNED = "the leader's assignment is saved"
    DELETED = "the group is deleted"


TRANSITIONS: Final = MappingProxyType(
    {
        (GroupState.EMPTY, Cause.REBALANCE): GroupState.PREPARING_REBALANCE,
        (GroupState.EMPTY, Cause.DELETED): GroupState.DEAD,
        (GroupState.PREPARING_REBALANCE, Cause.ALL_JOINED): GroupState.COMPLETING_REBALANCE,
        (GroupState.PREPARING_REBALANCE, Cause.NOBODY_LEFT): GroupState.EMPTY,
        (GroupState.COMPLETING_REBALANCE, Cause.ASSIGNED): GroupState.STABLE,
        (GroupState.COMPLETING_REBALANCE, Cause.REBALANCE): GroupState.PREPARING_REBALANCE,
        (GroupState.STABLE, Cause.REBALANCE): GroupState.PREPARING_REBALANCE,
    }
)
"""What follows from a state and a cause.  What is not here does not happen."""

BEGINNINGS: Final = MappingProxyType(
    {
        GroupState.EMPTY: "a group that nobody has heard of, or whose members had left",
        GroupState.STABLE: "a restart, with the members that were saved",
    }
)
"""In which states a group comes into memory, and when."""


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state.value}: {when}" for state, when in BEGINNINGS.items()]
    lines += [
        f"    {source.value} --> {target.value}: {cause.value}"
        for (source, cause), target in TRANSITIONS.items()
    ]
    lines.append(f"    {GroupState.DEAD.value} --> [*]")
    return "\n".join(lines) + "\n"
