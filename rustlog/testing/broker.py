"""
L{TestBroker}: a whole broker in memory, for tests of wire protocols.

    >>> from rustlog.testing.broker import TestBroker
    >>> broker = TestBroker()
    >>> factory = make_factory(broker.listener(settings))

A connection of that factory, with a C{StringTransport}, then serves real records.
"""

from __future__ import annotations

from rustlog.broker import Broker
from rustlog.groups.coordinator import GroupCoordinator
from rustlog.groups.values import GroupLimits
from rustlog.interfaces import ILogStore, IOffsetStore
from rustlog.model import RequestContext
from rustlog.observability.requests import RequestLog
from rustlog.offsets.memory import MemoryOffsets
from rustlog.settings import BrokerConfig, TopicConfig
from rustlog.storage.memory import MemorySettings, MemoryStore
from rustlog.testing.environment import SimulatedEnvironment, memory_environment
from rustlog.wire.listener import Capacity, Listener

CONTEXT = RequestContext("test", "test", "test")
"""Who asks, when a test asks the broker itself."""


class TestBroker:
    """
    A broker, and what its listeners share.

    @ivar clock: of the environment; time passes when a test says so.
    @ivar coordinator: of the groups; not started, because there is nothing from before.
    """

    __test__ = False  # for pytest, which would take it for a test case

    def __init__(
        self,
        config: BrokerConfig | None = None,
        *,
        environment: SimulatedEnvironment | None = None,
        topic_defaults: TopicConfig | None = None,
        store: ILogStore | None = None,
        offsets: IOffsetStore | None = None,
    ) -> None:
        self.config = BrokerConfig() if config is None else config
        self.environment = memory_environment() if environment is None else environment
        self.clock = self.environment.clock
        topic_defaults = TopicConfig() if topic_defaults is None else topic_defaults
        self.store: ILogStore = (
            MemoryStore(MemorySettings(topic_defaults), self.environment) if store is None else store
        )
        offsets = MemoryOffsets() if offsets is None else offsets
        self.coordinator = GroupCoordinator(
            offsets, self.clock, self.environment.random, GroupLimits.of(self.config)
        )
        self.broker = Broker(
            self.store,
            offsets,
            self.clock,
            self.environment.wall,
            topic_defaults=topic_defaults,
            config=self.config,
            default_partitions=1,
            coordinator=self.coordinator,
        )
        self.capacity = Capacity(self.config, self.clock)

    def listener(
        self, settings: object = None, *, name: str = "door", requests: RequestLog | None = None
    ) -> Listener:
        """What a protocol is given; C{settings} are those of the protocol."""
        return Listener(
            name,
            self.broker,
            self.config,
            self.capacity,
            self.clock,
            self.environment.wall,
            RequestLog() if requests is None else requests,
            settings,
        )
