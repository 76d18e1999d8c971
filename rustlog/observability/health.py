"""
L{Health}: how far a broker is in its life.
"""

from __future__ import annotations

from enum import Enum

from attrs import define


class Stage(Enum):
    """Of a broker's life."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"


@define(eq=False)
class Health:
    """Set by the service, and looked at by whoever is asked."""

    stage: Stage = Stage.STARTING

    @property
    def is_ready(self) -> bool:
        """Whether stores are open and all listeners listen, and no stop has begun."""
        return self.stage is Stage.READY
