"""
Where records come from: a broker, or a data directory without one.

The driver asks a source for L{Piece}s: ranges of offsets, each about as large as a task should be.  A piece
knows all that a worker needs to read it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol, Union

import pyarrow as pa
from attrs import frozen

from rustlog.model import CONSUMER_OFFSETS, TopicPartition
from rustlog.spark.batches import all_batches
from rustlog.spark.columns import COLUMNS
from rustlog.spark.errors import DataLost
from rustlog.spark.files import DataDirectory
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.kafka import EARLIEST, FETCH_BYTES, LATEST, KafkaClient
from rustlog.spark.ranges import Range, read_range
from rustlog.spark.reading import read_offsets
from rustlog.spark.settings import ClientSettings

PIECE_BYTES = 64 * 1024 * 1024
PROBE_BYTES = 256 * 1024
RECORD_BYTES_GUESSED = 256

Starts = Mapping[TopicPartition, int]


@frozen
class Piece:
    """
    Offsets of one partition.

    @ivar size: bytes of log, or about so many.
    @ivar place: how to get there.
    """

    topic: str
    partition: int
    start: int
    end: int
    size: int
    place: Union[ClientSettings, Range]

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@frozen
class Extent:
    """From where to where a partition goes."""

    name: TopicPartition
    start: int
    end: int


class Source(Protocol):
    """Something with topics."""

    def __str__(self) -> str:
        """In words."""

    def topics(self) -> dict[str, int]:
        """How many partitions each topic has, internal ones included."""

    def pieces(self, topic: str, starts: Starts, piece_bytes: int = PIECE_BYTES) -> list[Piece]:
        """
        A topic in pieces, each partition in the order of its log.

        @param starts: where to begin, for partitions of which not everything is wanted.
        @raise DataLost: that is before the log begins, or behind its end.
        """

    def extents(self, topic: str) -> list[Extent]:
        """From where to where the partitions of a topic go."""


def read_piece(piece: Piece, columns: Sequence[str] = COLUMNS) -> Iterator[pa.RecordBatch]:
    """What a worker does: the records of a piece, in their order."""
    if isinstance(piece.place, Range):
        yield from read_range(piece.place, columns)
        return
    with KafkaClient(piece.place) as client:
        # Not much more than the piece: what is fetched beyond it is thrown away.
        fetch_bytes = min(FETCH_BYTES, PROBE_BYTES + piece.size)
        yield from read_offsets(
            client, piece.name, piece.start, piece.end, columns=columns, fetch_bytes=fetch_bytes
        )


def read_tables(piece: Piece, columns: Sequence[str] = COLUMNS) -> Iterator[pa.Table]:
    """The same, as tables."""
    for rows in read_piece(piece, columns):
        yield pa.Table.from_batches([rows])


def chosen_topics(source: Source, wanted: Collection[str]) -> dict[str, int]:
    """
    Those that are wanted, or all that are not the broker's own.

    @raise JobFailed: one of them does not exist.
    """
    known = source.topics()
    for name in wanted:
        if name not in known:
            ordinary = sorted(each for each in known if each != CONSUMER_OFFSETS)
            raise JobFailed(
                f"there is no topic {name} at {source}; there are: {', '.join(ordinary) or 'none'}"
            )
    return {name: known[name] for name in sorted(wanted or known) if wanted or name != CONSUMER_OFFSETS}


# -- a broker --------------------------------------------------------------------------


@frozen
class BrokerSource:
    """Topics of a running broker, read over the Kafka protocol."""

    settings: ClientSettings

    def __str__(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self.settings.bootstrap)

    def topics(self) -> dict[str, int]:
        with KafkaClient(self.settings) as client:
            return {name: each.partitions for name, each in client.topics().items()}

    def extents(self, topic: str) -> list[Extent]:
        with KafkaClient(self.settings) as client:
            return self._extents(client, topic)

    def _extents(self, client: KafkaClient, topic: str) -> list[Extent]:
        names = [TopicPartition(topic, each) for each in range(client.topic(topic).partitions)]
        starts = client.list_offsets(dict.fromkeys(names, EARLIEST))
        ends = client.list_offsets(dict.fromkeys(names, LATEST))
        return [Extent(each, starts[each].offset, ends[each].offset) for each in names]

    def pieces(self, topic: str, starts: Starts, piece_bytes: int = PIECE_BYTES) -> list[Piece]:
        found: list[Piece] = []
        with KafkaClient(self.settings) as client:
            for extent in self._extents(client, topic):
                start = _checked_start(extent, starts)
                if start < extent.end:
                    record_bytes = _record_bytes(client, extent.name, start)
                    found += _split(extent.name, start, extent.end, record_bytes, piece_bytes, self.settings)
        return found


def _record_bytes(client: KafkaClient, name: TopicPartition, offset: int) -> float:
    """About how large the records are that follow, as the broker stores them."""
    fetched = client.fetch(name, offset, max_bytes=PROBE_BYTES, wait_ms=0)
    batches = [each for _, each in all_batches(fetched.data, name.topic, name.partition, may_be_cut_off=True)]
    records = sum(each.record_count for each in batches)
    return sum(each.size for each in batches) / records if records else RECORD_BYTES_GUESSED


def _split(
    name: TopicPartition,
    start: int,
    end: int,
    record_bytes: float,
    piece_bytes: int,
    settings: ClientSettings,
) -> Iterator[Piece]:
    step = max(1, int(piece_bytes / record_bytes))
    for first in range(start, end, step):
        last = min(first + step, end)
        yield Piece(name.topic, name.partition, first, last, int((last - first) * record_bytes), settings)


# -- a data directory ------------------------------------------------------------------


@frozen
class DirectorySource:
    """
    Topics of a data directory.  A broker may be using it; what it has not yet completed is left for another
    time.
    """

    path: str

    def __str__(self) -> str:
        return self.path

    def topics(self) -> dict[str, int]:
        return {each.name: each.partitions for each in DataDirectory(self.path).topics()}

    def extents(self, topic: str) -> list[Extent]:
        directory = DataDirectory(self.path)
        info = directory.topic(topic)
        found = []
        for index in range(info.partitions):
            stored = directory.partition(info, index)
            ranges = directory.ranges(info, index)
            start = (
                max(stored.log_start_offset, ranges[0].first_offset) if ranges else stored.log_start_offset
            )
            end = ranges[-1].end_offset if ranges else start
            found.append(Extent(TopicPartition(topic, index), start, end))
        return found

    def pieces(self, topic: str, starts: Starts, piece_bytes: int = PIECE_BYTES) -> list[Piece]:
        directory = DataDirectory(self.path)
        info = directory.topic(topic)
        found = []
        for extent in self.extents(topic):
            start = _checked_start(extent, starts)
            index = extent.name.partition
            for each in directory.ranges(info, index, from_offset=start, range_bytes=piece_bytes):
                first, end = max(each.first_offset, start), each.end_offset
                if first < end:
                    found.append(Piece(topic, index, first, end, each.size, each))
        return found


def _checked_start(extent: Extent, starts: Starts) -> int:
    start = starts.get(extent.name, extent.start)
    if not extent.start <= start <= extent.end:
        raise DataLost(extent.name.topic, extent.name.partition, start, extent.start, extent.end)
    return start
