"""
Requests that real clients sent: a file for each client, a line for each API and version.

C{python -m tests.captures.record} asks the clients again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent


def captured() -> Iterator[tuple[str, bytes]]:
    """Each request, as a client sent it in a frame, and which client that was."""
    for path in sorted(HERE.glob("*.hex")):
        for line in path.read_text().splitlines():
            yield path.stem, bytes.fromhex(line.split()[-1])
