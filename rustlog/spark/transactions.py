"""
What of a log belongs to transactions that were aborted.

A fetch of committed data comes with a list of such transactions (producer id, first offset); each ends at the
producer's next abort marker.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from rustlog.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, RecordBatch
from rustlog.spark.errors import CorruptLog
from rustlog.spark.payloads import payload_of

Aborted = Iterable[tuple[int, int]]
"""Producer id and first offset of each transaction."""

TRANSACTION_BITS = TRANSACTIONAL_BIT | CONTROL_BIT
_MARKER = Struct(">hh")
_ABORT = 0
_MARKER_AT = 5
"""Behind size, attributes, timestamp delta, offset delta and key size: one byte each in a marker."""


class Transactions:
    """Which producers are inside of an aborted transaction, while one goes along the log."""

    def __init__(self, aborted: Aborted, topic: str, partition: int) -> None:
        self._coming = sorted(aborted, key=lambda each: each[1], reverse=True)
        self._open: set[int] = set()
        self._place = topic, partition

    def exclude(self, batch: RecordBatch, with_markers: bool = False) -> bool:
        """Whether this one is a marker that is not wanted, or belongs to an aborted transaction."""
        while self._coming and self._coming[-1][1] <= batch.last_offset:
            self._open.add(self._coming.pop()[0])
        if batch.is_control:
            if batch.producer_id in self._open and self._is_abort(batch):
                self._open.discard(batch.producer_id)
            return not with_markers
        return batch.is_transactional and batch.producer_id in self._open

    def _is_abort(self, batch: RecordBatch) -> bool:
        """The key of the only record of a control batch has a version and a type."""
        if not batch.has_valid_crc():
            raise CorruptLog(*self._place, batch.base_offset, "the checksum of the batch does not match")
        payload = payload_of(batch, *self._place)
        if len(payload) < _MARKER_AT + _MARKER.size:
            raise CorruptLog(*self._place, batch.base_offset, "a control batch has no marker")
        return bool(_MARKER.unpack_from(payload, _MARKER_AT)[1] == _ABORT)
