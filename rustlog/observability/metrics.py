"""
L{Metrics}: everything that can be measured, in the text format of Prometheus.

Each broker has metrics, and a registry, of its own: two brokers in one process do not meet.  What
is counted often is kept as plain integers (L{rustlog.observability.tallies}) and shown when somebody looks;
what is counted seldom is a counter of prometheus-client.  To count something new, ask L{Metrics.counter}
for it once and keep what it returns::

    left = metrics.counter("group_members_left", "Members that left a group.", "reason")
    left.labels("session timeout").inc()

Labels have few values, and none that a client made up, but for the names of topics and groups; of these
only so many are shown (L{rustlog.observability.holdings}).
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

import twisted
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from zope.interface import implementer

from rustlog import __version__
from rustlog.interfaces import IStoreObserver
from rustlog.observability.figures import Figures
from rustlog.observability.holdings import HoldingsCollector
from rustlog.observability.tallies import LATENCY_SECONDS, ListenerMeter, Tally, Traffic

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of what L{Metrics.text} gives."""

_SYNC_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@implementer(IStoreObserver)
class Metrics:
    """
    The metrics of one broker.

    @ivar traffic: what went into the logs and came out of them.
    @ivar figures: what there was in the broker when somebody last looked.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.traffic = Traffic()
        self.figures = Figures()
        self._meters: dict[tuple[str, str], ListenerMeter] = {}
        self._counters: dict[str, Counter] = {}
        self._declare()

    def _declare(self) -> None:
        build = Info("rustlog_build", "What runs here.", registry=self.registry)
        versions = {"python": platform.python_version(), "twisted": twisted.__version__}
        build.info({"version": __version__, **versions})
        self.registry.register(_MeterCollector(self._meters))
        self.registry.register(_TrafficCollector(self.traffic))
        self._sync_seconds = self._histogram(
            "sync_round_seconds", "How long rounds of group commit took.", _SYNC_SECONDS
        )
        self._synced_files = self.counter("synced_files", "Files that rounds of group commit were for.")
        self._sync_failures = self.counter("sync_failures", "Rounds of group commit that failed.")
        self.reactor_lag = self._histogram(
            "reactor_lag_seconds", "How late a timer of the reactor was, measured all the time.", _LAG_SECONDS
        )
        self._transit = Gauge(
            "rustlog_transit_bytes",
            "Memory that requests and answers in transit use, of queued.max.request.bytes.",
            ["direction"],
            registry=self.registry,
        )
        self.registry.register(HoldingsCollector(lambda: self.figures))
        ProcessCollector(registry=self.registry)

    def _histogram(self, name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"rustlog_{name}", what, buckets=buckets, registry=self.registry)

    # -- counting --

    def counter(self, name: str, what: str, *labels: str) -> Counter:
        """
        The counter C{rustlog_NAME_total}; made when it is first asked for.

        @param labels: their names.  What is given for them must come from a small, fixed set.
        """
        if name not in self._counters:
            self._counters[name] = Counter(f"rustlog_{name}", what, labels, registry=self.registry)
        return self._counters[name]

    def meter(self, protocol: str, listener: str) -> ListenerMeter:
        """Where to count what happens at a listener; listeners of one name share it."""
        key = (protocol, listener)
        if key not in self._meters:
            self._meters[key] = ListenerMeter(protocol, listener)
        return self._meters[key]

    def watch_transit(self, direction: str, used: Callable[[], int]) -> None:
        """Show how much memory is in use, whenever somebody looks."""
        self._transit.labels(direction).set_function(used)

    def synced(self, files: int, seconds: float, failed: bool) -> None:
        """See L{IStoreObserver.synced}."""
        self._sync_seconds.observe(seconds)
        self._synced_files.inc(files)
        if failed:
            self._sync_failures.inc()

    # -- showing --

    def parts(self) -> Iterator[bytes]:
        """
        The text, one metric at a time: each takes a moment, all of them together may take long.
        Of the broker's holdings it tells what L{figures} says.
        """
        for metric in self.registry.collect():
            # When counting began is of no use to anybody, and doubles the text.
            metric.samples = [each for each in metric.samples if not each.name.endswith("_created")]
            yield generate_latest(_OneMetric(metric))

    def text(self) -> bytes:
        """All of it at once."""
        return b"".join(self.parts())


class _OneMetric:
    """Looks like a registry to C{generate_latest}."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


