"""Tests for L{rustlog.storage.converting}: directories of one format become those of another, and back."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import StartupError
from rustlog.log import records
from rustlog.log.batch import split_batches
from rustlog.log.codecs import Codec
from rustlog.model import Fetched, Isolation, Record
from rustlog.results import deferred
from rustlog.storage.converting.conversion import Options, Report, convert
from rustlog.storage.minikafka import store as minikafka
from rustlog.storage.segments import store as segments
from rustlog.testing.disk import SimulatedCrash
from rustlog.testing.environment import memory_environment
from tests.unit.storage.minikafka.byhand import read_records, write_record

OLD, NEW, BACK = PurePath("/old"), PurePath("/new"), PurePath("/back")
THERE = Options(OLD, NEW, "minikafka", "segments")
OPENERS: dict[str, Any] = {
    "segments": lambda root, environment: segments.open_store(segments.SegmentsSettings(root), environment),
    "minikafka": lambda root, environment: minikafka.open_store(
        minikafka.MiniKafkaSettings(root, segments_kept=1000), environment
    ),
}
Content = dict[str, list[tuple[Any, ...]]]


class Case(SynchronousTestCase):
    """Tests with directories on a simulated disk."""

    def setUp(self) -> None:
        self.environment = memory_environment()
        self.files = self.environment.files
        self.expected: Content = {
            "orders-0": [(each, each * 7, b"k%d" % each, b"v" * each) for each in range(60)],
            "orders-1": [(each, 1, b"", b"") for each in range(100, 110)],
            "orders-2": [],
            "__consumer_offsets-0": [(0, 5, b"group:orders:0", b"17")],
            "__consumer_offsets-1": [(0, 6, b"group:orders:1", b"104"), (1, 7, b"group:orders:1", b"105")],
        }
        self.put("orders/0/0.log", self.expected["orders-0"][:40])
        self.put("orders/0/40.log", self.expected["orders-0"][40:])
        self.put("orders/1/100.log", self.expected["orders-1"])
        self.files.make_directory(OLD / "logs" / "orders" / "2")
        self.files.sync_directory(OLD / "logs" / "orders")
        for index in (0, 1):
            self.put(f"__consumer_offsets/{index}/0.log", self.expected[f"__consumer_offsets-{index}"])

    def put(self, name: str, content: list[tuple[Any, ...]]) -> None:
        path = OLD / "logs" / name
        self.files.make_directory(path.parent)
        self.files.put(path, b"".join(write_record(*each) for each in content))
        for directory in path.parents:
            self.files.sync_directory(directory)

    def convert(self, options: Options = THERE, **more: Any) -> Report:
        return convert(self.files, self.environment.random, options, **more)

    def refused(self, options: Options = THERE) -> str:
        return str(self.assertRaises(StartupError, self.convert, options))

    # -- stores --

    def open(self, root: PurePath, format_name: str) -> Any:
        return self.successResultOf(OPENERS[format_name](root, self.environment))

    def close(self, store: Any) -> None:
        closing = store.close()
        self.environment.clock.advance(0)
        self.successResultOf(closing)

    def content(self, root: PurePath, format_name: str) -> Content:
        """Everything that a store serves."""
        store = self.open(root, format_name)
        found = {
            f"{topic.name}-{index}": self.read(store, store.partition(topic.name, index))
            for topic in store.catalog.all()
            for index in range(topic.partitions)
        }
        self.close(store)
        return found

    def read(self, store: Any, partition: Any) -> list[tuple[Any, ...]]:
        offset, found = partition.log_start_offset, []
        while offset < partition.high_watermark:
            reading = store.read([(partition, offset, 10_000)], 10_000, Isolation.READ_UNCOMMITTED)
            (answer,) = self.successResultOf(deferred(reading))
            assert isinstance(answer, Fetched), answer
            for batch in split_batches(b"".join(each.buffer() for each in answer.slices)):
                batch.check()
                decoded = records.decode(batch, from_offset=offset)
                found += [(each.offset, each.timestamp, each.key, each.value) for each in decoded]
                offset = batch.next_offset
            answer.release()
        return found

    def make_segments(self, *content: Record, config: dict[str, str] | None = None, start: int = 0) -> None:
        """A closed directory with one partition, in batches of three."""
        store = self.open(OLD / "s", "segments")
        self.successResultOf(store.catalog.create("orders", 1, config or {}))
        partition = store.partition("orders", 0)
        for first in range(0, len(content), 3):
            batch = records.build(content[first : first + 3], now_ms=1, codec=Codec.GZIP)
            appending = deferred(store.append([(partition, batch)]))
            self.environment.clock.advance(0)
            self.successResultOf(appending)
        self.successResultOf(store.delete_records(partition, start))
        self.successResultOf(store.allocate_producer_ids(7))
        self.close(store)


BACKWARDS = Options(OLD / "s", NEW, "segments", "minikafka")


class ConversionTests(Case):
    """What survives."""

    def test_there_and_back(self) -> None:
        """Offsets, timestamps, keys, values and what groups have committed are the same after both ways."""
        names = ("orders/0/0.log", "orders/0/40.log")
        before = {name: self.files.content(OLD / "logs" / name) for name in names}
        report = self.convert()
        self.assertEqual((report.topics, report.partitions, report.records), (2, 5, 73))
        self.assertEqual(self.content(NEW, "segments"), self.expected)
        self.convert(Options(NEW, BACK, "segments", "minikafka"))
        self.assertEqual(self.content(BACK, "minikafka"), self.expected)
        for name, content in before.items():
            self.assertEqual(self.files.content(OLD / "logs" / name), content, "the source is not touched")
        found = read_records(self.files.content(BACK / "logs" / "orders" / "0" / "0.log"))
        self.assertEqual(found, self.expected["orders-0"])

    def test_topics(self) -> None:
        """Topics keep ids and settings; those of MiniKafka keep old records, as they always did."""
        self.make_segments(Record(b"a"), config={"retention.ms": "5000"})
        before = self.open(OLD / "s", "segments")
        self.close(before)
        self.convert(BACKWARDS)
        after = self.open(NEW, "minikafka")
        self.assertEqual(after.catalog.all(), before.catalog.all())
        self.assertEqual(self.successResultOf(after.allocate_producer_ids(1)), 7)
        self.convert(Options(OLD, BACK, "minikafka", "segments"))
        store = self.open(BACK, "segments")
        self.assertEqual(store.catalog.get("orders").config, {"retention.ms": "-1"})
        self.assertTrue(store.catalog.get("__consumer_offsets").internal)

    def test_log_start(self) -> None:
        """A log that begins within a batch, or has been emptied, begins at the same offset."""
        for start in (0, 4, 9):
            self.setUp()
            self.make_segments(*[Record(b"%d" % each, b"k") for each in range(9)], start=start)
            self.convert(BACKWARDS)
            store = self.open(NEW, "minikafka")
            partition = store.partition("orders", 0)
            self.assertEqual((partition.log_start_offset, partition.high_watermark), (start, 9))
            self.assertEqual([each[0] for each in self.read(store, partition)], list(range(start, 9)))

    def test_small_segments(self) -> None:
        """Segments have the size that is set for the topic."""
        self.make_segments(*[Record(b"x" * 100, b"k") for _ in range(60)], config={"segment.bytes": "1000"})
        report = self.convert(BACKWARDS)
        names = self.files.names(NEW / "logs" / "orders" / "0")
        self.assertEqual(len(names), report.segments_max)
        self.assertGreater(len(names), 4)
        self.assertEqual(len(self.content(NEW, "minikafka")["orders-0"]), 60)

    def test_not_held(self) -> None:
        """What the target can not hold is named; only who says so loses it."""
        for record, what in (
            (Record(b"v", b"k", headers=(("h", b"1"),)), "headers"),
            (Record(None, b"k"), "a null value"),
        ):
            self.setUp()
            self.make_segments(Record(b"a", b"k"), record)
            self.assertIn(f"orders-0 has a record with {what} at offset 1", self.refused(BACKWARDS))
            report = self.convert(Options(OLD / "s", NEW, "segments", "minikafka", lossy=True))
            self.assertEqual(report.changed, 1)
            values = [each[3] for each in self.content(NEW, "minikafka")["orders-0"]]
            self.assertEqual(values, [b"a", record.value or b""])

    def test_offsets_in_files(self) -> None:
        """What --offsets=file has written comes along."""
        self.files.make_directory(OLD / "offsets")
        self.files.put(OLD / "offsets" / "3.log", b"commits")
        self.convert()
        self.assertEqual(self.files.content(NEW / "offsets" / "3.log"), b"commits")

    def test_torn_tail(self) -> None:
        """A last record that MiniKafka has never completed is not converted."""
        path = OLD / "logs" / "orders" / "0" / "40.log"
        self.files.put(path, self.files.content(path)[:-1])
        self.convert()
        self.assertEqual(self.content(NEW, "segments")["orders-0"], self.expected["orders-0"][:-1])


class InterruptionTests(Case):
    """It can be called again."""

    def test_finished(self) -> None:
        """One that is finished says so, and does nothing."""
        first = self.convert()
        again = self.convert()
        self.assertEqual((first.was_finished, again.was_finished), (False, True))
        self.assertEqual((again.records, again.tallies), (first.records, first.tallies))

    def test_power_loss(self) -> None:
        """Whenever the power fails, another call completes it, and the result is the same."""
        for call in range(1, 10_000, 3):
            self.setUp()
            self.files.crash_at_call(call)
            try:
                self.convert()
            except SimulatedCrash:
                self.environment = self.environment.after_crash()
                self.convert()
            else:
                self.assertGreater(call, 50)
                break
            found = self.content(NEW, "segments")
            for name, content in self.expected.items():
                self.assertEqual(found[name], content, f"call {call}, {name}")

    def test_goes_on(self) -> None:
        """What has been written is not written again; what was torn is."""
        self.convert()
        path = NEW / "logs" / "orders" / "1" / "100.log"
        whole = self.files.content(path)
        self.files.put(NEW / "FORMAT", self.unfinished())
        self.files.put(path, whole[:-5])
        self.assertTrue(self.convert().was_continued)
        self.assertEqual(self.content(NEW, "segments"), self.expected)

    def unfinished(self) -> bytes:
        """The mark of a conversion that is under way."""
        with self.assertRaises(ZeroDivisionError):
            self.convert(Options(OLD, BACK, "minikafka", "segments"), copied=lambda _: 1 / 0)
        return self.files.content(BACK / "FORMAT").replace(b"/back", b"/new")

    def test_unfinished_is_refused_by_stores(self) -> None:
        """A directory that is not finished is nobody's, and says how to finish it."""
        self.assertRaises(ZeroDivisionError, self.convert, copied=lambda _: 1 / 0)
        for format_name in ("segments", "minikafka"):
            failure = self.failureResultOf(OPENERS[format_name](NEW, self.environment), StartupError)
            command = "rustlog log convert /old /new --from=minikafka --to=segments"
            self.assertIn(command, str(failure.value))

    def test_verified(self) -> None:
        """A target that is not the same as the source is not finished."""
        path = NEW / "logs" / "orders" / "0" / "0.log"

        spoiled: list[int] = []

        def spoil(size: int) -> None:
            if not spoiled:
                spoiled.append(size)
                self.files.flip_bit(path, 500)

        with self.assertRaises(StartupError):
            self.convert(verified=spoil)
        failure = self.failureResultOf(OPENERS["segments"](NEW, self.environment))
        self.assertIn("is not yet converted", str(failure.value))


