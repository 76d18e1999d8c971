"""Tests of L{rustlog.plugins}."""

from __future__ import annotations

import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog.environment import Environment
from rustlog.errors import StartupError
from rustlog.interfaces import ILogStoreFactory, IOffsetStoreFactory, IWireProtocol
from rustlog.offsets.memory import MemoryOffsets
from rustlog.plugins import LogStoreFactory, WireProtocol, did_you_mean, find, installed
from rustlog.storage.memory import MemorySettings, MemoryStore
from rustlog.testing.environment import memory_environment
from tests.doubles import EchoFactory, use_dropins


class OwnPluginsTests(SynchronousTestCase):
    """What rustlog itself installs."""

    def test_names(self) -> None:
        """The stores and the protocol of the documentation are there under their names."""
        stores = [each.name for each in installed(ILogStoreFactory)]
        self.assertEqual(stores, ["memory", "minikafka", "segments"])
        self.assertEqual([each.name for each in installed(IOffsetStoreFactory)], ["file", "memory", "topic"])
        protocols = [each.name for each in installed(IWireProtocol)]
        self.assertEqual(protocols, ["fluvio", "fluvio-spu", "http", "kafka", "minikafka", "rustlog"])

    def test_interfaces(self) -> None:
        """Every declaration keeps the contract of its kind."""
        for interface in (ILogStoreFactory, IOffsetStoreFactory, IWireProtocol):
            for plugin in installed(interface):
                verifyObject(interface, plugin)

    def test_described(self) -> None:
        """Every plugin says in one sentence what it is."""
        for interface in (ILogStoreFactory, IOffsetStoreFactory, IWireProtocol):
            for plugin in installed(interface):
                self.assertRegex(plugin.description, r"\A[A-Z][^\n]+\.\Z")

    def test_opens(self) -> None:
        """A store that is chosen by name opens with its own settings."""
        environment: Environment = memory_environment()
        factory = find(ILogStoreFactory, "memory")
        self.assertIs(factory.settings_class(), MemorySettings)
        store = factory.open(MemorySettings(), environment)
        self.assertIsInstance(store, MemoryStore)
        offsets_factory = find(IOffsetStoreFactory, "memory")
        offsets = offsets_factory.open(offsets_factory.settings_class()(), environment, store)
        self.assertIsInstance(offsets, MemoryOffsets)

    def test_loopback(self) -> None:
        """Unless told otherwise, nothing is opened to the world."""
        for plugin in installed(IWireProtocol):
            for endpoint in plugin.default_endpoints:
                self.assertRegex(endpoint, r"interface=(127\.0\.0\.1|\\:\\:1)\Z")

    def test_cheap(self) -> None:
        """A look at what is installed loads no store, no protocol and no reactor."""
        look = (
            "import sys; from rustlog.plugins import installed;"
            "from rustlog.interfaces import ILogStoreFactory as I; assert installed(I);"
            "bad = [n for n in sys.modules if n == 'twisted.internet.reactor'"
            " or n.startswith(('rustlog.storage', 'rustlog.wire', 'rustlog.broker', 'cramjam'))];"
            "sys.exit(str(bad) if bad else 0)"
        )
        done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class FindTests(SynchronousTestCase):
    """Choosing by name, with third-party plugins installed."""

    def setUp(self) -> None:
        use_dropins(self)

    def _refusal(self, interface: type, name: str) -> str:
        return str(self.assertRaises(StartupError, find, interface, name))

    def test_third_party(self) -> None:
        """A plugin of somebody else is found like our own."""
        factory = find(IWireProtocol, "echo").factory("a listener")
        self.assertIsInstance(factory, EchoFactory)
        self.assertEqual(factory.listener, "a listener")

    def test_unknown(self) -> None:
        """An unknown name is refused with a list of those that are installed."""
        self.assertEqual(
            self._refusal(IWireProtocol, "gopher"),
            "no wire protocol is called 'gopher'; "
            "installed: echo, fluvio, fluvio-spu, http, kafka, minikafka, rustlog",
        )

    def test_misspelt(self) -> None:
        """A misspelt name gets a hint."""
        self.assertIn(
            "no log store is called 'segmets'; did you mean segments?; installed: ",
            self._refusal(ILogStoreFactory, "segmets"),
        )

    def test_duplicate(self) -> None:
        """Two plugins of one name are refused when that name is asked for, and only then."""
        self.assertIn("2 plugins declare the log store 'twin'", self._refusal(ILogStoreFactory, "twin"))
        self.assertEqual(find(ILogStoreFactory, "memory").name, "memory")

    def test_none_installed(self) -> None:
        """Where nothing is installed, that is said."""
        self.patch(sys.modules["rustlog.plugins"], "getPlugins", lambda interface: iter(()))
        self.assertEqual(
            self._refusal(IOffsetStoreFactory, "memory"),
            "no offset store is called 'memory'; installed: none",
        )

    def test_not_loadable(self) -> None:
        """A plugin whose code is missing is refused when it is chosen, by name."""
        plugin = find(ILogStoreFactory, "missing")
        for use in (plugin.settings_class, lambda: plugin.open(None, None)):
            error = self.assertRaises(StartupError, use)
            self.assertRegex(str(error), r"\Athe plugin 'missing' can not be loaded: .*nowhere")

    def test_missing_library(self) -> None:
        """So is one that lacks a library, or that names something that is not there."""
        for dotted_name in ("tests.doubles.nothing", "no_such_library.open", "", "a..b"):
            plugin = LogStoreFactory("acme", "Acme.", opener=dotted_name, settings=dotted_name)
            self.assertRaises(StartupError, plugin.settings_class)
            self.assertRaises(StartupError, WireProtocol("acme", "Acme.", dotted_name).factory, None)


class DidYouMeanTests(SynchronousTestCase):
    def test_near(self) -> None:
        """The nearest name is suggested."""
        self.assertEqual(did_you_mean("retention.mz", ["retention.ms", "x"]), "; did you mean retention.ms?")

    def test_far(self) -> None:
        """Nothing is suggested for what is like nothing."""
        self.assertEqual(did_you_mean("gopher", ["retention.ms", "x"]), "")
