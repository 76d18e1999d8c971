"""
What is told of requests: at DEBUG, one line for each.

    rustlog Produce 'orders' 0: 2 records, 96 bytes in, 31 bytes out, 0.214 ms, 'ok' (127.0.0.1:40312)

An event for L{twisted.logger} costs more than a small request itself, even when no observer
wants it.  So nothing is made unless somebody has said that it is wanted.
"""

from __future__ import annotations

from typing import Final

from twisted.logger import Logger

from rustlog.model import RequestContext


class RequestLog:
    """
    Told of every request when it has been answered.

    @ivar is_wanted: whether there is any use in telling it.
    """

    _log: Final = Logger()

    def __init__(self, *, is_wanted: bool = False) -> None:
        self.is_wanted = is_wanted

    def answered(
        self,
        context: RequestContext,
        request: str,
        *,
        topic: str | None,
        partition: int | None,
        records: int,
        request_bytes: int,
        response_bytes: int,
        seconds: float,
        outcome: str,
    ) -> None:
        """
        Tell of one.

        @param records: how many were written or read.
        @param seconds: from the time when all of the request was there to the answer.
        @param outcome: C{ok}, or what the client was told instead.
        """
        if not self.is_wanted:
            return
        # What clients made up is shown as a literal: it may contain anything.
        self._log.debug(
            "{protocol} {request} {topic!r} {partition}: {records} records, {request_bytes} bytes in, "
            "{response_bytes} bytes out, {duration_ms} ms, {outcome!a} ({client})",
            protocol=context.protocol,
            listener=context.listener,
            client=context.client,
            request=request,
            topic=topic,
            partition=partition,
            records=records,
            request_bytes=request_bytes,
            response_bytes=response_bytes,
            duration_ms=round(seconds * 1000, 3),
            outcome=outcome,
        )
