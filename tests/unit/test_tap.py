"""Tests of L{rustlog.tap}."""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path
from typing import Any

from twisted.application.runner._runner import Runner
from twisted.application.service import Application, IService, IServiceMaker, MultiService, ServiceMaker
from twisted.application.twist._options import TwistOptions
from twisted.internet import reactor
from twisted.logger import ILogObserver, Logger, LogLevel, LogPublisher, textFileLogObserver
from twisted.plugin import getPlugins
from twisted.python.logfile import LogFile
from twisted.scripts._twistd_unix import ServerOptions
from twisted.trial.unittest import SynchronousTestCase

import rustlog
from rustlog.environment.clocks import MonotonicSeconds
from rustlog.observability.logs import LogConfig, LogFormat
from rustlog.service import BrokerService
from rustlog.settings import TopicConfig
from rustlog.tap import LoggedService, Options, makeService, runner_options
from tests.doubles import use_dropins


def parsed(*arguments: str) -> Options:
    """What these arguments say."""
    options = Options()
    options.parseOptions(["--storage=memory", *arguments])
    return options


def under_twistd(*arguments: str, before: tuple[str, ...] = ("-n",)) -> Options:
    """The same, when C{twistd} runs us."""
    server = ServerOptions()
    server.parseOptions([*before, "rustlog", "--storage=memory", *arguments])
    options = server.subOptions
    assert isinstance(options, Options)
    return options


class OptionsTests(SynchronousTestCase):
    def setUp(self) -> None:
        use_dropins(self)

    def test_all(self) -> None:
        """Every option of the documentation says what it says."""
        config = parsed(
            "--offsets=memory",
            "--data-dir=here",
            "--listen=lan/rustlog=tcp:1",
            "--listen=echo=tcp:2",
            "--advertise=lan=host:3",
            "--partitions=4",
            "--sync=250",
            "--set=retention.ms=5",
            "--set=segment.bytes=4096",
            "--log-format=json",
            "--log-level=warn",
        ).config
        self.assertEqual([each.name for each in config.listeners], ["lan", "echo"])
        self.assertEqual(config.listeners[0].advertised, ("host", 3))
        self.assertEqual(config.partitions, 4)
        self.assertEqual(config.topic_defaults, TopicConfig(retention_ms=5, segment_bytes=4096))
        self.assertEqual(config.log, LogConfig(LogFormat.JSON, "warn"))

    def test_store_settings(self) -> None:
        """A store is told where its data is."""
        config = parsed("--storage=picky", "--data-dir=here", "--set=picky.copies=3").config
        settings: Any = config.storage_settings
        self.assertEqual((str(settings.data_dir), settings.copies), ("here", 3))

    def test_file(self) -> None:
        """A file can say it all, and the command line wins."""
        name = self.mktemp()
        Path(name).write_text('storage = "picky"\npartitions = 7\nlog-level = "error"\n')
        options = Options()
        options.parseOptions([f"--config={name}", "--log-level=warn"])
        self.assertEqual(
            (options.config.storage.name, options.config.partitions, options.config.log.level),
            ("picky", 7, "warn"),
        )

    def test_wrong(self) -> None:
        """Whatever is wrong is one line, and ends the process with status 1."""
        for argument, start in (
            ("--storage=tape", "no log store is called 'tape'; installed: "),
            ("--storage=", "storage must be a text, not ''"),
            ("--offsets=tape", "no offset store is called 'tape'; installed: file, memory, topic"),
            ("--listen=gopher=tcp:70", "no wire protocol is called 'gopher'; installed: "),
            ("--listen=rustlog=tin-can:1", "listen: 'tin-can:1' is not a usable endpoint: "),
            ("--advertise=here", "advertise: 'here' is not of the form "),
            ("--partitions=none", "partitions: 'none' is not a number "),
            ("--sync=maybe", "sync: 'maybe' is neither "),
            ("--set=retention.mss=1", "unknown setting 'retention.mss'; did you mean retention.ms?"),
            ("--set=retention.ms", "set: 'retention.ms' is not of the form KEY=VALUE"),
            ("--set==1", "set: '=1' is not of the form KEY=VALUE"),
            ("--config=nowhere.toml", "cannot read the configuration file nowhere.toml: "),
            ("--no-such-option", "option --no-such-option not recognized"),
            ("--sync", "option --sync requires argument"),
            ("surplus", "unexpected argument 'surplus'"),
        ):
            error = self.assertRaises(SystemExit, parsed, argument)
            message = str(error.code)
            self.assertTrue(message.startswith(f"rustlog: {start}"), message)
            self.assertTrue(message.endswith(" (see --help)"), message)
            self.assertNotIn("\n", message)

    def test_version(self) -> None:
        """The version can be asked for."""
        stdout = io.StringIO()
        self.patch(sys, "stdout", stdout)
        error = self.assertRaises(SystemExit, parsed, "--version")
        self.assertEqual((error.code, stdout.getvalue()), (0, f"rustlog {rustlog.__version__}\n"))


