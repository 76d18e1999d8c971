"""
The metrics of topics and groups.

Their names become labels.  There may be any number of them, and every one costs memory where metrics are
kept, so only the first are shown, by name, and C{rustlog_series_left_out} tells how many are not.  There
is no metric of each partition, but for the lag of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rustlog.observability.figures import Figures, GroupFigures, TopicFigures

SERIES_MAX = 1000
"""How many topics are shown, how many pairs of group and topic, and how many partitions of groups."""

NAME_LENGTH_MAX = 249
"""Groups with longer names are not shown."""


class HoldingsCollector(Collector):
    """Shows L{Figures}."""

    def __init__(self, figures: Callable[[], Figures]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        figures = self._figures()
        left_out = GaugeMetricFamily(
            "rustlog_series_left_out", "How many topics, and lags of groups, are not shown.", labels=["of"]
        )
        yield from _totals(figures)
        yield from _topics(figures.topics[:SERIES_MAX])
        left_out.add_metric(["topics"], max(0, len(figures.topics) - SERIES_MAX))
        yield _lags(
            "group_lag",
            "How many offsets a group has to go in a topic.",
            ["topic"],
            ((group, [topic], lag) for group in figures.groups for topic, lag in group.lag_by_topic()),
            left_out,
        )
        yield _lags(
            "group_partition_lag",
            "How many offsets a group has to go in a partition.",
            ["topic", "partition"],
            ((group, [at.topic, str(at.partition)], at.lag) for group in figures.groups for at in group.lags),
            left_out,
        )
        yield left_out


def _totals(figures: Figures) -> Iterator[Metric]:
    yield GaugeMetricFamily("rustlog_topics", "Topics that there are.", len(figures.topics))
    yield GaugeMetricFamily("rustlog_partitions", "Partitions of all topics.", figures.partitions)
    yield GaugeMetricFamily(
        "rustlog_partitions_fenced",
        "Partitions that accept nothing until the broker restarts.",
        figures.fenced,
    )
    yield GaugeMetricFamily(
        "rustlog_groups", "Consumer groups that have committed something.", len(figures.groups)
    )


def _topics(topics: Iterable[TopicFigures]) -> Iterator[Metric]:
    labels = ["topic"]
    partitions = GaugeMetricFamily("rustlog_topic_partitions", "Partitions of a topic.", labels=labels)
    records = GaugeMetricFamily("rustlog_topic_records", "Offsets that can be read.", labels=labels)
    size = GaugeMetricFamily("rustlog_topic_bytes", "What a topic takes, without indexes.", labels=labels)
    offsets = CounterMetricFamily(
        "rustlog_topic_offsets", "Offsets that were ever assigned in a topic.", labels=labels
    )
    for each in topics:
        partitions.add_metric([each.name], each.partitions)
        records.add_metric([each.name], each.records)
        size.add_metric([each.name], each.size)
        offsets.add_metric([each.name], each.end_offsets)
    yield from (partitions, records, size, offsets)


def _lags(
    name: str,
    what: str,
    labels: list[str],
    lags: Iterable[tuple[GroupFigures, list[str], int]],
    left_out: GaugeMetricFamily,
) -> Metric:
    family = GaugeMetricFamily(f"rustlog_{name}", what, labels=["group", *labels])
    shown = hidden = 0
    for group, more, lag in lags:
        if shown < SERIES_MAX and len(group.name) <= NAME_LENGTH_MAX:
            family.add_metric([group.name, *more], lag)
            shown += 1
        else:
            hidden += 1
    left_out.add_metric([name], hidden)
    return family
