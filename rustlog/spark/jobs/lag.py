"""
How far consumer groups were behind, hour by hour.

The end of a partition in an hour is one more than the highest offset of the records up to then, by their
timestamps.  What a group had committed by then is in C{__consumer_offsets}.  The lag is the difference,
summed over the partitions of a topic.  Hours in which neither has changed are left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate

from attrs import frozen

from rustlog.model import Record
from rustlog.offsets.entries import read_commit

HOUR_MS = 60 * 60 * 1000

Place = tuple[str, int]
"""Topic and partition."""

Member = tuple[str, str, int]
"""Group, topic and partition."""

Commits = dict[Member, dict[int, "int | None"]]
"""The last commit in each hour; C{None} where it was forgotten."""

Ends = dict[Place, dict[int, int]]
"""One more than the highest offset of the records of each hour."""


@frozen
class Lag:
    """How many records of a topic a group had not yet done with at the end of an hour."""

    group: str
    topic: str
    hour_ms: int
    lag: int


def hour_of(time_ms: int) -> int:
    """When the hour of a moment begins."""
    return time_ms // HOUR_MS * HOUR_MS


def see_commit(commits: Commits, record: Record) -> None:
    """Take notice of the next record of C{__consumer_offsets}."""
    found = read_commit(record)
    if found is None:
        return
    group, name, committed = found
    time_ms = record.timestamp if committed is None else committed.commit_time
    hours = commits.setdefault((group, name.topic, name.partition), {})
    hours[hour_of(time_ms)] = None if committed is None else committed.offset


def merge_commits(parts: Iterable[Commits]) -> Commits:
    """All together; of the same group, later parts are later in the log."""
    merged: Commits = {}
    for part in parts:
        for member, hours in part.items():
            merged.setdefault(member, {}).update(hours)
    return merged


def merge_ends(parts: Iterable[Ends]) -> Ends:
    """All together, in any order."""
    merged: Ends = {}
    for part in parts:
        for place, hours in part.items():
            found = merged.setdefault(place, {})
            for hour, end in hours.items():
                found[hour] = max(found.get(hour, 0), end)
    return merged


class _Steps:
    """A value that changes now and then."""

    def __init__(self, hours: Mapping[int, int | None]) -> None:
        self.hours = sorted(hours)
        self._values = [hours[hour] for hour in self.hours]

    def at(self, hour: int) -> int | None:
        found = bisect_right(self.hours, hour)
        return self._values[found - 1] if found else None


def _rising(hours: Mapping[int, int]) -> _Steps:
    ordered = sorted(hours)
    highest: list[int] = list(accumulate((hours[each] for each in ordered), max))
    return _Steps(dict(zip(ordered, highest, strict=True)))


def lags(ends: Ends, commits: Commits) -> list[Lag]:
    """Of all groups and topics, in the order of group, topic and time."""
    rising = {place: _rising(hours) for place, hours in ends.items()}
    members: dict[tuple[str, str], dict[int, _Steps]] = defaultdict(dict)
    for (group, topic, partition), hours in commits.items():
        members[group, topic][partition] = _Steps(hours)
    return [
        Lag(group, topic, hour, lag)
        for (group, topic), committed in sorted(members.items())
        for hour, lag in _of_one(rising, topic, committed)
    ]


def _of_one(
    ends: Mapping[Place, _Steps], topic: str, committed: Mapping[int, _Steps]
) -> list[tuple[int, int]]:
    known = {partition: ends.get((topic, partition), _Steps({})) for partition in committed}
    first = min(hour for each in committed.values() for hour in each.hours)
    changes = {
        hour for each in (*committed.values(), *known.values()) for hour in each.hours if hour >= first
    }
    found = []
    for hour in sorted(changes):
        offsets = {partition: each.at(hour) for partition, each in committed.items()}
        present = {partition: offset for partition, offset in offsets.items() if offset is not None}
        if present:
            behind = ((known[each].at(hour) or 0) - offset for each, offset in present.items())
            found.append((hour, sum(max(0, each) for each in behind)))
    return found
