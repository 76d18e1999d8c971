"""
Produce: batches go to the log as they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import cast

from twisted.logger import Logger

from rustlog.broker import Appends
from rustlog.errors import CorruptBatch, InvalidRecord, RustlogError
from rustlog.log.batch import HEADER_SIZE, MAGIC, Buffer, RecordBatch, batch_size
from rustlog.log.codecs import Codec as Compression
from rustlog.model import Appended, TopicInfo, TopicPartition
from rustlog.results import Result, then
from rustlog.wire.answers import NO_ANSWER, Answer
from rustlog.wire.kafka import produce as codec
from rustlog.wire.kafka.autocreation import Found, find_topics
from rustlog.wire.kafka.calls import Api, Call, HangUp
from rustlog.wire.kafka.errors import ErrorCode, Refused, code_for, message_for
from rustlog.wire.kafka.produce import (
    PartitionResult,
    ProduceRequest,
    ProduceResponse,
    TopicRecords,
    TopicResult,
)

_log = Logger()

_MAGIC_AT = 16
_ZSTD_SINCE = 7
_FLEXIBLE = 9
_ACKS = (-1, 0, 1)

Outcome = Appended | RustlogError


class ProduceCodec:
    """See L{rustlog.wire.kafka.produce}."""

    def is_flexible(self, api: Api, version: int) -> bool:
        return version >= _FLEXIBLE

    answers_flexibly = is_flexible

    def decode(self, api: Api, version: int, data: bytes, position: int) -> ProduceRequest:
        return codec.decode_request(version, data, position)

    def encode(self, api: Api, version: int, response: ProduceResponse | None, head: bytes) -> Answer:
        return NO_ANSWER if response is None else codec.encode_response(version, response, head)

    def refuse(self, api: Api, version: int, code: ErrorCode) -> None:
        """Errors are told of partitions only."""


def produce(call: Call) -> Result[ProduceResponse | None]:
    """Append what can be appended, and say of each partition what became of it; or nothing, if acks is 0."""
    request: ProduceRequest = call.request
    refusal = _refusal(request)
    if refusal is not None:
        return _respond(call, request, [refusal] * sum(len(each.partitions) for each in request.topics))
    names = [_name(call, topic) for topic in request.topics]
    found = find_topics(call, [each for each in names if isinstance(each, str)], may_create=True)
    return then(found, partial(_append, call, names))  # type: ignore[arg-type]


def _refusal(request: ProduceRequest) -> Refused | None:
    """Why nothing of a request is accepted."""
    if request.acks not in _ACKS:
        return Refused(ErrorCode.invalid_required_acks, f"acks must be -1, 0 or 1, not {request.acks}")
    if request.transactional_id is not None:
        # One that clients do not try again after.
        return Refused(ErrorCode.transactional_id_authorization_failed, "transactions are not supported")
    return None


def _name(call: Call, topic: TopicRecords) -> str | Refused:
    """The name of a topic, which newer versions do not say."""
    if topic.topic_id is None:
        return topic.name
    info = call.services.broker.topic_by_id(call.context, topic.topic_id)
    if info is None:
        return Refused(ErrorCode.unknown_topic_id, f"there is no topic of the id {topic.topic_id}")
    return info.name


def _append(call: Call, names: list[str | Refused], found: Found) -> Result[ProduceResponse | None]:
    entries: list[tuple[TopicPartition, RecordBatch]] = []
    outcomes: list[Outcome | None] = []
    for topic, name in zip(call.request.topics, names, strict=True):
        info = name if isinstance(name, Refused) else found[name]
        for index, records in topic.partitions:
            try:
                batch = _batch(call.version, records, info)
            except RustlogError as error:
                outcomes.append(error)
            else:
                entries.append((TopicPartition(cast(str, name), index), batch))
                outcomes.append(None)
    if not entries:
        return _respond(call, call.request, cast("list[Outcome]", outcomes))
    appended = call.services.broker.produce(call.context, entries)
    return then(appended, partial(_place, call, outcomes))


def _batch(version: int, records: Buffer | None, topic: TopicInfo | RustlogError) -> RecordBatch:
    """
    The one batch that a partition is sent, if it is sound and there is a place for it.

    Kafka takes exactly one of the current format, since version 3 of the request.
    """
    if isinstance(topic, RustlogError):
        raise topic
    if not records:
        raise InvalidRecord("there is no record batch")
    if len(records) < HEADER_SIZE:
        raise CorruptBatch(f"{len(records)} bytes are less than the header of a batch")
    if records[_MAGIC_AT] != MAGIC:
        raise InvalidRecord(f"the batch is of format {records[_MAGIC_AT]}; only {MAGIC} is accepted")
    if batch_size(records) < len(records):
        raise InvalidRecord("there is more than one record batch")
    batch = RecordBatch(records)
    batch.check()
    if batch.codec > max(Compression) or (batch.codec == Compression.ZSTD and version < _ZSTD_SINCE):
        raise Refused(
            ErrorCode.unsupported_compression_type,
            f"compression {batch.codec} is not known in version {version}",
        )
    return batch


def _place(call: Call, outcomes: list[Outcome | None], appended: Appends) -> ProduceResponse | None:
    """Put what the broker did to the places where nothing was wrong before."""
    done = iter(appended)
    complete = [next(done) if each is None else each for each in outcomes]
    return _respond(call, call.request, complete)


def _respond(call: Call, request: ProduceRequest, outcomes: list[Outcome]) -> ProduceResponse | None:
    if call.services.is_traced:
        _trace(call, request, outcomes)
    if request.acks == 0:
        _say_nothing(outcomes)
        return None
    remaining = iter(outcomes)
    return ProduceResponse([_topic_result(topic, remaining) for topic in request.topics])


def _say_nothing(outcomes: list[Outcome]) -> None:
    """Who does not want to hear, and would have to, is disconnected, so that it looks around anew."""
    errors = [each for each in outcomes if isinstance(each, RustlogError)]
    if errors:
        raise HangUp(f"it wants no acknowledgement, and a produce request failed: {errors[0]}")


def _topic_result(topic: TopicRecords, outcomes: Iterator[Outcome]) -> TopicResult:
    results = [_result(index, next(outcomes)) for index, _ in topic.partitions]
    return TopicResult(topic.name, topic.topic_id, results)


def _result(index: int, outcome: Outcome) -> PartitionResult:
    if isinstance(outcome, Appended):
        return PartitionResult(index, 0, outcome.base_offset, outcome.append_time, outcome.log_start_offset)
    return PartitionResult(index, code_for(outcome), error_message=message_for(outcome))


def _trace(call: Call, request: ProduceRequest, outcomes: list[Outcome]) -> None:
    remaining = iter(outcomes)
    for topic in request.topics:
        name = topic.name or str(topic.topic_id)
        _log.debug("Produce request for topic: {topic}", topic=name)
        for index, records in topic.partitions:
            outcome = next(remaining)
            call.work.topic, call.work.partition = name, index
            if isinstance(outcome, Appended):
                call.work.records += RecordBatch(records or b"").record_count
                _log.debug(
                    "Message stored at offset {offset} in topic {topic}",
                    offset=outcome.base_offset,
                    topic=name,
                )
            else:
                _log.debug("Nothing stored in topic {topic}: {reason}", topic=name, reason=str(outcome))


APIS = (
    Api(
        codec.KEY,
        "Produce",
        # Older versions than are served: clients that find none of them take the broker for one
        # that can not decompress.
        0,
        codec.MAX_VERSION,
        produce,
        served_min_version=codec.MIN_VERSION,
        overlaps=True,
        codec=ProduceCodec(),
    ),
)
