"""Tests for L{rustlog.storage.segments.segment}."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import PurePath
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.logger import LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.batch import RecordBatch
from rustlog.log.records import build, decode
from rustlog.model import Record
from rustlog.storage.handles import Handles
from rustlog.storage.segments.reading import Cold, Damage, insist
from rustlog.storage.segments.segment import Segment
from rustlog.storage.segments.walking import check_batch
from rustlog.testing.disk import SimulatedDisk

DIRECTORY = PurePath("/logs/orders/0")
BASE = 1000
INTERVAL = 500
LOG, INDEX, TIMES = (DIRECTORY / f"{BASE}.{suffix}" for suffix in ("log", "index", "timeindex"))


def make_batch(count: int = 1, timestamp: int = 0, size: int = 30) -> RecordBatch:
    """A batch whose records all have one timestamp."""
    return build([Record(b"v" * size, timestamp=timestamp) for _ in range(count)], now_ms=0)


class SegmentCase(SynchronousTestCase):
    """Has a segment that is being written."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk(Random(0), cold_probability=0.0)
        self.disk.make_directory(DIRECTORY)
        self.handles = Handles(self.disk, 10)
        self.segment = Segment(
            self.handles, DIRECTORY, BASE, created_ms=5, index_entries=0, time_entries=0
        )
        self.segment.log.create()
        self.batches: list[tuple[int, RecordBatch]] = []  # with their positions
        self.end_offset = BASE

    def append(self, batch: RecordBatch) -> None:
        """Do as a partition does."""
        placed = batch.at(self.end_offset, 3)
        self.batches.append((self.segment.size, placed))
        self.segment.append((placed.buffer,), placed.size)
        self.segment.note(self.end_offset, placed.size, placed.max_timestamp, INTERVAL)
        self.end_offset = placed.next_offset

    def fill(self, count: int = 60) -> None:
        """Batches of one to three records, whose time goes up and down but mostly up."""
        for number in range(count):
            self.append(make_batch(1 + number % 3, timestamp=200 + number * 10 - 35 * (number % 4)))

    def reopen(self) -> None:
        """Go on as another process that knows only what is on disk."""
        self.handles.close()
        self.segment = Segment(self.handles, DIRECTORY, BASE, size=self.disk.size(LOG))

    def warnings(self) -> list[str]:
        """Why indexes were made anew, as far as it was logged."""
        return [str(each["reason"]) for each in self.logged if "rebuilding" in str(each.get("log_format"))]

    def watch_log(self) -> None:
        self.logged: list[LogEvent] = []
        observer = self.logged.append
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def position_of(self, offset: int) -> int | None:
        """Where the batch that a reader of C{offset} needs begins, looked up the slow way."""
        return next((position for position, batch in self.batches if batch.last_offset >= offset), None)

    def assert_locates(self) -> None:
        for offset in range(BASE - 1, self.end_offset + 2):
            self.assertEqual(self.segment.locate(offset, self.segment.size), self.position_of(offset))

    def assert_finds_times(self) -> None:
        """For every time the first batch that is not older is among what is found."""
        highest = max(batch.max_timestamp for _, batch in self.batches)
        for timestamp in range(0, highest + 2, 7):
            expected = [batch.base_offset for _, batch in self.batches if batch.max_timestamp >= timestamp]
            headers = self.segment.headers_since(timestamp, self.segment.size)
            found = [each.base_offset for each in headers if each.max_timestamp >= timestamp]
            self.assertEqual(found, expected)
        first = next(batch for _, batch in self.batches if batch.max_timestamp == highest)
        self.assertEqual(self.segment.highest_timestamp(), (highest, first.base_offset))


