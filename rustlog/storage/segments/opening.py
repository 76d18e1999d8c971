"""
Opening a data directory: lock, recover, repair, and say what is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

import attrs
from attrs import frozen
from twisted.logger import Logger

from rustlog.environment import Environment
from rustlog.errors import StartupError
from rustlog.interfaces import IFiles
from rustlog.model import SyncPolicy, TopicInfo, TopicPartition
from rustlog.settings import TopicConfig, with_overrides
from rustlog.storage.datadir import LOGS, SEGMENTS, DataDirectory, StoreState
from rustlog.storage.documents import DamagedDocument, read_document
from rustlog.storage.documentwriter import DocumentWriter
from rustlog.storage.handles import Handle, Handles
from rustlog.storage.segments.checkpoint import Checkpoint
from rustlog.storage.segments.partition import Recovered
from rustlog.storage.segments.recovery import Surroundings, recover
from rustlog.storage.topicdocuments import CHECKPOINTS, DAMAGED, TOPICS, TRASH
from rustlog.storage.topicfiles import TopicFiles

FORMAT_NAME = SEGMENTS
FORMAT_VERSION = 1

_SYNCED_AT_ONCE = 100
_log = Logger()


@frozen
class SegmentsSettings:
    """What the broker tells this store."""

    data_dir: PurePath
    sync: SyncPolicy = attrs.field(factory=SyncPolicy)
    topic_defaults: TopicConfig = attrs.field(factory=TopicConfig)
    producer_id_expiration_ms: int = 24 * 3600 * 1000


@frozen
class Opened:
    """A data directory in memory; C{recovered} has the partitions of each topic in their order."""

    directory: DataDirectory
    state: StoreState
    handles: Handles
    topics: list[TopicInfo]
    recovered: dict[str, list[Recovered]]


def open_directory(settings: SegmentsSettings, environment: Environment) -> Opened:
    """
    Do all of it.  Blocks.

    @raise StartupError: with one sentence that says why not.
    """
    root = settings.data_dir
    try:
        directory = DataDirectory.claim(environment.files, root, FORMAT_NAME, FORMAT_VERSION)
        handles = Handles(environment.files, environment.files.handles_max())
        try:
            return _load(settings, environment, directory, handles)
        except BaseException:
            handles.close()
            directory.release()
            raise
    except OSError as error:
        raise StartupError(f"cannot open the data directory {root}: {error}") from error


def _load(
    settings: SegmentsSettings, environment: Environment, directory: DataDirectory, handles: Handles
) -> Opened:
    files = environment.files
    writer = DocumentWriter(files, environment.workers)
    topic_files = TopicFiles(files, environment.workers, writer, settings.data_dir)
    topics = topic_files.read(directory)
    state = directory.read_state(is_empty=not topics)
    recovered = {
        topic.name: list(_recover_topic(settings, environment, handles, topic_files, topic, state))
        for topic in topics
    }
    everything = [each for partitions in recovered.values() for each in partitions]
    sync_checked(files, settings.data_dir, everything)
    if state.may_have_lost_a_tail or any(each.lost for each in everything):
        state = attrs.evolve(state, leader_epoch=state.leader_epoch + 1)
    report(settings.data_dir, state, everything)
    state = begin_state(files, directory, state, settings.sync)
    return Opened(directory, state, handles, topics, recovered)


def report(root: PurePath, state: StoreState, recovered: list[Recovered]) -> None:
    """Say what recovery had to do, if it had to do anything."""
    if not state.clean or any(each.checked_bytes for each in recovered):
        _log.info(
            "recovered {data_dir}: checked {size} bytes in {count} partitions, leader epoch {epoch}",
            data_dir=str(root),
            size=sum(each.checked_bytes for each in recovered),
            count=len(recovered),
            epoch=state.leader_epoch,
        )


def begin_state(
    files: IFiles, directory: DataDirectory, state: StoreState, sync: SyncPolicy
) -> StoreState:
    """From now on the store is in use."""
    for name in (LOGS, TOPICS, CHECKPOINTS, TRASH):
        files.make_directory(directory.root / name)
    state = attrs.evolve(state, clean=False, sync=str(sync))
    directory.write_state(state)  # Durable, and with it the other names in the directory.
    return state


def _recover_topic(
    settings: SegmentsSettings,
    environment: Environment,
    handles: Handles,
    topic_files: TopicFiles,
    topic: TopicInfo,
    state: StoreState,
) -> Iterator[Recovered]:
    around = Surroundings(
        files=environment.files,
        handles=handles,
        damaged=settings.data_dir / DAMAGED,
        now_ms=environment.wall.now_ms(),
        leader_epoch=state.leader_epoch,
        index_interval=with_overrides(settings.topic_defaults, topic.config).index_interval_bytes,
    )
    for index in range(topic.partitions):
        checkpoint = read_checkpoint(environment.files, topic_files.checkpoint_path(topic.id, index))
        directory = topic_files.partition_directory(topic.name, index)
        yield recover(around, TopicPartition(topic.name, index), directory, checkpoint)


def read_checkpoint(files: IFiles, path: PurePath) -> Checkpoint | None:
    """A checkpoint, if there is a good one: without, more has to be read."""
    try:
        members = read_document(files, path)
        return None if members is None else Checkpoint.from_document(members)
    except (DamagedDocument, TypeError) as problem:
        _log.error("the whole log is checked, {path} is useless: {problem}", path=path, problem=problem)
        return None


def sync_checked(files: IFiles, root: PurePath, recovered: list[Recovered]) -> None:
    """
    Make durable what was found behind the checkpoints: written, but perhaps never synced, it
    will be shown to readers from now on.
    """
    directories: dict[PurePath, None] = {}
    handles: list[Handle] = []
    for each in recovered:
        if each.checked_bytes == 0 and len(each.checked) < 2:
            continue
        for segment in each.checked:
            handles.append(segment.log)
            if segment is not each.checked[-1]:
                handles += (segment.offsets.handle, segment.times.handle)
        directory = each.checked[-1].log.path.parent
        directories.update(dict.fromkeys((directory, directory.parent)))
    for start in range(0, len(handles), _SYNCED_AT_ONCE):
        sync_handles(files, handles[start : start + _SYNCED_AT_ONCE])
    if directories:
        for path in (*directories, root / LOGS, root):
            files.sync_directory(path)


def sync_handles(files: IFiles, handles: list[Handle]) -> None:
    """Make some files durable, at once.  Blocks."""
    opened = [handle.lease() for handle in handles]
    try:
        for error in files.sync_many(opened).values():
            raise error
    finally:
        for handle in handles:
            handle.release()
