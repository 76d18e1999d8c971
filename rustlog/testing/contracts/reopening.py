"""Reopening: a durable store that is closed in good order comes back as it was."""

from __future__ import annotations

from rustlog.errors import OutOfOrderSequence, StaleProducerEpoch, TopicExists
from rustlog.model import OffsetSpec, TopicInfo
from rustlog.testing.contracts.harness import LogStoreHarness, in_every_course

SMALL_SEGMENTS = {"segment.bytes": "600", "index.interval.bytes": "150"}


@in_every_course
class ReopenContract(LogStoreHarness):
    """What C{StoreLimits.durable} promises."""

    def need_durability(self) -> None:
        """These tests are about stores that remember."""
        self.need("durable", "anything beyond its own life")

    def test_reopened_empty_store(self) -> None:
        """A store without topics has none afterwards either."""
        self.need_durability()
        self.reopen()
        self.assertEqual(self.store.catalog.all(), ())

    def test_reopened_topics(self) -> None:
        """Topics keep their ids, partitions and settings."""
        self.need_durability()
        self.create_many(3, "orders", {"retention.ms": "5000", "segment.ms": "50"})
        self.finish(self.store.catalog.create("__internal", 1, {}, internal=True))
        self.create("grown")
        self.finish(self.store.catalog.grow("grown", 4))
        self.finish(self.store.catalog.configure("orders", {"segment.ms": None, "retention.bytes": "9"}))
        before = self.store.catalog.all()
        self.reopen()
        self.assertEqual(list(map(_plain, self.store.catalog.all())), list(map(_plain, before)))
        for info in before:
            self.assertEqual(self.store.catalog.get_by_id(info.id), self.store.catalog.get(info.name))
            self.assertEqual(len(self.partitions(info.name)), info.partitions)
        self.assert_fails(TopicExists, self.store.catalog.create("orders", 1, {}))

    def test_reopened_deleted_topics(self) -> None:
        """What was deleted stays deleted, records included."""
        self.need_durability()
        self.send(self.create("gone"), b"a")
        self.send(self.create("again"), b"b")
        self.finish(self.store.catalog.delete("gone"))
        self.finish(self.store.catalog.delete("again"))
        self.send(self.create("again"), b"c")
        self.reopen()
        self.assertEqual([info.name for info in self.store.catalog.all()], ["again"])
        self.assertEqual(self.values(self.partitions("again")[0]), [b"c"])
        self.assertEqual(self.values(self.create("gone")), [])

    def test_reopened_records(self) -> None:
        """Every record is where it was, and reads the same."""
        self.need_durability()
        partitions = self.create_many(3, config=SMALL_SEGMENTS)
        for number in range(30):
            self.send(partitions[number % 2], b"%d" % number, b"x" * number, at=number)
        before = [self.stored(each) for each in partitions]
        self.reopen()
        self.assertEqual([self.stored(each) for each in self.partitions()], before)
        self.assertEqual([self.bounds(each) for each in self.partitions()], [(0, 30), (0, 30), (0, 0)])

    def test_reopened_again_and_again(self) -> None:
        """The next record gets the next offset, reopening after reopening."""
        self.need_durability()
        self.create(config=SMALL_SEGMENTS)
        for number in range(6):
            (partition,) = self.partitions()
            self.assertEqual(self.send(partition, b"%d" % number, b"x" * 100).base_offset, 2 * number)
            self.reopen()
        self.assertEqual(self.values(self.partitions()[0])[::2], [b"%d" % number for number in range(6)])

    def test_reopened_after_appends_under_way(self) -> None:
        """Appends that were under way when the store was closed are there."""
        self.need_durability()
        partition = self.create()
        pending = [self.store.append([(partition, self.batch(b"%d" % number))]) for number in range(10)]
        self.reopen()
        for (answer,) in self.finish_all(pending):
            self.accepted(answer)
        self.assertEqual(self.values(self.partitions()[0]), [b"%d" % number for number in range(10)])

    def test_reopened_log_start_offset(self) -> None:
        """Deleted records stay deleted, to the very offset."""
        self.need_durability()
        middle, all_of_it, none = self.create_many(3, config=SMALL_SEGMENTS)
        for partition in (middle, all_of_it, none):
            for _ in range(10):
                self.send(partition, b"x" * 100, b"y")
        self.finish(self.store.delete_records(middle, 13))
        self.finish(self.store.delete_records(all_of_it, 20))
        self.reopen()
        self.assertEqual([self.bounds(each) for each in self.partitions()], [(13, 20), (20, 20), (0, 20)])
        self.assertEqual(len(self.values(self.partitions()[0])), 7)
        self.assertEqual(self.send(self.partitions()[1], b"next").base_offset, 20)

    def test_reopened_retention(self) -> None:
        """What retention removed does not come back."""
        self.need_durability()
        partition = self.create(config={"retention.ms": "60000", **SMALL_SEGMENTS})
        for _ in range(10):
            self.send(partition, b"x" * 100)
        self.pass_time(120)
        self.maintain()
        self.reopen()
        (partition,) = self.partitions()
        self.assertEqual(self.bounds(partition), (10, 10))
        self.assertEqual(self.send(partition, b"next").base_offset, 10)

    def test_reopened_times(self) -> None:
        """Records are found by time as before."""
        self.need_durability()
        partition = self.create(config=SMALL_SEGMENTS)
        for number in range(20):
            self.send(partition, b"v", at=1000 - abs(number - 12) * 10)
        questions = [OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP, 0, 905, 990, 1001]
        before = self.finish_all(self.store.offset_for(partition, each) for each in questions)
        self.reopen()
        (partition,) = self.partitions()
        after = self.finish_all(self.store.offset_for(partition, each) for each in questions)
        self.assertEqual(after, before)

    def test_reopened_leader_epoch(self) -> None:
        """Where nothing was lost, the epoch is not raised."""
        self.need_durability()
        partition = self.create()
        self.send(partition, b"a")
        epoch = partition.leader_epoch
        self.reopen()
        (partition,) = self.partitions()
        self.assertEqual(partition.leader_epoch, epoch)
        self.assertEqual(self.finish(self.store.epoch_end(partition, epoch)), (epoch, 1))

    def test_reopened_producers(self) -> None:
        """A retry is harmless even if it comes after the reopening."""
        self.need_durability()
        self.need("producer_state", "what idempotent producers have sent")
        partition = self.create()
        batches = [self.batch(b"%d" % number, producer=(7, 1, number)) for number in range(5)]
        for batch in batches:
            self.send_batch(partition, batch)
        self.reopen()
        (partition,) = self.partitions()
        for offset, batch in enumerate(batches):
            again = self.send_batch(partition, batch)
            self.assertEqual((again.base_offset, again.duplicate), (offset, True))
        refused = [self.batch(b"x", producer=producer) for producer in ((7, 1, 6), (7, 0, 0))]
        gap, stale = self.append(*[(partition, batch) for batch in refused])
        self.assertEqual((type(gap), type(stale)), (OutOfOrderSequence, StaleProducerEpoch))
        self.assertEqual(self.send_batch(partition, self.batch(b"5", producer=(7, 1, 5))).base_offset, 5)

    def test_reopened_producer_ids(self) -> None:
        """An id that was given once is not given again."""
        self.need_durability()
        given: set[int] = set()
        for _ in range(4):
            for count in (1, 3):
                first = self.finish(self.store.allocate_producer_ids(count))
                fresh = set(range(first, first + count))
                self.assertFalse(given & fresh)
                given |= fresh
            self.reopen()


def _plain(info: TopicInfo) -> tuple[object, ...]:
    """All of a topic; settings may be any kind of mapping."""
    return info.id, info.name, info.partitions, dict(info.config), info.internal
