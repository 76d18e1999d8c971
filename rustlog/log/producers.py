"""
The sequence numbers of idempotent producers: what makes a retry harmless.

A producer numbers its records in each partition.  The partition remembers, for each
producer, its last five batches: a batch that is among them is a duplicate, one that follows them
is next, and anything else has lost something on the way.  Five, because Kafka's clients
keep at most five requests in flight.

A store calls L{ProducerTable.check} before it appends a batch, L{ProducerTable.record} after,
and L{ProducerTable.truncate_from} when it takes batches back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

from attrs import define

from rustlog.errors import InvalidRecord, OutOfOrderSequence, StaleProducerEpoch
from rustlog.log.batch import RecordBatch
from rustlog.model import ProducerDescription

BATCHES_REMEMBERED = 5

PRODUCERS_MAX = 10_000
"""
How many producers a partition remembers (some 7 MB).  Beyond that the longest silent one is forgotten:
its next batch is still accepted, only a late duplicate would go unnoticed.  Without a limit a
client could fill the memory with invented producer ids.
"""

EXPIRED_AT_ONCE_MAX = 1_000

_SEQUENCE_MASK = 2**31 - 1
"""After 2,147,483,647 comes 0."""


class _Batch(NamedTuple):
    """What is remembered of one batch; a tuple because one is made in every append."""

    epoch: int
    base_sequence: int
    last_sequence: int
    base_offset: int


@define
class _Producer:
    """Its last batches, the oldest first and never none; the last one's epoch is the current one."""

    batches: tuple[_Batch, ...]
    last_append_ms: int


class ProducerTable:
    """
    What one partition knows of its idempotent producers.  The longest silent is first.
    """

    __slots__ = ("_producers", "_producers_max")

    def __init__(self, producers_max: int = PRODUCERS_MAX) -> None:
        self._producers: OrderedDict[int, _Producer] = OrderedDict()
        self._producers_max = producers_max

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, batch: RecordBatch) -> int | None:
        """
        Judge a batch that is about to be appended.

        @return: C{None} if it may be; or, for a duplicate, the base offset of the original.
        @raise StaleProducerEpoch: a later incarnation of the producer has written already.
        @raise OutOfOrderSequence: it does not follow what the producer wrote last.
        @raise InvalidRecord: it names a producer, but no sequence number or epoch.
        """
        producer_id, epoch, base_sequence = batch.header[9:12]
        if producer_id < 0:
            return None
        if epoch < 0 or base_sequence < 0:
            raise InvalidRecord(f"producer {producer_id} gave epoch {epoch}, sequence {base_sequence}")
        producer = self._producers.get(producer_id)
        if producer is None:
            return None  # of a producer that was never seen, or forgotten, any sequence is welcome
        return _check_against(producer.batches, producer_id, epoch, base_sequence, _last_sequence(batch))

    def record(self, batch: RecordBatch, base_offset: int, now_ms: int) -> None:
        """Remember a batch that has been appended at C{base_offset}."""
        producer_id, epoch, base_sequence = batch.header[9:12]
        if producer_id < 0:
            return
        latest = _Batch(epoch, base_sequence, _last_sequence(batch), base_offset)
        producer = self._producers.get(producer_id)
        if producer is None:
            self._producers[producer_id] = _Producer((latest,), now_ms)
            if len(self._producers) > self._producers_max:
                self._producers.popitem(last=False)
        else:
            producer.batches = (*producer.batches[1 - BATCHES_REMEMBERED :], latest)
            producer.last_append_ms = now_ms
            self._producers.move_to_end(producer_id)

    def expire(self, now_ms: int, expiration_ms: int, limit: int = EXPIRED_AT_ONCE_MAX) -> int:
        """
        Forget producers that have been silent for C{expiration_ms}.

        @return: how many; when it is C{limit}, there may be more.
        """
        silent_since = now_ms - expiration_ms
        expired = 0
        while self._producers and expired < limit:
            producer_id, producer = next(iter(self._producers.items()))
            if producer.last_append_ms > silent_since:
                break
            del self._producers[producer_id]
            expired += 1
        return expired

    def truncate_from(self, offset: int) -> None:
        """
        Forget the batches at C{offset} and beyond: they are gone from the log.  A producer of
        whom nothing else is remembered is forgotten with them.
        """
        for producer_id, producer in list(self._producers.items()):
            if producer.batches[-1].base_offset >= offset:
                producer.batches = tuple(each for each in producer.batches if each.base_offset < offset)
                if not producer.batches:
                    del self._producers[producer_id]

    def describe(self) -> tuple[ProducerDescription, ...]:
        """All of them as tools see them, the longest silent first."""
        return tuple(
            ProducerDescription(
                producer_id, each.batches[-1].epoch, each.batches[-1].last_sequence, each.last_append_ms
            )
            for producer_id, each in self._producers.items()
        )

    def snapshot(self) -> list[list[Any]]:
        """
        All of it as plain lists, for JSON: producer id, time of the last append, and for each
        batch epoch, first and last sequence, base offset.
        """
        return [
            [producer_id, producer.last_append_ms, [list(each) for each in producer.batches]]
            for producer_id, producer in self._producers.items()
        ]

    @classmethod
    def restore(cls, rows: Iterable[Any], producers_max: int = PRODUCERS_MAX) -> ProducerTable:
        """
        The table that a L{snapshot} tells.

        @raise ValueError: it tells none.
        """
        table = cls(producers_max)
        try:
            for producer_id, last_append_ms, batches in rows:
                remembered = tuple(_Batch(*map(int, each)) for each in batches)
                if remembered:
                    table._producers[int(producer_id)] = _Producer(remembered, int(last_append_ms))
        except TypeError as error:
            raise ValueError(f"not a table of producers: {error}") from None
        return table


def _last_sequence(batch: RecordBatch) -> int:
    return (batch.base_sequence + batch.last_offset_delta) & _SEQUENCE_MASK


def _check_against(
    batches: tuple[_Batch, ...], producer_id: int, epoch: int, base_sequence: int, last_sequence: int
) -> int | None:
    """Kafka's rules, for a producer that is known."""
    latest = batches[-1]
    if epoch < latest.epoch:
        raise StaleProducerEpoch(producer_id, epoch, latest.epoch)
    expected = 0 if epoch > latest.epoch else (latest.last_sequence + 1) & _SEQUENCE_MASK
    if base_sequence == expected:
        return None
    for each in batches:
        if each[:3] == (epoch, base_sequence, last_sequence):
            return each.base_offset
    raise OutOfOrderSequence(producer_id, expected, base_sequence)
