"""C{rustlog ping} and C{rustlog version}."""

from __future__ import annotations

import rustlog
from rustlog.cli.arguments import Commands
from rustlog.cli.session import Session


def add_commands(commands: Commands) -> None:
    """Declare them."""
    commands.add("ping", ping, "See whether the broker answers, and how fast.")
    commands.add("version", version, "Show the version of this tool.", broker=False)


def ping(session: Session) -> None:
    now = session.console.pace.monotonic
    about = session.client.api_versions()
    start = now()
    session.client.ping()
    milliseconds = (now() - start) * 1000
    where = session.options.bootstrap
    session.tell(
        f"rustlog {about.version} at {where} answered in {milliseconds:.1f} ms\n",
        {"address": where, "version": about.version, "milliseconds": round(milliseconds, 3)},
    )


def version(session: Session) -> None:
    session.tell(f"rustlog {rustlog.__version__}\n", {"version": rustlog.__version__})
