"""
Finding the next message of a group, one at a time.

A batch of many records is taken apart once: what a session has not had of it yet is kept, as a L{Cursor}, and
so is the memory that it takes, which all sessions of a listener share.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from attrs import define, field
from twisted.internet.defer import inlineCallbacks

from rustlog.broker import Broker
from rustlog.errors import OffsetOutOfRange
from rustlog.log import records
from rustlog.log.batch import split_batches
from rustlog.model import (
    Committed,
    Fetched,
    FetchWant,
    Record,
    RequestContext,
    TopicInfo,
    TopicPartition,
)
from rustlog.results import deferred


@define(eq=False)
class Cursor:
    """
    A place within a batch.

    @ivar next_offset: of what has not been read yet, at least.
    @ivar size: the memory that it takes.
    """

    topic: TopicInfo
    partition: int
    next_offset: int
    size: int
    _records: Iterator[Record]

    def is_at(self, topic: TopicInfo, partition: int, offset: int) -> bool:
        """Whether it leads on from there."""
        return (self.topic.id, self.partition, self.next_offset) == (topic.id, partition, offset)

    def take(self) -> Record | None:
        """The next record, if there is one."""
        record = next(self._records, None)
        if record is not None:
            assert record.offset is not None
            self.next_offset = record.offset + 1
        return record


@define(eq=False)
class Cursors:
    """
    The cursors of all sessions, by their owners.  Together they take C{bytes_max} at most, or there is but
    one; who has not used his for the longest time loses it, and will read again.
    """

    _bytes_max: int
    _kept: OrderedDict[object, Cursor] = field(factory=OrderedDict, init=False)
    used: int = field(default=0, init=False)

    def keep(self, owner: object, cursor: Cursor) -> None:
        self.forget(owner)
        self._kept[owner] = cursor
        self.used += cursor.size
        while self.used > self._bytes_max and len(self._kept) > 1:
            self.forget(next(iter(self._kept)))

    def pop(self, owner: object) -> Cursor | None:
        cursor = self._kept.pop(owner, None)
        if cursor is not None:
            self.used -= cursor.size
        return cursor

    def forget(self, owner: object) -> None:
        self.pop(owner)


@define(eq=False)
class Reader:
    """
    Reads for one session.

    @ivar owner: the session.
    """

    _broker: Broker
    _cursors: Cursors
    owner: object

    @inlineCallbacks
    def next_message(
        self, context: RequestContext, topic: TopicInfo, group: str, partitions: list[int], end: int | None
    ) -> Any:
        """
        The first message behind what the group has committed, in the first partition that has one.

        @param end: the last offset that is wanted, if not all are.
        @return: partition and record; or C{None}, and whether C{end} has been reached everywhere.
        """
        names = [TopicPartition(topic.name, each) for each in partitions]
        committed = yield self._broker.fetch_offsets(context, group, names)
        places = {name.partition: _place(committed.get(name)) for name in names}
        cursor = self._cursors.pop(self.owner)
        while True:
            left = {each: place for each, place in places.items() if end is None or place <= end}
            found = yield from self._look(context, topic, left, cursor)
            cursor = None
            if found is None:
                return None, not left
            partition, record, places[partition] = found
            if record is not None and (end is None or record.offset <= end):
                return partition, record

    def _look(
        self, context: RequestContext, topic: TopicInfo, places: dict[int, int], cursor: Cursor | None
    ) -> Any:
        """One step: a partition, perhaps a record of it, and where to go on there; or C{None}."""
        wants = [FetchWant(topic.name, each, place, 1) for each, place in places.items()]
        known = [
            each for each in wants if cursor is not None and self._leads_on(context, topic, cursor, each)
        ]
        earlier = wants[: wants.index(known[0])] if known else wants
        if earlier:
            found = yield from self._fetch(context, topic, earlier)
            if found is not None:
                return found
        if not known:
            return None
        assert cursor is not None
        (want,) = known
        record = cursor.take()
        if record is not None:
            self._cursors.keep(self.owner, cursor)
        return want.partition, record, want.offset if record is None else record.offset

    def _leads_on(self, context: RequestContext, topic: TopicInfo, cursor: Cursor, want: FetchWant) -> bool:
        """Whether a cursor is where it is wanted, and what it has is not deleted."""
        if not cursor.is_at(topic, want.partition, want.offset):
            return False
        start, _ = self._broker.bounds(context, TopicPartition(topic.name, want.partition))
        return start <= want.offset

    def _fetch(self, context: RequestContext, topic: TopicInfo, wants: list[FetchWant]) -> Any:
        answers = yield deferred(self._broker.fetch(context, wants, max_bytes=1))
        try:
            return self._first(topic, wants, answers)
        finally:
            for each in answers:
                if isinstance(each, Fetched):
                    each.release()

    def _first(self, topic: TopicInfo, wants: list[FetchWant], answers: list[Any]) -> Any:
        for want, answer in zip(wants, answers, strict=True):
            if isinstance(answer, OffsetOutOfRange):
                if answer.requested < answer.log_start_offset:
                    return want.partition, None, answer.log_start_offset
            elif not isinstance(answer, Fetched):
                raise answer
            elif answer.slices:
                return self._open(topic, want, answer)
        return None

    def _open(self, topic: TopicInfo, want: FetchWant, fetched: Fetched) -> Any:
        batch = next(split_batches(fetched.slices[0].buffer()))
        if batch.is_control:
            return want.partition, None, batch.next_offset
        plain = records.uncompressed(batch)
        contents = records.decode(plain, from_offset=want.offset)
        cursor = Cursor(topic, want.partition, want.offset, plain.size, contents)
        record = cursor.take()
        if record is None:
            return want.partition, None, batch.next_offset
        if cursor.next_offset < batch.next_offset:
            self._cursors.keep(self.owner, cursor)
        return want.partition, record, record.offset


def _place(committed: Committed | None) -> int:
    return 0 if committed is None else committed.offset
