"""
What MiniKafka's format can not hold, and what becomes of it: the one place where that is decided.

A record that would lose its meaning is refused, loudly; what only looks different is converted.
"""

from __future__ import annotations

from rustlog.errors import NotHeldByStore
from rustlog.log.batch import RecordBatch
from rustlog.model import Record, StoreLimits

LIMITS = StoreLimits(
    headers=False,
    null_keys=False,
    null_values=False,
    compression=False,
    timestamp_types=False,
)

HEADERS = "record headers"
NULL_VALUES = "null values (tombstones)"
TRANSACTIONS = "transactions"

BECOMES = {
    HEADERS: "refused",
    NULL_VALUES: "refused",
    TRANSACTIONS: "refused",
    "null keys": "become empty keys",
    "compression": "batches are decoded and stored plain",
    "batches": "are stored record by record; a read makes new ones",
    "timestamp types": "the time itself is kept, not who gave it",
    "producer ids and sequence numbers": "kept beside the log, in a journal and in checkpoints",
    "leader epochs": "kept beside the log, in a journal and in checkpoints",
}
"""For the reference page."""


def refuse(batch: RecordBatch, record: Record | None = None) -> None:
    """
    Judge a batch, or one of its records.

    @raise NotHeldByStore: it has something that is not held.
    """
    if batch.is_transactional or batch.is_control:
        raise NotHeldByStore(TRANSACTIONS)
    if record is not None and record.headers:
        raise NotHeldByStore(HEADERS)
    if record is not None and record.value is None:
        raise NotHeldByStore(NULL_VALUES)
