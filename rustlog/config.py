"""
What was asked for, judged: options and a TOML file in, frozen settings out.

All of it is judged here, before anything is opened.  Whatever is wrong is one
C{usage.UsageError}, whose message is the one line that the operator sees.

A configuration file says the same as the command line, with the same names; what is said on
the command line wins, setting by setting::

    storage = "segments"
    data-dir = "/var/lib/rustlog"
    listen = ["rustlog=tcp:9091:interface=127.0.0.1"]
    advertise = ["broker.example.org:9091"]
    sync = 250

    [set]
    retention.ms = 86400000
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import attrs
from attrs import field, frozen
from cattrs import Converter
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IStreamServerEndpoint
from twisted.python.usage import UsageError

from rustlog.errors import InvalidSetting, StartupError
from rustlog.interfaces import ILogStoreFactory, IOffsetStoreFactory, IWireProtocol
from rustlog.judging import PARTITIONS_MAX
from rustlog.model import SyncPolicy
from rustlog.observability.logs import LEVELS, LogConfig, LogFormat
from rustlog.plugins import did_you_mean, find, installed
from rustlog.settings import BrokerConfig, TopicConfig, vocabulary, with_overrides

DEFAULTS: Mapping[str, object] = {
    "storage": "segments",
    "offsets": "topic",
    "data-dir": "rustlog-data",
    "listen": [],
    "advertise": [],
    "partitions": 1,
    "sync": "always",
    "set": {},
    "log-format": "text",
    "log-level": "info",
}
"""What can be said in a file or on the command line, and what holds when it is not."""


@frozen
class ListenerConfig:
    """
    One place where clients connect.

    @ivar description: the endpoint as it was written.
    @ivar settings: those of its protocol.
    @ivar advertised: the host and port that clients are told to connect to; C{None} is the address
        on which they did.
    @ivar is_default: nobody asked for it, so it may be left out on machines that have no such
        address.
    """

    name: str
    protocol: IWireProtocol
    description: str
    endpoint: IStreamServerEndpoint
    settings: object = None
    advertised: tuple[str, int] | None = None
    is_default: bool = False


@frozen
class DaemonConfig:
    """All that a broker needs to know to start."""

    storage: ILogStoreFactory
    storage_settings: object
    offsets: IOffsetStoreFactory
    offsets_settings: object
    listeners: tuple[ListenerConfig, ...]
    topic_defaults: TopicConfig = field(factory=TopicConfig)
    broker: BrokerConfig = field(factory=BrokerConfig)
    partitions: int = 1
    log: LogConfig = field(factory=LogConfig)


def read(
    given: Mapping[str, object],
    reactor: Any,
    config_file: str | None = None,
    defaults: Mapping[str, object] = DEFAULTS,
) -> DaemonConfig:
    """
    Judge everything.

    @param given: what the command line says, of the names in L{DEFAULTS}.
    @param reactor: for the endpoints; nothing is opened.
    @param config_file: the name of a TOML file.
    @param defaults: what holds when neither says anything.
    @raise UsageError: something is wrong.
    """
    from_file = {} if config_file is None else _read_file(config_file)
    wanted = {**defaults, **from_file, **given}
    wanted["set"] = {**_table(from_file.get("set", {})), **_table(given.get("set", {}))}
    try:
        return _judge(wanted, reactor)
    except (InvalidSetting, StartupError) as error:
        raise UsageError(str(error)) from error


def _judge(wanted: Mapping[str, Any], reactor: Any) -> DaemonConfig:
    storage = find(ILogStoreFactory, _text(wanted, "storage"))
    offsets = find(IOffsetStoreFactory, _text(wanted, "offsets"))
    listeners = _advertised(_listeners(wanted["listen"], reactor), wanted["advertise"])
    storage_class, offsets_class = storage.settings_class(), offsets.settings_class()
    chosen = [(storage.name, storage_class), (offsets.name, offsets_class)]
    for each in listeners:
        chosen += [(name, each.protocol.settings_class()) for name in _listener_prefixes(each)]
    said = _sort_settings(wanted["set"], chosen)
    topic_defaults = with_overrides(TopicConfig(), said.topic)
    broker = with_overrides(BrokerConfig(), said.broker)
    shared = {
        "data_dir": PurePath(Path(_text(wanted, "data-dir")).expanduser()),
        "sync": _sync(wanted["sync"]),
        "topic_defaults": topic_defaults,
        "producer_id_expiration_ms": broker.producer_id_expiration_ms,
    }
    return DaemonConfig(
        storage=storage,
        storage_settings=_plugin_settings([storage.name], storage_class, shared, said.plugins),
        offsets=offsets,
        offsets_settings=_plugin_settings([offsets.name], offsets_class, shared, said.plugins),
        listeners=tuple(_with_settings(each, shared, said.plugins) for each in listeners),
        topic_defaults=topic_defaults,
        broker=broker,
        partitions=_partitions(wanted["partitions"]),
        log=_log(wanted),
    )


# -- the file ----------------------------------------------------------------------


def _read_file(name: str) -> dict[str, Any]:
    try:
        values = tomllib.loads(Path(name).expanduser().read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the configuration file {name}: {error.strerror}") from error
    except ValueError as error:  # neither UTF-8 nor TOML
        raise UsageError(f"{name} is not a TOML file: {error}") from error
    for key in values:
        if key not in DEFAULTS:
            raise _unknown(f"option in {name}:", key, DEFAULTS)
    return values


def _table(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise UsageError(f"set must be a table of settings, not {value!r}")
    return dict(_flat(value))


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """TOML reads C{segment.bytes = 1} as a table in a table; here it is one name."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


