"""
L{Checkpoint}: from where a partition can be recovered without reading its whole log.

It describes the partition at a moment up to which everything is synced: recovery trusts
what lies before and checks what lies behind.
"""

from __future__ import annotations

from typing import Any

import attrs
from attrs import frozen


@frozen(kw_only=True)
class Checkpoint:
    """One partition at one moment; C{segment} is the base offset of the active segment."""

    segment: int
    position: int
    next_offset: int
    log_start_offset: int
    created_ms: int = -1
    index_entries: int = 0
    time_entries: int = 0
    max_timestamp: int | None = None
    max_timestamp_offset: int = 0
    epochs: list[Any] = attrs.field(factory=list)
    producers: list[Any] = attrs.field(factory=list)

    def to_document(self) -> dict[str, Any]:
        """As it is written down."""
        return attrs.asdict(self, recurse=False)

    @classmethod
    def from_document(cls, members: dict[str, Any]) -> Checkpoint:
        """
        The reverse.

        @raise TypeError: members are missing or unknown.
        """
        return cls(**members)