class AppendTests(SegmentCase):
    """Writing."""

    def test_append(self) -> None:
        """Batches stand back to back in the file."""
        self.fill(10)
        content = b"".join(bytes(batch.buffer) for _, batch in self.batches)
        self.assertEqual((self.disk.content(LOG), self.segment.size), (content, len(content)))
        self.assertEqual((self.segment.base_offset, self.segment.created_ms), (BASE, 5))

    def test_several_buffers(self) -> None:
        """A batch may be given in pieces, as a partition places it."""
        batch = make_batch()
        self.segment.append(batch.placed(BASE, 3), batch.size)
        self.assertEqual(self.disk.content(LOG), bytes(batch.at(BASE, 3).buffer))

    def test_own_writes_are_verified(self) -> None:
        """What this process has written is not read again to be verified."""
        self.fill(10)
        self.disk.fail_call(30, operation="read")
        self.assertEqual(self.segment.ensure_verified(0, self.segment.size), self.segment.size)

    def test_undo(self) -> None:
        """A failed append, torn anywhere, is undone without a trace."""
        for seed in range(20):
            self.setUp()
            self.disk.random = Random(seed)
            self.fill(3)
            before = self.disk.content(LOG)
            self.disk.fail_call(1, errno.ENOSPC, "append")
            batch = make_batch(5)
            self.assertRaises(OSError, self.segment.append, (batch.buffer,), batch.size)
            self.assertFalse(self.segment.verified.covers(len(before), len(before) + 1))
            self.segment.undo_append()
            self.assertEqual((self.disk.content(LOG), self.segment.size), (before, len(before)))
            self.append(batch)
            self.assert_locates()

    def test_undo_without_a_file(self) -> None:
        """When the file could not even be opened, there is nothing to undo and nothing uncertain."""
        self.fill(3)
        self.handles.close()
        self.disk.fail_call(1, errno.EMFILE, "open")
        self.assertRaises(OSError, self.segment.append, (b"x",), 1)
        self.disk.fail_call(1, errno.EMFILE, "open")
        self.segment.undo_append()
        self.disk.crash()
        self.assertEqual(self.handles.open_count, 0)

    def test_undo_fails(self) -> None:
        """When the undoing fails, the caller hears of it: the tail is uncertain."""
        self.fill(3)
        self.disk.fail_call(1, operation="append")
        self.disk.fail_call(1, operation="truncate")
        self.assertRaises(OSError, self.segment.append, (b"x" * 100,), 100)
        self.assertRaises(OSError, self.segment.undo_append)

    def test_index_interval(self) -> None:
        """There is an entry for the first batch, and then one each time so many bytes have passed."""
        self.fill(60)
        self.segment.flush_indexes()
        content = self.disk.content(INDEX)
        entries = [
            (int.from_bytes(content[at : at + 4], "big"), int.from_bytes(content[at + 4 : at + 8], "big"))
            for at in range(0, len(content), 8)
        ]
        places = {batch.base_offset - BASE: position for position, batch in self.batches}
        self.assertEqual(entries[0], (0, 0))
        self.assertTrue(all(places[relative] == position for relative, position in entries))
        steps = [after[1] - before[1] for before, after in pairwise(entries)]
        largest = max(batch.size for _, batch in self.batches)
        self.assertTrue(all(INTERVAL < step <= INTERVAL + largest for step in steps), steps)

    def test_retire(self) -> None:
        """A segment that goes away names its files, and closes them when nobody reads any more."""
        self.fill(60)
        self.segment.seal()
        self.segment.log.lease()
        self.assertEqual(set(self.segment.retire()), {LOG, INDEX, TIMES})
        self.assertEqual(self.disk.open_paths, [LOG])
        self.segment.log.release()
        self.assertEqual(self.disk.open_handles, 0)


