"""
ApiVersions: what is offered at this port.
"""

from __future__ import annotations

from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.apis import offered
from rustlog.wire.fluvio.calls import Call
from rustlog.wire.fluvio.versions import ApiVersionsResponse


def api_versions(call: Call) -> ApiVersionsResponse:
    """All of it, whoever asks."""
    return ApiVersionsResponse(offered(call.services.roles))


HANDLERS = {apis.API_VERSIONS: api_versions}
