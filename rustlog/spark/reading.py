"""
Offsets to rows, through a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rustlog.model import TopicPartition
from rustlog.spark.columns import DEFAULT_COLUMNS
from rustlog.spark.decoding import ROWS_MAX
from rustlog.spark.kafka import FETCH_BYTES, KafkaClient


def read_offsets(
    client: KafkaClient,
    partition: TopicPartition,
    from_offset: int,
    to_offset: int,
    *,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    read_committed: bool = True,
    fetch_bytes: int = FETCH_BYTES,
    rows_max: int = ROWS_MAX,
) -> Iterator[pa.RecordBatch]:
    """
    The records in [C{from_offset}, C{to_offset}) as Arrow batches, in the order of the log.  Memory is bounded
    by C{fetch_bytes}.

    @raise DataLost: the range begins before the log does, or the log ends before the range does.
    @raise CorruptLog: as L{decode <rustlog.spark.decoding.decode>} does.
    @raise BrokerError: the broker can not be reached, or refuses.
    """
    raise NotImplementedError
