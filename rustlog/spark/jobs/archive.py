"""
C{rustlog pipeline archive}: topics to Parquet or Delta, each record exactly once.

The driver plans rounds of pieces.  In each round, workers read, decode and write Parquet files, and only
tell the driver which; then the driver commits the round.  See L{rustlog.spark.jobs.archives} for why a
crash, at whatever moment, neither loses nor repeats anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import PurePath

from attrs import define, evolve, field, frozen

from rustlog.environment.files import RealFiles
from rustlog.model import TopicPartition
from rustlog.spark.errors import DataLost
from rustlog.spark.jobs.archives import DELTA, Announce, Archive, begin_archive, silently
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.manifests import Manifest, Offsets, Part, Total, combine
from rustlog.spark.jobs.planning import rounds, total_bytes, total_records
from rustlog.spark.jobs.running import Advance, Tasks
from rustlog.spark.jobs.sources import PIECE_BYTES, Piece, Source, chosen_topics, read_tables
from rustlog.spark.jobs.writing import TABLE_SCHEMA, PartWriter, chunks

COMMIT_BYTES = 1024 * 1024 * 1024
INTERVAL_SECONDS = 10.0


@frozen(kw_only=True)
class ArchiveOptions:
    """
    What to archive, and how.

    @ivar topics: none: all but the broker's own.
    @ivar commit_bytes: about so much of the logs is one commit.
    @ivar allows_gaps: go on where a log begins now, if records are gone that were not archived.
    """

    target: str
    kind: str = "parquet"
    topics: Collection[str] = ()
    piece_bytes: int = PIECE_BYTES
    commit_bytes: int = COMMIT_BYTES
    allows_gaps: bool = False


@frozen
class ArchivePlan:
    """
    What is left to do.

    @ivar partitions: how many each topic has.
    @ivar lost: offsets that are gone, and were never archived: partition, first, behind the last.
    """

    partitions: dict[str, int]
    rounds: Sequence[Sequence[Piece]]
    lost: Sequence[tuple[TopicPartition, int, int]] = ()

    @property
    def pieces(self) -> list[Piece]:
        return [piece for each in self.rounds for piece in each]

    @property
    def size(self) -> int:
        return total_bytes(self.pieces)

    @property
    def records(self) -> int:
        return total_records(self.pieces)


def plan_archive(source: Source, options: ArchiveOptions, done: Offsets) -> ArchivePlan:
    """
    What there is and was not archived yet.

    @raise JobFailed: a log does not continue what was archived of it.
    """
    topics = chosen_topics(source, options.topics)
    pieces: list[Piece] = []
    lost: list[tuple[TopicPartition, int, int]] = []
    for topic in topics:
        starts = {TopicPartition(topic, index): offset for index, offset in done.get(topic, {}).items()}
        for extent in source.extents(topic) if starts else ():
            start = starts.get(extent.name, extent.start)
            if start > extent.end:
                raise JobFailed(
                    f"{extent.name} ends at offset {extent.end}, but was archived up to {start}: "
                    "it is another topic of the same name; archive it elsewhere"
                )
            if start < extent.start:
                lost.append((extent.name, start, extent.start))
                if not options.allows_gaps:
                    raise JobFailed(
                        f"offsets {start} to {extent.start - 1} of {extent.name} are gone, and were never "
                        "archived; say --allow-gaps to go on without them"
                    )
                starts[extent.name] = extent.start
        try:
            pieces += source.pieces(topic, starts, options.piece_bytes)
        except DataLost as error:
            raise JobFailed(f"{error}; try again") from None  # Retention was here in between.
    return ArchivePlan(topics, rounds(pieces, options.commit_bytes), lost)


# -- in the workers --------------------------------------------------------------------


@frozen
class ArchiveTask:
    """One piece, and where its files go."""

    piece: Piece
    staging: str
    number: int


def archive_piece(task: ArchiveTask) -> Part:
    """Read a piece, write its files, and tell which."""
    piece = task.piece
    # Should Spark run a task twice, each attempt has files of its own, and only those that are told of count.
    name = f"{task.number}-{_attempt()}"
    writer = PartWriter(RealFiles(), PurePath(task.staging), name, piece.topic, piece.partition)
    for table in chunks(read_tables(piece)):
        writer.write(table)
    return writer.finish(piece.start, piece.end)


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.taskAttemptId()


# -- in the driver ---------------------------------------------------------------------


@define(eq=False)
class Archiving:
    """
    An archive that is being written.

    @ivar total: what this run has added.
    """

    _archive: Archive
    _source: Source
    _options: ArchiveOptions
    _announce: Announce
    _run: str
    _now_ms: Callable[[], int]
    total: Total = field(factory=Total)

    def plan(self) -> ArchivePlan:
        """What is there by now, and not yet here."""
        last = self._archive.last
        return plan_archive(self._source, self._options, last.next_offsets if last else {})

    def run(self, tasks: Tasks, plan: ArchivePlan, advance: Advance = id) -> Iterator[Manifest]:
        """Do it, one commit after the other."""
        for number, pieces in enumerate(plan.rounds):
            staging = str(self._archive.staging(self._run))
            jobs = [ArchiveTask(piece, staging, index) for index, piece in enumerate(pieces)]
            parts = tasks.run(f"archive {number}", jobs, archive_piece, _weight, advance)
            manifest = combine(
                _skipping(self._archive.last, plan.lost), self._run, self._now_ms(), plan.partitions, parts
            )
            self._archive.commit(manifest, self._announce)
            self.total = self.total.plus(manifest)
            yield manifest

    def close(self) -> None:
        """Leave nothing behind that was not committed."""
        try:
            self._archive.forget(self._run)
        finally:
            self._archive.close()


def _weight(task: ArchiveTask) -> int:
    return task.piece.size


def _skipping(last: Manifest | None, lost: Sequence[tuple[TopicPartition, int, int]]) -> Manifest | None:
    """Go on behind what is gone."""
    if last is None or not lost:
        return last
    offsets = {topic: dict(each) for topic, each in last.next_offsets.items()}
    for name, start, end in lost:
        if offsets[name.topic][name.partition] == start:
            offsets[name.topic][name.partition] = end
    return evolve(last, next_offsets=offsets)


def begin(source: Source, options: ArchiveOptions, run: str, now_ms: Callable[[], int]) -> Archiving:
    """
    Open an archive, or make it; finish what a crash has left undone.

    @param run: a name that no other run has had.
    @raise JobFailed: that can not be.
    """
    files = RealFiles()
    archive = begin_archive(files, PurePath(options.target), options.kind, run)
    try:
        announce = _announcer(options.kind, archive.id)
        archive.recover(announce)
    except BaseException:
        archive.close()
        raise
    return Archiving(archive, source, options, announce, run, now_ms)


def _announcer(kind: str, archive_id: str) -> Announce:
    if kind != DELTA:
        return silently
    from rustlog.spark.jobs.delta import announcer

    return announcer(archive_id, TABLE_SCHEMA)