# -- single options ----------------------------------------------------------------


def _text(wanted: Mapping[str, object], name: str) -> str:
    value = wanted[name]
    if not isinstance(value, str) or not value:
        raise UsageError(f"{name} must be a text, not {value!r}")
    return value


def _sync(value: object) -> SyncPolicy:
    try:
        return SyncPolicy.parse(str(value))
    except ValueError as error:
        raise UsageError(f"sync: {error}") from error


def _partitions(value: object) -> int:
    number = _number(str(value), PARTITIONS_MAX)
    if number is None:
        raise UsageError(f"partitions: {str(value)!r} is not a number from 1 to {PARTITIONS_MAX}")
    return number


def _number(text: str, maximum: int) -> int | None:
    """A whole number from 1 to C{maximum}; C{None} if it is none."""
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= maximum:
        return None
    return int(text)


def _log(wanted: Mapping[str, object]) -> LogConfig:
    formats = [each.value for each in LogFormat]
    chosen = _choice(wanted, "log-format", formats)
    return LogConfig(LogFormat(chosen), _choice(wanted, "log-level", LEVELS))


def _choice(wanted: Mapping[str, object], name: str, choices: Sequence[str]) -> str:
    value = wanted[name]
    if value not in choices:
        raise UsageError(f"{name}: {value!r} is not one of {', '.join(choices)}")
    return str(value)


# -- listeners ---------------------------------------------------------------------


def _listeners(value: object, reactor: Any) -> tuple[ListenerConfig, ...]:
    wanted = _texts("listen", value, "[NAME/]PROTOCOL=ENDPOINT")
    if wanted:
        return tuple(_listener(each, reactor) for each in wanted)
    return tuple(
        ListenerConfig(name, find(IWireProtocol, name), text, _endpoint(text, reactor), is_default=True)
        for name in {each.name: None for each in installed(IWireProtocol)}
        for text in find(IWireProtocol, name).default_endpoints
    )


def _texts(name: str, value: object, form: str) -> list[str]:
    """One text or a list of them, as a list."""
    wanted = [value] if isinstance(value, str) else value
    if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
        raise UsageError(f"{name} must be a list of {form}, not {value!r}")
    return wanted


def _listener(text: str, reactor: Any) -> ListenerConfig:
    """Read C{[NAME/]PROTOCOL=ENDPOINT}."""
    door, equals, description = text.partition("=")
    name, _, protocol = door.rpartition("/")
    if not equals or not protocol or door.startswith("/"):
        raise UsageError(f"listen: {text!r} is not of the form [NAME/]PROTOCOL=ENDPOINT")
    plugin = find(IWireProtocol, protocol)
    return ListenerConfig(name or protocol, plugin, description, _endpoint(description, reactor))


def _endpoint(description: str, reactor: Any) -> IStreamServerEndpoint:
    try:
        return serverFromString(reactor, description)
    except Exception as error:
        # Each kind of endpoint is a plugin that reads its own arguments, and raises what it likes.
        raise UsageError(f"listen: {description!r} is not a usable endpoint: {error}") from error


# -- what clients are told ---------------------------------------------------------

_ADDRESS = re.compile(r"(?:(?P<name>[^=]+)=)?(?P<host>\[[^\]]+\]|[^:\[\]=]+):(?P<port>[0-9]+)")


