"""
A data directory that MiniKafka has written, by hand, opens as it is; what is written to it, hands can read.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import DamagedLog, StartupError
from rustlog.log import records
from rustlog.log.batch import split_batches
from rustlog.model import Committed, Fetched, Isolation, OffsetSpec, Record, TopicPartition
from rustlog.offsets import topic as topic_offsets
from rustlog.results import deferred
from rustlog.settings import TopicConfig
from rustlog.storage.minikafka.store import MiniKafkaSettings, MiniKafkaStore, open_store
from rustlog.storage.segments import store as segments_store
from rustlog.storage.segments.store import SegmentsSettings
from rustlog.testing.disk import SimulatedCrash
from rustlog.testing.environment import memory_environment
from tests.unit.storage.minikafka.byhand import read_records, write_record

ROOT = PurePath("/data")
LOGS = ROOT / "logs"
START_MS = 1_000_000
"""Long ago: older than anything that is kept by default."""


def stored(count: int, first: int = 0) -> list[tuple[int, int, bytes, bytes]]:
    """So many records as MiniKafka might have them."""
    return [
        (each, START_MS + each, b"key %d" % (each % 3), b"payload %d" % each)
        for each in range(first, first + count)
    ]


class DirectoryCase(SynchronousTestCase):
    """Tests with a directory that a few lines have written."""

    settings = MiniKafkaSettings(ROOT)

    def setUp(self) -> None:
        self.environment = memory_environment()
        self.files = self.environment.files
        self.write("orders", 0, 0, stored(15))
        self.write("orders", 0, 15, stored(5, first=15))
        self.write("orders", 2, 0, stored(3))
        self.write("orders", 1, 100, stored(4, first=100))

    def write(self, topic: str, partition: int, base: int, content: list[Any]) -> None:
        path = LOGS / topic / str(partition) / f"{base}.log"
        self.files.make_directory(path.parent)
        self.files.put(path, b"".join(write_record(*each) for each in content))
        for directory in path.parents:
            self.files.sync_directory(directory)

    def content(self, topic: str, partition: int, base: int) -> bytes:
        return self.files.content(LOGS / topic / str(partition) / f"{base}.log")

    def snapshot(self) -> dict[PurePath, bytes]:
        """Every file that MiniKafka knows."""
        return {
            LOGS / topic / number / name: self.files.content(LOGS / topic / number / name)
            for topic in self.files.names(LOGS)
            for number in self.files.names(LOGS / topic)
            for name in self.files.names(LOGS / topic / number)
        }

    def open(self, **settings: Any) -> MiniKafkaStore:
        opening = open_store(evolve(self.settings, **settings), self.environment)
        self.store: MiniKafkaStore = self.successResultOf(opening)
        return self.store

    def close(self) -> None:
        closing = self.store.close()
        self.environment.clock.advance(0)
        self.successResultOf(closing)

    def die(self) -> None:
        self.environment = self.environment.after_crash()

    def send(self, partition: int, *values: bytes, topic: str = "orders") -> int:
        batch = records.build([Record(each, b"new") for each in values], now_ms=self.now_ms())
        entries = [(self.store.partition(topic, partition), batch)]
        appending = deferred(self.store.append(entries))  # type: ignore[arg-type]
        self.environment.clock.advance(0)
        (answer,) = self.successResultOf(appending)
        offset: int = answer.base_offset
        return offset

    def now_ms(self) -> int:
        return self.environment.wall.now_ms()

    def read(self, partition: int, offset: int | None = None, topic: str = "orders") -> list[tuple[Any, ...]]:
        """All records from an offset on."""
        handle = self.store.partition(topic, partition)
        assert handle is not None
        offset = handle.log_start_offset if offset is None else offset
        found: list[tuple[Any, ...]] = []
        while offset < handle.high_watermark:
            reading = self.store.read([(handle, offset, 200)], 200, Isolation.READ_UNCOMMITTED)
            (answer,) = self.successResultOf(deferred(reading))
            if not isinstance(answer, Fetched):
                raise answer
            for batch in split_batches(b"".join(each.buffer() for each in answer.slices)):
                batch.check()
                found += [(r.offset, r.timestamp, r.key, r.value) for r in records.decode(batch)]
                offset = batch.next_offset
        return found


class AdoptionTests(DirectoryCase):
    """An unmarked directory."""

    def test_served_as_it_is(self) -> None:
        """Everything is found where it was, also in a partition that begins late."""
        before = self.snapshot()
        self.open()
        (topic,) = self.store.catalog.all()
        self.assertEqual((topic.name, topic.partitions, topic.internal), ("orders", 3, False))
        self.assertEqual(self.read(0), stored(20))
        self.assertEqual(self.read(1), stored(4, first=100))
        self.assertEqual(self.read(2), stored(3))
        self.assertEqual(self.snapshot(), before, "nothing that is MiniKafka's has changed")

    def test_appended(self) -> None:
        """What is appended is read by those who know nothing of this store, after what was there."""
        self.open()
        now_ms = self.now_ms()
        self.assertEqual(self.send(0, b"a", b"b"), 20)
        self.assertEqual(self.send(1, b"c"), 104)
        self.close()
        appended = [(20, now_ms, b"new", b"a"), (21, now_ms, b"new", b"b")]
        self.assertEqual(read_records(self.content("orders", 0, 15)), stored(5, first=15) + appended)
        expected = [*stored(4, first=100), (104, now_ms, b"new", b"c")]
        self.assertEqual(read_records(self.content("orders", 1, 100)), expected)
        self.assertEqual(self.files.names(LOGS / "orders" / "0"), ["0.log", "15.log"])

    def test_reopened(self) -> None:
        """Closed or crashed, it is the same directory afterwards, and topics keep their ids."""
        self.open()
        topic = self.store.catalog.get("orders")
        for end in (self.close, self.die, self.die, self.close):
            end()
            self.open()
            self.assertEqual(self.store.catalog.get("orders"), topic)
            self.assertEqual(self.read(0), stored(20))
            self.assertEqual(self.read(1), stored(4, first=100))

    def test_power_loss_while_adopting(self) -> None:
        """Whenever the power fails during the first opening, the next one finds everything."""
        for call in range(1, 1000):
            self.setUp()
            before = self.snapshot()
            self.files.crash_at_call(call)
            try:
                self.open()
            except SimulatedCrash:
                self.die()
                self.open()
            else:
                self.assertGreater(call, 30)
                return
            self.assertEqual(self.snapshot(), before, f"call {call}")
            self.assertEqual([len(self.read(index)) for index in range(3)], [20, 4, 3], f"call {call}")

    def test_found_by_time(self) -> None:
        """Records are found by their timestamps."""
        self.open()
        handle = self.store.partition("orders", 0)
        for spec, offset in ((START_MS + 17, 17), (OffsetSpec.MAX_TIMESTAMP, 19), (START_MS + 20, -1)):
            found = self.successResultOf(self.store.offset_for(handle, spec))  # type: ignore[arg-type]
            self.assertEqual(found.offset, offset)

    def test_old_records_stay(self) -> None:
        """MiniKafka deletes nothing for its age; so nothing disappears because the directory moves here."""
        self.open()
        self.successResultOf(self.store.maintain())
        self.assertEqual(len(self.read(0)), 20)

    def test_torn_tail(self) -> None:
        """A record that was never completed is cut off; the next one takes its place."""
        path = LOGS / "orders" / "0" / "15.log"
        for missing in (1, 10, 30):
            self.setUp()
            self.files.put(path, self.files.content(path)[:-missing])
            self.open()
            self.assertEqual(self.read(0), stored(19))
            self.assertEqual(self.send(0, b"next"), 19)

    def test_garbage_at_the_end(self) -> None:
        """Bytes at the end that were never a record are cut off as well, but kept."""
        path = LOGS / "orders" / "0" / "15.log"
        self.files.put(path, self.files.content(path) + b"\xff" * 100)
        self.open()
        self.assertEqual(self.read(0), stored(20))
        (name,) = self.files.names(ROOT / "damaged")
        self.assertEqual(self.files.content(ROOT / "damaged" / name), b"\xff" * 100)

    def test_damaged_payload(self) -> None:
        """A damaged payload is reported and never served; everything around it is, and nothing is touched."""
        path = LOGS / "orders" / "0" / "0.log"
        self.files.flip_bit(path, len(write_record(*stored(1)[0])) * 4 - 1)
        before = self.snapshot()
        self.open()
        self.assertEqual(self.read(0, 4), stored(16, first=4))
        damage = self.assertRaises(DamagedLog, self.read, 0, 0)
        self.assertEqual((damage.offset, damage.reason), (3, "the checksum of the payload does not match"))
        self.assertEqual(self.snapshot(), before)
        self.assertEqual(self.send(0, b"next"), 20)

    def test_damaged_length(self) -> None:
        """What lies behind a damaged length can not be read, but what is in other segments can."""
        path = LOGS / "orders" / "0" / "0.log"
        self.files.flip_bit(path, len(write_record(*stored(1)[0])) * 4 + 2)
        before = self.snapshot()
        self.open()
        self.assertEqual(self.read(0, 15), stored(5, first=15))
        for offset in (0, 4, 14):
            self.assertRaises(DamagedLog, self.read, 0, offset)
        self.assertEqual(self.snapshot(), before)

    def test_missing_segment(self) -> None:
        """Records that are missing are not passed over in silence."""
        self.write("orders", 0, 25, stored(5, first=25))
        self.open()
        self.assertEqual(self.store.partition("orders", 0).high_watermark, 30)  # type: ignore[union-attr]
        self.assertEqual(self.read(0, 25), stored(5, first=25))
        damage = self.assertRaises(DamagedLog, self.read, 0, 20)
        self.assertIn("offset 25 stands where 20 should", damage.reason)

    def test_written_by_minikafka_meanwhile(self) -> None:
        """Between two clean lives here, MiniKafka may write, also to new segments, partitions and topics."""
        self.open()
        self.send(0, b"mine")
        self.close()
        path = LOGS / "orders" / "0" / "15.log"
        self.files.put(path, self.files.content(path) + write_record(21, 1, b"k", b"theirs"))
        self.write("orders", 0, 22, [(22, 2, b"k", b"theirs, too")])
        self.write("orders", 4, 0, [(0, 3, b"k", b"new partition")])
        self.write("new", 0, 0, [(0, 4, b"k", b"new topic")])
        self.open()
        self.assertEqual([each[3] for each in self.read(0, 20)], [b"mine", b"theirs", b"theirs, too"])
        self.assertEqual(self.read(4), [(0, 3, b"k", b"new partition")])
        self.assertEqual(self.read(0, topic="new"), [(0, 4, b"k", b"new topic")])
        self.assertEqual(self.send(0, b"mine again"), 23)

    def test_strangers(self) -> None:
        """Files that are no logs, and topics whose names are not allowed, are left where they are."""
        self.files.put(LOGS / "README", b"read me")
        self.files.put(LOGS / "orders" / "notes.txt", b"notes")
        self.write("no topic!", 0, 0, stored(2))
        before = self.files.names(LOGS)
        self.open()
        self.assertEqual([topic.name for topic in self.store.catalog.all()], ["orders"])
        self.assertEqual(self.files.names(LOGS), before)


class RefusalTests(DirectoryCase):
    """Directories of the other format."""

    def test_refused_by_segments(self) -> None:
        """The store segments says how an unmarked directory can be opened, or converted."""
        opening = segments_store.open_store(SegmentsSettings(ROOT), self.environment)
        sentence = str(self.failureResultOf(opening, StartupError).value)
        self.assertIn("--storage=minikafka", sentence)
        self.assertIn("rustlog log convert /data NEW-DIRECTORY --from=minikafka --to=segments", sentence)

    def test_marked_is_refused_by_segments(self) -> None:
        """So it does once the directory has its mark."""
        self.open()
        self.close()
        opening = segments_store.open_store(SegmentsSettings(ROOT), self.environment)
        sentence = str(self.failureResultOf(opening, StartupError).value)
        self.assertIn("was written by the store 'minikafka'", sentence)
        self.assertIn("rustlog log convert /data NEW-DIRECTORY --from=minikafka --to=segments", sentence)

    def test_segments_are_refused(self) -> None:
        """The other way round it is the same."""
        root = PurePath("/other")
        store = self.successResultOf(segments_store.open_store(SegmentsSettings(root), self.environment))
        self.successResultOf(store.close())
        opening = open_store(MiniKafkaSettings(root), self.environment)
        sentence = str(self.failureResultOf(opening, StartupError).value)
        self.assertIn("rustlog log convert /other NEW-DIRECTORY --from=segments --to=minikafka", sentence)

    def test_other_files(self) -> None:
        """Files in which there are no records of MiniKafka's are refused, not repaired."""
        path = LOGS / "orders" / "0" / "0.log"
        for content in (b"text " * 20, bytes(records.build([Record(b"v")], now_ms=0).buffer)):
            self.files.put(path, content)
            sentence = str(self.failureResultOf(open_store(self.settings, self.environment)).value)
            self.assertIn(f"{path} does not begin with a record of MiniKafka's", sentence)
            self.assertEqual(self.files.content(path), content)

    def test_too_many_segments(self) -> None:
        """A log of more segments than are kept is not cut down without a word."""
        settings = evolve(self.settings, segments_kept=1)
        sentence = str(self.failureResultOf(open_store(settings, self.environment)).value)
        self.assertIn("say --set=minikafka.segments.kept=2 to keep them", sentence)

    def test_in_use(self) -> None:
        """A directory belongs to one process at a time."""
        self.open()
        opening = open_store(self.settings, self.environment)
        self.assertIn("in use", str(self.failureResultOf(opening, StartupError).value))


