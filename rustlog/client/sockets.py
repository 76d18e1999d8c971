"""
Frames over a plain socket.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from struct import Struct

from rustlog.client.addresses import Address, UnixAddress
from rustlog.client.errors import ConnectionFailed, ConnectionLost, NotUnderstood, RequestTimedOut
from rustlog.wire.rustlog.messages import FRAME_BYTES_MAX

_LENGTH = Struct(">I")
_PIECE_BYTES = 1024 * 1024


def open_socket(address: Address, timeout_seconds: float) -> socket.socket:
    """
    Connect.

    @raise ConnectionFailed: with the reason.
    """
    try:
        if isinstance(address, UnixAddress):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(timeout_seconds)
            connection.connect(address.path)
        else:
            connection = socket.create_connection((address.host, address.port), timeout_seconds)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise ConnectionFailed(str(address), _reason(error)) from error
    return connection


class SocketConnection:
    """One request at a time over one socket.  After any error it is of no more use."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def exchange(self, name: str, payload: bytes, seconds: float, now: Callable[[], float]) -> bytes:
        """
        Send a request; its answer.

        @param name: of the request, for messages.
        @raise RequestTimedOut: it did not come within so many seconds.
        @raise ConnectionLost: it will not come.
        @raise NotUnderstood: what came instead is no frame.
        """
        deadline = now() + seconds
        try:
            self._limit(deadline - now())
            self._socket.sendall(_LENGTH.pack(len(payload)) + payload)
            (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline, now))
            if length > FRAME_BYTES_MAX:
                raise NotUnderstood(f"a frame of {length} bytes")
            return self._read(length, deadline, now)
        except TimeoutError:
            raise RequestTimedOut(name, f"nothing came within {seconds:g} seconds") from None
        except OSError as error:
            raise ConnectionLost(name, _reason(error)) from error

    def is_gone(self) -> bool:
        """Whether the other side has hung up already, as far as that can be seen."""
        try:
            self._socket.setblocking(False)
            # Nothing may come unasked, either.
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self._socket.close()

    def _read(self, size: int, deadline: float, now: Callable[[], float]) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._limit(deadline - now())
            more = self._socket.recv(min(size - len(data), _PIECE_BYTES))
            if not more:
                raise ConnectionResetError("the broker has closed the connection")
            data += more
        return bytes(data)

    def _limit(self, seconds: float) -> None:
        if seconds <= 0:
            raise TimeoutError
        self._socket.settimeout(seconds)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
