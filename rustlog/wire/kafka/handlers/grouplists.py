"""
For those who look after groups without being members: ListGroups, DescribeGroups, DeleteGroups.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks

from rustlog.errors import GroupNotFound, RustlogError
from rustlog.groups.transitions import GroupState
from rustlog.groups.values import GroupMembership, MemberDescription
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import ErrorCode, message_for
from rustlog.wire.kafka.handlers.grouping import Answer, Steps, answered, group_code_for
from rustlog.wire.kafka.schema import Entity

GROUP_TYPE = "Classic"
"""As opposed to groups whose members are assigned by the broker."""

GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8
"""Read, delete, describe: what everybody may do with a group."""


def list_groups(call: Call) -> Answer:
    """All groups; or those of certain states and types."""
    states = {each.lower() for each in getattr(call.request, "states_filter", ())}
    types = {each.lower() for each in getattr(call.request, "types_filter", ())}

    def respond(groups: list[GroupMembership]) -> Entity:
        wanted = groups if not types or GROUP_TYPE.lower() in types else []
        return call.respond(
            groups=[
                {
                    "group_id": each.name,
                    "protocol_type": each.protocol_type,
                    "group_state": each.state.value,
                    "group_type": GROUP_TYPE,
                }
                for each in wanted
                if not states or each.state.value.lower() in states
            ]
        )

    # Each broker tells of its own groups, whatever they are called.
    return answered(
        lambda: call.services.broker.coordinator_for(call.context, "").describe_all(),
        respond,
        lambda error: call.respond(error_code=group_code_for(error), groups=()),
    )


@inlineCallbacks
def describe_groups(call: Call) -> Steps:
    """Some groups, with their members."""
    wants_operations = getattr(call.request, "include_authorized_operations", False)
    groups = []
    for name in call.request.groups:
        description = yield answered(
            partial(_describe, call, name),
            _described,
            lambda error: _not_described(call, error),
        )
        operations = {"authorized_operations": GROUP_OPERATIONS} if wants_operations else {}
        groups.append({"group_id": name, **operations, **description})
    return call.respond(groups=groups)


def _describe(call: Call, name: str) -> Deferred[GroupMembership]:
    return call.services.broker.coordinator_for(call.context, name).describe(name)


def _described(group: GroupMembership) -> dict[str, Any]:
    return {
        "group_state": group.state.value,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol_name,
        "members": [_described_member(each) for each in group.members],
    }


def _described_member(member: MemberDescription) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.metadata,
        "member_assignment": member.assignment,
    }


def _not_described(call: Call, error: RustlogError) -> dict[str, Any]:
    nothing = {"protocol_type": "", "protocol_data": "", "members": ()}
    if isinstance(error, GroupNotFound) and call.version < 6:
        # Older clients know what is not there by its state.
        return {"group_state": GroupState.DEAD.value, **nothing}
    state = GroupState.DEAD.value if isinstance(error, GroupNotFound) else ""
    code = group_code_for(error)
    return {"error_code": code, "error_message": message_for(error), "group_state": state, **nothing}


@inlineCallbacks
def delete_groups(call: Call) -> Steps:
    """Forget groups that have no members, and what they have committed."""
    results = []
    for name in call.request.groups_names:
        code = yield answered(
            partial(call.services.broker.delete_group, call.context, name),
            lambda _: ErrorCode.none,
            group_code_for,
        )
        results.append({"group_id": name, "error_code": code})
    return call.respond(results=results)


APIS = (
    Api(15, "DescribeGroups", 0, 6, describe_groups),
    Api(16, "ListGroups", 0, 5, list_groups),
    Api(42, "DeleteGroups", 0, 2, delete_groups),
)
