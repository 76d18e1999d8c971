"""Closing: nothing is left hanging, and nothing goes on."""

from __future__ import annotations

from rustlog.errors import Closed
from rustlog.model import OffsetSpec
from rustlog.testing.contracts.harness import PLENTY, LogStoreHarness, in_every_course


@in_every_course
class CloseContract(LogStoreHarness):
    """What L{ILogStore.close <rustlog.interfaces.ILogStore.close>} promises."""

    def test_close(self) -> None:
        """A store can be closed, used or not."""
        self.assertIsNone(self.finish(self.store.close()))

    def test_close_twice(self) -> None:
        """Closing again, or while it is being closed, does no harm."""
        self.send(self.create(), b"a")
        self.finish_all([self.store.close(), self.store.close()])
        self.finish(self.store.close())

    def test_closed_for_records(self) -> None:
        """A closed store appends nothing and gives nothing: each entry and each want is told so."""
        partitions = self.create_many(2)
        self.finish(self.store.close())
        answers = self.append(*[(each, self.batch(b"a")) for each in partitions])
        answers += self.read(*[(each, 0, PLENTY) for each in partitions])
        for each in answers:
            self.assertIsInstance(each, Closed)

    def test_closed_for_questions(self) -> None:
        """A closed store answers no question about a partition."""
        partition = self.create()
        store = self.store
        self.finish(store.close())
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP, 0):
            self.assert_fails(Closed, store.offset_for(partition, spec))
        self.assert_fails(Closed, store.epoch_end(partition, 0))
        self.assert_fails(Closed, store.delete_records(partition, 0))
        self.assert_fails(Closed, store.describe(partition))
        self.assert_fails(Closed, store.producers(partition))
        self.assert_fails(Closed, store.describe_storage())

    def test_closed_for_work(self) -> None:
        """A closed store neither hands out ids nor is maintained."""
        self.finish(self.store.close())
        self.assert_fails(Closed, self.store.allocate_producer_ids(1))
        self.assert_fails(Closed, self.store.maintain())

    def test_closed_for_topics(self) -> None:
        """The topics of a closed store can not be changed."""
        self.create()
        catalog = self.store.catalog
        self.finish(self.store.close())
        self.assert_fails(Closed, catalog.create("payments", 1, {}))
        self.assert_fails(Closed, catalog.delete("orders"))
        self.assert_fails(Closed, catalog.grow("orders", 2))
        self.assert_fails(Closed, catalog.configure("orders", {"retention.ms": "1"}))

    def test_drains_appends(self) -> None:
        """What was accepted before the store was closed is appended, and answered by then."""
        partition = self.create()
        pending = [self.store.append([(partition, self.batch(b"a"))]) for _ in range(10)]
        self.finish(self.store.close())
        answers = [self.accepted(answer) for (answer,) in self.finish_all(pending)]
        self.assertEqual([each.base_offset for each in answers], list(range(10)))

    def test_drains_the_rest(self) -> None:
        """Everything else that was asked before is answered too."""
        partition = self.create()
        self.send(partition, b"a", b"b")
        pending = (
            self.store.catalog.create("payments", 1, {}),
            self.store.catalog.configure("orders", {"retention.ms": "5"}),
            self.store.delete_records(partition, 1),
            self.store.allocate_producer_ids(5),
        )
        closed = self.store.close()
        created, configured, start, _ = self.finish_all(pending)
        self.finish(closed)
        self.assertEqual((created.name, start), ("payments", 1))
        self.assertEqual(dict(configured.config), {"retention.ms": "5"})
