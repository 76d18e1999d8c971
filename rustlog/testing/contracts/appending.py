"""Appending: offsets, order, what is stored, what is visible."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from rustlog.errors import TopicNotFound
from rustlog.log import records
from rustlog.log.batch import RecordBatch
from rustlog.log.codecs import Codec
from rustlog.model import Appended, OffsetSpec, Record
from rustlog.results import deferred
from rustlog.testing.contracts.harness import PLENTY, LogStoreHarness, in_every_course

LOOKS = 30
"""So often is looked at a partition while something is under way."""

CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


@in_every_course
class AppendContract(LogStoreHarness):
    """What L{ILogStore.append <rustlog.interfaces.ILogStore.append>} promises."""

    # -- offsets --

    def test_offsets_are_dense(self) -> None:
        """Offsets begin at 0 and count the records, however many there are in a batch."""
        partition = self.create()
        answers = [self.send(partition, *[b"v"] * count) for count in (1, 3, 1, 10, 2)]
        self.assertEqual([each.base_offset for each in answers], [0, 1, 4, 5, 15])
        self.assertEqual(self.bounds(partition), (0, 17))
        self.assertEqual(partition.high_watermark, 17)

    def test_partitions_count_for_themselves(self) -> None:
        """Each partition has offsets of its own."""
        partitions = self.create_many(3)
        self.send(partitions[1], b"a", b"b")
        answers = self.append(*[(each, self.batch(b"c")) for each in partitions])
        self.assertEqual([each.base_offset for each in answers], [0, 2, 0])
        self.assertEqual([self.values(each) for each in partitions], [[b"c"], [b"a", b"b", b"c"], [b"c"]])

    def test_one_answer_for_each_entry(self) -> None:
        """Answers come in the order of the entries, also when a partition occurs more than once."""
        first, second = self.create_many(2)
        entries = [(first, b"a"), (second, b"b"), (first, b"c"), (first, b"d"), (second, b"e")]
        answers = self.append(*[(partition, self.batch(value)) for partition, value in entries])
        self.assertEqual([each.base_offset for each in answers], [0, 0, 1, 2, 1])
        self.assertEqual(self.values(first), [b"a", b"c", b"d"])
        self.assertEqual(self.values(second), [b"b", b"e"])

    def test_nothing_to_append(self) -> None:
        """No entries, no answers."""
        self.assertEqual(self.append(), [])

    def test_calls_overlap_in_order(self) -> None:
        """Calls that do not wait for each other are still appended in their order."""
        partitions = self.create_many(2)
        pending = [
            self.store.append([(partitions[number % 2], self.batch(b"%d" % number))]) for number in range(30)
        ]
        answers = [answer for each in self.finish_all(pending) for answer in each]
        self.assertEqual([each.base_offset for each in answers], [number // 2 for number in range(30)])
        for index, partition in enumerate(partitions):
            self.assertEqual(self.values(partition), [b"%d" % number for number in range(index, 30, 2)])

    def test_answer(self) -> None:
        """An answer tells where the log starts, and that the batch is new."""
        partition = self.create()
        self.assertEqual(self.send(partition, b"a", b"b"), Appended(base_offset=0, log_start_offset=0))
        self.finish(self.store.delete_records(partition, 1))
        self.assertEqual(self.send(partition, b"c"), Appended(base_offset=2, log_start_offset=1))

    def test_error_in_its_place(self) -> None:
        """One entry's error is not the others': it stands where the answer would."""
        gone = self.create("gone")
        partition = self.create()
        self.finish(self.store.catalog.delete("gone"))
        answers = self.append(
            (partition, self.batch(b"a")), (gone, self.batch(b"x")), (partition, self.batch(b"b"))
        )
        self.assertEqual([type(each) for each in answers], [Appended, TopicNotFound, Appended])
        self.assertEqual(self.values(partition), [b"a", b"b"])

    # -- what is stored --

    def test_records_are_kept(self) -> None:
        """Keys, values and timestamps are read as they were sent, empty and large ones too."""
        partition = self.create()
        sent = [
            Record(b"", key=b"", timestamp=1),
            Record(bytes(range(256)), key=b"\x00\xff", timestamp=2**41),
            Record(b"x" * 70_000, key=b"k" * 300, timestamp=0),
            Record(b"same", key=b"k", timestamp=1),
        ]
        self.send_batch(partition, self.batch_of(*sent[:3]))
        self.send_batch(partition, self.batch_of(sent[3]))
        self.assertEqual(self.stored(partition), [_at(offset, each) for offset, each in enumerate(sent)])

    def test_null_keys(self) -> None:
        """No key is not an empty key."""
        self.need("null_keys", "records without a key")
        partition = self.create()
        self.send_batch(partition, self.batch_of(Record(b"a", key=None), Record(b"b", key=b"")))
        self.assertEqual([each.key for each in self.stored(partition)], [None, b""])

    def test_null_values(self) -> None:
        """No value is not an empty value."""
        self.need("null_values", "records without a value")
        partition = self.create()
        self.send_batch(partition, self.batch_of(Record(None, key=b"a"), Record(b"", key=b"b")))
        self.assertEqual(self.values(partition), [None, b""])

    def test_headers(self) -> None:
        """Headers are kept in order, repeated ones and those without a value included."""
        self.need("headers", "record headers")
        partition = self.create()
        headers = (("trace", b"1"), ("", b""), ("trace", None), ("größe", b"\xff"))
        self.send_batch(partition, self.batch_of(Record(b"a", key=b"k", headers=headers)))
        self.assertEqual([each.headers for each in self.stored(partition)], [headers])

    def test_compression(self) -> None:
        """A compressed batch is stored as it came, whatever the codec."""
        self.need("compression", "compressed batches")
        partition = self.create()
        values = [b"again and again " * 20] * 10
        for number, codec in enumerate(CODECS):
            sent = self.batch(*values, codec=codec)
            self.send_batch(partition, sent)
            (found,) = self.read_one(partition, number * len(values))
            self.assertEqual(found, sent.at(number * len(values), found.leader_epoch))
        self.assertEqual(self.values(partition), values * len(CODECS))

    def test_stamped_with_offset_and_epoch(self) -> None:
        """What is read bears the offset that was assigned, and the current leader epoch."""
        partition = self.create()
        for value in (b"a", b"b", b"c"):
            # As a client sends it, with an offset and an epoch of its own invention.
            batch = self.batch(value).at(base_offset=77, leader_epoch=-1)
            appended = self.send_batch(partition, batch)
            found = self.read_one(partition, appended.base_offset)[0]
            self.assertEqual(found.base_offset, appended.base_offset)
            self.assertEqual(found.leader_epoch, partition.leader_epoch)

    def test_log_append_time(self) -> None:
        """A batch that bears the time of its arrival is stored with that, and found by it."""
        partition = self.create(config={"message.timestamp.type": "LogAppendTime"})
        now_ms = self.environment.wall.now_ms()
        self.send_batch(partition, self.batch(b"a", b"b", at=5).with_append_time(now_ms))
        (found,) = self.read_one(partition, 0)
        if self.store.limits.timestamp_types:
            self.assertTrue(found.is_log_append_time)
        self.assertEqual([each.timestamp for each in self.stored(partition)], [now_ms, now_ms])
        self.assertEqual(self.finish(self.store.offset_for(partition, 6)).timestamp, now_ms)
        self.assertEqual(self.finish(self.store.offset_for(partition, now_ms + 1)).offset, -1)

    def test_keeps_no_view(self) -> None:
        """Once there is an answer, the caller may use the memory of the batch for something else."""
        partition = self.create()
        memory = bytearray(self.batch(b"precious").buffer)
        self.send_batch(partition, RecordBatch(memory))
        memory[:] = bytes(len(memory))
        self.assertEqual(self.values(partition), [b"precious"])
        self.settle()
        self.assertEqual(self.values(partition), [b"precious"])

    def test_batch_in_a_larger_buffer(self) -> None:
        """A batch may be a view on a part of a request."""
        partition = self.create()
        batch = self.batch(b"a", b"b")
        request = memoryview(b"before" + bytes(batch.buffer) + b"after")
        self.send_batch(partition, RecordBatch(request[6 : 6 + batch.size]))
        self.assertEqual(self.values(partition), [b"a", b"b"])

    def test_large_batch(self) -> None:
        """A batch may be larger than all the others together."""
        partition = self.create(config={"segment.bytes": "1000"})
        large = b"x" * 200_000
        for value in (b"a", large, b"b"):
            self.send(partition, value)
        self.assertEqual(self.values(partition), [b"a", large, b"b"])

    def test_many_batches(self) -> None:
        """Of many batches in small segments, none is lost, doubled or moved."""
        partition = self.create(config={"segment.bytes": "700", "index.interval.bytes": "200"})
        sent = [b"%d" % number for number in range(100)]
        for first in range(0, 100, 5):
            self.append(*[(partition, self.batch(each)) for each in sent[first : first + 5]])
        self.assertEqual(self.values(partition), sent)
        for offset in (0, 1, 37, 98, 99):
            batch = self.read_one(partition, offset, 1)[0]
            self.assertEqual(next(records.decode(batch, from_offset=offset)).value, sent[offset])

    # -- what is visible --

    def test_answered_is_visible(self) -> None:
        """Whoever hears that a batch is appended can read it in the same moment."""
        partition = self.create()
        visible: list[bool] = []

        def look(answers: list[Any]) -> None:
            visible.append(partition.high_watermark > answers[0].base_offset)

        for _ in range(10):
            self.finish(self.both(self.store.append([(partition, self.batch(b"a"))]), look))
        self.assertEqual(visible, [True] * 10)

    def both(self, answer: Any, function: Any) -> Any:
        """The answer, after the function has been called with it."""
        return deferred(answer).addCallback(lambda value: (function(value), value)[1])

    def test_high_watermark_never_decreases(self) -> None:
        """While appends are under way, what could be seen once stays seen, and nothing lies above it."""
        partition = self.create()
        pending = [self.store.append([(partition, self.batch(b"%d" % number))]) for number in range(20)]
        marks = [partition.high_watermark]
        for _ in range(LOOKS):
            (answer,) = self.read((partition, marks[-1], PLENTY))
            self.take(partition, answer)
            latest = self.finish(self.store.offset_for(partition, OffsetSpec.LATEST)).offset
            marks += [answer.high_watermark, latest, partition.high_watermark]
            self.pass_time(0.001)
        self.finish_all(pending)
        self.assertEqual(partition.high_watermark, 20)
        for before, after in pairwise(marks):
            self.assertLessEqual(before, after)

    def test_append_from_an_answer(self) -> None:
        """Who hears of one append may begin the next at once."""
        partition = self.create()
        values = [b"%d" % number for number in range(10)]
        left = iter(values)

        def next_one(_: object) -> Any:
            value = next(left, None)
            if value is None:
                return None
            return deferred(self.store.append([(partition, self.batch(value))])).addCallback(next_one)

        self.finish(next_one(None))
        self.assertEqual(self.values(partition), values)


def _at(offset: int, record: Record) -> Record:
    return Record(record.value, record.key, record.headers, record.timestamp, offset)
