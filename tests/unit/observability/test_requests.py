"""Tests for L{rustlog.observability.requests}."""

from __future__ import annotations

from typing import Any

from twisted.logger import LogLevel, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from rustlog.model import RequestContext
from rustlog.observability.requests import RequestLog

CONTEXT = RequestContext("rustlog", "lan", "127.0.0.1:40312")
FACTS: dict[str, Any] = {
    "topic": "orders",
    "partition": 0,
    "records": 2,
    "request_bytes": 96,
    "response_bytes": 31,
    "seconds": 0.0002141,
    "outcome": "ok",
}


class RequestLogTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.events: list[dict[str, Any]] = []
        globalLogPublisher.addObserver(self.events.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.events.append)

    def test_line(self) -> None:
        """A request is one line at DEBUG, with everything that one would ask for."""
        RequestLog(is_wanted=True).answered(CONTEXT, "Produce", **FACTS)
        (event,) = self.events
        self.assertEqual(
            formatEvent(event),
            "rustlog Produce 'orders' 0: 2 records, 96 bytes in, 31 bytes out, 0.214 ms, 'ok' "
            "(127.0.0.1:40312)",
        )
        self.assertIs(event["log_level"], LogLevel.debug)
        self.assertEqual(
            (event["protocol"], event["listener"], event["client"]), ("rustlog", "lan", CONTEXT.client)
        )

    def test_hostile_text(self) -> None:
        """What clients made up can not forge lines, nor control a terminal."""
        hostile = {"topic": "a\nb\x1b[2J", "outcome": "no topic a\nb\x1b[2J"}
        RequestLog(is_wanted=True).answered(CONTEXT, "Produce", **{**FACTS, **hostile})
        line = formatEvent(self.events[0])
        self.assertNotIn("\n", line)
        self.assertNotIn("\x1b", line)

    def test_not_wanted(self) -> None:
        """Nothing is made of what nobody wants."""
        RequestLog().answered(CONTEXT, "Produce", **FACTS)
        self.assertEqual(self.events, [])
