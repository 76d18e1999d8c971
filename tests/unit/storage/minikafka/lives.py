"""
A C{minikafka} store that dies and comes back, and a producer that sends again what was not answered.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from rustlog.errors import RustlogError
from rustlog.log import records
from rustlog.log.batch import RecordBatch
from rustlog.model import Appended, Record, SyncPolicy
from rustlog.results import deferred
from rustlog.settings import TopicConfig
from rustlog.storage.minikafka.store import MiniKafkaSettings, open_store
from rustlog.testing.environment import SimulatedEnvironment
from tests.unit.storage.segments.lives import DATA_DIR, Lives

IN_FLIGHT_MAX = 5


class MiniKafkaLives(Lives):
    """The same lives in another format."""

    def __init__(
        self, environment: SimulatedEnvironment, sync: str = "always", segment_bytes: int = 250
    ) -> None:
        super().__init__(environment, sync, segment_bytes)

    def make_settings(self, sync: SyncPolicy, topic_defaults: TopicConfig) -> Any:
        return MiniKafkaSettings(DATA_DIR, sync, topic_defaults, segments_kept=1000)

    def open_store(self) -> Any:
        return open_store(self.settings, self.environment)


class Producer:
    """
    Sends to one partition as Kafka's clients do: what is not answered is sent again, in order.

    @ivar sent: every value that it ever sent, in order.
    """

    def __init__(self, lives: Lives, producer_id: int, index: int) -> None:
        self._lives = lives
        self._producer_id = producer_id
        self._index = index
        self._unanswered: deque[RecordBatch] = deque()
        self.sent: list[bytes] = []

    def send(self, count: int) -> None:
        """Send a batch, unless too many are under way."""
        if len(self._unanswered) < IN_FLIGHT_MAX:
            first = len(self.sent)
            values = [b"%d of %d" % (first + number, self._producer_id) for number in range(count)]
            self.sent += values
            batch = records.build(
                [Record(value, b"key") for value in values],
                now_ms=self._lives.environment.wall.now_ms(),
                producer_id=self._producer_id,
                producer_epoch=0,
                base_sequence=first,
            )
            self._unanswered.append(batch)
            self._send(batch)

    def send_again(self) -> None:
        """The broker is back."""
        for batch in list(self._unanswered):
            self._send(batch)

    def _send(self, batch: RecordBatch) -> None:
        store = self._lives.store
        appending = deferred(store.append([(self._lives.partition(self._index), batch)]))
        appending.addCallback(self._answered, batch)
        appending.addErrback(lambda failure: failure.trap(RustlogError))

    def _answered(self, answers: list[Any], batch: RecordBatch) -> None:
        if isinstance(answers[0], Appended) and batch in self._unanswered:
            self._unanswered.remove(batch)

    @property
    def is_done(self) -> bool:
        return not self._unanswered