class RefusalTests(Case):
    """One line each."""

    def test_wrong_formats(self) -> None:
        """Formats that there are not, or that the source has not, are named."""
        self.assertIn("there is no format 'kafka'", self.refused(Options(OLD, NEW, "kafka", "segments")))
        self.assertIn("is to become what it is", self.refused(Options(OLD, NEW, "segments", "segments")))
        sentence = self.refused(Options(OLD, NEW, "segments", "minikafka"))
        self.assertIn("is a directory of the store 'minikafka', not of 'segments'", sentence)

    def test_no_source(self) -> None:
        """So is a source that is not there, or no data directory."""
        self.assertIn("there is no directory", self.refused(Options(BACK, NEW, "minikafka", "segments")))
        self.files.make_directory(BACK)
        self.assertIn("is not a data directory", self.refused(Options(BACK, NEW, "minikafka", "segments")))

    def test_source_in_use(self) -> None:
        """A broker must not be at work on it."""
        self.open(OLD, "minikafka")
        self.assertIn("/old is in use by another process", self.refused())

    def test_source_not_closed(self) -> None:
        """Nor may it have died without having been opened since."""
        self.open(OLD, "minikafka")
        self.environment = self.environment.after_crash()
        self.assertIn("was not closed in good order", self.refused())

    def test_damaged_source(self) -> None:
        """Damage is not converted."""
        self.files.flip_bit(OLD / "logs" / "orders" / "0" / "0.log", 130)
        self.assertIn("0.log is damaged at offset", self.refused())

    def test_foreign_target(self) -> None:
        """A directory that is not empty, or belongs to a store or to another conversion, is left alone."""
        self.files.make_directory(NEW)
        self.files.put(NEW / "letter.txt", b"")
        self.assertIn("is not empty (letter.txt is in it)", self.refused())
        self.close(self.open(BACK, "segments"))
        self.assertIn("choose another", self.refused(Options(OLD, BACK, "minikafka", "segments")))
        self.assertIn("lies within", self.refused(Options(OLD, OLD / "x", "minikafka", "segments")))

    def test_target_of_another(self) -> None:
        """An unfinished conversion of something else is not continued."""
        self.assertRaises(ZeroDivisionError, self.convert, copied=lambda _: 1 / 0)
        self.make_segments(Record(b"v"))
        self.assertIn("is the unfinished conversion of /old", self.refused(BACKWARDS))

    def test_target_in_use(self) -> None:
        """Nor is one that is under way."""
        self.files.make_directory(NEW)
        self.files.lock(NEW / "LOCK")
        self.assertIn("/new is in use by another process", self.refused())
