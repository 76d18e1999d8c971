"""
From the page cache to the socket, past this process.

A L{FileSender} takes the place of a connection's push producer for the length of one region.  As a pull
producer, it is asked for data by the transport whenever that has nothing left to send; so what it
sends by itself at that moment, without the transport's knowledge, is in order.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IPullProducer, ITCPTransport
from twisted.internet.tcp import Connection
from twisted.logger import Logger
from zope.interface import implementer

from rustlog.environment.sockets import send_file
from rustlog.interfaces import ISlice

_NOT_THIS_WAY = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""What file systems say that can not do it."""

_LOST = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF)


def can_send_files(transport: object) -> bool:
    """Whether what the transport is given is exactly what goes to a socket of the kernel."""
    return isinstance(transport, Connection) and ITCPTransport.providedBy(transport) and not transport.TLS


@implementer(IPullProducer)
class FileSender:
    """
    Sends one region.

    @ivar moved: called with this sender whenever something has changed.
    @ivar sent: how many bytes are out.
    @ivar is_done: whether it has nothing more to do; the slice is then the caller's.
    @ivar is_refused: whether that is so because the file can not be sent this way.
    @ivar is_stuck: whether the client has to read before more can be sent.
    @ivar has_progressed: whether the last attempt sent something.
    """

    _log = Logger()

    def __init__(
        self,
        transport: Any,
        whole: ISlice,
        region: tuple[int, int],
        moved: Callable[[FileSender], object],
    ) -> None:
        self._transport = transport
        self._file, self._position = region
        self._moved = moved
        self._is_asked = False
        self._is_lost = False
        self.whole = whole
        self.sent = 0
        self.is_done = False
        self.is_refused = False
        self.is_stuck = False
        self.has_progressed = False

    def close(self) -> None:
        """The connection is lost."""
        if not self.is_done:
            self.is_done = True
            self.whole.release()

    def resumeProducing(self) -> None:
        """See L{IPullProducer}."""
        if self.is_done or self._is_lost:
            return
        if not self._is_asked:
            # This is the transport's greeting.  It may have something to send before it is our turn.
            self._is_asked = True
            self._transport.startWriting()
            return
        self._try()
        if not self.is_done and not self._is_lost:
            self._transport.startWriting()
        self._moved(self)

    def stopProducing(self) -> None:
        """The connection is lost; L{close} follows."""

    def _try(self) -> None:
        left = self.whole.size - self.sent
        self.has_progressed = False
        try:
            sent = send_file(self._transport.fileno(), self._file, self._position + self.sent, left)
        except BlockingIOError:
            self.is_stuck = True
        except OSError as error:
            self._failed(error)
        else:
            self.sent += sent
            self.has_progressed = True
            self.is_stuck = sent < left
            self.is_done = sent == left

    def _failed(self, error: OSError) -> None:
        if error.errno in _NOT_THIS_WAY:
            self.is_done = self.is_refused = True
            return
        if error.errno not in _LOST:
            self._log.error("a file could not be sent: {error}", error=error)
        self.is_stuck = self._is_lost = True
        self._transport.abortConnection()
