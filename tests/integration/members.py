"""L{Members}: a process with members of a group (L{tests.integration.group_member}), as a test sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from attrs import frozen

from tests.integration.daemon import PATIENCE_SECONDS, ROOT, environment
from tests.integration.toolchains import NODE, java, kcat, node

CLIENTS = ("confluent", "aiokafka", "kafka-python", "kcat", "java", "kafkajs", "platformatic")
"""All that can be members."""


def _command(client: str) -> Sequence[str]:
    """
    What takes a wish, and is a member.

    @raise Missing: it can not be run here.
    """
    if client == "java":
        return (*java(), "GroupMember")
    if client in ("kafkajs", "platformatic"):
        return (*node(), f"{NODE}/member.mjs")
    if client == "kcat":
        kcat()
    return (sys.executable, "-m", "tests.integration.group_member")


@frozen
class Ownership:
    """What a member was told that it owns."""

    member: str
    generation: int
    partitions: tuple[int, ...]


class Members:
    """
    One process.

    @ivar events: all that its members have told.
    """

    def __init__(self, client: str, server: str, group: str, topic: str, **more: Any) -> None:
        place = {"client": client, "server": server, "group": group, "topic": topic}
        wish = {**place, "session_ms": 4000, **more}
        self.count: int = more.get("members", 1)
        self.events: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [*_command(client), json.dumps(wish)],
            cwd=ROOT,
            env=environment(),
            start_new_session=True,  # so that what it starts dies with it
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._errors: list[bytes] = []
        assert self._process.stdout is not None and self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._errors.extend, args=(self._process.stderr,), daemon=True),
        ]
        for each in self._readers:
            each.start()

    def _listen(self, stream: IO[bytes]) -> None:
        for line in stream:
            if line.endswith(b"\n"):
                self.events.append(json.loads(line))

    @property
    def name(self) -> str:
        return str(self._process.pid)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ownerships(self) -> list[Ownership]:
        """All that they were ever told."""
        return [
            Ownership(f"{self.name}/{each['member']}", each["generation"], tuple(each["partitions"]))
            for each in list(self.events)
            if each["event"] == "assigned"
        ]

    def owned(self) -> list[Ownership]:
        """What they own now, each that was ever told something."""
        return list({each.member: each for each in self.ownerships()}.values())

    def partitions(self) -> list[int]:
        """All that they own together."""
        return sorted(partition for each in self.owned() for partition in each.partitions)

    def records(self) -> list[tuple[int, int]]:
        """Partition and offset of all that they have read."""
        return [
            (each["partition"], each["offset"]) for each in list(self.events) if each["event"] == "record"
        ]

    def leave(self) -> None:
        """Have them leave the group, and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """Let them die without a word."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for each in self._readers:
            each.join(PATIENCE_SECONDS)

    def describe(self) -> str:
        """For messages."""
        errors = b"".join(self._errors).decode(errors="replace")[-2000:]
        return f"members {self.name}: {self.owned()}, alive: {self.is_alive}\n{errors}"
