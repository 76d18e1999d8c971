"""
Counting on the hot path: plain integers, which L{rustlog.observability.metrics} shows.

A counter of prometheus-client takes a lock for each increment.  All that is counted here is counted on
the reactor's thread, so a request costs a third of a microsecond instead of two.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, TypeVar

from attrs import define, field

from rustlog.model import Appended, Fetched

A = TypeVar("A", bound=list[Any])

LATENCY_SECONDS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    60.0,
)
"""Upper bounds of the buckets of latencies: from a read of memory to the longest wait of a fetch."""

TALLIES_MAX = 500
"""How many pairs of request and outcome one listener tells apart."""

OTHER = "other"
"""What all further ones are called."""


@define(eq=False)
class Tally:
    """Of one kind of request with one outcome."""

    count: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    seconds: float = 0.0
    latencies: list[int] = field(factory=lambda: [0] * (len(LATENCY_SECONDS) + 1))
    """How many fell into each bucket, and beyond the last."""


@define(eq=False)
class ListenerMeter:
    """
    What happens at listeners of one name and protocol.

    @ivar tallies: by the names of the request and of its outcome.
    """

    protocol: str
    listener: str
    open: int = 0
    opened: int = 0
    refused: int = 0
    tallies: dict[tuple[str, str], Tally] = field(factory=dict)

    def entered(self, *, is_welcome: bool) -> None:
        """A connection was made, and may stay or not."""
        self.open += 1
        self.opened += 1
        if not is_welcome:
            self.refused += 1

    def left(self) -> None:
        """A connection is gone."""
        self.open -= 1

    def answered(
        self, request: str, outcome: str, request_bytes: int, response_bytes: int, seconds: float
    ) -> None:
        """
        A request was answered.

        @param request: its name, from a fixed set; never what a client made up.
        @param outcome: C{ok} or the kind of error, from a fixed set, too.
        """
        tally = self.tallies.get((request, outcome))
        if tally is None:
            tally = self._new_tally(request, outcome)
        tally.count += 1
        tally.request_bytes += request_bytes
        tally.response_bytes += response_bytes
        tally.seconds += seconds
        tally.latencies[bisect_left(LATENCY_SECONDS, seconds)] += 1

    def _new_tally(self, request: str, outcome: str) -> Tally:
        key = (request, outcome)
        if len(self.tallies) >= TALLIES_MAX:
            # A protocol that breaks the rule must not fill the memory.
            key = (OTHER, OTHER)
        return self.tallies.setdefault(key, Tally())


@define(eq=False)
class Flow:
    """What went into the logs and came out of them."""

    appended_batches: int = 0
    appended_records: int = 0
    appended_bytes: int = 0
    read_bytes: int = 0

    def appended(self, answers: A, entries: list[Any]) -> A:
        """
        Count what was appended.

        @param answers: of the store.
        @param entries: partitions and batches, as they were given to the store.
        @return: C{answers}.
        """
        for index, answer in enumerate(answers):
            if type(answer) is Appended and not answer.duplicate:
                batch = entries[index][1]
                self.appended_batches += 1
                self.appended_records += batch.record_count
                self.appended_bytes += batch.size
        return answers

    def read(self, answers: A) -> A:
        """Count what was read, and return it."""
        for answer in answers:
            if type(answer) is Fetched:
                self.read_bytes += answer.size
        return answers


class Traffic(dict[str, Flow]):
    """The L{Flow} of each wire protocol, by its name; it is there when it is first asked for."""

    def __missing__(self, protocol: str) -> Flow:
        flow = self[protocol] = Flow()
        return flow
