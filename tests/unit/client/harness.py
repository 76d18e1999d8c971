"""
Clients of a broker without a network: L{LocalConnection} is for the blocking one, L{LocalEndpoint} for
Twisted's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from rustlog.client import errors
from rustlog.client.blocking import Client
from rustlog.client.retrying import ClientSettings
from tests.unit.wire.harness import FakeTransport, World, frame, frames

STEP_SECONDS = 0.05


@define
class ClockPace:
    """Time that passes only when somebody sleeps, and chance that always is the largest."""

    clock: Clock
    slept: list[float] = field(factory=list)

    def monotonic(self) -> float:
        return self.clock.seconds()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)

    def uniform(self, low: float, high: float) -> float:
        return high


class LocalConnection:
    """
    Stands for L{rustlog.client.sockets.SocketConnection}.

    @ivar faults: what happens to the next exchanges instead: C{"unsent"} (lost before the broker has seen the
        request) or C{"unanswered"} (after it).
    """

    def __init__(self, world: World, faults: list[str]) -> None:
        self._world = world
        self._peer = world.client()
        self._faults = faults
        self.gone = False
        self.closed = False

    def exchange(self, name: str, payload: bytes, seconds: float, now: Callable[[], float]) -> bytes:
        assert not self.closed, "it was closed"
        fault = self._faults.pop(0) if self._faults else ""
        if fault != "unsent":
            self._peer.send_bytes(frame(payload))
        if fault:
            raise errors.ConnectionLost(name, "the cable was pulled")
        deadline = now() + seconds
        while not self._peer.transport.value():
            if now() > deadline:
                raise errors.RequestTimedOut(name, "it took too long")
            self._world.clock.advance(STEP_SECONDS)
        (answer,) = frames(self._peer.transport.value())
        self._peer.transport.clear()
        return answer

    def is_gone(self) -> bool:
        return self.gone

    def close(self) -> None:
        self.closed = True
        self._peer.disconnect()


@define
class LocalBroker:
    """
    A broker that blocking clients can connect to, or not.

    @ivar refusals: so many attempts to connect fail first.
    """

    world: World = field(factory=World)
    faults: list[str] = field(factory=list)
    refusals: int = 0
    connections: list[LocalConnection] = field(factory=list)

    def open(self) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise errors.ConnectionFailed("nowhere:1", "nobody is there")
        self.connections.append(LocalConnection(self.world, self.faults))
        return self.connections[-1]

    @property
    def pace(self) -> ClockPace:
        return ClockPace(self.world.clock)

    def client(self, settings: ClientSettings | None = None, pace: ClockPace | None = None) -> Client:
        return Client(self.open, settings or ClientSettings(), pace or self.pace)


# -- for Twisted --


@implementer(IStreamClientEndpoint)
class LocalEndpoint:
    """
    Leads to a broker.  Bytes travel when L{pump} is called.

    @ivar refusals: so many attempts to connect fail first.
    @ivar is_slow: attempts neither succeed nor fail.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.refusals = 0
        self.is_slow = False
        self.links: list[Link] = []

    def connect(self, factory: Any) -> Deferred[Any]:
        if self.is_slow:
            return Deferred()
        if self.refusals:
            self.refusals -= 1
            return fail(ConnectionRefusedError())
        self.links.append(Link(self._world, factory.buildProtocol(None)))
        return succeed(self.links[-1].protocol)

    def pump(self) -> None:
        """Let everything arrive that is on its way."""
        while sum(link.pump() for link in self.links):
            pass


class Link:
    """One connection, with both ends."""

    def __init__(self, world: World, protocol: Any) -> None:
        self.protocol = protocol
        self.transport = FakeTransport()
        self._peer = world.client()
        self.is_cut = False
        protocol.makeConnection(self.transport)

    def pump(self) -> bool:
        """Move bytes in both directions; whether there were any."""
        if self.is_cut:
            return False
        sent = self.transport.value()
        self.transport.clear()
        if sent:
            self._peer.send_bytes(sent)
        answered = self._peer.transport.value()
        self._peer.transport.clear()
        if answered:
            self.protocol.dataReceived(answered)
        if self.transport.disconnecting:
            self.cut(ConnectionDone())
            return True
        return bool(sent or answered)

    def deliver(self) -> None:
        """Let the broker have what was sent, but not the client what is answered."""
        self._peer.send_bytes(self.transport.value())
        self.transport.clear()

    def cut(self, reason: Exception | None = None) -> None:
        """The connection is lost."""
        self.is_cut = True
        self._peer.disconnect()
        self.protocol.connectionLost(Failure(reason or ConnectionLost()))
