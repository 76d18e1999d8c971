"""
What was said in C{.option(…)}, understood: L{ReadOptions} and L{WriteOptions}.

A name that does not exist, a value that makes no sense, two that contradict each other: each is a
L{BadOption} that says so in one sentence, on the driver, before anything is read or written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Union

from attrs import frozen

from rustlog.log.codecs import Codec
from rustlog.model import TopicPartition
from rustlog.spark import vocabulary
from rustlog.spark.errors import BadOption
from rustlog.spark.positions import (
    EARLIEST,
    LATEST,
    AtTimes,
    Position,
    parse_assignment,
    parse_numbers,
    parse_offsets,
)
from rustlog.spark.settings import BOOTSTRAP, ClientSettings
from rustlog.spark.vocabulary import PREFIX, READ, READ_STREAM, did_you_mean, spelled

_DURATION = re.compile(r"(?P<number>\d+)\s*(?P<unit>ms|s|m|h|d|)")
_SECONDS = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600, "d": 86400}

_ISOLATION = ("read_uncommitted", "read_committed")


@frozen
class Topics:
    """These topics, with all their partitions."""

    names: tuple[str, ...]


@frozen
class Pattern:
    """All topics whose names match, those that are made later as well."""

    expression: str


@frozen
class Assigned:
    """These partitions and no others."""

    partitions: tuple[TopicPartition, ...]


Subscription = Union[Topics, Pattern, Assigned]


@frozen
class ReadOptions:
    """
    @ivar client: C{None} if there are no brokers to ask, only a directory.
    @ivar path: the data directory, if there is one.
    @ivar ending: means nothing for a stream, which has no end.
    """

    client: ClientSettings | None
    path: str | None
    subscription: Subscription
    starting: Position
    ending: Position
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    trigger_delay_seconds_max: float
    parts_min: int
    offsets_per_part_max: int | None
    fails_on_data_loss: bool
    includes_headers: bool
    group: str | None
    reads_committed: bool
    fetch_bytes: int
    pushes_filters: bool


@frozen
class WriteOptions:
    """
    @ivar topic: C{None} if a column says it.
    @ivar application: C{None} for the id of the query.
    @ivar batch: its number, if this is one batch of C{application}, each of which is written once.
    @ivar staging: a directory; C{None} if batches go from the workers straight to the brokers.
    """

    client: ClientSettings
    topic: str | None
    includes_timestamp: bool
    codec: Codec
    batch_bytes: int
    application: str | None
    batch: int | None
    staging: str | None


def read_options(given: Mapping[str, str], method: str = READ) -> ReadOptions:
    """
    Understand the options of C{spark.read} or C{spark.readStream}.

    @param method: which of both.
    @raise BadOption: they can not be understood.
    """
    options = _Given(given, method)
    client = options.client()
    path = options.text("path")
    if client is None and path is None:
        raise BadOption(BOOTSTRAP, "it is missing, and so is path: there is nothing to read from")
    group = options.text("groupId")
    if group is not None and client is None:
        raise BadOption("groupId", "progress can not be committed without kafka.bootstrap.servers")
    lowest, highest = options.count("minOffsetsPerTrigger"), options.count("maxOffsetsPerTrigger")
    if lowest is not None and highest is not None and lowest > highest:
        raise BadOption("minOffsetsPerTrigger", f"{lowest} is more than maxOffsetsPerTrigger, {highest}")
    return ReadOptions(
        client=client,
        path=path,
        subscription=_subscription(options),
        starting=_starting(options, method),
        ending=_ending(options),
        offsets_per_trigger_max=highest,
        offsets_per_trigger_min=lowest,
        trigger_delay_seconds_max=options.seconds("maxTriggerDelay", 900),
        parts_min=options.count("minPartitions") or 1,
        offsets_per_part_max=options.count("maxRecordsPerPartition"),
        fails_on_data_loss=options.flag("failOnDataLoss", True),
        includes_headers=options.flag("includeHeaders", False),
        group=group,
        reads_committed=options.choice("kafka.isolation.level", _ISOLATION) == "read_committed",
        fetch_bytes=options.count("kafka.max.partition.fetch.bytes") or 8 * 2**20,
        pushes_filters=options.flag("pushFilters", False),
    )


def write_options(given: Mapping[str, str], method: str) -> WriteOptions:
    """
    Understand the options of C{df.write} or C{df.writeStream}.

    @raise BadOption: they can not be understood.
    """
    options = _Given(given, method)
    client = options.client()
    if client is None:
        raise BadOption(BOOTSTRAP, "it is missing: there is nothing to write to")
    return WriteOptions(
        client=client,
        topic=options.text("topic"),
        includes_timestamp=options.flag("includeTimestamp", False),
        codec=_codec(options),
        batch_bytes=options.count("kafka.batch.size") or 256 * 1024,
        application=options.text("applicationId"),
        batch=_batch(options),
        staging=_staging(options, method),
    )


# -- reading -------------------------------------------------------------------------


def _subscription(options: _Given) -> Subscription:
    names = ("subscribe", "subscribePattern", "assign")
    options.only_one_of(*names)
    if (pattern := options.text("subscribePattern")) is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise BadOption("subscribePattern", f"{pattern!r} is not a regular expression: {error}") from None
        return Pattern(pattern)
    if (partitions := options.text("assign")) is not None:
        return Assigned(parse_assignment("assign", partitions))
    topics = options.text("subscribe")
    if topics is None:
        raise BadOption("subscribe", f"one of {', '.join(names)} is needed")
    found = tuple(dict.fromkeys(each.strip() for each in topics.split(",") if each.strip()))
    if not found:
        raise BadOption("subscribe", f"{topics!r} names no topic")
    return Topics(found)


def _starting(options: _Given, method: str) -> Position:
    """The order is Spark's: a time for all comes before times for each, and these before offsets."""
    strategy = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"))
    at_time = _at_time(options, "startingTimestamp", "startingOffsetsByTimestamp", strategy == "latest")
    if at_time is not None:
        return at_time
    is_stream = method == READ_STREAM
    words = {"earliest": EARLIEST, "latest": LATEST} if is_stream else {"earliest": EARLIEST}
    default = "latest" if is_stream else "earliest"
    return parse_offsets("startingOffsets", options.text("startingOffsets") or default, words=words)


