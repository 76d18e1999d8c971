"""Tests of L{rustlog.config}."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any

from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock
from twisted.python.usage import UsageError
from twisted.trial.unittest import SynchronousTestCase

from rustlog.config import DaemonConfig, ListenerConfig, read
from rustlog.model import SyncPolicy
from rustlog.observability.logs import LogConfig, LogFormat
from rustlog.settings import BrokerConfig, NoSettings, TopicConfig
from tests.doubles import EchoSettings, PickySettings, use_dropins


class ConfigTestCase(SynchronousTestCase):
    """Has the plugins of the tests installed, and stores that need no files."""

    def setUp(self) -> None:
        use_dropins(self)
        self.reactor = MemoryReactorClock()

    def read(self, file: str | None = None, /, **given: Any) -> DaemonConfig:
        """Judge; C{data_dir} stands for C{data-dir}, C{file} is the text of a file."""
        wanted = {"storage": "memory"} | {name.replace("_", "-"): value for name, value in given.items()}
        name = None
        if file is not None:
            name = self.mktemp()
            Path(name).write_text(file)
            del wanted["storage"]
            wanted.update({key.replace("_", "-"): value for key, value in given.items()})
        return read(wanted, self.reactor, name)

    def places(self, listeners: Iterable[ListenerConfig]) -> list[tuple[int, str]]:
        """Port and interface of each, once it listens."""
        for each in listeners:
            self.successResultOf(each.endpoint.listen(Factory()))
        return [(port, interface) for port, _, _, interface in self.reactor.tcpServers]

    def refusal(self, file: str | None = None, /, **given: Any) -> str:
        """What is said instead; one line."""
        message = str(self.assertRaises(UsageError, self.read, file, **given))
        self.assertNotIn("\n", message)
        return message


class DefaultsTests(ConfigTestCase):
    def test_settings(self) -> None:
        """Nothing has to be said but what one wants to be different."""
        config = self.read()
        self.assertEqual(config.storage.name, "memory")
        self.assertEqual(config.offsets.name, "topic")
        self.assertEqual(config.topic_defaults, TopicConfig())
        self.assertEqual(config.broker, BrokerConfig())
        self.assertEqual(config.partitions, 1)
        self.assertEqual(config.log, LogConfig(LogFormat.TEXT, "info"))

    def test_listeners(self) -> None:
        """Every protocol that exists listens on loopback, in both families, but for fluvio-spu."""
        listeners = self.read().listeners
        names = [each.name for each in listeners]
        protocols = ("fluvio", "http", "kafka", "minikafka", "rustlog")
        self.assertEqual(names, [name for name in protocols for _ in range(2)])
        self.assertTrue(all(each.is_default and each.advertised is None for each in listeners))
        self.assertEqual(self.reactor.tcpServers, [])
        ports = (9003, 9080, 9092, 9093, 9091)
        expected = [(port, address) for port in ports for address in ("127.0.0.1", "::1")]
        self.assertEqual(self.places(listeners), expected)


class ListenTests(ConfigTestCase):
    def test_replaces_defaults(self) -> None:
        """Once something is named, only that is opened."""
        (listener,) = self.read(listen=["rustlog=tcp:1234"]).listeners
        self.assertEqual(
            (listener.name, listener.protocol.name, listener.description, listener.is_default),
            ("rustlog", "rustlog", "tcp:1234", False),
        )

    def test_named(self) -> None:
        """Listeners have names of their own, so that one protocol can have several."""
        listeners = self.read(listen=["lan/rustlog=tcp:1", "wan/rustlog=tcp:2", "echo=tcp:3"]).listeners
        self.assertEqual([each.name for each in listeners], ["lan", "wan", "echo"])
        self.assertEqual([each.protocol.name for each in listeners], ["rustlog", "rustlog", "echo"])

    def test_endpoint_with_equals(self) -> None:
        """An endpoint may contain whatever endpoints contain."""
        listeners = self.read(listen=[r"rustlog=tcp:port=0:interface=\:\:1"]).listeners
        self.assertEqual(self.places(listeners), [(0, "::1")])

    def test_form(self) -> None:
        """What is not of the form is refused with the form."""
        for text in ("rustlog", "", "=tcp:1", "/rustlog=tcp:1", "lan/=tcp:1"):
            self.assertEqual(
                self.refusal(listen=[text]), f"listen: {text!r} is not of the form [NAME/]PROTOCOL=ENDPOINT"
            )

    def test_unknown_protocol(self) -> None:
        """A protocol that nobody speaks is refused, with those that are spoken."""
        self.assertEqual(
            self.refusal(listen=["rustlgo=tcp:1"]),
            "no wire protocol is called 'rustlgo'; did you mean rustlog?; "
            "installed: echo, fluvio, fluvio-spu, http, kafka, minikafka, rustlog",
        )

    def test_bad_endpoint(self) -> None:
        """An endpoint that Twisted does not understand is quoted."""
        for text in ("tcp:port=http", "tcp:", "carrier-pigeon:1", "9091", "ssl:1:privateKey=/none.pem", ""):
            self.assertIn(
                f"listen: {text!r} is not a usable endpoint: ", self.refusal(listen=[f"rustlog={text}"])
            )


class AdvertiseTests(ConfigTestCase):
    LISTEN = ("lan/rustlog=tcp:1", "wan/rustlog=tcp:2")

    def test_one_listener(self) -> None:
        """Where there is one listener, its name need not be said."""
        config = self.read(listen=["rustlog=tcp:1"], advertise=["log.example.org:9091"])
        self.assertEqual(config.listeners[0].advertised, ("log.example.org", 9091))

    def test_default_listeners(self) -> None:
        """The default listeners of a protocol are one listener in two families."""
        config = self.read(advertise=["rustlog=log.example.org:9091"])
        advertised = [each.advertised for each in config.listeners if each.name == "rustlog"]
        self.assertEqual(advertised, [("log.example.org", 9091)] * 2)

    def test_named(self) -> None:
        """Each listener gets the address that bears its name; the others keep their own."""
        lan, wan = self.read(listen=list(self.LISTEN), advertise=["wan=[2001:db8::1]:9"]).listeners
        self.assertIsNone(lan.advertised)
        self.assertEqual(wan.advertised, ("2001:db8::1", 9))

    def test_ambiguous(self) -> None:
        """Where there are several, the name has to be said."""
        self.assertEqual(
            self.refusal(listen=list(self.LISTEN), advertise=["host:1"]),
            "advertise: say which listener 'host:1' is for, NAME=host:1: lan, wan",
        )

    def test_unknown_listener(self) -> None:
        """A name that no listener has is refused."""
        self.assertEqual(
            self.refusal(listen=list(self.LISTEN), advertise=["lna=host:1"]),
            "unknown listener in advertise: 'lna'; did you mean lan?",
        )

    def test_twice(self) -> None:
        """A listener can be told only one address."""
        self.assertEqual(
            self.refusal(listen=list(self.LISTEN), advertise=["lan=a:1", "lan=b:1"]),
            "advertise: more than one address for the listener lan",
        )

    def test_form(self) -> None:
        """What is not of the form is refused with the form."""
        for text in ("host", "host:", ":1", "host:0", "host:65536", "host:http", "::1:1", "=host:1", "[]:1"):
            self.assertEqual(
                self.refusal(advertise=[text]), f"advertise: {text!r} is not of the form [NAME=]HOST:PORT"
            )


class OptionTests(ConfigTestCase):
    def test_unknown_stores(self) -> None:
        """A store that is not installed is refused, with those that are."""
        self.assertIn("no log store is called 'tape'; installed: ", self.refusal(storage="tape"))
        self.assertEqual(
            self.refusal(offsets="memoryy"),
            "no offset store is called 'memoryy'; did you mean memory?; installed: file, memory, topic",
        )

    def test_broken_store(self) -> None:
        """A store whose code can not be loaded is refused before anything is opened."""
        self.assertIn("the plugin 'missing' can not be loaded", self.refusal(storage="missing"))

    def test_sync(self) -> None:
        """What an acknowledgement means is always, never or a number of milliseconds."""
        for text, interval_ms in (("always", 0), ("never", None), ("250", 250), (250, 250)):
            config = self.read(sync=text)
            self.assertIsNotNone(config)
            self.assertEqual(SyncPolicy.parse(str(text)).interval_ms, interval_ms)
        for bad in ("", "sometimes", "0", "-1", "1.5", True, "9" * 5000):
            self.assertTrue(self.refusal(sync=bad).startswith("sync: "), bad)

    def test_partitions(self) -> None:
        """The number of partitions is one that a topic can have."""
        self.assertEqual(self.read(partitions="12").partitions, 12)
        for bad in ("0", "10001", "-1", "two", "1.0", "9" * 5000, True, None):
            self.assertIn("is not a number from 1 to 10000", self.refusal(partitions=bad))

    def test_log(self) -> None:
        """Format and level of the log are chosen by name."""
        self.assertEqual(
            self.read(log_format="json", log_level="debug").log, LogConfig(LogFormat.JSON, "debug")
        )
        self.assertEqual(self.refusal(log_format="xml"), "log-format: 'xml' is not one of text, json")
        self.assertEqual(
            self.refusal(log_level="loud"),
            "log-level: 'loud' is not one of debug, info, warn, error, critical",
        )

    def test_empty(self) -> None:
        """Nothing is not a name."""
        for option in ("storage", "offsets", "data_dir"):
            self.assertIn("must be a text, not ''", self.refusal(**{option: ""}))


class SettingTests(ConfigTestCase):
    def test_sorted(self) -> None:
        """A setting reaches the topics, or the broker, or the store that it belongs to."""
        config = self.read(
            storage="picky",
            data_dir="here",
            set={"retention.ms": "5", "max.connections": "7", "picky.copies": "2", "picky.is.fast": "true"},
        )
        self.assertEqual(config.topic_defaults, TopicConfig(retention_ms=5))
        self.assertEqual(config.broker, BrokerConfig(max_connections=7))
        self.assertEqual(config.storage_settings, PickySettings(PurePath("here"), copies=2, is_fast=True))

    def test_home(self) -> None:
        """A data directory may be given relative to one's home."""
        settings: Any = self.read(storage="picky", data_dir="~/log").storage_settings
        self.assertEqual(settings.data_dir, PurePath(Path.home() / "log"))

    def test_shared(self) -> None:
        """Stores are told the broker's own settings that concern them."""
        settings: Any = self.read(
            set={"retention.bytes": "9", "producer.id.expiration.ms": "11"}
        ).storage_settings
        self.assertEqual(settings.topic_defaults.retention_bytes, 9)
        self.assertEqual(settings.producer_id_expiration_ms, 11)

    def test_own_types(self) -> None:
        """A store's own settings have the types that it declares."""
        settings = {"picky.place": "cellar", "picky.label": "7", "picky.is.fast": False}
        self.assertEqual(
            self.read(storage="picky", set=settings, data_dir="d").storage_settings,
            PickySettings(PurePath("d"), place=PurePath("cellar"), label="7"),
        )

    def test_own_bad_values(self) -> None:
        """A value that a store's setting can not have is refused, with the name of the setting."""
        for name, value in (("picky.copies", "many"), ("picky.is.fast", "1"), ("picky.copies", "1.5")):
            self.assertTrue(
                self.refusal(storage="picky", set={name: value}).startswith(
                    f"{name}: {value!r} is not acceptable: "
                )
            )

    def test_validator(self) -> None:
        """What a store's own validators say is passed on."""
        self.assertEqual(
            self.refusal(storage="picky", set={"picky.copies": "4"}),
            "the settings of picky are not complete and right: copies must not be more than 3",
        )

    def test_of_protocol(self) -> None:
        """A setting of a protocol reaches all its listeners; what is set for a listener by name wins."""
        config = self.read(
            listen=["echo=tcp:1", "loud/echo=tcp:2", "rustlog=tcp:3"],
            set={"echo.times": "2", "echo.suffix": "!", "loud.times": "3"},
        )
        self.assertEqual(
            [each.settings for each in config.listeners],
            [EchoSettings(2, "!"), EchoSettings(3, "!"), NoSettings()],
        )

    def test_of_other_protocol(self) -> None:
        """What belongs to a protocol that has no listener is unknown."""
        message = self.refusal(listen=["rustlog=tcp:3"], set={"echo.times": "2"})
        self.assertIn("unknown setting 'echo.times'", message)

    def test_misspelt(self) -> None:
        """A misspelt setting is not ignored, but gets a hint."""
        self.assertEqual(
            self.refusal(set={"retention.mss": "5"}),
            "unknown setting 'retention.mss'; did you mean retention.ms?",
        )

    def test_unknown(self) -> None:
        """For one that is like no other, all of them are listed."""
        message = self.refusal(set={"qqq": "5"})
        self.assertIn("unknown setting 'qqq'; there are: auto.create.topics.enable, ", message)

    def test_other_store(self) -> None:
        """What belongs to a store that was not chosen is unknown."""
        self.assertIn("unknown setting 'picky.copies'", self.refusal(set={"picky.copies": "1"}))

    def test_shared_is_not_own(self) -> None:
        """The data directory is an option, not a setting."""
        message = self.refusal(storage="picky", set={"picky.data.dir": "x"})
        self.assertIn("unknown setting 'picky.data.dir'", message)

    def test_bad_value(self) -> None:
        """A value that a setting can not have is refused."""
        self.assertEqual(
            self.refusal(set={"retention.ms": "soon"}),
            "invalid setting retention.ms: 'soon' is not a whole number",
        )


