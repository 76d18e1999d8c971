"""Tests for L{rustlog.storage.catalog}."""

from __future__ import annotations

from collections import deque
from random import Random
from uuid import UUID

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog.errors import Closed, InvalidPartitionCount, TopicExists, TopicNotFound
from rustlog.interfaces import ITopicCatalog
from rustlog.model import TopicInfo
from rustlog.storage.catalog import Catalog, NoJournal, existing
from rustlog.testing.environment import SeededRandom


class ManualJournal:
    """A journal that writes when a test tells it to."""

    def __init__(self) -> None:
        self.calls: deque[tuple[str, TopicInfo, Deferred[None]]] = deque()

    def save(self, info: TopicInfo) -> Deferred[None]:
        return self._wait("save", info)

    def remove(self, info: TopicInfo) -> Deferred[None]:
        return self._wait("remove", info)

    def _wait(self, what: str, info: TopicInfo) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.calls.append((what, info, done))
        return done

    def finish(self, error: Exception | None = None) -> tuple[str, str]:
        """End the longest waiting call; what it was."""
        what, info, done = self.calls.popleft()
        if error is None:
            done.callback(None)
        else:
            done.errback(error)
        return what, info.name


class CatalogCase(SynchronousTestCase):
    """Has a catalogue that is always done at once."""

    def setUp(self) -> None:
        self.catalog = Catalog(SeededRandom(Random(0)), NoJournal())
        self.heard: list[tuple[TopicInfo | None, TopicInfo | None]] = []
        self.catalog.subscribe(lambda old, new: self.heard.append((old, new)))

    def create(self, name: str, partitions: int = 1) -> TopicInfo:
        info: TopicInfo = self.successResultOf(self.catalog.create(name, partitions, {}))
        return info

    def names(self) -> list[str]:
        return [info.name for info in self.catalog.all()]


class TopicTests(CatalogCase):
    """Creating, looking, changing, deleting."""

    def test_interface(self) -> None:
        """It has every method of a catalogue."""
        verifyObject(ITopicCatalog, self.catalog)

    def test_create(self) -> None:
        """A new topic can be found by its name and by its id."""
        config = {"retention.ms": "5"}
        info = self.successResultOf(self.catalog.create("orders", 3, config, internal=True))
        self.assertEqual(info, TopicInfo(info.id, "orders", 3, {"retention.ms": "5"}, True))
        self.assertIs(self.catalog.get("orders"), info)
        self.assertIs(self.catalog.get_by_id(info.id), info)
        self.assertEqual(self.catalog.all(), (info,))
        self.assertIs(self.successResultOf(self.catalog.refresh("orders")), info)
        config.clear()
        self.assertEqual(info.config, {"retention.ms": "5"})
        self.assertFalse(self.create("invoices").internal)

    def test_unknown(self) -> None:
        """What is not there is not found, and can not be changed."""
        self.assertIsNone(self.catalog.get("orders"))
        self.assertIsNone(self.catalog.get_by_id(UUID(int=0)))
        self.assertIsNone(self.successResultOf(self.catalog.refresh("orders")))
        self.failureResultOf(self.catalog.delete("orders"), TopicNotFound)
        self.failureResultOf(self.catalog.grow("orders", 5), TopicNotFound)
        self.failureResultOf(self.catalog.configure("orders", {}), TopicNotFound)
        self.assertEqual((self.catalog.all(), self.heard), ((), []))

    def test_exists(self) -> None:
        """A topic is not created twice."""
        info = self.create("orders")
        error = self.failureResultOf(self.catalog.create("orders", 9, {}), TopicExists)
        self.assertEqual(error.value.topic, "orders")
        self.assertIs(self.catalog.get("orders"), info)

    def test_all_is_sorted(self) -> None:
        """The list of topics is sorted by name, whatever happened."""
        for name in ("b", "c", "a"):
            self.create(name)
        self.assertEqual(self.names(), ["a", "b", "c"])
        self.successResultOf(self.catalog.delete("b"))
        self.create("B")
        self.assertEqual(self.names(), ["B", "a", "c"])

    def test_delete(self) -> None:
        """A deleted topic is gone; another one of its name is another one."""
        old = self.create("orders")
        self.assertIsNone(self.successResultOf(self.catalog.delete("orders")))
        self.assertIsNone(self.catalog.get("orders"))
        self.assertIsNone(self.catalog.get_by_id(old.id))
        new = self.create("orders")
        self.assertNotEqual(new.id, old.id)
        self.assertIsNone(self.catalog.get_by_id(old.id))

    def test_grow(self) -> None:
        """A topic can get more partitions, never fewer or as many."""
        info = self.create("orders", 3)
        for count in (3, 2, 0, -1):
            self.failureResultOf(self.catalog.grow("orders", count), InvalidPartitionCount)
        grown = self.successResultOf(self.catalog.grow("orders", 5))
        self.assertEqual(grown, evolve(info, partitions=5))
        self.assertIs(self.catalog.get_by_id(info.id), grown)

    def test_configure(self) -> None:
        """Settings are changed one by one; None takes an override away."""
        self.create("orders")
        self.successResultOf(self.catalog.configure("orders", {"a": "1", "b": "2"}))
        changed = self.successResultOf(self.catalog.configure("orders", {"a": None, "b": "3", "x": None}))
        self.assertEqual(changed.config, {"b": "3"})
        self.assertEqual(self.catalog.get("orders"), changed)

    def test_loaded(self) -> None:
        """A catalogue begins with the topics that were there before."""
        topics = [TopicInfo(UUID(int=number), name, 1) for number, name in enumerate("ba")]
        self.catalog = Catalog(SeededRandom(Random(0)), NoJournal(), topics)
        self.assertEqual(self.catalog.all(), (topics[1], topics[0]))
        self.assertIs(self.catalog.get_by_id(UUID(int=0)), topics[0])

    def test_existing(self) -> None:
        """A topic that must be there is there, or an error."""
        info = self.create("orders")
        self.assertIs(existing(info, "orders"), info)
        self.assertEqual(self.assertRaises(TopicNotFound, existing, None, "x").topic, "x")