class LocateTests(SegmentCase):
    """Finding the batch that a reader needs."""

    def setUp(self) -> None:
        super().setUp()
        self.watch_log()

    def test_empty(self) -> None:
        """In a segment without batches nothing is found."""
        self.assertIsNone(self.segment.locate(BASE, 0))

    def test_active(self) -> None:
        """Every offset is found while the index is in memory, partly on disk, or sealed."""
        self.fill(30)
        self.assert_locates()
        self.segment.flush_indexes()
        self.fill(30)
        self.assert_locates()
        self.segment.seal()
        self.assert_locates()
        self.assertEqual(self.warnings(), [])

    def test_reopened(self) -> None:
        """Every offset is found by a process that did not write it."""
        self.fill()
        self.segment.seal()
        self.reopen()
        self.assert_locates()
        self.assertEqual(self.warnings(), [])

    def test_limit(self) -> None:
        """A batch that begins at the limit or behind it is not found."""
        self.fill(20)
        for position, batch in self.batches:
            self.assertIsNone(self.segment.locate(batch.base_offset, position))
            self.assertEqual(self.segment.locate(batch.base_offset, position + batch.size), position)

    def test_large_batches(self) -> None:
        """Batches that are larger than what is read at once are stepped over."""
        for size in (10_000, 30, 5000, 4096 - 61, 4096, 30):
            self.append(make_batch(2, size=size))
        self.assert_locates()

    def test_remembered(self) -> None:
        """Where a reader has stopped, the next read goes on without looking."""
        self.fill(20)
        position, batch = self.batches[7]
        self.segment.remember(batch.base_offset, position)
        calls = self.disk.calls
        self.assertEqual(self.segment.locate(batch.base_offset, self.segment.size), position)
        self.assertEqual(self.disk.calls, calls)
        self.assertIsNone(self.segment.locate(batch.base_offset, position))

    def test_few_are_remembered(self) -> None:
        """Readers that never come back do not fill the memory."""
        for number in range(1000):
            self.segment.remember(number, number)
        self.assertLess(len(self.segment._positions), 100)
        self.assertIn(999, self.segment._positions)

    def test_any_cold_reads(self) -> None:
        """Whatever is in memory and what is not, the same is found."""
        self.fill()
        self.segment.seal()

        @settings(deadline=None, max_examples=20)
        @given(st.integers(0, 2**32), st.integers(BASE, self.end_offset))
        def found(seed: int, offset: int) -> None:
            self.reopen()
            self.disk.random, self.disk.cold_probability = Random(seed), 0.3
            position = insist(lambda: self.segment.locate(offset, self.segment.size))
            self.assertEqual(position, self.position_of(offset))
            if position is not None:
                end, _ = insist(lambda: self.segment.end_of_read(position, position + 400, self.segment.size))
                self.assertEqual(insist(lambda: self.segment.ensure_verified(position, end)), end)

        found()

    def test_cold(self) -> None:
        """Nothing waits for the disk by itself."""
        self.fill()
        self.segment.seal()
        self.reopen()
        self.disk.cold_probability = 1.0
        self.assertRaises(Cold, self.segment.locate, BASE + 5, self.segment.size)


class EndOfReadTests(SegmentCase):
    """How far a read goes."""

    def setUp(self) -> None:
        super().setUp()
        self.fill()
        self.ends = [position + batch.size for position, batch in self.batches]
        self.following = dict(zip(self.ends, (batch.next_offset for _, batch in self.batches), strict=True))

    def test_any_read(self) -> None:
        """A read ends with a whole batch, not behind its end, unless the first one is too large."""
        for reopened in (False, True):
            for start, batch in self.batches[::7]:
                for size in (0, 1, batch.size, batch.size + 1, 300, 700, 2000):
                    end, following = self.segment.end_of_read(start, start + size, self.segment.size)
                    self.assertIn(end, self.ends)
                    self.assertLessEqual(end, max(start + size, start + batch.size))
                    if following is not None:
                        self.assertEqual(following, self.following[end])
            if not reopened:
                self.segment.seal()
                self.reopen()

    def test_not_much_is_left_out(self) -> None:
        """A read comes close to what was asked for."""
        largest = max(batch.size for _, batch in self.batches)
        for size in (1000, 2000, 5000):
            end, _ = self.segment.end_of_read(0, size, self.segment.size)
            self.assertGreater(end, size - INTERVAL - 2 * largest)

    def test_limit(self) -> None:
        """A read that could go on ends at the limit, where all readers must stop."""
        limit = self.ends[20]
        self.assertEqual(self.segment.end_of_read(0, limit, limit), (limit, None))
        self.assertEqual(self.segment.end_of_read(0, 10**9, limit), (limit, None))
        end, _ = self.segment.end_of_read(self.batches[19][0], self.batches[19][0] + 1, limit)
        self.assertEqual(end, self.ends[19])


