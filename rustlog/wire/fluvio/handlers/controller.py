"""
What is asked of a controller: Watch, Create, Delete and List.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import deferLater

from rustlog.administration import REPLICATION_FACTOR
from rustlog.errors import RustlogError, TopicExists, TopicIsInternal
from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.calls import Call
from rustlog.wire.fluvio.cluster import SPU_ID, check_topic_name, is_system
from rustlog.wire.fluvio.controller import (
    CreateRequest,
    DeleteRequest,
    ListRequest,
    ListResponse,
    Status,
    WatchResponse,
)
from rustlog.wire.fluvio.errors import (
    INVALID_CREATE_REQUEST,
    INVALID_DELETE_REQUEST,
    TOPIC_INVALID_CONFIGURATION,
    TOPIC_INVALID_REPLICA_TYPE,
    Refused,
    code_for,
    message_for,
    system_spec_deletion_attempt,
)
from rustlog.wire.fluvio.objects import TOPIC, Spec
from rustlog.wire.fluvio.topics import AssignedReplicas, ComputedReplicas, Replicas, TopicSpec
from rustlog.wire.fluvio.turns import Origin

HEAD_START_SECONDS = 0.01
"""
How much later than the watches those hear of a change who have asked for it.  A client that creates a
topic and then produces to it looks for it in what its watches have told, and does not find it if it is
too fast.
"""

Steps = Generator["Deferred[Any]", Any, Any]


def watch(call: Call) -> WatchResponse:
    """All objects of a label; changes will follow."""
    origin = Origin(call.api, call.version, call.correlation_id)
    return call.services.watches.open(origin, call.request.label)


def list_objects(call: Call) -> ListResponse:
    """Objects of a label whose names are wanted."""
    request: ListRequest = call.request
    cluster = call.services.cluster
    shown = (each for each in cluster.topics() if request.system or not is_system(each.name))
    objects = cluster.objects(request.label, shown)
    return ListResponse(request.label, tuple(each for each in objects if request.wants(each.name)))


# -- Create ----------------------------------------------------------------------------


@inlineCallbacks
def create(call: Call) -> Steps:
    """Make a topic, or say whether it could be made."""
    request: CreateRequest = call.request
    call.work.topic = request.name
    try:
        yield _create(call, request)
    except RustlogError as error:
        return _refused(call, request.name, error)
    if not request.dry_run:
        yield deferLater(call.services.clock, HEAD_START_SECONDS)
    return Status(request.name)


def _create(call: Call, request: CreateRequest) -> Deferred[Any]:
    spec = _topic_spec(request.label, request.spec)
    check_topic_name(request.name)
    if is_system(request.name):
        raise TopicExists(request.name)
    return call.services.broker.create_topic(
        call.context, request.name, _partition_count(spec.replicas), _config(spec), request.dry_run
    )


def _topic_spec(label: str, spec: Spec | None) -> TopicSpec:
    """What a topic shall be, as far as that can be had here."""
    if label != TOPIC or not isinstance(spec, TopicSpec):
        raise Refused(INVALID_CREATE_REQUEST, f"objects of the kind {label[:100]} can not be created here")
    if spec.deduplication is not None:
        raise Refused(TOPIC_INVALID_CONFIGURATION, "deduplication is not supported")
    if spec.system:
        raise Refused(INVALID_CREATE_REQUEST, "topics of the system can not be created")
    return spec


def _partition_count(replicas: Replicas) -> int:
    """How many partitions are wanted; where their replicas shall be is judged on the way."""
    if isinstance(replicas, ComputedReplicas):
        if replicas.replication_factor != REPLICATION_FACTOR:
            raise Refused(
                TOPIC_INVALID_CONFIGURATION,
                f"a replication factor of {replicas.replication_factor} cannot be reached: there is 1 unit",
            )
        return replicas.partitions
    if not isinstance(replicas, AssignedReplicas) or any(each.mirror for each in replicas.partitions):
        raise Refused(TOPIC_INVALID_REPLICA_TYPE, "topics can not be mirrored to or from other clusters")
    _check_assignments(replicas)
    return len(replicas.partitions)


def _check_assignments(replicas: AssignedReplicas) -> None:
    indexes = sorted(each.partition for each in replicas.partitions)
    if indexes != list(range(len(indexes))):
        raise Refused(
            TOPIC_INVALID_CONFIGURATION,
            "the partitions of an assignment are numbered from 0, without gaps, and each is there once",
        )
    for each in replicas.partitions:
        if each.spus != (SPU_ID,):
            raise Refused(
                TOPIC_INVALID_CONFIGURATION,
                f"replicas on units {list(each.spus[:10])}: each partition has one, on unit {SPU_ID}",
            )


def _config(spec: TopicSpec) -> dict[str, object]:
    """
    The settings of a topic, in our words.  (How its batches are compressed is left to producers, whatever
    is said: they are kept as they come.)
    """
    config: dict[str, object] = {}
    if spec.retention_seconds is not None:
        config["retention.ms"] = spec.retention_seconds * 1000
    if spec.storage is not None:
        if spec.storage.segment_size is not None:
            config["segment.bytes"] = spec.storage.segment_size
        if spec.storage.max_partition_size is not None:
            config["retention.bytes"] = spec.storage.max_partition_size
    return config


# -- Delete ----------------------------------------------------------------------------


@inlineCallbacks
def delete(call: Call) -> Steps:
    """Remove a topic."""
    request: DeleteRequest = call.request
    call.work.topic = request.name
    try:
        yield _delete(call, request)
    except RustlogError as error:
        return _refused(call, request.name, error)
    yield deferLater(call.services.clock, HEAD_START_SECONDS)
    return Status(request.name)


@inlineCallbacks
def _delete(call: Call, request: DeleteRequest) -> Steps:
    name = request.name
    if request.label != TOPIC:
        sentence = f"there are no objects of the kind {request.label[:100]}"
        raise Refused(INVALID_DELETE_REQUEST, sentence)
    own = Refused(system_spec_deletion_attempt(TOPIC, name), f"topic {name[:300]} belongs to the system")
    if is_system(name):
        raise own
    try:
        yield call.services.broker.delete_topic(call.context, name)
    except TopicIsInternal:
        raise own from None


def _refused(call: Call, name: str, error: RustlogError) -> Status:
    code = code_for(error)
    call.work.outcome, call.work.error = message_for(error), code.name
    return Status(name, code, message_for(error))


HANDLERS = {
    apis.WATCH: watch,
    apis.LIST: list_objects,
    apis.CREATE: create,
    apis.DELETE: delete,
}