class HelpTests(SynchronousTestCase):
    def setUp(self) -> None:
        use_dropins(self)
        self.help = str(Options())

    def test_options(self) -> None:
        """Every option is there."""
        for option in ("storage", "offsets", "data-dir", "listen", "advertise", "partitions", "sync"):
            self.assertIn(f"--{option}=", self.help)
        for option in ("set", "config", "log-format", "log-level"):
            self.assertIn(f"--{option}=", self.help)

    def test_installed(self) -> None:
        """What is installed is described, also that of others."""
        self.assertIn("  segments  Keeps each partition", self.help)
        self.assertIn("  picky  Has many settings.", self.help)
        self.assertIn("  echo  Says what it hears.", self.help)

    def test_settings(self) -> None:
        """Every setting has its sentence and its default."""
        self.assertIn("  segment.bytes  The size at which a new segment is begun. [default: ", self.help)
        self.assertIn("  picky.copies  (--set)  [default: 1]", self.help)

    def test_broken_plugin(self) -> None:
        """A plugin that can not be loaded does not take the help away."""
        self.assertIn("(the plugin 'missing' can not be loaded: ", " ".join(self.help.split()))

    def test_width(self) -> None:
        """It fits a terminal."""
        self.assertLessEqual(max(map(len, self.help.splitlines())), 84)


class ServiceMakerTests(SynchronousTestCase):
    def test_listed(self) -> None:
        """C{twistd} and C{twist} list rustlog."""
        (maker,) = (each for each in getPlugins(IServiceMaker) if each.tapname == "rustlog")
        assert isinstance(maker, ServiceMaker)
        self.assertIs(maker.options, Options)
        self.assertIs(maker.makeService, makeService)