class VerifyTests(SegmentCase):
    """Bytes that this process did not write are checked once, before they are served."""

    def setUp(self) -> None:
        super().setUp()
        self.watch_log()
        self.fill()
        self.segment.seal()
        self.reopen()
        self.size = self.segment.size

    def test_once(self) -> None:
        """What was verified is not read again."""
        self.assertEqual(self.segment.ensure_verified(0, self.size), self.size)
        position, batch = self.batches[10]
        self.disk.flip_bit(LOG, position + 70)
        self.assertEqual(self.segment.ensure_verified(position, position + batch.size), position + batch.size)

    def test_damage(self) -> None:
        """Damage in the first batch is an error; otherwise what is before it can be served."""
        position, batch = self.batches[5]
        self.disk.flip_bit(LOG, position + 70)
        self.assertEqual(self.segment.ensure_verified(0, self.size), position)
        damage = self.assertRaises(Damage, self.segment.ensure_verified, position, self.size)
        self.assertEqual((damage.position, str(damage)), (position, "the checksum does not match"))
        behind = position + batch.size
        self.assertEqual(self.segment.ensure_verified(behind, self.size), self.size)

    def test_any_damage(self) -> None:
        """No flipped bit of a batch is ever served, whatever field it is in, except the leader epoch."""
        position, batch = self.batches[20]
        for at in (*range(12), *range(16, batch.size)):
            self.disk.flip_bit(LOG, position + at, bit=at % 8)
            self.reopen()
            found = self.segment.locate(self.batches[19][1].base_offset, self.size)
            assert found is not None
            self.assertEqual(self.segment.ensure_verified(found, self.size), position)
            self.disk.flip_bit(LOG, position + at, bit=at % 8)

    def test_reading_on_into_damage(self) -> None:
        """A reader that goes on where it stopped does not get a batch that claims another offset."""
        position, batch = self.batches[20]
        self.disk.flip_bit(LOG, position + 7, bit=1)
        self.segment.ensure_verified(0, position)
        self.segment.remember(batch.base_offset, position)
        self.assertRaises(Damage, self.segment.locate, batch.base_offset, self.size)

    def test_file_is_cut(self) -> None:
        """A file that ends too early is damage, not the end of the log."""
        position, _ = self.batches[20]
        for end in (position + 30, position, 0):
            self.disk.put(LOG, self.disk.content(LOG)[:end])
            self.handles.close()
            damage = self.assertRaises(Damage, self.segment.ensure_verified, position, self.size)
            self.assertIn("ends within a batch", str(damage))

    def test_records_of(self) -> None:
        """A whole batch can be had by its header, verified."""
        headers = list(self.segment.headers(0, self.size))
        expected = list(decode(self.batches[5][1]))
        self.assertEqual(list(self.segment.records_of(headers[5], 0)), expected)
        self.disk.flip_bit(LOG, headers[6].position + 70)
        self.assertRaises(Damage, self.segment.records_of, headers[6], 0)


