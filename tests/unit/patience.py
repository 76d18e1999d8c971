"""Waiting, in a world whose clock the test moves."""

from __future__ import annotations

from typing import Any

from twisted.python.failure import Failure

from rustlog.results import deferred
from rustlog.testing.disk import SimulatedCrash
from rustlog.testing.environment import SimulatedEnvironment

STEP_SECONDS = 0.002
PATIENCE_STEPS = 3_000


class Patience:
    """Whoever has an environment, and waits for answers in it."""

    environment: SimulatedEnvironment

    def pass_time(self, seconds: float) -> None:
        self.environment.clock.advance(seconds)

    def finish(self, result: Any) -> Any:
        """The value of an answer, or the error that it is, as soon as it is there."""
        outcomes: list[Any] = []
        deferred(result).addBoth(outcomes.append)
        for _ in range(PATIENCE_STEPS):
            if outcomes:
                break
            if self.environment.files.crashed:
                raise SimulatedCrash("whatever would be said, nobody is there to say it")
            self.pass_time(STEP_SECONDS)
        if not outcomes:
            raise AssertionError("no answer came")
        if isinstance(outcomes[0], Failure):
            outcomes[0].raiseException()
        return outcomes[0]
