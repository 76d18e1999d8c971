"""
What Twisted's transports do not offer.
"""

from __future__ import annotations

import os


def send_file(socket: int, file: int, position: int, size: int) -> int:
    """
    Let the kernel send a region of a file.

    @return: how many bytes went out, at least one; fewer than C{size} when the socket is full.
    @raise BlockingIOError: it is full already.
    @raise OSError: the connection is lost, the file can not be read or sent this way.
    """
    sent = os.sendfile(socket, file, position, size)
    if not sent:
        raise OSError("the file ends before the region")
    return sent
