"""
A store that dies and comes back, and what its users remember of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from rustlog.errors import RustlogError
from rustlog.log import records
from rustlog.log.batch import split_batches
from rustlog.model import Appended, Isolation, Record, SyncPolicy
from rustlog.results import deferred
from rustlog.settings import TopicConfig
from rustlog.storage.segments.store import SegmentsSettings, open_store
from rustlog.testing.environment import SimulatedEnvironment
from tests.unit.patience import Patience

DATA_DIR = PurePath("/data")
TOPIC = "orders"
PARTITIONS = 2


class Lives(Patience):
    """
    One data directory, opened again after each death.

    @ivar acknowledged: what each partition promised to keep: value by offset.
    """

    def __init__(
        self, environment: SimulatedEnvironment, sync: str = "always", segment_bytes: int = 400
    ) -> None:
        self.environment = environment
        self.settings = self.make_settings(
            SyncPolicy.parse(sync), TopicConfig(segment_bytes=segment_bytes, index_interval_bytes=100)
        )
        self.acknowledged: list[dict[int, bytes]] = [{} for _ in range(PARTITIONS)]
        self.sent = 0
        self.store: Any = None

    # -- the store --

    def make_settings(self, sync: SyncPolicy, topic_defaults: TopicConfig) -> Any:
        return SegmentsSettings(DATA_DIR, sync, topic_defaults)

    def open_store(self) -> Any:
        return open_store(self.settings, self.environment)

    # -- life and death --

    def open(self) -> None:
        """Begin a life; the topic is made in the first one that gets so far."""
        self.store = self.finish(self.open_store())
        if self.store.catalog.get(TOPIC) is None:
            self.finish(self.store.catalog.create(TOPIC, PARTITIONS, {}))

    def die(self) -> None:
        """Lose the power."""
        self.environment = self.environment.after_crash()
        self.store = None

    def close(self) -> None:
        """Stop in good order."""
        assert self.store is not None
        self.finish(self.store.close())
        self.store = None

    # -- work --

    def partition(self, index: int) -> Any:
        assert self.store is not None
        return self.store.partition(TOPIC, index)

    def send(self, index: int, count: int = 1) -> Any:
        """Append a batch without waiting; what is acknowledged is remembered.  A Deferred."""
        assert self.store is not None
        values = [b"value %d" % (self.sent + each) for each in range(count)]
        self.sent += count
        now_ms = self.environment.wall.now_ms()
        batch = records.build([Record(each, b"key", timestamp=now_ms) for each in values], now_ms=now_ms)

        def answered(answers: list[Any]) -> Any:
            if isinstance(answers[0], Appended):
                offset = answers[0].base_offset
                self.acknowledged[index].update(enumerate(values, offset))
            return answers[0]

        return deferred(self.store.append([(self.partition(index), batch)])).addCallback(answered)

    def stored(self, index: int) -> dict[int, bytes | None]:
        """Everything that can be read from a partition."""
        assert self.store is not None
        partition = self.partition(index)
        offset, found = partition.log_start_offset, {}
        while offset < partition.high_watermark:
            reading = self.store.read([(partition, offset, 300)], 300, Isolation.READ_UNCOMMITTED)
            (answer,) = self.finish(reading)
            if isinstance(answer, RustlogError):
                raise answer
            content = b"".join(each.buffer() for each in answer.slices)
            answer.release()
            for batch in split_batches(content):
                found.update((each.offset, each.value) for each in records.decode(batch, from_offset=offset))
                offset = batch.next_offset
        return found  # type: ignore[return-value]

    # -- time --

    def outcomes(self, results: Iterable[Any]) -> list[Any]:
        """What becomes of each, be it an error."""
        found = []
        for each in list(results):
            try:
                found.append(self.finish(each))
            except RustlogError as error:
                found.append(error)
        return found


def missing(lives: Lives) -> list[str]:
    """Which acknowledged records are not there, or not the same any more."""
    problems = []
    for index, promised in enumerate(lives.acknowledged):
        start = lives.partition(index).log_start_offset
        stored = lives.stored(index)
        problems += [
            f"{TOPIC}-{index} at {offset}: {stored.get(offset)!r}, not {value!r}"
            for offset, value in promised.items()
            if offset >= start and stored.get(offset) != value
        ]
    return problems