def _advertised(listeners: tuple[ListenerConfig, ...], value: object) -> tuple[ListenerConfig, ...]:
    """Read C{[NAME=]HOST:PORT}, and give it to the listeners of that name."""
    names = sorted({each.name for each in listeners})
    addresses: dict[str, tuple[str, int]] = {}
    for text in _texts("advertise", value, "[NAME=]HOST:PORT"):
        name, address = _address(text, names)
        if name in addresses:
            raise UsageError(f"advertise: more than one address for the listener {name}")
        addresses[name] = address
    return tuple(attrs.evolve(each, advertised=addresses.get(each.name)) for each in listeners)


def _address(text: str, names: list[str]) -> tuple[str, tuple[str, int]]:
    match = _ADDRESS.fullmatch(text)
    port = match and _number(match["port"], 65535)
    if match is None or port is None:
        raise UsageError(f"advertise: {text!r} is not of the form [NAME=]HOST:PORT")
    name = match["name"]
    if name is None and len(names) != 1:
        raise UsageError(f"advertise: say which listener {text!r} is for, NAME={text}: {', '.join(names)}")
    if name is not None and name not in names:
        raise _unknown("listener in advertise:", name, names)
    return name or names[0], (match["host"].strip("[]"), port)


# -- settings ----------------------------------------------------------------------


@frozen
class _Said:
    """The settings, by whom they concern."""

    topic: dict[str, object]
    broker: dict[str, object]
    plugins: dict[str, object]


_SHARED = frozenset({"data_dir", "sync", "topic_defaults", "producer_id_expiration_ms"})
"""Fields of a plugin's settings that receive the broker's own options."""


def _sort_settings(values: Mapping[str, object], chosen: list[tuple[str, type[Any]]]) -> _Said:
    topic = {each.name for each in vocabulary(TopicConfig)}
    broker = {each.name for each in vocabulary(BrokerConfig)}
    plugins = {f"{name}.{key}" for name, settings in chosen for key in own_settings(settings)}
    said = _Said({}, {}, {})
    for name, value in values.items():
        if name in topic:
            said.topic[name] = value
        elif name in broker:
            said.broker[name] = value
        elif name in plugins:
            said.plugins[name] = value
        else:
            raise _unknown("setting", name, topic | broker | plugins)
    return said


def own_settings(settings_class: type[Any]) -> dict[str, attrs.Attribute[Any]]:
    """The fields of a plugin's settings that C{--set} reaches, by the names that it uses for them."""
    return {
        each.name.replace("_", "."): each
        for each in attrs.fields(settings_class)
        if each.name not in _SHARED
    }


def _plugin_settings(
    prefixes: Sequence[str],
    settings_class: type[Any],
    shared: Mapping[str, object],
    said: Mapping[str, object],
) -> object:
    """What was said under the first of C{prefixes}, or, where that says it differently, under the next."""
    names = {each.name for each in attrs.fields(settings_class)}
    values = {name: value for name, value in shared.items() if name in names}
    for key, own in own_settings(settings_class).items():
        for name in (f"{prefix}.{key}" for prefix in prefixes):
            if name in said:
                values[own.alias or own.name] = _structure(name, said[name], settings_class, own.name)
    try:
        return settings_class(**values)
    except (ValueError, TypeError) as error:  # from its validators, or a field that must be set
        raise UsageError(f"the settings of {prefixes[0]} are not complete and right: {error}") from error


def _listener_prefixes(listener: ListenerConfig) -> list[str]:
    """What is set for a protocol holds for its listeners; what is set for a listener wins."""
    return [listener.protocol.name, listener.name]


def _with_settings(
    listener: ListenerConfig, shared: Mapping[str, object], said: Mapping[str, object]
) -> ListenerConfig:
    settings_class = listener.protocol.settings_class()
    settings = _plugin_settings(_listener_prefixes(listener), settings_class, shared, said)
    return attrs.evolve(listener, settings=settings)


def _structure(name: str, value: object, settings_class: type[Any], field_name: str) -> object:
    try:
        resolved = attrs.fields_dict(attrs.resolve_types(settings_class))
        structured: object = _converter.structure(value, resolved[field_name].type or str)
        return structured
    except Exception as error:
        # cattrs raises whatever the type's own constructor does.
        raise UsageError(f"{name}: {value!r} is not acceptable: {error}") from error


def _bool(value: object, _: type) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError("it is neither true nor false")
    return text == "true"


_converter = Converter()
_converter.register_structure_hook(bool, _bool)
_converter.register_structure_hook(int, lambda value, _: int(str(value)))
_converter.register_structure_hook(PurePath, lambda value, _: PurePath(value))


def _unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    hint = did_you_mean(name, known) or f"; there are: {', '.join(sorted(known))}"
    return UsageError(f"unknown {what} {name!r}{hint}")
