"""Tests for L{rustlog.settings}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import InvalidSetting
from rustlog.settings import (
    RECORD_BYTES_MAX,
    BrokerConfig,
    Setting,
    TopicConfig,
    is_broker_setting,
    is_topic_setting,
    parse_topic_overrides,
    vocabulary,
    with_overrides,
)


class SettingTests(SynchronousTestCase):
    """Reading one value."""

    def assert_refused(self, setting: Setting, value: object, reason: str) -> None:
        error = self.assertRaises(InvalidSetting, setting.parse, value)
        self.assertEqual(str(error), f"invalid setting {setting.name}: {reason}")

    def test_numbers(self) -> None:
        """A number may come as text or as a number, within its bounds."""
        setting = Setting("retention.bytes", int, 7, "", minimum=-1, maximum=100)
        self.assertEqual([setting.parse(value) for value in ("-1", 100, " 5 ")], [-1, 100, 5])
        self.assert_refused(setting, "-2", "-2 is less than -1")
        self.assert_refused(setting, 101, "101 is more than 100")

    def test_not_a_number(self) -> None:
        """Fractions, booleans, lists and words are no whole numbers."""
        setting = Setting("retention.bytes", int, 7, "")
        for value in ("", "x", "1.0", 1.0, True, None, [1], "1e3", "9" * 5000):
            self.assert_refused(setting, value, f"{value!r} is not a whole number")

    def test_numbers_fit_64_bits(self) -> None:
        """A number without a bound of its own is still one that Kafka could carry."""
        setting = Setting("retention.bytes", int, 7, "")
        self.assertEqual(setting.parse(2**63 - 1), 2**63 - 1)
        self.assert_refused(setting, 2**63, f"{2**63} is more than {2**63 - 1}")

    def test_booleans(self) -> None:
        """A boolean is written as true or false, in any case, or is one."""
        setting = Setting("auto.create.topics.enable", bool, True, "")
        self.assertEqual([setting.parse(value) for value in ("true", "FALSE", True)], [True, False, True])
        for value in ("yes", 1, "", None):
            self.assert_refused(setting, value, f"{value!r} is neither true nor false")

    def test_fractions(self) -> None:
        """A ratio may be any number within its bounds."""
        setting = Setting("min.cleanable.dirty.ratio", float, 0.5, "", minimum=0, maximum=1)
        self.assertEqual([setting.parse(value) for value in ("0.25", 1, "1e-1")], [0.25, 1.0, 0.1])
        self.assert_refused(setting, "half", "'half' is not a number")
        self.assert_refused(setting, "-0.1", "-0.1 is less than 0")
        for value in ("1.5", "nan", "inf"):
            self.assert_refused(setting, value, f"{float(value)} is more than 1")

    def test_only_one_value(self) -> None:
        """Where but one value is honoured, any other is refused with the reason."""
        known = {each.name: each for each in vocabulary(TopicConfig)}
        self.assertEqual(known["min.insync.replicas"].parse("1"), 1)
        self.assertEqual(known["preallocate"].parse("False"), False)
        self.assertEqual(known["compression.type"].parse("producer"), "producer")
        refused = (("min.insync.replicas", "2"), ("min.insync.replicas", "0"), ("preallocate", "true"))
        for name, value in refused:
            reason = f"{value} is not supported, only {known[name].text(known[name].default)}: "
            self.assert_refused(known[name], value, reason + known[name].doc)
        self.assert_refused(known["compression.type"], "gzip", "'gzip' is not one of producer")

    def test_canonical_form(self) -> None:
        """Values are written as Kafka writes them."""
        self.assertEqual(Setting("preallocate", bool, False, "").text(False), "false")
        self.assertEqual(Setting("retention.ms", int, 1, "").text(1), "1")
        self.assertEqual(Setting("min.cleanable.dirty.ratio", float, 0.5, "").text(0.5), "0.5")

    def test_choices(self) -> None:
        """A word is one of those that there are."""
        setting = Setting("cleanup.policy", str, "delete", "", choices=("delete", "compact"))
        self.assertEqual(setting.parse("compact"), "compact")
        self.assert_refused(setting, "shred", "'shred' is not one of delete, compact")
        self.assert_refused(setting, "", "'' is not one of delete, compact")


class VocabularyTests(SynchronousTestCase):
    """All settings together."""

    def test_names(self) -> None:
        """Settings have Kafka's names, and belong either to topics or to the broker."""
        topic = {each.name for each in vocabulary(TopicConfig)}
        broker = {each.name for each in vocabulary(BrokerConfig)}
        self.assertLessEqual({"segment.bytes", "retention.ms", "retention.bytes", "cleanup.policy"}, topic)
        self.assertEqual(topic & broker, set())
        self.assertTrue(all(map(is_topic_setting, topic)) and all(map(is_broker_setting, broker)))
        self.assertFalse(any(map(is_topic_setting, broker)) or any(map(is_broker_setting, topic)))

    def test_defaults(self) -> None:
        """Every default is acceptable itself, and every setting is explained."""
        for config in (TopicConfig, BrokerConfig):
            for setting in vocabulary(config):
                self.assertEqual(setting.parse(str(setting.default)), setting.default)
                self.assertIs(type(setting.default), setting.type)
                self.assertTrue(setting.doc.endswith("."), setting.name)

    def test_largest_record(self) -> None:
        """By default a record of 10 MiB is admitted, with room for its batch."""
        self.assertGreater(TopicConfig().max_message_bytes, RECORD_BYTES_MAX)


class OverrideTests(SynchronousTestCase):
    """Values that replace the defaults."""

    def test_topic_overrides(self) -> None:
        """What is set for a topic is kept as text, in one way of writing."""
        given = {"retention.ms": 5, "segment.bytes": "01000", "preallocate": "FALSE"}
        parsed = parse_topic_overrides(given)
        self.assertEqual(parsed, {"retention.ms": "5", "segment.bytes": "1000", "preallocate": "false"})

    def test_unknown(self) -> None:
        """A name that is no topic setting is refused, with those that are."""
        for name in ("retention", "retention_ms", "max.connections", ""):
            error = self.assertRaises(InvalidSetting, parse_topic_overrides, {name: "5"})
            self.assertEqual(error.name, name)
            self.assertIn("retention.ms", error.reason)
            self.assertRaises(InvalidSetting, with_overrides, TopicConfig(), {name: "5"})

    def test_bad_value(self) -> None:
        """A bad value is refused by the name of its setting."""
        error = self.assertRaises(InvalidSetting, parse_topic_overrides, {"segment.ms": "0"})
        self.assertEqual(str(error), "invalid setting segment.ms: 0 is less than 1")

    def test_with_overrides(self) -> None:
        """A configuration with other values is a new one; what is not named stays."""
        config = with_overrides(TopicConfig(retention_ms=5), {"segment.bytes": "1000"})
        self.assertEqual(config, TopicConfig(retention_ms=5, segment_bytes=1000))
        self.assertEqual(with_overrides(config, {}), config)

    def test_broker_overrides(self) -> None:
        """The broker's own settings are replaced in the same way."""
        config = with_overrides(BrokerConfig(), {"max.connections": 5})
        self.assertEqual(config, BrokerConfig(max_connections=5))
        error = self.assertRaises(InvalidSetting, with_overrides, BrokerConfig(), {"retention.ms": 5})
        self.assertIn("no such broker setting", str(error))
