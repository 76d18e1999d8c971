"""
Lines: bytes up to a line feed, which may follow a carriage return.

L{LineReceiver} is what protocols of lines are built on.  It differs from Twisted's own in what all
L{receivers <rustlog.wire.receiving>} do, and in that a line takes time proportional to its
length, however small the pieces in which it comes.
"""

from __future__ import annotations

from rustlog.wire.receiving import Receiver

LINE_BYTES_MAX = 16 * 1024

LINE_END = b"\n"


class LineReceiver(Receiver):
    """
    A L{Receiver} of lines, which are handed over without their ends.

    A line shows its length only when it is whole.  So C{frame_announced} is called for whole lines;
    what holds the memory of those that are not is C{MAX_LENGTH}, which should be moderate.
    """

    MAX_LENGTH = LINE_BYTES_MAX

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray()
        self._searched = 0  # of the buffer: there is no end of a line in it
        self._line: bytes | None = None  # that has been announced
        self._is_parsing = False

    @property
    def is_mid_frame(self) -> bool:
        return bool(self._buffer) and self._line is None and not self._pauses

    def forget_input(self) -> None:
        self._buffer.clear()
        self._searched = 0
        self._line = None

    def dataReceived(self, data: bytes) -> None:
        self.bytes_received += len(data)
        self._buffer += data
        self._parse()

    def _parse(self) -> None:
        """Not from within itself: an answer may make room for the next line while one is handed over."""
        if self._is_parsing:
            return
        self._is_parsing = True
        try:
            while not self._pauses and self._take_step():
                pass
        finally:
            self._is_parsing = False

    def _take_step(self) -> bool:
        """Announce a line, or hand over the one that was announced; False if there is none."""
        if self._line is not None:
            line, self._line = self._line, None
            self.stringReceived(line)
            return True
        end = self._buffer.find(LINE_END, self._searched)
        length = len(self._buffer) if end < 0 else end
        if length > self.MAX_LENGTH + 1:  # A carriage return does not count.
            self.lengthLimitExceeded(length)
            return False
        if end < 0:
            self._searched = length
            return False
        return self._announce(end)

    def _announce(self, end: int) -> bool:
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        if len(line) > self.MAX_LENGTH:
            self.lengthLimitExceeded(len(line))
            return False
        del self._buffer[: end + len(LINE_END)]
        self._searched = 0
        self._line = line
        self.frame_announced(len(line))
        return True
