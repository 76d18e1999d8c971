"""Tests for L{rustlog.observability.metrics} and L{rustlog.observability.holdings}."""

from __future__ import annotations

from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rustlog import __version__
from rustlog.interfaces import IStoreObserver
from rustlog.observability.figures import Figures, GroupFigures, LagFigures, TopicFigures
from rustlog.observability.holdings import NAME_LENGTH_MAX, SERIES_MAX
from rustlog.observability.metrics import Metrics


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Everything in a text that Prometheus would read, by name and labels."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


class MetricsCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.metrics = Metrics()

    def value(self, name: str, **labels: str) -> float | None:
        return samples(self.metrics.text()).get((name, frozenset(labels.items())))


class MetricsTests(MetricsCase):
    def test_own_registry(self) -> None:
        """Two brokers in one process do not meet, and nothing is put where all the process looks."""
        other = Metrics()
        self.metrics.synced(3, 0.01, False)
        self.assertEqual(self.value("rustlog_synced_files_total"), 3)
        self.assertIn(("rustlog_synced_files_total", frozenset()), samples(other.text()))
        self.assertEqual(samples(other.text())["rustlog_synced_files_total", frozenset()], 0)
        self.assertFalse([each for each in REGISTRY.collect() if each.name.startswith("rustlog")])

    def test_build(self) -> None:
        """One can see which version runs."""
        found = samples(self.metrics.text())
        (labels,) = (dict(labels) for name, labels in found if name == "rustlog_build_info")
        self.assertEqual(labels["version"], __version__)

    def test_requests(self) -> None:
        """Requests are shown by outcome; their bytes and latencies without regard to it."""
        meter = self.metrics.meter("rustlog", "lan")
        self.assertIs(self.metrics.meter("rustlog", "lan"), meter)
        meter.answered("Produce", "ok", 100, 20, 0.002)
        meter.answered("Produce", "TopicNotFound", 10, 2, 0.2)
        place = {"protocol": "rustlog", "listener": "lan", "request": "Produce"}
        self.assertEqual(self.value("rustlog_requests_total", **place, outcome="ok"), 1)
        self.assertEqual(self.value("rustlog_requests_total", **place, outcome="TopicNotFound"), 1)
        self.assertEqual(self.value("rustlog_request_bytes_total", **place), 110)
        self.assertEqual(self.value("rustlog_response_bytes_total", **place), 22)
        self.assertEqual(self.value("rustlog_request_seconds_bucket", **place, le="0.001"), 0)
        self.assertEqual(self.value("rustlog_request_seconds_bucket", **place, le="0.0025"), 1)
        self.assertEqual(self.value("rustlog_request_seconds_bucket", **place, le="0.25"), 2)
        self.assertEqual(self.value("rustlog_request_seconds_bucket", **place, le="+Inf"), 2)
        self.assertEqual(self.value("rustlog_request_seconds_count", **place), 2)
        self.assertAlmostEqual(self.value("rustlog_request_seconds_sum", **place) or 0, 0.202)

    def test_connections(self) -> None:
        """So are connections, by listener."""
        meter = self.metrics.meter("rustlog", "lan")
        meter.entered(is_welcome=True)
        meter.entered(is_welcome=False)
        place = {"protocol": "rustlog", "listener": "lan"}
        self.assertEqual(self.value("rustlog_connections", **place), 2)
        self.assertEqual(self.value("rustlog_connections_opened_total", **place), 2)
        self.assertEqual(self.value("rustlog_connections_refused_total", **place), 1)

    def test_traffic(self) -> None:
        """What goes into the logs and comes out is shown by protocol."""
        self.metrics.traffic["kafka"].appended_bytes = 7
        self.metrics.traffic["rustlog"].read_bytes = 9
        self.assertEqual(self.value("rustlog_appended_bytes_total", protocol="kafka"), 7)
        self.assertEqual(self.value("rustlog_read_bytes_total", protocol="rustlog"), 9)

    def test_sync_rounds(self) -> None:
        """Stores tell of their syncs, and of those that failed."""
        verifyObject(IStoreObserver, self.metrics)
        self.metrics.synced(2, 0.004, False)
        self.metrics.synced(1, 0.5, True)
        self.assertEqual(self.value("rustlog_sync_round_seconds_count"), 2)
        self.assertEqual(self.value("rustlog_sync_round_seconds_bucket", le="0.005"), 1)
        self.assertEqual(self.value("rustlog_synced_files_total"), 3)
        self.assertEqual(self.value("rustlog_sync_failures_total"), 1)

    def test_transit(self) -> None:
        """Memory in transit is what it is when somebody looks."""
        used = [5]
        self.metrics.watch_transit("in", lambda: used[0])
        self.assertEqual(self.value("rustlog_transit_bytes", direction="in"), 5)
        used[0] = 6
        self.assertEqual(self.value("rustlog_transit_bytes", direction="in"), 6)

    def test_further_counters(self) -> None:
        """Whoever has something new to count asks for a counter, by the same name as often as it likes."""
        for reason in ("left", "timeout", "left"):
            self.metrics.counter("members_left", "Members that left.", "reason").labels(reason).inc()
        self.assertEqual(self.value("rustlog_members_left_total", reason="left"), 2)
        self.assertEqual(self.value("rustlog_members_left_total", reason="timeout"), 1)

    def test_no_times_of_creation(self) -> None:
        """When counting began is not shown."""
        self.assertNotIn(b"_created", self.metrics.text())

    def test_in_parts(self) -> None:
        """The text can be had piece by piece, so that others have their turn in between."""
        parts = list(self.metrics.parts())
        self.assertGreater(len(parts), 10)
        self.assertEqual(samples(b"".join(parts)).keys(), samples(self.metrics.text()).keys())


