"""Tests for L{rustlog.longpoll}."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import OffsetOutOfRange
from rustlog.log import records
from rustlog.longpoll import Answers, LongPoll, is_enough, release
from rustlog.model import Fetched, Isolation, Record

WAIT_SECONDS = 10.0


class LeasedSlice:
    """A slice that must be released exactly once."""

    def __init__(self, content: bytes, leases: list[LeasedSlice]) -> None:
        self._content = content
        self._leases = leases
        self.size = len(content)
        leases.append(self)

    def region(self) -> None:
        return None

    def buffer(self) -> bytes:
        return self._content

    def release(self) -> None:
        self._leases.remove(self)


class ScriptedLog:
    """
    A partition whose reads are answered as the test likes: at once with what is there, or late.

    @ivar content: one batch for each record that can be read.
    """

    def __init__(self) -> None:
        self.content: list[bytes] = []
        self.leases: list[LeasedSlice] = []
        self.listeners: list[Callable[[Any], object]] = []
        self.late: list[Deferred[Answers]] | None = None
        self.error: Exception | None = None
        self.reads = 0

    def put(self, value: bytes = b"value") -> None:
        """Append a record in a batch of its own."""
        batch = records.build([Record(value)], now_ms=1).at(len(self.content), 0)
        self.content.append(bytes(batch.buffer))

    def move(self) -> None:
        """Tell the listeners."""
        for listener in list(self.listeners):
            listener(self)

    def found(self, offset: int = 0, batches_max: int = 1000) -> Fetched:
        """What a read finds."""
        run = b"".join(self.content[offset:][:batches_max])
        end = len(self.content)
        slices = (LeasedSlice(run, self.leases),) if run else ()
        return Fetched(slices, len(run), end, end, 0)

    def read(self) -> Any:
        """As the store's."""
        self.reads += 1
        if self.error is not None:
            raise self.error
        if self.late is None:
            return [self.found()]
        answer: Deferred[Answers] = Deferred()
        self.late.append(answer)
        return answer

    def watch(self, partition: Any, listener: Callable[[Any], object]) -> Callable[[], None]:
        """As the store's."""
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)


