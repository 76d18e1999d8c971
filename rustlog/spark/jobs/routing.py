"""
Records that Spark has brought together, into the partitions of a topic: the last step of C{rekey} and
C{compact}.

Spark hands over the records of each target partition in the order in which they are to be sent.  That order
must be the same however often the job is run, because what was sent before is counted, not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from attrs import frozen

from rustlog.log.codecs import Codec
from rustlog.spark.jobs.delivery import Delivered, Delivery, EndsWatch, Producer
from rustlog.spark.jobs.running import Advance, Cluster
from rustlog.spark.jobs.states import JobState
from rustlog.spark.kafka import KafkaClient
from rustlog.spark.partitioning import murmur2
from rustlog.spark.settings import ClientSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TARGET = "_target"
NULL_RUN = 1024
"""So many records without a key, by their offsets, go to one partition."""

_TOLD = "topic string, partition int, records long, sent long, sent_bytes long"
_TOLD_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("records", pa.int64()),
        ("sent", pa.int64()),
        ("sent_bytes", pa.int64()),
    ]
)


def targets(keys: pa.Array, partitions: pa.Array, offsets: pa.Array, count: int) -> np.ndarray:
    """
    The partition of each record, as Kafka's own clients choose it.  Records without a key are spread by
    where they come from, so that it is the same each time.
    """
    runs = partitions.to_numpy(zero_copy_only=False) + offsets.to_numpy(zero_copy_only=False) // NULL_RUN
    chosen = (runs % count).astype(np.int32)
    present = keys.is_valid()
    if keys.null_count < len(keys):
        hashes = murmur2(keys.filter(present)) & np.uint32(0x7FFFFFFF)
        chosen[present.to_numpy(zero_copy_only=False)] = (hashes % np.uint32(count)).astype(np.int32)
    return chosen


@frozen
class Assign:
    """Adds the column L{TARGET}, in workers; C{key} is the name of the column with the key."""

    count: int
    key: str = "key"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            chosen = targets(
                rows.column(self.key), rows.column("partition"), rows.column("offset"), self.count
            )
            yield rows.append_column(TARGET, pa.array(chosen))


@frozen
class Send:
    """Sends what is sorted by target and order, in workers."""

    topic: str
    begins: tuple[int, ...]
    state: JobState
    settings: ClientSettings
    codec: Codec
    now_ms: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with KafkaClient(self.settings) as client:
            delivery: Delivery | None = None
            current = -1
            for rows in batches:
                for target, part in runs(rows):
                    if target != current:
                        if delivery is not None:
                            yield _told(delivery.told())
                        delivery, current = self._begin(client, target), target
                    assert delivery is not None
                    if not delivery.has_all(part.num_rows):
                        for _ in delivery.send(part):
                            pass
            if delivery is not None:
                yield _told(delivery.told())

    def _begin(self, client: KafkaClient, target: int) -> Delivery:
        destination = self.state.destination(self.topic, target)
        return Delivery(client, destination, self.producer, self.codec, self.now_ms)

    @property
    def producer(self) -> Producer:
        return self.state.producer


def runs(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each target; they stand together."""
    target = rows.column(TARGET).to_numpy(zero_copy_only=False)
    if not len(target):
        return
    bounds = [0, *(np.flatnonzero(np.diff(target)) + 1).tolist(), len(target)]
    for start, end in pairwise(bounds):
        yield int(target[start]), rows.slice(start, end - start)


def _told(found: Delivered) -> pa.RecordBatch:
    row = (found.topic, found.partition, found.records, found.sent, found.sent_bytes)
    return pa.RecordBatch.from_arrays(
        [pa.array([value], each.type) for value, each in zip(row, _TOLD_SCHEMA, strict=True)],
        schema=_TOLD_SCHEMA,
    )


def send_all(
    cluster: Cluster,
    name: str,
    rows: Callable[[], DataFrame],
    order: Sequence[str],
    send: Send,
    advance: Advance,
) -> list[Delivered]:
    """
    Bring the records of each target together, in one order, and send them.

    @param rows: makes them, with the column L{TARGET}.
    @param order: names of columns, which no two rows of a target have in common.
    """
    parts = min(len(send.begins), max(1, cluster.parallelism * 4))

    def collect() -> list[Any]:
        in_order = rows().repartition(parts, TARGET).sortWithinPartitions(TARGET, *order)
        return in_order.mapInArrow(send, _TOLD).collect()

    watch = EndsWatch(
        send.settings, [send.state.destination(send.topic, each) for each in range(len(send.begins))]
    )
    found = cluster.wait(name, collect, advance=advance, watch=watch)
    return [Delivered(**row.asDict()) for row in found]
