"""A random walk: whatever is done in whatever order, the store agrees with a list of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from rustlog.errors import OffsetOutOfRange
from rustlog.log import records
from rustlog.model import OffsetSpec
from rustlog.testing.contracts.harness import LogStoreHarness, in_every_course
from rustlog.testing.environment import START_OF_TIME_MS

STEPS = 80
TIMES = 50
TOPIC_CONFIG = {"segment.bytes": "800", "index.interval.bytes": "300"}


@define
class Model:
    """What a partition must hold: a list of (value, timestamp), whose place is the offset."""

    content: list[tuple[bytes, int]] = field(factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        return len(self.content)

    def first_since(self, timestamp: int) -> int:
        """The offset of the first record that is not older, or -1."""
        offsets = range(self.start, self.end)
        return next((each for each in offsets if self.content[each][1] >= timestamp), -1)


@in_every_course
class WalkContract(LogStoreHarness):
    """The store against the simplest thing that could be right."""

    def test_random_walk(self) -> None:
        """After any sequence of requests, every record is where it must be, and nothing else is."""
        self.models = {0: Model(), 1: Model()}
        self.create_many(2, config=TOPIC_CONFIG)
        steps: list[Callable[[int], None]] = [
            self.append_some, self.append_some, self.append_at_once, self.read_somewhere,
            self.read_somewhere, self.find_by_time, self.delete_some, self.come_back,
        ]  # fmt: skip
        for _ in range(STEPS):
            steps[self.pick(len(steps))](self.pick(2))
        for index, model in self.models.items():
            partition = self.store.partition("orders", index)
            self.assertEqual(self.bounds(partition), (model.start, model.end))
            found = [(each.value, each.timestamp) for each in self.stored(partition)]
            self.assertEqual(found, model.content[model.start :])

    def random_batch(self, model: Model) -> Any:
        """A batch of a few records of chance size, with one timestamp; the model has them from now on."""
        timestamp = START_OF_TIME_MS + self.pick(TIMES)
        values = [b"%d." % (model.end + number) + b"x" * self.pick(90) for number in range(1 + self.pick(4))]
        model.content += [(value, timestamp) for value in values]
        return self.batch(*values, at=timestamp)

    def append_some(self, index: int) -> None:
        """Append, and wait for the answer."""
        model = self.models[index]
        expected = model.end
        appended = self.send_batch(self.store.partition("orders", index), self.random_batch(model))
        self.assertEqual((appended.base_offset, appended.log_start_offset), (expected, model.start))

    def append_at_once(self, index: int) -> None:
        """Begin several appends, some of several entries, before the first is answered."""
        partition, model = self.store.partition("orders", index), self.models[index]
        expected: list[list[int]] = []
        pending: list[Any] = []
        for _ in range(1 + self.pick(4)):
            entries = []
            expected.append([])
            for _ in range(1 + self.pick(3)):
                expected[-1].append(model.end)
                entries.append((partition, self.random_batch(model)))
            pending.append(self.store.append(entries))
        answers = self.finish_all(pending)
        self.assertEqual([[self.accepted(each).base_offset for each in call] for call in answers], expected)

    def read_somewhere(self, index: int) -> None:
        """Read from any offset, also from outside of the log."""
        partition, model = self.store.partition("orders", index), self.models[index]
        offset = self.pick(model.end + 3) - 1
        if not model.start <= offset <= model.end:
            with self.assertRaises(OffsetOutOfRange):
                self.read_one(partition, offset)
            return
        batches = self.read_one(partition, offset, 1 + self.pick(2000))
        self.assertEqual(bool(batches), offset < model.end)
        decoded = [each for batch in batches for each in records.decode(batch, from_offset=offset)]
        found = [(each.value, each.timestamp) for each in decoded]
        self.assertEqual(found, model.content[offset : offset + len(found)])

    def find_by_time(self, index: int) -> None:
        """Ask for a time, and for the largest."""
        partition, model = self.store.partition("orders", index), self.models[index]
        timestamp = START_OF_TIME_MS + self.pick(TIMES + 1)
        found = self.finish(self.store.offset_for(partition, timestamp))
        self.assertEqual(found.offset, model.first_since(timestamp))
        largest = max((each for _, each in model.content[model.start :]), default=2**62)
        found = self.finish(self.store.offset_for(partition, OffsetSpec.MAX_TIMESTAMP))
        self.assertEqual(found.offset, model.first_since(largest))

    def delete_some(self, index: int) -> None:
        """Delete a few records, sometimes all."""
        partition, model = self.store.partition("orders", index), self.models[index]
        before = min(model.start + self.pick(8), model.end)
        model.start = self.finish(self.store.delete_records(partition, before))
        self.assertEqual(model.start, before)

    def come_back(self, index: int) -> None:
        """Close and open a store that remembers; let time pass for another."""
        if self.store.limits.durable and self.pick(4) == 0:
            self.reopen()
        self.settle()
