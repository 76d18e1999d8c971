"""
What jobs report when they are done.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from rustlog.spark.jobs.hours import HourFigures
from rustlog.spark.jobs.lag import Lag


@frozen
class Report:
    """
    What L{rustlog.spark.jobs.report} has found.

    @ivar source: where, in words.
    @ivar totals: one row for each topic.
    @ivar hours: one for each topic and hour in which there are records.
    @ivar lags: one for each group, topic and hour in which the lag has changed.
    """

    source: str
    made_ms: int
    totals: Sequence[HourFigures]
    hours: Sequence[HourFigures]
    lags: Sequence[Lag]
