"""The catalogue of a log store, and the handles on its partitions."""

from __future__ import annotations

from operator import attrgetter
from typing import Any
from uuid import UUID

from zope.interface.verify import verifyObject

from rustlog.errors import InvalidPartitionCount, TopicExists, TopicNotFound
from rustlog.interfaces import ILogStore, IPartition, ITopicCatalog
from rustlog.model import Appended, OffsetSpec, StoreLimits, TopicInfo, TopicPartition
from rustlog.testing.contracts.harness import PLENTY, LogStoreHarness, in_every_course

NEVER_GIVEN = UUID(int=0)


@in_every_course
class TopicContract(LogStoreHarness):
    """What L{ITopicCatalog} and L{IPartition} promise."""

    # -- the objects --

    def test_provides_interfaces(self) -> None:
        """Store, catalogue and partitions have every method, with the right arguments."""
        verifyObject(ILogStore, self.store)
        verifyObject(ITopicCatalog, self.store.catalog)
        verifyObject(IPartition, self.create())
        self.assertIsInstance(self.store.limits, StoreLimits)

    def test_new_store(self) -> None:
        """A new store has no topics."""
        catalog = self.store.catalog
        self.assertEqual(catalog.all(), ())
        self.assertIsNone(catalog.get("orders"))
        self.assertIsNone(catalog.get_by_id(NEVER_GIVEN))
        self.assertIsNone(self.finish(catalog.refresh("orders")))
        self.assertIsNone(self.store.partition("orders", 0))

    # -- creating --

    def test_create(self) -> None:
        """A new topic is what was asked for, and can be looked up at once."""
        catalog = self.store.catalog
        info = self.finish(catalog.create("orders", 3, {"retention.ms": "5000"}))
        self.assertIsInstance(info, TopicInfo)
        self.assertEqual((info.name, info.partitions), ("orders", 3))
        self.assertEqual((dict(info.config), info.internal), ({"retention.ms": "5000"}, False))
        self.assertIsInstance(info.id, UUID)
        self.assertEqual(catalog.get("orders"), info)
        self.assertEqual(catalog.get_by_id(info.id), info)
        self.assertEqual(catalog.all(), (info,))
        self.assertEqual(self.finish(catalog.refresh("orders")), info)

    def test_create_keeps_no_reference(self) -> None:
        """Settings that are changed by the caller afterwards do not change in the catalogue."""
        config = {"retention.ms": "5000"}
        self.finish(self.store.catalog.create("orders", 1, config))
        config["retention.ms"] = "1"
        self.assertEqual(dict(self.store.catalog.get("orders").config), {"retention.ms": "5000"})

    def test_create_internal(self) -> None:
        """An internal topic is known as one."""
        info = self.finish(self.store.catalog.create("__offsets", 1, {}, internal=True))
        self.assertIs(info.internal, True)
        self.assertIs(self.store.catalog.get("__offsets").internal, True)

    def test_create_existing(self) -> None:
        """A topic that exists is not created again, and stays as it is."""
        partition = self.create()
        self.send(partition, b"a")
        before = self.store.catalog.get("orders")
        error = self.assert_fails(TopicExists, self.store.catalog.create("orders", 5, {"retention.ms": "1"}))
        self.assertEqual(error.topic, "orders")
        self.assertEqual(self.store.catalog.get("orders"), before)
        self.assertEqual(self.values(partition), [b"a"])

    def test_create_twice_at_once(self) -> None:
        """Of several who create the same topic at the same time, one succeeds."""
        calls = [self.store.catalog.create("orders", count, {}) for count in (1, 2, 3)]
        outcomes = [self.outcome(each) for each in calls]
        created = [each for each in outcomes if isinstance(each, TopicInfo)]
        self.assertEqual(created, [self.store.catalog.get("orders")])
        self.assertEqual(sum(isinstance(each, TopicExists) for each in outcomes), 2)

    def outcome(self, answer: Any) -> Any:
        """An answer, or its error."""
        try:
            return self.finish(answer)
        except TopicExists as error:
            return error

    def test_all_is_sorted(self) -> None:
        """Topics are listed by name, whatever the order in which they were made."""
        for name in ("orders", "Orders", "a-b", "a.b", "z", "a_b", "a"):
            self.create(name)
        names = [info.name for info in self.store.catalog.all()]
        self.assertEqual(names, sorted(names))
        self.assertEqual(len(names), 7)
        self.assertIsInstance(self.store.catalog.all(), tuple)

    def test_all_is_a_snapshot(self) -> None:
        """A listing does not change under the hands of the one who got it."""
        self.create("a")
        before = self.store.catalog.all()
        self.create("b")
        self.finish(self.store.catalog.delete("a"))
        self.assertEqual([info.name for info in before], ["a"])

    def test_many_at_once(self) -> None:
        """Topics can be made at the same time, and each gets an id of its own."""
        calls = [self.store.catalog.create(f"t{number}", 1, {}) for number in range(20)]
        infos = self.finish_all(calls)
        self.assertEqual([info.name for info in infos], [f"t{number}" for number in range(20)])
        self.assertEqual(len({info.id for info in infos}), 20)
        self.assertEqual(list(self.store.catalog.all()), sorted(infos, key=attrgetter("name")))

    # -- handles --

    def test_partition(self) -> None:
        """A handle says what it is a handle on; a new partition is empty."""
        partitions = self.create_many(3)
        for index, partition in enumerate(partitions):
            self.assertEqual(partition.index, index)
            self.assertEqual(partition.name, TopicPartition("orders", index))
            self.assertEqual(partition.topic, self.store.catalog.get("orders"))
            self.assertEqual((partition.log_start_offset, partition.high_watermark), (0, 0))
            self.assertGreaterEqual(partition.leader_epoch, 0)

    def test_partition_is_the_same(self) -> None:
        """Whoever asks for a partition gets the same handle, which can be a key."""
        (first, second) = self.create_many(2)
        self.assertIs(self.store.partition("orders", 0), first)
        self.assertEqual({first: 0, second: 1}[self.store.partition("orders", 1)], 1)
        self.assertNotEqual(first, second)

    def test_no_such_partition(self) -> None:
        """There is no handle on what does not exist."""
        self.create_many(2)
        for topic, index in (("orders", 2), ("orders", -1), ("Orders", 0), ("", 0)):
            self.assertIsNone(self.store.partition(topic, index), (topic, index))

    # -- deleting --

    def test_delete(self) -> None:
        """A deleted topic is gone from the catalogue, and others are not."""
        self.create("kept")
        self.create("orders")
        info = self.store.catalog.get("orders")
        self.assertIsNone(self.finish(self.store.catalog.delete("orders")))
        self.assertIsNone(self.store.catalog.get("orders"))
        self.assertIsNone(self.store.catalog.get_by_id(info.id))
        self.assertIsNone(self.finish(self.store.catalog.refresh("orders")))
        self.assertIsNone(self.store.partition("orders", 0))
        self.assertEqual([each.name for each in self.store.catalog.all()], ["kept"])

    def test_delete_unknown(self) -> None:
        """What does not exist can not be deleted, nor deleted twice."""
        error = self.assert_fails(TopicNotFound, self.store.catalog.delete("orders"))
        self.assertEqual(error.topic, "orders")
        self.create()
        self.finish(self.store.catalog.delete("orders"))
        self.assert_fails(TopicNotFound, self.store.catalog.delete("orders"))

    def test_handle_of_deleted_topic(self) -> None:
        """Whatever is asked of a handle on a deleted topic, the answer is that there is none."""
        partition = self.create()
        self.send(partition, b"a", b"b")
        self.finish(self.store.catalog.delete("orders"))
        self.check_dead(partition)

    def check_dead(self, partition: Any) -> None:
        """The handle does nothing any more."""
        store = self.store
        (appended,) = self.append((partition, self.batch(b"c")))
        self.assertIsInstance(appended, TopicNotFound)
        (fetched,) = self.read((partition, 0, PLENTY))
        self.assertIsInstance(fetched, TopicNotFound)
        self.assertEqual((appended.topic, fetched.topic), ("orders", "orders"))
        self.assert_fails(TopicNotFound, store.offset_for(partition, OffsetSpec.EARLIEST))
        self.assert_fails(TopicNotFound, store.offset_for(partition, 0))
        self.assert_fails(TopicNotFound, store.epoch_end(partition, 0))
        self.assert_fails(TopicNotFound, store.delete_records(partition, 1))
        self.assert_fails(TopicNotFound, store.describe(partition))
        self.assert_fails(TopicNotFound, store.producers(partition))

    def test_create_after_delete(self) -> None:
        """A topic that takes a deleted one's name begins at 0, has its own id, and nothing of the old."""
        old = self.create()
        old_id = self.store.catalog.get("orders").id
        self.send(old, b"a", b"b")
        self.finish(self.store.catalog.delete("orders"))
        new = self.create()
        self.assertNotEqual(self.store.catalog.get("orders").id, old_id)
        self.assertIsNone(self.store.catalog.get_by_id(old_id))
        self.assertEqual(self.values(new), [])
        self.assertEqual(self.send(new, b"c").base_offset, 0)
        self.assertEqual(self.values(new), [b"c"])
        self.check_dead(old)

    def test_delete_while_appending(self) -> None:
        """An append that meets the deletion of its topic is answered, one way or the other."""
        partition = self.create()
        pending = [self.store.append([(partition, self.batch(b"a"))]) for _ in range(5)]
        deleted = self.store.catalog.delete("orders")
        for each in pending:
            (answer,) = self.finish(each)
            self.assertIsInstance(answer, (Appended, TopicNotFound))
        self.finish(deleted)
        self.check_dead(partition)

    # -- growing --

    def test_grow(self) -> None:
        """A topic gets more partitions; those it has keep their handles and records."""
        partition = self.create()
        self.send(partition, b"a")
        before = self.store.catalog.get("orders")
        info = self.finish(self.store.catalog.grow("orders", 3))
        self.assertEqual((info.partitions, info.id, info.config), (3, before.id, before.config))
        self.assertEqual(self.store.catalog.get("orders"), info)
        self.assertEqual(self.store.catalog.get_by_id(info.id), info)
        self.assertIs(self.store.partition("orders", 0), partition)
        self.assertEqual(partition.topic, info)
        self.assertEqual(self.values(partition), [b"a"])
        added = self.store.partition("orders", 2)
        self.assertEqual(self.send(added, b"b").base_offset, 0)

    def test_grow_must_grow(self) -> None:
        """A topic never gets less partitions, nor as many as it has."""
        self.create_many(3)
        for count in (3, 2, 0, -1):
            self.assert_fails(InvalidPartitionCount, self.store.catalog.grow("orders", count))
        self.assertEqual(self.store.catalog.get("orders").partitions, 3)

    def test_grow_unknown(self) -> None:
        """What does not exist can not grow."""
        self.assert_fails(TopicNotFound, self.store.catalog.grow("orders", 3))

    # -- configuring --

    def test_configure(self) -> None:
        """Settings are added, changed and removed one by one."""
        partition = self.create(config={"retention.ms": "1000", "segment.ms": "50", "segment.bytes": "99"})
        before = self.store.catalog.get("orders")
        changes = {"retention.ms": "2000", "segment.ms": None, "retention.bytes": "7", "cleanup.policy": None}
        info = self.finish(self.store.catalog.configure("orders", changes))
        kept = {"retention.ms": "2000", "segment.bytes": "99", "retention.bytes": "7"}
        self.assertEqual(dict(info.config), kept)
        self.assertEqual((info.id, info.partitions), (before.id, before.partitions))
        self.assertEqual(self.store.catalog.get("orders"), info)
        self.assertEqual(self.store.catalog.get_by_id(info.id), info)
        self.assertIs(self.store.partition("orders", 0), partition)
        self.assertEqual(partition.topic, info)

    def test_configure_unknown(self) -> None:
        """What does not exist can not be configured."""
        self.assert_fails(TopicNotFound, self.store.catalog.configure("orders", {"retention.ms": "1"}))

    # -- subscribing --

    def test_subscribe(self) -> None:
        """A listener hears of every change, in order, with the topic before and after."""
        heard: list[tuple[TopicInfo | None, TopicInfo | None]] = []
        self.store.catalog.subscribe(lambda old, new: heard.append((old, new)))
        self.create_many(2)
        created = self.store.catalog.get("orders")
        configured = self.finish(self.store.catalog.configure("orders", {"retention.ms": "5"}))
        grown = self.finish(self.store.catalog.grow("orders", 4))
        self.finish(self.store.catalog.delete("orders"))
        self.settle()
        self.assertEqual(
            heard, [(None, created), (created, configured), (configured, grown), (grown, None)]
        )

    def test_subscriber_hears_after_the_change(self) -> None:
        """What a listener is told is what the catalogue shows, partitions included."""
        catalog = self.store.catalog
        shown: list[bool] = []

        def listen(old: TopicInfo | None, new: TopicInfo | None) -> None:
            name = (new or old).name  # type: ignore[union-attr]
            last = self.store.partition(name, new.partitions - 1 if new else 0)
            shown.append(catalog.get(name) == new and (last is None) == (new is None))

        catalog.subscribe(listen)
        self.create()
        self.finish(catalog.grow("orders", 2))
        self.finish(catalog.configure("orders", {"retention.ms": "5"}))
        self.finish(catalog.delete("orders"))
        self.settle()
        self.assertEqual(shown, [True] * 4)

    def test_subscriber_hears_no_refusals(self) -> None:
        """A change that is refused is no change."""
        self.create()
        heard: list[object] = []
        self.store.catalog.subscribe(lambda *change: heard.append(change))
        self.assert_fails(TopicExists, self.store.catalog.create("orders", 1, {}))
        self.assert_fails(InvalidPartitionCount, self.store.catalog.grow("orders", 1))
        self.assert_fails(TopicNotFound, self.store.catalog.delete("payments"))
        self.settle()
        self.assertEqual(heard, [])

    def test_cancel_subscription(self) -> None:
        """Who has cancelled hears nothing more; others do, even the same listener."""
        heard: list[str] = []

        def listen(old: TopicInfo | None, new: TopicInfo | None) -> None:
            heard.append(new.name if new else "")

        cancel = self.store.catalog.subscribe(listen)
        self.store.catalog.subscribe(listen)
        self.create("a")
        self.settle()
        cancel()
        self.create("b")
        self.settle()
        self.assertEqual(heard, ["a", "a", "b"])

    def test_subscribers_agree_on_the_order(self) -> None:
        """Changes made at the same time are heard in one order, which each topic's history fits."""
        heard: tuple[list[Any], list[Any]] = ([], [])
        for each in heard:
            self.store.catalog.subscribe(lambda old, new, each=each: each.append((old, new)))
        self.finish_all(self.store.catalog.create(name, 1, {}) for name in ("a", "b", "c"))
        grow, configure = self.store.catalog.grow, self.store.catalog.configure
        changes = [grow(name, 2) for name in ("c", "a", "b")]
        changes += [configure(name, {"retention.ms": "5"}) for name in ("b", "c", "a")]
        self.finish_all(changes)
        self.settle()
        self.assertEqual(heard[0], heard[1])
        current: dict[str, TopicInfo] = {}
        for old, new in heard[0]:
            self.assertEqual(current.get(new.name), old)
            current[new.name] = new
        self.assertEqual(tuple(current[name] for name in sorted(current)), self.store.catalog.all())
        for info in current.values():
            self.assertEqual((info.partitions, dict(info.config)), (2, {"retention.ms": "5"}))

    def test_topics_do_not_mix(self) -> None:
        """Names that are alike belong to different topics with different records."""
        names = ("a", "A", "a.b", "a-b", "a_b", "a-0", "0", "x" * 249)
        partitions = {name: self.create(name) for name in names}
        for name, partition in partitions.items():
            self.send(partition, name.encode())
        for name, partition in partitions.items():
            self.assertEqual(self.values(partition), [name.encode()])
