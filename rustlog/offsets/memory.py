"""
The C{memory} offset store: groups begin anew when the process does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from rustlog.environment import Environment
from rustlog.errors import Closed, RustlogError
from rustlog.interfaces import ILogStore, IOffsetExpiry, IOffsetStore
from rustlog.model import Committed, TopicPartition
from rustlog.offsets.state import Groups, check_generation, check_version


@frozen
class MemoryOffsetsSettings:
    """There is nothing to set."""


def open_store(
    settings: MemoryOffsetsSettings, environment: Environment, log_store: ILogStore
) -> MemoryOffsets:
    """What C{--offsets=memory} calls."""
    return MemoryOffsets()


@implementer(IOffsetStore, IOffsetExpiry)
class MemoryOffsets:
    """Every call is done when it returns."""

    def __init__(self) -> None:
        self._groups = Groups()
        self._closed = False

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], generation: int | None = None
    ) -> Deferred[None]:
        if self._closed:
            return fail(Closed())
        try:
            check_generation(group, generation, self._groups.get(group).generation)
        except RustlogError as error:
            return fail(error)
        self._groups.commit(group, offsets, generation)
        return succeed(None)

    def fetch(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Deferred[dict[TopicPartition, Committed]]:
        if self._closed:
            return fail(Closed())
        return succeed(self._groups.offsets(group, partitions))

    def groups(self) -> Deferred[tuple[str, ...]]:
        if self._closed:
            return fail(Closed())
        return succeed(self._groups.names())

    def delete(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Deferred[None]:
        if self._closed:
            return fail(Closed())
        if partitions is None:
            self._groups.forget(group)
        else:
            self._groups.delete(group, partitions)
        return succeed(None)

    def expire(self, group: str, before_ms: int) -> Deferred[int]:
        if self._closed:
            return fail(Closed())
        old = self._groups.get(group).older_than(before_ms)
        self._groups.delete(group, old)
        return succeed(len(old))

    def load(self, group: str) -> Deferred[tuple[int, bytes]]:
        if self._closed:
            return fail(Closed())
        known = self._groups.get(group)
        return succeed((known.version, known.document))

    def save(self, group: str, version: int, document: bytes) -> Deferred[int]:
        if self._closed:
            return fail(Closed())
        try:
            check_version(group, version, self._groups.get(group).version)
        except RustlogError as error:
            return fail(error)
        self._groups.save(group, version + 1, bytes(document))
        return succeed(version + 1)

    def close(self) -> Deferred[None]:
        self._closed = True
        return succeed(None)
