"""
What can be set for the Fluvio protocol.
"""

from __future__ import annotations

from typing import Any

import attrs
from attrs import frozen
from attrs.validators import ge, le


def _setting(default: Any, doc: str, *validators: Any) -> Any:
    return attrs.field(default=default, validator=list(validators), metadata={"doc": doc})


@frozen
class FluvioSettings:
    """Set with C{--set=fluvio.KEY=VALUE}, and with C{--set=fluvio-spu.KEY=VALUE} for a port of its own."""

    request_max_bytes: int = _setting(
        100 * 1024 * 1024, "The largest request that is accepted.", ge(1024), le(2**31 - 1)
    )
    stream_max_bytes: int = _setting(
        8 * 1024 * 1024,
        "The most that one answer of a consumer's stream has, unless its first batch is larger.",
        ge(1024),
        le(2**30),
    )
    streams_max: int = _setting(
        1000, "How many streams of consumers, and how many watches, one connection may have.", ge(1)
    )
