"""
What the documentation shows of the console tool and of the clients is what one sees.

Blocks that begin with C{```console run} are sessions: each line after C{$} is given to a shell, in the
order of the page, beside one broker; the lines that follow are what it prints.  Blocks that begin with
C{```python run} are scripts, and a block C{```text} behind one is what that prints.

    RUSTLOG_UPDATE_TRANSCRIPTS=1 scripts/test tests/integration/test_transcripts.py

writes down what is really printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.integration.daemon import PATIENCE_SECONDS, ROOT, Daemon, environment

PAGES = (
    "README.md",
    "docs/reference/cli.md",
    "docs/reference/client.md",
    "docs/howto/produce-and-consume.md",
    "docs/howto/reset-offsets.md",
    "docs/howto/use-fluvio-clients.md",
)
IS_UPDATE = bool(os.environ.get("RUSTLOG_UPDATE_TRANSCRIPTS"))
DEFAULT_ADDRESSES = ("127.0.0.1:9091", "127.0.0.1:9003")
"""Of the protocols that pages show: rustlog, fluvio."""

_BLOCK = re.compile(
    r"^```console run\n(?P<session>.*?)^```$"
    r"|^```python run\n(?P<script>.*?)^```$(?:\n\n```text\n(?P<printed>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_VARIABLE = (
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "<time>"),
    (re.compile(r"\b1[789]\d{11}\b"), "<milliseconds>"),
    (re.compile(r"\d+\.\d+ ms"), "<duration>"),
    (re.compile(r'"crc32c":\d+'), "<checksum>"),
)


class Reader:
    """One who reads a page, and does what it says beside a broker."""

    def __init__(self, directory: Path, ports: Sequence[int]) -> None:
        self._directory = directory
        addresses = [f"127.0.0.1:{port}" for port in ports]
        self._addresses = list(zip(DEFAULT_ADDRESSES, addresses, strict=True))
        programs = directory / "programs"
        programs.mkdir()
        (programs / "rustlog").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rustlog "$@"\n')
        (programs / "rustlog").chmod(0o755)
        self._variables = {
            **environment(),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "RUSTLOG_BOOTSTRAP": addresses[0],
            "TZ": "UTC",
        }

    def session(self, text: str) -> str:
        """The same session, with what is really printed."""
        commands = re.findall(r"^\$ (.*(?:\n> .*)*)\n", text, re.MULTILINE)
        return "".join(f"$ {each}\n{self._run(['bash', '-c', self._command(each)])}" for each in commands)

    def script(self, text: str) -> str:
        """What a script prints."""
        return self._run([sys.executable, "-c", self._here(text)])

    def _command(self, text: str) -> str:
        return self._here(text.replace("\n> ", "\n"))

    def _here(self, text: str) -> str:
        for default, actual in self._addresses:
            text = text.replace(default, actual)
        return text

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        printed = done.stdout
        for default, actual in self._addresses:
            printed = printed.replace(actual, default)
        return printed

    def read(self, page: str) -> Iterator[tuple[re.Match[str], str]]:
        """Each block of a page, and what it should be."""
        for block in _BLOCK.finditer(page):
            if block["session"] is not None:
                yield block, f"```console run\n{self.session(block['session'])}```"
            else:
                printed = self.script(block["script"])
                shown = f"\n\n```text\n{printed}```" if printed else ""
                yield block, f"```python run\n{block['script']}```{shown}"


@pytest.fixture
def reader(make_daemon: Callable[..., Daemon], tmp_path: Path) -> Reader:
    """Where a broker runs whose data is in C{rustlog-data}."""
    daemon = make_daemon(
        "--storage=segments",
        "--offsets=memory",
        "--data-dir=rustlog-data",
        "--listen=fluvio=tcp:0:interface=127.0.0.1",
    ).start()
    return Reader(tmp_path, daemon.ports)


def normalised(text: str) -> str:
    """Without what is different each time."""
    for pattern, name in _VARIABLE:
        text = pattern.sub(name, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("page", PAGES)
def test_transcripts(page: str, reader: Reader) -> None:
    """All sessions and scripts of a page, in their order."""
    if "fluvio" in page and find_spec("fluvio") is None:
        pytest.skip("fluvio: there is no wheel of the package for this Python")
    path = ROOT / page
    text = path.read_text("utf-8")
    blocks = list(reader.read(text))
    assert blocks, "there is nothing to run in this page"
    if IS_UPDATE:
        for block, actual in reversed(blocks):
            text = text[: block.start()] + actual + text[block.end() :]
        path.write_text(text, "utf-8")
    for block, actual in blocks:
        assert IS_UPDATE or normalised(block[0]) == normalised(actual)
        assert "Traceback" not in actual


def test_every_command_is_shown() -> None:
    """The reference has a transcript of each command."""
    from rustlog.cli.completion import walk
    from rustlog.cli.main import make_parser

    page = (ROOT / "docs/reference/cli.md").read_text("utf-8")
    sessions = "\n".join(block["session"] or "" for block in _BLOCK.finditer(page))
    commands = [node.path for node in walk(make_parser()) if node.path and not node.commands]
    assert len(commands) > 15
    for path in (*commands, ("completion",)):
        assert re.search(rf"^\$ (?:.*\| *)?rustlog {' '.join(path)}\b", sessions, re.MULTILINE), path
