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

_EMPTY_MAX = 60
"""So often a fetch may bring nothing although there is something: about half a minute."""


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
    offset, empty = from_offset, 0
    while offset < to_offset:
        fetched = client.fetch(partition, offset, max_bytes=fetch_bytes, read_committed=read_committed)
        following = _next_offset(fetched, partition)
        if following is None:
            empty += 1
            _check_empty(fetched, partition, offset, empty, read_committed)
            fetch_bytes = min(fetch_bytes * 2, _FETCH_BYTES_MAX) if fetched.data else fetch_bytes
            continue
        yield from decode(
            fetched.data, topic=partition.topic, partition=partition.partition, columns=columns,
            from_offset=offset, to_offset=to_offset, aborted=fetched.aborted if read_committed else (),
            may_be_cut_off=True, rows_max=rows_max,
        )  # fmt: skip
        offset, empty = max(following, offset + 1), 0


def _next_offset(fetched: Fetched, partition: TopicPartition) -> int | None:
    """Behind the last whole batch; C{None} if there is none."""
    batches = find_batches(fetched.data, partition.topic, partition.partition, may_be_cut_off=True)
    return int(batches.last_offsets[-1]) + 1 if len(batches) else None


def _check_empty(
    fetched: Fetched, partition: TopicPartition, offset: int, times: int, read_committed: bool
) -> None:
    """After a fetch that brought nothing whole, for so many times: there must be something to come."""
    end = fetched.last_stable_offset if read_committed and fetched.last_stable_offset >= 0 else None
    end = fetched.high_watermark if end is None else end
    if not fetched.data and end <= offset:
        raise DataLost(partition.topic, partition.partition, offset, fetched.log_start_offset, end)
    if times >= _EMPTY_MAX:
        reason = f"the broker says that the log goes up to {end}, and brings nothing"
        raise CorruptLog(partition.topic, partition.partition, offset, reason)
