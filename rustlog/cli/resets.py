"""
Where a group would be after its offsets have been reset: values in, values out.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen


@frozen
class Progress:
    """How far a group has come in a partition, if it has begun, and from where to where that goes."""

    topic: str
    partition: int
    offset: int | None
    log_start_offset: int
    high_watermark: int


@frozen
class Reset:
    """What becomes of it; C{note} says if it is not what was asked for."""

    before: Progress
    offset: int
    note: str = ""

    @property
    def is_change(self) -> bool:
        return self.offset != self.before.offset


Target = Callable[[Progress], "int | None"]
"""Which offset is wanted; C{None}: there is none that fits, so the end."""


def to_earliest(progress: Progress) -> int:
    return progress.log_start_offset


def to_latest(progress: Progress) -> int:
    return progress.high_watermark


def to_offset(offset: int) -> Target:
    return lambda progress: offset


def shift_by(distance: int) -> Target:
    """Relative to what was committed; where nothing was, to the beginning of the log."""

    def target(progress: Progress) -> int:
        return (progress.log_start_offset if progress.offset is None else progress.offset) + distance

    return target


def to_time(find: Callable[[str, int], int | None]) -> Target:
    """The first record since a moment, which C{find} knows by topic and partition."""
    return lambda progress: find(progress.topic, progress.partition)


def reset(progress: Progress, target: Target) -> Reset:
    """Reset one partition, to an offset that is in its log."""
    wanted = target(progress)
    if wanted is None:
        return Reset(progress, progress.high_watermark, "no record since then: the end")
    if wanted < progress.log_start_offset:
        return Reset(progress, progress.log_start_offset, f"{wanted} is before the start of the log")
    if wanted > progress.high_watermark:
        return Reset(progress, progress.high_watermark, f"{wanted} is behind the end of the log")
    return Reset(progress, wanted)
