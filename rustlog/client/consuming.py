"""
The logic of consumers, without the waiting: what to ask for next, and what to remember.

Each step is a generator that yields L{Call}s, is sent their results, and returns what came of it.
L{rustlog.client.consumer} and L{rustlog.client.blocking} run them, each in its own way.

The loop is the one for at-least-once processing: fetch, process, and only then commit.  What is processed
when a consumer dies before its commit is processed again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union

from attrs import field, frozen

from rustlog.client import calls
from rustlog.client.calls import MAX_BYTES, OffsetReset
from rustlog.client.exchange import Call
from rustlog.model import Record

MAX_WAIT_MS = 500
_PAUSE_SECONDS = 0.05
"""How long to pause, at first, when several partitions have nothing new."""

T = TypeVar("T")
Steps = Generator[Call[Any], Any, T]
Start = Union[Literal["earliest", "latest"], int, Mapping[int, int]]


@frozen
class Batch:
    """Records of one partition that come after each other, and the offset that follows them."""

    topic: str
    partition: int
    records: list[Record]
    next_offset: int


@frozen
class Pause:
    """There is nothing to read; look again after so many seconds."""

    seconds: float


class Ended:
    """All has been read that there was at the beginning."""


@frozen(kw_only=True)
class Subscription:
    """
    What a consumer reads.

    @ivar group_id: whose progress it is; C{None}: nobody's, and nothing is committed.
    @ivar partitions: which of them; C{None}: all that the topic has when the consumer starts.
    @ivar start: where to begin in partitions where the group has not committed anything: at the C{"earliest"}
        record, with what comes from now on (C{"latest"}), at an offset, or at one for each partition.
    @ivar offset_reset: what to do when the place to go on from is not in the log any more, because
        retention was
        faster: fail with an C{"error"}, or go on with the C{"earliest"} or the C{"latest"} there is.
    @ivar follow: wait for more at the end; otherwise end there.
    @ivar max_bytes: of values in one batch.
    @ivar max_wait_ms: how long the broker may wait for data before it says that there is none.
    """

    topic: str
    group_id: str | None = None
    partitions: Sequence[int] | None = None
    start: Start = "earliest"
    offset_reset: OffsetReset = "error"
    follow: bool = True
    max_bytes: int = MAX_BYTES
    max_wait_ms: int = field(default=MAX_WAIT_MS)


class ConsumerLogic:
    """
    How far a consumer has come in each of its partitions.

    Several partitions are read in turn.  A single one is waited for at the broker; while none of
    several has anything new, there are pauses.
    """

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._turns: list[int] = []
        self._pause_seconds = _PAUSE_SECONDS

    # -- the beginning --

    def open(self) -> Steps[None]:
        """Find out where to begin."""
        partitions = self.subscription.partitions
        if partitions is None:
            described = yield calls.describe_topic(self.subscription.topic)
            partitions = [each.partition for each in described.partitions]
        for partition in partitions:
            self._positions[partition] = yield from self._start_of(partition)
            if not self.subscription.follow:
                latest = yield calls.list_offsets(self.subscription.topic, partition, "latest")
                self._ends[partition] = latest.offset
        self._turns = list(self._positions)

    def _start_of(self, partition: int) -> Steps[int]:
        topic, group_id, start = self.subscription.topic, self.subscription.group_id, self.subscription.start
        if group_id is not None:
            committed: int | None = yield calls.committed(group_id, topic, partition)
            if committed is not None:
                return committed
        if isinstance(start, Mapping):
            return start[partition]
        if isinstance(start, int):
            return start
        found = yield calls.list_offsets(topic, partition, start)
        offset: int = found.offset
        return offset

    # -- the loop --

    def poll(self) -> Steps[Batch | Pause | Ended]:
        """The next records, or what there is instead."""
        while True:
            if not self._turns:
                rest = self._next_round()
                if rest is not None:
                    return rest
            partition = self._turns.pop(0)
            batch = yield from self._fetch(partition)
            if batch.records:
                self._pause_seconds = _PAUSE_SECONDS
                self._turns.append(partition)
                return batch

    def commit(self, partition: int, offset: int) -> Steps[None]:
        """Remember that everything before C{offset} has been processed."""
        if self.subscription.group_id is not None:
            yield calls.commit(self.subscription.group_id, self.subscription.topic, partition, offset)

    def _next_round(self) -> Pause | Ended | None:
        """All partitions had nothing.  What to do about it; C{None}: just go on asking."""
        self._turns = [each for each in self._positions if not self._is_at_end(each)]
        if not self._turns:
            return Ended()
        if not self.subscription.follow or self._waits_at_broker:
            return None
        pause = self._pause_seconds
        self._pause_seconds = min(2 * pause, max(_PAUSE_SECONDS, self.subscription.max_wait_ms / 1000))
        return Pause(pause)

    @property
    def _waits_at_broker(self) -> bool:
        return len(self._positions) == 1 and self.subscription.follow and self.subscription.max_wait_ms > 0

    def _is_at_end(self, partition: int) -> bool:
        return partition in self._ends and self._positions[partition] >= self._ends[partition]

    def _fetch(self, partition: int) -> Steps[Batch]:
        wanted = self.subscription
        fetched = yield calls.fetch(
            wanted.topic,
            partition,
            self._positions[partition],
            max_bytes=wanted.max_bytes,
            group_id=wanted.group_id,
            max_wait_ms=wanted.max_wait_ms if self._waits_at_broker else 0,
            offset_reset=wanted.offset_reset,
        )
        self._positions[partition] = fetched.next_offset
        return Batch(wanted.topic, partition, fetched.records, fetched.next_offset)