class SegmentCountTests(DirectoryCase):
    """Rolling, and how many segments are kept."""

    def names(self, topic: str = "orders") -> list[int]:
        return sorted(int(name.removesuffix(".log")) for name in self.files.names(LOGS / topic / "0"))

    def test_rolled_after_the_write_that_reaches_the_size(self) -> None:
        """A segment is as large as it may be, or larger by less than one write."""
        self.open(segment_bytes=300)
        for _ in range(40):
            self.send(0, b"x" * 50)
            self.environment.clock.advance(0)
        sizes = [len(self.content("orders", 0, base)) for base in self.names()[:-1]]
        for size in sizes[2:]:
            self.assertEqual(size, 85 * 4)

    def test_kept(self) -> None:
        """No more segments are kept than were asked for, and none is given up before."""
        self.open(segment_bytes=300, segments_kept=3)
        self.assertEqual(self.names(), [0, 15])
        for _ in range(40):
            self.send(0, b"x" * 50)
            self.environment.clock.advance(0)
            self.assertLessEqual(len(self.names()), 3)
        self.assertEqual(len(self.names()), 3)
        handle = self.store.partition("orders", 0)
        assert handle is not None
        self.assertEqual(handle.log_start_offset, self.names()[0])
        self.assertEqual(handle.high_watermark, 60)
        self.assertEqual([each[0] for each in self.read(0)], list(range(self.names()[0], 60)))

    def test_settings_of_the_topic(self) -> None:
        """A topic may have smaller segments than the store, not larger ones."""
        self.open(topic_defaults=TopicConfig(segment_bytes=150), segment_bytes=300, segments_kept=1000)
        for _ in range(10):
            self.send(0, b"x" * 50)
        self.assertEqual(len(self.content("orders", 0, self.names()[-2])), 170)

    def test_offsets_are_kept(self) -> None:
        """The topic of offsets loses nothing for the number of its segments."""
        for partition in range(4):
            self.write("__consumer_offsets", partition, 0, [(0, 1, b"group:orders:%d" % partition, b"7")])
        self.open(segment_bytes=50, segments_kept=2)
        for _ in range(10):
            self.send(0, b"x" * 50, topic="__consumer_offsets")
            self.environment.clock.advance(0)
        self.successResultOf(self.store.maintain())
        self.assertEqual(len(self.read(0, topic="__consumer_offsets")), 11)


