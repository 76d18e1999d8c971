"""
The vocabulary of settings: Kafka's names, types, defaults and one sentence each.

There is one vocabulary for the command line (C{--set}), the configuration file,
the admin requests of every protocol, and the reference pages.  A field C{segment_bytes} is
the setting C{segment.bytes}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import attrs
from attrs import frozen

from rustlog.errors import InvalidSetting

RECORD_BYTES_MAX = 10_485_760
"""The largest record that every protocol must be able to carry (10 MiB)."""

UNLIMITED = -1

INTEGER_MAX = 2**63 - 1
"""What no number may exceed: Kafka's largest are signed 64-bit integers."""


@frozen
class Setting:
    """What is known of one setting."""

    name: str
    type: type
    default: Any
    doc: str
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    is_list: bool = False

    def parse(self, value: object) -> Any:
        """The typed value of a text or of a TOML value; raises L{InvalidSetting}."""
        if self.type is bool:
            return self._parse_bool(value)
        if self.type is int:
            return self._parse_int(value)
        if self.type is float:
            return self._parse_float(value)
        return self._parse_choice(value)

    def text(self, value: object) -> str:
        """A typed value in its canonical form, which is Kafka's."""
        return str(value).lower() if self.type is bool else str(value)

    def _parse_bool(self, value: object) -> bool:
        text = str(value).lower()
        if text not in ("true", "false"):
            raise InvalidSetting(self.name, f"{value!r} is neither true nor false")
        if self.choices and text not in self.choices:
            raise self._not_honoured(text, self.choices[0])
        return text == "true"

    def _parse_int(self, value: object) -> int:
        try:
            number = int(str(value))
        except ValueError:
            raise InvalidSetting(self.name, f"{value!r} is not a whole number") from None
        self._check_bounds(number)
        return number

    def _parse_float(self, value: object) -> float:
        try:
            number = float(str(value))
        except ValueError:
            raise InvalidSetting(self.name, f"{value!r} is not a number") from None
        self._check_bounds(number)
        return number

    def _check_bounds(self, number: float) -> None:
        maximum = INTEGER_MAX if self.maximum is None else self.maximum
        if self.minimum == maximum and number != maximum:
            raise self._not_honoured(number, maximum)
        if self.minimum is not None and number < self.minimum:
            raise InvalidSetting(self.name, f"{number} is less than {self.minimum}")
        if not number <= maximum:  # so that "nan" is no way out
            raise InvalidSetting(self.name, f"{number} is more than {maximum}")

    def _not_honoured(self, value: object, only: object) -> InvalidSetting:
        return InvalidSetting(self.name, f"{value} is not supported, only {only}: {self.doc}")

    def _parse_choice(self, value: object) -> str:
        text = str(value)
        if self.choices and text not in self.choices:
            raise InvalidSetting(self.name, f"{text!r} is not one of {', '.join(self.choices)}")
        return text


def setting(
    default: Any,
    doc: str,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    choices: tuple[str, ...] = (),
    is_list: bool = False,
) -> Any:
    """Declare a field of a settings class."""
    facts = {"doc": doc, "minimum": minimum, "maximum": maximum, "choices": choices, "is_list": is_list}
    return attrs.field(default=default, metadata=facts)


def only(value: Any, doc: str) -> Any:
    """Declare a field that has but one value: the one whose meaning holds here."""
    if isinstance(value, int) and not isinstance(value, bool):
        return setting(value, doc, minimum=value, maximum=value)
    return setting(value, doc, choices=(str(value).lower(),))


@frozen(kw_only=True)
class TopicConfig:
    """
    What can be set for a topic; C{--set} gives the default for all of them.

    Some are here because tools send them: those have but one value, which says what is so anyway, or
    concern compaction only, and then mean as little as they do in Kafka for a topic that is not compacted.
    """

    cleanup_policy: str = setting(
        "delete",
        "What happens to old segments; delete removes them.",
        choices=("delete",),
        is_list=True,
    )
    compression_type: str = only("producer", "Batches stay compressed, or not, as their producer sent them.")
    delete_retention_ms: int = setting(
        24 * 3600 * 1000,
        "How long a compacted topic keeps tombstones; without effect on others.",
        minimum=0,
    )
    file_delete_delay_ms: int = only(0, "Files are removed as soon as nobody reads them.")
    flush_messages: int = only(INTEGER_MAX, "When data is flushed to disk is said by --sync, not by a count.")
    flush_ms: int = only(INTEGER_MAX, "When data is flushed to disk is said by --sync.")
    index_interval_bytes: int = setting(
        4096, "How many bytes of log lie between two entries of the offset index.", minimum=0
    )
    max_compaction_lag_ms: int = setting(
        INTEGER_MAX,
        "How long a record of a compacted topic may wait to be compacted; without effect on others.",
        minimum=1,
    )
    max_message_bytes: int = setting(
        RECORD_BYTES_MAX + 1024 * 1024,
        "The largest record batch that is accepted; the default admits a record of 10 MiB.",
        minimum=61,
        maximum=2**30,
    )
    message_timestamp_after_max_ms: int = only(
        INTEGER_MAX, "Records may be from the future, however far."
    )
    message_timestamp_before_max_ms: int = only(INTEGER_MAX, "Records may be from the past, however far.")
    message_timestamp_type: str = setting(
        "CreateTime",
        "Whether records keep the time their producer gave them or get that of their arrival.",
        choices=("CreateTime", "LogAppendTime"),
    )
    min_cleanable_dirty_ratio: float = setting(
        0.5,
        "How much of a compacted topic must be uncompacted before it is worth the work; "
        "without effect on others.",
        minimum=0,
        maximum=1,
    )
    min_compaction_lag_ms: int = setting(
        0,
        "How long a record of a compacted topic is safe from compaction; without effect on others.",
        minimum=0,
    )
    min_insync_replicas: int = only(1, "Each partition has one replica, which is in sync with itself.")
    preallocate: bool = only(False, "Segments grow as they are written.")
    remote_storage_enable: bool = only(False, "There is no second tier of storage.")
    retention_bytes: int = setting(
        UNLIMITED,
        "How large a partition may grow before its oldest segments are deleted; -1: no limit.",
        minimum=-1,
    )
    retention_ms: int = setting(
        7 * 24 * 3600 * 1000,
        "How old a segment may become before it is deleted; -1: no limit.",
        minimum=-1,
    )
    segment_bytes: int = setting(
        2**30, "The size at which a new segment is begun.", minimum=14, maximum=2**31 - 1
    )
    segment_jitter_ms: int = only(0, "Segments end when segment.ms says so, all at once if it must be.")
    segment_ms: int = setting(
        7 * 24 * 3600 * 1000,
        "The age at which a new segment is begun, even if the old one is small.",
        minimum=1,
    )
    unclean_leader_election_enable: bool = only(
        False, "The one replica of a partition leads it; nobody else is ever elected."
    )


