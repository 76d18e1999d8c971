"""
What receivers of requests have in common, however these are told apart in a stream of bytes.

Reading is paused for a set of reasons, so that those who have one need not know of each other.
L{rustlog.wire.framing} and L{rustlog.wire.lines} have the two kinds that there are.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from twisted.internet.protocol import Protocol


class Pause(Enum):
    """Why nothing more is read from a connection."""

    MEMORY = auto()
    """The request that was announced waits for its turn."""
    IN_FLIGHT = auto()
    """Enough requests are being worked on."""
    OUTPUT = auto()
    """The client has to read its answers first."""
    ENDING = auto()
    """The connection is to end when its last answer is written."""


class Receiver(Protocol):
    """
    Calls C{frame_announced}, then C{stringReceived}, for each request; or
    C{lengthLimitExceeded} for one that is larger than C{MAX_LENGTH}, and nothing after that.

    @ivar bytes_received: so far.
    """

    MAX_LENGTH: int
    transport: Any

    def __init__(self) -> None:
        self._pauses: set[Pause] = set()
        self.bytes_received = 0

    # -- for those who handle requests --

    def frame_announced(self, length: int) -> None:
        """
        A request of so many bytes follows.  Whoever L{pauses <pause>} from within delays it: it is
        not handed over before L{resume}.
        """

    def stringReceived(self, string: bytes) -> None:
        """A request has come."""
        raise NotImplementedError

    def lengthLimitExceeded(self, length: int) -> None:
        """A request has, or will have, so many bytes: too many."""
        raise NotImplementedError

    # -- for those who tell requests apart --

    @property
    def is_mid_frame(self) -> bool:
        """Whether we are waiting for the client to send the rest of a request."""
        raise NotImplementedError

    def forget_input(self) -> None:
        """Drop what has been received and not been handed over."""
        raise NotImplementedError

    def _parse(self) -> None:
        """Hand over what has been received, until there is a reason to pause."""
        raise NotImplementedError

    # -- pausing --

    def pause(self, reason: Pause) -> None:
        """Read nothing until that reason is gone."""
        if not self._pauses:
            self.transport.pauseProducing()
        self._pauses.add(reason)

    def resume(self, reason: Pause) -> None:
        """That reason is gone."""
        if reason not in self._pauses:
            return
        self._pauses.remove(reason)
        if not self._pauses:
            self.transport.resumeProducing()
            self._parse()