class HoldingsTests(MetricsCase):
    def test_nothing(self) -> None:
        """An empty broker has no topics, and says so."""
        self.assertEqual(self.value("rustlog_topics"), 0)
        self.assertEqual(self.value("rustlog_groups"), 0)
        self.assertEqual(self.value("rustlog_series_left_out", of="topics"), 0)

    def test_topics(self) -> None:
        """Each topic has its sums; the broker has the sums of all."""
        self.metrics.figures = Figures(
            (TopicFigures("a", 3, False, 10, 15, 999), TopicFigures("b", 1, True, 0, 0, 0)), fenced=2
        )
        self.assertEqual(self.value("rustlog_topics"), 2)
        self.assertEqual(self.value("rustlog_partitions"), 4)
        self.assertEqual(self.value("rustlog_partitions_fenced"), 2)
        self.assertEqual(self.value("rustlog_topic_partitions", topic="a"), 3)
        self.assertEqual(self.value("rustlog_topic_records", topic="a"), 10)
        self.assertEqual(self.value("rustlog_topic_offsets_total", topic="a"), 15)
        self.assertEqual(self.value("rustlog_topic_bytes", topic="a"), 999)

    def test_lag(self) -> None:
        """A group's lag is shown for each topic and for each partition."""
        lags = (LagFigures("a", 0, 5), LagFigures("a", 1, 6), LagFigures("b", 0, 0))
        self.metrics.figures = Figures(groups=(GroupFigures("kitchen", lags),))
        self.assertEqual(self.value("rustlog_groups"), 1)
        self.assertEqual(self.value("rustlog_group_lag", group="kitchen", topic="a"), 11)
        self.assertEqual(self.value("rustlog_group_lag", group="kitchen", topic="b"), 0)
        self.assertEqual(
            self.value("rustlog_group_partition_lag", group="kitchen", topic="a", partition="1"), 6
        )

    def test_hostile_names(self) -> None:
        """A group may be called anything; the text stays one that Prometheus reads."""
        name = 'a"b\\c\n# TYPE x counter\nx{y="z"} 1\U0001f980'
        self.metrics.figures = Figures(groups=(GroupFigures(name, (LagFigures("a", 0, 5),)),))
        self.assertEqual(self.value("rustlog_group_lag", group=name, topic="a"), 5)
        self.assertIsNone(self.value("x", y="z"))

    def test_bounded(self) -> None:
        """Of very many topics and groups only so many are shown; how many are not, is."""
        self.metrics.figures = Figures(
            tuple(TopicFigures(f"t{n:05}", 1, False, 0, 0, 0) for n in range(SERIES_MAX + 7)),
            tuple(
                GroupFigures(f"g{n:05}", (LagFigures("a", 0, 1), LagFigures("a", 1, 1)))
                for n in range(SERIES_MAX + 1)
            ),
        )
        found = samples(self.metrics.text())
        for name, of, left_out in (
            ("topic_records", "topics", 7),
            ("group_lag", "group_lag", 1),
            ("group_partition_lag", "group_partition_lag", SERIES_MAX + 2),
        ):
            self.assertEqual(len([key for key in found if key[0] == f"rustlog_{name}"]), SERIES_MAX)
            self.assertEqual(found["rustlog_series_left_out", frozenset({("of", of)})], left_out)
        self.assertEqual(self.value("rustlog_topics"), SERIES_MAX + 7)

    def test_long_names(self) -> None:
        """A group whose name is a page long is not shown."""
        lags = (LagFigures("a", 0, 1),)
        names = ("x" * (NAME_LENGTH_MAX + 1), "y" * NAME_LENGTH_MAX)
        self.metrics.figures = Figures(groups=tuple(GroupFigures(name, lags) for name in names))
        self.assertEqual(self.value("rustlog_series_left_out", of="group_lag"), 1)
        self.assertEqual(self.value("rustlog_group_lag", group="y" * NAME_LENGTH_MAX, topic="a"), 1)
