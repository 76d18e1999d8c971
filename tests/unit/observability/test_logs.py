"""Tests of L{rustlog.observability.logs}."""

from __future__ import annotations

import io
import json
from typing import Any

from twisted.logger import ILogObserver, Logger, LogLevel, LogPublisher
from twisted.python import log as legacy_log
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog.observability.logs import LEVELS, LogConfig, LogFormat, json_line, make_observer, text_line

NOON = 1_700_000_000.125


def event(text: str, **fields: Any) -> dict[str, Any]:
    """An event as L{Logger} makes it."""
    fixed = {"log_time": NOON, "log_level": LogLevel.info, "log_namespace": "rustlog.service"}
    return {**fixed, "log_format": text, **fields}


def failure() -> Failure:
    """One with a traceback."""
    try:
        raise ValueError("no\nway")
    except ValueError:
        return Failure()


class TextTests(SynchronousTestCase):
    def test_line(self) -> None:
        """A line has the time, the level and the message."""
        line = text_line(event("ready: {place}", place="here"))
        self.assertRegex(line, r"\A2023-11-1[45] \d\d:\d\d:20\.125[+-]\d\d:\d\d INFO  ready: here\n\Z")

    def test_further_lines(self) -> None:
        """What has several lines is recognised as one event: the others are indented."""
        self.assertTrue(text_line(event("one\ntwo")).endswith(" INFO  one\n    two\n"))

    def test_failure(self) -> None:
        """A failure is followed by its traceback."""
        first, *others = text_line(event("cannot start", log_failure=failure())).splitlines()
        self.assertTrue(first.endswith(" cannot start"))
        self.assertTrue(all(each.startswith("    ") for each in others))
        self.assertIn("ValueError", "".join(others))

    def test_bare(self) -> None:
        """An event that lacks nearly everything is a line, too."""
        self.assertRegex(text_line({}), r"\A19(69|70)-.* INFO  \n\Z")


class JsonTests(SynchronousTestCase):
    def parse(self, **fields: Any) -> dict[str, Any]:
        """The event as it can be read back from its line."""
        line = json_line(event("ready: {place}", place="here", **fields))
        self.assertTrue(line.endswith("}\n"))
        self.assertEqual(line.count("\n"), 1)
        parsed: dict[str, Any] = json.loads(line)
        return parsed

    def test_line(self) -> None:
        """A line has time, level, namespace and message, and what the event was logged with."""
        self.assertEqual(
            self.parse(size=3, ratio=0.5, whole=True, nothing=None),
            {
                "time": "2023-11-14T22:13:20.125+00:00",
                "level": "info",
                "namespace": "rustlog.service",
                "message": "ready: here",
                "place": "here",
                "size": 3,
                "ratio": 0.5,
                "whole": True,
                "nothing": None,
            },
        )

    def test_failure(self) -> None:
        """A failure is told with its traceback, in the one line."""
        self.assertIn("ValueError: no\nway", self.parse(log_failure=failure())["failure"])

    def test_odd_values(self) -> None:
        """What JSON does not know is written as it looks."""
        parsed = self.parse(data=b"\xff", pair=(1, 2), endless=float("inf"), line="a\nb")
        self.assertEqual(
            (parsed["data"], parsed["pair"], parsed["endless"], parsed["line"]),
            ("b'\\xff'", "(1, 2)", "inf", "a\nb"),
        )

    def test_own_names(self) -> None:
        """No field of an event replaces what every line has."""
        parsed = self.parse(level="high", time=0, message="?", namespace="?", failure="?")
        self.assertEqual((parsed["level"], parsed["message"]), ("info", "ready: here"))
        self.assertNotIn("failure", parsed)

    def test_legacy(self) -> None:
        """Events of C{twisted.python.log} come without the fields that its old observers want."""
        parsed = self.parse(format="%(log_legacy)s", isError=0, system="-", printed=1, why=None)
        self.assertEqual(set(parsed), {"time", "level", "namespace", "message", "place"})


class ObserverTests(SynchronousTestCase):
    def observe(self, level: str, format: LogFormat = LogFormat.TEXT) -> tuple[LogPublisher, io.StringIO]:
        stream = io.StringIO()
        observer = make_observer(LogConfig(format, level), stream)
        verifyObject(ILogObserver, observer)
        return LogPublisher(observer), stream

    def said(self, level: str, namespace: str) -> list[str]:
        """At which levels an event of that namespace is written."""
        publisher, stream = self.observe(level, LogFormat.JSON)
        logger = Logger(namespace=namespace, observer=publisher)
        for each in LEVELS:
            logger.emit(LogLevel.levelWithName(each), "something")
        return [json.loads(line)["level"] for line in stream.getvalue().splitlines()]

    def test_levels(self) -> None:
        """What is less important than the level is left out."""
        for index, level in enumerate(LEVELS):
            self.assertEqual(self.said(level, "rustlog.broker"), list(LEVELS[index:]))

    def test_third_party(self) -> None:
        """Plugins of others are as important as we are."""
        self.assertEqual(self.said("info", "rustlog_acme.store"), list(LEVELS[1:]))

    def test_noise(self) -> None:
        """Twisted's own life is of interest only when it is in trouble, or somebody debugs."""
        self.assertEqual(self.said("info", "twisted.internet.tcp"), ["warn", "error", "critical"])
        self.assertEqual(self.said("info", "log_legacy"), ["warn", "error", "critical"])
        self.assertEqual(self.said("critical", "twisted.internet.tcp"), ["critical"])
        self.assertEqual(self.said("debug", "twisted.internet.tcp"), list(LEVELS))

    def test_legacy_errors(self) -> None:
        """An error that old code logs is written."""
        publisher, stream = self.observe("info")
        old = legacy_log.LogPublisher(publishPublisher=publisher)
        old.msg("nothing of importance")
        old.msg("a pity", isError=1)
        self.assertRegex(stream.getvalue(), r"\A[^\n]+ CRITICAL a pity\n\Z")

    def test_formats(self) -> None:
        """Each format writes its own kind of line."""
        for format, start in ((LogFormat.TEXT, "20"), (LogFormat.JSON, "{")):
            publisher, stream = self.observe("info", format)
            Logger(namespace="rustlog", observer=publisher).info("hello")
            self.assertTrue(stream.getvalue().startswith(start))
