"""Tests for L{rustlog.wire.kafka.handlers.configchanges}."""

from __future__ import annotations

from typing import Any

from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.handlers.configchanges import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS, Operation
from rustlog.wire.kafka.handlers.resources import ResourceType
from tests.unit.wire.kafka.harness import CONTEXT, HandlerCase

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
NONE = ErrorCode.none


class ChangeCase(HandlerCase):
    """C{orders} has two settings of its own."""

    def setUp(self) -> None:
        super().setUp()
        self.world.memory.catalog.configure("orders", {"retention.ms": "7", "segment.ms": "8"})

    def own(self) -> dict[str, str]:
        """What is set for the topic now."""
        return dict(self.world.broker.topic(CONTEXT, "orders").config)

    def change(self, key: int, version: int | None, configs: Any, **more: Any) -> Any:
        """What is answered to a change of one resource."""
        resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": configs}
        resource.update((name, more.pop(name)) for name in tuple(more) if name in resource)
        response = self.ask(key, version, **{"resources": [resource], "validate_only": False, **more})
        (answer,) = response.responses
        asked = resource["resource_type"], resource["resource_name"]
        self.assertEqual((answer.resource_type, answer.resource_name), asked)
        return answer


class AlterConfigsTests(ChangeCase):
    def alter(self, *pairs: tuple[str, str | None], version: int | None = None, **more: Any) -> Any:
        configs = [{"name": name, "value": value} for name, value in pairs]
        return self.change(ALTER_CONFIGS, version, configs, **more)

    def test_every_version(self) -> None:
        """What was set before is replaced, all of it."""
        for version in self.versions(ALTER_CONFIGS):
            answer = self.alter(("retention.ms", f"0{version}"), version=version)
            self.assertEqual((answer.error_code, answer.error_message), (NONE, None))
            self.assertEqual(self.own(), {"retention.ms": str(version)})

    def test_nothing(self) -> None:
        """Nothing replaces everything, too."""
        self.assertIs(self.alter().error_code, NONE)
        self.assertEqual(self.own(), {})

    def test_validate_only(self) -> None:
        """Who only asks changes nothing."""
        self.assertIs(self.alter(("retention.ms", "1"), validate_only=True).error_code, NONE)
        refused = self.alter(("retention.ms", "x"), validate_only=True)
        self.assertIs(refused.error_code, ErrorCode.invalid_config)
        self.assertEqual(self.own(), {"retention.ms": "7", "segment.ms": "8"})

    def test_refused(self) -> None:
        """Bad changes are refused with a sentence, and nothing of them is done."""
        for pairs, code, words in (
            ([("colour", "red")], ErrorCode.invalid_config, "there are: cleanup.policy"),
            ([("segment.ms", "1"), ("retention.ms", "x")], ErrorCode.invalid_config, "whole number"),
            ([("cleanup.policy", "compact")], ErrorCode.invalid_config, "not one of delete"),
            ([("segment.ms", "1"), ("segment.ms", "2")], ErrorCode.invalid_request, "more than once"),
            ([("segment.ms", None)], ErrorCode.invalid_request, "segment.ms has no value"),
        ):
            answer = self.alter(*pairs)
            self.assertIs(answer.error_code, code)
            self.assertIn(words, answer.error_message)
        self.assertEqual(self.own(), {"retention.ms": "7", "segment.ms": "8"})

    def test_other_resources(self) -> None:
        """Only topics that exist have settings that can be changed."""
        for kind, name, code, words in (
            (TOPIC, "no", ErrorCode.unknown_topic_or_partition, "topic not found: no"),
            (BROKER, "0", ErrorCode.invalid_request, "fixed while it runs"),
            (BROKER, "", ErrorCode.invalid_request, "fixed while it runs"),
            (BROKER, "3", ErrorCode.invalid_request, "there is no broker '3'"),
            (ResourceType.BROKER_LOGGER, "0", ErrorCode.invalid_request, "broker_logger"),
        ):
            answer = self.alter(("retention.ms", "1"), resource_type=kind, resource_name=name)
            self.assertIs(answer.error_code, code)
            self.assertIn(words, answer.error_message)

    def test_twice(self) -> None:
        """A topic that is named twice is left alone; the others are not."""
        self.world.create("other")
        names = ("orders", "orders", "other")
        resources = [{"resource_type": TOPIC, "resource_name": name, "configs": ()} for name in names]
        response = self.ask(ALTER_CONFIGS, resources=resources, validate_only=False)
        codes = [each.error_code for each in response.responses]
        self.assertEqual(codes, [ErrorCode.invalid_request, ErrorCode.invalid_request, NONE])
        self.assertEqual(self.own(), {"retention.ms": "7", "segment.ms": "8"})


