"""
Offsets to rows, through a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rustlog.model import TopicPartition
from rustlog.spark.batches import find_batches
from rustlog.spark.columns import DEFAULT_COLUMNS
from rustlog.spark.decoding import ROWS_MAX, decode
from rustlog.spark.errors import CorruptLog, DataLost
from rustlog.spark.kafka import FETCH_BYTES, Fetched, KafkaClient

_FETCH_BYTES_MAX = 512 * 1024 * 1024
"""
Old brokers cut off a batch that is larger than what was asked for; so more is asked for, but not without end.
"""


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
    The records in [C{from_offset}, C{to_offset}) as Arrow batches, in the order of the log.  Memory is
    bounded by C{fetch_bytes}.

    @raise DataLost: the range begins before the log does, or the log ends before the range does.
    @raise CorruptLog: as L{decode <rustlog.spark.decoding.decode>} does.
    @raise BrokerError: the broker can not be reached, or refuses.
    """
    offset = from_offset
    topic, index = partition.topic, partition.partition
    while offset < to_offset:
        fetched = client.fetch(partition, offset, max_bytes=fetch_bytes, read_committed=read_committed)
        following = _next_offset(fetched, partition)
        if following is None:
            fetch_bytes = _more(fetched, partition, offset, to_offset, fetch_bytes, read_committed)
            continue
        yield from decode(
            fetched.data, topic=topic, partition=index, from_offset=offset, to_offset=to_offset,
            columns=columns, aborted=fetched.aborted if read_committed else (),
            may_be_cut_off=True, rows_max=rows_max,
        )  # fmt: skip
        offset = max(following, offset + 1)


def _next_offset(fetched: Fetched, partition: TopicPartition) -> int | None:
    """Behind the last whole batch; C{None} if there is none."""
    batches = find_batches(fetched.data, partition.topic, partition.partition, may_be_cut_off=True)
    return int(batches.last_offsets[-1]) + 1 if len(batches) else None


def _more(
    fetched: Fetched,
    partition: TopicPartition,
    offset: int,
    to_offset: int,
    fetch_bytes: int,
    read_committed: bool,
) -> int:
    """How many bytes to ask for after a fetch that brought nothing; the log must have something to bring."""
    end = fetched.last_stable_offset if read_committed else fetched.high_watermark
    end = fetched.high_watermark if end < 0 else end
    topic, index = partition.topic, partition.partition
    if len(fetched.data):
        if fetch_bytes >= _FETCH_BYTES_MAX:
            raise CorruptLog(topic, index, offset, f"a batch is larger than {fetch_bytes} bytes")
        return fetch_bytes * 2
    if end <= offset:
        raise DataLost(topic, index, offset, fetched.log_start_offset, end)
    return fetch_bytes
