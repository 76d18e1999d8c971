"""
Fetch: batches go to the client as they are stored.

There are no fetch sessions: who asks for one gets the answer to a full fetch, and the session id 0,
which means that it got none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from attrs import define, field
from twisted.logger import Logger

from rustlog.errors import OffsetOutOfRange, RustlogError
from rustlog.interfaces import ISlice
from rustlog.log.batch import split_batches
from rustlog.longpoll import Answers
from rustlog.model import Fetched, FetchWant, Isolation, TopicPartition
from rustlog.results import Result, then
from rustlog.settings import UNLIMITED
from rustlog.wire.answers import Answer, Part
from rustlog.wire.kafka import fetch as codec
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import ErrorCode, Refused, code_for
from rustlog.wire.kafka.fetch import (
    FetchRequest,
    FetchResponse,
    PartitionRecords,
    PartitionWant,
    TopicRecords,
    TopicWant,
)

_log = Logger()

_FLEXIBLE = 12


class FetchCodec:
    """See L{rustlog.wire.kafka.fetch}."""

    def is_flexible(self, api: Api, version: int) -> bool:
        return version >= _FLEXIBLE

    answers_flexibly = is_flexible

    def decode(self, api: Api, version: int, data: bytes, position: int) -> FetchRequest:
        return codec.decode_request(version, data, position)

    def encode(self, api: Api, version: int, response: FetchResponse, head: bytes) -> Answer:
        return codec.encode_response(version, response, head)

    def refuse(self, api: Api, version: int, code: ErrorCode) -> FetchResponse | None:
        """Older versions have no place for it."""
        return FetchResponse([], error_code=code) if version >= codec.HAS_SESSIONS else None


@define(eq=False)
class _Plan:
    """
    What is to be read.

    @ivar results: one for each partition, in the order of the request; C{None} where it is to be read.
    @ivar wants: what is to be read.
    @ivar places: of C{wants}, in C{results}.
    """

    results: list[PartitionRecords | None] = field(factory=list)
    wants: list[FetchWant] = field(factory=list)
    places: list[int] = field(factory=list)

    def rotate(self, turn: int) -> None:
        """Begin with another one each time: the first ones may use up all that an answer may hold."""
        if len(self.wants) > 1:
            start = turn % len(self.wants)
            self.wants = self.wants[start:] + self.wants[:start]
            self.places = self.places[start:] + self.places[:start]


def fetch(call: Call) -> Result[FetchResponse]:
    """Read what there is, and wait for it if that is asked for."""
    request: FetchRequest = call.request
    if request.session_epoch > 0:
        return FetchResponse([], error_code=ErrorCode.fetch_session_id_not_found)
    if request.isolation_level not in (0, 1):
        raise Refused(ErrorCode.invalid_request, f"there is no isolation level {request.isolation_level}")
    plan = _Plan()
    for topic in request.topics:
        _plan_topic(call, plan, topic)
    plan.rotate(next(call.services.turns))
    is_judged = len(plan.wants) < len(plan.results)
    answers = call.services.broker.fetch(
        call.context,
        plan.wants,
        max_bytes=max(0, min(request.max_bytes, call.services.settings.fetch_max_bytes)),
        min_bytes=request.min_bytes,
        max_wait_ms=0 if is_judged else request.max_wait_ms,
        isolation=Isolation(request.isolation_level),
    )
    return then(answers, partial(_respond, call, plan))


def _plan_topic(call: Call, plan: _Plan, topic: TopicWant) -> None:
    name: str | None = topic.name
    if topic.topic_id is not None:
        info = call.services.broker.topic_by_id(call.context, topic.topic_id)
        name = None if info is None else info.name
    for want in topic.partitions:
        code = ErrorCode.unknown_topic_id if name is None else _judge_epoch(call, name, want)
        if code is None and name is not None:
            plan.places.append(len(plan.results))
            plan.wants.append(FetchWant(name, want.index, want.offset, max(0, want.max_bytes)))
        plan.results.append(None if code is None else PartitionRecords(want.index, code))


def _judge_epoch(call: Call, name: str, want: PartitionWant) -> ErrorCode | None:
    """What is wrong with what the client knows of the partition's leader, if it says what."""
    if want.leader_epoch < 0:
        return None
    try:
        epoch = call.services.broker.leader_epoch(call.context, TopicPartition(name, want.index))
    except RustlogError as error:
        return code_for(error)
    if want.leader_epoch < epoch:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.unknown_leader_epoch if want.leader_epoch > epoch else None


