"""
Plugins: how they are declared, and how they are found by name.

A declaration is cheap: it names the code as text, and nothing is imported before the
plugin is chosen, so that a C{twistd} run for another service pays nothing, and one
plugin's missing library harms nobody else.  A third party adds to its distribution::

    # twisted/plugins/rustlog_acme.py    (name the file after the distribution)
    from rustlog.plugins import LogStoreFactory

    acme = LogStoreFactory(
        "acme",
        "Keeps the log at Acme's.",
        opener="rustlog_acme.store.open_store",
        settings="rustlog_acme.store.AcmeSettings",
    )
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from attrs import frozen
from twisted.plugin import getPlugins
from twisted.python.reflect import namedAny
from zope.interface import implementer

from rustlog.errors import StartupError
from rustlog.interfaces import ILogStoreFactory, IOffsetStoreFactory, IWireProtocol

if TYPE_CHECKING:
    from rustlog.environment import Environment


@implementer(ILogStoreFactory)
@frozen
class LogStoreFactory:
    """
    Declares a log store.

    @ivar opener: dotted name of C{open_store(settings, environment)}.
    @ivar settings: dotted name of the attrs class of its settings.
    """

    name: str
    description: str
    opener: str
    settings: str

    def settings_class(self) -> type[Any]:
        return _load(self.name, self.settings)

    def open(self, settings: object, environment: Environment) -> Any:
        return _load(self.name, self.opener)(settings, environment)


@implementer(IOffsetStoreFactory)
@frozen
class OffsetStoreFactory:
    """
    Declares an offset store.

    @ivar opener: dotted name of C{open_store(settings, environment, log_store)}.
    @ivar settings: dotted name of the attrs class of its settings.
    """

    name: str
    description: str
    opener: str
    settings: str

    def settings_class(self) -> type[Any]:
        return _load(self.name, self.settings)

    def open(self, settings: object, environment: Environment, log_store: Any) -> Any:
        return _load(self.name, self.opener)(settings, environment, log_store)


@implementer(IWireProtocol)
@frozen
class WireProtocol:
    """
    Declares a wire protocol.

    @ivar maker: dotted name of C{make_factory(listener)}.
    @ivar settings: dotted name of the attrs class of its settings.
    @ivar default_endpoints: what is opened when no C{--listen} is given.  Those whose address
        the machine does not have (C{::1} without IPv6) are left out.
    """

    name: str
    description: str
    maker: str
    default_endpoints: tuple[str, ...] = ()
    settings: str = "rustlog.settings.NoSettings"

    def settings_class(self) -> type[Any]:
        return _load(self.name, self.settings)

    def factory(self, listener: Any) -> Any:
        return _load(self.name, self.maker)(listener)


def installed(interface: type[Any]) -> list[Any]:
    """All plugins of a kind, by name."""
    return sorted(getPlugins(interface), key=lambda each: str(each.name))


def find(interface: type[Any], name: str) -> Any:
    """
    The one plugin of that name.

    @raise StartupError: there is none, or more than one; the message lists what is installed.
    """
    plugins = installed(interface)
    found = [each for each in plugins if each.name == name]
    if len(found) == 1:
        return found[0]
    names = [each.name for each in plugins]
    if found:
        problem = f"{len(found)} plugins declare the {_KINDS[interface]} {name!r}"
    else:
        problem = f"no {_KINDS[interface]} is called {name!r}{did_you_mean(name, names)}"
    raise StartupError(f"{problem}; installed: {', '.join(names) or 'none'}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What to add to a complaint about a name: the known one that is most like it, if any is."""
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


_KINDS: dict[type[Any], str] = {
    ILogStoreFactory: "log store",
    IOffsetStoreFactory: "offset store",
    IWireProtocol: "wire protocol",
}


def _load(plugin: str, dotted_name: str) -> Any:
    try:
        return namedAny(dotted_name)
    except (ImportError, AttributeError, ValueError) as error:
        # ValueError is the root of what namedAny raises for names that lead nowhere.
        raise StartupError(f"the plugin {plugin!r} can not be loaded: {error}") from error
