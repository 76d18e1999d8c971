"""
What C{kio} itself makes of messages, to compare.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from kio.serial import entity_writer


def kio_encode(entity: Any) -> bytes:
    """The bytes of a message."""
    out = BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()
