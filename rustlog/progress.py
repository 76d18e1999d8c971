"""
L{Progress}: the use cases of the broker that are about groups, and how far they have come.

All protocols share one progress of a group.  What they commit here overwrites what was there, whoever is a
member; members commit as such, and are judged by the group's coordinator first.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, fail, inlineCallbacks

from rustlog.errors import (
    GroupNotFound,
    NotCoordinator,
    OffsetOutOfRange,
    PartitionNotFound,
    RustlogError,
)
from rustlog.groups.coordinator import GroupCoordinator
from rustlog.groups.values import Committer
from rustlog.interfaces import ILogStore, IOffsetStore, IPartition, IWallClock
from rustlog.judging import check_group
from rustlog.model import (
    MAX_OFFSET,
    Committed,
    GroupDescription,
    GroupProgress,
    RequestContext,
    TopicPartition,
)


class Progress:
    """A part of L{Broker <rustlog.broker.Broker>}."""

    def __init__(
        self,
        store: ILogStore,
        offsets: IOffsetStore,
        wall: IWallClock,
        coordinator: GroupCoordinator | None,
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._wall = wall
        self._coordinator = coordinator

    def coordinator_for(self, context: RequestContext, group: str) -> GroupCoordinator:
        """
        Who looks after the members of a group, if it is somebody here.

        @raise InvalidGroup: no group can be called that.
        @raise NotCoordinator: it is another broker.
        """
        check_group(group)
        if self._coordinator is None:
            raise NotCoordinator(group)
        return self._coordinator

    @inlineCallbacks
    def commit_as_member(
        self,
        context: RequestContext,
        group: str,
        committer: Committer,
        offsets: Mapping[TopicPartition, Committed],
    ) -> Generator[Deferred[Any], Any, dict[TopicPartition, RustlogError | None]]:
        """
        Remember how far a group has come, if the one who says so may.

        @return: for each partition what is wrong with it; the others are committed.  Fails if nothing is,
            as L{GroupCoordinator.commit} does.
        """
        coordinator = self.coordinator_for(context, group)
        stamped: dict[TopicPartition, Committed] = {}
        answers: dict[TopicPartition, RustlogError | None] = dict.fromkeys(offsets)
        for name, committed in offsets.items():
            try:
                stamped[name] = self._stamp(name, committed, self._wall.now_ms())
            except RustlogError as error:
                answers[name] = error
        if stamped:
            yield coordinator.commit(group, committer, stamped)
        return answers

    def commit_offsets(
        self, context: RequestContext, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> Deferred[None]:
        """
        Remember how far a group has come; all or nothing.  Fails with C{InvalidGroup},
        C{PartitionNotFound}, and with C{OffsetOutOfRange} for what no offset can ever be.
        """
        now_ms = self._wall.now_ms()
        try:
            check_group(group)
            stamped = {name: self._stamp(name, each, now_ms) for name, each in offsets.items()}
        except RustlogError as error:
            return fail(error)
        if self._coordinator is not None:
            return self._coordinator.commit_freely(group, stamped)
        done: Deferred[None] = self._offsets.commit(group, stamped)
        return done

    def fetch_offsets(
        self, context: RequestContext, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Deferred[dict[TopicPartition, Committed]]:
        """What a group has committed, in some partitions or in all.  Fails with C{InvalidGroup}."""
        try:
            check_group(group)
        except RustlogError as error:
            return fail(error)
        found: Deferred[dict[TopicPartition, Committed]] = self._offsets.fetch(group, partitions)
        return found

    def groups(self, context: RequestContext) -> Deferred[tuple[str, ...]]:
        """The names of all groups that have committed something, sorted."""
        names: Deferred[tuple[str, ...]] = self._offsets.groups()
        return names

    @inlineCallbacks
    def describe_group(
        self, context: RequestContext, group: str
    ) -> Generator[Deferred[Any], Any, GroupDescription]:
        """
        How far a group has come, and how far it has to go.  Fails with C{InvalidGroup},
        C{GroupNotFound}.
        """
        yield self._check_exists(group)
        committed: dict[TopicPartition, Committed] = yield self._offsets.fetch(group)
        progress = (self._progress(name, each) for name, each in sorted(committed.items()))
        return GroupDescription(group, tuple(progress))

    @inlineCallbacks
    def delete_group(self, context: RequestContext, group: str) -> Generator[Deferred[Any], Any, None]:
        """
        Forget everything about a group; fires once that is durable.  Fails with C{InvalidGroup},
        C{GroupNotFound}, C{GroupNotEmpty}.
        """
        check_group(group)
        if self._coordinator is not None:
            yield self._coordinator.delete(group)
        else:
            yield self._check_exists(group)
            yield self._offsets.delete(group)

    @inlineCallbacks
    def delete_offsets(
        self, context: RequestContext, group: str, partitions: Iterable[TopicPartition]
    ) -> Generator[Deferred[Any], Any, dict[TopicPartition, RustlogError | None]]:
        """
        Forget what a group has committed in some partitions, which need not exist any more; fires once that
        is durable.  Fails with C{InvalidGroup}, C{GroupNotFound}, C{GroupNotEmpty}.

        @return: for each partition why it was not forgotten there: C{GroupReadsTopic}.
        """
        check_group(group)
        names = list(partitions)
        if self._coordinator is not None:
            return (yield self._coordinator.delete_offsets(group, names))
        yield self._check_exists(group)
        yield self._offsets.delete(group, names)
        return dict.fromkeys(names)

    @inlineCallbacks
    def _check_exists(self, group: str) -> Generator[Deferred[Any], Any, None]:
        check_group(group)
        if group not in (yield self._offsets.groups()):
            raise GroupNotFound(group)

    def _progress(self, name: TopicPartition, committed: Committed) -> GroupProgress:
        partition: IPartition | None = self._store.partition(name.topic, name.partition)
        if partition is None:
            return GroupProgress(name, committed)
        return GroupProgress(name, committed, partition.log_start_offset, partition.high_watermark)

    def _stamp(self, name: TopicPartition, committed: Committed, now_ms: int) -> Committed:
        """Judge one offset of a commit, and say when it came."""
        partition: IPartition | None = self._store.partition(name.topic, name.partition)
        if partition is None:
            raise PartitionNotFound(name.topic, name.partition)
        if not 0 <= committed.offset <= MAX_OFFSET:
            raise OffsetOutOfRange(committed.offset, partition.log_start_offset, partition.high_watermark)
        return committed if committed.commit_time != -1 else evolve(committed, commit_time=now_ms)
