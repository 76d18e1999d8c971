"""
C{twistd rustlog}: its options, and the service that they make.

The same works as C{twist rustlog} and C{python -m twisted rustlog}.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any, cast

from twisted.application.service import IService, MultiService
from twisted.logger import ILogObserver, LogLevel
from twisted.python import usage
from twisted.python.components import Componentized
from twisted.python.logfile import LogFile

from rustlog import __version__
from rustlog.config import DEFAULTS, DaemonConfig, own_settings, read
from rustlog.environment.memory import keep_freed_memory
from rustlog.environment.process import Process, ReactorControl
from rustlog.environment.real import real_environment
from rustlog.errors import StartupError
from rustlog.interfaces import ILogStoreFactory, IOffsetStoreFactory, IWireProtocol
from rustlog.observability.logs import LEVELS, LogConfig, make_observer
from rustlog.plugins import installed
from rustlog.service import BrokerService
from rustlog.settings import BrokerConfig, TopicConfig, vocabulary

_EXAMPLES = """\
Examples:
  twistd -n rustlog
  twistd -n rustlog --data-dir=/var/lib/rustlog --sync=250
  twistd -n rustlog --storage=memory --listen=rustlog=tcp:9191:interface=127.0.0.1
  twistd -n rustlog --set=retention.ms=86400000 --set=segment.bytes=67108864
