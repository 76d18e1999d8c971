"""Tests for L{rustlog.spark.jobs.delivery} and L{rustlog.spark.jobs.states}: every record once, in order."""

from __future__ import annotations

from pathlib import PurePath
from random import Random
from typing import Any

import pyarrow as pa
from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.batch import RecordBatch, build_batch
from rustlog.log.codecs import Codec
from rustlog.log.records import build
from rustlog.model import Record, TopicPartition
from rustlog.spark.encoding import EncodedBatch
from rustlog.spark.encoding import encode as real_encode
from rustlog.spark.errors import RequestRefused
from rustlog.spark.jobs import delivery
from rustlog.spark.jobs.delivery import SEQUENCES, Delivery, Destination, Producer, reached
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.states import JobState, prepare, read_state, same_request, write_state
from rustlog.testing.disk import SimulatedDisk
from tests.unit.spark.brokers import FakeBroker, FakeClient

ORDERS = TopicPartition("orders", 0)
OURS = Producer(77, 0)


def table(first: int, count: int) -> pa.Table:
    """So many records of a job."""
    return pa.table(
        {
            "key": pa.array([b"k"] * count, pa.binary()),
            "value": pa.array([b"%d" % number for number in range(first, first + count)], pa.binary()),
            "timestamp": pa.array([5] * count, pa.int64()),
        }
    )


class Death(Exception):
    """The worker dies."""


class MortalClient(FakeClient):
    """One that dies at some request to produce: before it, or just behind it."""

    def __init__(self, broker: FakeBroker, at: int, is_done: bool) -> None:
        super().__init__(broker)
        self._left = at
        self._is_done = is_done

    def produce(self, partition: TopicPartition, data: bytes, *, acks: int = -1) -> int:
        self._left -= 1
        if self._left == 0 and not self._is_done:
            raise Death
        offset = super().produce(partition, data)
        if self._left == 0:
            raise Death
        return offset


class DeliveryCase(SynchronousTestCase):
    """A topic with one partition, and batches of three records."""

    def setUp(self) -> None:
        self.broker = FakeBroker(orders=1)
        self.destination = Destination(ORDERS, 0)
        self.patch(delivery, "encode", self.encode)
        self.batch_records = 3

    def encode(self, rows: Any, **more: Any) -> Any:
        return real_encode(rows, batch_records=self.batch_records, **more)

    def other(self, count: int, producer_id: int = -1) -> None:
        """Somebody else writes."""
        batch = build([Record(b"other")] * count, now_ms=1)
        if producer_id >= 0:
            batch = build_batch(
                batch.payload, record_count=count, base_timestamp=1, max_timestamp=1,
                producer_id=producer_id, producer_epoch=0, base_sequence=0,
            )  # fmt: skip
        self.broker.append(ORDERS, bytes(batch.buffer))

    def deliver(self, client: FakeClient | None = None, chunk: int = 10, total: int = 20) -> Delivery:
        sending = Delivery(
            client or self.broker.connect(), self.destination, OURS, Codec.NONE, 0  # type: ignore[arg-type]
        )
        for first in range(0, total, chunk):
            if not sending.has_all(min(chunk, total - first)):
                list(sending.send(table(first, min(chunk, total - first))))
        return sending

    def ours(self) -> list[bytes]:
        return [each for each in self.broker.values("orders")[0] if each != b"other"]

    def check(self, total: int = 20) -> None:
        self.assertEqual(self.ours(), [b"%d" % number for number in range(total)])


