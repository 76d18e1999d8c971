"""Tests for L{rustlog.wire.kafka.apis}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.kafka.apis import APIS
from rustlog.wire.kafka.schema import request_class, response_class


class TableTests(SynchronousTestCase):
    def test_every_version_is_known(self) -> None:
        """What is offered can be read and written."""
        for api in APIS.values():
            for version in (api.versions[0], api.versions[-1]):
                self.assertIn(api.name, request_class(api.key, version).__name__)
                self.assertIn(api.name, response_class(api.key, version).__name__)

    def test_keys(self) -> None:
        """They are in order, each under its own."""
        self.assertEqual([each.key for each in APIS.values()], sorted(APIS))
