"""Tests for L{rustlog.wire.kafka.handlers.versions}."""

from __future__ import annotations

from rustlog.wire.kafka.apis import APIS
from rustlog.wire.kafka.errors import ErrorCode
from tests.unit.wire.kafka.harness import HandlerCase

API_VERSIONS = 18


class ApiVersionsTests(HandlerCase):
    def test_everything_is_offered(self) -> None:
        """In every version, clients are told of all APIs and of their versions."""
        for version in self.versions(API_VERSIONS):
            software = {"client_software_name": "test", "client_software_version": "1"}
            response = self.ask(API_VERSIONS, version, **software)
            self.assertIs(response.error_code, ErrorCode.none)
            offered = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
            self.assertEqual(set(offered), set(APIS))
            self.assertEqual(offered[API_VERSIONS], (0, 4))
