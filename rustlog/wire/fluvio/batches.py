"""
Fluvio's batches and the log's: two cousins, translated into each other.
"""

from __future__ import annotations

from struct import Struct

from rustlog.errors import CorruptBatch
from rustlog.log.batch import Buffer, RecordBatch

HEADER = Struct(">qiibIhiqqqhi")
HEADER_SIZE = HEADER.size  # 57


def to_log(batches: Buffer, now_ms: int) -> list[RecordBatch]:
    """
    The batches of Fluvio that stand back to back, as the log keeps them.

    @param now_ms: for records without a timestamp.
    @raise CorruptBatch: they are no batches.
    @raise InvalidRecord: something in them can not be kept.
    """
    raise CorruptBatch("not yet")


def from_log(batch: RecordBatch) -> list[bytes]:
    """
    A batch of the log as Fluvio shows it: several, where offsets have gaps, and none where there is nothing
    to show.

    @raise CorruptBatch: its content is damaged.
    """
    raise CorruptBatch("not yet")