class HeaderTests(SegmentCase):
    """Walking from batch to batch."""

    def setUp(self) -> None:
        super().setUp()
        self.fill(30)
        self.size = self.segment.size

    def test_headers(self) -> None:
        """Every batch is found with what its header says, from any boundary on."""
        expected = [
            (position, batch.size, batch.base_offset, batch.last_offset, batch.max_timestamp)
            for position, batch in self.batches
        ]
        self.assertEqual(list(self.segment.headers(0, self.size)), expected)
        self.assertEqual(list(self.segment.headers(self.batches[7][0], self.size)), expected[7:])
        self.assertEqual(list(self.segment.headers(0, self.batches[7][0])), expected[:7])
        self.assertEqual(list(self.segment.headers(self.size, self.size)), [])

    def test_damage(self) -> None:
        """What can not be a batch, or not the next one, is found; those before it come."""
        positions = [position for position, _ in self.batches]
        position, batch = self.batches[10]
        for at, bit in ((16, 0), (8, 7), (8, 0), (11, 6), (7, 0), (0, 0), (26, 4)):
            self.disk.flip_bit(LOG, position + at, bit)
            headers = self.segment.headers(0, self.size)
            self.assertEqual([next(headers).position for _ in range(10)], positions[:10])
            damage = self.assertRaises(Damage, list, headers)
            self.assertTrue(position <= damage.position <= position + batch.size + 64)
            self.disk.flip_bit(LOG, position + at, bit)

    def test_wrong_boundary(self) -> None:
        """Where no batch begins, none is found."""
        self.assertRaises(Damage, list, self.segment.headers(self.batches[3][0] + 1, self.size))

    def test_first_offset(self) -> None:
        """A segment begins with the offset that it is named after."""
        self.disk.flip_bit(LOG, 7)
        damage = self.assertRaises(Damage, next, self.segment.headers(0, self.size))
        self.assertIn(f"where {BASE} should", str(damage))

    def test_any_garbage(self) -> None:
        """A file full of anything gives batches or damage, and always comes to an end."""

        @settings(deadline=None, max_examples=50)
        @given(st.binary(max_size=300))
        def ends(content: bytes) -> None:
            self.disk.put(LOG, bytes(self.batches[0][1].buffer) + content)
            self.reopen()
            headers = self.segment.headers(0, self.segment.size)
            self.assertEqual(next(headers).base_offset, BASE)
            if content:
                self.assertRaises(Damage, list, headers)

        ends()


class TimeTests(SegmentCase):
    """Finding batches by time."""

    def setUp(self) -> None:
        super().setUp()
        self.watch_log()

    def test_empty(self) -> None:
        """A segment without batches has no highest timestamp."""
        self.assertIsNone(self.segment.highest_timestamp())

    def test_active(self) -> None:
        """While the segment is written, and when it is sealed, no index has to be made anew."""
        self.fill(30)
        self.assert_finds_times()
        self.segment.flush_indexes()
        self.fill(30)
        self.assert_finds_times()
        self.segment.seal()
        self.assert_finds_times()
        self.assertEqual(self.warnings(), [])

    def test_reopened(self) -> None:
        """The same is found by a process that did not write it."""
        self.fill()
        self.segment.seal()
        self.reopen()
        self.assert_finds_times()
        self.assertEqual(self.warnings(), [])

    def test_few_are_read(self) -> None:
        """The batches long before a time are not walked through."""
        self.fill()
        late = self.batches[50][1].max_timestamp
        first = next(self.segment.headers_since(late, self.segment.size))
        self.assertGreater(first.base_offset, self.batches[30][1].base_offset)

    def test_highest_comes_early(self) -> None:
        """The highest timestamp may be anywhere; sealing writes it down."""
        self.append(make_batch(timestamp=9_000))
        self.fill(20)
        self.segment.seal()
        self.reopen()
        self.assert_finds_times()

    def test_highest_comes_last(self) -> None:
        """The highest timestamp may be in the last batch, for which there is no other entry."""
        self.fill(20)
        self.append(make_batch(timestamp=9_000))
        self.segment.seal()
        self.reopen()
        self.assertEqual(self.segment.highest_timestamp(), (9_000, self.batches[-1][1].base_offset))


