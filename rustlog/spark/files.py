"""
Data directories, read without a broker.

A broker may be at work on one at that moment.  So the end of a log may not be complete yet, and files may
vanish because their time has come.
"""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Any
from uuid import UUID

from attrs import frozen

from rustlog.errors import StartupError
from rustlog.model import CONSUMER_OFFSETS, MAX_OFFSET, TopicInfo
from rustlog.spark.errors import NoDataDirectory, TopicNotFound
from rustlog.spark.layouts import LAYOUTS
from rustlog.spark.ranges import Range
from rustlog.spark.segmenting import Segment, split_segment
from rustlog.storage.datadir import FORMAT, LOGS, MINIKAFKA, STATE
from rustlog.storage.documents import DamagedDocument, decode_document
from rustlog.storage.segments.checkpoint import Checkpoint
from rustlog.storage.segments.files import LOG_SUFFIX, base_offsets, segment_path
from rustlog.storage.topicdocuments import CHECKPOINTS, SUFFIX, TOPICS, topic_from_members

RANGE_BYTES = 64 * 1024 * 1024


@frozen
class StoredPartition:
    """
    A partition in files.

    @ivar log_start_offset: what is before it was deleted, though it may still be in the files.
    """

    topic: str
    partition: int
    log_start_offset: int
    segments: tuple[Segment, ...]

    @property
    def size(self) -> int:
        """Bytes of log."""
        return sum(each.size for each in self.segments)


class DataDirectory:
    """
    A data directory of the store C{segments} or C{minikafka}.

    @ivar format: which of them.
    @raise NoDataDirectory: it is none.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._root = Path(path)
        self.format = self._find_format()

    def topics(self) -> list[TopicInfo]:
        """All topics, by name."""
        found = {}
        for path in sorted((self._root / TOPICS).glob(f"*{SUFFIX}")):
            members = self._read(path)
            if members is not None:
                found[path.name.removesuffix(SUFFIX)] = self._topic(path, members)
        if self.format == MINIKAFKA:
            for name, partitions in self._without_documents().items():
                internal = name == CONSUMER_OFFSETS
                found.setdefault(name, TopicInfo(UUID(int=0), name, partitions, internal=internal))
        return [found[name] for name in sorted(found)]

    def topic(self, name: str) -> TopicInfo:
        """
        One of them.

        @raise TopicNotFound: there is none of that name.
        """
        for each in self.topics():
            if each.name == name:
                return each
        raise TopicNotFound(f"{name} in {self.path}")

    def partition(self, topic: TopicInfo, partition: int) -> StoredPartition:
        """One partition of a topic; without segments if nothing was ever written to it."""
        checkpoint = self._read(self._root / CHECKPOINTS / str(topic.id) / f"{partition}{SUFFIX}")
        start = Checkpoint.from_document(checkpoint).log_start_offset if checkpoint is not None else 0
        directory = self._root / LOGS / topic.name / str(partition)
        bases = base_offsets([each.name for each in directory.glob(f"*{LOG_SUFFIX}")])
        while len(bases) > 1 and bases[1] <= start:
            del bases[0]  # A retention has begun to remove it.
        segments = []
        for base, following in zip_longest(bases, bases[1:]):
            path = Path(segment_path(directory, base, LOG_SUFFIX))
            try:
                segments.append(Segment(str(path), base, path.stat().st_size, following))
            except FileNotFoundError:
                segments.clear()  # Retention was here, which begins at the beginning.
        start = max(start, segments[0].base_offset) if segments else start
        return StoredPartition(topic.name, partition, start, tuple(segments))

    def ranges(
        self,
        topic: TopicInfo,
        partition: int,
        *,
        from_offset: int = 0,
        to_offset: int = MAX_OFFSET,
        range_bytes: int = RANGE_BYTES,
        sealed_only: bool = False,
    ) -> list[Range]:
        """
        The partition in pieces of about C{range_bytes}, in the order of the log, without gaps; found by
        the index, without reading the log.  What the broker has deleted is not in them.

        @param sealed_only: leave out the file that may still grow; otherwise it is taken up to its last whole
            batch.
        @raise CorruptLog: the end of the last file is not the end of a log.
        """
        stored = self.partition(topic, partition)
        wanted = Range(
            topic.name, partition, self.format, path="", position=0, size=0, base_offset=0, next_offset=0,
            from_offset=max(from_offset, stored.log_start_offset), to_offset=to_offset,
        )  # fmt: skip
        aside, layout = self._root / CHECKPOINTS / str(topic.id), LAYOUTS[self.format]
        found: list[Range] = []
        for segment in stored.segments:
            if sealed_only and not segment.is_sealed:
                continue
            index = Path(layout.index_path(Path(segment.path), aside, partition))
            found += split_segment(segment, index, wanted, range_bytes)
        return found

    # -- the directory --

    def _find_format(self) -> str:
        if not self._root.is_dir():
            raise NoDataDirectory(self.path, "there is no such directory")
        members = self._read(self._root / FORMAT)
        if members is None:
            if not (self._root / STATE).exists() and self._without_documents():
                return MINIKAFKA  # It does not say so itself.
            raise NoDataDirectory(self.path, f"it is not a data directory: there is no file {FORMAT} in it")
        name, version = members.get("format"), members.get("version")
        if name not in LAYOUTS or version != 1:
            reason = f"it was written by the store {name!r}, version {version}"
            raise NoDataDirectory(self.path, f"{reason}, which can not be read here")
        return str(name)

    def _without_documents(self) -> dict[str, int]:
        """What has logs, and how many partitions: MiniKafka writes nothing else."""
        found = {}
        for directory in (self._root / LOGS).glob("*/"):
            names = [each.name for each in directory.iterdir()]
            numbers = [int(name) for name in names if name.isascii() and name.isdigit()]
            if numbers:
                found[directory.name] = max(numbers) + 1
        return found

    def _topic(self, path: Path, members: dict[str, Any]) -> TopicInfo:
        try:
            return topic_from_members(members, path)
        except StartupError as error:
            raise NoDataDirectory(self.path, str(error)) from None

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            return decode_document(path, path.read_bytes())
        except FileNotFoundError:
            return None
        except DamagedDocument as damage:
            raise NoDataDirectory(self.path, str(damage)) from None
