"""
Lines: bytes up to a line feed, which may follow a carriage return; behind a line, a body may follow.

L{LineReceiver} is what protocols of lines are built on.  It differs from Twisted's own in what all
L{receivers <rustlog.wire.receiving>} do, and in that a line takes time proportional to its
length, however small the pieces in which it comes.
"""

from __future__ import annotations

from attrs import frozen

from rustlog.wire.receiving import Receiver

LINE_BYTES_MAX = 16 * 1024

LINE_END = b"\n"


@frozen
class Body:
    """
    Bytes that follow a line and belong to its request.

    @ivar is_wanted: whether they are handed over, behind the line and its end; if not, they are
        thrown away as they come.
    """

    length: int
    is_wanted: bool = True


class LineReceiver(Receiver):
    """
    A L{Receiver} of lines, which are handed over without their ends.

    A line shows its length only when it is whole.  So C{frame_announced} is called for whole lines;
    what holds the memory of those that are not is C{MAX_LENGTH}, which should be moderate.  The body
    of a line is announced with it, before it comes.
    """

    MAX_LENGTH = LINE_BYTES_MAX

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray()
        self._searched = 0  # of the buffer: there is no end of a line in it
        self._line: bytes | None = None  # that has been announced
        self._body: Body | None = None  # of that line
        self._unwanted = 0  # bytes that are to be thrown away
        self._is_parsing = False

    # -- for those who handle requests --

    def body_behind(self, line: bytes) -> Body | None:
        """
        What follows that line, before the next one.  Whoever can not know where the next one begins ends
        the connection from within.
        """
        return None

    # -- receiving --

    @property
    def is_mid_frame(self) -> bool:
        # A line that was announced and is not waited with is one whose body has not come.
        return not self._pauses and (self._line is not None or bool(self._buffer))

    def forget_input(self) -> None:
        self._buffer.clear()
        self._searched = 0
        self._line = self._body = None
        self._unwanted = 0

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
            return self._hand_over(self._line)
        if self._unwanted and not self._throw_away():
            return False
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
        body = self.body_behind(line)
        if self._pauses:
            return False  # Nobody knows what follows.
        del self._buffer[: end + len(LINE_END)]
        self._searched = 0
        self._line, self._body = line, body
        wanted = len(LINE_END) + body.length if body is not None and body.is_wanted else 0
        self.frame_announced(len(line) + wanted)
        return True

    def _hand_over(self, line: bytes) -> bool:
        body = self._body
        if body is None or not body.is_wanted:
            self._unwanted = 0 if body is None else body.length
            self._line = self._body = None
            self.stringReceived(line)
            return True
        if len(self._buffer) < body.length:
            return False
        with memoryview(self._buffer) as received:
            request = b"".join((line, LINE_END, received[: body.length]))
        del self._buffer[: body.length]
        self._line = self._body = None
        self.stringReceived(request)
        return True

    def _throw_away(self) -> bool:
        """Whether all that is not wanted is gone."""
        gone = min(self._unwanted, len(self._buffer))
        del self._buffer[:gone]
        self._unwanted -= gone
        return not self._unwanted
