"""The page about Kafka clients says what the tests do."""

from __future__ import annotations

import json
import re

from tests.integration.daemon import ROOT
from tests.integration.drivers import ALL_CLIENTS
from tests.integration.toolchains import JAVA, NODE

PAGE = (ROOT / "docs" / "reference" / "kafka-clients.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| [^|]+ \| ([^|]+) \| (yes|no) \|$", re.MULTILINE)


def test_table() -> None:
    """Every client is there, with what it can do."""
    expected = [
        (each.__name__, ", ".join(each.compressions), "yes" if each.can_administer else "no")
        for each in ALL_CLIENTS
    ]
    assert ROW.findall(PAGE) == expected


def test_versions() -> None:
    """The versions are those that are installed."""
    for name, version in json.loads((NODE / "package.json").read_text())["dependencies"].items():
        assert f"{name} {version}" in PAGE or f"`{name}`" in PAGE
    pom = (JAVA / "pom.xml").read_text()
    kafka = re.search(r"<artifactId>kafka-clients</artifactId>\s*<version>(.*)</version>", pom)
    assert kafka is not None and f"kafka-clients {kafka[1]}" in PAGE
