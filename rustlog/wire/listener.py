"""
What a wire protocol is given to serve one listener, and what all listeners share.
"""

from __future__ import annotations

from typing import Any

from attrs import Factory, field, frozen
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IAddress, IReactorTime

from rustlog.broker import Broker
from rustlog.interfaces import IWallClock
from rustlog.monitoring import Monitoring
from rustlog.observability.health import Health
from rustlog.observability.metrics import Metrics
from rustlog.observability.requests import RequestLog
from rustlog.observability.tallies import ListenerMeter
from rustlog.settings import BrokerConfig
from rustlog.wire.budget import Budget
from rustlog.wire.slowness import SlowClients

REFUSALS_MAX = 100
"""How many connections, beyond those that are served, are told so at the same time."""

_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})
"""What a listener is bound to that takes clients on every address of the machine."""


class Capacity:
    """
    What all connections of the process have to share: memory, and their number.

    There is one for the process.

    @ivar budget: of memory.
    @ivar slow_clients: those who hold some of it.
    """

    def __init__(self, config: BrokerConfig, clock: IReactorTime) -> None:
        self.budget = Budget(clock, config.queued_max_request_bytes)
        self.slow_clients = SlowClients(
            clock, config.slow_client_timeout_ms, lambda: self.budget.is_contended
        )
        self.connections_max = config.max_connections
        self.connections = 0

    def enter(self) -> bool:
        """
        Count a connection; one call of L{leave} belongs to it, whatever the answer.

        @return: whether it may stay.
        """
        self.connections += 1
        return self.connections <= self.connections_max

    def leave(self) -> None:
        """It is gone."""
        self.connections -= 1

    @property
    def is_flooded(self) -> bool:
        """Whether there are so many that not even a refusal should be spent on them."""
        return self.connections > self.connections_max + REFUSALS_MAX


@frozen
class Place:
    """
    Where one listener listens.

    @ivar protocol: the name of its wire protocol.
    @ivar advertised: what clients are to be told instead.
    """

    protocol: str
    host: str
    port: int
    advertised: tuple[str, int] | None = None

    def leads_from(self, host: str) -> bool:
        """Whether a client that has reached C{host} of this machine reaches it there, too."""
        return self.host == host or self.host in _EVERYWHERE

    def address_for(self, host: str) -> tuple[str, int]:
        """What a client is told that has reached C{host} of this machine."""
        if self.advertised is not None:
            return self.advertised
        return (host if self.host in _EVERYWHERE else self.host), self.port


class Places:
    """
    The listeners of the process, for protocols that send clients from one to another.  There is one for the
    process, and it is complete when the first client comes.
    """

    def __init__(self) -> None:
        self._known: list[Place] = []

    def add(self, protocol: str, address: IAddress, advertised: tuple[str, int] | None) -> None:
        """A listener listens."""
        if isinstance(address, (IPv4Address, IPv6Address)):
            self._known.append(Place(protocol, address.host, address.port, advertised))

    def find(self, protocol: str, host: str) -> Place | None:
        """The listener of a protocol that is best for a client that has reached C{host} of this machine."""
        found = [each for each in self._known if each.protocol == protocol]
        return next((each for each in found if each.leads_from(host)), found[0] if found else None)


@frozen
class Listener:
    """
    One place where clients connect.

    @ivar name: what the operator calls it.
    @ivar capacity: shared with all other listeners.
    @ivar settings: those of the protocol, an instance of the class that its plugin names.
    @ivar advertised: the host and port that clients are to be told, by protocols that tell them;
        C{None} is the address on which they connected.
    @ivar protocol: the name of its wire protocol.
    @ivar places: all listeners of the process, this one included.
    @ivar monitoring: shared with all other listeners; its C{metrics_text} is what Prometheus wants.
    @ivar meter: where to count what happens here.
    """

    name: str
    broker: Broker
    config: BrokerConfig
    capacity: Capacity
    clock: IReactorTime
    wall: IWallClock
    requests: RequestLog = field(factory=RequestLog)
    settings: Any = None
    advertised: tuple[str, int] | None = None
    protocol: str = field(default=Factory(lambda self: self.name, takes_self=True))
    places: Places = field(factory=Places)
    monitoring: Monitoring = field(default=Factory(lambda self: self._unmonitored(), takes_self=True))
    meter: ListenerMeter = field(init=False)

    @meter.default
    def _its_meter(self) -> ListenerMeter:
        return self.monitoring.metrics.meter(self.protocol, self.name)

    def _unmonitored(self) -> Monitoring:
        """For a listener that stands alone."""
        return Monitoring(self.broker, self.clock, Metrics(), Health())
