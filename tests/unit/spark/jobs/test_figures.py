"""Tests for L{rustlog.spark.jobs.sketches}, L{rustlog.spark.jobs.hours} and the page that shows them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from random import Random

import numpy as np
import pyarrow as pa
from twisted.trial.unittest import SynchronousTestCase

from rustlog.spark.columns import schema_of
from rustlog.spark.jobs import hours
from rustlog.spark.jobs.charts import nice_top
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.hours import COLUMNS, HourFigures, Hours, figures, merge_topics, total
from rustlog.spark.jobs.lag import HOUR_MS, Lag
from rustlog.spark.jobs.page import page, short, short_bytes
from rustlog.spark.jobs.sketches import Distinct, Sizes
from rustlog.spark.jobs.values import Report


def keys(numbers: range) -> pa.Array:
    return pa.array([b"key %d" % number for number in numbers], pa.binary())


class SizesTests(SynchronousTestCase):
    """Percentiles."""

    def test_close(self) -> None:
        """They are off by 2 % at most, whether made at once or in parts."""
        random = Random(5)
        sizes = np.array([int(random.lognormvariate(6, 2)) for _ in range(20_000)])
        whole, first, second = Sizes(), Sizes(), Sizes()
        whole.add(sizes)
        first.add(sizes[:7_000])
        second.add(sizes[7_000:])
        first.merge(second)
        for share in (0.01, 0.5, 0.95, 0.99):
            exact = np.sort(sizes)[int(np.ceil(share * len(sizes))) - 1]
            self.assertLess(abs(whole.percentile(share) - exact), max(1.5, exact * 0.02))
            self.assertEqual(first.percentile(share), whole.percentile(share))
        self.assertEqual((first.count, first.total, first.largest), (20_000, sizes.sum(), sizes.max()))

    def test_small(self) -> None:
        """Nothing, empty things and things of one byte are exact."""
        self.assertEqual(Sizes().percentile(0.5), 0)
        for size in (0, 1):
            sizes = Sizes()
            sizes.add(np.array([size] * 3))
            self.assertEqual(sizes.percentile(0.99), size)

    def test_largest(self) -> None:
        """The largest possible size has a place."""
        sizes = Sizes()
        sizes.add(np.array([2**31 - 1]))
        self.assertLess(abs(sizes.percentile(1) / 2**31 - 1), 0.02)


class DistinctTests(SynchronousTestCase):
    """Counts of different values."""

    def test_close(self) -> None:
        """They are off by 5 % at most."""
        for number in (0, 1, 100, 3_000, 10_000, 60_000):
            found = Distinct()
            found.add(keys(range(number)))
            self.assertLessEqual(abs(found.estimate() - number), number * 0.05)

    def test_merge(self) -> None:
        """What both have seen counts once."""
        first, second, whole = Distinct(), Distinct(), Distinct()
        first.add(keys(range(6_000)))
        second.add(keys(range(4_000, 9_000)))
        whole.add(keys(range(9_000)))
        first.merge(second)
        self.assertEqual(first.estimate(), whole.estimate())

    def test_null(self) -> None:
        """Null is no value; the same value again is none, either."""
        found = Distinct()
        parts = [pa.array([None, b"a", b"a"], pa.binary()), pa.array([b"a"], pa.binary())]
        found.add(pa.chunked_array(parts))
        self.assertEqual(found.estimate(), 1)


def rows(*records: tuple[float, bytes | None, bytes | None]) -> pa.Table:
    """Records of some hours; their offsets count from 0."""
    return pa.table(
        {
            "key": [key for _, key, _ in records],
            "value": [value for _, _, value in records],
            "offset": range(len(records)),
            "timestamp": [int(hour * HOUR_MS) * 1000 for hour, _, _ in records],
        },
        schema=pa.schema([(each.name, pa.int64() if each.name == "timestamp" else each.type)
                          for each in schema_of(COLUMNS)]),
    ).cast(schema_of(COLUMNS))  # fmt: skip


class HoursTests(SynchronousTestCase):
    """A topic, hour by hour."""

    def test_figures(self) -> None:
        """Each hour has its own figures; sizes are those of key and value."""
        topic = Hours("orders")
        topic.add(0, rows((0.5, b"a", b"123"), (1.5, b"b", None), (0.7, None, b"4567")))
        topic.add(1, rows((1.2, b"b", b"1")))
        first, second = figures(topic)
        self.assertEqual((first.hour_ms, first.records, first.bytes, first.keys), (0, 2, 8, 1))
        self.assertEqual((second.hour_ms, second.records, second.bytes, second.keys), (HOUR_MS, 2, 3, 1))
        self.assertEqual((first.tombstones, second.tombstones), (0, 1))
        self.assertEqual(
            topic.ends, {("orders", 0): {0: 3, HOUR_MS: 2}, ("orders", 1): {HOUR_MS: 1}}
        )
        everything = total(topic)
        self.assertEqual((everything.hour_ms, everything.records, everything.keys), (None, 4, 2))

    def test_merge(self) -> None:
        """Parts of the same topic are one topic."""
        parts = [Hours("b"), Hours("a"), Hours("b")]
        for part in parts:
            part.add(0, rows((0, b"k", b"v")))
        merged = merge_topics(parts)
        self.assertEqual(list(merged), ["a", "b"])
        self.assertEqual([total(each).records for each in merged.values()], [1, 2])

    def test_too_many_hours(self) -> None:
        """Memory is bounded: who has records of all ages has to choose."""
        self.patch(hours, "HOURS_MAX", 2)
        topic = Hours("orders")
        error = self.assertRaises(JobFailed, topic.add, 0, rows(*((each, b"", b"") for each in range(3))))
        self.assertIn("--since", str(error))


class _Checker(HTMLParser):
    """Whether tags are closed, and what the page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.loads += [str(value) for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def report(topic: str = "orders", count: int = 5) -> Report:
    made = [
        HourFigures(topic, hour * HOUR_MS, 10 * hour, 1000 * hour, 90, 100, 110, 120, 7, 1)
        for hour in range(count)
    ]
    whole = HourFigures(topic, None, 100, 10_000, 90, 100, 110, 120, 30, 5)
    behind = [Lag(group, topic, hour * HOUR_MS, hour * 3) for group in ("a", "b<c") for hour in range(count)]
    return Report("127.0.0.1:9092", 0, [whole], made, behind)


class PageTests(SynchronousTestCase):
    """The HTML page."""

    def check(self, found: Report) -> _Checker:
        checker = _Checker()
        checker.feed(page(found))
        self.assertEqual(checker.open, [])
        self.assertEqual(checker.loads, [])
        return checker

    def test_self_contained(self) -> None:
        """It is well formed, loads nothing, runs nothing, and has a plot for each figure."""
        checker = self.check(report())
        self.assertIn("Lag of consumer groups", checker.texts)
        text = page(report())
        self.assertEqual(text.count("<svg"), 5)
        self.assertNotIn("<script", text)
        self.assertNotRegex(text, r"url\(|@import|https?:")
        self.assertIn("prefers-color-scheme: dark", text)

    def test_names_are_escaped(self) -> None:
        """A name is text, whatever is in it."""
        text = page(report("<b>&"))
        self.assertIn("&lt;b&gt;&amp;", text)
        self.assertIn("b&lt;c", text)
        self.check(report("<b>&"))

    def test_nothing(self) -> None:
        """A report of nothing says so; one hour is enough for a plot."""
        self.assertIn("There are no records.", page(Report("here", 0, [], [], [])))
        self.check(report(count=1))

    def test_places(self) -> None:
        """Everything is drawn within the plot."""
        for name, value in re.findall(r' (x|y|cx|cy)="([-0-9.]+)"', page(report(count=400))):
            self.assertTrue(0 <= float(value) <= (720 if "x" in name else 220), (name, value))

    def test_numbers(self) -> None:
        """Numbers are short, and axes end at round ones."""
        shown = [short(each) for each in (0, 7, 999, 1500, 2_000_000)]
        self.assertEqual(shown, ["0", "7", "999", "1.5 K", "2 M"])
        self.assertEqual([short_bytes(each) for each in (0, 1023, 1536)], ["0 B", "1023 B", "1.5 KiB"])
        self.assertEqual([nice_top(each) for each in (0, 3, 41, 121_000)], [4, 4, 60, 160_000])
        self.assertEqual(nice_top(5 * 1024, binary=True), 8 * 1024)