class IsEnoughTests(SynchronousTestCase):
    """When there is no reason to wait."""

    def setUp(self) -> None:
        self.log = ScriptedLog()

    def check(self, min_bytes: int, *answers: Any, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> bool:
        """Whether answers to wants at offset 0 suffice."""
        wants: Any = [(self.log, 0, 1000) for _ in answers]
        return is_enough(list(answers), wants, min_bytes, isolation)

    def test_nothing_there(self) -> None:
        """An empty answer is not enough, unless nothing was asked for."""
        self.assertFalse(self.check(1, self.log.found()))
        self.assertTrue(self.check(0, self.log.found()))

    def test_nothing_wanted(self) -> None:
        """Who wants nothing does not wait."""
        self.assertTrue(self.check(1))

    def test_enough_bytes(self) -> None:
        """The bytes of all partitions count together."""
        self.log.put()
        size = self.log.found().size
        self.assertTrue(self.check(size, self.log.found()))
        self.assertFalse(self.check(size + 1, self.log.found()))
        self.assertTrue(self.check(2 * size, self.log.found(), self.log.found()))

    def test_error(self) -> None:
        """An error is told at once."""
        self.assertTrue(self.check(1000, self.log.found(), OffsetOutOfRange(9, 0, 0)))

    def test_no_more_fits(self) -> None:
        """When more is there than fits into the answer, waiting would not help."""
        self.log.put()
        self.log.put()
        self.assertTrue(self.check(1000, self.log.found(batches_max=1)))
        self.assertFalse(self.check(1000, self.log.found()))

    def test_another_partition_has_more(self) -> None:
        """The same when the first partition has used up all the room."""
        self.log.put()
        self.assertTrue(self.check(1000, self.log.found(), self.log.found(batches_max=0)))

    def test_uncommitted_data_does_not_count(self) -> None:
        """What a reader may not see yet is no reason to answer."""
        self.log.put()
        found = self.log.found()
        pending = Fetched(found.slices, found.size, 5, 1, 0)
        self.assertTrue(self.check(1000, pending))
        self.assertFalse(self.check(1000, pending, isolation=Isolation.READ_COMMITTED))


class LongPollTests(SynchronousTestCase):
    """A fetch that waits."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.log = ScriptedLog()
        self.min_bytes = 1

    def tearDown(self) -> None:
        self.assertEqual(self.log.listeners, [], "somebody is still watching")
        self.assertEqual(self.clock.getDelayedCalls(), [], "a timer is left")
        self.assertEqual(self.log.leases, [], "something was not released")

    def poll(self) -> Deferred[Answers]:
        """Begin to wait."""
        log: Any = self.log
        wants = [(log, 0, 1000)]
        suffices = partial(
            is_enough, wants=wants, min_bytes=self.min_bytes, isolation=Isolation.READ_UNCOMMITTED
        )
        poll = LongPoll(log.read, suffices)
        return poll.wait(log.read(), self.clock, WAIT_SECONDS, log.watch, [log])

    def bytes_of(self, waiting: Deferred[Answers]) -> int:
        """The size of the answer, which is given back."""
        answers = self.successResultOf(waiting)
        release(answers)
        return sum(each.size for each in answers if isinstance(each, Fetched))

    # -- data --

    def test_data_is_there(self) -> None:
        """Who finds enough does not wait."""
        self.log.put()
        self.assertGreater(self.bytes_of(self.poll()), 0)

    def test_data_comes(self) -> None:
        """Who waits is answered when data comes."""
        waiting = self.poll()
        self.clock.advance(5)
        self.assertNoResult(waiting)
        self.log.put()
        self.log.move()
        self.assertGreater(self.bytes_of(waiting), 0)

    def test_false_alarm(self) -> None:
        """An announcement without data changes nothing."""
        waiting = self.poll()
        self.log.move()
        self.log.move()
        self.assertNoResult(waiting)
        self.clock.advance(WAIT_SECONDS)
        self.assertEqual(self.bytes_of(waiting), 0)

    def test_too_little(self) -> None:
        """What is too little is not held while waiting, but given when the time is over."""
        self.min_bytes = 1000
        self.log.put()
        waiting = self.poll()
        self.assertEqual(self.log.leases, [])
        self.log.put()
        self.log.move()
        self.assertNoResult(waiting)
        self.assertEqual(self.log.leases, [])
        self.clock.advance(WAIT_SECONDS)
        self.assertEqual(self.bytes_of(waiting), sum(map(len, self.log.content)))

    def test_little_by_little(self) -> None:
        """The answer comes as soon as the last missing byte does."""
        self.log.put()
        self.min_bytes = 3 * len(self.log.content[0])
        waiting = self.poll()
        for _ in range(2):
            self.assertNoResult(waiting)
            self.log.put()
            self.log.move()
        self.assertEqual(self.bytes_of(waiting), self.min_bytes)

    def test_time_is_over(self) -> None:
        """After the time is over the answer is what there is, be it nothing."""
        waiting = self.poll()
        self.clock.advance(WAIT_SECONDS - 0.1)
        self.assertNoResult(waiting)
        self.clock.advance(0.1)
        self.assertEqual(self.bytes_of(waiting), 0)

    # -- late reads --

    def answer_late(self, number: int = 0) -> None:
        """Answer one of the reads that are under way with what is there now."""
        assert self.log.late is not None
        self.log.late.pop(number).callback([self.log.found()])

    def test_late_read(self) -> None:
        """A read that takes time is awaited."""
        self.log.late = []
        waiting = self.poll()
        self.log.put()
        self.answer_late()
        self.assertGreater(self.bytes_of(waiting), 0)

    def test_moved_while_reading(self) -> None:
        """What comes while a read is under way is not missed: it is read afterwards, once."""
        self.log.late = []
        waiting = self.poll()
        empty = [self.log.found()]
        self.log.put()
        self.log.move()
        self.log.move()
        self.assertEqual(len(self.log.late), 1)
        self.log.late.pop().callback(empty)
        self.assertEqual((len(self.log.late), self.log.reads), (1, 2))
        self.answer_late()
        self.assertGreater(self.bytes_of(waiting), 0)

    def test_time_is_over_while_reading(self) -> None:
        """A read that is under way when the time is over still gives the answer."""
        self.log.late = []
        waiting = self.poll()
        self.clock.advance(WAIT_SECONDS)
        self.assertNoResult(waiting)
        self.answer_late()
        self.assertEqual(self.bytes_of(waiting), 0)
        self.assertEqual(self.log.reads, 1)

    def test_never_two_reads_at_once(self) -> None:
        """However often the partition moves, one read is under way."""
        self.log.late = []
        waiting = self.poll()
        for _ in range(5):
            self.log.move()
        self.assertEqual(self.log.reads, 1)
        self.clock.advance(WAIT_SECONDS)
        self.answer_late()
        self.assertEqual(self.bytes_of(waiting), 0)

    # -- ends --

    def test_cancel_while_waiting(self) -> None:
        """Who stops waiting leaves no timer and no watch behind."""
        waiting = self.poll()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.log.put()
        self.log.move()
        self.assertEqual(self.log.reads, 1)

    def test_cancel_while_reading(self) -> None:
        """What a read finds after nobody waits any more is released."""
        self.log.late = []
        waiting = self.poll()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.log.put()
        self.answer_late()
        self.assertEqual(self.log.leases, [])

    def test_cancel_while_a_read_fails(self) -> None:
        """Nor does it matter that a read fails then."""
        self.log.late = []
        waiting = self.poll()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.log.late.pop().errback(OSError("too late to matter"))

    def test_read_fails(self) -> None:
        """A read that fails as a whole ends the wait."""
        self.log.late = []
        waiting = self.poll()
        self.log.late.pop().errback(OSError("no disk"))
        self.failureResultOf(waiting, OSError)

    def test_read_raises(self) -> None:
        """So does one that raises, be it called by the partition or by the clock."""
        for happen in (self.log.move, lambda: self.clock.advance(WAIT_SECONDS)):
            self.log.error = None
            waiting = self.poll()
            self.log.error = OSError("no disk")
            happen()
            self.failureResultOf(waiting, OSError)

    def test_error_in_place(self) -> None:
        """A partition that dies ends the wait with its error."""
        self.log.late = []
        waiting = self.poll()
        error = OffsetOutOfRange(0, 5, 9)
        self.log.late.pop().callback([error])
        self.assertEqual(self.successResultOf(waiting), [error])

    def test_without_waiting(self) -> None:
        """One that only awaits its first read gives whatever that finds."""
        first: Deferred[Answers] = Deferred()
        poll = LongPoll(self.log.read, lambda answers: False)
        waiting = poll.start(first)
        self.assertNoResult(waiting)
        first.callback([self.log.found()])
        self.assertEqual(self.bytes_of(waiting), 0)
        self.assertEqual(self.log.reads, 0)
