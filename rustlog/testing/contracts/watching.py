"""Watching: whoever waits hears of it."""

from __future__ import annotations

from typing import Any

from rustlog.interfaces import IPartition
from rustlog.model import Isolation
from rustlog.results import deferred
from rustlog.testing.contracts.harness import PLENTY, LogStoreHarness, in_every_course


@in_every_course
class WatchContract(LogStoreHarness):
    """What L{ILogStore.watch <rustlog.interfaces.ILogStore.watch>} promises."""

    def test_told_of_data(self) -> None:
        """A listener is called, with the partition, when data can be read."""
        partition = self.create()
        seen: list[tuple[IPartition, int]] = []
        self.store.watch(partition, lambda moved: seen.append((moved, moved.high_watermark)))
        for end in (1, 2, 3):
            self.send(partition, b"a")
            self.settle()
            self.assertIn((partition, end), seen)

    def test_told_of_data_that_is_under_way(self) -> None:
        """Who begins to watch while an append is under way does not miss it."""
        partition = self.create()
        pending = self.store.append([(partition, self.batch(b"a"))])
        if partition.high_watermark == 0:
            seen: list[int] = []
            self.store.watch(partition, lambda moved: seen.append(moved.high_watermark))
            self.finish(pending)
            self.settle()
            self.assertIn(1, seen)

    def test_never_from_within(self) -> None:
        """A listener is never called before C{append} or C{read} have returned."""
        partition = self.create()
        inside = False
        from_within: list[bool] = []
        self.store.watch(partition, lambda moved: from_within.append(inside))
        pending: list[Any] = []
        for _ in range(10):
            inside = True
            pending.append(self.store.append([(partition, self.batch(b"a"))]))
            pending.append(self.store.read([(partition, 0, PLENTY)], PLENTY, Isolation.READ_UNCOMMITTED))
            inside = False
            self.pass_time(0.003)
        for answers in self.finish_all(pending[1::2]):
            self.take(partition, answers[0])
        self.finish_all(pending[::2])
        self.settle()
        self.assertIn(False, from_within)
        self.assertNotIn(True, from_within)

    def test_read_from_a_listener(self) -> None:
        """A listener may read at once what it was told of, and append."""
        partition, copy = self.create_many(2)
        pending: list[Any] = []

        def forward(moved: Any) -> None:
            if not pending and moved.high_watermark:
                pending.append(self.store.read([(moved, 0, PLENTY)], PLENTY, Isolation.READ_UNCOMMITTED))
                pending.append(self.store.append([(copy, self.batch(b"heard"))]))

        self.store.watch(partition, forward)
        self.send(partition, b"a")
        self.settle()
        ((answer,), appended) = self.finish_all(pending)
        self.assertEqual(len(self.take(partition, answer)), 1)
        self.accepted(appended[0])
        self.assertEqual(self.values(copy), [b"heard"])

    def test_told_of_death(self) -> None:
        """A listener is called when the topic is deleted, and then finds the partition dead."""
        partition = self.create()
        told: list[Any] = []
        self.store.watch(partition, told.append)
        self.settle()
        del told[:]
        self.finish(self.store.catalog.delete("orders"))
        self.settle()
        self.assertIn(partition, told)

    def test_cancel(self) -> None:
        """Who has cancelled is not called any more, not even for what was announced before."""
        partition = self.create()
        calls: list[Any] = []
        cancel = self.store.watch(partition, calls.append)
        self.send(partition, b"a")
        self.settle()
        del calls[:]
        pending = self.store.append([(partition, self.batch(b"b"))])
        cancel()
        self.finish(pending)
        self.send(partition, b"c")
        self.finish(self.store.catalog.delete("orders"))
        self.settle()
        self.assertEqual(calls, [])

    def test_cancel_one_of_two(self) -> None:
        """Others go on watching, even with the same function."""
        partition = self.create()
        first: list[Any] = []
        second: list[Any] = []
        cancel = self.store.watch(partition, first.append)
        self.store.watch(partition, second.append)
        cancel_same = self.store.watch(partition, second.append)
        cancel()
        cancel_same()
        self.send(partition, b"a")
        self.settle()
        self.assertEqual(first, [])
        self.assertIn(partition, second)

    def test_cancel_from_a_listener(self) -> None:
        """A listener that cancels itself is called once, and the others still are."""
        partition = self.create()
        once: list[Any] = []
        always: list[Any] = []

        def listen(moved: Any) -> None:
            once.append(moved)
            cancel()

        cancel = self.store.watch(partition, listen)
        self.store.watch(partition, always.append)
        for _ in range(3):
            self.send(partition, b"a")
            self.settle()
        self.assertEqual(once, [partition])
        self.assertGreaterEqual(len(always), 3)

    def test_long_poll(self) -> None:
        """Reading, then watching in the same moment, and reading again when told, misses nothing."""
        partition = self.create()
        found: list[int] = []
        pending: list[Any] = []

        def look(*_: Any) -> None:
            answer = self.store.read([(partition, len(found), PLENTY)], PLENTY, Isolation.READ_UNCOMMITTED)
            pending.append(deferred(answer).addCallback(collect))

        def collect(answers: list[Any]) -> None:
            for batch in self.take(partition, answers[0]):
                if batch.base_offset == len(found):
                    found.extend(range(batch.base_offset, batch.next_offset))

        look()
        cancel = self.store.watch(partition, look)
        for _ in range(10):
            self.send(partition, b"a")
        self.settle()
        cancel()
        self.finish_all(pending)
        self.assertEqual(found, list(range(10)))