class FileTests(ConfigTestCase):
    def test_says_the_same(self) -> None:
        """A file has the same vocabulary as the command line."""
        config = self.read(
            'storage = "picky"\ndata-dir = "d"\nlisten = ["echo=tcp:1"]\nadvertise = "host:2"\n'
            'partitions = 3\nlog-format = "json"\n[set]\nsegment.bytes = 4096\npicky.is.fast = true\n'
        )
        self.assertEqual(config.storage_settings, PickySettings(PurePath("d"), is_fast=True))
        self.assertEqual(config.listeners[0].advertised, ("host", 2))
        self.assertEqual(config.topic_defaults.segment_bytes, 4096)
        self.assertEqual((config.partitions, config.log.format), (3, LogFormat.JSON))

    def test_command_line_wins(self) -> None:
        """What is said on the command line wins, setting by setting."""
        config = self.read(
            'storage = "memory"\npartitions = 3\n[set]\nsegment.bytes = 4096\nretention.ms = 1\n',
            partitions="4",
            set={"retention.ms": "2"},
        )
        self.assertEqual(config.partitions, 4)
        self.assertEqual(config.topic_defaults, TopicConfig(segment_bytes=4096, retention_ms=2))

    def test_one_listener(self) -> None:
        """A single listener need not be a list."""
        self.assertEqual(len(self.read('storage = "memory"\nlisten = "echo=tcp:1"').listeners), 1)

    def test_wrong_types(self) -> None:
        """A value of the wrong kind is refused with the right one."""
        for text, problem in (
            ("listen = 9091", "listen must be a list of [NAME/]PROTOCOL=ENDPOINT, not 9091"),
            ("listen = [9091]", "listen must be a list of [NAME/]PROTOCOL=ENDPOINT, not [9091]"),
            ("advertise = 1", "advertise must be a list of [NAME=]HOST:PORT, not 1"),
            ("set = 5", "set must be a table of settings, not 5"),
            ("storage = 5", "storage must be a text, not 5"),
            ("log-level = [1]", "log-level: [1] is not one of debug, info, warn, error, critical"),
        ):
            if not text.startswith("storage"):
                text = f'storage = "memory"\n{text}'
            self.assertEqual(self.refusal(text), problem)

    def test_unknown_option(self) -> None:
        """An option that does not exist is refused, with the name of the file."""
        message = self.refusal('stroage = "memory"')
        self.assertRegex(message, r"\Aunknown option in .+: 'stroage'; did you mean storage\?\Z")

    def test_not_toml(self) -> None:
        """A file of another kind is refused."""
        self.assertIn("is not a TOML file: ", self.refusal("storage: memory"))
        name = self.mktemp()
        Path(name).write_bytes(b"\xff\xfe")
        error = self.assertRaises(UsageError, read, {}, self.reactor, name)
        self.assertIn("is not a TOML file: ", str(error))

    def test_not_there(self) -> None:
        """A file that can not be read is named, with the reason."""
        for name, problem in (("nowhere.toml", "No such file or directory"), (".", "Is a directory")):
            error = self.assertRaises(UsageError, read, {}, self.reactor, name)
            self.assertEqual(str(error), f"cannot read the configuration file {name}: {problem}")
