"""
Tests for L{rustlog.testing.contracts}: the suites are able to fail.

Each sabotage below replaces one method of a sound memory store, and names the test
of the contract that must notice.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

from attrs import evolve, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import RustlogError
from rustlog.model import Committed, Fetched, FoundOffset, StoreLimits
from rustlog.offsets.memory import MemoryOffsets
from rustlog.storage.catalog import Catalog
from rustlog.storage.memory import MemorySettings, MemoryStore
from rustlog.storage.memorylog import MemoryPartition
from rustlog.storage.slices import MemorySlice
from rustlog.storage.watchers import Watchers
from rustlog.testing.contracts import Course, LogStoreContract, OffsetStoreContract
from rustlog.testing.contracts.harness import LogStoreHarness
from rustlog.testing.environment import SeededRandom


@frozen
class Sabotage:
    """A mistake: what one method does instead of what it should, and which test finds it."""

    owner: type
    method: str
    function: Callable[..., Any]
    noticed_by: str

    def __str__(self) -> str:
        return self.function.__name__

    def commit(self) -> Any:
        """A context in which the mistake is made; the function gets the sound method first."""
        original = getattr(self.owner, self.method)
        function = self.function
        return patch.object(
            self.owner, self.method, lambda *given, **named: function(original, *given, **named)
        )


SABOTAGES: list[Sabotage] = []


def sabotage(owner: type, method: str, noticed_by: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a function on the list."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        SABOTAGES.append(Sabotage(owner, method, function, noticed_by))
        return function

    return register


# -- topics --


@sabotage(Catalog, "all", "test_all_is_sorted")
def lists_topics_backwards(original: Any, self: Any) -> Any:
    return original(self)[::-1]


@sabotage(SeededRandom, "uuid", "test_create_after_delete")
def gives_every_topic_the_same_id(original: Any, self: Any) -> Any:
    return UUID(int=1)


@sabotage(MemoryPartition, "die", "test_handle_of_deleted_topic")
def lets_deleted_topics_live_on(original: Any, self: Any) -> None:
    pass


@sabotage(MemoryPartition, "reconfigure", "test_grow")
def never_tells_partitions_of_changes(original: Any, self: Any, *change: Any) -> None:
    pass


@sabotage(Catalog, "configure", "test_configure")
def replaces_all_settings(original: Any, self: Any, name: str, changes: Any) -> Any:
    old = self.get(name)
    gone = dict.fromkeys(old.config) if old is not None else {}
    return original(self, name, {**gone, **changes})


@sabotage(Catalog, "subscribe", "test_cancel_subscription")
def never_cancels_a_subscription(original: Any, self: Any, listener: Any) -> Any:
    original(self, listener)
    return lambda: None


@sabotage(Catalog, "subscribe", "test_subscribe")
def tells_subscribers_of_creations_only(original: Any, self: Any, listener: Any) -> Any:
    if listener.__qualname__.startswith("MemoryStore"):
        return original(self, listener)
    return original(self, lambda old, new: old is None and listener(old, new))


# -- appending --


@sabotage(MemoryStore, "append", "test_one_answer_for_each_entry")
def answers_in_the_wrong_order(original: Any, self: Any, entries: Any) -> Any:
    return original(self, entries)[::-1]


@sabotage(MemoryStore, "append", "test_one_answer_for_each_entry")
def forgets_an_answer(original: Any, self: Any, entries: Any) -> Any:
    return original(self, entries)[:-1]


@sabotage(MemoryStore, "append", "test_error_in_its_place")
def fails_as_a_whole(original: Any, self: Any, entries: Any) -> Any:
    answers = original(self, entries)
    for each in answers:
        if isinstance(each, RustlogError):
            raise each
    return answers


@sabotage(MemoryStore, "append", "test_calls_overlap_in_order")
def appends_when_it_likes(original: Any, self: Any, entries: Any) -> Any:
    late: Deferred[Any] = Deferred()
    clock = self._watchers._clock
    delay = 0.01 * (sum(batch.buffer[-2] for _, batch in entries) % 7)
    clock.callLater(delay, lambda: late.callback(original(self, entries)))
    return late


@sabotage(MemoryPartition, "_placed", "test_stamped_with_offset_and_epoch")
def stores_what_the_client_said(original: Any, self: Any, batch: Any) -> bytes:
    return bytes(batch.buffer)


@sabotage(MemoryPartition, "_placed", "test_stamped_with_offset_and_epoch")
def forgets_the_epoch(original: Any, self: Any, batch: Any) -> bytes:
    return bytes(batch.at(self.high_watermark, -1).buffer)


@sabotage(MemoryPartition, "_placed", "test_keeps_no_view")
def keeps_a_view(original: Any, self: Any, batch: Any) -> Any:
    if not isinstance(batch.buffer, bytearray):
        return original(self, batch)
    batch.buffer[:16] = original(self, batch)[:16]
    return memoryview(batch.buffer)


@sabotage(MemoryStore, "append", "test_answered_is_visible")
def answers_before_it_is_visible(original: Any, self: Any, entries: Any) -> Any:
    answers = original(self, entries)
    for partition, _ in entries:
        clock = self._watchers._clock
        clock.callLater(0.01, setattr, partition, "high_watermark", partition.high_watermark)
        partition.high_watermark = 0
    return answers


# -- producers --


@sabotage(MemoryPartition, "append", "test_duplicate")
def does_not_know_duplicates(original: Any, self: Any, batch: Any, now_ms: int) -> Any:
    self._producers = type(self._producers)()
    return original(self, batch, now_ms)


@sabotage(MemoryPartition, "append", "test_gap")
def appends_what_it_refuses(original: Any, self: Any, batch: Any, now_ms: int) -> Any:
    try:
        return original(self, batch, now_ms)
    except RustlogError:
        self.high_watermark += 1
        raise


@sabotage(MemoryStore, "allocate_producer_ids", "test_producer_ids")
def gives_one_id_at_a_time(original: Any, self: Any, count: int) -> Any:
    return original(self, 1)


# -- reading --


def altered(change: Callable[[bytes], bytes]) -> Callable[..., Any]:
    """A read that does something to the bytes."""

    def read(original: Any, self: Any, *how: Any, **named: Any) -> Fetched:
        fetched = original(self, *how, **named)
        slices = tuple(MemorySlice(change(each.content)) for each in fetched.slices)
        return evolve(fetched, slices=slices, size=sum(each.size for each in slices))

    return read


@sabotage(MemoryPartition, "read", "test_reads_the_same_for_ever")
def serves_damaged_bytes(original: Any, self: Any, *how: Any, **named: Any) -> Any:
    return altered(lambda content: content[:-1] + bytes([content[-1] ^ 1]))(original, self, *how, **named)


@sabotage(MemoryPartition, "read", "test_begins_with_the_batch_that_contains_the_offset")
def cuts_batches_in_two(original: Any, self: Any, *how: Any, **named: Any) -> Any:
    return altered(lambda content: content[: len(content) - 5])(original, self, *how, **named)


@sabotage(MemoryPartition, "read", "test_max_bytes")
def ignores_limits(original: Any, self: Any, offset: int, size_max: int, at_least_one: bool) -> Any:
    return original(self, offset, 2**40, at_least_one)


@sabotage(MemoryPartition, "read", "test_first_batch_even_if_larger")
def gets_stuck_at_large_batches(
    original: Any, self: Any, offset: int, size_max: int, at_least_one: bool
) -> Any:
    return original(self, offset, size_max, False)


@sabotage(MemoryPartition, "read", "test_only_the_first_batch_may_be_larger")
def gives_everybody_a_batch(original: Any, self: Any, offset: int, size_max: int, at_least_one: bool) -> Any:
    return original(self, offset, size_max, True)


@sabotage(MemoryPartition, "read", "test_begins_with_the_batch_that_contains_the_offset")
def skips_the_batch_that_contains_the_offset(
    original: Any, self: Any, offset: int, *how: Any, **named: Any
) -> Any:
    return original(self, min(offset + 1, self.high_watermark), *how, **named)


@sabotage(MemoryPartition, "read", "test_beyond_the_end")
def knows_no_bounds(original: Any, self: Any, offset: int, *how: Any, **named: Any) -> Any:
    return original(self, min(offset, self.high_watermark), *how, **named)


@sabotage(MemoryPartition, "read", "test_bounds")
def shows_what_lies_above_the_high_watermark(original: Any, self: Any, *how: Any, **named: Any) -> Any:
    return evolve(fetched := original(self, *how, **named), high_watermark=fetched.high_watermark - 1)


@sabotage(MemoryStore, "read", "test_end_of_log")
def waits_for_data(original: Any, self: Any, *how: Any) -> Any:
    answers = original(self, *how)
    empty = any(isinstance(each, Fetched) and not each.size for each in answers)
    return Deferred() if empty else answers


@sabotage(MemoryStore, "read", "test_slice_survives_deleted_topic")
def takes_slices_back(original: Any, self: Any, wants: Any, *how: Any) -> Any:
    class Fleeting(MemorySlice):
        def buffer(self) -> bytes:
            return b"" if wants[0][0].deleted else self.content

    answers = original(self, wants, *how)
    return [
        evolve(each, slices=tuple(Fleeting(one.content) for one in each.slices))
        if isinstance(each, Fetched)
        else each
        for each in answers
    ]


# -- watching --


@sabotage(Watchers, "announce", "test_told_of_data")
def tells_nobody(original: Any, self: Any, partition: Any) -> None:
    pass


@sabotage(Watchers, "announce", "test_never_from_within")
def tells_from_within(original: Any, self: Any, partition: Any) -> None:
    for watch in tuple(self._listeners.get(partition, ())):
        self._tell_one(partition, watch)


@sabotage(Watchers, "announce", "test_told_of_death")
def does_not_tell_of_deaths(original: Any, self: Any, partition: Any) -> None:
    if not partition.deleted:
        original(self, partition)


@sabotage(Watchers, "watch", "test_cancel")
def never_cancels_a_watch(original: Any, self: Any, partition: Any, listener: Any) -> Any:
    original(self, partition, listener)
    return lambda: None


# -- finding and removing --


@sabotage(MemoryPartition, "offset_for", "test_timestamps_out_of_order")
def believes_that_time_is_sorted(original: Any, self: Any, spec: Any) -> Any:
    records = [] if not isinstance(spec, int) else self._segments[0].batches
    newer = [number for number, each in enumerate(records) if int.from_bytes(each[27:35], "big") >= spec]
    return FoundOffset(newer[-1]) if newer else original(self, spec)


@sabotage(MemoryPartition, "offset_for", "test_timestamp_of_deleted_records")
def finds_deleted_records(original: Any, self: Any, spec: Any) -> Any:
    start, self.log_start_offset = self.log_start_offset, 0
    try:
        return original(self, spec)
    finally:
        self.log_start_offset = start


@sabotage(MemoryPartition, "epoch_end", "test_no_such_epoch")
def invents_epochs(original: Any, self: Any, epoch: int) -> Any:
    return original(self, 0)


@sabotage(MemoryPartition, "delete_records", "test_delete_records_again")
def goes_back(original: Any, self: Any, before: int) -> int:
    self.log_start_offset = before
    return before


@sabotage(MemoryPartition, "delete_records", "test_delete_records_beyond_the_end")
def deletes_what_is_not_there(original: Any, self: Any, before: int) -> Any:
    return original(self, min(before, self.high_watermark))


@sabotage(MemoryPartition, "retire", "test_young_records_stay")
def removes_young_records(original: Any, self: Any, now_ms: int) -> None:
    self.delete_records(self.high_watermark)


@sabotage(MemoryPartition, "retire", "test_old_records_go")
def keeps_everything(original: Any, self: Any, now_ms: int) -> None:
    pass


@sabotage(MemoryPartition, "_is_surplus", "test_too_much")
def grows_without_limit(original: Any, self: Any, size: int) -> bool:
    return False


@sabotage(MemoryStore, "maintain", "test_nothing_to_maintain")
def is_never_done(original: Any, self: Any) -> Any:
    return original(self).addCallback(lambda _: True)


# -- closing --


@sabotage(MemoryStore, "close", "test_closed_for_records")
def goes_on_after_closing(original: Any, self: Any) -> Any:
    return succeed(None)


@sabotage(MemoryStore, "_ask", "test_closed_for_questions")
def raises_instead_of_failing(original: Any, self: Any, partition: Any, method: Any, *arguments: Any) -> Any:
    self._require_alive(partition)
    return succeed(method(*arguments))


# -- offsets of groups --


@sabotage(MemoryOffsets, "commit", "test_last_commit_wins")
def believes_that_progress_never_goes_back(
    original: Any, self: Any, group: str, offsets: Any, generation: Any = None
) -> Any:
    known = self._groups.get(group).offsets
    kept = {
        name: max(each, known.get(name, each), key=lambda one: one.offset) for name, each in offsets.items()
    }
    return original(self, group, kept, generation)


@sabotage(MemoryOffsets, "commit", "test_commit")
def forgets_what_came_with_the_offset(
    original: Any, self: Any, group: str, offsets: Any, generation: Any = None
) -> Any:
    bare = {name: Committed(each.offset) for name, each in offsets.items()}
    return original(self, group, bare, generation)


@sabotage(MemoryOffsets, "commit", "test_stale_generation")
def lets_everybody_commit(original: Any, self: Any, group: str, offsets: Any, generation: Any = None) -> Any:
    return original(self, group, offsets)


@sabotage(MemoryOffsets, "commit", "test_stale_generation")
def commits_a_half(original: Any, self: Any, group: str, offsets: Any, generation: Any = None) -> Any:
    original(self, group, dict(list(offsets.items())[:1]))
    return original(self, group, offsets, generation)


@sabotage(MemoryOffsets, "fetch", "test_answers_are_copies")
def hands_out_its_own_dict(original: Any, self: Any, group: str, partitions: Any = None) -> Any:
    return succeed(self._groups.get(group).offsets)


@sabotage(MemoryOffsets, "save", "test_version_conflict")
def overwrites_documents(original: Any, self: Any, group: str, version: int, document: bytes) -> Any:
    return original(self, group, self._groups.get(group).version, document)


@sabotage(MemoryOffsets, "groups", "test_groups_are_sorted")
def lists_groups_without_offsets_not_at_all(original: Any, self: Any) -> Any:
    return succeed(tuple(name for name in self._groups.names() if self._groups.get(name).offsets))


@sabotage(MemoryOffsets, "delete", "test_delete_group")
def deletes_offsets_only(original: Any, self: Any, group: str, partitions: Any = None) -> Any:
    return original(self, group, list(self._groups.get(group).offsets) if partitions is None else partitions)


@sabotage(MemoryOffsets, "expire", "test_expire")
def expires_what_bears_no_time(original: Any, self: Any, group: str, before_ms: int) -> Any:
    known = self._groups.get(group).offsets
    timeless = [name for name, each in known.items() if each.commit_time == -1]
    self._groups.delete(group, timeless)
    return original(self, group, before_ms)


@sabotage(MemoryOffsets, "expire", "test_expire_everything")
def expires_groups_with_a_document(original: Any, self: Any, group: str, before_ms: int) -> Any:
    self._groups.forget(group)
    return original(self, group, before_ms)


# -- the tests --


def log_store_suite(test: str, store: type[MemoryStore] = MemoryStore) -> Any:
    """One test of the contract.  The class is made here, where no test runner finds it."""

    class Suite(LogStoreContract, SynchronousTestCase):
        def open_store(self, environment: Any) -> MemoryStore:
            return store(MemorySettings(), environment)

    return Suite(test)


def offset_store_suite(test: str) -> Any:
    """The same for offset stores."""

    class Suite(OffsetStoreContract, SynchronousTestCase):
        durable = False

        def open_store(self, environment: Any) -> MemoryOffsets:
            return MemoryOffsets()

    return Suite(test)


def run(test: Any) -> unittest.TestResult:
    """Run a test within a test."""
    result = unittest.TestResult()
    test.run(result)
    return result


class SabotageTests(SynchronousTestCase):
    """The contract suites notice what is wrong."""

    def suite(self, each: Sabotage) -> Any:
        """The test that must notice."""
        make = offset_store_suite if each.owner is MemoryOffsets else log_store_suite
        return make(each.noticed_by)

    def test_sabotages_are_noticed(self) -> None:
        """Whatever is broken in a store, some test fails, and it is the one that is about it."""
        unnoticed = []
        for each in SABOTAGES:
            with each.commit():
                result = run(self.suite(each))
            if result.wasSuccessful():
                unnoticed.append(f"{each} was not noticed by {each.noticed_by}")
        self.flushLoggedErrors()
        self.assertEqual(unnoticed, [])

    def test_sound_store(self) -> None:
        """The same tests have nothing to say against the store as it is."""
        for each in SABOTAGES:
            result = run(self.suite(each))
            self.assertEqual((result.testsRun, result.errors, result.failures), (1, [], []))

    def test_false_claim_of_durability(self) -> None:
        """A store that claims to remember must remember."""

        class Boaster(MemoryStore):
            limits = StoreLimits(durable=True)

        for what in ("topics", "records", "log_start_offset", "producers", "producer_ids"):
            result = run(log_store_suite(f"test_reopened_{what}", Boaster))
            self.assertFalse(result.wasSuccessful(), what)

    def test_limits_are_respected(self) -> None:
        """What a store does not claim to hold is skipped, with the reason."""

        class Modest(MemoryStore):
            limits = StoreLimits(False, False, False, False, False, False)

        skipped = {
            "test_reopened_records": "durable",
            "test_headers": "headers",
            "test_null_keys": "null_keys",
            "test_null_values": "null_values",
            "test_compression": "compression",
            "test_duplicate": "producer_state",
        }
        for test, limit in skipped.items():
            ((_, reason),) = run(log_store_suite(test, Modest)).skipped
            self.assertIn(f"StoreLimits.{limit} is false", reason)


class CourseTests(SynchronousTestCase):
    """Which tests are run, how often, and how."""

    def test_no_test_hides_another(self) -> None:
        """The contract is put together from parts; none of them defines what another does."""
        parts = [part for part in LogStoreContract.__mro__ if issubclass(part, LogStoreHarness)]
        names = [name for part in parts for name in vars(part) if name.startswith("test_")]
        self.assertEqual(len(names), len(set(names)))

    def test_every_course(self) -> None:
        """A test is run in each course, with a fresh environment and a fresh store."""
        opened = []

        class Suite(LogStoreContract, SynchronousTestCase):
            courses = (Course(None), Course(7), Course(7, late_answers=True))

            def open_store(self, environment: Any) -> MemoryStore:
                opened.append((self.course, environment))
                return MemoryStore(MemorySettings(), environment)

        self.assertTrue(run(Suite("test_new_store")).wasSuccessful())
        self.assertEqual([course for course, _ in opened], list(Suite.courses))
        self.assertEqual(len({id(environment) for _, environment in opened}), 3)

    def test_failure_names_its_course(self) -> None:
        """Whoever reads of a failure knows how to repeat it."""
        with patch.object(MemoryStore, "append", lambda self, entries: Deferred()):
            ((_, report),) = run(log_store_suite("test_large_batch")).failures
        self.assertIn("no answer came", report)
        self.assertIn("This happened in a mild environment, no wrapper.", report)
        self.assertEqual(str(Course(3, late_answers=True)), "a harsh environment, seed 3, late answers")

    def test_store_may_be_opened_late(self) -> None:
        """A store may need time to be opened."""

        class Suite(LogStoreContract, SynchronousTestCase):
            def open_store(self, environment: Any) -> Deferred[MemoryStore]:
                opened: Deferred[MemoryStore] = Deferred()
                store = MemoryStore(MemorySettings(), environment)
                environment.clock.callLater(1, opened.callback, store)
                return opened

        self.assertTrue(run(Suite("test_offsets_are_dense")).wasSuccessful())

    def test_real_directory(self) -> None:
        """A store with files of its own has a directory for each environment, while the test lasts."""
        given: list[Path] = []

        class Suite(LogStoreContract, SynchronousTestCase):
            courses = (Course(None), Course(7))

            def open_store(self, environment: Any) -> MemoryStore:
                directory = Path(self.real_directory(environment))
                assert directory == Path(self.real_directory(environment.after_crash()))
                assert list(directory.iterdir()) == []
                (directory / "log").touch()
                given.append(directory)
                return MemoryStore(MemorySettings(), environment)

        self.assertTrue(run(Suite("test_new_store")).wasSuccessful())
        self.assertEqual(len(set(given)), 2)
        self.assertEqual([each.exists() for each in given], [False, False])