class ListenerTests(CatalogCase):
    """Hearing of changes."""

    def test_changes(self) -> None:
        """Each change is told with what was and what is."""
        created = self.create("orders")
        grown = self.successResultOf(self.catalog.grow("orders", 2))
        self.catalog.delete("orders")
        self.assertEqual(self.heard, [(None, created), (created, grown), (grown, None)])

    def test_visible_when_told(self) -> None:
        """A listener finds in the catalogue what it is told."""
        found: list[object] = []
        self.catalog.subscribe(lambda old, new: found.append(self.catalog.get("orders")))
        info = self.create("orders")
        self.catalog.delete("orders")
        self.assertEqual(found, [info, None])

    def test_told_before_the_answer(self) -> None:
        """When a change is answered, the listeners know of it."""
        known: list[int] = []
        self.catalog.create("orders", 1, {}).addCallback(lambda _: known.append(len(self.heard)))
        self.assertEqual(known, [1])

    def test_cancel(self) -> None:
        """Who has cancelled is not told; the same listener may have subscribed twice."""
        heard: list[object] = []

        def listener(old: TopicInfo | None, new: TopicInfo | None) -> None:
            heard.append(new)

        cancel = self.catalog.subscribe(listener)
        self.catalog.subscribe(listener)
        cancel()
        cancel()
        self.create("orders")
        self.assertEqual(len(heard), 1)

    def test_cancel_while_told(self) -> None:
        """A listener may cancel another that would be told after it."""
        cancels = []
        self.catalog.subscribe(lambda old, new: cancels[0]())
        cancels.append(self.catalog.subscribe(lambda old, new: self.fail("told")))
        self.create("orders")

    def test_failing_listener(self) -> None:
        """A listener that fails is written about in the log; the others hear, the change is made."""
        later: list[object] = []
        self.catalog.subscribe(lambda old, new: 1 // 0)
        self.catalog.subscribe(lambda old, new: later.append(new))
        info = self.create("orders")
        self.assertEqual((later, self.catalog.get("orders")), ([info], info))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_change_by_a_listener(self) -> None:
        """A change that a listener makes is told after the one that caused it, to everyone."""

        def follow(old: TopicInfo | None, new: TopicInfo | None) -> None:
            if old is None and new is not None and new.name == "a":
                self.catalog.create("b", 1, {})
                self.catalog.grow("a", 2)

        self.catalog.subscribe(follow)
        last: list[tuple[str, int]] = []
        self.catalog.subscribe(lambda old, new: last.append((new.name, new.partitions)) if new else None)
        self.create("a")
        self.assertEqual(last[0], ("a", 1))
        self.assertEqual(sorted(last[1:]), [("a", 2), ("b", 1)])
        self.assertEqual([(new.name, new.partitions) for _, new in self.heard if new], last)

    def test_chain(self) -> None:
        """Each change may lead to the next, many times over."""
        self.create("a")
        grown: Deferred[object] = self.catalog.grow("a", 2)
        for count in range(3, 50):
            grown.addCallback(lambda _, count=count: self.catalog.grow("a", count))
        self.successResultOf(grown)
        self.assertEqual([new.partitions for _, new in self.heard if new], list(range(1, 50)))


class JournalCase(SynchronousTestCase):
    """Has a catalogue that waits for its journal."""

    def setUp(self) -> None:
        self.journal = ManualJournal()
        self.catalog = Catalog(SeededRandom(Random(0)), self.journal)
        self.heard: list[object] = []
        self.catalog.subscribe(lambda old, new: self.heard.append(new or old))


class JournalTests(JournalCase):
    """A change is made when it is written down."""

    def test_not_before(self) -> None:
        """Nobody sees a topic that is not written down yet."""
        created = self.catalog.create("orders", 1, {})
        self.assertNoResult(created)
        self.assertEqual((self.catalog.get("orders"), self.catalog.all(), self.heard), (None, (), []))
        self.assertEqual(self.journal.finish(), ("save", "orders"))
        self.assertIs(self.successResultOf(created), self.catalog.get("orders"))
        deleted = self.catalog.delete("orders")
        self.assertIsNotNone(self.catalog.get("orders"))
        self.assertEqual(self.journal.finish(), ("remove", "orders"))
        self.successResultOf(deleted)
        self.assertIsNone(self.catalog.get("orders"))

    def test_journal_fails(self) -> None:
        """When it can not be written down, nothing has changed, and one can try again."""
        failing = self.catalog.create("orders", 1, {})
        self.journal.finish(OSError("full"))
        self.failureResultOf(failing, OSError)
        self.assertEqual((self.catalog.get("orders"), self.heard), (None, []))
        created = self.catalog.create("orders", 1, {})
        self.journal.finish()
        info = self.successResultOf(created)
        for change in (self.catalog.grow("orders", 2), self.catalog.delete("orders")):
            self.journal.finish(OSError("full"))
            self.failureResultOf(change, OSError)
        self.assertIs(self.catalog.get("orders"), info)

    def test_journal_raises(self) -> None:
        """A journal that raises instead of failing is no worse."""
        self.journal.save = lambda info: 1 // 0
        self.failureResultOf(self.catalog.create("orders", 1, {}), ZeroDivisionError)
        self.failureResultOf(self.catalog.create("orders", 1, {}), ZeroDivisionError)

    def test_one_topic_in_order(self) -> None:
        """Changes of one topic wait for each other, and are judged by what the one before has made."""
        changes = [
            self.catalog.create("a", 1, {}),
            self.catalog.create("a", 1, {}),
            self.catalog.grow("a", 3),
            self.catalog.grow("a", 2),
            self.catalog.delete("a"),
            self.catalog.configure("a", {"x": "1"}),
            self.catalog.create("a", 7, {}),
        ]
        self.assertEqual(len(self.journal.calls), 1)
        done = []
        while self.journal.calls:
            self.assertEqual(len(self.journal.calls), 1)
            done.append(self.journal.finish()[0])
        self.assertEqual(done, ["save", "save", "remove", "save"])
        self.failureResultOf(changes[1], TopicExists)
        self.failureResultOf(changes[3], InvalidPartitionCount)
        self.failureResultOf(changes[5], TopicNotFound)
        self.assertEqual(self.successResultOf(changes[6]).partitions, 7)

    def test_topics_overlap(self) -> None:
        """Changes of different topics do not wait for each other."""
        first, second = self.catalog.create("a", 1, {}), self.catalog.create("b", 1, {})
        self.assertEqual(len(self.journal.calls), 2)
        self.journal.calls.rotate(1)
        self.journal.finish()
        self.successResultOf(second)
        self.assertNoResult(first)
        self.journal.finish()
        self.successResultOf(first)

    def test_many_at_once(self) -> None:
        """A thousand clients who create the same topic get one topic and 999 answers."""
        changes = [self.catalog.create("a", 1, {}) for _ in range(1000)]
        self.journal.finish()
        self.successResultOf(changes[0])
        for change in changes[1:]:
            self.failureResultOf(change, TopicExists)
        self.assertEqual(len(self.journal.calls), 0)

    def test_cancelled(self) -> None:
        """Who stops waiting for the answer does not stop the change, nor those behind it."""
        first, second = self.catalog.create("a", 1, {}), self.catalog.grow("a", 2)
        first.cancel()
        self.failureResultOf(first)
        self.journal.finish()
        self.journal.finish()
        self.assertEqual(self.successResultOf(second).partitions, 2)


class CloseTests(JournalCase):
    """The end of a catalogue."""

    def test_idle(self) -> None:
        """When nothing is under way, it is closed at once, and again."""
        self.successResultOf(self.catalog.close())
        self.successResultOf(self.catalog.close())

    def test_refused(self) -> None:
        """After it was closed, changes are refused; looking is not."""
        self.catalog.create("a", 1, {})
        self.journal.finish()
        self.catalog.close()
        for change in (
            self.catalog.create("b", 1, {}),
            self.catalog.delete("a"),
            self.catalog.grow("a", 2),
            self.catalog.configure("a", {}),
        ):
            self.failureResultOf(change, Closed)
        self.assertIsNotNone(self.catalog.get("a"))

    def test_waits(self) -> None:
        """Changes that were accepted are made before it is closed."""
        changes = [self.catalog.create("a", 1, {}), self.catalog.grow("a", 2)]
        changes.append(self.catalog.create("b", 1, {}))
        closing = [self.catalog.close(), self.catalog.close()]
        while self.journal.calls:
            self.assertNoResult(closing[0])
            self.journal.finish()
        for each in (*changes, *closing):
            self.successResultOf(each)
