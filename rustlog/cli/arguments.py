"""
Parts of the command line that several commands have.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Callable
from datetime import datetime
from typing import Any

from attrs import frozen

from rustlog.client.addresses import DEFAULT_ADDRESS

BOOTSTRAP_VARIABLE = "RUSTLOG_BOOTSTRAP"

Command = Callable[..., "int | None"]


class Parser(ArgumentParser):
    """
    A parser that takes options anywhere, between arguments too: C{produce orders -p 0 FILE}.  Plain ones
    do not, where the number of arguments is open.
    """

    _is_mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._is_mixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._is_mixing = True  # What follows comes back here.
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixing = False


@frozen
class Commands:
    """A place where commands are added."""

    parsers: _SubParsersAction[Any]
    path: str = "rustlog"

    def add(
        self, name: str, run: Command, summary: str, *, broker: bool = True, json: bool = True
    ) -> ArgumentParser:
        """
        Add a command.

        @param broker: it talks to one.
        @param json: it can be told to print JSON.
        """
        parser: ArgumentParser = self.parsers.add_parser(
            name, help=_first_lower(summary), description=summary, formatter_class=RawDescriptionHelpFormatter
        )
        parser.set_defaults(run=run, json=False, yes=False, bootstrap=None)
        if json:
            parser.add_argument("--json", action="store_true", help="print JSON")
        if broker:
            add_bootstrap(parser)
        return parser

    def group(self, name: str, summary: str) -> Commands:
        """Add a command that has commands of its own."""
        parser = self.parsers.add_parser(name, help=_first_lower(summary), description=summary)
        path = f"{self.path} {name}"
        return Commands(parser.add_subparsers(metavar="COMMAND", required=True, prog=path), path)


def _first_lower(text: str) -> str:
    return text[0].lower() + text[1:].rstrip(".")


def add_bootstrap(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        help=f"where the broker is [default: ${BOOTSTRAP_VARIABLE}, or {DEFAULT_ADDRESS}]",
    )


def add_yes(parser: ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


# -- kinds of values --


def setting(text: str) -> tuple[str, str]:
    """C{KEY=VALUE}."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return name, value


def natural(text: str) -> int:
    """A whole number, not negative."""
    if not re.fullmatch("[0-9]+", text):
        raise ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def positive(text: str) -> int:
    """A whole number of at least one."""
    if natural(text) < 1:
        raise ArgumentTypeError(f"{text} is not 1 or more")
    return int(text)


def timestamp(text: str) -> datetime | int:
    """A moment: ISO 8601, or milliseconds since the epoch."""
    if re.fullmatch("[0-9]+", text):
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(
            f"{text!r} is neither a time like 2026-11-18T12:00:00 or 2026-11-18T12:00:00Z "
            "nor milliseconds since the epoch"
        ) from None


def milliseconds(moment: datetime | int, local: Callable[[datetime], datetime]) -> int:
    """A moment as brokers count; one without a zone is C{local}."""
    if isinstance(moment, int):
        return moment
    if moment.tzinfo is None:
        moment = local(moment)
    return round(moment.timestamp() * 1000)


@frozen
class Scope:
    """A topic, or one partition of it."""

    topic: str
    partition: int | None = None

    def __str__(self) -> str:
        return self.topic if self.partition is None else f"{self.topic}:{self.partition}"


def scope(text: str) -> Scope:
    """C{TOPIC} or C{TOPIC:PARTITION}."""
    topic, colon, partition = text.partition(":")
    if not topic or (colon and not re.fullmatch("[0-9]+", partition)):
        raise ArgumentTypeError(f"{text!r} is not TOPIC or TOPIC:PARTITION")
    return Scope(topic, int(partition) if colon else None)