class RebuildTests(SegmentCase):
    """Indexes are disposable."""

    def setUp(self) -> None:
        super().setUp()
        self.watch_log()
        self.fill()
        self.segment.seal()
        self.contents = {path: self.disk.content(path) for path in (INDEX, TIMES)}
        self.reopen()

    def assert_heals(self, complaint: str) -> None:
        """All is found as ever, after both indexes were made anew once."""
        self.assert_finds_times()
        self.assert_locates()
        for start, _ in self.batches[::9]:
            self.segment.end_of_read(start, start + 700, self.segment.size)
        self.assertEqual(len(self.warnings()), 1, self.warnings())
        self.assertIn(complaint, self.warnings()[0])
        self.logged.clear()
        self.reopen()
        self.assert_locates()
        self.assert_finds_times()
        self.assertEqual(self.warnings(), [])

    def damage(self, path: PurePath, content: bytes) -> None:
        self.disk.put(path, content)
        self.reopen()

    def test_missing(self) -> None:
        """A missing index is made anew when it is needed."""
        for path in (INDEX, TIMES):
            self.logged.clear()
            self.disk.unlink(path)
            self.reopen()
            self.assert_heals(f"{path.name} is missing")

    def test_empty(self) -> None:
        """An empty index is no excuse to walk through the whole segment each time."""
        for path in (INDEX, TIMES):
            self.logged.clear()
            self.damage(path, b"")
            self.assert_heals(f"{path.name} is empty")

    def test_same_as_before(self) -> None:
        """An index that was made anew with the same interval is the same."""
        self.segment.rebuild_indexes("a test", INTERVAL)
        self.assertEqual({path: self.disk.content(path) for path in (INDEX, TIMES)}, self.contents)
        self.assertEqual(self.segment.size, self.disk.size(LOG))

    def test_pointing_behind_the_end(self) -> None:
        """An entry that points behind the end is found out."""
        self.damage(INDEX, self.contents[INDEX][:4] + b"\xff\xff\xff\xff" + self.contents[INDEX][8:])
        self.assert_heals("points behind the end")

    def test_pointing_into_a_batch(self) -> None:
        """A read does not end within a batch because an index says so."""
        content = bytearray(self.contents[INDEX])
        content[8 * 5 + 7] ^= 1
        self.damage(INDEX, bytes(content))
        entry_position = int.from_bytes(content[8 * 5 + 4 : 8 * 6], "big")
        self.segment.ensure_verified(0, self.segment.size)
        ends = [position + batch.size for position, batch in self.batches]
        end, _ = self.segment.end_of_read(0, entry_position + 10, self.segment.size)
        self.assertIn(end, ends)
        self.assertIn("wrong place", self.warnings()[0])

    def test_wrong_times(self) -> None:
        """A timestamp in the index that the batch does not have is found out."""
        content = bytearray(self.contents[TIMES])
        content[12 * 5 + 6] ^= 1
        self.damage(TIMES, bytes(content))
        self.assert_finds_times()
        self.assertIn("wrong place", self.warnings()[0])

    def test_wrong_last_time(self) -> None:
        """The highest timestamp is not believed if its batch does not have it."""
        content = bytearray(self.contents[TIMES])
        content[-6] ^= 1
        self.damage(TIMES, bytes(content))
        self.assert_heals("wrong place")

    def test_any_flipped_bit(self) -> None:
        """With any bit of an index wrong, the right batch is found all the same."""
        random = Random(3)
        for path in (INDEX, TIMES):
            for _ in range(60):
                content = bytearray(self.contents[path])
                content[random.randrange(len(content))] ^= 1 << random.randrange(8)
                self.damage(path, bytes(content))
                offset = random.randrange(BASE, self.end_offset)
                self.assertEqual(self.segment.locate(offset, self.segment.size), self.position_of(offset))
                timestamp = random.randrange(0, 900)
                headers = self.segment.headers_since(timestamp, self.segment.size)
                found = next((each.base_offset for each in headers if each.max_timestamp >= timestamp), None)
                expected = [each.base_offset for _, each in self.batches if each.max_timestamp >= timestamp]
                self.assertEqual(found, expected[0] if expected else None)
                for other, right in self.contents.items():
                    self.disk.put(other, right)

    def test_garbage(self) -> None:
        """An index full of anything leads to the right batch all the same."""
        random = Random(4)
        for _ in range(20):
            self.disk.put(INDEX, random.randbytes(random.randrange(400)))
            self.damage(TIMES, random.randbytes(random.randrange(400)))
            for offset in range(BASE, self.end_offset, 7):
                self.assertEqual(self.segment.locate(offset, self.segment.size), self.position_of(offset))

    def test_disk_is_full(self) -> None:
        """When an index can not be written, it does its service from memory."""
        self.disk.unlink(INDEX)
        self.reopen()
        self.disk.capacity_bytes = 0
        self.assert_locates()
        self.assertEqual(len(self.warnings()), 1)
        self.assertTrue(any("cannot write the indexes" in str(each["log_format"]) for each in self.logged))

    def test_log_is_damaged(self) -> None:
        """What lies before the damage is found with indexes that were made anew, what lies behind is not."""
        position, batch = self.batches[30]
        self.disk.flip_bit(LOG, position + 16)
        self.disk.unlink(INDEX)
        self.reopen()
        for place, each in self.batches[:30]:
            self.assertEqual(self.segment.locate(each.base_offset, self.segment.size), place)
        self.assertRaises(Damage, self.segment.locate, batch.base_offset, self.segment.size)
        self.assertRaises(Damage, self.segment.locate, self.end_offset - 1, self.segment.size)

    def test_nothing_is_right(self) -> None:
        """Damage of the very first batch is told as that, whatever the indexes say."""
        self.disk.flip_bit(LOG, 16)
        for path in (INDEX, TIMES):
            self.disk.put(path, b"")
        for _ in range(2):
            self.reopen()
            self.assertRaises(Damage, self.segment.locate, BASE + 5, self.segment.size)
            self.assertRaises(Damage, self.segment.highest_timestamp)

    def test_active_segment(self) -> None:
        """A segment that is still being written goes on with indexes that were made anew."""
        self.setUp()
        self.segment.rebuild_indexes("a test")
        self.fill(30)
        self.segment.seal()
        self.assert_locates()
        self.reopen()
        self.assert_locates()