# -- answers ---------------------------------------------------------------------------


def _respond(call: Call, plan: _Plan, answers: Answers) -> FetchResponse:
    if call.services.is_traced:
        _trace(call, plan, answers)
    wants_aborted = call.request.isolation_level == Isolation.READ_COMMITTED.value
    results: list[Any] = list(plan.results)
    for place, want, answer in zip(plan.places, plan.wants, answers, strict=True):
        results[place] = _found(want.partition, answer, wants_aborted)
    limit = call.services.settings.fetch_max_records
    if limit != UNLIMITED:
        _limit_records((results[place] for place in plan.places), limit)
    remaining = iter(results)
    return FetchResponse([_topic(topic, remaining) for topic in call.request.topics])


def _topic(topic: TopicWant, results: Iterator[PartitionRecords]) -> TopicRecords:
    return TopicRecords(topic.name, topic.topic_id, [next(results) for _ in topic.partitions])


def _found(index: int, answer: Fetched | RustlogError, wants_aborted: bool) -> PartitionRecords:
    if isinstance(answer, Fetched):
        return PartitionRecords(
            index,
            0,
            answer.high_watermark,
            answer.last_stable_offset,
            answer.log_start_offset,
            answer.aborted if wants_aborted else None,
            answer.slices,
            answer.size,
        )
    result = PartitionRecords(index, code_for(answer))
    if isinstance(answer, OffsetOutOfRange):
        result.high_watermark = result.last_stable_offset = answer.high_watermark
        result.log_start_offset = answer.log_start_offset
    return result


# -- a limit that Kafka does not have --------------------------------------------------


def _limit_records(found: Iterable[PartitionRecords], limit: int) -> None:
    """Leave no more records than that, in whole batches; but at least one batch."""
    left, is_first = limit, True
    for each in found:
        if each.size:
            left -= _cut(each, left, is_first)
            is_first = False


def _cut(found: PartitionRecords, limit: int, at_least_one: bool) -> int:
    """Leave only the beginning; how many records that has."""
    kept: list[Part] = []
    total = 0
    is_full = False
    for each in cast("Sequence[ISlice]", found.records):
        content = each.buffer()
        end = 0
        for batch in split_batches(content):
            is_full = is_full or (total + batch.record_count > limit and (total > 0 or not at_least_one))
            if is_full:
                break
            total += batch.record_count
            end += batch.size
        kept.append(content[:end])
        each.release()
    found.records, found.size = kept, sum(map(len, cast("list[bytes]", kept)))
    return total


# -- what is told at DEBUG -------------------------------------------------------------


def _trace(call: Call, plan: _Plan, answers: Answers) -> None:
    for want, answer in zip(plan.wants, answers, strict=True):
        _log.debug(
            "Fetch request for topic: {topic}, offset: {offset}, max_bytes: {max_bytes}",
            topic=want.topic,
            offset=want.offset,
            max_bytes=want.max_bytes,
        )
        call.work.topic, call.work.partition = want.topic, want.partition
        if isinstance(answer, Fetched):
            count = _count(answer.slices)
            call.work.records += count
            _log.debug("Retrieved {count} messages from topic {topic}", count=count, topic=want.topic)
        else:
            _log.debug("Nothing retrieved from topic {topic}: {reason}", topic=want.topic, reason=str(answer))


def _count(slices: Iterable[ISlice]) -> int:
    return sum(batch.record_count for each in slices for batch in split_batches(each.buffer()))


APIS = (
    Api(
        codec.KEY,
        "Fetch",
        codec.MIN_VERSION,
        codec.MAX_VERSION,
        fetch,
        is_cancellable=True,
        codec=FetchCodec(),
    ),
)
