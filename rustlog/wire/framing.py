"""
Frames: a length, u32 big-endian, and that many bytes.

L{FrameReceiver} is what all framed protocols are built on.  It differs from its base in three
ways: a body is collected in time proportional to its size, however small the pieces; a frame is
announced before its body is received, so that its size can be refused or has to wait; and reading
is paused for a set of reasons, so that those who have one need not know of each other
(L{rustlog.wire.receiving}).
"""

from __future__ import annotations

from struct import Struct

from twisted.protocols.basic import Int32StringReceiver

from rustlog.wire.receiving import Receiver

PREFIX = Struct("!I")


class FrameReceiver(Receiver, Int32StringReceiver):
    """A L{Receiver} of frames.  Calls C{frame_announced} as soon as the length of one is known."""

    keeps_bytearrays = False
    """Whether a body that came in pieces is handed over as it was collected; it saves a copy."""

    def __init__(self) -> None:
        super().__init__()
        self._position = 0
        self._length: int | None = None  # of the frame that has been announced
        self._body: bytearray | None = None  # of that frame, when it comes in pieces
        self._is_parsing = False

    @property
    def is_mid_frame(self) -> bool:
        """Whether we are waiting for the client to send the rest of a frame."""
        return self._body is not None and not self._pauses

    # -- receiving --

    def dataReceived(self, data: bytes) -> None:
        self.bytes_received += len(data)
        if self._body is not None:
            data = self._collect(self._body, data)
        # What is left over is less than a prefix, unless reading is paused.
        self._unprocessed = self._unprocessed[self._position :] + data
        self._position = 0
        self._parse()

    def _collect(self, body: bytearray, data: bytes) -> bytes:
        """Add to the frame that is arriving; what is beyond it is returned."""
        assert self._length is not None
        missing = self._length - len(body)
        if len(data) < missing:
            body += data
            return b""
        body += memoryview(data)[:missing]
        self._body = self._length = None
        self.stringReceived(body if self.keeps_bytearrays else bytes(body))  # type: ignore[arg-type]
        return data[missing:]

    def _parse(self) -> None:
        """
        Take frames from what has been received.

        Not from within itself: a request may be answered, and thereby make room for the
        next one, while it is being handed over.
        """
        if self._is_parsing:
            return
        self._is_parsing = True
        try:
            while not self._pauses and self._body is None and self._take_step():
                pass
        finally:
            self._is_parsing = False
        if not self._pauses:
            self._unprocessed, self._position = self._unprocessed[self._position :], 0

    def _take_step(self) -> bool:
        """Take a prefix or a body; False if there is not enough for it."""
        data, start, length = self._unprocessed, self._position, self._length
        if length is None:
            return self._take_prefix(data, start)
        end = start + length
        if end <= len(data):
            self._position, self._length = end, None
            self.stringReceived(data[start:end])
            return True
        self._body = bytearray(data[start:])
        self._unprocessed, self._position = b"", 0
        return False

    def _take_prefix(self, data: bytes, start: int) -> bool:
        if len(data) - start < PREFIX.size:
            return False
        (length,) = PREFIX.unpack_from(data, start)
        self._position = start + PREFIX.size
        if length > self.MAX_LENGTH:
            self.lengthLimitExceeded(length)
            return False
        self._length = length
        self.frame_announced(length)
        return True

    def forget_input(self) -> None:
        """Drop what has been received and not been handed over."""
        self._unprocessed, self._position = b"", 0
        self._length = self._body = None