class CheckBatchTests(SynchronousTestCase):
    """Judging what stands in a file."""

    def setUp(self) -> None:
        self.batch = make_batch(3).at(50, 2)
        self.content = bytes(self.batch.buffer)

    def problem(self, content: bytes, expected: int | None = 50) -> str:
        problem, batch = check_batch(memoryview(content), expected)
        self.assertIsNone(batch)
        return problem

    def test_right(self) -> None:
        """A batch is found at the beginning of what is there."""
        for expected in (50, None):
            problem, batch = check_batch(memoryview(self.content + b"more"), expected)
            self.assertEqual((problem, batch), ("", self.batch))

    def test_cut_anywhere(self) -> None:
        """A batch of which something is missing is none."""
        for end in range(len(self.content)):
            self.assertEqual(self.problem(self.content[:end]), "the file ends within a batch")

    def test_zeros(self) -> None:
        """Zeros, which a crash may leave, are no batch."""
        self.assertEqual(self.problem(bytes(1000), None), "there is no batch where one should begin")

    def test_wrong_offset(self) -> None:
        """A batch at the wrong offset is not the one that should follow."""
        self.assertEqual(self.problem(self.content, 51), "offset 50 stands where 51 should")

    def test_any_bit(self) -> None:
        """Any flipped bit is found, except in the leader epoch."""
        for position in (*range(12), *range(16, len(self.content))):
            for bit in range(8):
                damaged = bytearray(self.content + bytes(100))
                damaged[position] ^= 1 << bit
                self.assertNotEqual(self.problem(bytes(damaged)), "")
