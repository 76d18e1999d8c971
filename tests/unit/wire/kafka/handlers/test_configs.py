"""Tests for L{rustlog.wire.kafka.handlers.configs}."""

from __future__ import annotations

from typing import Any

from rustlog.settings import BrokerConfig, TopicConfig, vocabulary
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.handlers.configs import DESCRIBE_CONFIGS, LIST_CONFIG_RESOURCES
from rustlog.wire.kafka.handlers.resources import ResourceType
from tests.unit.wire.harness import World
from tests.unit.wire.kafka.harness import HandlerCase, make_services

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""Kafka's numbers for types."""

OF_TOPIC, OF_BROKER, DEFAULT = 1, 4, 5
"""Its numbers for sources."""


class ConfigCase(HandlerCase):
    """A broker with some settings of its own."""

    def setUp(self) -> None:
        self.world = World(
            BrokerConfig(max_connections=5), topic_defaults=TopicConfig(retention_ms=9, segment_bytes=1000)
        )
        self.world.memory.catalog.create("orders", 1, {"retention.ms": "7"})
        self.services = make_services(self.world)


class DescribeConfigsTests(ConfigCase):
    def describe(
        self, kind: int, name: str, *, version: int | None = None, keys: Any = None, **how: bool
    ) -> Any:
        """What is said of one resource."""
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        response = self.ask(DESCRIBE_CONFIGS, version, resources=[resource], **how)
        (result,) = response.results
        self.assertEqual((result.resource_type, result.resource_name), (kind, name))
        return result

    def configs(self, kind: int, name: str, **how: Any) -> dict[str, Any]:
        """Its settings."""
        result = self.describe(kind, name, **how)
        self.assertEqual((result.error_code, result.error_message), (ErrorCode.none, None))
        return {each.name: each for each in result.configs}

    def test_topic_in_every_version(self) -> None:
        """Each setting of a topic is there, with its value and who said it."""
        for version in self.versions(DESCRIBE_CONFIGS):
            configs = self.configs(TOPIC, "orders", version=version)
            self.assertEqual(set(configs), {each.name for each in vocabulary(TopicConfig)})
            self.assertFalse(any(each.read_only or each.is_sensitive for each in configs.values()))
            expected = {
                "retention.ms": ("7", OF_TOPIC),
                "segment.bytes": ("1000", OF_BROKER),
                "preallocate": ("false", DEFAULT),
            }
            found = {name: (configs[name].value, configs[name].config_source) for name in expected}
            self.assertEqual(found, expected)

    def test_synonyms(self) -> None:
        """What hides what is told to those who ask."""
        configs = self.configs(TOPIC, "orders", include_synonyms=True)
        said = [(each.name, each.value, each.source) for each in configs["retention.ms"].synonyms]
        default = str(TopicConfig().retention_ms)
        values = [("7", OF_TOPIC), ("9", OF_BROKER), (default, DEFAULT)]
        self.assertEqual(said, [("retention.ms", *each) for each in values])
        self.assertEqual(self.configs(TOPIC, "orders")["retention.ms"].synonyms, ())

    def test_types(self) -> None:
        """Newer versions tell the type of a setting."""
        expected = {
            "preallocate": BOOLEAN,
            "message.timestamp.type": STRING,
            "segment.bytes": INT,
            "retention.ms": LONG,
            "min.cleanable.dirty.ratio": DOUBLE,
            "cleanup.policy": LIST,
        }
        for version in (3, 4):
            configs = self.configs(TOPIC, "orders", version=version)
            self.assertEqual({name: configs[name].config_type for name in expected}, expected)

    def test_documentation(self) -> None:
        """So do they explain it, if asked."""
        for version in (3, 4):
            configs = self.configs(TOPIC, "orders", version=version, include_documentation=True)
            for each in vocabulary(TopicConfig):
                self.assertEqual(configs[each.name].documentation, each.doc)
            self.assertIsNone(self.configs(TOPIC, "orders", version=version)["segment.ms"].documentation)

    def test_some(self) -> None:
        """Who names settings gets those, as far as they exist."""
        self.assertEqual(set(self.configs(TOPIC, "orders", keys=["segment.ms", "colour"])), {"segment.ms"})
        everything = {each.name for each in vocabulary(TopicConfig)}
        self.assertEqual(set(self.configs(TOPIC, "orders", keys=[])), everything)

    def test_broker(self) -> None:
        """The broker's settings are there, too, and can not be changed."""
        for version in self.versions(DESCRIBE_CONFIGS):
            configs = self.configs(BROKER, "0", version=version)
            self.assertLess({each.name for each in vocabulary(BrokerConfig)}, set(configs))
            self.assertTrue(all(each.read_only for each in configs.values()))
            found = [(configs[name].value, configs[name].config_source) for name in ("max.connections",)]
            self.assertEqual(found, [("5", OF_BROKER)])

    def test_all_brokers(self) -> None:
        """Nothing is set for all brokers at once."""
        self.assertEqual(self.configs(BROKER, ""), {})

    def test_refused(self) -> None:
        """What does not exist, or has no settings here, is refused with a sentence."""
        for kind, name, code, words in (
            (TOPIC, "no", ErrorCode.unknown_topic_or_partition, "topic not found: no"),
            (BROKER, "1", ErrorCode.invalid_request, "there is no broker '1', only broker 0"),
            (ResourceType.GROUP, "g", ErrorCode.invalid_request, "not group 'g'"),
            (3, "x", ErrorCode.invalid_request, "not type 3 'x'"),
        ):
            result = self.describe(kind, name)
            self.assertIs(result.error_code, code)
            self.assertIn(words, result.error_message)
            self.assertEqual(result.configs, ())

    def test_asked_for_again_and_again(self) -> None:
        """A resource is described once, however often it is named: the answer does not explode."""
        resource = {"resource_type": TOPIC, "resource_name": "orders", "configuration_keys": None}
        other = {**resource, "resource_name": "no"}
        response = self.ask(DESCRIBE_CONFIGS, resources=[resource, other] * 100)
        self.assertEqual([each.resource_name for each in response.results], ["orders", "no"])


class ListConfigResourcesTests(ConfigCase):
    def listed(self, **fields: Any) -> list[tuple[int, str]]:
        response = self.ask(LIST_CONFIG_RESOURCES, **fields)
        self.assertIs(response.error_code, ErrorCode.none)
        return [(each.resource_type, each.resource_name) for each in response.config_resources]

    def test_everything(self) -> None:
        """Topics and the broker have settings."""
        self.assertEqual(self.listed(), [(TOPIC, "orders"), (BROKER, "0")])

    def test_some(self) -> None:
        """Kinds may be chosen; there are some of which there is none."""
        self.assertEqual(self.listed(resource_types=[TOPIC]), [(TOPIC, "orders")])
        self.assertEqual(self.listed(resource_types=[BROKER]), [(BROKER, "0")])
        self.assertEqual(self.listed(resource_types=[8, 16, 32]), [])

    def test_client_metrics(self) -> None:
        """That is all that version 0 can ask for."""
        response = self.ask(LIST_CONFIG_RESOURCES, 0)
        self.assertEqual((response.error_code, response.config_resources), (ErrorCode.none, ()))

    def test_unknown_kind(self) -> None:
        """A kind that Kafka does not know is refused."""
        response = self.ask(LIST_CONFIG_RESOURCES, resource_types=[TOPIC, 3])
        self.assertIs(response.error_code, ErrorCode.unsupported_version)
