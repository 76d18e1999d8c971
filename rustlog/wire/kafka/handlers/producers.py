"""
InitProducerId and DescribeProducers: producers that may send again what was perhaps lost.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from rustlog.model import ProducerDescription, TopicPartition
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import ErrorCode, code_for, message_for
from rustlog.wire.kafka.handlers.gathering import Fields, answer_partitions
from rustlog.wire.kafka.schema import Entity

INIT_PRODUCER_ID = 22
DESCRIBE_PRODUCERS = 61

NO_TRANSACTION = -1


def init_producer_id(call: Call) -> Entity | Deferred[Entity]:
    """
    An id for a producer that numbers what it sends.

    Whatever id it had before, it gets a new one, of which no partition knows a sequence.  As there are no
    transactions, a transactional id is refused: by the code at which every client gives up at once, and
    raises, where others make some of them try again for ever.
    """
    if call.request.transactional_id is not None:
        return call.respond(error_code=ErrorCode.transactional_id_authorization_failed, producer_epoch=-1)
    taken = call.services.broker.new_producer_id(call.context)
    return taken.addCallback(lambda producer_id: call.respond(producer_id=producer_id, producer_epoch=0))


def describe_producers(call: Call) -> Deferred[Entity]:
    """The idempotent producers that partitions remember."""

    def answer(topic: str, index: int) -> Deferred[Fields]:
        found = call.services.broker.administration.producers(call.context, TopicPartition(topic, index))
        return found.addCallback(
            lambda producers: {"partition_index": index, "active_producers": map(_producer, producers)}
        )

    def refuse(index: Any, error: Exception) -> Fields:
        return {
            "partition_index": index,
            "error_code": code_for(error),
            "error_message": message_for(error),
            "active_producers": (),
        }

    topics = call.request.topics
    described = answer_partitions(topics, answer, refuse, partitions="partition_indexes")
    return described.addCallback(lambda answers: call.respond(topics=answers))


def _producer(described: ProducerDescription) -> Fields:
    return {
        "producer_id": described.producer_id,
        "producer_epoch": described.epoch,
        "last_sequence": described.last_sequence,
        "last_timestamp": described.last_append_ms,
        "coordinator_epoch": NO_TRANSACTION,
        "current_txn_start_offset": NO_TRANSACTION,
    }


APIS = (
    Api(INIT_PRODUCER_ID, "InitProducerId", 0, 6, init_producer_id),
    Api(DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, describe_producers),
)
