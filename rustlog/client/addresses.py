"""
Where a broker is, as people write it: C{HOST:PORT}, C{HOST}, C{[::1]:9091} or C{unix:PATH}.
"""

from __future__ import annotations

import re
from typing import Union

from attrs import frozen

DEFAULT_PORT = 9091
DEFAULT_ADDRESS = f"127.0.0.1:{DEFAULT_PORT}"

_HOST_PORT = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>\d+))?")
_UNIX = "unix:"


@frozen
class TcpAddress:
    """A port of a machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@frozen
class UnixAddress:
    """A socket in the file system."""

    path: str

    def __str__(self) -> str:
        return _UNIX + self.path


Address = Union[TcpAddress, UnixAddress]


def parse_address(text: str) -> Address:
    """
    Understand an address.

    @raise ValueError: it is none; the message says what one looks like.
    """
    if text.startswith(_UNIX) and len(text) > len(_UNIX):
        return UnixAddress(text.removeprefix(_UNIX))
    match = _HOST_PORT.fullmatch(text)
    port = int(match["port"] or DEFAULT_PORT) if match is not None else 0
    if match is None or not 0 < port < 2**16:
        raise ValueError(
            f"{text!r} is not an address like {DEFAULT_ADDRESS}, [::1]:{DEFAULT_PORT} or unix:PATH"
        )
    return TcpAddress(match["v6"] or match["host"], port)
