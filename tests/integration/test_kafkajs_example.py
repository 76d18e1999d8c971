"""The example of KafkaJS, as it is, against a broker as it is: C{twistd rustlog}, on its default ports."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.integration.daemon import PATIENCE_SECONDS, Daemon, environment, every_now_and_then
from tests.integration.toolchains import NODE, Missing, node

DEFAULT_PORTS = (9080, 9091, 9092, 9093)
NEW_NETWORK = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
"""Runs a command in a network of its own, which has nothing but localhost."""


def can_isolate() -> bool:
    tools = ("unshare", "nsenter", "ip")
    if os.geteuid() != 0 or any(shutil.which(each) is None for each in tools):
        return False
    return subprocess.run([*NEW_NETWORK, "true"], capture_output=True, check=False).returncode == 0


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Place:
    """A stock broker, and commands that see it on its default ports."""

    def __init__(self, daemon: Daemon, is_isolated: bool) -> None:
        self.daemon = daemon
        self._enter = ["nsenter", f"--net=/proc/{daemon.pid}/ns/net"] if is_isolated else []

    def start(self, command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
        with output.open("wb") as stream:
            return subprocess.Popen([*self._enter, *command], stdout=stream, stderr=subprocess.STDOUT)

    def run(self, *command: str, input: bytes) -> None:
        subprocess.run(
            [*self._enter, *command], input=input, env=environment(), timeout=PATIENCE_SECONDS, check=True
        )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    is_isolated = can_isolate()
    if not is_isolated and not all(map(is_free, DEFAULT_PORTS)):
        pytest.skip("the default ports are taken; a network of its own takes root, iproute2 and util-linux")
    with Daemon(tmp_path, listen=None, within=NEW_NETWORK if is_isolated else ()) as daemon:
        yield Place(daemon, is_isolated)
        assert daemon.complaints() == []


def test_example(place: Place, tmp_path: Path) -> None:
    """It writes, joins, and prints what is written from then on."""
    try:
        command = [*node(), f"{NODE}/example.mjs"]
    except Missing as reason:
        pytest.skip(f"KafkaJS: {reason}")
    output = tmp_path / "example.out"
    example = place.start(command, output)
    try:
        place.daemon.wait_for_log("group 'my-group': generation 1 is stable with 1 member")
        for _ in every_now_and_then("it prints a message", output.read_text):
            assert example.poll() is None, output.read_text()
            # Where it begins, it asks after it has joined: what comes in between is not for it.
            place.run(sys.executable, "-m", "rustlog", "produce", "my-topic", input=b"Hello again\n")
            if "Hello again" in output.read_text():
                break
    finally:
        example.kill()
        example.wait()
    printed = output.read_text()
    message = r"\{\s*topic: 'my-topic',\s*partition: 0,\s*offset: '\d+',\s*value: 'Hello again'\s*\}"
    assert re.search(message, printed), printed
    assert "Hello World!" not in printed
