"""
A group as it is saved: JSON, with what only its members understand in base64.

The member C{format} is the version of this layout.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import orjson

from rustlog.errors import CoordinatorNotAvailable
from rustlog.groups.values import Remembered, RememberedMember

FORMAT = 1


class UnreadableGroup(CoordinatorNotAvailable):
    """What was saved of a group can not be understood: it is damaged, or of a later version of rustlog."""


def encode(remembered: Remembered) -> bytes:
    """The bytes that are saved."""
    return orjson.dumps(
        {
            "format": FORMAT,
            "generation": remembered.generation,
            "protocol_type": remembered.protocol_type,
            "protocol_name": remembered.protocol_name,
            "leader_id": remembered.leader_id,
            "members": [_encode_member(each) for each in remembered.members],
        }
    )


def decode(group: str, document: bytes) -> Remembered:
    """What was saved; raises L{UnreadableGroup} if it can not be understood."""
    try:
        values = orjson.loads(document)
        if values["format"] != FORMAT:
            raise ValueError(f"its format is {values['format']!r}, not {FORMAT}")
        return Remembered(
            generation=int(values["generation"]),
            protocol_type=str(values["protocol_type"]),
            protocol_name=str(values["protocol_name"]),
            leader_id=str(values["leader_id"]),
            members=tuple(_decode_member(each) for each in values["members"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        problem = f"what was saved of it can not be read: {type(error).__name__}: {error}"
        raise UnreadableGroup(group, problem) from error


def _encode_member(member: RememberedMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "protocols": [[name, b64encode(metadata).decode()] for name, metadata in member.protocols],
        "assignment": b64encode(member.assignment).decode(),
    }


def _decode_member(values: dict[str, Any]) -> RememberedMember:
    return RememberedMember(
        member_id=values["member_id"],
        instance_id=values["instance_id"],
        client_id=values["client_id"],
        client_host=values["client_host"],
        session_timeout_ms=int(values["session_timeout_ms"]),
        rebalance_timeout_ms=int(values["rebalance_timeout_ms"]),
        protocols=tuple((name, b64decode(metadata)) for name, metadata in values["protocols"]),
        assignment=b64decode(values["assignment"]),
    )