def _ending(options: _Given) -> Position:
    at_time = _at_time(options, "endingTimestamp", "endingOffsetsByTimestamp", True)
    if at_time is not None:
        return at_time
    return parse_offsets("endingOffsets", options.text("endingOffsets") or "latest", words={"latest": LATEST})


def _at_time(options: _Given, everywhere: str, by_partition: str, falls_back: bool) -> AtTimes | None:
    if (text := options.text(everywhere)) is not None:
        if not text.isdecimal():
            raise BadOption(everywhere, f"{text!r} is not a number of milliseconds since 1970")
        return AtTimes(everywhere, everywhere=int(text), falls_back=falls_back)
    if (text := options.text(by_partition)) is not None:
        return AtTimes(by_partition, by_partition=parse_numbers(by_partition, text), falls_back=falls_back)
    return None


# -- writing -------------------------------------------------------------------------


def _codec(options: _Given) -> Codec:
    both = ("compression", "kafka.compression.type")
    options.only_one_of(*both)
    names = tuple(each.name.lower() for each in Codec)
    name = options.choice(both[1], names, default="") or options.choice(both[0], names)
    return Codec[name.upper()]


def _batch(options: _Given) -> int | None:
    text = options.text("batchId")
    if text is None:
        return None
    if not text.isdecimal():
        raise BadOption("batchId", f"{text!r} is not the number of a batch")
    for other in ("applicationId", "stagingLocation"):
        if options.text(other) is None:
            raise BadOption("batchId", f"writing a batch only once needs {other} as well")
    return int(text)


