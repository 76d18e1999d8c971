"""
Looks at a data directory from outside: reads everything, trusts nothing, changes nothing.

It may be in use by a broker at that moment.  So what is at the end of a log may not be complete yet, and
files may vanish because their time has come; neither is damage.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import PurePath
from typing import Union
from uuid import UUID

from attrs import frozen

from rustlog.errors import StartupError
from rustlog.interfaces import IFile, IFiles
from rustlog.log.batch import RecordBatch
from rustlog.model import CONSUMER_OFFSETS, TopicInfo, TopicPartition
from rustlog.storage.datadir import CONVERTIBLE, FORMAT, LOGS, MINIKAFKA, SEGMENTS, STATE, read_format
from rustlog.storage.documents import DamagedDocument, read_document
from rustlog.storage.minikafka.layout import RecordLayout
from rustlog.storage.segments.checkpoint import Checkpoint
from rustlog.storage.segments.files import LOG_SUFFIX, base_offsets, segment_path
from rustlog.storage.segments.layout import BATCHES, Layout
from rustlog.storage.segments.reading import Damage
from rustlog.storage.segments.walking import EXAMINED_BYTES_MAX
from rustlog.storage.topicdocuments import CHECKPOINTS, SUFFIX, TOPICS, topic_from_members


@frozen
class Problem:
    """
    Something that is not as it should be.

    @ivar is_damage: what was written is not there any more; otherwise the broker will deal with it.
    """

    path: PurePath
    message: str
    position: int | None = None
    is_damage: bool = True

    def __str__(self) -> str:
        place = self.path if self.position is None else f"{self.path} at {self.position}"
        return f"{place}: {self.message}"


@frozen
class StoredBatch:
    """A batch, where it was found, and how many bytes it has there."""

    segment: int
    path: PurePath
    position: int
    size: int
    batch: RecordBatch


@frozen
class StoredPartition:
    """A partition on disk; C{checkpoint} is where its recovery would begin."""

    name: TopicPartition
    directory: PurePath
    checkpoint: Checkpoint | None
    layout: Layout = BATCHES

    @property
    def log_start_offset(self) -> int:
        return self.checkpoint.log_start_offset if self.checkpoint is not None else 0


Found = Union[StoredBatch, Problem]

_TORN = "the last {} bytes are no whole batch; the broker completes it, or cuts it off when it starts"

# -- the directory -----------------------------------------------------------------


def check_format(files: IFiles, root: PurePath) -> str:
    """
    See whether it can be read here at all, and by which store.  What MiniKafka left does not say so.

    @raise StartupError: with a sentence that says why not.
    """
    found = read_format(files, root)
    if found is None:
        if not files.exists(root / STATE) and _has_logs(files, root):
            return MINIKAFKA
        raise StartupError(f"{root} is not a data directory: there is no file {FORMAT} in it")
    name = found.get("format")
    if name not in CONVERTIBLE:
        raise StartupError(f"{root} was written by the store {name!r}, not by {' or '.join(CONVERTIBLE)}")
    return str(name)


def _has_logs(files: IFiles, root: PurePath) -> bool:
    return any(count_partitions(files, root / LOGS / name) for name in files.names(root / LOGS))


def find_topics(files: IFiles, root: PurePath, format_name: str = SEGMENTS) -> Iterator[TopicInfo | Problem]:
    """All topics, and what is wrong with their documents."""
    found = list(_find_documents(files, root))
    yield from found
    if format_name == MINIKAFKA:
        known = {each.name for each in found if isinstance(each, TopicInfo)}
        for name in files.names(root / LOGS):
            partitions = count_partitions(files, root / LOGS / name)
            if name not in known and partitions:
                yield TopicInfo(UUID(int=0), name, partitions, internal=name == CONSUMER_OFFSETS)


def _find_documents(files: IFiles, root: PurePath) -> Iterator[TopicInfo | Problem]:
    for name in files.names(root / TOPICS):
        path = root / TOPICS / name
        if name.endswith(SUFFIX):
            members = _read(files, path)
            if isinstance(members, Problem):
                yield members
            elif members is not None:
                yield _topic(members, path)


def _topic(members: dict[str, object], path: PurePath) -> TopicInfo | Problem:
    try:
        return topic_from_members(members, path)
    except StartupError as error:
        return Problem(path, str(error))


def count_partitions(files: IFiles, directory: PurePath) -> int:
    """How many partitions a topic has, by the names of their directories; 0 if it is none."""
    try:
        names = files.names(directory)
    except NotADirectoryError:
        return 0
    return max((int(name) + 1 for name in names if name.isascii() and name.isdigit()), default=0)


def find_partitions(
    files: IFiles, root: PurePath, topic: TopicInfo, format_name: str = SEGMENTS
) -> Iterator[StoredPartition | Problem]:
    """The partitions of a topic, and what is wrong with their checkpoints."""
    for index in range(topic.partitions):
        aside = root / CHECKPOINTS / str(topic.id)
        path = aside / f"{index}{SUFFIX}"
        members, checkpoint = _read(files, path), None
        if isinstance(members, Problem):
            yield members
        elif members is not None:
            checkpoint = Checkpoint.from_document(members)
        directory = root / LOGS / topic.name / str(index)
        layout: Layout = RecordLayout(aside, index) if format_name == MINIKAFKA else BATCHES
        yield StoredPartition(TopicPartition(topic.name, index), directory, checkpoint, layout)


def find_strangers(files: IFiles, root: PurePath, topics: set[str]) -> Iterator[Problem]:
    """A bad state, and logs that belong to no topic."""
    if not files.exists(root / FORMAT):
        return  # MiniKafka knows neither.
    state = _read(files, root / STATE)
    if isinstance(state, Problem):
        yield state
    elif state is None and topics:
        yield Problem(root / STATE, "it is missing; restore it from a backup")
    for name in files.names(root / LOGS):
        if name not in topics:
            message = "it belongs to no topic; the broker puts it aside"
            yield Problem(root / LOGS / name, message, is_damage=False)


def _read(files: IFiles, path: PurePath) -> dict[str, object] | Problem | None:
    try:
        return read_document(files, path)
    except FileNotFoundError:
        return None  # It was there a moment ago.
    except DamagedDocument as damage:
        return Problem(path, str(damage).removeprefix(f"{path} "))


# -- a partition -------------------------------------------------------------------


def segments_of(files: IFiles, partition: StoredPartition) -> list[int]:
    """The base offsets of its segments, without those that a retention has begun to remove."""
    bases = base_offsets(files.names(partition.directory))
    while len(bases) > 1 and bases[1] <= partition.log_start_offset:
        del bases[0]
    return bases


def walk(files: IFiles, partition: StoredPartition, bases: list[int]) -> Iterator[Found]:
    """Every batch of some segments of a partition, and every problem, in the order of the log."""
    end: int | None = None
    for base in bases:
        yield from misplaced(partition, base, end)
        end = yield from walk_segment(files, partition, base, is_last=base == bases[-1])
    if end is not None or not bases:
        yield from missing_tail(partition, end)


def misplaced(partition: StoredPartition, base: int, end: int | None) -> Iterator[Problem]:
    """A segment that does not begin where the one before it ends; C{None}: nobody knows where that is."""
    if end is not None and end != base:
        path = segment_path(partition.directory, base, LOG_SUFFIX)
        yield Problem(path, f"it begins at offset {base}, but the segment before ends at {end}", 0)


def missing_tail(partition: StoredPartition, end: int | None) -> Iterator[Problem]:
    """What was there once, and would not be missed otherwise: the log just ends."""
    checkpoint = partition.checkpoint
    if checkpoint is None or checkpoint.next_offset == checkpoint.log_start_offset:
        return
    if end is None or end < checkpoint.next_offset:
        message = f"the log ends at offset {end or 0}, but it has been at {checkpoint.next_offset}"
        yield Problem(partition.directory, message)


def walk_segment(
    files: IFiles, partition: StoredPartition, base: int, is_last: bool
) -> Generator[Found, None, int | None]:
    """
    Every batch of one segment, and what is wrong with it.

    @param is_last: it may be written to at this moment.
    @return: the offset at which it ends, or C{None} if that can not be known.
    """
    path = segment_path(partition.directory, base, LOG_SUFFIX)
    try:
        file = files.open(path)
    except FileNotFoundError:
        return None  # Retention was here.
    try:
        return (yield from _walk_file(file, partition, path, base, is_last))
    finally:
        file.close()


def _walk_file(
    file: IFile, partition: StoredPartition, path: PurePath, base: int, is_last: bool
) -> Generator[Found, None, int | None]:
    size, end, epoch = file.size, base, 0
    try:
        for position, stored, batch in partition.layout.checked(file.read, 0, size, base):
            if batch.leader_epoch < epoch:
                # Epochs lie outside the checksum: that they only grow is what guards them.
                raise Damage(position, f"leader epoch {batch.leader_epoch} follows {epoch}")
            yield StoredBatch(base, path, position, stored, batch)
            end, epoch = batch.next_offset, batch.leader_epoch
    except Damage as damage:
        may_be_torn = is_last and damage.position >= _synced(partition, base)
        if may_be_torn and _is_torn(partition, file, damage, size, end):
            yield Problem(path, _TORN.format(size - damage.position), damage.position, is_damage=False)
            return end
        yield Problem(path, f"{damage.reason} (offset {end})", damage.position)
        return None
    return end


def _synced(partition: StoredPartition, base: int) -> int:
    """Up to where nothing of a segment can be torn."""
    checkpoint = partition.checkpoint
    return checkpoint.position if checkpoint is not None and checkpoint.segment == base else 0


def _is_torn(partition: StoredPartition, file: IFile, damage: Damage, size: int, end: int) -> bool:
    rest: bytes = file.read(damage.position, min(size - damage.position, EXAMINED_BYTES_MAX))
    return not partition.layout.another_follows(rest, end)
