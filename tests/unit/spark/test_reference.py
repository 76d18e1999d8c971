"""Tests for the reference page of Spark: it has the options that there are."""

from __future__ import annotations

from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from rustlog.spark import vocabulary
from rustlog.spark.session import DEFAULTS, LOCAL_DEFAULTS
from rustlog.spark.vocabulary import EVERYWHERE, READING, WRITING
from tests.unit.test_docs import page, rows

PAGE = "docs/reference/spark.md"

_USES = {READING: "reading", WRITING: "writing", EVERYWHERE: "both"}


def options() -> Iterator[str]:
    """The rows of the table of options."""
    for each in vocabulary.OPTIONS:
        name = f"`{each.name}`" + (" ●" if each.is_ours else "")
        yield f"| {name} | {_uses(each.uses)} | {_default(each.default)} | {each.meaning} |"


def client_settings() -> Iterator[str]:
    """Those of the table of settings of the client."""
    for each in vocabulary.CLIENT_SETTINGS:
        name = f"`{vocabulary.PREFIX}{each.name}`"
        yield f"| {name} | {_uses(each.uses)} | {_default(each.default)} | {each.meaning} |"


def _uses(uses: tuple[str, ...]) -> str:
    return _USES.get(uses) or ", ".join(f"`{each}`" for each in uses)


def _default(default: str) -> str:
    return default if "`" in default or " " in default or not default else f"`{default}`"


class ReferenceTests(SynchronousTestCase):
    def test_options(self) -> None:
        """Every option is there, with its default and what it means, and no other."""
        self.assertEqual(self.table("Options"), list(options()))

    def test_client_settings(self) -> None:
        """So are the settings of the client."""
        self.assertEqual(self.table("Settings of the client"), list(client_settings()))

    def table(self, heading: str) -> list[str]:
        section = page(PAGE).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        section = section.partition("\n\nRefused")[0]
        return [line for line in section.splitlines() if line.startswith("| `")]

    def test_other_settings(self) -> None:
        """Settings that are ignored or refused are named."""
        text = page(PAGE)
        for name in vocabulary.CLIENT_SETTINGS_WITHOUT_EFFECT | set(vocabulary.CLIENT_SETTINGS_REFUSED):
            self.assertIn(f"`{name}`", text)
        for name in vocabulary.WITHOUT_EFFECT:
            self.assertIn(f"`{name}`", text)

    def test_session(self) -> None:
        """The settings of a session are those that it gets."""
        found = {name: cells[0] for name, cells in rows(page(PAGE), "Sessions").items()}
        self.assertEqual(found, {"Setting": "Value", **DEFAULTS, **LOCAL_DEFAULTS})