@frozen(kw_only=True)
class BrokerConfig:
    """What can be set for the broker as a whole."""

    auto_create_topics_enable: bool = setting(
        True, "Whether protocols that know such a thing create topics that are asked for and do not exist."
    )
    fetch_max_wait_ms: int = setting(
        60_000, "The longest that a fetch may wait for data, whatever it asks for.", minimum=0
    )
    group_initial_rebalance_delay_ms: int = setting(
        3_000,
        "How long the first rebalance of a group waits for more members than the first one.",
        minimum=0,
        maximum=2**31 - 1,
    )
    group_max_session_timeout_ms: int = setting(
        1_800_000, "The longest session timeout that a member of a group may ask for.", minimum=1
    )
    group_max_size: int = setting(
        10_000, "How many members a group may have.", minimum=1, maximum=2**31 - 1
    )
    group_min_session_timeout_ms: int = setting(
        6_000, "The shortest session timeout that a member of a group may ask for.", minimum=1
    )
    max_connections: int = setting(
        10_000, "How many connections are accepted at once over all listeners.", minimum=1
    )
    max_in_flight_requests: int = setting(
        128, "How many requests of one connection are worked on at once.", minimum=1
    )
    offset_metadata_max_bytes: int = setting(
        4096, "How much text a Kafka client may have kept with an offset that it commits.", minimum=0
    )
    offsets_retention_minutes: int = setting(
        7 * 24 * 60,
        "How long what a group without members has committed is remembered after its last commit.",
        minimum=1,
        maximum=2**31 - 1,
    )
    producer_id_expiration_ms: int = setting(
        24 * 3600 * 1000,
        "How long the sequence numbers of an idle idempotent producer are remembered.",
        minimum=1,
    )
    queued_max_request_bytes: int = setting(
        256 * 1024 * 1024,
        "The memory that requests and answers in transit may use together; "
        "connections wait their turn for it.",
        minimum=32 * 1024 * 1024,
    )
    retention_check_interval_ms: int = setting(
        30_000, "How often segments are looked over for deletion.", minimum=1
    )
    slow_client_timeout_ms: int = setting(
        30_000,
        "How long a client may hold memory without sending or reading a byte before it is cut off.",
        minimum=1,
    )


@frozen
class NoSettings:
    """What is set for a plugin that has nothing to set."""


C = TypeVar("C", TopicConfig, BrokerConfig)


def vocabulary(config_class: type[Any]) -> Iterator[Setting]:
    """Every setting of a settings class, in order."""
    for each in attrs.fields(config_class):
        kind = {"int": int, "bool": bool, "float": float}.get(str(each.type), str)
        yield Setting(each.name.replace("_", "."), kind, each.default, **each.metadata)


_TOPIC = {each.name: each for each in vocabulary(TopicConfig)}
_BROKER = {each.name: each for each in vocabulary(BrokerConfig)}


def parse_topic_overrides(values: Mapping[str, object]) -> dict[str, str]:
    """
    Judge values that were given for one topic, and write them in their canonical form.

    @raise InvalidSetting: an unknown name or a bad value.
    """
    parsed = {}
    for name, value in values.items():
        known = _known(_TOPIC, "topic", name)
        parsed[name] = known.text(known.parse(value))
    return parsed


def with_overrides(config: C, values: Mapping[str, object]) -> C:
    """
    A copy of C{config} in which the named values replace the old ones.

    @raise InvalidSetting: an unknown name or a bad value.
    """
    table, kind = (_TOPIC, "topic") if isinstance(config, TopicConfig) else (_BROKER, "broker")
    parsed = {
        name.replace(".", "_"): _known(table, kind, name).parse(value) for name, value in values.items()
    }
    return attrs.evolve(config, **parsed)


def _known(table: Mapping[str, Setting], kind: str, name: str) -> Setting:
    if name not in table:
        raise InvalidSetting(name, f"no such {kind} setting; there are: {', '.join(table)}")
    return table[name]


def is_topic_setting(name: str) -> bool:
    """Whether a topic can have it."""
    return name in _TOPIC


def is_broker_setting(name: str) -> bool:
    """Whether it belongs to the broker as a whole."""
    return name in _BROKER
