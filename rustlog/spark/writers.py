"""
C{df.write} and C{df.writeStream}: what Spark calls, over L{rows <rustlog.spark.rows>}, L{staging
<rustlog.spark.staging>} and L{publishing <rustlog.spark.publishing>}.

Rows go one of two ways:

    - B{straight}: each task is an idempotent producer.  A task that Spark runs again writes its rows again.
    - B{staged}: tasks write to files, and the driver publishes these when all have succeeded.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pyarrow as pa
from attrs import evolve
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from rustlog.model import TopicPartition
from rustlog.spark.encoding import ANONYMOUS, EncodedBatch, ProducerState, encode
from rustlog.spark.errors import PipelineError
from rustlog.spark.kafka import KafkaClient
from rustlog.spark.options import WriteOptions
from rustlog.spark.publishing import Publisher
from rustlog.spark.rows import Sorter
from rustlog.spark.staging import StagedBatch, Staging

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Properties that Spark gives to the tasks of a query."""


class Written(WriterCommitMessage):
    """
    What a task has done.

    @ivar staged: what is still to be published, in the order of the rows.
    @ivar task: its number among the tasks of the batch.
    """

    def __init__(self, task: int, staged: tuple[StagedBatch, ...] = (), query: str | None = None) -> None:
        self.task = task
        self.staged = staged
        self.query = query


class _Writing:
    """What all writers have in common; it is sent to the workers as it is."""

    def __init__(self, options: WriteOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def _write_straight(self, rows: Iterator[pa.RecordBatch]) -> Written:
        task = _task()
        with KafkaClient(self._options.client) as client:
            producer = client.init_producer()
            sequences: defaultdict[TopicPartition, int] = defaultdict(int)
            for target, some in self._sorted(rows, client, task):
                state = evolve(producer, sequence=sequences[target])
                for each in self._encoded(some, state):
                    client.produce(target, each.data)
                    sequences[target] += each.records
        return Written(task)

    def _stage(
        self, rows: Iterator[pa.RecordBatch], staging: Staging, batch: str, query: str | None = None
    ) -> Written:
        task = _task()
        with KafkaClient(self._options.client) as client, staging.new_file(batch, f"{task:05}") as file:
            for target, some in self._sorted(rows, client, task):
                for each in self._encoded(some):
                    file.add(target, each.data, each.records)
        return Written(task, tuple(file.batches), query)

    def _sorted(
        self, rows: Iterable[pa.RecordBatch], client: KafkaClient, task: int
    ) -> Iterator[tuple[TopicPartition, pa.Table]]:
        counts: dict[str, int] = {}

        def partitions(topic: str) -> int:
            if topic not in counts:
                counts[topic] = client.topic(topic, creates=True).partitions
            return counts[topic]

        sorter = Sorter(self._columns, self._options.topic, self._options.batch_bytes, partitions, task)
        for some in rows:
            yield from sorter.add(some)
        yield from sorter.rest()

    def _encoded(self, rows: pa.Table, producer: ProducerState = ANONYMOUS) -> Iterator[EncodedBatch]:
        return encode(
            rows,
            now_ms=int(time.time() * 1000),
            codec=self._options.codec,
            batch_bytes=self._options.batch_bytes,
            producer=producer,
        )

    def _publisher(self, staging: Staging, application: str) -> Publisher:
        return Publisher(staging, lambda: KafkaClient(self._options.client), application)


class BatchWriter(_Writing, DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, options: WriteOptions, columns: tuple[str, ...]) -> None:
        super().__init__(options, columns)
        # Without a name of its own, a job is nobody's second attempt.
        self._application = options.application or f"job-{uuid.uuid4().hex}"
        self._batch = 0 if options.batch is None else options.batch

    @property
    def _staging(self) -> Staging | None:
        location = self._options.staging
        return None if location is None else Staging(location, self._application)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        staging = self._staging
        if staging is None:
            return self._write_straight(iterator)
        return self._stage(iterator, staging, str(self._batch))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        staging = self._staging
        if staging is None:
            return
        publisher = self._publisher(staging, self._application)
        if self._options.batch is None:
            publisher.append(str(self._batch), _staged(messages))
            staging.forget_all()
        else:
            publisher.publish(self._batch, _staged(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        staging = self._staging
        if staging is None:
            return
        staging.discard(str(self._batch), _names(messages))
        if self._options.batch is None and staging.plan(str(self._batch)) is None:
            # Tasks that were killed have told nobody what they left behind.
            staging.forget_all()


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Writes what a query gives, batch by batch."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        if self._options.staging is None:
            return self._write_straight(iterator)
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_ID)
        batch = None if context is None else context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise PipelineError("Spark does not tell its tasks which query and batch they belong to")
        return self._stage(iterator, self._staging(query), batch, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        query = _query(messages)
        if self._options.staging is None or query is None:
            return
        application = self._options.application or query
        self._publisher(self._staging(query), application).publish(batchId, _staged(messages), query)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What a failed L{commit} has begun to publish stays: the batch comes again."""
        query = _query(messages)
        if self._options.staging is not None and query is not None:
            self._staging(query).discard(str(batchId), _names(messages))

    def _staging(self, query: str) -> Staging:
        assert self._options.staging is not None
        return Staging(self._options.staging, self._options.application or query)


def _task() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _written(messages: Iterable[WriterCommitMessage | None]) -> list[Written]:
    """In the order of the tasks; those that have failed have nothing to say."""
    return sorted((each for each in messages if isinstance(each, Written)), key=lambda each: each.task)


def _staged(messages: Iterable[WriterCommitMessage | None]) -> list[StagedBatch]:
    return [staged for each in _written(messages) for staged in each.staged]


def _names(messages: Iterable[WriterCommitMessage | None]) -> set[str]:
    return {each.file for each in _staged(messages)}


def _query(messages: Iterable[WriterCommitMessage | None]) -> str | None:
    return next((each.query for each in _written(messages) if each.query is not None), None)
