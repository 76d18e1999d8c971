"""Tests of L{rustlog.service}."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, cast

from attrs import define, evolve, field
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from rustlog.broker import Broker
from rustlog.config import DaemonConfig, ListenerConfig
from rustlog.errors import NotCoordinator, StartupError
from rustlog.groups.coordinator import GroupCoordinator
from rustlog.groups.values import Join
from rustlog.model import Committed, RequestContext, StoreLimits, TopicPartition
from rustlog.observability.health import Stage
from rustlog.observability.logs import LogConfig, LogFormat
from rustlog.offsets.memory import MemoryOffsets
from rustlog.service import (
    LAST_SECONDS_MAX,
    PAUSE_SECONDS,
    STOP_SECONDS_MAX,
    BrokerService,
    Maintenance,
    Patience,
    address_text,
    one_line,
    reason,
)
from rustlog.settings import BrokerConfig, TopicConfig
from rustlog.testing.environment import InlineWorkers, memory_environment
from rustlog.wire.listener import Place
from tests.doubles import EchoFactory, RecordingProcess

HERE = IPv4Address("TCP", "127.0.0.1", 4711)


@define(eq=False, slots=False)
class StoreDouble:
    """A store, its offsets and its factory in one: opens and closes when a test says so."""

    journal: list[str]
    name: str
    opening: Callable[[], Any] = lambda: None
    closing: Callable[[], Any] = lambda: succeed(None)
    opened_with: tuple[Any, ...] = ()
    maintenance: list[Any] = field(factory=list)
    limits: StoreLimits = field(factory=StoreLimits)

    @property
    def catalog(self) -> StoreDouble:
        return self

    def subscribe(self, listener: Any) -> Callable[[], None]:
        return lambda: None

    def open(self, *arguments: Any) -> Any:
        self.journal.append(f"open {self.name}")
        self.opened_with = arguments
        return self.opening() or self

    def refresh(self, name: str) -> Deferred[None]:
        return succeed(None)

    def groups(self) -> Deferred[tuple[str, ...]]:
        return succeed(())

    def maintain(self) -> Deferred[bool]:
        self.journal.append("maintain")
        step = self.maintenance.pop(0) if self.maintenance else False
        return step if isinstance(step, Deferred) else succeed(step)

    def close(self) -> Any:
        self.journal.append(f"close {self.name}")
        return self.closing()


@define(eq=False)
class EndpointDouble:
    """Listens or refuses; is its own port."""

    journal: list[str]
    result: Any = None
    address: IAddress = HERE
    closing: Callable[[], Any] = lambda: None

    def listen(self, factory: Factory) -> Deferred[Any]:
        self.journal.append("listen")
        if isinstance(self.result, Deferred):
            return self.result
        return fail(self.result) if isinstance(self.result, Exception) else succeed(self)

    def getHost(self) -> IAddress:
        assert "stop listening" not in self.journal, "a port that is closed has no address"
        return self.address

    def stopListening(self) -> Any:
        self.journal.append("stop listening")
        return self.closing()


@define(eq=False)
class ProtocolDouble:
    """Makes echo factories, and remembers them."""

    name: str = "echo"
    factories: list[EchoFactory] = field(factory=list)

    def factory(self, listener: Any) -> EchoFactory:
        self.factories.append(EchoFactory(listener))
        return self.factories[-1]


class ServiceTestCase(SynchronousTestCase):
    """Has a service of doubles."""

    def setUp(self) -> None:
        self.journal: list[str] = []
        self.environment = memory_environment()
        self.clock = self.environment.clock
        self.process = RecordingProcess()
        self.store = StoreDouble(self.journal, "log")
        self.offsets = StoreDouble(self.journal, "offsets")
        self.protocol = ProtocolDouble()
        self.config = DaemonConfig(
            self.store, "log settings", self.offsets, "offset settings", (self.listener(),)  # type: ignore[arg-type]
        )
        self.messages: list[str] = []
        observer = cast(ILogObserver, self._observe)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def _observe(self, event: dict[str, Any]) -> None:
        if event.get("log_namespace", "").startswith("rustlog.service"):
            text = event["log_format"].format(**event)
            self.messages.append(f"{event['log_level'].name}: {text}")

    def listener(self, name: str = "echo", **endpoint: Any) -> ListenerConfig:
        double: Any = EndpointDouble(self.journal, **endpoint)
        protocol: Any = self.protocol
        return ListenerConfig(name, protocol, "tcp:0", double)

    def start(self, *listeners: ListenerConfig) -> BrokerService:
        """Begin."""
        if listeners:
            self.config = evolve(self.config, listeners=listeners)
        service = BrokerService(self.config, self.environment, self.process)
        service.startService()
        return service

    def started(self, *listeners: ListenerConfig) -> BrokerService:
        """One that listens."""
        service = self.start(*listeners)
        self.assertEqual(self.process.heard, ["start", "ready"])
        self.journal.clear()
        return service

    def end_drains(self) -> None:
        for factory in self.protocol.factories:
            factory.drained.callback(None)


class GroupTests(ServiceTestCase):
    """Who looks after groups is there from the beginning, and lets go before anybody is waited for."""

    def test_stop(self) -> None:
        """Those who wait for other members are sent away, so that a stop need not wait for them."""
        offsets: Any = self.offsets
        offsets.load = lambda group: succeed((0, b""))
        service = self.started()
        broker = self.protocol.factories[0].listener.broker
        join = Join(
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(("range", b""),),
        )
        joining = broker.coordinator_for(None, "billing").join("billing", join)
        self.assertNoResult(joining)
        stopping = service.stopService()
        self.assertNoResult(stopping)
        self.failureResultOf(joining, NotCoordinator)
        self.failureResultOf(broker.coordinator_for(None, "billing").join("billing", join), NotCoordinator)
        self.end_drains()
        self.successResultOf(stopping)

    def test_groups_are_not_found(self) -> None:
        """If groups can not be taken over, the log says so; the broker serves all the same."""
        offsets: Any = self.offsets
        offsets.groups = lambda: fail(OSError(errno.EIO, "Input/output error"))
        self.started()
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.assertIn("critical: members of groups that are gone are not noticed", self.messages)


class StartTests(ServiceTestCase):
    def test_order(self) -> None:
        """Nothing listens before the stores are open."""
        self.start()
        self.assertEqual(self.journal, ["open log", "open offsets", "listen"])
        self.assertEqual(self.process.heard, ["start", "ready"])

    def test_waits_for_stores(self) -> None:
        """A store may take its time; the next step comes when it is open."""
        opening, second = Deferred[Any](), Deferred[Any]()
        self.store.opening = lambda: opening
        self.offsets.opening = lambda: second
        self.start()
        self.assertEqual(self.journal, ["open log"])
        opening.callback(self.store)
        self.assertEqual(self.journal, ["open log", "open offsets"])
        self.assertEqual(self.process.heard, ["start"])
        second.callback(self.offsets)
        self.assertEqual(self.process.heard, ["start", "ready"])

    def test_what_stores_are_given(self) -> None:
        """Each gets its settings and an observed environment; the offset store also the open log store."""
        self.start()
        log_settings, environment = self.store.opened_with
        self.assertEqual(log_settings, "log settings")
        self.assertEqual(evolve(environment, observer=self.environment.observer), self.environment)
        self.assertIs(environment.observer, self.protocol.factories[0].listener.monitoring.metrics)
        self.assertEqual(self.offsets.opened_with, ("offset settings", environment, self.store))

    def test_what_protocols_are_given(self) -> None:
        """A listener has its name, the broker, and what all listeners share."""
        broker_config = BrokerConfig(max_connections=7)
        self.config = evolve(
            self.config, broker=broker_config, partitions=3, topic_defaults=TopicConfig(retention_ms=9)
        )
        self.start(evolve(self.listener("lan"), advertised=("host", 1)), self.listener("wan"))
        lan, wan = (each.listener for each in self.protocol.factories)
        self.assertEqual((lan.name, lan.advertised), ("lan", ("host", 1)))
        self.assertEqual((wan.name, wan.advertised), ("wan", None))
        self.assertIsInstance(lan.broker, Broker)
        self.assertIs(lan.broker, wan.broker)
        self.assertIs(lan.capacity, wan.capacity)
        self.assertEqual(lan.capacity.connections_max, 7)
        self.assertIs(lan.config, broker_config)
        self.assertIs(lan.clock, self.clock)
        self.assertIs(lan.places, wan.places)
        self.assertEqual(lan.places.find("echo", HERE.host), Place("echo", HERE.host, HERE.port, ("host", 1)))

    def test_requests_are_told_when_debugging(self) -> None:
        """Requests are logged only for those who debug."""
        self.start()
        self.config = evolve(self.config, log=LogConfig(LogFormat.TEXT, "debug"))
        self.start()
        wanted = [each.listener.requests.is_wanted for each in self.protocol.factories]
        self.assertEqual(wanted, [False, True])

    def test_ready_line(self) -> None:
        """The ready line tells what listens where, with the port that it really got."""
        self.start(
            self.listener(address=HERE),
            self.listener("lan", address=IPv6Address("TCP", "::1", 9)),
        )
        self.assertEqual(
            self.messages[-1], "info: ready: echo on 127.0.0.1:4711, lan (echo) on [::1]:9"
        )

    def test_broker_works(self) -> None:
        """The broker that protocols are given is one: it creates topics as it was told to."""
        from rustlog.storage.memory import MemorySettings, MemoryStore

        store = MemoryStore(MemorySettings(), self.environment)
        self.store.opening = lambda: store
        self.offsets.opening = MemoryOffsets
        self.config = evolve(self.config, partitions=3)
        self.start()
        broker = self.protocol.factories[0].listener.broker
        info = self.successResultOf(broker.create_topic(RequestContext("p", "l", "c"), "orders"))
        self.assertEqual(info.partitions, 3)


class FailedStartTests(ServiceTestCase):
    def assert_failed(self, line: str) -> None:
        """The process was told so in one line, the log as well, and nothing listens."""
        self.assertEqual(self.process.heard, ["start", f"fail: {line}"])
        self.assertEqual(self.messages[-1], f"critical: cannot start: {line}")

    def test_store_refuses(self) -> None:
        """A store that can not be opened ends the start; offsets and listeners are not tried."""
        self.store.opening = lambda: fail(StartupError("the directory is\nin use"))
        self.start()
        self.assert_failed("the directory is in use")
        self.assertEqual(self.journal, ["open log"])

    def test_store_refuses_at_once(self) -> None:
        """It does not matter whether the store raises, or fails later."""

        def refuse() -> None:
            raise StartupError("it is damaged")

        self.store.opening = refuse
        self.start()
        self.assert_failed("it is damaged")

    def test_offset_store_refuses(self) -> None:
        """The same for the offset store; the log store is closed when the process stops."""
        self.offsets.opening = lambda: fail(StartupError("no offsets"))
        service = self.start()
        self.assert_failed("no offsets")
        self.successResultOf(service.stopService())
        self.assertEqual(self.journal, ["open log", "open offsets", "close log"])

    def test_operating_system_refuses(self) -> None:
        """What the system says is a reason like any other."""
        error = PermissionError(errno.EACCES, "Permission denied", "/data")
        self.store.opening = lambda: fail(error)
        self.start()
        self.assert_failed("cannot open the log store log: [Errno 13] Permission denied: '/data'")

    def test_port_is_taken(self) -> None:
        """A port that is taken is named; what is open by then is closed when the process stops."""
        taken = CannotListenError("127.0.0.1", 1, OSError(errno.EADDRINUSE, "Address already in use"))
        service = self.start(self.listener(), self.listener("second", result=taken))
        self.assert_failed("cannot listen on tcp:0: Address already in use")
        self.end_drains()
        self.successResultOf(service.stopService())
        self.assertEqual(
            self.journal[2:], ["listen", "listen", "stop listening", "close offsets", "close log"]
        )

    def test_odd_refusal(self) -> None:
        """Endpoints refuse in their own ways; it is one line in any case."""
        self.start(self.listener(result=OverflowError("port must be 0-65535.")))
        self.assert_failed("cannot listen on tcp:0: port must be 0-65535.")

    def test_absent_default(self) -> None:
        """A machine without IPv6 is served without it, if nobody asked for it."""
        absent = CannotListenError("::1", 1, OSError(errno.EADDRNOTAVAIL, "Cannot assign"))
        self.start(self.listener(), evolve(self.listener(result=absent), is_default=True))
        self.assertEqual(self.process.heard, ["start", "ready"])
        self.assertIn("info: not on tcp:0: there is no such address", self.messages)

    def test_absent_but_wanted(self) -> None:
        """An address that was asked for has to be there."""
        absent = CannotListenError("::1", 1, OSError(errno.EADDRNOTAVAIL, "Cannot assign"))
        self.start(self.listener(result=absent))
        self.assert_failed("cannot listen on tcp:0: Cannot assign")

    def test_default_is_taken(self) -> None:
        """A default address that somebody else uses is an error, too."""
        taken = CannotListenError("::1", 1, OSError(errno.EADDRINUSE, "Address already in use"))
        self.start(evolve(self.listener(result=taken), is_default=True))
        self.assert_failed("cannot listen on tcp:0: Address already in use")

    def test_deaf(self) -> None:
        """A broker that listens nowhere does not start."""
        absent = CannotListenError("::1", 1, OSError(errno.EAFNOSUPPORT, "Not supported"))
        self.start(evolve(self.listener(result=absent), is_default=True))
        self.assert_failed("there is nothing to listen on")

    def test_defect(self) -> None:
        """A defect in a plugin is one line for the operator, and a traceback in the log."""
        self.store.opening = lambda: fail(ZeroDivisionError("by\nzero"))
        self.start()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(
            self.process.heard, ["start", "fail: cannot start (see the log): ZeroDivisionError: by zero"]
        )


class StopTests(ServiceTestCase):
    def test_order(self) -> None:
        """First nobody new, then the answers that are due, then the offsets, then the log."""
        service = self.started()
        stopped = service.stopService()
        self.assertEqual(self.journal, ["stop listening"])
        self.assertTrue(self.protocol.factories[0].is_draining)
        self.end_drains()
        self.successResultOf(stopped)
        self.assertEqual(self.journal, ["stop listening", "close offsets", "close log"])
        self.assertEqual(self.messages[-2:], ["info: stopping", "info: stopped"])
        self.assertEqual(self.process.heard, ["start", "ready"])

    def test_operators_last(self) -> None:
        """What operators look at stays open while clients are waited for, and is waited for a moment, too."""
        service = self.started(self.listener("http"), self.listener("echo"))
        http, echo = self.protocol.factories
        http.closes_last = True
        stopped = service.stopService()
        self.assertEqual(self.journal, ["stop listening"])
        self.assertEqual((echo.is_draining, http.is_draining), (True, False))
        echo.drained.callback(None)
        self.assertEqual(self.journal, ["stop listening"] * 2)
        self.assertTrue(http.is_draining)
        self.assertNoResult(stopped)
        self.clock.advance(LAST_SECONDS_MAX)
        self.successResultOf(stopped)

    def test_health(self) -> None:
        """It is known whether it starts, is ready, or stops."""
        listening = Deferred[Any]()
        service = self.start(self.listener(result=listening))
        health = self.protocol.factories[0].listener.monitoring.health
        self.assertEqual(health.stage, Stage.STARTING)
        listening.callback(EndpointDouble(self.journal))
        self.assertEqual(health.stage, Stage.READY)
        service.stopService()
        self.assertEqual(health.stage, Stage.STOPPING)

    def test_reactor_is_measured(self) -> None:
        """From when it is ready until it stops, it is known how late timers are."""
        self.started()
        metrics = self.protocol.factories[0].listener.monitoring.metrics
        self.clock.advance(1.75)
        self.assertIn(b"rustlog_reactor_lag_seconds_sum 0.75", metrics.text())

    def test_nothing_is_left(self) -> None:
        """No timer is left behind, and the workers are gone."""
        service = self.started()
        stopped = service.stopService()
        self.end_drains()
        self.successResultOf(stopped)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.failureResultOf(self.environment.workers.run(lambda: None))

    def test_drain_takes_too_long(self) -> None:
        """Clients that do not take their answers are waited for only so long."""
        service = self.started()
        stopped = service.stopService()
        self.clock.advance(STOP_SECONDS_MAX - 0.1)
        self.assertNoResult(stopped)
        self.clock.advance(0.1)
        self.successResultOf(stopped)
        self.assertEqual(self.journal[-1], "close log")

    def test_hurry(self) -> None:
        """A second signal ends the wait for clients; the log is closed in any case."""
        service = self.started()
        closing = Deferred[None]()
        self.store.closing = lambda: closing
        stopped = service.stopService()
        service.hurry()
        self.assertEqual(self.journal, ["stop listening", "close offsets", "close log"])
        service.hurry()
        self.assertNoResult(stopped)
        closing.callback(None)
        self.successResultOf(stopped)

    def test_while_opening(self) -> None:
        """Stopped while a store opens, it waits for that, closes it, and never listens."""
        opening = Deferred[Any]()
        self.store.opening = lambda: opening
        service = self.start()
        stopped = service.stopService()
        self.assertNoResult(stopped)
        opening.callback(self.store)
        self.successResultOf(stopped)
        self.assertEqual(self.journal, ["open log", "close log"])
        self.assertEqual(self.process.heard, ["start"])

    def test_while_opening_offsets(self) -> None:
        """The same while the second store opens."""
        opening = Deferred[Any]()
        self.offsets.opening = lambda: opening
        stopped = self.start().stopService()
        opening.callback(self.offsets)
        self.successResultOf(stopped)
        self.assertEqual(self.journal[2:], ["close offsets", "close log"])

    def test_while_beginning_to_listen(self) -> None:
        """The same while a listener is being made; it is closed again."""
        listening = Deferred[Any]()
        first = self.listener(result=listening)
        stopped = self.start(first, self.listener()).stopService()
        listening.callback(first.endpoint)
        self.end_drains()
        self.successResultOf(stopped)
        self.assertEqual(self.journal[2:], ["listen", "stop listening", "close offsets", "close log"])

    def test_hurry_while_opening(self) -> None:
        """A store that takes for ever to open does not keep the process, if it is in a hurry."""
        self.store.opening = Deferred
        service = self.start()
        stopped = service.stopService()
        service.hurry()
        self.successResultOf(stopped)

    def test_opening_takes_too_long(self) -> None:
        """Nor does it keep the process for ever otherwise; and it is not listened to any more."""
        opening = Deferred[Any]()
        self.store.opening = lambda: opening
        stopped = self.start().stopService()
        self.clock.advance(STOP_SECONDS_MAX)
        self.successResultOf(stopped)
        opening.callback(self.store)
        self.assertEqual(self.journal, ["open log"])

    def test_workers_take_too_long(self) -> None:
        """Nor does a worker that is still at it, once the stores are closed."""
        self.patch(InlineWorkers, "close", lambda workers: Deferred())
        service = self.started()
        stopped = service.stopService()
        self.end_drains()
        self.assertEqual(self.journal[-1], "close log")
        self.assertNoResult(stopped)
        self.clock.advance(STOP_SECONDS_MAX)
        self.successResultOf(stopped)

    def test_before_it_begins(self) -> None:
        """Stopped before the reactor runs, it never begins."""
        self.process.is_running = False
        service = self.start()
        self.assertEqual(self.journal, [])
        self.successResultOf(service.stopService())
        self.process.begin()
        self.assertEqual(self.journal, [])

    def test_never_started(self) -> None:
        """What was never started stops at once."""
        service = BrokerService(self.config, self.environment, self.process)
        self.successResultOf(service.stopService())

    def test_failing_steps(self) -> None:
        """A step that fails is told, and does not keep the others from their turn."""
        self.offsets.closing = lambda: fail(OSError(errno.EIO, "Input/output error"))
        self.store.closing = lambda: fail(ValueError("odd"))
        service = self.started(self.listener(closing=lambda: fail(ValueError("still open"))))
        self.protocol.factories[0].drained.errback(ValueError("still there"))
        self.successResultOf(service.stopService())
        self.assertEqual(len(self.flushLoggedErrors()), 4)
        self.assertEqual(
            self.process.heard[2:],
            [
                "fail: cannot stop listening: echo on 127.0.0.1:4711: still open",
                "fail: cannot drain echo on 127.0.0.1:4711: still there",
                "fail: cannot close the offset store offsets: Input/output error",
                "fail: cannot close the log store log: odd",
            ],
        )


class MaintenanceTests(ServiceTestCase):
    INTERVAL_SECONDS = BrokerConfig().retention_check_interval_ms / 1000

    def setUp(self) -> None:
        super().setUp()
        self.maintenance = Maintenance({"the store": lambda: self.store.maintain()}, self.clock)
        self.maintenance.start(1000)

    def test_service(self) -> None:
        """A broker that listens looks after its store as often as it was told to."""
        self.started()
        self.clock.advance(self.INTERVAL_SECONDS)
        self.assertIn("maintain", self.journal)

    def test_old_offsets(self) -> None:
        """It also forgets offsets that were committed too long ago."""
        offsets = self.offsets_of_a_group()
        self.started()
        self.clock.advance(BrokerConfig().offsets_retention_minutes * 60 + self.INTERVAL_SECONDS)
        self.assertEqual(self.successResultOf(offsets.groups()), ())

    def test_offsets_of_members(self) -> None:
        """Not those of groups that have members, says their coordinator."""
        offsets = self.offsets_of_a_group()
        self.patch(GroupCoordinator, "is_active", lambda coordinator, name: name == "g")
        self.started()
        self.clock.advance(BrokerConfig().offsets_retention_minutes * 60 + self.INTERVAL_SECONDS)
        self.assertEqual(self.successResultOf(offsets.groups()), ("g",))

    def test_offsets_of_deleted_topics(self) -> None:
        """Offsets in topics that are gone are forgotten before anybody listens, if topics last at all."""
        for is_durable in (False, True):
            offsets = self.offsets_of_a_group()
            self.store.limits = StoreLimits(durable=is_durable)
            self.start()
            self.assertEqual(self.successResultOf(offsets.groups()), () if is_durable else ("g",))

    def offsets_of_a_group(self) -> MemoryOffsets:
        """A store in which something is committed."""
        offsets = MemoryOffsets()
        committed = Committed(5, commit_time=self.environment.wall.now_ms())
        self.successResultOf(offsets.commit("g", {TopicPartition("gone", 0): committed}))
        self.offsets.opening = lambda: offsets
        self.store.limits = StoreLimits(durable=False)
        return offsets

    def test_from_time_to_time(self) -> None:
        """Once per interval, not before its end."""
        self.clock.advance(0.9)
        self.assertEqual(self.journal, [])
        self.clock.pump([0.1, 0.5, 0.5])
        self.assertEqual(self.journal, ["maintain"] * 2)

    def test_more_to_do(self) -> None:
        """While there is more to do it goes on, but the reactor has its turn in between."""
        self.store.maintenance = [True, True, False]
        self.clock.advance(1)
        self.assertEqual(self.journal, ["maintain"])
        self.clock.advance(PAUSE_SECONDS)
        self.assertEqual(self.journal, ["maintain"] * 2)
        self.clock.pump([PAUSE_SECONDS] * 3)
        self.assertEqual(self.journal, ["maintain"] * 3)

    def test_no_overlap(self) -> None:
        """A step that takes longer than the interval is not overtaken by the next."""
        step = Deferred[bool]()
        self.store.maintenance = [step]
        self.clock.pump([1, 1, 1])
        self.assertEqual(self.journal, ["maintain"])
        step.callback(False)
        self.clock.advance(1)
        self.assertEqual(self.journal, ["maintain"] * 2)

    def test_failure(self) -> None:
        """A failure is logged, and tried again next time."""
        self.store.maintenance = [fail(OSError("disk"))]
        self.clock.advance(1)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.clock.advance(1)
        self.assertEqual(self.journal, ["maintain"] * 2)

    def test_raises(self) -> None:
        """So is what a store raises instead."""

        def defect(store: StoreDouble) -> Deferred[bool]:
            raise ZeroDivisionError

        self.patch(StoreDouble, "maintain", defect)
        self.clock.pump([1, 1])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    def test_stop(self) -> None:
        """A stop waits for the step that is under way, and begins no other."""
        step = Deferred[bool]()
        self.store.maintenance = [step]
        self.clock.advance(1)
        stopped = self.maintenance.stop()
        self.assertNoResult(stopped)
        step.callback(True)
        self.clock.advance(PAUSE_SECONDS)
        self.successResultOf(stopped)
        self.clock.advance(5)
        self.assertEqual(self.journal, ["maintain"])

    def test_stop_between_steps(self) -> None:
        """A stop between two steps does not wait for those that are left."""
        self.store.maintenance = [True, True, True]
        self.clock.advance(1)
        stopped = self.maintenance.stop()
        self.clock.advance(PAUSE_SECONDS)
        self.successResultOf(stopped)
        self.assertEqual(self.journal, ["maintain"])

    def test_store_is_closed_after(self) -> None:
        """The store is not closed under the hands of those who look after it."""
        service = self.started()
        step = Deferred[bool]()
        self.store.maintenance = [step]
        self.successResultOf(self.maintenance.stop())
        self.clock.advance(self.INTERVAL_SECONDS)
        stopped = service.stopService()
        self.end_drains()
        self.assertEqual(self.journal, ["maintain", "stop listening"])
        step.callback(False)
        self.successResultOf(stopped)


class PatienceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.patience = Patience(self.clock)

    def test_done(self) -> None:
        """Work that is done in time is waited for, and the timer goes with it."""
        work = Deferred[None]()
        waited = self.patience.wait_for(work, 5)
        self.assertNoResult(waited)
        work.callback(None)
        self.successResultOf(waited)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_late(self) -> None:
        """Work that is done too late disturbs nobody."""
        work = Deferred[None]()
        waited = self.patience.wait_for(work, 5)
        self.clock.advance(5)
        self.successResultOf(waited)
        work.callback(None)

    def test_lost(self) -> None:
        """Once patience is lost, nothing is waited for, then and later."""
        waited = self.patience.wait_for(Deferred(), 5)
        self.patience.lose()
        self.successResultOf(waited)
        self.successResultOf(self.patience.wait_for(Deferred(), 5))
        self.assertEqual(self.clock.getDelayedCalls(), [])


class WordsTests(SynchronousTestCase):
    def test_addresses(self) -> None:
        """Addresses look as people write them."""
        for address, text in (
            (HERE, "127.0.0.1:4711"),
            (IPv6Address("TCP", "::1", 9), "[::1]:9"),
            (UNIXAddress(b"/run/rustlog"), "unix:/run/rustlog"),
            (UNIXAddress(None), "unix:"),
        ):
            self.assertEqual(address_text(address), text)

    def test_other_address(self) -> None:
        """An address of an unknown kind looks as it likes."""

        class Pigeon:
            def __str__(self) -> str:
                return "the dovecote"

        self.assertEqual(address_text(Pigeon()), "the dovecote")  # type: ignore[arg-type]

    def test_one_line(self) -> None:
        """A reason has one line, whatever it had before."""
        self.assertEqual(one_line(ValueError(" a\n  b\tc ")), "a b c")

    def test_reason(self) -> None:
        """A reason is what the system says, or else the error, or else its name."""
        self.assertEqual(reason(OSError(errno.EIO, "Input/output error", "/x")), "Input/output error")
        self.assertEqual(reason(ValueError("odd")), "odd")
        self.assertEqual(reason(KeyboardInterrupt()), "KeyboardInterrupt")


