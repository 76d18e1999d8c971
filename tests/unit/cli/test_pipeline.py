"""Tests for L{rustlog.cli.pipeline} and L{rustlog.cli.jobs}: what is said before any Spark is started."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

from rustlog.cli import jobs
from rustlog.cli.pipeline import renaming, size
from tests.unit.cli.harness import ToolCase

NOWHERE = ("--bootstrap=127.0.0.1:1", "--kafka=default.api.timeout.ms=1")


class ValuesTests(ToolCase):
    """What may stand behind options."""

    def test_size(self) -> None:
        """Bytes are numbers with a letter for thousands."""
        self.assertEqual([size(each) for each in ("5", "64K", "1G")], [5, 65536, 2**30])
        for wrong in ("", "0", "-1", "1.5G", "1g", "many"):
            self.assertRaises(ArgumentTypeError, size, wrong)

    def test_renaming(self) -> None:
        """A topic may have another name at its target."""
        self.assertEqual(renaming("a"), ("a", "a"))
        self.assertEqual(renaming("a=b"), ("a", "b"))
        for wrong in ("", "=b", "a="):
            self.assertRaises(ArgumentTypeError, renaming, wrong)


class RefusalTests(ToolCase):
    """What is one line, at once."""

    def test_no_spark(self) -> None:
        """Without the extra, it is said how to install it."""
        self.patch(jobs, "find_spec", lambda name: None)
        said = self.fails("pipeline", "archive", "x")
        self.assertEqual(said, "rustlog: this needs Spark: pip install 'rustlog[spark]'\n")
        self.fails("pipeline", "audit", "x", status=2)

    def test_no_broker(self) -> None:
        """A broker that is not there is missed before Spark is started."""
        for command in (("archive", "x"), ("report",), ("rekey", "a", "b"), ("compact", "a", "--to=b")):
            said = self.fails("pipeline", *command, *NOWHERE, status=3)
            self.assertIn("127.0.0.1:1", said)
            self.assertIn("--bootstrap HOST:PORT", said)
            self.assertEqual(said.count("\n"), 1)

    def test_bad_options(self) -> None:
        """Options that make no sense are named."""
        self.assertIn("is not an address", self.fails("pipeline", "report", "-b", "a:b:c", status=2))
        self.assertIn("kafka.frob", self.fails("pipeline", "report", "--kafka=frob=1", status=2))
        said = self.fails("pipeline", "compact", "orders", status=2)
        self.assertIn("one of the arguments --to --parquet --delta is required", said)
        self.assertIn("invalid choice", self.fails("pipeline", "archive", "x", "--format=csv", status=2))

    def test_no_directory(self) -> None:
        """A directory that is none is named; an audit that could not run has found nothing."""
        directory = self.mktemp()
        said = self.fails("pipeline", "audit", directory, status=2)
        self.assertEqual(said, f"rustlog: {directory}: there is no such directory\n")
        self.assertIn(directory, self.fails("pipeline", "report", "--data-dir", directory))

    def test_no_archive(self) -> None:
        """What is not an archive is not replayed."""
        directory = self.mktemp()
        self.assertIn("is not an archive", self.fails("pipeline", "replay", directory, *NOWHERE, "--plan"))

    def test_plan(self) -> None:
        """A plan of an audit shows the segments that there are."""
        directory = Path(self.mktemp())
        (directory / "logs" / "orders" / "0").mkdir(parents=True)
        (directory / "logs" / "orders" / "0" / "0.log").write_bytes(b"")
        told = self.says("pipeline", "audit", str(directory), "--plan")
        self.assertIn("orders          0        0      0", told)
