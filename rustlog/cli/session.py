"""
L{Session}: one run of the tool, as its commands see it.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence

from attrs import define, field

from rustlog.cli.output import Progress, document, table
from rustlog.client.blocking import Client
from rustlog.environment.console import Console


class CommandFailed(Exception):
    """
    The command can not do what it was asked for; the message says why, and what to do.

    @ivar status: with which the tool ends.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@define(eq=False)
class Session:
    """The options, the terminal, and a connection as soon as it is needed."""

    options: Namespace
    console: Console
    _connect: Callable[[str], Client]
    _client: Client | None = field(default=None, init=False)

    @property
    def client(self) -> Client:
        """A connection to the broker."""
        if self._client is None:
            try:
                self._client = self._connect(self.options.bootstrap)
            except ValueError as error:
                raise CommandFailed(str(error), status=2) from None
        return self._client

    def close(self) -> None:
        """Hang up, if there is a connection."""
        if self._client is not None:
            self._client.close()

    # -- saying --

    def write(self, text: str) -> None:
        """Say something to whoever reads the output."""
        self.console.stdout.write(text.encode("utf-8", "surrogateescape"))
        self.console.stdout.flush()

    def tell(self, text: str, value: object) -> None:
        """Say something as C{--json} wants it: in words, or as a document."""
        self.write(document(value) if self.options.json else text)

    def show(self, titles: Sequence[str], rows: Sequence[Sequence[object]], value: object) -> None:
        """The same for a table."""
        self.tell(table(titles, rows), value)

    def remark(self, text: str) -> None:
        """Say something that is not part of the output, behind what is."""
        self.console.stdout.flush()
        self.console.stderr.write(f"{text}\n")
        self.console.stderr.flush()

    def progress(self, describe: Callable[[int], str]) -> Progress:
        """Tell how far one has come, if somebody looks."""
        stream = self.console.stderr if self.console.shows_progress else None
        return Progress(stream, self.console.pace.monotonic, describe)

    # -- asking --

    def confirm(self, what: str) -> None:
        """
        Make sure that it is meant.

        @raise CommandFailed: it is not, or nobody can say.
        """
        if self.options.yes:
            return
        if not self.console.can_ask:
            raise CommandFailed(f"{what}? Say --yes if you mean it", status=2)
        self.console.stderr.write(f"{what}? [y/N] ")
        self.console.stderr.flush()
        answer = self.console.stdin.readline().decode("utf-8", "replace").strip().lower()
        if answer not in ("y", "yes"):
            raise CommandFailed("nothing was done")
