"""Tests for the reference page of the protocol: its conversation can be had."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.protocol_page import conversation, is_same
from tests.unit.wire.harness import World


class PageTests(SynchronousTestCase):
    def test_conversation(self) -> None:
        """Each request on the page gets the response on the page, in their order."""
        client = World().client()
        count = 0
        for request, expected in conversation():
            answer = client.ask_raw(request)
            self.assertTrue(is_same(expected, answer), f"{request!r}: {answer!r}")
            count += 1
        self.assertGreater(count, 40)

    def test_comparing(self) -> None:
        """What differs from the page is noticed, but for ids, times and sizes."""
        for expected, found, outcome in (
            (b'{"a": [1, {"b": null}]}', b'{"a": [1, {"b": null}]}', True),
            (b'{"a": 1}', b'{"a": 2}', False),
            (b'{"a": 1}', b'{"a": true}', False),
            (b'{"a": 1}', b'{"a": 1, "b": 2}', False),
            (b'{"a": [1]}', b'{"a": [1, 2]}', False),
            (b'{"a": {"b": 1}}', b'{"a": {}}', False),
            (b'{"size": 1}', b'{"size": 2}', True),
            (b'{"size": 1}', b'{"size": null}', False),
            ('{"a": 1, "…": "…"}'.encode(), b'{"b": 2, "a": 1}', True),
            ('{"a": 1, "…": "…"}'.encode(), b'{"b": 2}', False),
            (b"\x01", b"\x01", True),
            (b"\x01", b"\x02", False),
        ):
            self.assertEqual(is_same(expected, found), outcome, (expected, found))
