"""L{Driver}: a Kafka client of another language, in a process that is asked with JSON lines."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Any

import pytest

from tests.integration.daemon import PATIENCE_SECONDS
from tests.integration.kafka_clients import CLIENTS, KafkaUser, Message, Step
from tests.integration.toolchains import NODE, Missing, java, node


class Driver:
    """One process, for any number of requests."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **request: Any) -> Any:
        """The result of a request."""
        self.begin(**request)
        return self.finish(str(request)[:500])

    def begin(self, **request: Any) -> None:
        """Ask, and do not wait for the result."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()

    def finish(self, what: str = "a request") -> Any:
        """The result of what was begun; nobody waits for ever."""
        assert self._process.stdout is not None
        timer = Timer(2 * PATIENCE_SECONDS, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        assert line, f"no answer to {what}"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


class DrivenUser(KafkaUser):
    """What is asked of a L{Driver}."""

    driver: Driver

    def _ask(self, do: str, **request: Any) -> Any:
        return self.driver.ask(do=do, server=self.server, **request)

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        compression: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        place = {"topic": topic, "partition": partition}
        how = {"compression": compression, "idempotent": idempotent}
        written = [_written(each) for each in messages]
        offsets: list[int] = self._ask("produce", messages=written, **place, **how)
        return offsets

    def read(self, topic: str, steps: Sequence[Step], *, partition: int = 0) -> list[list[Message]]:
        found = self._ask("read", topic=topic, partition=partition, steps=steps)
        return [[_understood(each) for each in step] for step in found]

    def offset_for_time(self, topic: str, timestamp: int) -> int:
        return int(self._ask("offset_for_time", topic=topic, timestamp=timestamp))

    def administer(self, topic: str) -> dict[str, Any]:
        seen: dict[str, Any] = self._ask("administer", topic=topic)
        return seen


class Java(DrivenUser):
    """Kafka's own client; it is idempotent by default."""

    is_always_idempotent = True

    @staticmethod
    def command() -> tuple[str, ...]:
        return (*java(), "KafkaDriver")


class KafkaJS(DrivenUser):
    """KafkaJS; other compressions than gzip come from packages beside it."""

    @staticmethod
    def command() -> tuple[str, ...]:
        return (*node(), f"{NODE}/driver.mjs", "kafkajs")


class Platformatic(DrivenUser):
    """@platformatic/kafka; it has zstd where Node.js has it, from 22.15 on."""

    compressions = ("none", "gzip", "snappy", "lz4")

    @staticmethod
    def command() -> tuple[str, ...]:
        return (*node(), f"{NODE}/driver.mjs", "platformatic")


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _written(message: Message) -> dict[str, Any]:
    headers = [[name, _encoded(value)] for name, value in message.headers]
    return {"key": _encoded(message.key), "value": _encoded(message.value), "headers": headers}


def _understood(found: dict[str, Any]) -> Message:
    headers = tuple((name, _decoded(value)) for name, value in found["headers"])
    return Message(_decoded(found["value"]), _decoded(found["key"]), headers, found["offset"])


ALL_CLIENTS: tuple[type[KafkaUser], ...] = (*CLIENTS, Java, KafkaJS, Platformatic)


@contextmanager
def acting(kind: type[KafkaUser], server: str) -> Iterator[KafkaUser]:
    """A client that is ready to act; one in another language is in a process that ends afterwards."""
    user = kind(server)
    try:
        command = kind.command()
    except Missing as reason:
        pytest.skip(f"{kind.__name__}: {reason}")
    if not isinstance(user, DrivenUser):
        yield user
        return
    user.driver = Driver(command)
    try:
        yield user
    finally:
        user.driver.close()
