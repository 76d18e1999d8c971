"""
DeleteRecords: forgetting the beginning of a partition.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from rustlog.model import TopicPartition
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import code_for
from rustlog.wire.kafka.handlers.gathering import Fields, answer_partitions
from rustlog.wire.kafka.schema import Entity

DELETE_RECORDS = 21

HIGH_WATERMARK = -1
"""Instead of an offset: everything that there is."""


def delete_records(call: Call) -> Deferred[Entity]:
    """Forget the records before an offset, in each partition."""

    def answer(topic: str, partition: Any) -> Deferred[Fields]:
        before = None if partition.offset == HIGH_WATERMARK else partition.offset
        name = TopicPartition(topic, partition.partition_index)
        start = call.services.broker.administration.delete_records(call.context, name, before)
        return start.addCallback(
            lambda offset: {"partition_index": partition.partition_index, "low_watermark": offset}
        )

    def refuse(partition: Any, error: Exception) -> Fields:
        return {
            "partition_index": partition.partition_index,
            "low_watermark": -1,
            "error_code": code_for(error),
        }

    deleted = answer_partitions(call.request.topics, answer, refuse)
    return deleted.addCallback(lambda answers: call.respond(topics=answers))


APIS = (Api(DELETE_RECORDS, "DeleteRecords", 0, 2, delete_records),)
