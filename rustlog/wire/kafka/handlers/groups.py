"""
The requests of the members of groups: FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

JoinGroup and SyncGroup wait for other members.  As with Kafka, what a client sends behind them on the same
connection waits for their answers; clients know that, and send heartbeats when they are through.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from twisted.internet.defer import Deferred

from rustlog.errors import MemberIdRequired, NotCoordinator, RustlogError
from rustlog.groups.values import Join, Joined, Leaving, Sync, Synced
from rustlog.model import topic_name_problem
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import ErrorCode, Refused, code_for, message_for
from rustlog.wire.kafka.handlers.grouping import Answer, answered, coordinator_of, group_code_for
from rustlog.wire.kafka.schema import Entity

GROUP_KEY = 0
TRANSACTION_KEY = 1
"""What the key of FindCoordinator names."""

_MILLISECOND = timedelta(milliseconds=1)


# -- the coordinator -------------------------------------------------------------------


def find_coordinator(call: Call) -> Entity:
    """Where the members of groups shall go: here, as far as this broker knows."""
    request = call.request
    kind = getattr(request, "key_type", GROUP_KEY)
    if call.version < 4:
        return call.respond(**_whereabouts(call, kind, request.key))
    keys = request.coordinator_keys
    return call.respond(coordinators=[{"key": key, **_whereabouts(call, kind, key)} for key in keys])


def _whereabouts(call: Call, kind: int, key: str) -> dict[str, Any]:
    try:
        if kind == TRANSACTION_KEY:
            code = ErrorCode.transactional_id_authorization_failed
            raise Refused(code, "transactions are not supported by this broker")
        if kind != GROUP_KEY:
            raise Refused(ErrorCode.invalid_request, f"nobody coordinates keys of type {kind}")
        call.services.broker.coordinator_for(call.context, key)
    except RustlogError as error:
        code = code_for(error)
        if isinstance(error, NotCoordinator):
            code = ErrorCode.coordinator_not_available
        nowhere = {"node_id": -1, "host": "", "port": -1}
        return {**nowhere, "error_code": code, "error_message": message_for(error)}
    host, port = call.services.advertised
    return {"node_id": call.services.node_id, "host": host, "port": port, "error_message": None}


# -- members ---------------------------------------------------------------------------


def join_group(call: Call) -> Answer:
    """Become a member, or stay one."""
    request = call.request

    def join() -> Deferred[Joined]:
        return coordinator_of(call, request.group_id).join(request.group_id, _join_of(call))

    def refuse(error: RustlogError) -> Entity:
        member_id = error.member_id if isinstance(error, MemberIdRequired) else request.member_id
        return call.respond(
            error_code=group_code_for(error),
            protocol_name="" if call.version < 7 else None,
            leader="",
            member_id=member_id,
            members=(),
        )

    return answered(join, lambda joined: _joined(call, joined), refuse)


def _join_of(call: Call) -> Join:
    request = call.request
    instance_id = _instance_id(request)
    session_timeout_ms = request.session_timeout // _MILLISECOND
    # In the oldest version, there is but one timeout.
    rebalance_timeout_ms = getattr(request, "rebalance_timeout", request.session_timeout) // _MILLISECOND
    return Join(
        member_id=request.member_id,
        instance_id=instance_id,
        client_id=call.context.client_id,
        client_host=client_host(call.context.client),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=max(rebalance_timeout_ms, 0),
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, bytes(each.metadata)) for each in request.protocols),
        requires_known_id=call.version >= 4,
        may_skip_assignment=call.version >= 9,
        reason=getattr(request, "reason", None) or "",
    )


def _instance_id(request: Entity) -> str | None:
    instance_id: str | None = getattr(request, "group_instance_id", None)
    if instance_id is not None:
        problem = topic_name_problem(instance_id)
        if problem is not None:
            raise Refused(ErrorCode.invalid_config, f"invalid group.instance.id: {problem}")
    return instance_id


def client_host(client: str) -> str:
    """The address of a client as Kafka shows it: without its port, behind a slash."""
    return "/" + client.rpartition(":")[0].strip("[]")


def _joined(call: Call, joined: Joined) -> Entity:
    return call.respond(
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name,
        leader=joined.leader_id,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            {"member_id": each.member_id, "group_instance_id": each.instance_id, "metadata": each.metadata}
            for each in joined.members
        ],
    )


def sync_group(call: Call) -> Answer:
    """Ask what a member owns; from the leader, say it."""
    request = call.request

    def sync() -> Deferred[Synced]:
        asked = Sync(
            member_id=request.member_id,
            generation=request.generation_id,
            instance_id=getattr(request, "group_instance_id", None),
            protocol_type=getattr(request, "protocol_type", None),
            protocol_name=getattr(request, "protocol_name", None),
            assignments=tuple((each.member_id, bytes(each.assignment)) for each in request.assignments),
        )
        return coordinator_of(call, request.group_id).sync(request.group_id, asked)

    return answered(
        sync,
        lambda synced: call.respond(
            protocol_type=synced.protocol_type,
            protocol_name=synced.protocol_name,
            assignment=synced.assignment,
        ),
        lambda error: call.respond(error_code=group_code_for(error), assignment=b""),
    )


def heartbeat(call: Call) -> Answer:
    """A member lives."""
    request = call.request
    instance_id = getattr(request, "group_instance_id", None)
    return answered(
        lambda: coordinator_of(call, request.group_id).heartbeat(
            request.group_id, request.member_id, instance_id, request.generation_id
        ),
        lambda _: call.respond(),
        lambda error: call.respond(error_code=group_code_for(error)),
    )


def leave_group(call: Call) -> Answer:
    """Members go."""
    request = call.request
    leaving = [
        Leaving(
            member_id=each.member_id,
            instance_id=getattr(each, "group_instance_id", None),
            reason=getattr(each, "reason", None) or "",
        )
        for each in (request.members if call.version >= 3 else [request])
    ]

    def respond(errors: list[RustlogError | None]) -> Entity:
        codes = [ErrorCode.none if each is None else group_code_for(each) for each in errors]
        if call.version < 3:
            return call.respond(error_code=codes[0])
        members = [
            {"member_id": each.member_id, "group_instance_id": each.instance_id, "error_code": code}
            for each, code in zip(leaving, codes, strict=True)
        ]
        return call.respond(members=members)

    return answered(
        lambda: coordinator_of(call, request.group_id).leave(request.group_id, leaving),
        respond,
        lambda error: call.respond(error_code=group_code_for(error), members=()),
    )


APIS = (
    Api(10, "FindCoordinator", 0, 6, find_coordinator),
    Api(11, "JoinGroup", 0, 9, join_group, is_cancellable=True),
    Api(12, "Heartbeat", 0, 4, heartbeat),
    Api(13, "LeaveGroup", 0, 5, leave_group),
    Api(14, "SyncGroup", 0, 5, sync_group, is_cancellable=True),
)
