"""
Counts what happens to groups, by reason.
"""

from __future__ import annotations

from rustlog.observability.metrics import Metrics


class GroupCounters:
    """
    To be told of rebalances, departures of members, and generations; with the reason, if there is one.
    Reasons are those of L{rustlog.groups.reasons}: a small, fixed set.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._counters = {
            "rebalance": metrics.counter("group_rebalances", "Rebalances of groups.", "reason"),
            "departure": metrics.counter("group_members_left", "Members that left a group.", "reason"),
            "generation": metrics.counter("group_generations", "Generations of groups that became stable."),
        }

    def __call__(self, kind: str, reason: str) -> None:
        """One more."""
        counter = self._counters[kind]
        (counter.labels(reason) if reason else counter).inc()
