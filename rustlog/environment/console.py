"""
The terminal, or whatever a command line tool has instead: its streams, its variables, the files that it is
told to read.  Nothing of Twisted is imported here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import IO, BinaryIO, TextIO

from attrs import define

from rustlog.environment.pace import SystemPace


@define(eq=False)
class Console:
    """
    What surrounds a command.

    @ivar stdout: for bytes: records are written as they are.
    @ivar stderr: for messages and progress.
    @ivar can_ask: whether somebody can answer a question.
    @ivar shows_progress: whether somebody looks.
    """

    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[str]
    variables: Mapping[str, str]
    can_ask: bool
    shows_progress: bool
    pace: SystemPace

    def open(self, path: str) -> BinaryIO:
        """A file to read from."""
        return open(path, "rb")

    def local_time(self, when: datetime) -> datetime:
        """A time without a zone is one of this machine's."""
        return when.astimezone()

    def silence(self) -> None:
        """Nobody reads any more: let what is still to be written go nowhere, without a word."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stdout.fileno())
        os.close(nowhere)


def real_console() -> Console:
    """The one that this process was started with."""
    return Console(
        stdin=sys.stdin.buffer,
        # Not C{sys.stdout.buffer}: with PYTHONUNBUFFERED that may write less than it is given.
        stdout=open(sys.stdout.fileno(), "wb", closefd=False),
        stderr=sys.stderr,
        variables=os.environ,
        can_ask=_is_terminal(sys.stdin) and _is_terminal(sys.stderr),
        shows_progress=_is_terminal(sys.stderr),
        pace=SystemPace(),
    )


def _is_terminal(stream: TextIO) -> bool:
    return stream is not None and stream.isatty()