class OffsetsTests(DirectoryCase):
    """The offsets of groups, with C{--offsets=topic}."""

    def offsets(self) -> Any:
        opening = topic_offsets.open_store(
            topic_offsets.TopicOffsetsSettings(), self.environment, self.store  # type: ignore[arg-type]
        )
        for _ in range(100):
            self.environment.clock.advance(0.01)
        return self.successResultOf(opening)

    def test_found(self) -> None:
        """The last commit of each key counts, in whichever partition MiniKafka put it."""
        self.write("__consumer_offsets", 0, 0, [(0, 1, b"a:orders:0", b"3"), (1, 2, b"a:orders:0", b"9")])
        self.write("__consumer_offsets", 3, 0, [(0, 1, b"a:orders:1", b"101"), (1, 5, b"b:c:orders:0", b"1")])
        self.open()
        self.assertTrue(self.store.catalog.get("__consumer_offsets").internal)  # type: ignore[union-attr]
        offsets = self.offsets()
        found = self.successResultOf(offsets.fetch("a"))
        self.assertEqual(
            {name: each.offset for name, each in found.items()},
            {TopicPartition("orders", 0): 9, TopicPartition("orders", 1): 101},
        )
        (committed,) = self.successResultOf(offsets.fetch("b:c")).values()
        self.assertEqual(committed.offset, 1)

    def test_committed(self) -> None:
        """A commit is a record that MiniKafka reads, too; its metadata is dropped."""
        self.open()
        offsets = self.offsets()
        committed = Committed(5, metadata="lost", commit_time=77)
        committing = offsets.commit("group", {TopicPartition("orders", 0): committed})
        self.environment.clock.advance(0.1)
        self.successResultOf(committing)
        self.successResultOf(offsets.close())
        self.close()
        self.assertEqual(
            read_records(self.content("__consumer_offsets", 0, 0)), [(0, 77, b"group:orders:0", b"5")]
        )
        self.open()
        found = self.successResultOf(self.offsets().fetch("group"))
        self.assertEqual(found, {TopicPartition("orders", 0): Committed(5, commit_time=77)})
