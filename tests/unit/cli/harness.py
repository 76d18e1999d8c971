"""
The console tool without a terminal, and its broker without a network.
"""

from __future__ import annotations

from datetime import UTC, datetime
from io import BytesIO, StringIO
from typing import Any

from attrs import define, field, frozen
from twisted.trial.unittest import SynchronousTestCase

from rustlog.cli.main import main
from rustlog.client.blocking import Client
from rustlog.environment.console import Console
from tests.unit.client.harness import LocalBroker


@frozen
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str


class UtcConsole(Console):
    """One of a machine in Greenwich."""

    def local_time(self, when: datetime) -> datetime:
        return when.replace(tzinfo=UTC)

    def silence(self) -> None:
        """There is nothing to redirect."""


@define
class Tool:
    """Runs commands against one broker."""

    broker: LocalBroker = field(factory=LocalBroker)
    addresses: list[str] = field(factory=list)
    variables: dict[str, str] = field(factory=dict)

    def run(self, *arguments: str, stdin: bytes = b"", terminal: bool = False, stdout: Any = None) -> Outcome:
        """Run a command; C{terminal}: somebody sits there, and answers with C{stdin}."""
        out, err = stdout or BytesIO(), StringIO()
        console = UtcConsole(
            stdin=BytesIO(stdin),
            stdout=out,
            stderr=err,
            variables=self.variables,
            can_ask=terminal,
            shows_progress=terminal,
            pace=self.broker.pace,  # type: ignore[arg-type]
        )
        try:
            status = main(arguments, console, self._connect)
        except SystemExit as end:  # argparse
            status = end.code  # type: ignore[assignment]
        return Outcome(status, out.getvalue().decode("utf-8", "backslashreplace"), err.getvalue())

    def _connect(self, address: str) -> Client:
        self.addresses.append(address)
        client = self.broker.client()
        client.reconnect()
        return client


class ToolCase(SynchronousTestCase):
    """A tool, and a broker with the topic C{orders} of two partitions."""

    def setUp(self) -> None:
        self.tool = Tool()
        self.broker = self.tool.broker
        self.broker.world.create("orders", 2)
        self.client = self.broker.client()

    def says(self, *arguments: str, stdin: bytes = b"", terminal: bool = False) -> str:
        """What a command that has to succeed prints."""
        outcome = self.tool.run(*arguments, stdin=stdin, terminal=terminal)
        self.assertEqual(outcome.status, 0, outcome.err)
        return outcome.out

    def fails(self, *arguments: str, status: int = 1, stdin: bytes = b"", terminal: bool = False) -> str:
        """What a command that has to fail complains about, in one line."""
        outcome = self.tool.run(*arguments, stdin=stdin, terminal=terminal)
        self.assertEqual(outcome.status, status, outcome.err)
        self.assertEqual(outcome.out, "")
        return outcome.err
