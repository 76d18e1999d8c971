"""
Where reading begins and ends, as options say it: everywhere alike, or for each partition.

The JSON is that of Spark's Kafka source, C{{"topic":{"partition":number}}}; the numbers are offsets, of
which -2 means the earliest and -1 the latest, or milliseconds since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, Union

from attrs import frozen

from rustlog.model import TopicPartition
from rustlog.spark.errors import BadOption

EARLIEST = -2
LATEST = -1

Offsets = dict[TopicPartition, int]


@frozen
class AtOffsets:
    """
    An offset for each partition, or one that means the same for all.

    @ivar option: that has said so, for messages.
    """

    option: str
    by_partition: Mapping[TopicPartition, int] | None = None
    everywhere: int = EARLIEST


@frozen
class AtTimes:
    """The first record that is not older than a time."""

    option: str
    by_partition: Mapping[TopicPartition, int] | None = None
    everywhere: int = 0
    falls_back: bool = True
    """Whether, where no record is that young, the end of the partition is meant; otherwise it is an error."""


Position = Union[AtOffsets, AtTimes]


class Bounds(Protocol):
    """What there is to know of a log to find a position in it."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offsets that can be read."""
        ...

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offsets behind the last that can be read."""
        ...

    def at_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offsets of the first records that are not older; C{None} where there are none."""
        ...


# -- text ----------------------------------------------------------------------------


def parse_offsets(option: str, text: str, *, words: Mapping[str, int]) -> AtOffsets:
    """
    Understand C{earliest}, C{latest}, or JSON.

    @param words: those that are allowed, and what they stand for.
    @raise BadOption: it is something else.
    """
    word = text.strip().lower()
    if word in words:
        return AtOffsets(option, everywhere=words[word])
    if word in ("earliest", "latest"):
        raise BadOption(option, f"{word} leaves nothing to read")
    alternatives = " or ".join([*words, "JSON like " + '{"topic":{"0":23}}'])
    offsets = parse_numbers(option, text, alternatives)
    for partition, offset in offsets.items():
        if offset < 0 and offset not in words.values():
            raise BadOption(option, f"{offset} is not an offset at which {partition} can be asked for here")
    return AtOffsets(option, by_partition=offsets)


def parse_numbers(option: str, text: str, expected: str = 'JSON like {"topic":{"0":23}}') -> Offsets:
    """
    Understand a number for each partition.

    @raise BadOption: it is something else.
    """
    document = _parse_json(option, text, expected)
    found: Offsets = {}
    for topic, numbers in document.items():
        if not isinstance(numbers, dict):
            raise BadOption(option, f"expected {expected}, not {text!r}")
        for partition, number in numbers.items():
            if not partition.isdecimal() or type(number) is not int:
                raise BadOption(option, f"expected {expected}, not {partition!r}: {number!r}")
            found[TopicPartition(topic, int(partition))] = number
    return found


def parse_assignment(option: str, text: str) -> tuple[TopicPartition, ...]:
    """
    Understand C{{"topic":[0,1]}}.

    @raise BadOption: it is something else.
    """
    expected = 'JSON like {"topic":[0,1]}'
    found = []
    for topic, partitions in _parse_json(option, text, expected).items():
        numbers: list[Any] = partitions if isinstance(partitions, list) else [None]
        if not all(type(each) is int and each >= 0 for each in numbers):
            raise BadOption(option, f"expected {expected}, not {text!r}")
        found += [TopicPartition(topic, each) for each in numbers]
    if not found:
        raise BadOption(option, "it names no partition")
    return tuple(sorted(set(found)))


def _parse_json(option: str, text: str, expected: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise BadOption(option, f"expected {expected}, not {text!r}")
    return document


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets as Spark keeps them in a checkpoint; the same ones are always written alike."""
    document: dict[str, dict[str, int]] = {}
    for each in sorted(offsets):
        document.setdefault(each.topic, {})[str(each.partition)] = offsets[each]
    return document


def from_json(document: Mapping[str, Mapping[str, int]]) -> Offsets:
    """What L{to_json} has written."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, offsets in document.items()
        for partition, offset in offsets.items()
    }


# -- the log -------------------------------------------------------------------------


def resolve(position: Position, partitions: Iterable[TopicPartition], log: Bounds) -> Offsets:
    """
    The offset that a position means in each of some partitions.

    @raise BadOption: it says nothing of one of them, or speaks of another.
    """
    wanted = sorted(partitions)
    if position.by_partition is not None:
        _same_partitions(position.option, position.by_partition, wanted)
    by_partition = position.by_partition or dict.fromkeys(wanted, position.everywhere)
    if isinstance(position, AtTimes):
        return _resolve_times(position, by_partition, log)
    return _resolve_offsets(by_partition, log)


def _resolve_offsets(offsets: Mapping[TopicPartition, int], log: Bounds) -> Offsets:
    found = dict(offsets)
    asks: dict[int, Callable[[Iterable[TopicPartition]], Offsets]] = {
        EARLIEST: log.earliest,
        LATEST: log.latest,
    }
    for meaning, ask in asks.items():
        asked = [each for each, offset in offsets.items() if offset == meaning]
        if asked:
            found.update(ask(asked))
    return found


def _resolve_times(position: AtTimes, times: Mapping[TopicPartition, int], log: Bounds) -> Offsets:
    found = log.at_time(times)
    missing = [each for each, offset in found.items() if offset is None]
    if missing and not position.falls_back:
        raise BadOption(
            position.option,
            f"no record of {', '.join(map(str, missing))} is that young; "
            "startingOffsetsByTimestampStrategy=latest begins at the end there",
        )
    ends = log.latest(missing) if missing else {}
    return {each: ends[each] if offset is None else offset for each, offset in found.items()}


def _same_partitions(
    option: str, named: Iterable[TopicPartition], wanted: Iterable[TopicPartition]
) -> None:
    missing = set(wanted) - set(named)
    if missing:
        raise BadOption(option, f"it says nothing of {', '.join(map(str, sorted(missing)))}")
    others = set(named) - set(wanted)
    if others:
        raise BadOption(option, f"{', '.join(map(str, sorted(others)))} is not among what is read")