"""


class Options(usage.Options):
    """
    What can be said on the command line.

    @ivar config: all of it, judged; after parsing.
    """

    config: DaemonConfig
    synopsis = "[options]"
    longdesc = f"rustlog {__version__}: a log broker with topics, partitions and consumer groups."

    optParameters = [
        ["storage", None, None, f"The log store. [default: {DEFAULTS['storage']}]"],
        ["offsets", None, None, f"The store of the groups' offsets. [default: {DEFAULTS['offsets']}]"],
        ["data-dir", None, None, f"Where stores keep their files. [default: {DEFAULTS['data-dir']}]"],
        ["partitions", None, None, "Of topics that are created without a number. [default: 1]"],
        [
            "sync",
            None,
            None,
            (
                "What an acknowledgement means: always (it is on disk), a number (it will be in so many "
                "milliseconds) or never (when the kernel likes). [default: always]"
            ),
        ],
        ["config", None, None, "A TOML file that says the same as these options, which win over it."],
        ["log-format", None, None, "text or json. [default: text]"],
        ["log-level", None, None, f"One of {', '.join(LEVELS)}. [default: info]"],
    ]
    compData = usage.Completions(
        optActions={
            "data-dir": usage.CompleteDirs(),
            "config": usage.CompleteFiles("*.toml"),
            "log-format": usage.CompleteList(["text", "json"]),
            "log-level": usage.CompleteList(list(LEVELS)),
        }
    )

    def __init__(self) -> None:
        super().__init__()
        self["listen"] = []
        self["advertise"] = []
        self["set"] = {}

    def opt_listen(self, value: str) -> None:
        """[NAME/]PROTOCOL=ENDPOINT, opened instead of the defaults.  May be repeated."""
        self["listen"].append(value)

    def opt_advertise(self, value: str) -> None:
        """[NAME=]HOST:PORT that clients are told to connect to, if not where they did.  May be repeated."""
        self["advertise"].append(value)

    def opt_set(self, value: str) -> None:
        """KEY=VALUE, a setting (see below) of the broker, of all topics or of a store.  May be repeated."""
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise usage.UsageError(f"set: {value!r} is not of the form KEY=VALUE")
        self["set"][key] = text

    def parseArgs(self, *arguments: str) -> None:
        """There are none; the base class would say "Wrong number of arguments"."""
        if arguments:
            raise usage.UsageError(f"unexpected argument {arguments[0]!r}")

    def opt_version(self) -> None:
        """Display the version and exit."""
        sys.stdout.write(f"rustlog {__version__}\n")
        sys.exit(0)

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """
        Parse and judge.  What is wrong is said in one line, instead of behind two screens of help.
        """
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            raise SystemExit(f"rustlog: {' '.join(str(error).split())} (see --help)") from error

    def postOptions(self) -> None:
        """Judge; and tell C{twist}, which asks before it makes a service, how to log."""
        from twisted.internet import reactor

        given = {name: self[name] for name in DEFAULTS if self[name] not in (None, [], {})}
        runner = runner_options(self)
        if not _is_twist(runner):
            self.config = read(given, reactor, self["config"])
            return
        twist_says = {"log-format": runner["logFormat"], "log-level": runner["logLevel"].name}
        self.config = read(given, reactor, self["config"], {**DEFAULTS, **twist_says})
        runner["logLevel"] = LogLevel.levelWithName(self.config.log.level)
        runner["fileLogObserverFactory"] = lambda stream: make_observer(self.config.log, stream)

    def getUsage(self, width: int | None = None) -> str:
        """All help, with what is installed here."""
        return "\n".join(
            [
                super().getUsage(width),
                _section("Log stores (--storage):", _plugins(ILogStoreFactory)),
                _section("Offset stores (--offsets):", _plugins(IOffsetStoreFactory)),
                _section("Protocols (--listen), and where they listen by default:", _protocols()),
                _section("Settings of topics (--set):", _settings(TopicConfig)),
                _section("Settings of the broker (--set):", _settings(BrokerConfig)),
                _EXAMPLES,
            ]
        )


def makeService(options: Options) -> IService:
    """What C{twistd} and C{twist} call."""
    from twisted.internet import reactor

    runner = runner_options(options)
    keep_freed_memory()
    process = Process(cast(ReactorControl, reactor), runner)
    broker = BrokerService(options.config, real_environment(reactor), process)
    process.on_stop_signals(broker.hurry)
    service = LoggedService(None if _is_twist(runner) else _observer(options.config.log, runner, process))
    broker.setServiceParent(service)
    return service


# -- what runs us ------------------------------------------------------------------


def runner_options(options: Options) -> dict[str, Any]:
    """The options of C{twistd} or C{twist} itself; none, when options were made otherwise."""
    parent: dict[str, Any] | None = getattr(options, "parent", None)
    return {} if parent is None else parent


def _is_twist(runner: Mapping[str, Any]) -> bool:
    return "fileLogObserverFactory" in runner


class LoggedService(MultiService):
    """A service that brings its own log observer, where its parent is an application without one."""

    def __init__(self, observer: ILogObserver | None) -> None:
        super().__init__()
        self._observer = observer

    def setServiceParent(self, parent: Any) -> None:
        """C{twistd} looks for an observer among the components of the application."""
        super().setServiceParent(parent)
        if self._observer is not None and isinstance(parent, Componentized):
            parent.setComponent(ILogObserver, self._observer)


def _observer(config: LogConfig, twistd: Mapping[str, Any], process: Process) -> ILogObserver | None:
    """
    Write to where C{twistd} would write, in our format.

    @return: C{None} for what is C{twistd}'s own business: C{--syslog}, and a daemon that
        is to log to the terminal, which it refuses.
    """
    is_daemon = not (twistd.get("nodaemon") or twistd.get("debug"))
    name = twistd.get("logfile") or ("twistd.log" if is_daemon else "-")
    if twistd.get("syslog") or (is_daemon and name == "-"):
        return None
    if name == "-":
        return make_observer(config, sys.stdout)
    try:
        file = LogFile.fromFullPath(name)
    except OSError as error:
        raise SystemExit(f"rustlog: cannot write the log file {name}: {error.strerror}") from error
    process.on_rotate_signal(file.rotate)
    return make_observer(config, file)


# -- help --------------------------------------------------------------------------

_Row = tuple[str, str]


def _section(title: str, rows: Iterable[_Row]) -> str:
    return "\n".join([title, *(_row(*each) for each in rows), ""])


def _row(name: str, text: str) -> str:
    return fill(f"{name}  {text}", 80, initial_indent="  ", subsequent_indent="        ")


def _plugins(interface: type[Any]) -> Iterator[_Row]:
    """Stores, and what can be set for each."""
    for plugin in installed(interface):
        yield plugin.name, plugin.description
        yield from _own_settings(plugin)


def _protocols() -> Iterator[_Row]:
    for plugin in installed(IWireProtocol):
        places = ", ".join(plugin.default_endpoints) or "nowhere"
        yield plugin.name, f"{plugin.description} [default: {places}]"
        yield from _own_settings(plugin)


def _own_settings(plugin: Any) -> Iterator[_Row]:
    try:
        own = own_settings(plugin.settings_class())
    except StartupError as error:
        yield plugin.name, f"({error})"
        return
    for key, field in own.items():
        default = f"[default: {field.default}]" if isinstance(field.default, (str, int, float)) else ""
        yield f"{plugin.name}.{key}", f"(--set) {field.metadata.get('doc', '')} {default}"


def _settings(config_class: type[Any]) -> Iterator[_Row]:
    for each in vocabulary(config_class):
        choices = f" One of {', '.join(each.choices)}." if each.choices else ""
        yield each.name, f"{each.doc}{choices} [default: {each.default}]"