class DeliveryTests(DeliveryCase):
    """Exactly once."""

    def test_all(self) -> None:
        """Everything is sent, and told."""
        told = self.deliver().told()
        self.check()
        self.assertEqual((told.records, told.sent), (20, 20))

    def test_again(self) -> None:
        """Called again, nothing is sent."""
        self.deliver()
        told = self.deliver().told()
        self.check()
        self.assertEqual((told.records, told.sent), (20, 0))

    def test_more(self) -> None:
        """Called again with more, the rest is sent."""
        self.deliver(total=14)
        self.assertEqual(self.deliver().told().sent, 6)
        self.check()

    def test_death_everywhere(self) -> None:
        """It may die before or after any request, and be called again with other chunks and batches."""
        for at in range(1, 9):
            for is_done in (False, True):
                self.broker = FakeBroker(orders=1)
                self.batch_records = 3
                mortal = MortalClient(self.broker, at, is_done)
                try:
                    self.deliver(mortal)
                except Death:
                    pass
                else:
                    self.fail("it should have died")
                self.batch_records = 4
                self.deliver(chunk=7)
                self.check()

    def test_late_batch(self) -> None:
        """A batch that a dead worker had under way, and that arrives now, does not come twice."""
        late = next(iter(real_encode(table(0, 5), now_ms=0, producer=OURS.state(0))))

        class Late(FakeClient):
            has_come = False

            def produce(self, partition: TopicPartition, data: bytes, *, acks: int = -1) -> int:
                if not Late.has_come:
                    Late.has_come = True
                    self.broker.append(partition, late.data)
                return super().produce(partition, data)

        self.deliver(Late(self.broker))
        self.check()

    def test_others_before(self) -> None:
        """What was in the target when the job began does not matter."""
        self.other(4)
        self.destination = Destination(ORDERS, 4)
        self.deliver(total=14)
        self.deliver()
        self.check()

    def test_others_meanwhile(self) -> None:
        """Others may write meanwhile, where the broker knows who has written what."""
        self.deliver(total=8)
        self.other(2, producer_id=5)
        self.other(2)
        self.deliver()
        self.check()

    def test_nobody_knows(self) -> None:
        """Where producer ids are not kept, what was sent is counted, if it is ours."""
        self.deliver(total=8)
        kept = self.broker.batches[ORDERS]
        for number, batch in enumerate(kept):
            anonymous = build_batch(
                batch.payload, record_count=batch.record_count, base_timestamp=batch.base_timestamp,
                max_timestamp=batch.max_timestamp,
            )  # fmt: skip
            kept[number] = anonymous.at(batch.base_offset, 0)
        self.assertEqual(self.deliver().told().sent, 12)
        self.check()

    def test_somebody_else(self) -> None:
        """But the records of somebody else are not taken for ours."""
        self.other(3)
        error = self.assertRaises(JobFailed, self.deliver)
        self.assertIn("somebody else has written to orders-0", str(error))

    def test_refused(self) -> None:
        """Any other refusal is an error."""

        class Refusing(FakeClient):
            def produce(self, partition: TopicPartition, data: bytes, *, acks: int = -1) -> int:
                raise RequestRefused("Produce", 10, "MESSAGE_TOO_LARGE", str(partition))

        self.assertRaises(RequestRefused, self.deliver, Refusing(self.broker))

    def test_never_in_order(self) -> None:
        """Two who send the same at the same time do not go on for ever."""

        class Disordered(FakeClient):
            def produce(self, partition: TopicPartition, data: bytes, *, acks: int = -1) -> int:
                raise RequestRefused("Produce", 45, "OUT_OF_ORDER_SEQUENCE_NUMBER", str(partition))

        error = self.assertRaises(JobFailed, self.deliver, Disordered(self.broker))
        self.assertIn("at the same time", str(error))

    def test_sequence_begins_anew(self) -> None:
        """After the highest sequence number comes 0, and it is known how often that was."""
        self.assertEqual(OURS.state(SEQUENCES + 5).sequence, 5)
        state = OURS.state(SEQUENCES + 4)
        last: EncodedBatch = next(iter(real_encode(table(0, 3), now_ms=0, producer=state)))
        batch = RecordBatch(last.data).at(SEQUENCES + 104, 0)
        self.broker.batches[ORDERS].append(batch)
        self.broker.starts[ORDERS] = SEQUENCES + 104
        found = reached(self.broker.connect(), Destination(ORDERS, 100), OURS)  # type: ignore[arg-type]
        self.assertEqual(found.records, SEQUENCES + 7)


class StateTests(SynchronousTestCase):
    """What a job remembers."""

    def setUp(self) -> None:
        self.broker = FakeBroker(target=2)
        self.disk = SimulatedDisk(Random(1))
        self.path = PurePath("/state/job.json")

    def prepare(self, partitions: int = 2, appends: bool = False, exactly: bool = False) -> JobState:
        return prepare(
            self.broker.connect(),  # type: ignore[arg-type]
            "rekey",
            {"key": "x"},
            {"target": partitions},
            {"orders": [[0, 5]]},
            appends,
            exactly=exactly,
        )

    def test_round_trip(self) -> None:
        """It is read as it was written."""
        self.assertIsNone(read_state(self.disk, self.path))
        state = self.prepare()
        write_state(self.disk, self.path, state)
        self.assertEqual(read_state(self.disk, self.path), state)
        write_state(self.disk, self.path, state.finished())
        found = read_state(self.disk, self.path)
        assert found is not None
        self.assertTrue(found.is_finished)

    def test_not_empty(self) -> None:
        """A target with records is refused, unless they are to stay; then the job begins behind them."""
        batch = build([Record(b"x")], now_ms=1)
        self.broker.append(TopicPartition("target", 1), bytes(batch.buffer))
        error = self.assertRaises(JobFailed, self.prepare)
        self.assertIn("target is not empty", str(error))
        self.assertEqual(self.prepare(appends=True).destination("target", 1).begin, 1)

    def test_partitions(self) -> None:
        """A target has to have the partitions; more of them only where it does not matter."""
        error = self.assertRaises(JobFailed, self.prepare, 3)
        self.assertIn("has 2 partitions, not 3", str(error))
        self.assertEqual(self.prepare(1).begins, {"target": [0, 0]})
        self.assertRaises(JobFailed, self.prepare, 1, exactly=True)

    def test_another_job(self) -> None:
        """A state belongs to one request."""
        state = self.prepare()
        same_request(state, "rekey", {"key": "x"}, self.path)
        for job, asked in (("compact", {"key": "x"}), ("rekey", {"key": "y"})):
            error = self.assertRaises(JobFailed, same_request, state, job, asked, self.path)
            self.assertIn("belongs to another job (rekey: key x)", str(error))

    def test_strange_file(self) -> None:
        """A file that is no state is not overwritten."""
        self.disk.make_directory(self.path.parent)
        self.disk.put(self.path, b"{}")
        error = self.assertRaises(JobFailed, read_state, self.disk, self.path)
        self.assertIn(str(self.path), str(error))
