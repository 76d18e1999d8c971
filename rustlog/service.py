"""
L{BrokerService}: a broker's life.

It opens the stores, and only then listens; when it stops, it first stops listening, lets
clients have the answers that are due, and closes the stores last.  Whatever goes wrong on
the way up ends the process with one line: a daemon that is deaf, or has no log, helps nobody.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol

from attrs import define, evolve, field, frozen
from twisted.application.service import Service
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred, DeferredList, inlineCallbacks, maybeDeferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IAddress, IListeningPort, IReactorTime
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from rustlog import __version__
from rustlog.broker import Broker
from rustlog.config import DaemonConfig, ListenerConfig
from rustlog.environment import Environment
from rustlog.errors import StartupError
from rustlog.groups.coordinator import GroupCoordinator
from rustlog.groups.values import GroupLimits
from rustlog.interfaces import IDrainableFactory, ILogStore, IOffsetStore
from rustlog.monitoring import Monitoring
from rustlog.observability.groups import GroupCounters
from rustlog.observability.health import Health, Stage
from rustlog.observability.lateness import Lateness
from rustlog.observability.metrics import Metrics
from rustlog.observability.requests import RequestLog
from rustlog.offsets.expiry import Expiry
from rustlog.wire.listener import Capacity, Listener, Places

STOP_SECONDS_MAX = 8
"""
How long a stop waits for others: for a store that is being opened, or for clients to take their
answers, if their protocol does not lose patience before.  Service managers grant more than this.
"""

LAST_SECONDS_MAX = 1
"""How long it waits, after that, for operators to take theirs."""

PAUSE_SECONDS = 0.01
"""Between two steps of looking after a store: clients have their turn."""

Steps = Generator["Deferred[Any]", Any, None]


class ProcessControl(Protocol):
    """Who hears how it goes; L{rustlog.environment.process.Process} in real life."""

    def start(self, begin: Callable[[], object]) -> None: ...

    def ready(self) -> None: ...

    def fail(self, reason: str) -> None: ...


@frozen(eq=False)
class Door:
    """A listener that listens; C{name} tells who, and where."""

    name: str
    factory: IDrainableFactory
    port: IListeningPort

    @property
    def closes_last(self) -> bool:
        """Whether it is of use to operators while clients are waited for."""
        return getattr(self.factory, "closes_last", False)


class BrokerService(Service):
    """Joins the parts to a broker; starts once, and ends once."""

    _log = Logger()

    def __init__(self, config: DaemonConfig, environment: Environment, process: ProcessControl) -> None:
        self._config = config
        self._metrics = Metrics()
        self._health = Health()
        self._environment = evolve(environment, observer=self._metrics)
        self._process = process
        self._capacity = self._make_capacity()
        self._places = Places()
        self._lateness = Lateness(environment.clock, self._metrics.reactor_lag.observe)
        self._patience = Patience(environment.clock)
        self._starting: Deferred[None] = succeed(None)
        self._stopping = False
        self._stores: list[tuple[str, ILogStore | IOffsetStore]] = []
        self._doors: list[Door] = []
        self._maintenance: Maintenance | None = None
        self._coordinator: GroupCoordinator | None = None

    # -- start --

    def startService(self) -> None:
        """Open, and then listen; C{process} hears C{ready} or C{fail} in the end."""
        super().startService()
        self._process.start(self._begin)

    def _begin(self) -> None:
        if not self._stopping:
            self._starting = self._start()

    @inlineCallbacks
    def _start(self) -> Steps:
        try:
            yield self._open()
        except StartupError as error:
            self._log.critical("cannot start: {reason}", reason=one_line(error))
            self._process.fail(one_line(error))
        except Exception as error:
            # A defect, ours or a plugin's: that must not leave a deaf daemon behind, either.
            self._log.failure("cannot start")
            self._process.fail(f"cannot start (see the log): {type(error).__name__}: {one_line(error)}")

    @inlineCallbacks
    def _open(self) -> Steps:
        self._log.info("rustlog {version} starts", version=__version__)
        # For its effect: connections need handles as much as files do.
        self._environment.files.handles_max()
        config = self._config
        log_store = yield self._open_store("log store", config.storage, config.storage_settings)
        if self._is_stopping():
            return
        offsets = yield self._open_store("offset store", config.offsets, config.offsets_settings, log_store)
        if self._is_stopping():
            return
        expiry = self._make_expiry(log_store, offsets)
        if log_store.limits.durable:  # Otherwise all topics are gone, and will be made again.
            yield expiry.forget_orphans()
        if self._is_stopping():
            return
        yield self._listen(self._make_broker(log_store, offsets))
        if self._is_stopping():
            return
        tasks = {"the store": log_store.maintain, "the offsets": expiry.step}
        self._maintenance = Maintenance(tasks, self._environment.clock)
        self._maintenance.start(config.broker.retention_check_interval_ms)
        self._lateness.start()
        self._health.stage = Stage.READY
        self._log.info("ready: {listening}", listening=", ".join(door.name for door in self._doors))
        self._process.ready()

    @inlineCallbacks
    def _open_store(
        self, kind: str, plugin: Any, settings: Any, *more: object
    ) -> Generator[Deferred[Any], Any, Any]:
        what = f"{kind} {plugin.name}"
        place = f" in {settings.data_dir}" if hasattr(settings, "data_dir") else ""
        self._log.info("opening the {what}{place}", what=what, place=place)
        try:
            store = yield maybeDeferred(plugin.open, settings, self._environment, *more)
        except OSError as error:
            raise StartupError(f"cannot open the {what}: {error}") from error
        self._stores.append((what, store))
        return store

    def _make_capacity(self) -> Capacity:
        capacity = Capacity(self._config.broker, self._environment.clock)
        self._metrics.watch_transit("in", lambda: capacity.budget.requests.used)
        self._metrics.watch_transit("out", lambda: capacity.budget.answers.used)
        return capacity

    def _make_broker(self, log_store: ILogStore, offsets: IOffsetStore) -> Broker:
        self._coordinator = self._make_coordinator(offsets)
        return Broker(
            log_store,
            offsets,
            self._environment.clock,
            self._environment.wall,
            topic_defaults=self._config.topic_defaults,
            config=self._config.broker,
            default_partitions=self._config.partitions,
            traffic=self._metrics.traffic,
            coordinator=self._coordinator,
        )

    def _make_coordinator(self, offsets: IOffsetStore) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            offsets,
            self._environment.clock,
            self._environment.random,
            GroupLimits.of(self._config.broker),
            count=GroupCounters(self._metrics),
        )
        # Nobody waits for that: groups are served meanwhile, too.
        coordinator.start().addErrback(self._not_taken_over)
        return coordinator

    def _make_expiry(self, log_store: ILogStore, offsets: IOffsetStore) -> Expiry:
        def is_active(group: str) -> bool:
            return self._coordinator is not None and self._coordinator.is_active(group)

        def forget_group(group: str) -> Deferred[None]:
            return succeed(None) if self._coordinator is None else self._coordinator.forget_unused(group)

        minutes = self._config.broker.offsets_retention_minutes
        wall = self._environment.wall
        return Expiry(offsets, log_store.catalog, wall, minutes, is_active, forget_group)

    def _not_taken_over(self, failure: Failure) -> None:
        self._log.failure("members of groups that are gone are not noticed", failure)

    @inlineCallbacks
    def _listen(self, broker: Broker) -> Steps:
        monitoring = Monitoring(broker, self._environment.clock, self._metrics, self._health)
        for each in self._config.listeners:
            factory = each.protocol.factory(self._make_listener(each, broker, monitoring))
            try:
                port = yield each.endpoint.listen(factory)
            except Exception as error:
                # Endpoints are plugins that refuse in many ways: CannotListenError, OSError,
                # OverflowError for a port above 65535.
                if each.is_default and is_absent(error):
                    self._log.info("not on {endpoint}: there is no such address", endpoint=each.description)
                    continue
                raise StartupError(f"cannot listen on {each.description}: {reason(error)}") from error
            self._log.info(
                "Starting rustlog server on {address} ({listener})",
                address=address_text(port.getHost()),
                listener=each.name,
            )
            self._places.add(each.protocol.name, port.getHost(), each.advertised)
            who = each.name if each.name == each.protocol.name else f"{each.name} ({each.protocol.name})"
            self._doors.append(Door(f"{who} on {address_text(port.getHost())}", factory, port))
            if self._is_stopping():
                return
        if not self._doors:
            raise StartupError("there is nothing to listen on")

    def _make_listener(self, config: ListenerConfig, broker: Broker, monitoring: Monitoring) -> Listener:
        return Listener(
            name=config.name,
            broker=broker,
            config=self._config.broker,
            capacity=self._capacity,
            clock=self._environment.clock,
            wall=self._environment.wall,
            requests=RequestLog(is_wanted=self._config.log.level == "debug"),
            settings=config.settings,
            advertised=config.advertised,
            protocol=config.protocol.name,
            places=self._places,
            monitoring=monitoring,
        )

    def _is_stopping(self) -> bool:
        """Whether the stop was asked for while something was being opened; it waits for the start to end."""
        return self._stopping

    # -- stop --

    def stopService(self) -> Deferred[None]:
        """Drain, sync, close; fires when all of it is done."""
        super().stopService()
        self._stopping = True
        self._health.stage = Stage.STOPPING
        return self._attempt("stop in order", self._stop)

    def hurry(self) -> None:
        """Do not wait for clients any more; what was acknowledged is kept all the same."""
        self._log.info("hurrying: clients are not waited for")
        self._patience.lose()

    @inlineCallbacks
    def _stop(self) -> Steps:
        self._log.info("stopping")
        # A store that takes longer to open than this is left as if the process had died: it has
        # acknowledged nothing.
        yield self._patience.wait_for(self._starting, STOP_SECONDS_MAX)
        clients = [door for door in self._doors if not door.closes_last]
        operators = [door for door in self._doors if door.closes_last]
        yield self._stop_listening(clients)
        if self._coordinator is not None:
            # Those who wait for other members would be waited for.
            self._coordinator.stop()
        if self._maintenance is not None:
            yield self._maintenance.stop()
        yield self._drain(clients, STOP_SECONDS_MAX)
        yield self._stop_listening(operators)
        yield self._drain(operators, LAST_SECONDS_MAX)
        self._lateness.stop()
        # The offset store first: it may keep its offsets in the log store.
        for what, store in reversed(self._stores):
            yield self._attempt(f"close the {what}", store.close)
        # All stores that were opened are closed: what a worker still does is to open one in vain.
        ended = self._attempt("end the workers", self._environment.workers.close)
        yield self._patience.wait_for(ended, STOP_SECONDS_MAX)
        self._log.info("stopped")

    @inlineCallbacks
    def _stop_listening(self, doors: list[Door]) -> Steps:
        for door in doors:
            yield self._attempt(f"stop listening: {door.name}", door.port.stopListening)

    def _drain(self, doors: list[Door], seconds_max: float) -> Deferred[None]:
        drained = [self._attempt(f"drain {door.name}", door.factory.drain) for door in doors]
        return self._patience.wait_for(DeferredList(drained), seconds_max)

    @inlineCallbacks
    def _attempt(self, what: str, function: Callable[[], Any]) -> Steps:
        """A step of the stop: when it fails, the others follow all the same, but it is not hushed up."""
        try:
            yield maybeDeferred(function)
        except Exception as error:
            self._log.failure("cannot {what}", what=what)
            self._process.fail(f"cannot {what}: {reason(error)}")


@define(eq=False)
class Patience:
    """For how long a stop waits for others."""

    _clock: IReactorTime
    _is_lost: bool = field(default=False, init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)

    def wait_for(self, work: Deferred[Any], seconds_max: float) -> Deferred[None]:
        """Fires when C{work} is done, or time is up, or patience is lost.  C{work} never fails."""
        done: Deferred[None] = Deferred()
        work.addCallback(lambda _: self._finish(done))
        if self._is_lost:
            self._finish(done)
        elif not done.called:
            self._waiting.append(done)
            timer = self._clock.callLater(seconds_max, self._finish, done)
            done.addCallback(lambda _: timer.cancel() if timer.active() else None)
        return done

    def lose(self) -> None:
        """Nobody is waited for any more."""
        self._is_lost = True
        for each in list(self._waiting):
            self._finish(each)

    def _finish(self, done: Deferred[None]) -> None:
        if done in self._waiting:
            self._waiting.remove(done)
        if not done.called:
            done.callback(None)


@define(eq=False)
class Maintenance:
    """
    Looks after something from time to time: in bounded steps, so that clients are served in between.  A
    step fires with whether there is more to do.
    """

    _tasks: Mapping[str, Callable[[], Deferred[bool]]]
    _clock: IReactorTime
    _loop: LoopingCall = field(init=False)
    _ended: Deferred[Any] = field(init=False)
    _stopping: bool = field(default=False, init=False)

    _log = Logger()

    def start(self, interval_ms: int) -> None:
        """Look after it every so often."""
        self._loop = LoopingCall(self._look_after)
        self._loop.clock = self._clock
        self._ended = self._loop.start(interval_ms / 1000, now=False)

    def stop(self) -> Deferred[Any]:
        """Fires once no step is under way."""
        self._stopping = True
        self._loop.stop()
        return self._ended

    @inlineCallbacks
    def _look_after(self) -> Steps:
        for what, step in self._tasks.items():
            try:
                while not self._stopping and (yield step()):
                    yield deferLater(self._clock, PAUSE_SECONDS)
            except Exception:
                # Whatever it was, it may have passed by the next time; the log must not grow for ever.
                self._log.failure("{what} could not be looked after; trying again later", what=what)


# -- words -------------------------------------------------------------------------


def one_line(error: BaseException) -> str:
    """What it says, without line breaks."""
    return " ".join(str(error).split())


def is_absent(error: BaseException) -> bool:
    """Whether an endpoint was refused because the machine has no such address."""
    if not isinstance(error, CannotListenError):
        return False
    number = getattr(error.socketError, "errno", None)
    return number in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def reason(error: BaseException) -> str:
    """Why something was refused, in the words of the system where there are some."""
    cause = error.socketError if isinstance(error, CannotListenError) else error
    return getattr(cause, "strerror", None) or one_line(cause) or type(cause).__name__


def address_text(address: IAddress) -> str:
    """C{address} as people write it."""
    if isinstance(address, IPv4Address):
        return f"{address.host}:{address.port}"
    if isinstance(address, IPv6Address):
        return f"[{address.host}]:{address.port}"
    if isinstance(address, UNIXAddress):
        return f"unix:{address.name.decode(errors='replace') if address.name else ''}"
    return str(address)
