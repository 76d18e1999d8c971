"""
The console tool C{rustlog}.

======  ======================================================================
status  meaning
======  ======================================================================
0       done
1       the broker has refused, or something was found to be damaged
2       the command line is wrong
3       the broker can not be reached, or can not be heard any more
130     interrupted (Ctrl-C)
141     whoever was to read the output has gone
======  ======================================================================
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from typing import NoReturn

import rustlog
from rustlog.cli import broker, completion, consuming, groups, logs, pipeline, producing, topics
from rustlog.cli.advice import explain
from rustlog.cli.arguments import BOOTSTRAP_VARIABLE, Commands, Parser
from rustlog.cli.session import CommandFailed, Session
from rustlog.client import blocking
from rustlog.client.addresses import DEFAULT_ADDRESS
from rustlog.client.blocking import Client
from rustlog.client.errors import ClientError, ConnectionFailed, ConnectionLost
from rustlog.environment.console import Console, real_console

FAILED = 1
UNREACHABLE = 3
INTERRUPTED = 130
NOBODY_READS = 141

_EPILOG = f"""
'rustlog COMMAND --help' tells more.  The broker is looked for at --bootstrap, at ${BOOTSTRAP_VARIABLE}, or at
{DEFAULT_ADDRESS}.  Start one with 'twistd -n rustlog'.
"""


def make_parser() -> Parser:
    """All commands."""
    parser = Parser(
        prog="rustlog", description="Talk to a rustlog broker; look into its files.", epilog=_EPILOG
    )
    parser.add_argument("--version", action="version", version=f"rustlog {rustlog.__version__}")
    commands = Commands(parser.add_subparsers(metavar="COMMAND", required=True))
    for module in (topics, producing, consuming, groups, logs, pipeline, broker, completion):
        module.add_commands(commands)
    return parser


def main(
    arguments: Sequence[str], console: Console, connect: Callable[[str], Client] = blocking.connect
) -> int:
    """Do what a command line says; the exit status."""
    with redirect_stderr(console.stderr):
        options = make_parser().parse_args(arguments)
    options.bootstrap = options.bootstrap or console.variables.get(BOOTSTRAP_VARIABLE) or DEFAULT_ADDRESS
    session = Session(options, console, connect)
    try:
        return options.run(session) or 0
    except BrokenPipeError:
        console.silence()
        return NOBODY_READS
    except KeyboardInterrupt:
        return INTERRUPTED
    except CommandFailed as error:
        return _fail(session, str(error), error.status)
    except ClientError as error:
        is_reachable = not isinstance(error, (ConnectionFailed, ConnectionLost))
        return _fail(session, explain(error, session), FAILED if is_reachable else UNREACHABLE)
    finally:
        session.close()


def _fail(session: Session, message: str, status: int) -> int:
    session.remark(f"rustlog: {message}")
    return status


def run() -> NoReturn:
    """What the installed script calls."""
    try:
        status = main(sys.argv[1:], real_console())
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)
