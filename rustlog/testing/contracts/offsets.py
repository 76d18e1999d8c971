"""L{OffsetStoreContract}: what every offset store must do."""

from __future__ import annotations

from typing import Any
from unittest import SkipTest

from zope.interface.verify import verifyObject

from rustlog.errors import Closed, StaleGeneration, VersionConflict
from rustlog.interfaces import IOffsetExpiry, IOffsetStore
from rustlog.model import MAX_OFFSET, Committed, TopicPartition
from rustlog.testing.contracts.harness import OffsetStoreHarness, in_every_course

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
PAYMENTS_0 = TopicPartition("payments", 0)

GROUPS = ("billing", "a:b:c", ":", "", "Größe", "x" * 1000, "../up", "new\nline")
"""Names that a client may invent."""


@in_every_course
class OffsetStoreContract(OffsetStoreHarness):
    """
    Everything that L{IOffsetStore} promises.

    Mix it into a C{SynchronousTestCase} and define
    L{open_store <rustlog.testing.contracts.harness.OffsetStoreHarness.open_store>}.

    @cvar durable: whether what was committed is there after closing and opening again.
    @cvar headers: whether metadata and leader epochs are there then, too.
    """

    durable: bool = True
    headers: bool = True

    def commit(self, group: str, *offsets: tuple[TopicPartition, int], generation: int | None = None) -> None:
        """Commit, which must succeed."""
        committed = {name: Committed(offset) for name, offset in offsets}
        self.assertIsNone(self.finish(self.store.commit(group, committed, generation)))

    def fetch(self, group: str, partitions: Any = None) -> dict[TopicPartition, int]:
        """The offsets that a group has committed."""
        found = self.finish(self.store.fetch(group, partitions))
        return {name: each.offset for name, each in found.items()}

    # -- committing and fetching --

    def test_provides_interface(self) -> None:
        """The store has every method, with the right arguments."""
        verifyObject(IOffsetStore, self.store)

    def test_nothing_committed(self) -> None:
        """A group that never committed has no offsets."""
        self.assertEqual(self.fetch("billing"), {})
        self.assertEqual(self.fetch("billing", [ORDERS_0]), {})
        self.assertEqual(self.finish(self.store.groups()), ())

    def test_commit(self) -> None:
        """What is committed is fetched with all that came with it."""
        committed = {
            ORDERS_0: Committed(5, leader_epoch=3, metadata="as it was", commit_time=1_700_000_000_000),
            ORDERS_1: Committed(0),
            PAYMENTS_0: Committed(MAX_OFFSET, metadata="größer"),
        }
        self.finish(self.store.commit("billing", committed))
        self.assertEqual(self.finish(self.store.fetch("billing")), committed)

    def test_fetch_some(self) -> None:
        """Only what is asked for is given, and only what was committed."""
        self.commit("billing", (ORDERS_0, 5), (PAYMENTS_0, 7))
        self.assertEqual(self.fetch("billing", [PAYMENTS_0, ORDERS_1]), {PAYMENTS_0: 7})
        self.assertEqual(self.fetch("billing", []), {})
        self.assertEqual(self.fetch("billing", iter([ORDERS_0])), {ORDERS_0: 5})

    def test_last_commit_wins(self) -> None:
        """A later commit replaces an earlier one, be it larger or smaller; other partitions keep theirs."""
        self.commit("billing", (ORDERS_0, 5), (ORDERS_1, 1))
        for offset in (9, 3, 0):
            self.commit("billing", (ORDERS_0, offset))
            self.assertEqual(self.fetch("billing"), {ORDERS_0: offset, ORDERS_1: 1})

    def test_commit_replaces_everything(self) -> None:
        """Nothing of the earlier commit of a partition is left."""
        self.finish(self.store.commit("billing", {ORDERS_0: Committed(5, 3, "old", 17)}))
        self.finish(self.store.commit("billing", {ORDERS_0: Committed(6)}))
        self.assertEqual(self.finish(self.store.fetch("billing")), {ORDERS_0: Committed(6)})

    def test_commits_overlap(self) -> None:
        """Commits that do not wait for each other count in the order of the calls."""
        self.finish_all(self.store.commit("billing", {ORDERS_0: Committed(each)}) for each in (3, 9, 1, 5))
        self.assertEqual(self.fetch("billing"), {ORDERS_0: 5})

    def test_answers_are_copies(self) -> None:
        """What the caller does to his dicts afterwards does not change what is stored."""
        offsets = {ORDERS_0: Committed(5)}
        self.finish(self.store.commit("billing", offsets))
        offsets[ORDERS_0] = Committed(6)
        found = self.finish(self.store.fetch("billing"))
        found[ORDERS_1] = Committed(7)
        self.assertEqual(self.fetch("billing"), {ORDERS_0: 5})

    def test_groups_do_not_mix(self) -> None:
        """Each group has its own progress, whatever its name looks like."""
        for number, group in enumerate(GROUPS):
            self.commit(group, (ORDERS_0, number))
        for number, group in enumerate(GROUPS):
            self.assertEqual(self.fetch(group), {ORDERS_0: number})
        self.assertEqual(self.finish(self.store.groups()), tuple(sorted(GROUPS)))

    def test_names_do_not_run_together(self) -> None:
        """Group and topic are told apart even where one could be a part of the other."""
        self.commit("a", (TopicPartition("b-1", 2), 1))
        self.commit("a", (TopicPartition("b", 12), 2))
        self.commit("a:b", (TopicPartition("c", 1), 3))
        self.commit("a", (TopicPartition("b.c", 1), 4))
        self.assertEqual(len(self.fetch("a")), 3)
        self.assertEqual(self.fetch("a:b"), {TopicPartition("c", 1): 3})

    def test_many_partitions(self) -> None:
        """A group may commit a thousand partitions at once."""
        offsets = [(TopicPartition("orders", number), number * 7) for number in range(1000)]
        self.commit("billing", *offsets)
        self.assertEqual(self.fetch("billing"), dict(offsets))

    # -- generations --

    def test_stale_generation(self) -> None:
        """A member of an earlier generation can not commit any more; nothing of its commit is kept."""
        self.commit("billing", (ORDERS_0, 5), generation=3)
        late = {ORDERS_0: Committed(9), ORDERS_1: Committed(9)}
        error = self.assert_fails(StaleGeneration, self.store.commit("billing", late, 2))
        self.assertEqual((error.group, error.generation), ("billing", 2))
        self.assertEqual(self.fetch("billing"), {ORDERS_0: 5})

    def test_same_and_later_generations(self) -> None:
        """The current generation and later ones commit as they like."""
        for offset, generation in ((5, 3), (6, 3), (7, 4), (8, 9)):
            self.commit("billing", (ORDERS_0, offset), generation=generation)
        self.assertEqual(self.fetch("billing"), {ORDERS_0: 8})
        self.assert_fails(StaleGeneration, self.store.commit("billing", {ORDERS_0: Committed(1)}, 8))

    def test_commit_without_generation(self) -> None:
        """Who has no generation is never too late, and makes nobody else so."""
        self.commit("billing", (ORDERS_0, 5), generation=3)
        self.commit("billing", (ORDERS_0, 6))
        self.commit("billing", (ORDERS_0, 7), generation=3)
        self.assertEqual(self.fetch("billing"), {ORDERS_0: 7})

    def test_generations_of_other_groups(self) -> None:
        """Each group counts its own generations."""
        self.commit("billing", (ORDERS_0, 5), generation=3)
        self.commit("shipping", (ORDERS_0, 6), generation=1)
        self.assertEqual(self.fetch("shipping"), {ORDERS_0: 6})

    # -- groups --

    def test_groups_are_sorted(self) -> None:
        """Groups are listed by name, those with offsets and those with a document, each once."""
        self.commit("c", (ORDERS_0, 1))
        self.finish(self.store.save("b", 0, b"document"))
        self.commit("a", (ORDERS_0, 1), (ORDERS_1, 1))
        self.finish(self.store.save("a", 0, b"document"))
        self.assertEqual(self.finish(self.store.groups()), ("a", "b", "c"))

    def test_refused_commit_makes_no_group(self) -> None:
        """Asking about a group does not create it, nor does a refusal."""
        self.fetch("billing")
        self.finish(self.store.load("billing"))
        self.finish(self.store.delete("billing"))
        self.finish(self.store.delete("billing", [ORDERS_0]))
        self.assert_fails(VersionConflict, self.store.save("billing", 1, b""))
        self.assertEqual(self.finish(self.store.groups()), ())

    # -- deleting --

    def test_delete_group(self) -> None:
        """Everything about a group is forgotten: offsets, document, and generation; others stay."""
        self.commit("billing", (ORDERS_0, 5), generation=3)
        self.finish(self.store.save("billing", 0, b"document"))
        self.commit("shipping", (ORDERS_0, 6))
        self.assertIsNone(self.finish(self.store.delete("billing")))
        self.assertEqual(self.fetch("billing"), {})
        self.assertEqual(self.finish(self.store.load("billing")), (0, b""))
        self.assertEqual(self.finish(self.store.groups()), ("shipping",))
        self.commit("billing", (ORDERS_0, 1), generation=1)
        self.assertEqual(self.fetch("shipping"), {ORDERS_0: 6})

    def test_delete_some(self) -> None:
        """Some partitions are forgotten, the others kept; those never committed do not matter."""
        self.commit("billing", (ORDERS_0, 5), (ORDERS_1, 6), (PAYMENTS_0, 7))
        self.finish(self.store.delete("billing", [ORDERS_0, PAYMENTS_0, TopicPartition("other", 0)]))
        self.assertEqual(self.fetch("billing"), {ORDERS_1: 6})

    def test_deleted_and_committed_again(self) -> None:
        """A deletion is of what was there, also when nobody waits for anything."""
        self.finish_all(
            [
                self.store.commit("billing", {ORDERS_0: Committed(5), ORDERS_1: Committed(5)}),
                self.store.delete("billing"),
                self.store.commit("billing", {ORDERS_0: Committed(1)}),
                self.store.delete("billing", [ORDERS_1]),
            ]
        )
        self.assertEqual(self.fetch("billing"), {ORDERS_0: 1})

    def test_delete_last(self) -> None:
        """A group without offsets and without a document is none."""
        self.commit("billing", (ORDERS_0, 5), (ORDERS_1, 6))
        self.finish(self.store.delete("billing", [ORDERS_1, ORDERS_0]))
        self.assertEqual(self.fetch("billing"), {})
        self.assertEqual(self.finish(self.store.groups()), ())

    # -- expiry, where the store has that power --

    def test_expire(self) -> None:
        """What was committed before a time is forgotten; what came later, or bears no time, is not."""
        expiring = self.need_expiry()
        times = {ORDERS_0: 999, ORDERS_1: 1000, PAYMENTS_0: -1}
        committed = {name: Committed(5, commit_time=time) for name, time in times.items()}
        for group in ("billing", "shipping"):
            self.finish(self.store.commit(group, committed))
        self.assertEqual(self.finish(expiring.expire("billing", 1000)), 1)
        self.assertEqual(set(self.fetch("billing")), {ORDERS_1, PAYMENTS_0})
        self.assertEqual(len(self.fetch("shipping")), 3)
        self.assertEqual(self.finish(expiring.expire("billing", 1000)), 0)
        self.assertEqual(self.finish(expiring.expire("nobody", 1000)), 0)

    def test_expire_everything(self) -> None:
        """A group of which nothing is left is none; one with a document stays."""
        expiring = self.need_expiry()
        for group in ("billing", "shipping"):
            self.finish(self.store.commit(group, {ORDERS_0: Committed(5, commit_time=7)}, 3))
        self.finish(self.store.save("shipping", 0, b"document"))
        for group in ("billing", "shipping"):
            self.assertEqual(self.finish(expiring.expire(group, 8)), 1)
        self.assertEqual(self.finish(self.store.groups()), ("shipping",))
        self.commit("billing", (ORDERS_0, 1), generation=1)

    def test_expire_during_commits(self) -> None:
        """A commit that is under way is not forgotten for what was there before it."""
        expiring = self.need_expiry()
        self.finish(self.store.commit("billing", {ORDERS_0: Committed(5, commit_time=7)}))
        fresh = self.store.commit("billing", {ORDERS_0: Committed(6, commit_time=1000)})
        expired = expiring.expire("billing", 8)
        self.finish_all([fresh, expired])
        self.assertEqual(self.fetch("billing"), {ORDERS_0: 6})

    def need_expiry(self) -> Any:
        """The store as one that forgets what is old; the test is skipped if it does not."""
        expiring: Any = IOffsetExpiry(self.store, None)
        if expiring is None:
            raise SkipTest("this store does not forget what is old")
        verifyObject(IOffsetExpiry, self.store)
        return expiring

    # -- the coordinator's document --

    def test_no_document(self) -> None:
        """A group without a document is at version 0."""
        self.assertEqual(self.finish(self.store.load("billing")), (0, b""))

    def test_save(self) -> None:
        """A document is loaded as it was saved; each version is higher than the one before."""
        version = 0
        for document in (b"first", bytes(range(256)), b"", b"x" * 100_000):
            following = self.finish(self.store.save("billing", version, document))
            self.assertGreater(following, version)
            version = following
            self.assertEqual(self.finish(self.store.load("billing")), (version, document))

    def test_version_conflict(self) -> None:
        """Who does not know the current version does not overwrite it."""
        current = self.finish(self.store.save("billing", 0, b"first"))
        for version in (0, current + 1, -1):
            error = self.assert_fails(VersionConflict, self.store.save("billing", version, b"second"))
            self.assertEqual((error.group, error.expected, error.current), ("billing", version, current))
        self.assertEqual(self.finish(self.store.load("billing")), (current, b"first"))

    def test_save_at_once(self) -> None:
        """Of several who save at the same time, one succeeds."""
        pending = [self.store.save("billing", 0, b"%d" % number) for number in range(3)]
        saved = []
        for number, each in enumerate(pending):
            try:
                saved.append((self.finish(each), b"%d" % number))
            except VersionConflict:
                continue
        self.assertEqual(saved, [self.finish(self.store.load("billing"))])

    def test_documents_and_offsets_do_not_mix(self) -> None:
        """A document does not touch the offsets, nor the other way around."""
        self.commit("billing", (ORDERS_0, 5))
        version = self.finish(self.store.save("billing", 0, b"document"))
        self.commit("billing", (ORDERS_0, 6))
        self.finish(self.store.delete("billing", [ORDERS_0]))
        self.assertEqual(self.finish(self.store.load("billing")), (version, b"document"))

    # -- closing --

    def test_close_waits_for_commits(self) -> None:
        """Commits that are under way are done and answered when the store is closed."""
        pending = [self.store.commit("billing", {ORDERS_0: Committed(each)}) for each in range(5)]
        self.assertIsNone(self.finish(self.store.close()))
        self.finish_all(pending)

    def test_close_twice(self) -> None:
        """Closing again does no harm."""
        self.finish_all([self.store.close(), self.store.close()])
        self.finish(self.store.close())

    def test_closed(self) -> None:
        """A closed store does nothing more."""
        self.finish(self.store.close())
        self.assert_fails(Closed, self.store.commit("billing", {ORDERS_0: Committed(5)}))
        self.assert_fails(Closed, self.store.fetch("billing"))
        self.assert_fails(Closed, self.store.groups())
        self.assert_fails(Closed, self.store.delete("billing"))
        self.assert_fails(Closed, self.store.load("billing"))
        self.assert_fails(Closed, self.store.save("billing", 0, b""))

    def test_reopen(self) -> None:
        """A durable store comes back with everything: offsets, documents, deletions, generations."""
        if not self.durable:
            self.assert_forgets()
            return
        for number, group in enumerate(GROUPS):
            self.commit(group, (ORDERS_0, number), (PAYMENTS_0, 7), generation=4)
        version = self.finish(self.store.save("billing", 0, b"document"))
        self.finish(self.store.delete("billing", [PAYMENTS_0]))
        self.finish(self.store.delete("a:b:c"))
        self.finish(self.store.close())
        self.store = self.open_again()
        self.assertEqual(self.fetch("billing"), {ORDERS_0: 0})
        self.assertEqual(self.fetch("a:b:c"), {})
        self.assertEqual(self.fetch("Größe"), {ORDERS_0: GROUPS.index("Größe"), PAYMENTS_0: 7})
        self.assertEqual(self.finish(self.store.load("billing")), (version, b"document"))
        self.assertEqual(self.finish(self.store.groups()), tuple(sorted(set(GROUPS) - {"a:b:c"})))
        self.assert_fails(StaleGeneration, self.store.commit("billing", {ORDERS_0: Committed(1)}, 3))

    def test_reopen_after_all_kinds(self) -> None:
        """Everything that belongs to a commit comes back with it, and the last commit is the last."""
        if not self.durable:
            self.assert_forgets()
            return
        for offset in (9, 3):
            committed = Committed(offset, 2, "größer", 1_700_000_000_000 + offset)
            self.finish(self.store.commit("billing", {ORDERS_0: committed}))
        self.finish(self.store.commit("billing", {ORDERS_1: Committed(0)}))
        self.finish(self.store.close())
        self.store = self.open_again()
        found = self.finish(self.store.fetch("billing"))
        if not self.headers:
            self.assertEqual({name: each.offset for name, each in found.items()}, {ORDERS_0: 3, ORDERS_1: 0})
            return
        self.assertEqual(found, {ORDERS_0: committed, ORDERS_1: Committed(0)})

    def test_reopen_again_and_again(self) -> None:
        """Each life goes on where the one before has ended."""
        if not self.durable:
            self.assert_forgets()
            return
        version = 0
        for life in range(4):
            self.assertEqual(self.fetch("billing"), {ORDERS_0: life} if life else {})
            self.assertEqual(self.finish(self.store.load("billing"))[0], version)
            self.commit("billing", (ORDERS_0, life + 1), generation=life)
            version = self.finish(self.store.save("billing", version, b"life %d" % life))
            pending = self.store.commit("shipping", {ORDERS_0: Committed(life)})
            self.finish(self.store.close())
            self.finish(pending)
            self.store = self.open_again()
            self.assertEqual(self.fetch("shipping"), {ORDERS_0: life})

    def assert_forgets(self) -> None:
        """A store that does not claim to remember begins with nothing, not with a part."""
        self.commit("billing", (ORDERS_0, 1))
        self.finish(self.store.close())
        self.store = self.open_again()
        self.assertEqual(self.finish(self.store.groups()), ())
