"""
What the contract suites stand on: courses of events, time that passes, and a few short words
for what a test does with a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from itertools import pairwise
from pathlib import PurePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import SkipTest

from attrs import frozen
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from rustlog.errors import RustlogError
from rustlog.interfaces import IFiles, ISlice
from rustlog.log import records
from rustlog.log.batch import RecordBatch, split_batches
from rustlog.log.codecs import Codec
from rustlog.model import Appended, Fetched, Isolation, Record
from rustlog.results import Result, deferred
from rustlog.testing.delayed import DelayedLogStore, DelayedOffsetStore
from rustlog.testing.environment import SimulatedEnvironment, memory_environment, simulated_environment

if TYPE_CHECKING:
    from twisted.trial.unittest import SynchronousTestCase as _TestCase
else:
    _TestCase = object

T = TypeVar("T")
C = TypeVar("C", bound=type)

STEP_SECONDS = 0.002
"""Shorter than most delays, so that a test sees things happen one after the other."""

PATIENCE_STEPS = 5_000
"""Ten simulated seconds: whatever is not answered by then never will be."""

SETTLE_STEPS = 150
"""What is under way, late announcements included, has happened by then."""

PLENTY = 1_000_000
"""More bytes than a test ever writes to a partition, unless it says so."""


@frozen
class Course:
    """
    How things go in one run of a test.

    @ivar seed: of the simulated environment; C{None} for a mild one, where nothing takes time.
    @ivar late_answers: whether the store is wrapped so that its answers overtake each other.
    """

    seed: int | None
    late_answers: bool = False

    def __str__(self) -> str:
        world = "a mild environment" if self.seed is None else f"a harsh environment, seed {self.seed}"
        return f"{world}, {'late answers' if self.late_answers else 'no wrapper'}"


COURSES = (Course(None), Course(1), Course(2, late_answers=True), Course(3, late_answers=True))


def in_every_course(contract: C) -> C:
    """Have every test of a class run once in each of its C{courses}, with a fresh store each time."""
    for name, test in list(vars(contract).items()):
        if name.startswith("test_"):
            setattr(contract, name, _in_every_course(test))
    return contract


def _in_every_course(test: Callable[[Any], None]) -> Callable[[Any], None]:
    @wraps(test)
    def run(self: Harness) -> None:
        for course in self.courses:
            try:
                self.begin(course)
                test(self)
                self.end()
            except SkipTest:
                self.end()
                raise
            except Exception as error:
                error.add_note(f"This happened in {course}.")
                raise

    return run


class Harness(_TestCase):
    """
    What both contracts have in common.

    @cvar courses: the L{Course}s of every test; more of them find more.
    """

    courses: tuple[Course, ...] = COURSES
    environment: Any
    store: Any
    _directories: dict[IFiles, PurePath] | None = None

    def make_environment(self, course: Course) -> SimulatedEnvironment:
        """A new, empty world."""
        return memory_environment() if course.seed is None else simulated_environment(course.seed)

    def begin(self, course: Course) -> None:
        """Make a world for one run of a test, and open the store in it."""
        self.course = course
        self.environment = self.make_environment(course)
        self.store = self.open_again()

    def end(self) -> None:
        """Close the store; whatever it left behind may show itself now."""
        self.finish(self.store.close())
        self.pass_time(3600)

    def real_directory(self, environment: Any) -> PurePath:
        """
        A real directory that belongs to an environment, as its simulated disk does: the same one for the
        same environment, empty at first, and gone after the test.

        For C{open_store} of stores whose data is not in C{environment.files}, because a library that
        they use opens files by itself.  What such a library does when the power fails can not be
        simulated; all the rest of a course (time, workers, late answers) is.
        """
        if self._directories is None:
            self._directories = {}
        if environment.files not in self._directories:
            directory = TemporaryDirectory(prefix="rustlog-contract-")
            self.addCleanup(directory.cleanup)
            self._directories[environment.files] = PurePath(directory.name)
        return self._directories[environment.files]

    def open_again(self) -> Any:
        """Open the store on what the environment holds, as this course wants it."""
        raise NotImplementedError

    # -- time --

    def pass_time(self, seconds: float) -> None:
        """Let time pass, on both clocks."""
        self.environment.clock.advance(seconds)

    def settle(self) -> None:
        """Let everything happen that is under way."""
        for _ in range(SETTLE_STEPS):
            self.pass_time(STEP_SECONDS)

    def finish(self, result: Result[T]) -> T:
        """The value of an answer, or the error that it is, as soon as it is there."""
        outcomes: list[Any] = []
        deferred(result).addBoth(outcomes.append)
        for _ in range(PATIENCE_STEPS):
            if outcomes:
                break
            self.pass_time(STEP_SECONDS)
        else:
            self.fail("no answer came")
        if isinstance(outcomes[0], Failure):
            outcomes[0].raiseException()
        value: T = outcomes[0]
        return value

    def finish_all(self, results: Iterable[Result[Any]]) -> list[Any]:
        """The values of answers, all of which are asked for before the first is awaited."""
        return [self.finish(each) for each in list(results)]

    def assert_fails(self, error: type[RustlogError], result: Result[Any]) -> Any:
        """Check that an answer is an error of that class; the error."""
        with self.assertRaises(error) as caught:
            self.finish(result)
        return caught.exception

    def pick(self, count: int) -> int:
        """A number below C{count}, as chance has it: the same in each run of the course."""
        return min(int(self.environment.random.uniform(0, count)), count - 1)


class OffsetStoreHarness(Harness):
    """For tests of an offset store."""

    def open_store(self, environment: Any) -> Any:
        """
        To be defined by the author of an offset store.

        It may be called more than once with the same environment: then it is the same
        data.  Another environment is another, empty world.  See L{real_directory} if
        the simulated disk can not hold it.

        @return: an L{IOffsetStore <rustlog.interfaces.IOffsetStore>}, or a Deferred of one.
        """
        raise NotImplementedError

    def open_again(self) -> Any:
        store = self.finish(self.open_store(self.environment))
        if self.course.late_answers:
            return DelayedOffsetStore(store, self.environment.clock, self.environment.random)
        return store


class LogStoreHarness(Harness):
    """For tests of a log store."""

    def open_store(self, environment: Any) -> Any:
        """
        To be defined by the author of a log store, with settings of his choice.

        It may be called more than once with the same environment: then it is the same
        data.  Another environment is another, empty world.  See L{real_directory} if
        the simulated disk can not hold it.

        @return: an L{ILogStore <rustlog.interfaces.ILogStore>}, or a Deferred of one.
        """
        raise NotImplementedError

    def open_again(self) -> Any:
        store = self.finish(self.open_store(self.environment))
        if self.course.late_answers:
            return DelayedLogStore(store, self.environment.clock, self.environment.random)
        return store

    def need(self, limit: str, what: str) -> None:
        """Skip the test unless the store claims to hold C{what}."""
        if not getattr(self.store.limits, limit):
            self.skipTest(f"StoreLimits.{limit} is false: this store does not claim to hold {what}")

    # -- topics --

    def create(self, name: str = "orders", config: Mapping[str, str] | None = None) -> Any:
        """Make a topic with one partition; the partition."""
        return self.create_many(1, name, config)[0]

    def create_many(
        self, partitions: int, name: str = "orders", config: Mapping[str, str] | None = None
    ) -> list[Any]:
        """Make a topic; its partitions."""
        self.finish(self.store.catalog.create(name, partitions, config or {}))
        return self.partitions(name)

    def partitions(self, name: str = "orders") -> list[Any]:
        """The partitions of a topic."""
        count = self.store.catalog.get(name).partitions
        return [self.store.partition(name, index) for index in range(count)]

    # -- writing --

    def batch(
        self,
        *values: bytes,
        at: int | None = None,
        codec: Codec = Codec.NONE,
        producer: tuple[int, int, int] | None = None,
    ) -> RecordBatch:
        """
        One batch, a record for each value.

        @param at: the timestamp of all of them; now, if there is none.
        @param producer: id, epoch and first sequence number of an idempotent producer.
        """
        timestamp = self.environment.wall.now_ms() if at is None else at
        content = [Record(each, key=b"key", timestamp=timestamp) for each in values]
        return self.batch_of(*content, codec=codec, producer=producer)

    def batch_of(
        self, *content: Record, codec: Codec = Codec.NONE, producer: tuple[int, int, int] | None = None
    ) -> RecordBatch:
        """One batch of these records."""
        producer_id, epoch, sequence = producer or (-1, -1, -1)
        return records.build(
            content,
            now_ms=self.environment.wall.now_ms(),
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )

    def append(self, *entries: tuple[Any, RecordBatch]) -> list[Any]:
        """What the store says to these entries: one answer for each."""
        answers = self.finish(self.store.append(list(entries)))
        self.assertEqual(len(answers), len(entries), "there must be one answer for each entry")
        return answers

    def send(self, partition: Any, *values: bytes, at: int | None = None) -> Appended:
        """Append one batch, which must be accepted."""
        return self.send_batch(partition, self.batch(*values, at=at))

    def send_batch(self, partition: Any, batch: RecordBatch) -> Appended:
        """The same with a batch that is already made."""
        (answer,) = self.append((partition, batch))
        return self.accepted(answer)

    def accepted(self, answer: Any) -> Appended:
        """The answer, which must not be an error."""
        if isinstance(answer, RustlogError):
            raise answer
        self.assertIsInstance(answer, Appended)
        appended: Appended = answer
        return appended

    # -- reading --

    def read(
        self,
        *wants: tuple[Any, int, int],
        max_bytes: int = PLENTY,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> list[Any]:
        """What the store says to these wants: one answer for each."""
        answers = self.finish(self.store.read(list(wants), max_bytes, isolation))
        self.assertEqual(len(answers), len(wants), "there must be one answer for each want")
        return answers

    def read_one(self, partition: Any, offset: int, max_bytes: int = PLENTY) -> list[RecordBatch]:
        """The batches that are found from an offset on."""
        (answer,) = self.read((partition, offset, max_bytes))
        batches = self.take(partition, answer)
        if batches:
            contained = range(batches[0].base_offset, batches[0].next_offset)
            self.assertIn(offset, contained, "a read begins with the batch that contains the offset")
        return batches

    def take(self, partition: Any, answer: Any) -> list[RecordBatch]:
        """Check what was found, copy its batches, and give it back."""
        if isinstance(answer, RustlogError):
            raise answer
        self.assertIsInstance(answer, Fetched)
        batches = [batch for each in answer.slices for batch in self.take_slice(each)]
        answer.release()
        self.assertEqual(answer.size, sum(each.size for each in batches))
        self.check_batches(partition, answer, batches)
        return batches

    def take_slice(self, piece: Any) -> list[RecordBatch]:
        """A copy of the batches of one slice, which is not given back."""
        verifyObject(ISlice, piece)
        content = bytes(piece.buffer())
        self.assertEqual(piece.size, len(content))
        return list(split_batches(content))

    def check_batches(self, partition: Any, fetched: Fetched, batches: list[RecordBatch]) -> None:
        """Whole, valid, one after the other without gap, of no future epoch, and visible."""
        for each in batches:
            each.check()
            self.assertIn(each.leader_epoch, range(partition.leader_epoch + 1))
        for before, after in pairwise(batches):
            self.assertEqual(after.base_offset, before.next_offset, "offsets must be dense")
        if batches:
            self.assertLessEqual(batches[-1].next_offset, fetched.high_watermark)

    def stored(self, partition: Any) -> list[Record]:
        """Every record that can be read, from the start of the log to its end."""
        offset = partition.log_start_offset
        found: list[Record] = []
        while offset < partition.high_watermark:
            batches = self.read_one(partition, offset)
            self.assertTrue(batches, f"nothing was found at {offset}, below the high watermark")
            for each in batches:
                found += records.decode(each, from_offset=offset)
            offset = batches[-1].next_offset
        self.assertEqual(
            [each.offset for each in found], list(range(partition.log_start_offset, partition.high_watermark))
        )
        return found

    def values(self, partition: Any) -> list[bytes | None]:
        """The values of all records that can be read."""
        return [each.value for each in self.stored(partition)]

    def bounds(self, partition: Any) -> tuple[int, int]:
        """Where the log starts and ends, from the authority: a read."""
        (answer,) = self.read((partition, partition.high_watermark, PLENTY))
        self.take(partition, answer)
        return answer.log_start_offset, answer.high_watermark

    # -- the rest --

    def maintain(self) -> None:
        """Do all the maintenance that is due, step by step."""
        for _ in range(1000):
            if not self.finish(self.store.maintain()):
                return
        self.fail("maintenance never comes to an end")

    def reopen(self) -> None:
        """Close the store in good order, and open it again."""
        self.finish(self.store.close())
        self.settle()
        self.store = self.open_again()
