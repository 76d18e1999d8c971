"""
L{TopicFiles}: the topics of a data directory, and how one is deleted without a doubt.

    <data-dir>/topics/<topic>.json                 id, partition count, settings
    <data-dir>/checkpoints/<topic id>/<n>.json     what a store remembers of a partition
    <data-dir>/logs/<topic>/<n>/                   the partitions' own files
    <data-dir>/trash/<topic id>.json, <topic id>/  deleted topics, on their way out
    <data-dir>/damaged/                            logs that belong to no topic

A topic is deleted at the moment when its document is in the trash.  Its files follow at
once, so that a new topic of that name finds none, and are removed later, step by step.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any
from uuid import UUID

from attrs import define
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from rustlog.errors import StartupError, StorageFailed
from rustlog.interfaces import IFiles, IWorkers
from rustlog.model import TopicInfo
from rustlog.storage.datadir import LOGS, DataDirectory, remove_temporaries
from rustlog.storage.documentwriter import DocumentWriter
from rustlog.storage.topicdocuments import (
    CHECKPOINTS,
    DAMAGED,
    SUFFIX,
    TOPICS,
    TRASH,
    topic_from_members,
    topic_to_members,
)


@define(eq=False)
class DeletionUncertain(StorageFailed):
    """It may or may not be deleted after the next start: nothing can be promised of the topic."""

    topic: str
    reason: str

    def __str__(self) -> str:
        return f"deleting {self.topic} failed, and could not be undone: {self.reason}"


@define(eq=False)
class TopicFiles:
    """A L{Journal <rustlog.storage.catalog.Journal>} of files."""

    _files: IFiles
    _workers: IWorkers
    _writer: DocumentWriter
    _root: PurePath

    _log = Logger()

    # -- names --

    def partition_directory(self, topic: str, index: int) -> PurePath:
        """Where a partition has its files."""
        return self._logs(topic) / str(index)

    def checkpoint_path(self, topic_id: UUID, index: int) -> PurePath:
        """Where the checkpoint of a partition is."""
        return self._checkpoints(topic_id) / f"{index}{SUFFIX}"

    def _document(self, topic: str) -> PurePath:
        return self._root / TOPICS / f"{topic}{SUFFIX}"

    def _logs(self, topic: str) -> PurePath:
        return self._root / LOGS / topic

    def _checkpoints(self, topic_id: UUID | str) -> PurePath:
        return self._root / CHECKPOINTS / str(topic_id)

    def _trashed_document(self, topic_id: UUID) -> PurePath:
        return self._root / TRASH / f"{topic_id}{SUFFIX}"

    def _trashed_logs(self, topic_id: UUID) -> PurePath:
        return self._root / TRASH / str(topic_id)

    # -- at the start --

    def read(self, directory: DataDirectory, *, puts_strangers_aside: bool = True) -> list[TopicInfo]:
        """
        All topics, after what a crash left undone has been done.  Blocks.

        @param puts_strangers_aside: whether logs that belong to no topic are moved out of the way.
        """
        for name in (TOPICS, TRASH):
            remove_temporaries(self._files, self._root / name)
        self._finish_deletions(directory)
        names = self._files.names(self._root / TOPICS)
        topics = [self._read_topic(directory, name) for name in names if name.endswith(SUFFIX)]
        if puts_strangers_aside:
            self._put_strangers_aside({topic.name for topic in topics})
        return topics

    def _read_topic(self, directory: DataDirectory, file_name: str) -> TopicInfo:
        path = self._root / TOPICS / file_name
        topic = topic_from_members(directory.read(path) or {}, path)
        if f"{topic.name}{SUFFIX}" != file_name:
            raise StartupError(f"{path} describes the topic {topic.name!r}; restore it from a backup")
        return topic

    def _finish_deletions(self, directory: DataDirectory) -> None:
        for name in self._files.names(self._root / TRASH):
            if name.endswith(SUFFIX):
                path = self._root / TRASH / name
                self._finish_deletion(topic_from_members(directory.read(path) or {}, path))

    def _finish_deletion(self, topic: TopicInfo) -> None:
        files = self._files
        successor = files.exists(self._document(topic.name))
        if not successor and files.exists(self._logs(topic.name)):
            self._move(self._logs(topic.name), self._trashed_logs(topic.id))

    def _put_strangers_aside(self, topics: set[str]) -> None:
        for name in self._files.names(self._root / LOGS):
            if name not in topics:
                target = self._unused_name(self._root / DAMAGED / name)
                self._log.error(
                    "{path} belongs to no topic; it is in {target} now",
                    path=str(self._logs(name)), target=str(target),
                )  # fmt: skip
                self._move(self._logs(name), target)

    def _unused_name(self, path: PurePath) -> PurePath:
        number, candidate = 0, path
        while self._files.exists(candidate):
            number += 1
            candidate = path.with_name(f"{path.name}~{number}")
        return candidate

    # -- changes --

    def save(self, info: TopicInfo) -> Deferred[None]:
        return self._writer.write(self._document(info.name), topic_to_members(info))

    def documents(self, topics: Iterable[TopicInfo]) -> dict[PurePath, dict[str, Any]]:
        """The documents of topics, for L{write_documents <rustlog.storage.documents.write_documents>}."""
        return {self._document(info.name): topic_to_members(info) for info in topics}

    def remove(self, info: TopicInfo) -> Deferred[None]:
        """
        Fails with L{DeletionUncertain} when nobody can know any more, and with another error when
        all is as before.
        """
        self._writer.forget(self._checkpoints(info.id))
        return self._workers.run(self._remove, info)

    def _remove(self, info: TopicInfo) -> None:
        try:
            self._move(self._document(info.name), self._trashed_document(info.id))
            if self._files.exists(self._logs(info.name)):
                self._move(self._logs(info.name), self._trashed_logs(info.id))
        except OSError as error:
            self._restore(info, error)
            raise StorageFailed(f"deleting {info.name} failed: {error}") from error

    def _restore(self, info: TopicInfo, cause: OSError) -> None:
        """
        Bring back what was moved.  It has to be durable: if the deletion were completed
        by the next start, it would take with it what is appended from now on.
        """
        files = self._files
        try:
            for old, new in (
                (self._trashed_logs(info.id), self._logs(info.name)),
                (self._trashed_document(info.id), self._document(info.name)),
            ):
                if files.exists(old):
                    files.rename(old, new)
                files.sync_directory(new.parent)
                files.sync_directory(old.parent)
        except OSError as error:
            raise DeletionUncertain(info.name, f"{cause}; {error}") from error

    def _move(self, old: PurePath, new: PurePath) -> None:
        files = self._files
        files.make_directory(new.parent)
        files.sync_directory(new.parent.parent)
        files.rename(old, new)
        # First the new name: in between, two are better than none.
        files.sync_directory(new.parent)
        files.sync_directory(old.parent)

    # -- the trash --

    def empty_trash(self, count_max: int) -> bool:
        """Remove so many files of deleted topics at most; whether there are more.  Blocks."""
        left = count_max
        for name in self._files.names(self._root / TRASH):
            topic_id = name.removesuffix(SUFFIX)
            left = self._remove_two_levels(self._root / TRASH / topic_id, left)
            left = self._remove_files(self._checkpoints(topic_id), left)
            if left <= 0:
                return True
            document = self._root / TRASH / f"{topic_id}{SUFFIX}"
            if self._files.exists(document):
                self._files.unlink(document)
        return False

    def _remove_two_levels(self, directory: PurePath, count_max: int) -> int:
        left = count_max
        for name in self._files.names(directory):
            left = self._remove_files(directory / name, left)
            if left <= 0:
                return 0
        if self._files.exists(directory):
            self._files.remove_directory(directory)
        return left

    def _remove_files(self, directory: PurePath, count_max: int) -> int:
        """Remove a directory of files, but no more than C{count_max} of them; how many might be."""
        names = self._files.names(directory)
        for name in names[:count_max]:
            self._files.unlink(directory / name)
        if len(names) < count_max and self._files.exists(directory):
            self._files.remove_directory(directory)
        return max(0, count_max - len(names))
