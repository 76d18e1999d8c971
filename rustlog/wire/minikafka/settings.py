"""
What can be set for the MiniKafka protocol.
"""

from __future__ import annotations

from attrs import field, frozen, validators

TRAILERS = {"none": b"", "newline": b"\n"}


@frozen
class MinikafkaSettings:
    """Set with C{--set=minikafka.KEY=VALUE}."""

    msg_trailer: str = field(
        default="none",
        validator=validators.in_(tuple(TRAILERS)),
        metadata={
            "doc": "What follows the payload of a +MSG: none, or newline as MiniKafka's Java client wants it."
        },
    )

    @property
    def trailer(self) -> bytes:
        """The same as bytes."""
        return TRAILERS[self.msg_trailer]
