"""Tests for the tutorials on plugins: what they show is what the example has."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "rustlog-shelf"
PAGES = sorted((ROOT / "docs" / "tutorial").glob("write-*.md"))

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def excerpts(page: Path) -> list[tuple[str, str]]:
    """The kinds and the texts of all blocks of code."""
    blocks = _FENCE.findall(page.read_text("utf-8"))
    return [(kind, text) for kind, text in blocks if kind not in ("console", "session")]


class TutorialTests(SynchronousTestCase):
    def test_excerpts(self) -> None:
        """Each block of code names a file of the example, and is a whole part of it, letter for letter."""
        for page in PAGES:
            found = excerpts(page)
            self.assertGreater(len(found), 3, page.name)
            for kind, text in found:
                language, _, file = kind.partition(" ")
                self.assertIn(language, ("python", "ini"), f"{page.name}: {kind}")
                content = (EXAMPLE / file).read_text("utf-8")
                # A whole part: an empty line, or the end of the file, follows it.
                self.assertEqual(f"\n{content}\n".count(f"\n{text}\n"), 1, f"{page.name}, {file}:\n{text}")

    def test_all_three(self) -> None:
        """There is a tutorial for each kind of plugin, and each shows its declaration."""
        dropin = (EXAMPLE / "twisted" / "plugins" / "rustlog_shelf.py").read_text("utf-8")
        declared = re.findall(r"^(\w+) = (\w+)\(", dropin, re.MULTILINE)
        kinds = {kind for _, kind in declared}
        self.assertEqual(kinds, {"LogStoreFactory", "OffsetStoreFactory", "WireProtocol"})
        shown = "".join(text for page in PAGES for _, text in excerpts(page))
        for name, kind in declared:
            self.assertIn(f"{name} = {kind}(", shown)

    def test_no_init_files(self) -> None:
        """The example keeps to what it tells about C{twisted/plugins}."""
        self.assertEqual(list((EXAMPLE / "twisted").rglob("__init__.py")), [])
