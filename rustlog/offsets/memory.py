"""
The C{memory} offset store: groups begin anew when the process does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from rustlog.environment import Environment
from rustlog.errors import Closed, StaleGeneration, VersionConflict
from rustlog.interfaces import ILogStore, IOffsetStore
from rustlog.model import Committed, TopicPartition


@frozen
class MemoryOffsetsSettings:
    """There is nothing to set."""


def open_store(
    settings: MemoryOffsetsSettings, environment: Environment, log_store: ILogStore
) -> MemoryOffsets:
    """What C{--offsets=memory} calls."""
    return MemoryOffsets()


@define
class Group:
    """What is known of one group."""

    offsets: dict[TopicPartition, Committed] = field(factory=dict)
    generation: int = -1
    version: int = 0
    document: bytes = b""


_NOBODY = Group()


@implementer(IOffsetStore)
class MemoryOffsets:
    """Every call is done when it returns."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self._closed = False

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], generation: int | None = None
    ) -> Deferred[None]:
        if self._closed:
            return fail(Closed())
        if generation is not None and generation < self._known(group).generation:
            return fail(StaleGeneration(group, generation))
        kept = self._groups.setdefault(group, Group())
        kept.offsets.update(offsets)
        if generation is not None:
            kept.generation = generation
        return succeed(None)

    def fetch(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Deferred[dict[TopicPartition, Committed]]:
        if self._closed:
            return fail(Closed())
        offsets = self._known(group).offsets
        if partitions is None:
            return succeed(dict(offsets))
        return succeed({each: offsets[each] for each in partitions if each in offsets})

    def groups(self) -> Deferred[tuple[str, ...]]:
        if self._closed:
            return fail(Closed())
        names = (name for name, group in self._groups.items() if group.offsets or group.version)
        return succeed(tuple(sorted(names)))

    def delete(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Deferred[None]:
        if self._closed:
            return fail(Closed())
        if partitions is None:
            self._groups.pop(group, None)
        else:
            for each in partitions:
                self._known(group).offsets.pop(each, None)
        return succeed(None)

    def load(self, group: str) -> Deferred[tuple[int, bytes]]:
        if self._closed:
            return fail(Closed())
        known = self._known(group)
        return succeed((known.version, known.document))

    def save(self, group: str, version: int, document: bytes) -> Deferred[int]:
        if self._closed:
            return fail(Closed())
        current = self._known(group).version
        if version != current:
            return fail(VersionConflict(group, version, current))
        kept = self._groups.setdefault(group, Group())
        kept.version += 1
        kept.document = bytes(document)
        return succeed(kept.version)

    def close(self) -> Deferred[None]:
        self._closed = True
        return succeed(None)

    def _known(self, group: str) -> Group:
        return self._groups.get(group, _NOBODY)
