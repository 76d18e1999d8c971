"""Tests for what jobs do in workers: L{rustlog.spark.jobs.writing} and parts of others."""

from __future__ import annotations

from pathlib import PurePath

import pyarrow as pa
import pyarrow.parquet as pq
from twisted.trial.unittest import SynchronousTestCase

from rustlog.client.partitioning import partition_for
from rustlog.environment.files import RealFiles
from rustlog.spark.columns import SCHEMA
from rustlog.spark.jobs import writing
from rustlog.spark.jobs.compact import last_of_each
from rustlog.spark.jobs.replay import Brake
from rustlog.spark.jobs.routing import NULL_RUN, TARGET, runs, targets
from rustlog.spark.jobs.writing import FILE_SCHEMA, PartWriter, chunks, read_chunk

DAY_US = 24 * 60 * 60 * 1_000_000
ROW = {"key": b"k", "value": b"v", "topic": "orders", "partition": 0, "timestampType": 0, "headers": None}


def rows(*days: int, first: int = 0, **more: object) -> pa.Table:
    """Records of some days, one after the other."""
    made = [
        {**ROW, "offset": first + number, "timestamp": day * DAY_US + number, **more}
        for number, day in enumerate(days)
    ]
    plain = SCHEMA.set(SCHEMA.get_field_index("timestamp"), pa.field("timestamp", pa.int64()))
    return pa.Table.from_pylist(made, schema=plain).cast(SCHEMA)


class WritingTests(SynchronousTestCase):
    """Parquet files of a task."""

    def setUp(self) -> None:
        self.directory = PurePath(self.mktemp())
        RealFiles().make_directory(self.directory)
        self.writer = PartWriter(RealFiles(), self.directory, "3-1", "orders", 0)

    def read(self) -> list[int]:
        """Everything that was written, chunk by chunk."""
        part = self.writer.finish(0, 100)
        found = [read_chunk(self.directory, each, pq.ParquetFile) for each in part.chunks]
        self.assertEqual([len(each) for each in found], [each.records for each in part.chunks])
        return [offset for each in found for offset in each["offset"].to_pylist()]

    def test_one_day(self) -> None:
        """Records of one day are in one file, of which each chunk is a part."""
        self.writer.write(rows(20_000, 20_000))
        self.writer.write(rows(20_000, first=5))
        part = self.writer.finish(0, 9)
        (file,) = part.files
        self.assertEqual((file.date, file.records), ("2024-10-04", 3))
        self.assertEqual((file.first_offset, file.last_offset), (0, 5))
        self.assertEqual([each.parts for each in part.chunks], [((file.staged, 0),), ((file.staged, 1),)])
        self.assertEqual(pq.read_schema(str(self.directory / file.staged)).names, FILE_SCHEMA.names)
        self.assertEqual((part.start_offset, part.next_offset, part.records), (0, 9, 3))
        self.assertEqual(part.size, RealFiles().size(self.directory / file.staged))

    def test_order_over_days(self) -> None:
        """Records of mixed days are in files of their days, and come back in their order."""
        self.writer.write(rows(3, 1, 2, 1, -1, 3))
        self.writer.write(rows(2, 2, 1, first=6))
        self.assertEqual(self.read(), list(range(9)))

    def test_few_open_files(self) -> None:
        """However many days there are, few files are open; a day that comes back has another one."""
        self.patch(writing, "OPEN_FILES_MAX", 2)
        self.writer.write(rows(1, 2, 3))
        self.writer.write(rows(1, first=3))
        self.assertEqual(len(self.writer._open), 2)
        part = self.writer.finish(0, 4)
        dates = sorted(each.date for each in part.files)
        self.assertEqual(dates, ["1970-01-02", "1970-01-02", "1970-01-03", "1970-01-04"])
        self.assertEqual(len({each.staged for each in part.files}), 4)

    def test_chunks(self) -> None:
        """Small tables are put together."""
        tables = [rows(1, first=each) for each in range(10)]
        size = tables[0].nbytes
        self.assertEqual([len(each) for each in chunks(iter(tables), size * 4)], [4, 4, 2])
        self.assertEqual(list(chunks(iter([rows()]))), [])


class LastOfEachTests(SynchronousTestCase):
    """What a worker keeps."""

    def test_last(self) -> None:
        """The last record of each key, in the order of the log; tombstones too, and nothing without a key."""
        keys = [b"a", None, b"b", b"a", b"", b"c", b"b"]
        made = [{**ROW, "key": key, "offset": number, "timestamp": None} for number, key in enumerate(keys)]
        made[6]["value"] = None
        (batch,) = pa.Table.from_pylist(made, schema=SCHEMA).to_batches()
        kept = last_of_each(batch)
        self.assertEqual(kept.column("offset").to_pylist(), [3, 4, 5, 6])
        self.assertIsNone(kept.column("value")[3].as_py())

    def test_no_keys(self) -> None:
        """Where nothing has a key, nothing is kept."""
        (batch,) = rows(1, 1, key=None).to_batches()
        self.assertEqual(last_of_each(batch).num_rows, 0)


class RoutingTests(SynchronousTestCase):
    """Which partition a record goes to."""

    def test_as_clients_do(self) -> None:
        """Keys go where Kafka's clients would send them."""
        keys = [b"key %d" % number for number in range(100)]
        zeros = pa.array([0] * len(keys), pa.int32())
        found = targets(pa.array(keys, pa.binary()), zeros, zeros.cast(pa.int64()), 7)
        self.assertEqual(found.tolist(), [partition_for(key, 7) for key in keys])

    def test_without_a_key(self) -> None:
        """Records without a key are spread, the same way each time."""
        offsets = pa.array([0, 1, NULL_RUN, 3 * NULL_RUN], pa.int64())
        partitions = pa.array([0, 1, 0, 0], pa.int32())
        keys = pa.array([None, None, None, b"key"], pa.binary())
        found = targets(keys, partitions, offsets, 4)
        self.assertEqual(found.tolist(), [0, 1, 1, partition_for(b"key", 4)])

    def test_runs(self) -> None:
        """Rows of the same target stand together."""
        batch = pa.RecordBatch.from_pydict({TARGET: [2, 2, 5], "x": [1, 2, 3]})
        self.assertEqual([(each, part.num_rows) for each, part in runs(batch)], [(2, 2), (5, 1)])
        self.assertEqual(list(runs(batch.slice(0, 0))), [])


class FakePace:
    """A clock that only moves when somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class BrakeTests(SynchronousTestCase):
    """No more than so much in a second."""

    def test_rate(self) -> None:
        """In the long run, it is the rate."""
        pace = FakePace()
        brake = Brake(50, pace)
        for _ in range(20):
            brake.passed(25)
        self.assertAlmostEqual(pace.now, 100 + 20 * 25 / 50)

    def test_no_rate(self) -> None:
        """Without one, nobody waits."""
        pace = FakePace()
        Brake(None, pace).passed(10**9)
        self.assertEqual(pace.now, 100)

    def test_pauses_are_not_made_up_for(self) -> None:
        """After a pause it is not faster than before, but for a second's worth."""
        pace = FakePace()
        brake = Brake(10, pace)
        pace.now += 1000
        for _ in range(30):
            brake.passed(1)
        self.assertAlmostEqual(pace.now, 1100 + 2)


