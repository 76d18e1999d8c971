"""Tests for L{rustlog.wire.kafka.fields}."""

from __future__ import annotations

from dataclasses import fields

from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.kafka.fields import nested_class
from rustlog.wire.kafka.schema import response_class

DESCRIBE_CONFIGS = 32


class NestedClassTests(SynchronousTestCase):
    def test_items_of_items(self) -> None:
        """The class of items is found through the names of fields."""
        response = response_class(DESCRIBE_CONFIGS, 4)
        self.assertIs(nested_class(response), response)
        found = nested_class(response, "results", "configs")
        self.assertLessEqual({"name", "value", "config_source"}, {each.name for each in fields(found)})

    def test_not_items(self) -> None:
        """A number has no fields, and what does not exist has none either."""
        response = response_class(DESCRIBE_CONFIGS, 4)
        self.assertRaises(AssertionError, nested_class, response, "throttle_time")
        self.assertRaises(ValueError, nested_class, response, "colour")
