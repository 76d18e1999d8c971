"""
Opening a data directory of MiniKafka's, or one that this store has written.

What MiniKafka left is taken as it is: nothing in C{logs/} is changed, but for a record at the very end that
was never completed.  Marker, topics and checkpoints are added beside, the marker last: as long as it is
missing, all of this can be done again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

import attrs
from attrs import field, frozen
from attrs.validators import ge
from twisted.logger import Logger

from rustlog.environment import Environment
from rustlog.errors import StartupError
from rustlog.model import CONSUMER_OFFSETS, SyncPolicy, TopicInfo, TopicPartition, topic_name_problem
from rustlog.settings import UNLIMITED, TopicConfig, with_overrides
from rustlog.storage.datadir import LOGS, MINIKAFKA, DataDirectory, StoreState
from rustlog.storage.documents import write_documents
from rustlog.storage.documentwriter import DocumentWriter
from rustlog.storage.handles import Handles
from rustlog.storage.minikafka.format import HEADER_BYTES
from rustlog.storage.minikafka.journal import journals
from rustlog.storage.minikafka.layout import RecordLayout
from rustlog.storage.minikafka.recovery import recover
from rustlog.storage.segments.checkpoint import Checkpoint
from rustlog.storage.segments.files import LOG_SUFFIX, base_offsets, segment_path
from rustlog.storage.segments.inspection import count_partitions
from rustlog.storage.segments.opening import (
    Opened,
    begin_state,
    read_checkpoint,
    report,
    sync_checked,
    sync_handles,
)
from rustlog.storage.segments.partition import Recovered, make_checkpoint
from rustlog.storage.segments.recovery import Surroundings
from rustlog.storage.topicdocuments import DAMAGED
from rustlog.storage.topicfiles import TopicFiles

FORMAT_NAME = MINIKAFKA
FORMAT_VERSION = 1

SEGMENT_BYTES = 100 * 1024 * 1024
SEGMENTS_KEPT = 10

ADOPTED_CONFIG = {"retention.ms": str(UNLIMITED)}
"""MiniKafka keeps records however old they are; so topics that come from it keep doing so."""

_DOCUMENTS_AT_ONCE = 100
_log = Logger()


@frozen
class MiniKafkaSettings:
    """What the broker tells this store, and what is set for it."""

    data_dir: PurePath
    sync: SyncPolicy = field(factory=SyncPolicy)
    topic_defaults: TopicConfig = field(factory=TopicConfig)
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    segment_bytes: int = field(default=SEGMENT_BYTES, validator=ge(1))
    segments_kept: int = field(default=SEGMENTS_KEPT, validator=ge(1))


def open_directory(settings: MiniKafkaSettings, environment: Environment) -> Opened:
    """
    Do all of it.  Blocks.

    @raise StartupError: with one sentence that says why not.
    """
    root, files = settings.data_dir, environment.files
    try:
        directory = DataDirectory.claim(files, root, FORMAT_NAME, FORMAT_VERSION, accepts_unmarked=True)
        handles = Handles(files, files.handles_max())
        try:
            return _Opening(settings, environment, directory, handles).run()
        except BaseException:
            handles.close()
            directory.release()
            raise
    except OSError as error:
        raise StartupError(f"cannot open the data directory {root}: {error}") from error


class _Opening:
    """The opening of one directory."""

    def __init__(
        self,
        settings: MiniKafkaSettings,
        environment: Environment,
        directory: DataDirectory,
        handles: Handles,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._files = environment.files
        self._root = settings.data_dir
        self._directory = directory
        self._handles = handles
        writer = DocumentWriter(environment.files, environment.workers)
        self._topic_files = TopicFiles(environment.files, environment.workers, writer, self._root)

    def run(self) -> Opened:
        directory = self._directory
        known = self._topic_files.read(directory, puts_strangers_aside=False)
        state = directory.read_state(is_empty=not known or not directory.is_marked)
        adopted = list(self._foreign(known))
        self._check_adopted(adopted)
        topics = [each for each in known if each.name not in {info.name for info in adopted}] + adopted
        recovered = self._recover_all(topics, {each.name: each.partitions for each in known}, state)
        everything = [each for partitions in recovered.values() for each in partitions]
        sync_checked(self._files, self._root, everything)
        if state.may_have_lost_a_tail or any(each.lost for each in everything):
            state = attrs.evolve(state, leader_epoch=state.leader_epoch + 1)
        recovered = {topic.name: self._remember(topic, recovered[topic.name]) for topic in topics}
        self._adopt(adopted)
        report(self._root, state, everything)
        state = begin_state(self._files, directory, state, self._settings.sync)
        if not directory.is_marked:
            directory.mark()
        return Opened(directory, state, self._handles, topics, recovered)

    # -- what MiniKafka left --

    def _foreign(self, known: list[TopicInfo]) -> Iterator[TopicInfo]:
        """The topics in C{logs/} that are not known, or have more partitions than is known."""
        by_name = {topic.name: topic for topic in known}
        for name in self._files.names(self._root / LOGS):
            partitions = count_partitions(self._files, self._root / LOGS / name)
            topic = by_name.get(name)
            problem = topic_name_problem(name)
            if partitions and problem:
                _log.error("the topic {name!r} is not served: {problem}", name=name, problem=problem)
            elif partitions and topic is None:
                yield TopicInfo(
                    self._environment.random.uuid(), name, partitions,
                    dict(ADOPTED_CONFIG), internal=name == CONSUMER_OFFSETS,
                )  # fmt: skip
            elif topic is not None and partitions > topic.partitions:
                yield attrs.evolve(topic, partitions=partitions)

    def _check_adopted(self, adopted: list[TopicInfo]) -> None:
        """Nobody loses his log because he named the wrong directory, or did not know a setting."""
        for info in adopted if not self._directory.is_marked else ():
            for index in range(info.partitions):
                directory = self._topic_files.partition_directory(info.name, index)
                bases = base_offsets(self._files.names(directory))
                if not info.internal:
                    self._check_count(f"{info.name}-{index}", len(bases))
                for base in bases:
                    self._check_first_record(directory, base)

    def _check_count(self, name: str, count: int) -> None:
        kept = self._settings.segments_kept
        if count > kept:
            raise StartupError(
                f"{name} has {count} segments, and all but {kept} would be deleted; "
                f"say --set=minikafka.segments.kept={count} to keep them"
            )

    def _check_first_record(self, directory: PurePath, base: int) -> None:
        path = segment_path(directory, base, LOG_SUFFIX)
        file = self._files.open(path)
        try:
            content = file.read(0, HEADER_BYTES)
        finally:
            file.close()
        if len(content) == HEADER_BYTES:
            header = RecordLayout(directory, 0).header(content, 0, 0)
            if header is None or header.base_offset != base:
                raise StartupError(f"{path} does not begin with a record of MiniKafka's")

    def _adopt(self, adopted: list[TopicInfo]) -> None:
        for info in adopted:
            _log.info(
                "{name} is MiniKafka's: {count} partitions", name=info.name, count=info.partitions
            )
        self._write(self._topic_files.documents(adopted))

    # -- partitions --

    def _recover_all(
        self, topics: list[TopicInfo], known: dict[str, int], state: StoreState
    ) -> dict[str, list[Recovered]]:
        all_belongs = state.clean or not self._directory.is_marked
        return {
            topic.name: [
                self._recover(topic, index, state, all_belongs or index >= known.get(topic.name, 0))
                for index in range(topic.partitions)
            ]
            for topic in topics
        }

    def _recover(self, topic: TopicInfo, index: int, state: StoreState, belongs: bool) -> Recovered:
        settings, path = self._settings, self._topic_files.checkpoint_path(topic.id, index)
        around = Surroundings(
            files=self._files,
            handles=self._handles,
            damaged=self._root / DAMAGED,
            now_ms=self._environment.wall.now_ms(),
            leader_epoch=state.leader_epoch,
            index_interval=with_overrides(settings.topic_defaults, topic.config).index_interval_bytes,
        )
        self._files.make_directory(path.parent)
        directory = self._topic_files.partition_directory(topic.name, index)
        name, checkpoint = TopicPartition(topic.name, index), read_checkpoint(self._files, path)
        return recover(around, name, directory, checkpoint, path.parent, belongs)

    def _remember(self, topic: TopicInfo, recovered: list[Recovered]) -> list[Recovered]:
        """Write checkpoints of what has been found, so that the journals are not needed any more."""
        remembered = [
            attrs.evolve(each, checkpoint=self._checkpoint(each))
            if each.checkpoint is None or each.checkpoint.next_offset != each.log_end_offset
            else each
            for each in recovered
        ]
        self._write(
            {
                self._topic_files.checkpoint_path(topic.id, index): new.checkpoint.to_document()
                for index, (old, new) in enumerate(zip(recovered, remembered, strict=True))
                if new is not old and new.checkpoint is not None
            }
        )
        self._remove_journals(topic)
        return remembered

    def _checkpoint(self, recovered: Recovered) -> Checkpoint:
        start, end = recovered.log_start_offset, recovered.log_end_offset
        if not recovered.segments:
            return Checkpoint(segment=end, position=0, next_offset=end, log_start_offset=start)
        active = recovered.segments[-1]
        active.flush_indexes()
        sync_handles(self._files, [active.offsets.handle, active.times.handle])
        return make_checkpoint(active, end, start, recovered.epochs, recovered.producers)

    def _remove_journals(self, topic: TopicInfo) -> None:
        directory = self._topic_files.checkpoint_path(topic.id, 0).parent
        found = (journals(self._files, directory, index) for index in range(topic.partitions))
        paths = [path for each in found for path in each]
        for path in paths:
            self._files.unlink(path)
        if paths:
            self._files.sync_directory(directory)

    def _write(self, documents: dict[PurePath, dict[str, object]]) -> None:
        paths = list(documents)
        for start in range(0, len(paths), _DOCUMENTS_AT_ONCE):
            some = paths[start : start + _DOCUMENTS_AT_ONCE]
            write_documents(self._files, {path: documents[path] for path in some})
