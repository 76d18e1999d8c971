"""
How long to wait for an answer, and what may be tried again.

Only what can do no harm is repeated: requests that certainly were not sent, and those that may be done twice
(L{Call.may_repeat <rustlog.client.exchange.Call>}).
"""

from __future__ import annotations

from typing import Any, Protocol

from attrs import frozen

from rustlog.client.errors import ClientError, ConnectionFailed, ConnectionLost, TryAgain
from rustlog.client.exchange import Call

_JITTER = 0.5
"""The part of a delay that is left to chance, lest all clients of a broker come back at once."""


@frozen(kw_only=True)
class ClientSettings:
    """
    How patient a client is.

    @ivar timeout_seconds: how long an answer may take; what a fetch was told to wait for data is added to it.
    @ivar retry_seconds: for how long after its first failure a request may be tried again; 0: never.
    @ivar backoff_seconds: how long to wait, about, before the second attempt; before each further one,
        twice as long.
    @ivar backoff_seconds_max: but no longer than this.
    """

    timeout_seconds: float = 30.0
    retry_seconds: float = 30.0
    backoff_seconds: float = 0.1
    backoff_seconds_max: float = 5.0


class Chance(Protocol):
    """What is needed of an L{IRandomSource <rustlog.interfaces.IRandomSource>}."""

    def uniform(self, low: float, high: float) -> float: ...


class Retries:
    """The attempts at one call."""

    def __init__(self, settings: ClientSettings, chance: Chance, call: Call[Any]) -> None:
        self._settings = settings
        self._chance = chance
        self._call = call
        self._failures = 0
        self._deadline: float | None = None

    def delay_after(self, error: ClientError, now: float) -> float | None:
        """How many seconds to wait before the next attempt; C{None}: that was the last one."""
        if self._deadline is None:
            self._deadline = now + self._settings.retry_seconds
        delay = self._next_delay()
        if not self._may_try_again(error) or now + delay > self._deadline:
            return None
        return delay

    def _may_try_again(self, error: ClientError) -> bool:
        if isinstance(error, ConnectionFailed):
            return True  # Nothing was sent.
        return self._call.may_repeat and isinstance(error, (ConnectionLost, TryAgain))

    def _next_delay(self) -> float:
        settings = self._settings
        full = min(settings.backoff_seconds * 2.0**self._failures, settings.backoff_seconds_max)
        self._failures += 1
        return full * self._chance.uniform(1 - _JITTER, 1)
