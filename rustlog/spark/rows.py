"""
Rows that are to be written: which columns count, where each row goes, and batches of those that go together.

Columns are those of Spark's Kafka sink: C{value}, and C{key}, C{topic}, C{partition}, C{headers} if they are
there.  Others are not written; C{timestamp} only if asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rustlog.model import TopicPartition
from rustlog.spark.columns import HEADER
from rustlog.spark.errors import BadOption, PipelineError
from rustlog.spark.options import WriteOptions
from rustlog.spark.partitioning import Partitioner

BUFFERED_BYTES_MAX = 32 * 2**20
"""How much waits for more to go with it, over all partitions."""


class UnusableRow(PipelineError):
    """A row that can not be written."""


def check_columns(schema: pa.Schema, options: WriteOptions) -> tuple[str, ...]:
    """
    Find out whether rows with these columns can be written, before there are any.

    @return: the columns that will be.
    @raise BadOption: they can not be; the message says why.
    """
    names = schema.names
    if "value" not in names:
        raise BadOption("value", f"there is no such column, only {', '.join(names) or 'none at all'}")
    if "topic" not in names and options.topic is None:
        raise BadOption("topic", "say where rows go: by this option, or by a column of that name")
    wanted = [each for each in _ALLOWED if each in names]
    if not options.includes_timestamp and "timestamp" in wanted:
        wanted.remove("timestamp")
    for name in wanted:
        _check_type(name, schema.field(name).type)
    return tuple(wanted)


def _check_type(name: str, found: pa.DataType) -> None:
    is_right, expected = _ALLOWED[name]
    if not is_right(found):
        raise BadOption(name, f"the column has to be {expected}, not {found}; cast it")


def _is_bytes(found: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(found)
        or pa.types.is_binary(found)
        or pa.types.is_large_string(found)
        or pa.types.is_large_binary(found)
    )


def _is_text(found: pa.DataType) -> bool:
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))


def _is_headers(found: pa.DataType) -> bool:
    if not (pa.types.is_list(found) or pa.types.is_large_list(found)):
        return False
    entry = found.value_type
    return bool(
        pa.types.is_struct(entry)
        and {each.name for each in entry} == {each.name for each in HEADER}
        and _is_text(entry.field("key").type)
        and pa.types.is_binary(entry.field("value").type)
    )


_ALLOWED: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
    "key": (_is_bytes, "string or binary"),
    "value": (_is_bytes, "string or binary"),
    "topic": (_is_text, "string"),
    "partition": (pa.types.is_int32, "int"),
    "timestamp": (pa.types.is_timestamp, "timestamp"),
    "headers": (_is_headers, "array<struct<key: string, value: binary>>"),
}

_WRITTEN = ("key", "value", "timestamp", "headers")


class Sorter:
    """
    Sorts rows into partitions, and hands them on when there are enough for a batch.

    @param partitions: tells how many a topic has.
    @param first: which number this task has, so that not all begin with the same partition.
    """

    def __init__(
        self,
        columns: Sequence[str],
        topic: str | None,
        batch_bytes: int,
        partitions: Callable[[str], int],
        first: int = 0,
    ) -> None:
        self._columns = columns
        self._kept = [each for each in columns if each in _WRITTEN]
        self._topic = topic
        self._batch_bytes = batch_bytes
        self._partitions = partitions
        self._partitioners: dict[str, Partitioner] = {}
        self._first = first
        self._waiting: defaultdict[TopicPartition, list[pa.RecordBatch]] = defaultdict(list)
        self._sizes: defaultdict[TopicPartition, int] = defaultdict(int)

    def add(self, rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.Table]]:
        """Take rows; give back those that are enough for a batch."""
        for topic, of_topic in self._by_topic(rows):
            for index, some in self._by_partition(topic, of_topic):
                target = TopicPartition(topic, index)
                self._waiting[target].append(some)
                self._sizes[target] += some.nbytes
                if self._sizes[target] >= self._batch_bytes:
                    yield self._take(target)
        if sum(self._sizes.values()) > BUFFERED_BYTES_MAX:
            yield from self.rest()

    def rest(self) -> Iterator[tuple[TopicPartition, pa.Table]]:
        """Give back all that is left."""
        for target in sorted(self._waiting):
            yield self._take(target)

    def _take(self, target: TopicPartition) -> tuple[TopicPartition, pa.Table]:
        del self._sizes[target]
        rows = pa.Table.from_batches(self._waiting.pop(target)).select(self._kept)
        # A record batch is made of one chunk, and many small ones would be slow for everybody.
        return target, rows.combine_chunks()

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if not rows.num_rows:
            return
        if self._topic is not None:
            yield self._topic, rows
            return
        topics = rows.column("topic")
        if topics.null_count:
            raise UnusableRow("the column topic is null: nobody knows where that row should go")
        names = pc.unique(topics)
        for name in names:
            yield name.as_py(), rows if len(names) == 1 else rows.filter(pc.equal(topics, name))

    def _by_partition(self, topic: str, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        targets = self._targets(topic, rows)
        order = np.argsort(targets, kind="stable")
        sorted_targets = targets[order]
        edges = np.flatnonzero(np.diff(sorted_targets, prepend=-1, append=-1))
        is_sorted = len(edges) == 2
        ordered = rows if is_sorted else rows.take(pa.array(order))
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            yield int(sorted_targets[start]), ordered.slice(start, end - start)

    def _targets(self, topic: str, rows: pa.RecordBatch) -> np.ndarray:
        count = self._partitions(topic)
        chosen = rows.column("partition") if "partition" in self._columns else None
        if chosen is not None and not chosen.null_count:
            return self._checked(topic, count, chosen.to_numpy(zero_copy_only=False))
        if topic not in self._partitioners:
            self._partitioners[topic] = Partitioner(count, self._first % count)
        keys = rows.column("key") if "key" in self._columns else pa.nulls(rows.num_rows, pa.binary())
        assigned = self._partitioners[topic].assign(keys)
        if chosen is None or chosen.null_count == rows.num_rows:
            return assigned
        is_chosen = chosen.is_valid().to_numpy(zero_copy_only=False)
        return self._checked(topic, count, np.where(is_chosen, chosen.fill_null(0).to_numpy(), assigned))

    def _checked(self, topic: str, count: int, targets: np.ndarray) -> np.ndarray:
        if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < count:
            wrong = next(each for each in targets.tolist() if not 0 <= each < count)
            raise UnusableRow(f"there is no partition {wrong} of {topic}, which has {count}")
        return targets
