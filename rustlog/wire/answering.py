"""
L{AnsweredWork}: a request that is answered whatever happens to it.

Refusals are told in the words of the protocol.  What nobody expected is logged, and the client is told no
more than that it happened; the connection goes on.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from rustlog.errors import RustlogError
from rustlog.model import RequestContext
from rustlog.results import Result
from rustlog.wire.pipeline import Work


class AnsweredWork(Work):
    """
    A request that is understood.

    @ivar context: who asks.
    """

    _log = Logger()

    def __init__(self, context: RequestContext) -> None:
        self.context = context

    # -- for subclasses --

    def perform(self) -> Result[bytes]:
        """Do what was asked; the answer.  It may fail, at once or later."""
        raise NotImplementedError

    def words_for(self, error: RustlogError | None) -> str:
        """What a client is told of an error; C{None} is one that nobody expected."""
        raise NotImplementedError

    def encode_refusal(self, words: str) -> bytes:
        """The same as an answer."""
        raise NotImplementedError

    # -- for the pipeline --

    def start(self) -> Result[bytes]:
        try:
            result = self.perform()
        except Exception:
            # Whatever goes wrong, the client is told, and can go on.
            return self._explain(Failure())
        return result.addErrback(self._explain) if type(result) is Deferred else result

    def _explain(self, failure: Failure) -> Any:
        if failure.check(CancelledError) is not None:
            return failure  # The client is gone.
        if isinstance(failure.value, RustlogError):
            self.outcome = self.words_for(failure.value)
            self.error = type(failure.value).__name__
        else:
            self.outcome = self.words_for(None)
            self.error = "InternalError"
            self._log.failure(
                "{request} of {client} failed in an unexpected way",
                failure,
                request=self.name,
                client=self.context.client,
            )
        return self.encode_refusal(self.outcome)
