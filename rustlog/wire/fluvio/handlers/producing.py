"""
Produce: batches are translated, and go to the log.

Both kinds of acknowledgement promise what C{--sync} says.  As with Fluvio's own units, who waits for
the commit is told when that takes longer than he wants to wait; what he sent may be kept all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from twisted.internet.defer import Deferred

from rustlog.broker import Appends
from rustlog.errors import InvalidRecord, RustlogError
from rustlog.log.batch import RecordBatch
from rustlog.model import Appended, TopicPartition
from rustlog.results import Result, then
from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.batches import to_log
from rustlog.wire.fluvio.calls import Call, module_refusal
from rustlog.wire.fluvio.errors import (
    Refused,
    code_for,
    message_for,
    other,
    request_timed_out,
)
from rustlog.wire.fluvio.produce import (
    PartitionRecords,
    PartitionResult,
    ProduceRequest,
    ProduceResponse,
    TopicResult,
)

WRITTEN, COMMITTED = 1, -1
"""Of C{acks}: when a producer wants to be answered."""

Outcome = Appended | RustlogError
Judged = list[RecordBatch] | RustlogError
"""What is to be appended for an entry of the request; or why nothing is, not even a part of it."""


def produce(call: Call) -> Result[ProduceResponse]:
    """Append what can be appended, and say of each entry what became of it."""
    request: ProduceRequest = call.request
    refused = _refusal(request)
    judged: list[Judged] = []
    entries: list[tuple[TopicPartition, RecordBatch]] = []
    for topic in request.topics:
        for each in topic.partitions:
            name = TopicPartition(topic.name, each.index)
            batches = refused or _batches(call, name, each)
            judged.append(batches)
            if not isinstance(batches, RustlogError):
                entries += ((name, batch) for batch in batches)
    call.work.records = sum(batch.record_count for _, batch in entries)
    appended: Result[Appends] = call.services.broker.produce(call.context, entries) if entries else []
    answer = then(appended, lambda answers: _respond(call, _outcomes(judged, answers)))
    return _in_time(call, len(judged), answer) if type(answer) is Deferred else answer


def _refusal(request: ProduceRequest) -> RustlogError | None:
    """Why nothing of a request is accepted."""
    if request.transactional_id is not None:
        return _refused("transactions are not supported")
    if request.acks not in (WRITTEN, COMMITTED):
        return _refused(f"the isolation must be {WRITTEN} or {COMMITTED}, not {request.acks}")
    return module_refusal(request.smart_modules)


def _refused(sentence: str) -> Refused:
    return Refused(other(sentence), sentence)


def _batches(call: Call, name: TopicPartition, entry: PartitionRecords) -> Judged:
    try:
        call.services.broker.bounds(call.context, name)  # Without a place for them, they are not looked at.
        batches = to_log(entry.batches, call.services.wall.now_ms())
    except RustlogError as error:
        return error
    return batches or InvalidRecord("there is no record batch")


def _outcomes(judged: list[Judged], appended: Appends) -> Iterator[Outcome]:
    """For each entry what became of its first batch, or why one of them was refused."""
    answers = iter(appended)
    for each in judged:
        if isinstance(each, RustlogError):
            yield each
        else:
            mine = [next(answers) for _ in each]
            yield next((answer for answer in mine if isinstance(answer, RustlogError)), mine[0])


def _in_time(call: Call, count: int, answer: Deferred[ProduceResponse]) -> Deferred[ProduceResponse]:
    """The answer; or, for one who wants to wait no longer, that it takes too long."""
    timeout_ms = call.request.timeout_ms
    if call.request.acks != COMMITTED or timeout_ms <= 0:
        return answer
    outer: Deferred[ProduceResponse] = Deferred()

    def give_up() -> None:
        late = Refused(request_timed_out(timeout_ms), f"it was not committed within {timeout_ms} ms")
        outer.callback(_respond(call, iter([late] * count)))

    timer = call.services.clock.callLater(timeout_ms / 1000, give_up)

    def is_in_time(_: object) -> bool:
        if outer.called:
            return False
        timer.cancel()
        return True

    answer.addCallbacks(
        lambda response: outer.callback(response) if is_in_time(response) else None,
        lambda failure: outer.errback(failure) if is_in_time(failure) else None,
    )
    return outer


# -- answers ---------------------------------------------------------------------------


def _respond(call: Call, outcomes: Iterator[Outcome]) -> ProduceResponse:
    """One result for each entry, in their order: clients know them by that."""

    def result(topic: str, index: int) -> PartitionResult:
        outcome = next(outcomes)
        call.work.topic, call.work.partition = topic, index
        if isinstance(outcome, Appended):
            offset, time, start = outcome.base_offset, outcome.append_time, outcome.log_start_offset
            return PartitionResult(index, base_offset=offset, log_append_time_ms=time, log_start_offset=start)
        code = code_for(outcome)
        call.work.outcome, call.work.error = message_for(outcome), code.name
        return PartitionResult(index, code)

    return ProduceResponse(
        tuple(
            [
                TopicResult(each.name, tuple([result(each.name, entry.index) for entry in each.partitions]))
                for each in call.request.topics
            ]
        )
    )


HANDLERS = {apis.PRODUCE: produce}
