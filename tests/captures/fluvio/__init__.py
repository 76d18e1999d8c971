"""
What the C{fluvio} package 0.21.0 (of Fluvio 0.17.3) sent, and what it accepted for an answer.

A file for each kind of port, a line for each message, without its frame: C{request} or C{answer}, the API,
the version, what it was about, and the bytes.  C{older} ones are of a conversation in which less was offered.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from rustlog.wire.fluvio.apis import APIS, Api, Role

HERE = Path(__file__).parent


@frozen
class Message:
    """One message."""

    role: Role
    is_request: bool
    api: Api
    version: int
    subject: str
    content: bytes


def messages() -> Iterator[Message]:
    """All of them."""
    for path in sorted(HERE.glob("*.hex")):
        role = Role(path.stem)
        for line in path.read_text().splitlines():
            kind, name, version, subject, content = line.split()
            (api,) = (each for each in APIS if each.name == name and role in each.roles)
            yield Message(role, kind == "request", api, int(version), subject, bytes.fromhex(content))


def message(subject: str, *, is_request: bool) -> Message:
    """The one about that."""
    (found,) = (
        each for each in messages() if each.subject == subject and each.is_request is is_request
    )
    return found