class _MeterCollector(Collector):
    """Shows what L{ListenerMeter}s have counted."""

    def __init__(self, meters: dict[tuple[str, str], ListenerMeter]) -> None:
        self._meters = meters

    def collect(self) -> Iterator[Metric]:
        yield from self._connections()
        place = ["protocol", "listener", "request"]
        requests = CounterMetricFamily(
            "rustlog_requests", "Requests that were answered.", labels=[*place, "outcome"]
        )
        taken = CounterMetricFamily("rustlog_request_bytes", "Bytes of answered requests.", labels=place)
        given = CounterMetricFamily("rustlog_response_bytes", "Bytes of answers.", labels=place)
        latency = HistogramMetricFamily(
            "rustlog_request_seconds",
            "From when all of a request was there to its answer; includes the wait of a fetch that waits.",
            labels=place,
        )
        for meter in self._meters.values():
            for (request, outcome), tally in meter.tallies.items():
                requests.add_metric([meter.protocol, meter.listener, request, outcome], tally.count)
            for request, total in _by_request(meter).items():
                values = [meter.protocol, meter.listener, request]
                taken.add_metric(values, total.request_bytes)
                given.add_metric(values, total.response_bytes)
                latency.add_metric(values, _buckets(total.latencies), total.seconds)
        yield from (requests, taken, given, latency)

    def _connections(self) -> Iterator[Metric]:
        labels = ["protocol", "listener"]
        now = GaugeMetricFamily("rustlog_connections", "Connections that are open.", labels=labels)
        ever = CounterMetricFamily("rustlog_connections_opened", "Connections that were made.", labels=labels)
        refused = CounterMetricFamily(
            "rustlog_connections_refused", "Connections that were one too many.", labels=labels
        )
        for meter in self._meters.values():
            values = [meter.protocol, meter.listener]
            now.add_metric(values, meter.open)
            ever.add_metric(values, meter.opened)
            refused.add_metric(values, meter.refused)
        yield from (now, ever, refused)


class _TrafficCollector(Collector):
    """Shows what L{Traffic} has counted."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    def collect(self) -> Iterator[Metric]:
        for name, what, attribute in (
            ("appended_batches", "Record batches that were appended.", "appended_batches"),
            ("appended_records", "Records that were appended.", "appended_records"),
            ("appended_bytes", "Bytes of record batches that were appended.", "appended_bytes"),
            ("read_bytes", "Bytes of record batches that were read.", "read_bytes"),
        ):
            family = CounterMetricFamily(f"rustlog_{name}", what, labels=["protocol"])
            for protocol, flow in self._traffic.items():
                family.add_metric([protocol], getattr(flow, attribute))
            yield family


def _by_request(meter: ListenerMeter) -> dict[str, Tally]:
    """Tallies without regard to the outcome."""
    totals: dict[str, Tally] = {}
    for (request, _), tally in meter.tallies.items():
        total = totals.setdefault(request, Tally())
        total.request_bytes += tally.request_bytes
        total.response_bytes += tally.response_bytes
        total.seconds += tally.seconds
        total.latencies = [a + b for a, b in zip(total.latencies, tally.latencies, strict=True)]
    return totals


def _buckets(latencies: list[int]) -> list[tuple[str, float]]:
    """As Prometheus has them: each includes those before it."""
    bounds = [*map(str, LATENCY_SECONDS), "+Inf"]
    return list(zip(bounds, map(float, accumulate(latencies)), strict=True))
