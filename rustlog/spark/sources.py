"""
L{Source}: what there is to read, seen from the driver.  Batch and streaming readers stand on it; it knows no
Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rustlog.model import TopicPartition
from rustlog.spark.errors import DataLost, PipelineError
from rustlog.spark.files import DataDirectory
from rustlog.spark.kafka import KafkaClient
from rustlog.spark.logs import BrokerLog, DirectoryLog, subscribed
from rustlog.spark.narrowing import EVERYTHING, Narrowing
from rustlog.spark.options import ReadOptions
from rustlog.spark.parts import Piece, plan_parts
from rustlog.spark.planning import OffsetRange, limited, ranges_between
from rustlog.spark.positions import Offsets, resolve


class TopicGone(PipelineError):
    """Partitions that were read from are not there any more."""

    def __init__(self, partitions: tuple[TopicPartition, ...]) -> None:
        super().__init__(partitions)
        self.partitions = partitions

    def __str__(self) -> str:
        names = ", ".join(map(str, self.partitions))
        return f"{names} can not be read any more: deleted, or made anew with fewer partitions"


class Source:
    """
    A log, and which of it is wanted.

    @param client: a connection; C{None} if there is only a directory.
    """

    def __init__(
        self, options: ReadOptions, client: KafkaClient | None, directory: DataDirectory | None
    ) -> None:
        self._options = options
        self._directory = directory
        assert client is not None or directory is not None
        self._log: BrokerLog | DirectoryLog
        if client is not None:
            self._log = BrokerLog(client, options.reads_committed)
        elif directory is not None:
            self._log = DirectoryLog(directory)

    @classmethod
    def open(cls, options: ReadOptions, connect: Callable[..., KafkaClient] = KafkaClient) -> Source:
        """Connect, and look at the directory."""
        client = connect(options.client) if options.client is not None else None
        directory = DataDirectory(options.path) if options.path is not None else None
        return cls(options, client, directory)

    def partitions(self, *, must_exist: bool = True) -> list[TopicPartition]:
        """Those that are wanted and there."""
        return subscribed(self._options.subscription, self._log.topics(), must_exist=must_exist)

    # -- batches --

    def everything(self, narrowing: Narrowing = EVERYTHING) -> list[Piece]:
        """All that a batch has to read, cut for the workers."""
        partitions = [each for each in self.partitions() if narrowing.wants(each)]
        starts = resolve(self._options.starting, self._named(self._options.starting, partitions), self._log)
        ends = resolve(self._options.ending, self._named(self._options.ending, partitions), self._log)
        first, last = narrowing.apply(
            {each: starts[each] for each in partitions}, {each: ends[each] for each in partitions}, self._log
        )
        return self.pieces(ranges_between(first, last))

    def _named(self, position: object, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Options that name partitions name all of them, also those that a filter leaves out."""
        return self.partitions() if getattr(position, "by_partition", None) is not None else partitions

    def pieces(self, ranges: list[OffsetRange]) -> list[Piece]:
        """Cut ranges for the workers."""
        return plan_parts(ranges, self._options, self._directory)

    # -- streams --

    def initial(self) -> Offsets:
        """Where a stream begins that has no checkpoint."""
        return resolve(self._options.starting, self.partitions(), self._log)

    def latest(self) -> Offsets:
        """Where everything ends now."""
        return self._log.latest(self.partitions(must_exist=False))

    def next_end(self, start: Offsets, ends: Offsets, offsets_max: int | None = None) -> Offsets:
        """
        How far a micro-batch goes that begins at C{start}.

        @param ends: how far it could go.
        @raise PipelineError: something that was to be read is gone, and the options say that this is an
            error.
        """
        begins = self._with_new(start, ends)
        for each, begin in begins.items():
            if ends[each] < begin:
                self._complain(DataLost(each.topic, each.partition, begin, 0, ends[each]))
        # A log that was made anew ends before the place where we are; it is read from there on.
        begins = {each: min(begin, ends[each]) for each, begin in begins.items()}
        return ends if offsets_max is None else limited(begins, ends, offsets_max)

    def between(self, start: Offsets, end: Offsets) -> list[Piece]:
        """The work of a micro-batch."""
        return self.pieces(ranges_between(self._with_new(start, end), end))

    def _with_new(self, start: Offsets, end: Mapping[TopicPartition, int]) -> Offsets:
        """
        Where each partition of C{end} begins: those that have come since C{start} at their first record.
        Those that have gone are left out, if that is allowed.
        """
        gone = tuple(sorted(set(start) - set(end)))
        if gone:
            self._complain(TopicGone(gone))
        added = [each for each in end if each not in start]
        firsts = self._log.earliest(added) if added else {}
        for each, offset in firsts.items():
            if offset > 0:
                self._complain(DataLost(each.topic, each.partition, 0, offset, end[each]))
        return {each: start[each] if each in start else firsts[each] for each in end}

    def _complain(self, error: PipelineError) -> None:
        if self._options.fails_on_data_loss:
            raise error


def available(start: Offsets, end: Offsets) -> int:
    """How many offsets lie between."""
    return sum(max(0, end[each] - start.get(each, 0)) for each in end)
