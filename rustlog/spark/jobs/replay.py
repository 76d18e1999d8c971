"""
C{rustlog pipeline replay}: what was archived, back into topics.

Every partition goes to the partition of the same number, in the order of its offsets, with keys, values,
headers and timestamps as they were.  One task has one partition.  Called again, it goes on where it was;
called after the archive has grown, it adds what is new.  See L{rustlog.spark.jobs.delivery} for why nothing
comes twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath

import pyarrow.parquet as pq
from attrs import define, field, frozen

from rustlog.environment.files import RealFiles
from rustlog.environment.pace import SystemPace
from rustlog.log.codecs import Codec
from rustlog.spark.jobs.archives import Archive, open_archive
from rustlog.spark.jobs.delivery import Delivered, Delivery, Destination, EndsWatch, Producer, reached
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.manifests import Chunk
from rustlog.spark.jobs.running import Advance, Tasks
from rustlog.spark.jobs.states import JobState, prepare, read_state, same_request, write_state
from rustlog.spark.jobs.writing import read_chunk
from rustlog.spark.kafka import KafkaClient
from rustlog.spark.settings import ClientSettings

_OPEN_FILES_MAX = 16


@frozen(kw_only=True)
class ReplayOptions:
    """
    What to bring back, and where to.

    @ivar topics: none: all that the archive has.
    @ivar renamed: names of targets, where they are not the same.
    @ivar config: of topics that are made.
    @ivar records_per_second: of all partitions together; C{None}: as fast as it goes.
    """

    archive: str
    settings: ClientSettings
    state: str
    topics: Collection[str] = ()
    renamed: Mapping[str, str] = field(factory=dict)
    records_per_second: float | None = None
    bytes_per_second: float | None = None
    codec: Codec = Codec.NONE
    appends: bool = False
    config: Mapping[str, str] = field(factory=dict)

    def target(self, topic: str) -> str:
        return self.renamed.get(topic, topic)


@frozen
class Archived:
    """One partition of an archive, with all its chunks in their order."""

    topic: str
    partition: int
    target: str
    chunks: tuple[Chunk, ...] = ()

    @property
    def records(self) -> int:
        return sum(each.records for each in self.chunks)


@frozen
class ReplayPlan:
    """
    What the archive has.

    @ivar partitions: how many each topic has.
    @ivar size: bytes of the files.
    """

    archive_id: str
    root: str
    partitions: dict[str, int]
    sources: Sequence[Archived]
    size: int

    @property
    def records(self) -> int:
        return sum(each.records for each in self.sources)


def plan_replay(options: ReplayOptions) -> ReplayPlan:
    """
    See what the archive has.

    @raise JobFailed: there is none, or it has no such topic.
    """
    archive = open_archive(RealFiles(), PurePath(options.archive))
    partitions = dict(archive.last.partitions) if archive.last else {}
    for name in (*options.topics, *options.renamed):
        if name not in partitions:
            known = ", ".join(sorted(partitions)) or "none"
            raise JobFailed(f"there is no topic {name} in {options.archive}; there are: {known}")
    wanted = set(options.topics or options.renamed or partitions)
    found, size = _gather(archive, wanted)
    sources = [
        Archived(topic, partition, options.target(topic), tuple(chunks))
        for (topic, partition), chunks in sorted(found.items())
    ]
    chosen = {topic: count for topic, count in sorted(partitions.items()) if topic in wanted}
    return ReplayPlan(archive.id, options.archive, chosen, sources, size)


def _gather(archive: Archive, wanted: set[str]) -> tuple[dict[tuple[str, int], list[Chunk]], int]:
    found: dict[tuple[str, int], list[Chunk]] = {}
    size = 0
    for manifest in archive.manifests():
        for chunk in manifest.chunks:
            if chunk.topic in wanted:
                found.setdefault((chunk.topic, chunk.partition), []).append(chunk)
        size += sum(each.size for each in manifest.files if each.topic in wanted)
    return found, size


# -- in the workers --------------------------------------------------------------------


@frozen
class ReplayTask:
    """One partition, and how fast."""

    root: str
    source: Archived
    destination: Destination
    producer: Producer
    settings: ClientSettings
    codec: Codec
    records_per_second: float | None
    bytes_per_second: float | None
    now_ms: int


@define(eq=False)
class Brake:
    """Lets no more than so much pass in a second."""

    _rate: float | None
    _pace: SystemPace
    _allowed_at: float = 0.0

    def __attrs_post_init__(self) -> None:
        self._allowed_at = self._pace.monotonic()

    def passed(self, amount: int) -> None:
        """So much has passed; wait until more may."""
        if self._rate is None:
            return
        now = self._pace.monotonic()
        self._allowed_at = max(self._allowed_at, now - 1) + amount / self._rate
        if self._allowed_at > now:
            self._pace.sleep(self._allowed_at - now)


def replay_partition(task: ReplayTask) -> Delivered:
    """Send what is not there yet."""
    pace, opened = SystemPace(), _Opened()
    records, size = Brake(task.records_per_second, pace), Brake(task.bytes_per_second, pace)
    with KafkaClient(task.settings) as client:
        delivery = Delivery(client, task.destination, task.producer, task.codec, task.now_ms)
        for chunk in task.source.chunks:
            if delivery.has_all(chunk.records):
                continue
            for sent_records, sent_bytes in delivery.send(read_chunk(PurePath(task.root), chunk, opened)):
                records.passed(sent_records)
                size.passed(sent_bytes)
    return delivery.told()


class _Opened:
    """The Parquet files that were needed last."""

    def __init__(self) -> None:
        self._files: dict[str, pq.ParquetFile] = {}

    def __call__(self, path: str) -> pq.ParquetFile:
        file = self._files.pop(path, None)
        if file is None:
            if len(self._files) >= _OPEN_FILES_MAX:
                self._files.pop(next(iter(self._files))).close()
            try:
                file = pq.ParquetFile(path)
            except FileNotFoundError:
                raise JobFailed(
                    f"{path} belongs to the archive, and is missing; restore it from a backup"
                ) from None
        self._files[path] = file
        return file


# -- in the driver ---------------------------------------------------------------------


def begin(options: ReplayOptions, plan: ReplayPlan) -> JobState:
    """
    What the job has remembered, or a new one; the targets exist then.

    @raise JobFailed: the target is not empty, or something else was begun before.
    """
    files, path = RealFiles(), PurePath(options.state)
    targets = {options.target(topic): count for topic, count in plan.partitions.items()}
    asked = {"archive": plan.archive_id, "target": ", ".join(sorted(targets))}
    state = read_state(files, path)
    if state is not None:
        same_request(state, "replay", asked, path)
        return state
    with KafkaClient(options.settings) as client:
        state = prepare(client, "replay", asked, targets, {}, options.appends, config=options.config)
    write_state(files, path, state)
    return state


def left(options: ReplayOptions, plan: ReplayPlan, state: JobState) -> int:
    """How many records are not there yet."""
    with KafkaClient(options.settings) as client:
        return sum(
            max(0, each.records - reached(client, _destination(each, state), state.producer).records)
            for each in plan.sources
        )


def _destination(source: Archived, state: JobState) -> Destination:
    return state.destination(source.target, source.partition)


def replay(
    tasks: Tasks,
    options: ReplayOptions,
    plan: ReplayPlan,
    state: JobState,
    now_ms: int,
    advance: Advance = id,
) -> list[Delivered]:
    """Send everything that is not there yet; C{advance} hears of records."""
    share = max(1, min(len(plan.sources), tasks.parallelism))
    jobs = [
        ReplayTask(
            plan.root,
            each,
            _destination(each, state),
            state.producer,
            options.settings,
            options.codec,
            _share(options.records_per_second, share),
            _share(options.bytes_per_second, share),
            now_ms,
        )
        for each in plan.sources
    ]
    watch = EndsWatch(options.settings, [each.destination for each in jobs])
    return tasks.run("replay", jobs, replay_partition, _weight, advance, watch)


def _weight(task: ReplayTask) -> int:
    return task.source.records


def _share(rate: float | None, tasks: int) -> float | None:
    return None if rate is None else rate / tasks
