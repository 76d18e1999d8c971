"""
Stand-ins for plugins, declared in C{tests/dropins}, and for what surrounds a broker.

C{tests/dropins} is a directory for C{PYTHONPATH}; L{use_dropins} is the same for the running process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import twisted.plugins
from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase

from rustlog.environment import Environment
from rustlog.errors import StartupError
from rustlog.storage.memory import MemorySettings, MemoryStore

DROPINS = Path(__file__).parent / "dropins"


def use_dropins(case: SynchronousTestCase) -> None:
    """Install the plugins of C{tests/dropins} for the length of a test."""
    place = str(DROPINS / "twisted" / "plugins")
    case.patch(twisted.plugins, "__path__", [place, *twisted.plugins.__path__])


# -- stores --


@frozen
class PickySettings:
    """A bit of everything that a store may want to have set."""

    data_dir: PurePath
    copies: int = field(default=1)
    is_fast: bool = False
    place: PurePath = field(default=PurePath("shelf"))
    label: str = ""

    @copies.validator
    def _check(self, attribute: object, value: int) -> None:
        if value > 3:
            raise ValueError("copies must not be more than 3")


def open_picky(settings: PickySettings, environment: Environment) -> MemoryStore:
    return MemoryStore(MemorySettings(), environment)


def open_refusing(settings: MemorySettings, environment: Environment) -> MemoryStore:
    raise StartupError("the refusing store never opens")


def open_refusing_later(settings: MemorySettings, environment: Environment) -> Deferred[Any]:
    return deferLater(environment.clock, 0.1, open_refusing, settings, environment)


def open_defective(settings: MemorySettings, environment: Environment) -> MemoryStore:
    raise ZeroDivisionError("by\nzero")


def open_slow(settings: MemorySettings, environment: Environment) -> Deferred[MemoryStore]:
    return deferLater(environment.clock, 3600, MemoryStore, settings, environment)


# -- protocols --


class Echo(Protocol):
    def dataReceived(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)


@define(eq=False)
class EchoFactory(Factory):
    """Says what it hears; never done with that, until it is told so by a test."""

    noisy = False
    protocol = Echo
    listener: Any
    drained: Deferred[None] = field(factory=Deferred)
    is_draining: bool = False
    closes_last: bool = False

    def drain(self) -> Deferred[None]:
        self.is_draining = True
        return self.drained


@frozen
class EchoSettings:
    """How to echo."""

    times: int = 1
    suffix: str = ""


def make_echo(listener: Any) -> EchoFactory:
    return EchoFactory(listener)


# -- surroundings --


@define
class RecordingProcess:
    """Hears what a service tells its process."""

    heard: list[str] = field(factory=list)
    is_running: bool = True
    begin: Callable[[], object] = list

    def start(self, begin: Callable[[], object]) -> None:
        self.heard.append("start")
        self.begin = begin
        if self.is_running:
            begin()

    def ready(self) -> None:
        self.heard.append("ready")

    def fail(self, reason: str) -> None:
        self.heard.append(f"fail: {reason}")
