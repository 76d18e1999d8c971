"""
Data directories, read without a broker.

A broker may be at work on one at that moment.  So the end of a log may not be complete yet, and files may
vanish because their time has come.
"""

from __future__ import annotations

from attrs import frozen

from rustlog.model import MAX_OFFSET, TopicInfo
from rustlog.spark.ranges import Range

RANGE_BYTES = 64 * 1024 * 1024


@frozen
class Segment:
    """
    One file of a partition.

    @ivar is_sealed: another one follows it, so that it never changes any more.
    """

    path: str
    base_offset: int
    size: int
    is_sealed: bool


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
        self.format = ""
        raise NotImplementedError

    def topics(self) -> list[TopicInfo]:
        """All topics, by name."""
        raise NotImplementedError

    def topic(self, name: str) -> TopicInfo:
        """
        One of them.

        @raise TopicNotFound: there is none of that name.
        """
        raise NotImplementedError

    def partition(self, topic: TopicInfo, partition: int) -> StoredPartition:
        """One partition of a topic; without segments if nothing was ever written to it."""
        raise NotImplementedError

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
        raise NotImplementedError