class IncrementalAlterConfigsTests(ChangeCase):
    def alter(self, *changes: tuple[str, int, str | None], version: int | None = None, **more: Any) -> Any:
        configs = [
            {"name": name, "config_operation": operation, "value": value}
            for name, operation, value in changes
        ]
        return self.change(INCREMENTAL_ALTER_CONFIGS, version, configs, **more)

    def test_every_version(self) -> None:
        """What is named changes, and nothing else."""
        for version in self.versions(INCREMENTAL_ALTER_CONFIGS):
            value = str(version + 100)
            answer = self.alter(("retention.ms", Operation.SET, value), version=version)
            self.assertEqual((answer.error_code, answer.error_message), (NONE, None))
            self.assertEqual(self.own(), {"retention.ms": value, "segment.ms": "8"})

    def test_delete(self) -> None:
        """What is deleted has its default again, whether it was set or not."""
        answer = self.alter(
            ("retention.ms", Operation.DELETE, None), ("segment.bytes", Operation.DELETE, "whatever")
        )
        self.assertIs(answer.error_code, NONE)
        self.assertEqual(self.own(), {"segment.ms": "8"})

    def test_validate_only(self) -> None:
        """Who only asks changes nothing."""
        answer = self.alter(("retention.ms", Operation.DELETE, None), validate_only=True)
        self.assertIs(answer.error_code, NONE)
        self.assertEqual(self.own(), {"retention.ms": "7", "segment.ms": "8"})

    def test_lists(self) -> None:
        """To lists, words are added, once each; the value is judged as any other."""
        answer = self.alter(("cleanup.policy", Operation.APPEND, "delete"))
        self.assertIs(answer.error_code, NONE)
        self.assertEqual(self.own()["cleanup.policy"], "delete")
        for operation, value, words in (
            (Operation.APPEND, "compact", "'delete,compact' is not one of delete"),
            (Operation.SUBTRACT, "delete", "'' is not one of delete"),
        ):
            answer = self.alter(("cleanup.policy", operation, value))
            self.assertIs(answer.error_code, ErrorCode.invalid_config)
            self.assertIn(words, answer.error_message)
        answer = self.alter(("cleanup.policy", Operation.SUBTRACT, " compact , "))
        self.assertEqual((answer.error_code, self.own()["cleanup.policy"]), (NONE, "delete"))

    def test_refused(self) -> None:
        """Bad changes are refused with a sentence, and nothing of them is done."""
        before = self.own()
        for change, code, words in (
            (("retention.ms", Operation.APPEND, "1"), ErrorCode.invalid_config, "it is not a list"),
            (("retention.ms", Operation.SET, None), ErrorCode.invalid_request, "has no value"),
            (("retention.ms", 4, "1"), ErrorCode.invalid_request, "there is no operation 4"),
            (("retention.ms", -1, "1"), ErrorCode.invalid_request, "there is no operation -1"),
            (("colour", Operation.SET, "red"), ErrorCode.invalid_config, "no such topic setting"),
            (("colour", Operation.APPEND, "red"), ErrorCode.invalid_config, "no such topic setting"),
            (("colour", Operation.DELETE, None), ErrorCode.invalid_config, "no such topic setting"),
        ):
            answer = self.alter(change, ("segment.bytes", Operation.SET, "1000"))
            self.assertIs(answer.error_code, code)
            self.assertIn(words, answer.error_message)
        self.assertEqual(self.own(), before)

    def test_internal_topic(self) -> None:
        """What the broker needs for itself is not changed."""
        self.world.memory.catalog.create("__own", 1, {"retention.ms": "-1"}, internal=True)
        answer = self.alter(("retention.ms", Operation.DELETE, None), resource_name="__own")
        self.assertIs(answer.error_code, ErrorCode.invalid_topic_exception)
        self.assertEqual(dict(self.world.broker.topic(CONTEXT, "__own").config), {"retention.ms": "-1"})

    def test_unknown_topic(self) -> None:
        """There must be something to change."""
        answer = self.alter(("retention.ms", Operation.SET, "1"), resource_name="no")
        self.assertIs(answer.error_code, ErrorCode.unknown_topic_or_partition)