def _staging(options: _Given, method: str) -> str | None:
    staging = options.text("stagingLocation")
    if method == vocabulary.WRITE:
        return None if staging is None else _local_path("stagingLocation", staging)
    if options.choice("delivery", ("exactly-once", "at-least-once")) == "at-least-once":
        for other in ("stagingLocation", "applicationId"):
            if options.text(other) is not None:
                raise BadOption(other, "it means nothing with delivery=at-least-once")
        return None
    if staging is not None:
        return _local_path("stagingLocation", staging)
    checkpoint = options.text("checkpointLocation")
    if checkpoint is None:
        raise BadOption(
            "checkpointLocation",
            "it is missing: what is not published yet is kept there, or in stagingLocation",
        )
    return _local_path("checkpointLocation", checkpoint).rstrip("/") + "/rustlog-staging"


def _local_path(option: str, location: str) -> str:
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return location
    if scheme == "file":
        return "/" + rest.lstrip("/")
    raise BadOption(
        option,
        f"{location} is not a directory of a file system that driver and workers share; "
        "name one with stagingLocation, or say delivery=at-least-once",
    )


# -- names and values ----------------------------------------------------------------


class _Given:
    """Options as they were given, in lower case as Spark hands them over."""

    def __init__(self, given: Mapping[str, str], method: str) -> None:
        self._values = {name.lower(): str(value) for name, value in given.items()}
        self._uses = {each.name.lower(): each.uses for each in vocabulary.OPTIONS}
        self._uses.update((PREFIX + each.name, each.uses) for each in vocabulary.CLIENT_SETTINGS)
        for name in self._values:
            self._check_name(name, method)

    def _check_name(self, name: str, method: str) -> None:
        if name in self._uses:
            if method not in self._uses[name]:
                uses = " and ".join(self._uses[name])
                raise BadOption(spelled(name), f"it means nothing for {method}, only for {uses}")
            return
        setting = name.removeprefix(PREFIX) if name.startswith(PREFIX) else None
        if setting in vocabulary.CLIENT_SETTINGS_REFUSED:
            raise BadOption(spelled(name), vocabulary.CLIENT_SETTINGS_REFUSED[setting])
        if spelled(name) in vocabulary.WITHOUT_EFFECT or setting in vocabulary.CLIENT_SETTINGS_WITHOUT_EFFECT:
            return
        raise BadOption(name, "there is no such option" + did_you_mean(name, vocabulary.known_names()))

    def only_one_of(self, *names: str) -> None:
        """At most one of them may be there."""
        there = [each for each in names if each.lower() in self._values]
        if len(there) > 1:
            raise BadOption(there[0], f"it can not be together with {there[1]}")

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        if value is not None and not value.strip():
            raise BadOption(name, "it is empty")
        return value

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def choice(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        value = self.text(name)
        if value is None:
            return choices[0] if default is None else default
        if value.lower() not in choices:
            raise BadOption(name, f"{value!r} is none of {', '.join(choices)}{did_you_mean(value, choices)}")
        return value.lower()

    def count(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.strip().isdecimal() or int(value) < 1:
            raise BadOption(name, f"{value!r} is not a positive number")
        return int(value)

    def seconds(self, name: str, default: float) -> float:
        value = self.text(name)
        if value is None:
            return default
        match = _DURATION.fullmatch(value.strip().lower())
        if match is None:
            raise BadOption(name, f"{value!r} is not a time like 30s, 5m or 1h")
        return int(match["number"]) * _SECONDS[match["unit"]]

    def client(self) -> ClientSettings | None:
        """Those of the Kafka client, if there are brokers."""
        self.choice("kafka.acks", ("all", "-1"))
        self.choice("kafka.enable.idempotence", ("true",))
        if self.text(BOOTSTRAP) is None:
            return None
        understood = {PREFIX + each.name for each in vocabulary.CLIENT_SETTINGS if each.is_for_client}
        understood.add(BOOTSTRAP)
        return ClientSettings.from_options(
            {name: value for name, value in self._values.items() if name in understood}
        )
