"""
ApiVersions: what is offered.
"""

from __future__ import annotations

from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.schema import Entity

API_VERSIONS = 18


def api_versions(call: Call, error_code: ErrorCode = ErrorCode.none) -> Entity:
    """
    Every API that the broker has, with its versions.

    @param error_code: C{unsupported_version}, with the response in version 0, for who asked in a version
        that is not known: it finds its own there, and asks again.
    """
    apis = [
        {"api_key": each.key, "min_version": each.min_version, "max_version": each.max_version}
        for each in sorted(call.services.apis.values(), key=lambda api: api.key)
    ]
    return call.respond(error_code=error_code, api_keys=apis)


APIS = (Api(API_VERSIONS, "ApiVersions", 0, 4, api_versions),)
