"""Tests for L{rustlog.model}."""

from __future__ import annotations

from uuid import UUID

from attrs.exceptions import FrozenInstanceError
from twisted.trial.unittest import SynchronousTestCase

from rustlog.model import (
    TOPIC_NAME_LENGTH_MAX,
    Committed,
    Fetched,
    Record,
    SyncPolicy,
    TopicInfo,
    TopicPartition,
    topic_name_problem,
)


class TopicNameTests(SynchronousTestCase):
    """Kafka's rule for topic names."""

    def test_legal(self) -> None:
        """Letters, digits, dots, underscores and hyphens make a name, up to 249 of them."""
        for name in ("a", "orders", "A.b_c-9", "...", "__consumer_offsets", "-", "x" * TOPIC_NAME_LENGTH_MAX):
            self.assertIsNone(topic_name_problem(name), name)

    def test_illegal(self) -> None:
        """Whatever could leave its directory, or is not a name in Kafka, is none here."""
        for name in ("a/b", "a b", "ä", "a\n", "a\0", "\ud800", "a:b", "../a", "a\\b", "٣"):
            self.assertIn("only ASCII letters", str(topic_name_problem(name)), name)
        self.assertIn("empty", str(topic_name_problem("")))
        self.assertIn("not allowed", str(topic_name_problem(".")))
        self.assertIn("not allowed", str(topic_name_problem("..")))
        self.assertIn("longer than 249", str(topic_name_problem("x" * 250)))


class SyncPolicyTests(SynchronousTestCase):
    """What an acknowledgement means."""

    def test_parse(self) -> None:
        """It is said as a word or as a number of milliseconds, and can be said again."""
        for text, interval_ms in (("always", 0), ("never", None), ("1", 1), ("2500", 2500)):
            policy = SyncPolicy.parse(text)
            self.assertEqual(policy, SyncPolicy(interval_ms))
            self.assertEqual(str(policy), text)

    def test_always(self) -> None:
        """By default, and only then, data are on disk before anybody hears yes."""
        self.assertTrue(SyncPolicy().always)
        self.assertFalse(SyncPolicy(5).always or SyncPolicy(None).always)

    def test_refused(self) -> None:
        """Anything else is refused by name."""
        for text in ("", "0", "00", "-1", "1.5", "5ms", "Always", "²", "٣", " 5", "1_0"):
            error = self.assertRaises(ValueError, SyncPolicy.parse, text)
            self.assertIn(repr(text), str(error))


class ValueTests(SynchronousTestCase):
    """The values that layers hand to each other."""

    def test_topic_partition(self) -> None:
        """A partition is named as in Kafka, sorts by topic and number, and is a key."""
        names = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 9)]
        self.assertEqual([str(each) for each in sorted(names)], ["a-9", "a-10", "b-0"])
        self.assertIn(TopicPartition("a", 9), set(names))

    def test_frozen(self) -> None:
        """A value does not change under those who hold it."""
        for value, name in (
            (TopicPartition("a", 0), "topic"),
            (Committed(5), "offset"),
            (TopicInfo(UUID(int=0), "a", 1), "partitions"),
        ):
            self.assertRaises(FrozenInstanceError, setattr, value, name, 1)

    def test_record(self) -> None:
        """Records are the same when their content is."""
        self.assertEqual(Record(b"v", b"k"), Record(b"v", b"k", (), -1, None))
        self.assertEqual(len({Record(b"v"), Record(b"v"), Record(b"")}), 2)
        self.assertNotEqual(Record(None), Record(b""))

    def test_topic_configs_are_not_shared(self) -> None:
        """Each topic has a configuration of its own."""
        self.assertIsNot(TopicInfo(UUID(int=0), "a", 1).config, TopicInfo(UUID(int=1), "b", 1).config)

    def test_fetched_is_released_as_a_whole(self) -> None:
        """What was read is given back slice by slice, each one once."""

        class Slice:
            released = 0

            def release(self) -> None:
                self.released += 1

        slices = (Slice(), Slice())
        Fetched(slices, 0, 0, 0, 0).release()
        self.assertEqual([each.released for each in slices], [1, 1])
