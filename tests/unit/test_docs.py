"""Tests for the documentation: what the reference says is what the code does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from rustlog.cli import jobs
from rustlog.cli.completion import walk
from rustlog.cli.main import INTERRUPTED, make_parser
from rustlog.config import DEFAULTS, own_settings
from rustlog.judging import PARTITIONS_MAX
from rustlog.observability.figures import Figures, GroupFigures, LagFigures, TopicFigures
from rustlog.observability.groups import GroupCounters
from rustlog.observability.holdings import NAME_LENGTH_MAX, SERIES_MAX
from rustlog.observability.metrics import Metrics
from rustlog.observability.tallies import TALLIES_MAX
from rustlog.settings import BrokerConfig, TopicConfig, vocabulary
from rustlog.spark.columns import DDL
from rustlog.spark.settings import FIELDS as CLIENT_OPTIONS
from rustlog.spark.settings import ClientSettings
from rustlog.storage.minikafka import opening
from rustlog.storage.minikafka.limits import BECOMES
from rustlog.storage.segments.opening import FORMAT_VERSION
from rustlog.tap import Options
from rustlog.testing.broker import TestBroker
from rustlog.wire.fluvio import cluster as fluvio_cluster
from rustlog.wire.fluvio.handlers.controller import HEAD_START_SECONDS
from rustlog.wire.fluvio.settings import FluvioSettings
from rustlog.wire.http import protocol as http
from rustlog.wire.http.api import Api
from rustlog.wire.http.routes import Routes
from rustlog.wire.kafka.apis import markdown_table
from rustlog.wire.kafka.handlers import (
    cluster,
    configchanges,
    configs,
    partitions,
    positions,
    producers,
    records,
    topics,
)
from rustlog.wire.kafka.primitives import ITEMS_MAX
from rustlog.wire.kafka.settings import KafkaSettings
from rustlog.wire.rustlog import errors
from rustlog.wire.rustlog.codec import CONTAINERS_MAX, decode_request
from rustlog.wire.rustlog.messages import FRAME_BYTES_MAX, REQUESTS
from rustlog.wire.rustlog.sizes import PRODUCE_RECORDS_MAX

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)]+)\)")


def page(name: str) -> str:
    """The text of a page."""
    return (ROOT / name).read_text("utf-8")


def rows(text: str, heading: str = "") -> dict[str, list[str]]:
    """
    The rows of all tables, of one section or of the page, by their first cells; in a cell that is one
    word of code, the word.
    """
    found: dict[str, list[str]] = {}
    for line in _section(text, heading).splitlines():
        if line.startswith("| "):
            first, *others = (_without_quotes(cell.strip()) for cell in line.strip("|").split(" |"))
            found[first] = others
    return found


def _section(text: str, heading: str) -> str:
    if not heading:
        return text
    _, _, rest = text.partition(f"\n## {heading}\n")
    return rest.partition("\n## ")[0]


def _without_quotes(cell: str) -> str:
    return cell[1:-1] if re.fullmatch("`[^`]+`", cell) else cell


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


class SettingsReferenceTests(SynchronousTestCase):
    """C{docs/reference/settings.md} says what can be set."""

    def check(self, heading: str, config_class: type) -> None:
        table = rows(page("docs/reference/settings.md"), heading)
        del table["Key"]
        expected = {
            each.name: [each.text(each.default), _number(each.minimum), _number(each.maximum), each.doc]
            for each in vocabulary(config_class)
        }
        self.assertEqual(table, expected)

    def test_topics(self) -> None:
        """Every setting of topics is there, with its default, its limits and its sentence; and no other."""
        self.check("Settings of topics", TopicConfig)

    def test_broker(self) -> None:
        """The same for the settings of the broker."""
        self.check("Settings of the broker", BrokerConfig)

    def test_protocols(self) -> None:
        """And for those of the Kafka protocol and the Fluvio protocol."""
        table = rows(page("docs/reference/settings.md"), "Settings of protocols")
        for name, settings_class in (("kafka", KafkaSettings), ("fluvio", FluvioSettings)):
            expected = {
                f"{name}.{key}": [str(each.default) if each.default != "" else "none", each.metadata["doc"]]
                for key, each in own_settings(settings_class).items()
            }
            found = {key: cells for key, cells in table.items() if key.startswith(f"{name}.")}
            self.assertEqual(found, expected)

    def test_choices(self) -> None:
        """Where only some values are accepted, all of them are named."""
        text = _section(page("docs/reference/settings.md"), "Settings of topics")
        for each in vocabulary(TopicConfig):
            for choice in each.choices:
                self.assertIn(f"`{choice}`", text)


def _number(limit: int | None) -> str:
    return "" if limit is None else str(limit)


class OptionsTests(SynchronousTestCase):
    """Two pages have tables of the options."""

    def check(self, name: str, heading: str, without: set[str]) -> None:
        table = {
            option: cells[0] for option, cells in rows(page(name), heading).items() if option.startswith("--")
        }
        known = {f"--{each.rstrip('=')}" for each in Options().longOpt} - without
        self.assertEqual(table, {each: str(DEFAULTS.get(each[2:]) or "none") for each in known})

    def test_reference(self) -> None:
        """The reference has every option, with its default."""
        self.check("docs/reference/command-line.md", "", set())

    def test_readme(self) -> None:
        """So has the README, but for those that everybody knows."""
        self.check("README.md", "Options", {"--help", "--version"})


class ProtocolReferenceTests(SynchronousTestCase):
    """C{docs/reference/rustlog-protocol.md} says what the protocol is."""

    def setUp(self) -> None:
        self.text = page("docs/reference/rustlog-protocol.md")

    def test_requests(self) -> None:
        """Each request has a section, and an example that the broker understands."""
        examples = [body for kind, body in _FENCE.findall(self.text) if kind == "json request"]
        shown = {type(decode_request(each.encode())) for each in examples}
        self.assertEqual(shown, set(REQUESTS.values()))
        for name in REQUESTS:
            self.assertIn(f"\n### {name}\n", self.text)

    def test_errors(self) -> None:
        """Each sentence that a client may be told is there, as far as it is always the same."""
        sentences = [*errors._SENTENCES.values(), errors.INTERNAL_ERROR]
        for each in sentences:
            constants = (part.strip() for part in re.split(r"\{[^}]*\}", each))
            beginning = next(part for part in constants if " " in part).partition(":")[0]
            self.assertIn(f"`{beginning}`", self.text)

    def test_limits(self) -> None:
        """The numbers are those of the code."""
        limits = rows(self.text, "Limits")
        self.assertEqual(limits["Payload of a frame"], [f"{FRAME_BYTES_MAX:,} bytes"])
        self.assertEqual(limits["Records in one `Produce`"], [f"{PRODUCE_RECORDS_MAX:,}"])
        self.assertEqual(limits["Arrays and objects in one request"], [f"{CONTAINERS_MAX:,}"])


class KafkaReferenceTests(SynchronousTestCase):
    """C{docs/reference/kafka-apis.md} says what is offered, C{kafka-administration.md} more of some of it."""

    def test_apis(self) -> None:
        """The table is the one that the code makes of itself."""
        self.assertIn(f"\n{markdown_table()}", page("docs/reference/kafka-apis.md"))

    def test_limits_of_requests(self) -> None:
        """The numbers are those of the code."""
        limits = rows(page("docs/reference/kafka-apis.md"), "Limits")
        self.assertEqual(limits["Items in the arrays of one request"], [f"{ITEMS_MAX:,}"])

    def test_administration(self) -> None:
        """Each request of operators is in the table."""
        text = page("docs/reference/kafka-administration.md")
        table = set(rows(text.partition("\n## ")[0])) - {"Request"}
        modules = (cluster, configchanges, configs, partitions, positions, producers, records, topics)
        self.assertEqual(table, {api.name for module in modules for api in module.APIS})

    def test_limits(self) -> None:
        """The numbers are those of the code."""
        text = page("docs/reference/kafka-administration.md")
        self.assertIn(f"1 to {PARTITIONS_MAX:,} partitions", text)
        self.assertIn(f"at most {partitions.PAGE_PARTITIONS_MAX:,} partitions", text)

    def test_positions(self) -> None:
        """Each special timestamp is there, with the version that brought it."""
        table = rows(page("docs/reference/kafka-administration.md"), "Offsets")
        since = {name: cells[0] for name, cells in table.items() if name.startswith("-")}
        expected = {str(each): str(positions.SINCE_VERSION.get(each, 1)) for each in positions.SPECS}
        self.assertEqual(since, expected)


class FluvioReferenceTests(SynchronousTestCase):
    """C{docs/reference/fluvio-protocol.md} says how it behaves; its bytes have tests of their own."""

    def test_numbers(self) -> None:
        """The numbers and names are those of the code."""
        text = page("docs/reference/fluvio-protocol.md")
        self.assertIn(f"number {fluvio_cluster.SPU_ID}, `{fluvio_cluster.SPU_NAME}`", text)
        self.assertIn(f"A name has 1 to {fluvio_cluster.NAME_LENGTH_MAX} characters", text)
        self.assertIn(f"The topic `{fluvio_cluster.SYSTEM_TOPIC}`", text)
        self.assertIn(f"answered {HEAD_START_SECONDS * 1000:.0f} ms later", text)


class MetricsReferenceTests(SynchronousTestCase):
    """C{docs/reference/metrics.md} says what is measured."""

    def setUp(self) -> None:
        self.text = page("docs/reference/metrics.md")

    def test_metrics(self) -> None:
        """Every metric is there, with its type, its labels and its sentence; and no other."""
        table = {name: cells for name, cells in rows(self.text).items() if name.startswith("rustlog_")}
        self.assertEqual(table, _exposed(_busy_metrics().text().decode()))

    def test_limits(self) -> None:
        """The numbers are those of the code."""
        self.assertIn(f"at most {SERIES_MAX:,} topics", self.text)
        self.assertIn(f"at most {TALLIES_MAX} pairs", self.text)
        self.assertIn(f"{NAME_LENGTH_MAX} characters", self.text)


def _busy_metrics() -> Metrics:
    """Metrics that have something to show for every name."""
    metrics = Metrics()
    metrics.meter("rustlog", "lan").answered("Produce", "ok", 1, 1, 0.1)
    metrics.traffic["rustlog"].read_bytes = 1
    metrics.watch_transit("in", lambda: 0)
    count = GroupCounters(metrics)
    count("rebalance", "member_left")
    count("departure", "left")
    count("generation", "")
    metrics.figures = Figures(
        (TopicFigures("orders", 1, False, 0, 0, 0),),
        (GroupFigures("kitchen", (LagFigures("orders", 0, 0),)),),
    )
    return metrics


def _exposed(text: str) -> dict[str, list[str]]:
    """Type, labels and sentence of each of our metrics."""
    found: dict[str, list[str]] = {}
    for block in text.split("# HELP ")[1:]:
        first, second, *samples = block.splitlines()
        name, _, sentence = first.partition(" ")
        kind = second.rpartition(" ")[2]
        labels = sorted(set(re.findall(r'(\w+)="', "".join(samples))) - {"le"})
        if name.startswith("rustlog_"):
            assert samples, f"{name} is not shown"
            found[name] = [kind, ", ".join(f"`{each}`" for each in labels), sentence]
    return {name: [_without_quotes(cell) for cell in cells] for name, cells in found.items()}


class HttpReferenceTests(SynchronousTestCase):
    """C{docs/reference/http.md} says what the HTTP listener gives."""

    def setUp(self) -> None:
        self.text = page("docs/reference/http.md")

    def test_paths(self) -> None:
        """Every path is there, and leads somewhere."""
        broker = TestBroker()
        routes = Routes(Api(broker.broker, broker.listener().monitoring))
        documented = {path for path in rows(self.text) if path.startswith("/") and path != "/readyz says"}
        self.assertEqual(documented, {path.replace("{name}", "NAME") for path in routes.paths})
        for path in documented:
            self.assertNotEqual(routes.find(path.encode()).name, "unknown")

    def test_limits(self) -> None:
        """The numbers are those of the code."""
        limits = rows(self.text, "Limits")
        self.assertEqual(limits["Request line and headers"], [f"{http.HEADER_BYTES_MAX:,} bytes"])
        self.assertEqual(limits["Body of a request"], [f"{http.BODY_BYTES_MAX:,} bytes"])
        self.assertEqual(limits["Time for a request to arrive"], [f"{http.REQUEST_SECONDS_MAX} seconds"])
        self.assertEqual(limits["Time between two requests"], [f"{http.IDLE_SECONDS_MAX} seconds"])


class PipelineReferenceTests(SynchronousTestCase):
    """C{docs/reference/pipeline.md} says what the jobs of the pipeline can be told."""

    def setUp(self) -> None:
        self.text = page("docs/reference/pipeline.md")
        nodes = [node for node in walk(make_parser()) if node.path[:1] == ("pipeline",)]
        self.jobs = {node.path[1]: node for node in nodes if node.path[1:]}

    def options(self, heading: str) -> dict[str, list[str]]:
        return {name: cells for name, cells in rows(self.text, heading).items() if name.startswith("--")}

    def test_options(self) -> None:
        """Each job has a section with its options, beside those that all have; and no other."""
        common = self.options("What all jobs have in common")
        self.assertEqual(len(self.jobs), 6)
        for name, node in self.jobs.items():
            not_here = {each for each, cells in common.items() if f"Not for `{name}`" in cells[0]}
            documented = (common.keys() - not_here) | self.options(name).keys()
            self.assertEqual(documented, node.options.keys() - {"--help"}, name)

    def test_defaults(self) -> None:
        """Defaults that the help names are those of the page."""
        for name, node in self.jobs.items():
            for option, cells in self.options(name).items():
                told = re.search(r"\[default: ([\w.=-]+)\]", node.options[option])
                if told is not None and told[1] not in ("all", "key", "one", "as"):
                    self.assertEqual(cells[1].strip("`"), told[1], f"{name} {option}")

    def test_statuses(self) -> None:
        """So are the statuses."""
        statuses = rows(self.text, "What all jobs have in common")
        for status in (jobs.FINDINGS, jobs.NOT_RUN, jobs.UNREACHABLE, INTERRUPTED):
            self.assertIn(str(status), statuses)


class OtherPagesTests(SynchronousTestCase):
    """The rest."""

    def test_dependencies(self) -> None:
        """Each dependency has a reason, and none is named that is not one."""
        setup = ConfigParser()
        setup.read(ROOT / "setup.cfg")
        text = page("docs/explanation/dependencies.md")
        for heading, wanted in (
            ("To run", setup["options"]["install_requires"]),
            ("For Spark", setup["options.extras_require"]["spark"]),
            ("For Delta tables", setup["options.extras_require"]["delta"]),
            ("To test", setup["options.extras_require"]["test"]),
        ):
            names = {re.split("[<>=!~]", line)[0] for line in wanted.split()}
            self.assertEqual(set(rows(text, heading)) - {"Package", "---"}, names)

    def test_spark(self) -> None:
        """The columns and options of what lies below Spark are there, with their types and defaults."""
        text = page("docs/reference/spark-plane.md")
        columns = {name: cells[0] for name, cells in rows(text, "Columns").items()}
        self.assertEqual(columns, {"Column": "Type", **DDL})
        defaults, table = ClientSettings(bootstrap=()), rows(text, "The client")
        for option, (name, _) in CLIENT_OPTIONS.items():
            self.assertIn(f"`{option}`", text)
            value = getattr(defaults, name)
            if value is not None:
                shown = str(round(value * 1000)) if isinstance(value, float) else value
                self.assertEqual(table[option][0], shown)

    def test_format_version(self) -> None:
        """The page on the disk layout is about the version that is written."""
        self.assertIn(f"format version {FORMAT_VERSION}.", page("docs/reference/disk-layout.md"))

    def test_minikafka(self) -> None:
        """What MiniKafka's format can not hold is named, with what becomes of it; so are its settings."""
        text = page("docs/reference/disk-layout.md")
        self.assertIn(f"`--storage=minikafka`, format version {opening.FORMAT_VERSION},", text)
        table = rows(text)
        for what, becomes in BECOMES.items():
            self.assertEqual(table.get(what), [becomes], what)
        settings = rows(page("docs/reference/settings.md"), "Settings of stores")
        self.assertEqual(settings["minikafka.segment.bytes"][0], str(opening.SEGMENT_BYTES))
        self.assertEqual(settings["minikafka.segments.kept"][0], str(opening.SEGMENTS_KEPT))

    def test_links(self) -> None:
        """Links within the documentation lead somewhere."""
        for source, target in _links():
            path, _, anchor = target.partition("#")
            destination = (source.parent / path).resolve() if path else source
            self.assertTrue(destination.exists(), f"{source.name}: {target}")
            if anchor:
                headings = re.findall(r"^#+ (.+)$", destination.read_text("utf-8"), re.MULTILINE)
                self.assertIn(anchor, map(slug, headings), f"{source.name}: {target}")


def _links() -> Iterator[tuple[Path, str]]:
    for source in PAGES:
        for target in _LINK.findall(_FENCE.sub("", source.read_text("utf-8"))):
            if not target.startswith("https://"):
                yield source, target
