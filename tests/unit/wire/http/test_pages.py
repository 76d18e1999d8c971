"""Tests for L{rustlog.wire.http.pages}."""

from __future__ import annotations

from html.parser import HTMLParser

from twisted.trial.unittest import SynchronousTestCase

from rustlog import __version__
from rustlog.observability.figures import Figures, GroupFigures, LagFigures, TopicFigures
from rustlog.wire.http.pages import ROWS_MAX, duration, index_page


class Page(HTMLParser):
    """What a browser sees."""

    def __init__(self, figures: Figures, problems: list[str] | None = None) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(index_page(figures, problems or [], 61.5).decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


class IndexPageTests(SynchronousTestCase):
    def test_empty(self) -> None:
        """An empty broker has a page, too: version, uptime, and where else to look."""
        page = Page(Figures())
        self.assertIn(f"rustlog {__version__}", page.text)
        self.assertIn("Up for 1 min 1 s.", page.text)
        self.assertIn("Ready.", page.text)
        self.assertEqual(page.links, ["/metrics", "/healthz", "/readyz", "/api/topics", "/api/groups"])

    def test_holdings(self) -> None:
        """Topics have partitions and sizes, groups have lags, and each leads to more."""
        page = Page(
            Figures(
                (TopicFigures("orders", 3, False, 1234, 2000, 56789),),
                (GroupFigures("kitchen", (LagFigures("orders", 0, 7), LagFigures("orders", 1, 8))),),
            )
        )
        for text in ("orders", "3", "1,234", "56,789", "kitchen", "15"):
            self.assertIn(text, page.text)
        self.assertEqual(page.links[-2:], ["/api/topics/orders", "/api/groups/kitchen"])

    def test_not_ready(self) -> None:
        """What keeps it from being ready is said."""
        self.assertIn("Not ready: a-0 is fenced: <why>.", Page(Figures(), ["a-0 is fenced: <why>"]).text)

    def test_hostile_names(self) -> None:
        """A group can be called anything; it stays text, and its link leads to it."""
        name = "<script>alert('x')</script>\" onclick=\"a/b?c#d&amp;%"
        plain, hostile = Page(Figures()), Page(Figures(groups=(GroupFigures(name, ()),)))
        self.assertEqual(set(hostile.tags) - set(plain.tags), {"table", "tr", "th", "td"})
        self.assertIn(name, hostile.text)
        encoded = "%3Cscript%3Ealert%28%27x%27%29%3C%2Fscript%3E%22%20onclick%3D%22a%2Fb%3Fc%23d%26amp%3B%25"
        self.assertEqual(hostile.links[-1], f"/api/groups/{encoded}")

    def test_nothing_from_elsewhere(self) -> None:
        """The page needs nothing that it does not bring along."""
        page = Page(Figures())
        self.assertFalse({"script", "link", "img", "iframe"} & set(page.tags))
        self.assertTrue(all(each.startswith("/") for each in page.links))

    def test_bounded(self) -> None:
        """Of very many topics only so many are shown, and the rest are counted."""
        topics = tuple(TopicFigures(f"t{n}", 1, False, 0, 0, 0) for n in range(ROWS_MAX + 1234))
        page = Page(Figures(topics))
        self.assertEqual(page.tags.count("tr"), ROWS_MAX + 1)
        self.assertIn("… and 1,234 more.", page.text)


class DurationTests(SynchronousTestCase):
    def test_units(self) -> None:
        """Two units are enough for anybody."""
        for seconds, text in (
            (0.4, "0 s"),
            (59, "59 s"),
            (60, "1 min 0 s"),
            (3600 * 5 + 61, "5 h 1 min"),
            (86400 * 400 + 3599, "400 d 0 h"),
        ):
            self.assertEqual(duration(seconds), text)
