"""
Pieces of logs into rounds of work: pure arithmetic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from rustlog.model import TopicPartition
from rustlog.spark.jobs.sources import Piece


def rounds(pieces: Iterable[Piece], round_bytes: int) -> list[list[Piece]]:
    """
    What is to be done before each commit: about so many bytes at a time, of all partitions in turn.  The
    pieces of one partition keep their order, so that what is committed never has a gap.
    """
    waiting = deque(_by_partition(pieces).values())
    made: list[list[Piece]] = []
    size = round_bytes
    while waiting:
        queue = waiting.popleft()
        piece = queue.popleft()
        if size >= round_bytes or size + piece.size > round_bytes:
            made.append([])
            size = 0
        made[-1].append(piece)
        size += piece.size
        if queue:
            waiting.append(queue)
    return made


def _by_partition(pieces: Iterable[Piece]) -> dict[TopicPartition, deque[Piece]]:
    found: dict[TopicPartition, deque[Piece]] = {}
    for piece in sorted(pieces, key=lambda each: (each.topic, each.partition, each.start)):
        found.setdefault(piece.name, deque()).append(piece)
    return found


def total_bytes(pieces: Sequence[Piece]) -> int:
    """Of all of them, about."""
    return sum(each.size for each in pieces)


def total_records(pieces: Sequence[Piece]) -> int:
    """Offsets, of which some may be empty."""
    return sum(each.end - each.start for each in pieces)
