"""Tests for the parts of L{rustlog.cli} that are plain values: formats, plans, tables, arguments."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from datetime import UTC, datetime
from io import StringIO

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.cli import arguments, resets
from rustlog.cli.formats import json_format, parse_json, template_format, unescape, value_format
from rustlog.cli.output import Progress, count, human_size, table, time_text
from rustlog.cli.resets import Progress as GroupProgress
from rustlog.model import Record

RECORD = Record(b"two \xff coffees", b"table 7", (("a", b"1"), ("b", None)), 1_700_000_000_123, 42)


class FormatTests(SynchronousTestCase):
    """What is written of a record."""

    def test_value(self) -> None:
        """The bytes are written as they are."""
        self.assertEqual(value_format(b"\0")("orders", 1, RECORD), b"two \xff coffees\0")
        self.assertEqual(value_format(b"\n")("orders", 1, Record(None)), b"\n")

    def test_template(self) -> None:
        """Each field of a template."""
        write = template_format(r"%t/%p/%o %T [%k] %K %S {%h} 100%% \x41\t\\%s\n")
        self.assertEqual(
            write("orders", 1, RECORD),
            b"orders/1/42 1700000000123 [table 7] 7 13 {a=1,b=} 100% A\t\\two \xff coffees\n",
        )
        self.assertEqual(template_format("%K %S%k%s")("a", 0, Record(None)), b"-1 -1")

    def test_bad_templates(self) -> None:
        """What is unknown is named, with what there is."""
        for template, problem in (
            ("%z", "there is no %z"),
            ("%", "there is no %"),
            (r"\q", r"there is no \q"),
        ):
            self.assertIn(problem, str(self.assertRaises(ValueError, template_format, template)))

    def test_json(self) -> None:
        """Text is text; what is not is base64."""
        self.assertEqual(
            json.loads(json_format("orders", 1, RECORD)),
            {
                "topic": "orders", "partition": 1, "offset": 42, "timestamp": 1_700_000_000_123,
                "key": "table 7",
                "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}],
                "value_base64": "dHdvIP8gY29mZmVlcw==",
            },
        )  # fmt: skip

    def test_json_round_trip(self) -> None:
        """What is written as JSON can be read again."""
        texts = st.text(st.characters(exclude_categories=["Cs"]))
        data = st.none() | st.binary() | texts.map(str.encode)
        headers = st.lists(st.tuples(texts, data)).map(tuple)

        @given(st.builds(Record, data, data, headers, st.integers(-1, 2**53)))
        def check(record: Record) -> None:
            self.assertEqual(parse_json(json_format("a", 0, record)), record)

        check()

    def test_bad_json(self) -> None:
        """What is no record is refused."""
        for line in (b"[]", b"{}", b'{"value":5}', b'{"value_base64":"!"}', b'{"value":"","timestamp":"x"}',
                     b'{"value":"","headers":[5]}', b"nonsense"):  # fmt: skip
            self.assertRaises(ValueError, parse_json, line)

    def test_unescape(self) -> None:
        """Delimiters are written like templates, but have no fields."""
        self.assertEqual(unescape(r"a\n\x00%s\t"), b"a\n\0%s\t")
        self.assertEqual(unescape(""), b"")


class ResetTests(SynchronousTestCase):
    """Where a group would be."""

    here = GroupProgress("orders", 0, 50, 10, 90)
    unbegun = GroupProgress("orders", 1, None, 10, 90)

    def test_targets(self) -> None:
        """Each way to say where."""
        for target, offset in (
            (resets.to_earliest, 10),
            (resets.to_latest, 90),
            (resets.to_offset(60), 60),
            (resets.shift_by(-5), 45),
            (resets.shift_by(5), 55),
            (resets.to_time(lambda topic, partition: 33), 33),
        ):
            planned = resets.reset(self.here, target)
            self.assertEqual((planned.offset, planned.note, planned.is_change), (offset, "", True))

    def test_within_the_log(self) -> None:
        """Nobody is sent to where nothing is; it is said that this was asked for."""
        for target, offset, note in (
            (resets.to_offset(5), 10, "5 is before the start of the log"),
            (resets.to_offset(91), 90, "91 is behind the end of the log"),
            (resets.shift_by(-41), 10, "9 is before the start of the log"),
            (resets.to_time(lambda topic, partition: None), 90, "no record since then: the end"),
        ):
            planned = resets.reset(self.here, target)
            self.assertEqual((planned.offset, planned.note), (offset, note))

    def test_unbegun(self) -> None:
        """Where a group has not begun, it is shifted from the beginning."""
        self.assertEqual(resets.reset(self.unbegun, resets.shift_by(3)).offset, 13)

    def test_no_change(self) -> None:
        """It may be there already."""
        self.assertFalse(resets.reset(self.here, resets.to_offset(50)).is_change)


class OutputTests(SynchronousTestCase):
    """Tables and words."""

    def test_table(self) -> None:
        """Numbers stand right, words left, and nothing is a hyphen."""
        self.assertEqual(
            table(("TOPIC", "N", "WHEN"), [("a", 5, None), ("longer", 1000, "now")]),
            "TOPIC      N  WHEN\na          5  -\nlonger  1000  now\n",
        )
        self.assertEqual(table(("TOPIC", "N"), []), "TOPIC  N\n")

    def test_words(self) -> None:
        """Sizes, counts and moments."""
        self.assertEqual([human_size(size) for size in (0, 1023, 1536, 5 * 2**30, 2**52)],
                         ["0 bytes", "1023 bytes", "1.5 KiB", "5.0 GiB", "4096.0 TiB"])  # fmt: skip
        self.assertEqual([count(1, "record"), count(2, "record")], ["1 record", "2 records"])
        self.assertEqual(time_text(1_700_000_000_123), "2023-11-14T22:13:20.123Z")
        self.assertEqual((time_text(None), time_text(-1)), (None, None))

    def test_progress(self) -> None:
        """It is shown now and then, and leaves nothing behind."""
        now, stream = [0.0], StringIO()
        progress = Progress(stream, lambda: now[0], lambda done: f"{done} done")
        progress.advance(1)
        self.assertEqual(stream.getvalue(), "")
        now[0] = 1
        progress.advance(41)
        self.assertEqual(stream.getvalue(), "\r42 done")
        progress.clear()
        self.assertEqual(stream.getvalue(), "\r42 done\r       \r")

    def test_progress_that_nobody_sees(self) -> None:
        """Where there is no terminal there is none."""
        progress = Progress(None, lambda: 0.0, str)
        progress.advance(1)
        progress.clear()


class ArgumentTests(SynchronousTestCase):
    """Kinds of values."""

    def test_times(self) -> None:
        """A moment with or without a zone, or a number."""
        local = lambda when: when.replace(tzinfo=UTC)  # noqa: E731
        for text in (
            "2023-11-14T22:13:20",
            "2023-11-14T22:13:20Z",
            "2023-11-14T23:13:20+01:00",
            "1700000000000",
        ):
            moment = arguments.timestamp(text)
            self.assertEqual(arguments.milliseconds(moment, local), 1_700_000_000_000)
        self.assertEqual(arguments.timestamp("2023-11-14"), datetime(2023, 11, 14))  # noqa: DTZ001
        self.assertRaises(ArgumentTypeError, arguments.timestamp, "yesterday")

    def test_others(self) -> None:
        """Settings, numbers, and parts of topics."""
        self.assertEqual(arguments.setting("a=b=c"), ("a", "b=c"))
        self.assertEqual(arguments.scope("a"), arguments.Scope("a"))
        self.assertEqual(str(arguments.scope("a:7")), "a:7")
        for kind, text in (
            (arguments.setting, "a"),
            (arguments.setting, "=a"),
            (arguments.natural, "-1"),
            (arguments.positive, "0"),
            (arguments.scope, "a:b"),
            (arguments.scope, ":1"),
        ):
            self.assertRaises(ArgumentTypeError, kind, text)
