"""
The records of a batch, as they are without compression.
"""

from __future__ import annotations

from rustlog.errors import RustlogError
from rustlog.log.batch import Buffer, RecordBatch
from rustlog.log.codecs import decompress
from rustlog.spark.errors import CorruptLog

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""What a compressed batch may become here: brokers of others admit larger ones than ours."""


def payload_of(batch: RecordBatch, topic: str, partition: int) -> Buffer:
    """
    Decompress them, if need be.

    @raise CorruptLog: they do not decompress.
    """
    if not batch.codec:
        return batch.payload
    try:
        return decompress(batch.codec, batch.payload, DECOMPRESSED_BYTES_MAX)
    except RustlogError as error:
        raise CorruptLog(topic, partition, batch.base_offset, str(error)) from None
