"""
How many seeds a simulation runs through: few in every run of the tests, more when asked for.

    RUSTLOG_SEEDS=5000 scripts/test -k Simulation
"""

from __future__ import annotations

import os


def seeds(default: int) -> range:
    """The seeds of one test."""
    return range(int(os.environ.get("RUSTLOG_SEEDS", default)))
