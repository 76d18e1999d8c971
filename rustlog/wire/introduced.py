"""
Connections whose clients say who they are in each request, and what is said of them in the log.

What can be answered in no way, not even with an error code, ends the connection, with a line in the log
that says whose it was.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.address import IPv4Address, IPv6Address

from rustlog.wire.answers import NO_ANSWER, Answer
from rustlog.wire.connection import FramedConnection
from rustlog.wire.factory import ConnectionFactory
from rustlog.wire.pipeline import Work


class IntroducedConnection(FramedConnection):
    """
    One client.

    @ivar software: what the client calls itself, if it has said so.
    """

    def __init__(self, factory: ConnectionFactory) -> None:
        super().__init__(factory)
        self.software = ""

    def meet(self, client_id: str) -> None:
        """A client has said who it is."""
        self.context = evolve(self.context, client_id=client_id)

    @property
    def full_name(self) -> str:
        """All that is known of the client."""
        name = f"{self.context.client} (client id {self.context.client_id[:300]!r}"
        return f"{name}, {self.software})" if self.software else f"{name})"

    def hang_up(self, reason: str) -> None:
        """Answer nothing more, and say why in the log."""
        self._log.warn("closing the connection of {client}: {reason}", client=self.full_name, reason=reason)
        self.end(reason)


class Farewell(Work):
    """What can not be answered: nothing after it will be."""

    name = "unknown"

    def __init__(self, connection: IntroducedConnection, reason: str) -> None:
        self._connection = connection
        self.outcome = reason

    def start(self) -> Answer:
        self._connection.hang_up(self.outcome)
        return NO_ANSWER


def local_address(transport: Any, otherwise: tuple[str, int]) -> tuple[str, int]:
    """Where the client found us; C{otherwise} if that is no place on a network."""
    address = transport.getHost()
    if isinstance(address, (IPv4Address, IPv6Address)):
        return address.host, address.port
    return otherwise
