"""
Opens offset stores on one environment again and again; those that need a log store get one of their own.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any
from weakref import WeakKeyDictionary

from attrs import evolve, field, frozen
from twisted.internet.defer import Deferred, inlineCallbacks

from rustlog.environment import Environment
from rustlog.model import StoreLimits, SyncPolicy
from rustlog.offsets import file, topic
from rustlog.storage.memory import MemorySettings, MemoryStore
from rustlog.storage.segments.store import SegmentsSettings
from rustlog.storage.segments.store import open_store as open_segments
from rustlog.testing.delayed import DelayedLogStore
from rustlog.testing.environment import SimulatedEnvironment

DATA_DIR = PurePath("/data")


class PlainLogStore(MemoryStore):
    """A log store whose format holds neither headers nor null values."""

    limits = evolve(MemoryStore.limits, headers=False, null_values=False)

    def append(self, entries: Any) -> Any:
        from rustlog.log.records import decode

        for _, batch in entries:
            for record in decode(batch):
                assert not record.headers and record.value is not None, record
        return super().append(entries)


def open_memory_log(environment: Environment, sync: str) -> MemoryStore:
    return MemoryStore(MemorySettings(), environment)


def open_plain_log(environment: Environment, sync: str) -> PlainLogStore:
    return PlainLogStore(MemorySettings(), environment)


def open_segments_log(environment: Environment, sync: str) -> Deferred[Any]:
    return open_segments(SegmentsSettings(DATA_DIR, SyncPolicy.parse(sync)), environment)


def open_late_log(environment: Any, sync: str) -> Deferred[Any]:
    def wrap(store: Any) -> DelayedLogStore:
        return DelayedLogStore(store, environment.clock, environment.random)

    return open_segments_log(environment, sync).addCallback(wrap)


@frozen(eq=False)
class TopicStores:
    """Offset stores C{topic}, over log stores that are made by C{open_log}."""

    open_log: Any = open_segments_log
    sync: str = "always"
    logs: WeakKeyDictionary[SimulatedEnvironment, Any] = field(factory=WeakKeyDictionary)

    @inlineCallbacks
    def open(self, environment: SimulatedEnvironment) -> Any:
        """Open it; a log store that is still open is closed first, unless it would forget."""
        log = self.logs.get(environment)
        if log is not None and log.limits.durable:
            yield log.close()
        if log is None or log.limits.durable:
            log = self.logs[environment] = yield self.open_log(environment, self.sync)
        return (yield topic.open_store(topic.TopicOffsetsSettings(), environment, log))


@frozen(eq=False)
class FileStores:
    """Offset stores C{file}."""

    sync: str = "always"

    def open(self, environment: SimulatedEnvironment) -> Deferred[Any]:
        settings = file.FileOffsetsSettings(DATA_DIR, SyncPolicy.parse(self.sync))
        return file.open_store(settings, environment, MemoryStore(MemorySettings(), environment))


__all__ = ["DATA_DIR", "FileStores", "StoreLimits", "TopicStores"]
