"""Removing: records that are deleted, too old, or too many."""

from __future__ import annotations

from typing import Any

from rustlog.errors import OffsetOutOfRange
from rustlog.model import MAX_OFFSET, OffsetSpec
from rustlog.testing.contracts.harness import PLENTY, LogStoreHarness, in_every_course

SEGMENT_BYTES = 1000
SMALL_SEGMENTS = {"segment.bytes": str(SEGMENT_BYTES)}
DAY_SECONDS = 24 * 3600
MANY_PARTITIONS = 60


@in_every_course
class RemoveContract(LogStoreHarness):
    """What C{delete_records} and C{maintain} of a log store promise."""

    def fill(self, partition: Any, count: int) -> None:
        """Append so many records of about 200 bytes, each in a batch of its own."""
        for _ in range(count):
            self.send(partition, b"x" * 120)

    # -- on request --

    def test_delete_records(self) -> None:
        """What lies before the offset is gone; what lies behind it is not."""
        partition = self.create()
        for value in (b"a", b"b", b"c"):
            self.send(partition, value)
        self.assertEqual(self.finish(self.store.delete_records(partition, 2)), 2)
        self.assertEqual(partition.log_start_offset, 2)
        self.assertEqual(self.bounds(partition), (2, 3))
        self.assertEqual(self.values(partition), [b"c"])

    def test_delete_records_within_a_batch(self) -> None:
        """The log may start in the middle of a batch: reading there begins with that batch."""
        partition = self.create()
        self.send(partition, b"a", b"b", b"c")
        self.assertEqual(self.finish(self.store.delete_records(partition, 1)), 1)
        self.assertTrue(self.read_one(partition, 1)[0].last_offset >= 1)
        self.assertEqual(self.values(partition), [b"b", b"c"])
        (error,) = self.read((partition, 0, PLENTY))
        self.assertIsInstance(error, OffsetOutOfRange)

    def test_delete_all_records(self) -> None:
        """A log can be emptied; the next record still gets the next offset."""
        partition = self.create(config=SMALL_SEGMENTS)
        self.fill(partition, 12)
        self.assertEqual(self.finish(self.store.delete_records(partition, 12)), 12)
        self.assertEqual(self.bounds(partition), (12, 12))
        self.assertEqual(self.values(partition), [])
        self.assertEqual(self.send(partition, b"next").base_offset, 12)
        self.assertEqual(self.values(partition), [b"next"])

    def test_delete_records_again(self) -> None:
        """The start of the log never goes back."""
        partition = self.create()
        self.send(partition, b"a", b"b", b"c")
        self.finish(self.store.delete_records(partition, 2))
        for before in (2, 1, 0):
            self.assertEqual(self.finish(self.store.delete_records(partition, before)), 2)
        self.assertEqual(self.bounds(partition), (2, 3))

    def test_delete_records_at_once(self) -> None:
        """Of several deletions at the same time, the farthest counts."""
        partition = self.create()
        self.fill(partition, 6)
        calls = [self.store.delete_records(partition, before) for before in (2, 5, 3)]
        answers = self.finish_all(calls)
        for answer, before in zip(answers, (2, 5, 3), strict=True):
            self.assertIn(answer, range(before, 6))
        self.assertEqual(self.bounds(partition), (5, 6))

    def test_delete_records_beyond_the_end(self) -> None:
        """What is not there yet can not be deleted, and the attempt deletes nothing."""
        partition = self.create()
        self.send(partition, b"a", b"b")
        for before in (3, MAX_OFFSET):
            error = self.assert_fails(OffsetOutOfRange, self.store.delete_records(partition, before))
            self.assertEqual((error.requested, error.log_start_offset, error.high_watermark), (before, 0, 2))
        self.assertEqual(self.values(partition), [b"a", b"b"])

    def test_delete_records_frees_space(self) -> None:
        """What is deleted takes no space any more, but for the rest of a segment."""
        partition = self.create(config=SMALL_SEGMENTS)
        self.fill(partition, 40)
        self.finish(self.store.delete_records(partition, 38))
        self.settle()
        self.assertLessEqual(self.finish(self.store.describe(partition)).size, 2 * SEGMENT_BYTES)

    def test_delete_records_of_one_partition(self) -> None:
        """Others keep theirs."""
        first, second = self.create_many(2)
        for partition in (first, second):
            self.send(partition, b"a", b"b")
        self.finish(self.store.delete_records(first, 2))
        self.assertEqual(self.values(second), [b"a", b"b"])

    # -- by age --

    def test_old_records_go(self) -> None:
        """When all records are older than the topic keeps them, all go, and offsets go on."""
        partition = self.create(config={"retention.ms": "60000", **SMALL_SEGMENTS})
        self.fill(partition, 12)
        self.pass_time(120)
        self.maintain()
        self.settle()
        self.assertEqual(self.bounds(partition), (12, 12))
        self.assertEqual(self.finish(self.store.offset_for(partition, OffsetSpec.EARLIEST)).offset, 12)
        self.assertEqual(self.send(partition, b"next").base_offset, 12)
        self.assertEqual(self.values(partition), [b"next"])

    def test_young_records_stay(self) -> None:
        """Old records go piece by piece; a record that is young enough never goes with them."""
        partition = self.create(config={"retention.ms": "60000", **SMALL_SEGMENTS})
        self.fill(partition, 20)
        self.pass_time(120)
        self.send(partition, b"young")
        self.maintain()
        self.settle()
        start, end = self.bounds(partition)
        self.assertIn(start, range(1, 21))
        self.assertEqual(end, 21)
        self.assertEqual(self.values(partition)[-1], b"young")

    def test_age_is_what_records_say(self) -> None:
        """A record is as old as its timestamp, whenever it arrived."""
        partition = self.create(config={"retention.ms": "60000"})
        self.send(partition, b"old", at=self.environment.wall.now_ms() - 61_000)
        self.maintain()
        self.settle()
        self.assertEqual(self.bounds(partition), (1, 1))

    def test_nothing_is_old_at_first(self) -> None:
        """Maintenance leaves alone what is within its limits."""
        partition = self.create(config={"retention.ms": "60000", **SMALL_SEGMENTS})
        self.fill(partition, 12)
        self.pass_time(30)
        self.maintain()
        self.settle()
        self.assertEqual(self.bounds(partition), (0, 12))

    def test_kept_for_ever(self) -> None:
        """A topic without limits keeps everything."""
        config = {"retention.ms": "-1", "retention.bytes": "-1", **SMALL_SEGMENTS}
        partition = self.create(config=config)
        self.fill(partition, 12)
        self.pass_time(1000 * DAY_SECONDS)
        self.maintain()
        self.settle()
        self.assertEqual(self.bounds(partition), (0, 12))

    def test_limits_can_be_changed(self) -> None:
        """What a topic keeps follows its settings as they are now."""
        partition = self.create(config={"retention.ms": "-1", **SMALL_SEGMENTS})
        self.fill(partition, 12)
        self.pass_time(3600)
        self.maintain()
        self.assertEqual(self.bounds(partition), (0, 12))
        self.finish(self.store.catalog.configure("orders", {"retention.ms": "1000"}))
        self.maintain()
        self.settle()
        self.assertEqual(self.bounds(partition), (12, 12))

    def test_reader_left_behind(self) -> None:
        """Who reads where records were removed hears of it, and where the log begins now."""
        partition = self.create(config={"retention.ms": "60000", **SMALL_SEGMENTS})
        self.fill(partition, 12)
        self.pass_time(120)
        self.fill(partition, 6)
        self.maintain()
        self.settle()
        start, end = self.bounds(partition)
        self.assertGreater(start, 0)
        for offset in (0, start - 1):
            (error,) = self.read((partition, offset, PLENTY))
            self.assertIsInstance(error, OffsetOutOfRange)
            self.assertEqual(
                (error.requested, error.log_start_offset, error.high_watermark), (offset, start, end)
            )
        self.assertTrue(self.read_one(partition, start))

    # -- by size --

    def test_too_much(self) -> None:
        """A partition shrinks to about the size that it may have, from its beginning."""
        limit = 3000
        partition = self.create(config={"retention.bytes": str(limit), **SMALL_SEGMENTS})
        self.fill(partition, 40)
        self.maintain()
        self.settle()
        size = self.finish(self.store.describe(partition)).size
        self.assertGreaterEqual(size, limit - SEGMENT_BYTES)
        self.assertLessEqual(size, limit + 2 * SEGMENT_BYTES)
        start, end = self.bounds(partition)
        self.assertIn(start, range(1, 40))
        self.assertEqual(end, 40)
        self.assertEqual(len(self.values(partition)), end - start)

    def test_not_too_much(self) -> None:
        """A partition within its limit keeps everything."""
        partition = self.create(config={"retention.bytes": "100000", **SMALL_SEGMENTS})
        self.fill(partition, 12)
        self.maintain()
        self.settle()
        self.assertEqual(self.bounds(partition), (0, 12))

    # -- step by step --

    def test_nothing_to_maintain(self) -> None:
        """An empty store needs no maintenance."""
        self.assertIs(self.finish(self.store.maintain()), False)

    def test_every_partition_has_its_turn(self) -> None:
        """However many partitions there are, and however small the steps, all are looked after."""
        partitions = self.create_many(MANY_PARTITIONS, config={"retention.ms": "60000"})
        self.append(*[(each, self.batch(b"old")) for each in partitions])
        self.pass_time(120)
        steps = 1
        while self.finish(self.store.maintain()):
            steps += 1
            self.assertLess(steps, 10 * MANY_PARTITIONS)
        self.settle()
        self.assertEqual({each.log_start_offset for each in partitions}, {1})

    def test_appending_during_maintenance(self) -> None:
        """Records that arrive while old ones are removed are kept."""
        partition = self.create(config={"retention.ms": "60000", **SMALL_SEGMENTS})
        self.fill(partition, 12)
        self.pass_time(120)
        maintained = self.store.maintain()
        answers = self.finish_all(self.store.append([(partition, self.batch(b"young"))]) for _ in range(3))
        self.assertEqual([self.accepted(each).base_offset for (each,) in answers], [12, 13, 14])
        self.finish(maintained)
        self.maintain()
        self.settle()
        self.assertEqual(self.values(partition)[-3:], [b"young"] * 3)

    def test_deleting_during_maintenance(self) -> None:
        """A topic may be deleted while its records are removed."""
        partition = self.create(config={"retention.ms": "60000", **SMALL_SEGMENTS})
        self.fill(partition, 12)
        self.pass_time(120)
        maintained = self.store.maintain()
        self.finish(self.store.catalog.delete("orders"))
        self.finish(maintained)
        self.maintain()
        self.assertEqual(self.values(self.create()), [])
