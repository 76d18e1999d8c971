"""
C{spark.read} and C{spark.readStream}: what Spark calls, over L{Source <rustlog.spark.sources.Source>}.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from rustlog.spark.errors import PipelineError
from rustlog.spark.kafka import KafkaClient
from rustlog.spark.narrowing import Narrowing
from rustlog.spark.options import ReadOptions
from rustlog.spark.parts import PartReader, Piece
from rustlog.spark.positions import Offsets, from_json, to_json
from rustlog.spark.sources import Source, available

log = logging.getLogger(__name__)


class Part(InputPartition):
    """The work of one task."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(piece)


class _Reading:
    """What both have in common; it is sent to the workers as it is."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._part_reader = PartReader(options, columns)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        if partition.value is None:
            # Spark makes up a part when there are none.
            return iter(())
        return self._part_reader.read(partition.value)


class BatchReader(_Reading, DataSourceReader):
    """Reads what there is, and ends."""

    _narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        return [Part(each) for each in Source.open(self._options).everything(self._narrowing)]


class NarrowingBatchReader(BatchReader):
    """
    The same, when Spark tells what it will filter.  It is another class because Spark refuses one that
    listens, unless C{spark.sql.python.filterPushdown.enabled} is set.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            path: tuple[str, ...] = getattr(each, "attribute", ())
            if len(path) == 1:
                kind, value = type(each).__name__, getattr(each, "value", None)
                self._narrowing = self._narrowing.by(kind, path[0], value)
        return filters


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """
    Reads what comes.  Its offsets look as those of Spark's Kafka source do.

    On the driver there is one for as long as the query runs; the workers have copies, which only read.
    """

    _source: Source | None = None
    _target: Offsets | None = None
    """Where a query with the trigger AvailableNow ends."""
    _waiting_since: float | None = None
    _told: Offsets | None = None

    def __init__(
        self,
        options: ReadOptions,
        columns: tuple[str, ...],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(options, columns)
        self._now = now

    @property
    def source(self) -> Source:
        if self._source is None:
            self._source = Source.open(self._options)
        return self._source

    def initialOffset(self) -> dict[str, Any]:
        return to_json(self.source.initial())

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.source.latest()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.offsets_per_trigger_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = from_json(start)
        # Spark commits a micro-batch only when it has a next one; but then it asks for one all the same.
        self._tell(begin)
        ends = self._reachable(begin)
        if self._should_wait(begin, ends):
            return start
        offsets_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return to_json(self.source.next_end(begin, ends, offsets_max))

    def _reachable(self, begin: Offsets) -> Offsets:
        """Where everything ends; for a query that is to end itself, only what there was when it began."""
        ends, target = self.source.latest(), self._target
        if target is None:
            return ends
        known = [each for each in ends if each in target or each in begin]
        return {each: min(ends[each], target.get(each, begin.get(each, 0))) for each in known}

    def _should_wait(self, begin: Offsets, ends: Offsets) -> bool:
        """Whether there is less than C{minOffsetsPerTrigger}, and still time."""
        least = self._options.offsets_per_trigger_min
        if least is None or self._target is not None:
            return False
        if self._waiting_since is None:
            self._waiting_since = self._now()
        is_late = self._now() - self._waiting_since >= self._options.trigger_delay_seconds_max
        if available(begin, ends) < least and not is_late:
            return True
        self._waiting_since = self._now()
        return False

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json(self.source.latest())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [Part(each) for each in self.source.between(from_json(start), from_json(end))]

    def commit(self, end: dict[str, Any]) -> None:
        self._tell(from_json(end))

    def _tell(self, offsets: Offsets) -> None:
        """
        Tell the group, if there is one, how far we are.  That is for others to see: when it fails, nothing is
        lost.
        """
        if self._options.group is None or self._options.client is None or offsets == self._told:
            return
        try:
            with KafkaClient(self._options.client) as client:
                client.commit_offsets(self._options.group, offsets)
            self._told = offsets
        except PipelineError as error:
            log.warning("progress was not committed to group %s: %s", self._options.group, error)

    def __getstate__(self) -> dict[str, Any]:
        """Workers need no connection of the driver's."""
        return {**self.__dict__, "_source": None}
