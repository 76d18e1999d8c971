"""
DescribeCluster and DescribeLogDirs: which brokers there are, and what takes how much room.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks

from rustlog.errors import PartitionNotFound, TopicNotFound
from rustlog.model import TopicPartition
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.handlers.gathering import Fields
from rustlog.wire.kafka.operations import CLUSTER_OPERATIONS, UNSAID_OPERATIONS
from rustlog.wire.kafka.schema import Entity

DESCRIBE_LOG_DIRS = 35
DESCRIBE_CLUSTER = 60

BROKERS, CONTROLLERS = 1, 2
"""Types of endpoints."""


def describe_cluster(call: Call) -> Entity:
    """The one broker that there is, at the address where this client finds it."""
    services, request = call.services, call.request
    endpoint_type = getattr(request, "endpoint_type", BROKERS)
    if endpoint_type != BROKERS:
        return call.respond(
            error_code=_wrong_endpoint(endpoint_type),
            error_message="this is a broker, and nothing else",
            endpoint_type=endpoint_type,
            cluster_id=services.cluster_id,
            brokers=(),
        )
    host, port = services.advertised
    may_know = request.include_cluster_authorized_operations
    return call.respond(
        endpoint_type=endpoint_type,
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
        brokers=[{"broker_id": services.node_id, "host": host, "port": port}],
        cluster_authorized_operations=CLUSTER_OPERATIONS if may_know else UNSAID_OPERATIONS,
    )


def _wrong_endpoint(endpoint_type: int) -> ErrorCode:
    if endpoint_type == CONTROLLERS:
        return ErrorCode.mismatched_endpoint_type
    return ErrorCode.unsupported_endpoint_type


# -- DescribeLogDirs -------------------------------------------------------------------


@inlineCallbacks
def describe_log_dirs(call: Call) -> Generator[Deferred[Any], Any, Entity]:
    """What partitions take on disk.  All of them are in one place; those that do not exist are left out."""
    administration = call.services.broker.administration
    storage = yield administration.storage(call.context)
    topics: dict[str, list[Fields]] = {}
    for name in _wanted(call):
        try:
            description = yield administration.describe_partition(call.context, name)
        except (PartitionNotFound, TopicNotFound):
            continue
        found = {"partition_index": name.partition, "partition_size": description.size, "offset_lag": 0}
        topics.setdefault(name.topic, []).append(found)
    result = {
        "log_dir": storage.place,
        "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
        "usable_bytes": storage.free_bytes,
    }
    return call.respond(results=[result])


def _wanted(call: Call) -> Iterator[TopicPartition]:
    """The partitions that are asked for, each once, or all."""
    if call.request.topics is not None:
        asked = (
            TopicPartition(each.topic, index) for each in call.request.topics for index in each.partitions
        )
        yield from dict.fromkeys(asked)
        return
    for info in call.services.broker.topics(call.context):
        for index in range(info.partitions):
            yield TopicPartition(info.name, index)


APIS = (
    Api(DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, describe_log_dirs),
    Api(DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, describe_cluster),
)