class MakeServiceTests(SynchronousTestCase):
    def setUp(self) -> None:
        # The reactor of the tests keeps its clock and its signals.
        self.patch(reactor, "seconds", reactor.seconds)
        self.when_running: list[Any] = []
        self.patch(reactor, "callWhenRunning", self.when_running.append)
        self.patch(signal, "signal", lambda *arguments: None)

    def observer_of(self, service: IService) -> Any:
        """What C{twistd} finds in the application."""
        application = Application("rustlog")
        service.setServiceParent(application)
        return application.getComponent(ILogObserver)

    def test_service(self) -> None:
        """A service is made of what the options say; nothing is opened yet."""
        service = makeService(under_twistd())
        assert isinstance(service, MultiService)
        (broker,) = service
        assert isinstance(broker, BrokerService)
        self.assertFalse(broker.running)

    def test_clock(self) -> None:
        """Timers no longer depend on the time of day."""
        makeService(under_twistd())
        self.assertIsInstance(reactor.seconds, MonotonicSeconds)

    def test_signals(self) -> None:
        """Signals are caught once the reactor runs."""
        makeService(under_twistd())
        self.assertEqual(len(self.when_running), 1)

    def test_terminal(self) -> None:
        """In the foreground, the log goes to the terminal, in our format."""
        debugged = under_twistd(before=())
        runner_options(debugged)["debug"] = True  # What -b does, beside changing the whole process.
        for options in (under_twistd(), under_twistd(before=("-n", "-l", "-")), debugged):
            stdout = io.StringIO()
            self.patch(sys, "stdout", stdout)
            observer = self.observer_of(makeService(options))
            Logger("rustlog.service", observer=LogPublisher(observer)).info("hello")
            self.assertRegex(stdout.getvalue(), r"\A20[^ ]+ [^ ]+ INFO  hello\n\Z")

    def test_log_file(self) -> None:
        """With C{--logfile} it goes there, in the format that was asked for."""
        name = self.mktemp()
        options = under_twistd("--log-format=json", before=("-n", f"--logfile={name}"))
        observer = self.observer_of(makeService(options))
        Logger("rustlog.service", observer=LogPublisher(observer)).info("hello")
        self.assertIn('"message": "hello"', Path(name).read_text())

    def test_daemon(self) -> None:
        """A daemon logs to where C{twistd} does."""
        names: list[str] = []
        original = LogFile.fromFullPath

        def opened(name: str) -> LogFile:
            names.append(name)
            return original(self.mktemp())

        self.patch(LogFile, "fromFullPath", opened)
        self.assertIsNotNone(self.observer_of(makeService(under_twistd(before=()))))
        self.assertEqual(names, ["twistd.log"])

    def test_left_to_twistd(self) -> None:
        """What only C{twistd} can do, or refuse, is left to it."""
        for before in (("--syslog",), ("-n", "--syslog"), ("--logfile=-",)):
            self.assertIsNone(self.observer_of(makeService(under_twistd(before=before))))

    def test_log_file_refused(self) -> None:
        """A log file that can not be written is one line."""
        options = under_twistd(before=("-n", "--logfile=/no/such/place/log"))
        error = self.assertRaises(SystemExit, makeService, options)
        self.assertRegex(str(error.code), r"\Arustlog: cannot write the log file /no/such/place/log: \w.*\Z")

    def test_other_parent(self) -> None:
        """As a part of another service, it leaves the log alone."""
        service = LoggedService(textFileLogObserver(io.StringIO()))
        service.setServiceParent(MultiService())
        self.assertIsInstance(service.parent, MultiService)

    def test_programmatic(self) -> None:
        """Options that were made without C{twistd} will do."""
        options = parsed()
        self.assertIsNotNone(makeService(options))


class TwistTests(SynchronousTestCase):
    def under_twist(self, *before: str, after: tuple[str, ...] = ()) -> TwistOptions:
        options = TwistOptions()
        options["logFile"] = io.StringIO()
        options.parseOptions([*before, "rustlog", "--storage=memory", *after])
        return options

    def line(self, options: TwistOptions) -> str:
        """What C{twist} writes for an event."""
        stream = io.StringIO()
        observer = options["fileLogObserverFactory"](stream)
        Logger("rustlog.service", observer=LogPublisher(observer)).info("hello")
        return stream.getvalue()

    def test_format(self) -> None:
        """The option of rustlog wins over the one of C{twist}, which wins over the default."""
        self.assertRegex(self.line(self.under_twist("--log-format=text")), r" INFO  hello\n\Z")
        self.assertRegex(self.line(self.under_twist("--log-format=json")), r'"message": "hello"')
        both = self.under_twist("--log-format=json", after=("--log-format=text",))
        self.assertRegex(self.line(both), r" INFO  hello\n\Z")

    def test_level(self) -> None:
        """The same for the level."""
        self.assertEqual(self.under_twist("--log-level=warn")["logLevel"], LogLevel.warn)
        both = self.under_twist("--log-level=warn", after=("--log-level=debug",))
        self.assertEqual(both["logLevel"], LogLevel.debug)
        self.assertEqual(both.subOptions.config.log.level, "debug")

    def test_observer(self) -> None:
        """C{twist} makes its own observer, so the service brings none."""
        self.patch(reactor, "seconds", reactor.seconds)
        self.patch(reactor, "callWhenRunning", lambda function: None)
        service = makeService(self.under_twist().subOptions)
        assert isinstance(service, LoggedService)
        application = Application("rustlog")
        service.setServiceParent(application)
        self.assertIsNone(application.getComponent(ILogObserver))

    def test_runner_accepts_it(self) -> None:
        """What C{twist} is given is what its runner takes."""
        options = self.under_twist()
        runner = Runner(reactor=reactor, fileLogObserverFactory=options["fileLogObserverFactory"])
        self.assertTrue(callable(runner._fileLogObserverFactory))


