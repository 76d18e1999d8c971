"""
The process around the broker: how it is asked to stop, and what whoever started it hears.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.error import ReactorNotRunning


class ReactorControl(Protocol):
    """The part of a reactor that is needed here."""

    def callWhenRunning(self, callable: Callable[..., Any]) -> object: ...

    def callFromThread(self, callable: Callable[..., Any]) -> object: ...

    def stop(self) -> None: ...


STATUS_BYTES_MAX = 100
"""What C{twistd} reads of the reason why its daemon did not start."""


@define(eq=False)
class Process:
    """
    This process, as long as C{reactor} runs.

    @ivar _options: of C{twistd}, if that is what runs us.  When it daemonizes, the process that was
        started waits for its grandchild, the daemon, to write to C{options["statusPipe"]}.  Twisted
        itself writes as soon as services have been told to start; here it
        means that they have started, however long that takes.
    """

    reactor: ReactorControl
    _options: MutableMapping[str, Any] = field(factory=dict)
    _status_pipe: int | None = field(default=None, init=False)
    _failed: bool = field(default=False, init=False)

    def start(self, begin: Callable[[], object]) -> None:
        """
        Call C{begin} when the reactor runs: by then the log is open and signals are caught, whatever
        runs us.  Whoever started us waits for L{ready} or L{fail}.
        """
        self._status_pipe = self._options.get("statusPipe")
        if self._status_pipe is not None:
            self._options["statusPipe"] = None
        self.reactor.callWhenRunning(begin)

    def ready(self) -> None:
        """The start has succeeded."""
        self._report(b"0")

    def fail(self, reason: str) -> None:
        """
        Say why on stderr; stop, if that has not begun; and end with status 1.

        What runs the reactor (C{twistd}, C{twist}) removes its files afterwards and ends with
        status 0, whatever happened.  So the status is set on the way out of the interpreter.
        """
        if sys.__stderr__ is not None:
            sys.__stderr__.write(f"rustlog: {reason}\n")
        self._report(f"1 {reason}".encode("ascii", "backslashreplace")[:STATUS_BYTES_MAX])
        if not self._failed:
            self._failed = True
            atexit.register(_exit_with_failure)
        self.reactor.callWhenRunning(self._stop)

    def on_stop_signals(self, stop_again: Callable[[], object]) -> None:
        """
        Let SIGTERM and SIGINT stop the reactor, and call C{stop_again} for each that follows.

        The reactor's own handlers would do the former, but then let the process die by that
        signal; an orderly stop that was asked for ends with status 0.
        """

        def stop() -> None:
            try:
                self.reactor.stop()
            except ReactorNotRunning:
                stop_again()

        def install() -> None:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._on_signal(number, stop)

        self.reactor.callWhenRunning(install)

    def on_rotate_signal(self, rotate: Callable[[], object]) -> None:
        """Call C{rotate} for SIGUSR1, as C{twistd} does, unless somebody else wants that signal."""
        if signal.getsignal(signal.SIGUSR1) in (None, signal.SIG_DFL):
            self._on_signal(signal.SIGUSR1, rotate)

    def _on_signal(self, number: int, function: Callable[[], object]) -> None:
        signal.signal(number, lambda *_: self.reactor.callFromThread(function))

    def _stop(self) -> None:
        with suppress(ReactorNotRunning):  # It is stopping already.
            self.reactor.stop()

    def _report(self, status: bytes) -> None:
        pipe, self._status_pipe = self._status_pipe, None
        if pipe is None:
            return
        with suppress(OSError):  # Nobody waits any more.
            os.write(pipe, status)
        os.close(pipe)


def _exit_with_failure() -> None:
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            stream.flush()
    os._exit(1)
